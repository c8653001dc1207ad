# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container runtime for machines that may not grant everything: asks runc for no more than this machine has.

Capabilities outside the bounding set, limits above the hard limit and a lowered OOM score are what a sandbox refuses. What was asked for
stays in `docker inspect`; only the bundle's config.json is changed, then runc takes over."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys

FIRST = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT "
    "SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP "
    "MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)


def granted():
    with open("/proc/self/status") as status:
        mask = next(int(line.split()[1], 16) for line in status if line.startswith("CapBnd"))
    return {f"CAP_{name}" for bit, name in enumerate(FIRST.split()) if mask >> bit & 1}


def clamp(process):
    mine = granted()
    for kind, wanted in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in wanted or () if name in mine]
    for limit in process.get("rlimits") or ():
        hard = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if hard != resource.RLIM_INFINITY:
            limit.update(soft=min(limit["soft"], hard), hard=min(limit["hard"], hard))
    if "oomScoreAdj" in process:
        with open("/proc/self/oom_score_adj") as score:
            process["oomScoreAdj"] = max(process["oomScoreAdj"], int(score.read()))


def option(words, *names):
    return next((words[i + 1] for i, word in enumerate(words[:-1]) if word in names), None)


def main():
    words = sys.argv[1:]
    path = None
    if {"create", "run"} & set(words):
        path = os.path.join(option(words, "--bundle", "-b") or ".", "config.json")
    elif "exec" in words:
        path = option(words, "--process", "-p")
    if path and os.path.exists(path):
        with open(path) as stream:
            config = json.load(stream)
        clamp(config.get("process", config))
        with open(path, "w") as stream:
            json.dump(config, stream)
    os.execv(shutil.which("runc", path="/usr/bin:/usr/sbin:/usr/local/bin:/usr/local/sbin"), ["runc", *words])


main()
