# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key that a member asks its clients for, and the one that a router shows the engines: where each stands, in one table.

vLLM takes --api-key before VLLM_API_KEY, and guards /v1, /v2, /inference and /cohere with it. SGLang knows --api-key alone, and guards all
but health and metrics; SGLANG_API_KEY is how a spec tells its key to us where the engine reads it from a file (--config). vllm-router shows
OPENAI_API_KEY to engines and asks nobody for a key; sglang-router asks for --api-key and hands a client's key on. (Measured: vllm 0.32,
sglang 0.5.23, vllm-router 0.1.17, sglang-router 0.3.2.)"""

from __future__ import annotations

import typing as t

from ..base.arguments import options

FLAG = "api-key"
# What engines are told their key by, ...
VARIABLES = ("VLLM_API_KEY", "SGLANG_API_KEY")
# ... and what a router of the OpenAI API shows them.
SHOWN = "OPENAI_API_KEY"
# What an answer says that wants a key, or another one.
WANTS_KEY = (401, 403)

# Role -> the keys to try, the likeliest first. They are in no plan, result or message.
Keys = t.Mapping[str, t.Sequence[str]]


def of_flag(argv: t.Sequence[str]) -> tuple[str, ...]:
    """The keys on a command line; the last flag wins, and vLLM's takes several."""
    written = [option for option in options(argv) if option.name == FLAG]
    return tuple((written[-1].value or "").split()) if written else ()


def asked_by_engine(argv: t.Sequence[str], env: t.Mapping[str, str]) -> tuple[str, ...]:
    """The keys that an engine accepts; none where it asks for none."""
    return of_flag(argv) or tuple(env[name] for name in VARIABLES if env.get(name))[:1]


def asked_by_router(argv: t.Sequence[str], env: t.Mapping[str, str]) -> tuple[str, ...]:
    """What a router may want to see, the likeliest first: its own key, else one that the engines behind it accept."""
    return tuple(dict.fromkeys([*of_flag(argv), *(env[n] for n in (*VARIABLES, SHOWN) if env.get(n))]))
