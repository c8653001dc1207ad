# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Supervisord's XML-RPC over its unix socket, with a deadline on every call."""

from __future__ import annotations

import http.client
import socket
import typing as t
import xmlrpc.client
from xml.parsers.expat import ExpatError

from .errors import HostError

DEADLINE = 10.0
# Faults of supervisor's own API (supervisor/xmlrpc.py) that are answers, not failures.
BAD_NAME = 10
NOT_RUNNING = 70
ALREADY_ADDED = 90
STILL_RUNNING = 91
# What the library raises for what is no answer of XML-RPC: no XML, or values of another kind than they are called.
_NO_ANSWER = (ExpatError, xmlrpc.client.ResponseError, ValueError, LookupError, TypeError)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Transport(xmlrpc.client.Transport):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__()
        self._path, self._timeout = path, timeout

    def make_connection(self, host: t.Any) -> http.client.HTTPConnection:  # noqa: ARG002
        return _Connection(self._path, self._timeout)


class Rpc:
    """One supervisord. A client is for one thread: calls open their own connection each."""

    def __init__(self, path: str, timeout: float = DEADLINE) -> None:
        self.path, self.timeout = path, timeout

    def call(self, method: str, *args: t.Any) -> t.Any:
        """One call. Raises xmlrpc.client.Fault for supervisord's own refusals, ConnectionError when there is no supervisord."""
        proxy = xmlrpc.client.ServerProxy(
            "http://localhost/RPC2", transport=_Transport(self.path, self.timeout), allow_none=True
        )
        try:
            with proxy:
                return getattr(proxy, method)(*args)
        except (FileNotFoundError, ConnectionRefusedError) as exc:
            raise ConnectionRefusedError(f"no supervisord listens on {self.path}") from exc
        except socket.timeout as exc:
            raise HostError(
                f"Asking supervisord for {method}",
                f"no answer on {self.path} within {self.timeout:g} s",
                "It hangs: see its supervisord.log; end it by its pid, then run again.",
            ) from exc
        except _NO_ANSWER as exc:
            raise HostError(
                f"Asking supervisord for {method}",
                f"what answers on {self.path} is no supervisord",
                f"See who it is: ss -xlp src {self.path}.",
            ) from exc
        except (OSError, http.client.HTTPException, xmlrpc.client.ProtocolError) as exc:
            raise HostError(
                f"Asking supervisord for {method}", str(exc), f"Check that you may use {self.path}."
            ) from exc

    def up(self) -> bool:
        """Whether a supervisord answers."""
        try:
            self.call("supervisor.getState")
        except ConnectionError:
            return False
        return True
