# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a boot of the host means for a member: it does not come back by itself, under no runtime. Alone it would not know its peers, and
these may have been formed anew meanwhile."""

from __future__ import annotations

import time

from .._probes import processes

# What a container's start script says that dockerd starts again after a boot (docker_spec.render_start).
REFUSED = "the host was booted since this member was created"


def since(started: float | None, boot: str | None = None) -> bool:
    """Whether the host has booted since a start: by its time, unless it was in this very boot, whatever a clock that was set says. Another
    boot alone says nothing: in a container that has systemd, a unit may see the boot of the machine below."""
    now = processes.boot_id()
    if boot and boot == now:
        return False
    return bool(started and started < processes.boot_time())


def told() -> str:
    """Why a member is down that ran before the boot."""
    when = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(processes.boot_time()))
    return f"the host booted at {when}, and no member starts by itself then; deploy starts it again"
