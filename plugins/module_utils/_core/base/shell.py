# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a shell would replace, in a text that no shell reads: where it is, and what a spec has for it.

Members are started without a shell: a command line pasted from a script keeps its `$HOST_IP` and `$(hostname -I)` as they are written."""

from __future__ import annotations

import re

# Words of a name that is a secret's. `token` alone is none: engines count tokens.
_SECRET = re.compile(
    r"(^|[-_])(api[-_]?keys?|(access|auth|bearer|hf|hub)[-_]?token|passw(or)?d|passphrase|secret([-_]?(access[-_]?)?key)?)$"
    r"|^token$",
    re.I,
)
_FILE = re.compile(r"[-_](file|path|env)$", re.I)
# A variable's name, as scripts write them; `$schema` in a JSON value is none.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*(:?[-=?+].*|[#%/,^].*)?|[0-9@*#]", re.S)
_EXPRESSION = re.compile(
    r"\$\((?P<command>[^()]*(?:\([^()]*\)[^()]*)*)\)|`(?P<old>[^`]+)`|\$(?P<name>[A-Z_][A-Z0-9_]*|[0-9@*])(?![\w{])"
    r"|\$\{(?P<braced>[^}]*)\}"
)
# What stands in a spec for what scripts ask a shell for; the first that fits.
_INSTEAD: tuple[tuple[str, str], ...] = (
    (
        r"(.*_)?(IP|IP_?ADDR(ESS)?|ADDR(ESS)?)|hostname -[iI].*|ip .*|ifconfig.*",
        "Write ${member.kv_address}, the member's address on its KV interface, or ${member.address}, where it serves HTTP.",
    ),
    (r"(HOST|NODE|POD)_?NAME|hostname.*|uname -n", "Write ${member.host}."),
    (r"(.*_)?MODEL(_?(PATH|NAME|DIR|ID|FILE))?", "Write the group's model; ${model} is its path."),
    (r"(.*_)?PORTS?(_(BASE|START))?", "Leave it out, or write ${port}: ports are the plan's."),
    (
        r"(.*_)?(IFNAME|NIC|IFACE|INTERFACE|NET_?DEV(ICES?)?)",
        "Write ${member.kv_interface}; pd_kv_interface names it for each host.",
    ),
    (
        r"(.*_)?((CUDA|HIP|ASCEND|NVIDIA)_.*DEVICES?|GPUS?|GPU_IDS?|DEVICES?)",
        "Leave it out: which GPUs a member has is the plan's.",
    ),
)


def is_secret(name: str) -> bool:
    """Whether a variable or flag, by its name, is a secret's."""
    return bool(_SECRET.search(name)) and not _FILE.search(name)


def is_variable(name: str) -> bool:
    """Whether what stands between `${` and `}` is a shell's: HOST_IP, PORT:-8000."""
    return _VARIABLE.fullmatch(name) is not None


def expressions(text: str) -> list[str]:
    """What a shell would replace in a text: the names of variables, and commands. `${...}` with a name that no script has is none."""
    found = []
    for match in _EXPRESSION.finditer(text):
        braced = match["braced"]
        if braced is not None and not is_variable(braced):
            continue
        found.append(next(part for part in (match["command"], match["old"], match["name"], braced) if part is not None))
    return found


def instead(expression: str) -> str:
    """What a spec has for a variable or a command."""
    name = re.split(r"[:\-=?+#%/,^]", expression)[0] if is_variable(expression) else expression.strip()
    if is_secret(name):
        return f'Write the secret as a variable of the engine: secrets: {{{name}: "{{{{ vault_{name.lower()} }}}}"}}, and remove the flag.'
    for form, text in _INSTEAD:
        if re.fullmatch(form, name):
            return text
    return "Write its value, or a variable of the inventory in double braces."
