# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection whose whole life has one deadline, and which gives only so many bytes.

A socket's own timeout begins anew with each byte: a server that sends one a second is read for ever by it."""

from __future__ import annotations

import contextlib
import io
import socket
import ssl
import time
import typing as t

from .deadline import Look


class TooMuchError(OSError):
    """The other side has sent more than anybody asked for."""


class Clock:
    """What is left of a call, and whether anything has come yet."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.heard = False

    def left(self) -> float:
        """Seconds. Raises TimeoutError when there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise socket.timeout("the time is over")
        return seconds


class Line:
    """One connection as http.client uses one: it reads by `makefile`, and writes by `sendall`."""

    def __init__(self, sock: socket.socket, clock: Clock, limit: int) -> None:
        self._sock, self._clock, self._limit = sock, clock, limit

    def sendall(self, data: bytes) -> None:
        # A timeout of sendall is one for all of it.
        self._sock.settimeout(self._clock.left())
        self._sock.sendall(data)

    def makefile(self, *_how: t.Any, **_kinds: t.Any) -> io.BufferedReader:
        return io.BufferedReader(_Received(self._sock, self._clock, self._limit))

    def close(self) -> None:
        """Nothing: http.client lets go of a connection that ends with its answer before that is read. Whoever dialled hangs up."""


class _Received(io.RawIOBase):
    def __init__(self, sock: socket.socket, clock: Clock, limit: int) -> None:
        super().__init__()
        self._sock, self._clock, self._room = sock, clock, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: t.Any) -> int:
        if self._room <= 0:
            raise TooMuchError("more than is read")
        self._sock.settimeout(self._clock.left())
        got = self._sock.recv_into(buffer)
        self._room -= got
        self._clock.heard = self._clock.heard or got > 0
        return got


def dial(host: str, port: int, clock: Clock) -> socket.socket:
    """A connection to a host by name or address, of either family, the first of its addresses that answers. Raises OSError."""
    # Resolving a name cannot be interrupted: it is given up, and ends by itself.
    try:
        found = Look(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM).result(clock.left())
    except UnicodeError as exc:
        raise socket.gaierror(socket.EAI_NONAME, "it is no name of a host") from exc
    failure: OSError = OSError(f"{host} has no address")
    for number, (family, kind, protocol, _name, address) in enumerate(found):
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as exc:  # this host has no such family
            failure = exc
            continue
        try:
            # One address that swallows everything must leave time for the next.
            sock.settimeout(clock.left() / (len(found) - number))
            sock.connect(address)
        except OSError as exc:
            sock.close()
            failure = exc
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def secured(sock: socket.socket, host: str, clock: Clock) -> socket.socket:
    """The same connection under TLS."""
    sock.settimeout(clock.left())
    try:
        return ssl.create_default_context().wrap_socket(sock, server_hostname=host)
    except BaseException:
        with contextlib.suppress(OSError):
            sock.close()
        raise
