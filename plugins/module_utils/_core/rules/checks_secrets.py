# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets at a place where plans, diffs, records and the host's process list show them. Their values are in no message."""

from __future__ import annotations

from ..base.arguments import options, tokens
from ..base.finding import Findings
from ..base.shell import is_secret
from ..spec.spec import Group


def check(group: Group, findings: Findings) -> None:
    """A secret in `args` or `env` of a role, whose args can be read. `secrets` is where it belongs: only its name goes further."""
    told: set[tuple[str, str]] = set()
    for role in group.roles.values():
        flags = [o.flag.lstrip("-") for o in options(tokens(role.args, role.args_place)) if o.value]
        found = [(role.flag_place(name), name) for name in flags]
        found += [(role.env_place(name).rpartition(".")[0], name) for name, value in role.env.items() if value]
        for place, name in found:
            if not is_secret(name) or (place, name) in told:
                continue
            told.add((place, name))
            findings.warning(
                "secret-in-plain-sight",
                f"{place}: {name} looks like a secret. Plans, diffs and records show it there"
                + (", and so does the list of processes on the host." if place.endswith("args") else "."),
                "Give it as a variable of the engine under secrets (engine.secrets or the role's own): that goes into the member's"
                " environment and nowhere else. vLLM reads VLLM_API_KEY, and the vLLM router OPENAI_API_KEY.",
                [role.name],
            )
