# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to a container engine by PyPI's `docker`, imported when it is needed; whatever goes wrong is one HostError."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import typing as t

from .errors import HostError

SOCKET = "unix:///var/run/docker.sock"
# Of one call, unless it says otherwise: creating and starting waits for drivers and GPUs.
DEADLINE = 120
LOOK_DEADLINE = 10


class CallError(HostError):
    """The engine refused a call. `status` is that of HTTP, `said` its words."""

    def __init__(self, doing: str, status: int, said: str, hint: str = "", member: str | None = None) -> None:
        super().__init__(doing, said, hint, member)
        self.status, self.said = status, said


class UnreachableError(HostError):
    """There is no client library, or no engine that answers."""


class Api:
    """One container engine, connected to by the first call of each thread: a client's deadline is that of the call which it is in."""

    def __init__(self, url: str | None = None) -> None:
        self.url = url or os.environ.get("DOCKER_HOST") or SOCKET
        self._own = threading.local()
        # What the engine speaks, once it has been asked.
        self._version: str | None = None

    @property
    def path(self) -> str | None:
        """The engine's socket in the file system; None when it is reached otherwise."""
        return self.url[len("unix://") :] if self.url.startswith("unix://") else None

    def client(self) -> t.Any:
        """This thread's docker.APIClient. Raises UnreachableError."""
        if not hasattr(self._own, "client"):
            self._own.client = self._connect()
        return self._own.client

    def _connect(self) -> t.Any:
        if self.path and not os.path.exists(self.path):
            raise UnreachableError(
                f"Asking the container engine at {self.url}",
                f"there is no {self.path}",
                "Start it (systemctl start docker), or set pd_docker_host to where it listens.",
            )
        library = self._library()
        speaks = self._version or "auto"
        try:
            client = library.APIClient(base_url=self.url, version=speaks, timeout=LOOK_DEADLINE, max_pool_size=1)
        except Exception as exc:  # the library lets through what requests, urllib3 and json raise
            raise self._unreachable(exc) from exc
        self._version = client.api_version
        return client

    def _library(self) -> t.Any:
        try:
            return importlib.import_module("docker.api.client")
        except ImportError as exc:
            raise UnreachableError(
                "Looking for the Python library docker",
                f"{sys.executable} cannot import it ({exc})",
                f"Install it on the host: apt-get install python3-docker, or {sys.executable} -m pip install docker.",
            ) from exc

    def call(
        self,
        doing: str,
        what: t.Callable[[t.Any], t.Any],
        deadline: float = DEADLINE,
        hint: str = "",
        member: str | None = None,
    ) -> t.Any:
        """Call the engine: `what` gets the client. Raises CallError or UnreachableError."""
        client = self.client()
        errors = importlib.import_module("docker.errors")
        client.timeout = deadline
        try:
            return what(client)
        except errors.APIError as exc:
            said = str(exc.explanation or exc).strip() or "no reason was given"
            raise CallError(doing, int(exc.status_code or 500), said, hint, member) from exc
        except Exception as exc:  # the library lets through what requests, urllib3 and json raise
            raise self._unreachable(exc, doing, member) from exc

    def _unreachable(self, exc: BaseException, doing: str = "", member: str | None = None) -> UnreachableError:
        text = str(exc)
        doing = doing or f"Asking the container engine at {self.url}"
        if "Permission denied" in text:
            return UnreachableError(
                doing,
                f"user {os.geteuid()} may not use {self.path or self.url}",
                "Use become, or put the user into the group docker.",
                member,
            )
        if "timed out" in text or "Timeout" in type(exc).__name__:
            reason, hint = (
                f"the container engine at {self.url} did not answer in time",
                "It hangs: look at its journal.",
            )
        elif "Connection refused" in text or "FileNotFoundError" in text or "Connection aborted" in text:
            reason = f"no container engine listens at {self.url}"
            hint = "Start it (systemctl start docker), or set pd_docker_host to where it listens."
        else:
            reason, hint = f"the container engine at {self.url} did not answer ({text[:300]})", "Look at its journal."
        return UnreachableError(doing, reason, hint, member)
