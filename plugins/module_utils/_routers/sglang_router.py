# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""sglang-router's registry, measured with 0.3.2. It answers 202: a worker is queued, and seen in the list only once it was reached."""

from __future__ import annotations

import typing as t
from urllib.parse import quote

from .._core.proof.measured import Counted
from .._probes.credentials import HIDDEN
from .protocol import Peer, RegistryError, call, read


class SglangRouter:
    name = "sglang-router"
    # 0.3.2. A failed request is told by what its client got; the router's own count of errors stays empty.
    counted = Counted(
        requests=("smg_router_requests_total",),
        errors=tuple(f'smg_http_responses_total{{status_code="{status}"}}' for status in (500, 502, 503, 504)),
        late=True,
    )

    def list(self, url: str, timeout: float) -> list[Peer]:
        return read(url, timeout)

    def add(self, url: str, peer: t.Mapping[str, t.Any], model: str, timeout: float, key: str | None = None) -> None:  # noqa: ARG002
        """The model is not told: the router asks the worker, which answers only with its key. `bootstrap_port` must be a number, and decode
        has none."""
        body: dict[str, t.Any] = {"url": peer["url"], "worker_type": peer["role"]}
        bootstrap = (peer.get("ports") or {}).get("bootstrap")
        if peer["role"] == "prefill" and bootstrap:
            body["bootstrap_port"] = int(bootstrap["base"])
        if key:
            body["api_key"] = key
        doing = f"Adding {peer.get('member') or peer['url']} ({peer['url']}) to the router"
        try:
            call("POST", f"{url.rstrip('/')}/workers", body, timeout, doing)
        except RegistryError as exc:
            if not key or key not in str(exc):
                raise
            raise RegistryError(str(exc).replace(key, HIDDEN), exc.unreadable, exc.missing) from None

    def remove(self, url: str, peer: Peer, timeout: float) -> None:
        """By the id that the list gives it (a UUID since 0.5.7); a URL there is refused."""
        path = quote(peer["id"], safe="")
        call("DELETE", f"{url.rstrip('/')}/workers/{path}", None, timeout, f"Removing {peer['url']} from the router")

    def same_model(self, peer: Peer, model: str) -> bool:  # noqa: ARG002
        return True


DIALECT = SglangRouter()
