# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files of hooks say: each kind's text after what it is told, made of the text that there is. A file of ours is read back, so that
what others wrote into it meanwhile stays."""

from __future__ import annotations

import json
import re
import typing as t

from ..base.address import bracketed, split
from ..base.errors import PdError
from .hook import Act

HEAD = "# Written by inferops.pd for hook {name}: what stands here by hand is lost."
_INDENT = "    "


def text_after(act: Act, before: str | None) -> str | None:
    """The text of the act's file once it is done, None for no file. `before` is what stands there, None where there is none. Raises PdError
    for what cannot be read back."""
    return _TEXTS[act.hook.kind](act, before)


# -- haproxy -------------------------------------------------------------------------------------------------------------------------

_SERVER = re.compile(r"\s*server\s+(\S+)\s+(\S+)\s+weight\s+(\d{1,3})(\s+disabled)?\s*")


class Server(t.NamedTuple):
    """One `server` line of ours. `place` is HOST:PORT; `disabled`: it starts out of service."""

    name: str
    place: str
    weight: int
    disabled: bool = False

    @property
    def line(self) -> str:
        return f"server {self.name} {self.place} weight {self.weight}" + (" disabled" if self.disabled else "")


def servers_of(text: str, path: str) -> list[Server]:
    """The servers of a section that we wrote. Raises PdError for one that is none of ours: its options would be lost."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not re.match(r"\s*server\s", line):
            continue
        match = _SERVER.fullmatch(line)
        if match is None or split(match[2]) is None:
            raise PdError(
                f"{path}, line {number}: this server is none of ours. The file is the hook's alone: move what is yours into lines of the"
                " hook (default-server for options of all servers), or into a file of your own."
            )
        found.append(Server(match[1], match[2], int(match[3]), bool(match[4])))
    return found


def section(act: Act, servers: t.Iterable[Server]) -> str:
    """The whole section: the user's lines, then the servers by name."""
    hook = act.hook
    lines = [HEAD.format(name=hook.name), f"backend {hook.backend}"]
    lines += [_INDENT + line.strip() for line in hook.lines]
    lines += [_INDENT + one.line for one in sorted(servers)]
    return "\n".join(lines) + "\n"


def _haproxy(act: Act, before: str | None) -> str | None:
    servers = {one.name: one for one in servers_of(before or "", act.path)}
    if not act.hook.backend:
        return _left(act, before or "")
    known = servers.get(act.group)
    if act.event == "in":
        host, port = act.place
        servers[act.group] = Server(act.group, f"{bracketed(host)}:{port}", act.weight)
    elif act.gone:
        servers.pop(act.group, None)
    elif known is not None:
        servers[act.group] = known._replace(disabled=True)
    if before is None and act.event == "out":
        return None
    # A frontend may name it, and would not start without: the last server takes no section with it.
    return section(act, servers.values())


def _left(act: Act, before: str) -> str | None:
    """A file that was the hook's before: it stays as it is for those who have not moved yet."""
    rest = [line for line in before.splitlines(True) if line.split()[:2] != ["server", act.group]]
    return "".join(rest) if any(_SERVER.fullmatch(line.rstrip("\n")) for line in rest) else None


def same_lines(before: str | None, after: str | None) -> bool:
    """Whether two texts of a section differ in their servers alone: that much can be told to a running HAProxy."""

    def rest(text: str) -> list[str]:
        return [line.strip() for line in text.splitlines() if not _SERVER.fullmatch(line) and not line.startswith("#")]

    return before is not None and after is not None and rest(before) == rest(after)


# -- nginx ---------------------------------------------------------------------------------------------------------------------------


def _nginx(act: Act, before: str | None) -> str | None:
    """A line for the upstream that includes it. nginx has no weight of zero, and no group is `down` in its place."""
    if act.event == "out":
        if act.gone or before is None:
            return None
        return re.sub(r"(?m)^(server [^;]*?)( down)?;$", r"\1 down;", before)
    host, port = act.place
    weight = f"weight={act.weight}" if act.weight else "down"
    return f"{HEAD.format(name=act.hook.name)}\nserver {bracketed(host)}:{port} {weight};\n"


# -- file_sd -------------------------------------------------------------------------------------------------------------------------


def _file_sd(act: Act, before: str | None) -> str | None:
    """A list of one target. While the group is out the list is empty: the file stays, since what watches it may not see it come back."""
    if act.event == "out":
        return None if act.gone or before is None else "[]\n"
    host, port = act.place
    labels = {"pd_group": act.group, "pd_model": act.model, "pd_weight": str(act.weight), **act.hook.labels}
    told = [{"targets": [f"{bracketed(host)}:{port}"], "labels": labels}]
    return json.dumps(told, indent=2, sort_keys=True) + "\n"


_TEXTS: dict[str, t.Callable[[Act, str | None], str | None]] = {
    "haproxy": _haproxy,
    "nginx": _nginx,
    "file_sd": _file_sd,
}
