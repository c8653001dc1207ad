# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets at a place where plans, diffs, records and the host's process list show them. Their values are in no message."""

from __future__ import annotations

import re

from ..base.arguments import options, tokens
from ..base.finding import Findings
from ..spec.spec import Group

# Words of a name that is a secret's. `token` alone is none: engines count tokens.
_SECRET = re.compile(
    r"(^|[-_])(api[-_]keys?|(access|auth|bearer|hf|hub)[-_]token|passw(or)?d|passphrase|secret([-_]key)?)$", re.I
)
_FILE = re.compile(r"[-_](file|path|env)$", re.I)


def check(group: Group, findings: Findings) -> None:
    """A secret in `args` or `env` of a role, whose args can be read. `secrets` is where it belongs: only its name goes further."""
    told: set[tuple[str, str]] = set()
    for role in group.roles.values():
        flags = [o.flag.lstrip("-") for o in options(tokens(role.args, role.args_place)) if o.value]
        at_role = role.own & {"env", "extra_env"}
        env = f"roles.{role.name}.env" if at_role else "engine.env"
        for place, names in ((role.args_place, flags), (env, [name for name, value in role.env.items() if value])):
            for name in names:
                if not _SECRET.search(name) or _FILE.search(name) or (place, name) in told:
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
