# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of supervisord: its own file, and one file for each member."""

from __future__ import annotations

import hashlib
import os
import shlex
import typing as t

from .guard import REFUSED

LOG_SIZE = "50MB"
LOG_BACKUPS = 3
# sun_path holds 108 bytes with its NUL; supervisord binds a name with ".<pid>" appended first, then renames it.
SOCKET_LIMIT = 107 - 8
# Without a restart rule a process counts as started after this many seconds.
DEFAULT_WINDOW = 10
# Exit statuses after which nothing is started again.
EXPECTED = (0, REFUSED)


def socket_path(directory: str, uid: int) -> str:
    """Where supervisord listens: in its directory, or, where that makes too long a path, in a short one of the same user."""
    path = os.path.join(directory, "supervisord.sock")
    if len(os.fsencode(path)) <= SOCKET_LIMIT:
        return path
    short = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return os.path.join("/run" if uid == 0 else "/tmp", f"inferops-pd-{uid}-{short}", "supervisord.sock")


def render_main(directory: str, socket: str) -> str:
    d, s = escape(directory), escape(socket)
    return f"""; Written by the Ansible collection inferops.pd. Members are in members.d, one file each.
[unix_http_server]
file={s}
chmod=0600

[supervisord]
logfile={d}/supervisord.log
logfile_maxbytes=10MB
logfile_backups=2
pidfile={d}/supervisord.pid
childlogdir={d}
umask=077
nodaemon=false
identifier=inferops-pd

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[include]
files = {d}/members.d/*.conf
"""


def render_member(name: str, directory: str, log: str, restart: t.Mapping[str, t.Any], grace: float) -> str:
    """One member as a program. It never starts by itself: neither at boot nor when supervisord is started again.

    Its environment comes from its own `run` alone: what marks its processes must not mark the script, which ends leftovers by that mark.
    A start that the guard refuses is over at once, and within startsecs supervisord counts every end as a failed start, whatever its
    status: it tries `startretries` times more, each is refused before anything is executed, then it gives up. Later that status is an
    expected one."""
    attempts = max(0, int(restart.get("attempts") or 0))
    window = max(1, int(restart.get("window") or DEFAULT_WINDOW))
    return f"""[program:{name}]
command=/bin/sh {escape(shlex.quote(os.path.join(directory, "run")))}
directory={escape(directory)}
autostart=false
autorestart={"unexpected" if attempts else "false"}
exitcodes={",".join(map(str, EXPECTED))}
startsecs={window}
startretries={attempts}
stopsignal=TERM
stopwaitsecs={max(1, round(grace))}
stopasgroup=true
killasgroup=true
redirect_stderr=true
stdout_logfile={escape(log)}
stdout_logfile_maxbytes={LOG_SIZE}
stdout_logfile_backups={LOG_BACKUPS}
"""


def escape(text: str) -> str:
    """A value in supervisord's configuration, where a percent sign begins an expansion."""
    return text.replace("%", "%%")
