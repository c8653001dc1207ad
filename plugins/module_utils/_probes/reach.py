# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reaching other hosts, and how fast: short-lived listeners that know a token, and what connects to them.

One line is asked, one is answered. A listener is on its own in a process that ends by itself: when all who were expected have said that
they are done, when it is told to end, or at its deadline.

    TOKEN PING         the time here
    TOKEN TAKE         OK or BUSY: whoever has it may measure, as long as the connection lives; one at a time on a host
    TOKEN SINK         reads to the end of the stream, and says how many bytes that were
    TOKEN DONE NAME    NAME needs the listener no more
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import random
import selectors
import signal
import socket
import threading
import time
import typing as t
from dataclasses import dataclass, field

from . import processes

# More listening sockets than this are no more telling, and files are few.
MAX_SOCKETS = 400
LINE = 256
CHUNK = 1 << 18
CONNECT_TIMEOUT = 2.0
STALL = 5.0
STREAMS = 4
# What a socket tells of the path behind it (linux/in.h, in6.h).
_IP_MTU, _IPV6_MTU = 14, 24


@dataclass
class Bound:
    """What a listener has got: the high port on each address, the ports that it listens on, and why not on others."""

    random: dict[str, int] = field(default_factory=dict)
    ports: dict[str, list[int]] = field(default_factory=dict)
    refused: list[dict[str, t.Any]] = field(default_factory=list)

    def plain(self) -> dict[str, t.Any]:
        return {"random": self.random, "ports": self.ports, "refused": self.refused}


# -- listening ------------------------------------------------------------------------------------------------------------------------


class Listener:
    """Listens on planned ports and on a high one an address."""

    def __init__(self, token: str, expect: t.Iterable[str], seconds: float) -> None:
        self.token = token
        self.expect = set(expect)
        self.end = time.monotonic() + seconds
        self.sockets: list[socket.socket] = []
        self._measuring = threading.Lock()
        self._stopped = threading.Event()
        self._slots = threading.BoundedSemaphore(64)

    def bind(self, ports: t.Mapping[str, t.Sequence[int]], high: t.Sequence[str]) -> Bound:
        """Listen; what cannot be listened on is told, not raised."""
        bound = Bound()
        for address in dict.fromkeys(high):
            made, why = self._listen(address, 0)
            if made:
                bound.random[address] = made.getsockname()[1]
            else:
                bound.refused.append({"address": address, "port": 0, **why})
        for address, wanted in ports.items():
            for port in wanted:
                if len(self.sockets) >= MAX_SOCKETS:
                    return bound
                made, why = self._listen(address, port)
                if made:
                    bound.ports.setdefault(address, []).append(port)
                else:
                    bound.refused.append({"address": address, "port": port, **why})
        return bound

    def _listen(self, address: str, port: int) -> tuple[socket.socket | None, dict[str, str]]:
        made = None
        try:
            made = socket.socket(family(address), socket.SOCK_STREAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
            made.listen(64)
        except OSError as exc:
            if made:
                made.close()
            return None, {"code": errno.errorcode.get(exc.errno or 0, ""), "why": str(exc.strerror or exc)}
        self.sockets.append(made)
        return made, {}

    def detach(self, name: str) -> int | None:
        """Serve in a process of its own and of that name, which holds nothing of the caller's but the sockets. Returns its pid; None where
        there is nothing to listen on."""
        if not self.sockets:
            return None
        told, tell = os.pipe()
        child = os.fork()
        if child:
            os.close(tell)
            os.waitpid(child, 0)
            self.close()
            with os.fdopen(told) as stream:
                return int(stream.read() or 0) or None
        try:
            os.setsid()
            grandchild = os.fork()
            if grandchild:
                os.write(tell, str(grandchild).encode())
                os._exit(0)
            os.chdir("/")
            with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as stream:
                stream.write(name)
            keep = {s.fileno() for s in self.sockets}
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            for name in os.listdir("/proc/self/fd"):
                if int(name) > 2 and int(name) not in keep:
                    with contextlib.suppress(OSError):
                        os.close(int(name))
            self.serve()
        finally:
            os._exit(0)

    def serve(self) -> None:
        """Answer until nobody needs it any more."""
        with selectors.DefaultSelector() as waiting:
            for one in self.sockets:
                one.setblocking(False)
                waiting.register(one, selectors.EVENT_READ)
            while not self._stopped.is_set() and time.monotonic() < self.end:
                for key, _mask in waiting.select(0.2):
                    with contextlib.suppress(OSError):
                        connection, _peer = t.cast(socket.socket, key.fileobj).accept()
                        self._hand_over(connection)
        self.close()

    def close(self) -> None:
        for one in self.sockets:
            one.close()
        self.sockets = []

    def _hand_over(self, connection: socket.socket) -> None:
        if not self._slots.acquire(blocking=False):
            connection.close()
            return
        threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError, ValueError):
                connection.setblocking(True)
                connection.settimeout(STALL)
                token, verb, name = (_line(connection) + "  ").split(" ")[:3]
                if hmac.compare_digest(token.encode(), self.token.encode()):
                    self._act(connection, verb, name)
        finally:
            self._slots.release()

    def _act(self, connection: socket.socket, verb: str, name: str) -> None:
        if verb == "PING":
            connection.sendall(f"{time.time():.6f}\n".encode())
        elif verb == "TAKE":
            self._lend(connection)
        elif verb == "SINK":
            connection.sendall(f"{_drain(connection)}\n".encode())
        elif verb == "DONE":
            connection.sendall(b"OK\n")
            self.expect.discard(name)
            if not self.expect:
                self._stopped.set()

    def _lend(self, connection: socket.socket) -> None:
        if not self._measuring.acquire(blocking=False):
            connection.sendall(b"BUSY\n")
            return
        try:
            connection.sendall(b"OK\n")
            connection.settimeout(4 * STALL)
            connection.recv(1)
        finally:
            self._measuring.release()


def end(pid: int, name: str, proc: str = "/proc", patience: float = 3.0) -> bool:
    """End a listener by the name that it was given; whether it is gone. A process of another name has only got its pid."""
    deadline = time.monotonic() + patience
    while (found := processes.read(pid, proc)) and found.command == name:
        if time.monotonic() > deadline:
            return False
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return True


def end_left(machine: str, living: t.Container[str], proc: str = "/proc") -> list[int]:
    """End the listeners of preflights that were interrupted: whose run was one of that machine, and does not live any more."""
    found = [p for p in processes.table(proc).values() if p.command.startswith(machine) and p.command not in living]
    return [p.pid for p in found if end(p.pid, p.command, proc)]


def _line(connection: socket.socket) -> str:
    """One line, read byte by byte: what follows it is not ours."""
    got = b""
    while len(got) < LINE:
        byte = connection.recv(1)
        if byte in (b"", b"\n"):
            break
        got += byte
    return got.decode("utf-8", "replace")


def _drain(connection: socket.socket) -> int:
    buffer, total = bytearray(CHUNK), 0
    while True:
        got = connection.recv_into(buffer)
        if not got:
            return total
        total += got


# -- connecting -----------------------------------------------------------------------------------------------------------------------


def connect(address: str, port: int, source: str | None = None, timeout: float = CONNECT_TIMEOUT) -> socket.socket:
    """A connection, from `source` where it is given. Raises OSError."""
    made = socket.socket(family(address), socket.SOCK_STREAM)
    try:
        made.settimeout(timeout)
        if source and family(source) == family(address):
            made.bind((source, 0))
        made.connect((address, port))
    except OSError:
        made.close()
        raise
    return made


def ask(address: str, port: int, token: str, words: str, source: str | None = None) -> str:
    """One question to a listener. Raises OSError; an empty answer is none of ours."""
    with connect(address, port, source) as connection:
        connection.settimeout(CONNECT_TIMEOUT)
        connection.sendall(f"{token} {words}\n".encode())
        return _line(connection)


def try_port(address: str, port: int, token: str | None, source: str | None = None) -> dict[str, t.Any]:
    """Whether a port is reached: {} or {why, kind, clock}. Without a token whoever listens there will do."""
    began = time.time()
    try:
        if token is None:
            connect(address, port, source).close()
            return {}
        answer = ask(address, port, token, "PING", source)
    except OSError as exc:
        kind, why = explain(exc)
        return {"kind": kind, "why": why}
    ended = time.time()
    try:
        return {"clock": float(answer) - (began + ended) / 2, "within": (ended - began) / 2}
    except ValueError:
        return {"kind": "other", "why": "something else answers there"}


def explain(exc: OSError) -> tuple[str, str]:
    """What a failed connection means, in a word and in a sentence."""
    if isinstance(exc, socket.timeout) or exc.errno == errno.ETIMEDOUT:
        return "dropped", "no answer: packets are dropped on the way"
    if exc.errno == errno.ECONNREFUSED:
        return "refused", "refused, though somebody listens there"
    if exc.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM):
        return "unreachable", f"{exc.strerror}: no route, or a firewall says no"
    if exc.errno in (errno.ECONNRESET, errno.EPIPE):
        return "reset", "cut off after it was accepted"
    return "failed", str(exc.strerror or exc)


def path_mtu(address: str, port: int, source: str | None = None) -> int | None:
    """The MTU that this host believes the path to have."""
    option = (socket.IPPROTO_IPV6, _IPV6_MTU) if ":" in address else (socket.IPPROTO_IP, _IP_MTU)
    try:
        with connect(address, port, source) as connection:
            return connection.getsockopt(*option)
    except OSError:
        return None


# -- measuring ------------------------------------------------------------------------------------------------------------------------


def bandwidth(
    own: tuple[str, int] | None, peer: tuple[str, int], token: str, seconds: float = 1.0, patience: float = 12.0
) -> dict[str, t.Any]:
    """What TCP moves from here to the peer: {bytes, seconds} or {why}. Both hosts are taken for as long, so that nobody measures
    himself against another's measurement; who does not get both gives back what he has, and tries again."""
    end = time.monotonic() + patience
    why = "both hosts were never free for it at once"
    while time.monotonic() < end:
        with contextlib.ExitStack() as held:
            try:
                if all(_take(held, place, token) for place in (own, peer) if place):
                    return _send(peer, token, own[0] if own else None, seconds)
            except OSError as exc:
                return {"why": explain(exc)[1]}
        time.sleep(random.uniform(0.05, 0.35))
    return {"why": why}


def _take(held: contextlib.ExitStack, place: tuple[str, int], token: str) -> bool:
    connection = held.enter_context(connect(*place))
    connection.sendall(f"{token} TAKE\n".encode())
    return _line(connection) == "OK"


def _send(peer: tuple[str, int], token: str, source: str | None, seconds: float) -> dict[str, t.Any]:
    started = time.monotonic()
    totals: list[int] = []
    problems: list[str] = []

    def stream() -> None:
        try:
            with connect(*peer, source) as connection:
                connection.settimeout(STALL)
                connection.sendall(f"{token} SINK\n".encode())
                block = memoryview(bytes(CHUNK))
                while time.monotonic() < started + seconds:
                    connection.sendall(block)
                connection.shutdown(socket.SHUT_WR)
                totals.append(int(_line(connection) or 0))
        except socket.timeout:
            problems.append(f"the transfer stalled for {STALL:g} s: large packets do not get through")
        except (OSError, ValueError) as exc:
            problems.append(str(exc))

    threads = [threading.Thread(target=stream, daemon=True) for _number in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not totals or not sum(totals):
        return {"why": problems[0] if problems else "nothing arrived", "stalled": any("stalled" in p for p in problems)}
    return {"bytes": sum(totals), "seconds": round(time.monotonic() - started, 3)}


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
