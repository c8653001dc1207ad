# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TCP ports of this host: who listens where, and what the kernel may give to others."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import typing as t
from dataclasses import dataclass

from .._core.base.printable import printable
from . import processes

_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A listening socket. `pid` and `command` are None when another user's process holds it and we may not look."""

    port: int
    address: str
    uid: int
    inode: int
    pid: int | None = None
    command: str | None = None
    member: str | None = None

    @property
    def user(self) -> str:
        return processes.user_name(self.uid)

    def plain(self) -> dict[str, t.Any]:
        return {
            "port": self.port,
            "address": self.address,
            "pid": self.pid,
            "command": self.command,
            "user": self.user,
            "member": self.member,
        }

    @property
    def who(self) -> str:
        """Who holds it, for a message."""
        if self.member:
            return f"member {self.member}"
        return f"{self.command or 'a process'} (pid {self.pid or 'unknown'}, user {self.user})"


def parse(text: str) -> list[Listener]:
    """The listening sockets in the text of /proc/net/tcp or /proc/net/tcp6."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        address, _colon, port = fields[1].partition(":")
        with contextlib.suppress(ValueError):
            found.append(Listener(int(port, 16), _address(address), int(fields[7]), int(fields[9])))
    return found


def _address(text: str) -> str:
    """An address as /proc writes it: words of 32 bits in the host's byte order."""
    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def listening(only: t.Collection[int] | None = None, root: str = "/proc") -> list[Listener]:
    """The listening sockets of this host (of its network namespace), with who holds each, one per port and process."""
    found: list[Listener] = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"{root}/net/{name}", encoding="ascii") as stream:
            found += parse(stream.read())
    if only is not None:
        found = [f for f in found if f.port in only]
    holders = _holders({f.inode for f in found}, root)
    told: dict[tuple[int, int | None], Listener] = {}
    for listener in found:
        pid = holders.get(listener.inode)
        mark = processes.marker(pid, root) if pid else None
        # A member's arguments are in its label; another's command line helps to find whose it is.
        command = None if pid is None else _command(pid, root)
        # What no member of ours is called, a stranger has made up.
        member = mark[0] if mark and mark[0].isprintable() else None
        told.setdefault(
            (listener.port, pid),
            Listener(listener.port, listener.address, listener.uid, listener.inode, pid, command, member),
        )
    return sorted(told.values(), key=lambda f: (f.port, f.pid or 0))


def _command(pid: int, root: str) -> str | None:
    """The name of the program, without arguments: these may hold what is not ours to show."""
    line = processes.command_line(pid, root)
    first = line.split()[0] if line else ""
    process = processes.read(pid, root)
    name = os.path.basename(first) or (process.command if process else None)
    # A stranger names its process as it likes; this is shown on screens.
    return name and printable(name, 100)


def _holders(inodes: t.Collection[int], root: str) -> dict[int, int]:
    """Which process holds each socket. Stops as soon as all are found."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, int] = {}
    for name in sorted((n for n in os.listdir(root) if n.isdigit()), key=int):
        if len(found) == len(wanted):
            break
        try:
            descriptors = os.listdir(f"{root}/{name}/fd")
        except OSError:
            continue
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                inode = wanted.get(os.readlink(f"{root}/{name}/fd/{descriptor}"))
                if inode is not None:
                    found.setdefault(inode, int(name))
    return found


def busy(wanted: t.Collection[int]) -> dict[int, str]:
    """Those of the ports that cannot be listened on now, and why. Sees what no list shows: a client's socket that sits on one."""
    found: dict[int, str] = {}
    for held in listening(wanted):
        found.setdefault(held.port, held.who)
    for port in wanted:
        problem = "" if port in found else _cannot_bind(port)
        if problem:
            found[port] = problem
    return found


def _cannot_bind(port: int) -> str:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        with probe:
            # As servers do: a connection that has just been closed is no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except PermissionError:
                return "nobody, but only root may listen on it"
            except OSError as exc:
                if exc.errno == errno.EADDRINUSE:
                    return "an outgoing connection, or a socket bound without listening (see ss -tanp)"
    return ""


def kernel_ranges(root: str = "/proc") -> dict[str, t.Any]:
    """The range that the kernel takes ports for outgoing connections from, and those that it leaves out."""
    low, high = (_sysctl("ip_local_port_range", root) or "32768 60999").split()[:2]
    return {"ephemeral": [int(low), int(high)], "reserved": _sysctl("ip_local_reserved_ports", root)}


def exposed(low: int, high: int, kernel: t.Mapping[str, t.Any]) -> int:
    """How many ports of a range an outgoing connection could sit on when a member wants to listen there."""
    reserved: set[int] = set()
    for word in filter(None, str(kernel["reserved"]).split(",")):
        first, _dash, last = word.partition("-")
        with contextlib.suppress(ValueError):
            reserved |= set(range(int(first), int(last or first) + 1))
    first_port, last_port = kernel["ephemeral"]
    return sum(1 for port in range(max(low, first_port), min(high, last_port) + 1) if port not in reserved)


def _sysctl(name: str, root: str) -> str:
    try:
        with open(f"{root}/sys/net/ipv4/{name}", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""
