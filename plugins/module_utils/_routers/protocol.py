# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A router's worker registry: what it can do, whichever router it is."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import typing as t
from urllib.parse import urlsplit

from .._core.base import json_text
from .._core.base.errors import PdError
from .._core.proof.measured import Counted
from .._probes.credentials import request
from .._probes.http import Answer, Unanswered


class Peer(t.TypedDict):
    """One entry of the registry. `model` is None where the router does not say it, or does not go by it."""

    url: str
    worker_type: str
    healthy: bool
    id: str
    model: str | None


class RegistryError(PdError):
    """A call to the registry failed. `missing`: this router has no registry at all; `unreadable`: no usable answer came."""

    def __init__(self, text: str, unreadable: bool = False, missing: bool = False) -> None:
        super().__init__(text)
        self.unreadable = unreadable
        self.missing = missing


class RouterDialect(t.Protocol):
    """One router's registry API. `peer` of add is one of the plan's router.peers: {member, role, url, ports}."""

    name: str
    # What became of the requests of clients.
    counted: Counted

    def list(self, url: str, timeout: float) -> list[Peer]: ...

    def add(self, url: str, peer: t.Mapping[str, t.Any], model: str, timeout: float, key: str | None = None) -> None:
        """`key` is the one that the peer asks for, if it asks for any."""

    def remove(self, url: str, peer: Peer, timeout: float) -> None: ...

    def same_model(self, peer: Peer, model: str) -> bool:
        """Whether the entry serves requests for that model."""


_PORTS = {"http": 80, "https": 443}


def same(url: str) -> str:
    """A URL in the one form in which two are compared. Only what is certainly the same address comes out alike; whatever else differs (a
    path, a user, a rank behind an @) is another member, and text that is no URL stays as it is."""
    text = url.strip()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return text
    scheme = parts.scheme.lower()
    if not scheme or not host:
        return text
    with contextlib.suppress(ValueError):
        # http://[0:0::1] is http://[::1]. A zone (%eth0) stays as it is.
        host = str(ipaddress.ip_address(host))
    user, at, _place = parts.netloc.rpartition("@")
    place = f"[{host}]" if ":" in host else host
    port = _PORTS.get(scheme) if port is None else port
    rest = (
        parts.path.rstrip("/")
        + (f"?{parts.query}" if parts.query else "")
        + (f"#{parts.fragment}" if parts.fragment else "")
    )
    return f"{scheme}://{user}{at}{place}:{port}{rest}"


def call(method: str, url: str, body: t.Any, timeout: float, doing: str) -> Answer:
    """A call to the registry, with the router's own key where it asks for one; an error tells what was being done."""
    try:
        answer = request(method, url, body=body, timeout=timeout)
    except Unanswered as exc:
        raise RegistryError(f"{doing}: {exc}", unreadable=True) from exc
    if not answer.ok:
        text = f"{doing}: {answer.asked} {answer.refusal}"
        raise RegistryError(text, unreadable=answer.status >= 500, missing=answer.status in (404, 405))
    return answer


def read(url: str, timeout: float) -> list[Peer]:
    """GET /workers, as both routers answer it: {"workers": [...]} or a bare list."""
    answer = call("GET", f"{url.rstrip('/')}/workers", None, timeout, "Reading the router's registry")
    try:
        found = answer.json()
    except PdError as exc:
        raise RegistryError(f"Reading the router's registry: {exc}", unreadable=True) from exc
    workers = found.get("workers") if isinstance(found, dict) else found
    if not isinstance(workers, list):
        raise RegistryError(
            f"Reading the router's registry: {answer.asked} gave no list of workers: {answer.excerpt()!r}",
            unreadable=True,
        )
    nameless = [w for w in workers if not json_text.text(json_text.member(w, "url"))]
    if nameless:
        # Passed over it would be a member that the router reaches and that nobody compares.
        told = f"{answer.asked} lists a worker without a URL: {json.dumps(nameless[0])[:120]}"
        raise RegistryError(f"Reading the router's registry: {told}", unreadable=True)
    return [_peer(w) for w in workers]


def _peer(raw: t.Mapping[str, t.Any]) -> Peer:
    healthy = raw.get("is_healthy", raw.get("healthy", True))
    model = raw.get("model_id")
    return {
        "url": raw["url"],
        "worker_type": str(raw.get("worker_type") or ""),
        "healthy": bool(healthy),
        "id": str(raw.get("id") or raw["url"]),
        "model": str(model) if model else None,
    }
