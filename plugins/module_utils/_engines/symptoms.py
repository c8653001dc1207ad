# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The symptoms of every engine's log, by backend name: the registry's other half, which hosts are shipped without the first.

Every engine has a row, so that none is forgotten. What carries the KV cache speaks in the log of the engine that uses it: an engine's own
rows come first."""

from __future__ import annotations

from .._core.watch.symptom import Symptom
from . import ascend_symptoms, sglang_symptoms, transfer_symptoms, vllm_symptoms

BY_BACKEND: dict[str, tuple[Symptom, ...]] = {
    "vLLM": (*vllm_symptoms.SYMPTOMS, *ascend_symptoms.SYMPTOMS, *transfer_symptoms.SYMPTOMS),
    "SGLang": (*sglang_symptoms.SYMPTOMS, *ascend_symptoms.SYMPTOMS, *transfer_symptoms.SYMPTOMS),
    "Custom": transfer_symptoms.SYMPTOMS,
}


def of_engine(backend: str | None) -> tuple[Symptom, ...]:
    """What the log of an engine can show beside what any program's can."""
    return BY_BACKEND.get(backend or "", ())
