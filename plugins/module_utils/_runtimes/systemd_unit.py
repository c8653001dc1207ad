# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member as a unit of systemd."""

from __future__ import annotations

import os
import re

from .._core.base.plain import Plain
from .._core.work.member import Member, Part
from .guard import REFUSED
from .state import write

PREFIX = "inferops-pd-"
# Without a restart rule nothing is counted; systemd wants a number all the same.
DEFAULT_WINDOW = 10
_LOCKED = re.compile(r"^Max locked memory\s+(\S+)\s", re.M)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])?(i)?B?")

# Not set, each for a reason: what closes /dev (PrivateDevices, DevicePolicy, and ProtectClock, which implies one) hides GPUs and
# /dev/infiniband; ProtectKernelModules keeps CUDA from loading its module at first use; PrivateTmp and PrivateIPC part members of a host
# that share memory; MemoryDenyWriteExecute stops compilers of kernels.
_HARDENING = """\
NoNewPrivileges=yes
ProtectSystem=full
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelTunables=yes
LockPersonality=yes
RestrictSUIDSGID=yes
"""


def unit_name(member: str) -> str:
    return f"{PREFIX}{member}.service"


def render(
    member: Member, part: Part, group: str, directory: str, state_dir: str, user: bool, log: str | None = None
) -> str:
    """The unit of one member. It is started by the collection alone: it belongs to no target, so a host that boots starts none.

    Its environment comes from its own `run`: what marks its processes must not mark the script, which ends leftovers by that mark; and no
    value, whatever is in it, has a meaning there. It is `simple`, so that a member which ends at once is told by who waits for it, with its
    log, like one that ends later. `log` is a file to log to, instead of the journal."""
    name, restart, grace = member.id, member.restart, member.stop.patience
    attempts = max(0, int(restart.get("attempts") or 0))
    # Counted are starts. One that takes most of a window and fails must still count when the next one fails as late.
    interval = max(1, int(restart.get("window") or DEFAULT_WINDOW)) * (attempts + 1)
    output = f"append:{escape(log)}" if log else "journal"
    limits = _limits(part.limits)
    return f"""# Written by the Ansible collection inferops.pd; edits are lost when the member is created again.
[Unit]
Description=Member {name} of the prefill/decode group {group}
After=network-online.target
StartLimitIntervalSec={interval if attempts else 0}
StartLimitBurst={attempts + 1}

[Service]
Type=simple
ExecStart=/bin/sh {escape(os.path.join(directory, "run"))}
WorkingDirectory={escape(directory)}
Restart={"on-failure" if attempts else "no"}
RestartPreventExitStatus={REFUSED}
RestartSec=1
KillMode=control-group
TimeoutStopSec={max(1, round(grace))}
StandardOutput={output}
StandardError=inherit
SyslogIdentifier={PREFIX}{name}
UMask=0077
# RDMA pins memory. What cannot be granted is granted as far as it goes.
LimitMEMLOCK=infinity
LimitNOFILE=1048576
TasksMax=infinity
{limits}{"" if user else _HARDENING}
[X-Inferops-pd]
Group={group}
Member={name}
State={state_dir}
"""


def belongs_to(text: str) -> str | None:
    """The state directory that a unit file of ours says it belongs to; None when it is not ours."""
    return marks_of(text).get("State")


def marks_of(text: str) -> dict[str, str]:
    """What a unit file of ours says of itself: Group, Member and State."""
    found = re.search(r"^\[X-Inferops-pd\]\n((?:.+\n?)*)", text, re.M)
    return dict(line.split("=", 1) for line in found[1].splitlines() if "=" in line) if found else {}


def escape(text: str) -> str:
    """A value in a unit file, where a percent sign begins a specifier."""
    return text.replace("%", "%%")


def _limits(limits: Plain) -> str:
    """The router's limits; engines have none."""
    lines = []
    if limits.get("cpu"):
        lines.append(f"CPUQuota={round(float(limits['cpu']) * 100)}%")
    if limits.get("memory"):
        lines.append(f"MemoryMax={_bytes(str(limits['memory']))}")
    return "".join(f"{line}\n" for line in lines)


def _bytes(text: str) -> int:
    found = _AMOUNT.fullmatch(text.strip())
    if not found:
        return 0
    amount, unit, binary = found.groups()
    return round(float(amount) * (1024 if binary else 1000) ** (" KMGT".index(unit) if unit else 0))


def memlock(limits: str) -> int | None:
    """What /proc/PID/limits says of locked memory, in bytes; None for unlimited, or when it does not say."""
    found = _LOCKED.search(limits)
    return int(found[1]) if found and found[1].isdigit() else None


def parse_show(text: str) -> dict[str, dict[str, str]]:
    """What `systemctl show` says of several units, by unit."""
    found = {}
    for block in text.split("\n\n"):
        told = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if told.get("Id"):
            found[told["Id"]] = told
    return found


def put(path: str, text: str) -> bool:
    """Write a unit file. Returns whether there was one of that name, which systemd may know."""
    there = os.path.exists(path)
    write(path, text, 0o644)
    return there
