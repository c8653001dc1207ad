# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter runtime_traits: what roles ask of a plan's runtime, instead of comparing its name."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.runtimes.table import traits_of


def runtime_traits(name: str) -> dict[str, t.Any]:
    """The traits of a runtime by name, as a dictionary."""
    try:
        return dataclasses.asdict(traits_of(str(name)))
    except PdError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"runtime_traits": runtime_traits}
