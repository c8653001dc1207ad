# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm-router's registry, measured with 0.1.15 and 0.1.17. It takes workers only when started with --enable-igw."""

from __future__ import annotations

import typing as t
from urllib.parse import quote

from .._core.proof.measured import Counted
from .protocol import Peer, RegistryError, call, read


class VllmRouter:
    name = "vllm-router"
    # 0.1.17, with and without --enable-igw. What fails at a member is counted by the member alone; a request that no member was there for
    # is counted once for each try, and so not here.
    counted = Counted(
        requests=("vllm_router_pd_requests_total",),
        errors=("vllm_router_pd_prefill_errors_total", "vllm_router_pd_decode_errors_total"),
        late=True,
    )

    def list(self, url: str, timeout: float) -> list[Peer]:
        return read(url, timeout)

    def add(self, url: str, peer: t.Mapping[str, t.Any], model: str, timeout: float, key: str | None = None) -> None:  # noqa: ARG002
        """Without `model_id` the router files the worker under "unknown", and every request gets 503. A worker's key it has from its own
        environment (OPENAI_API_KEY)."""
        body = {"url": peer["url"], "worker_type": peer["role"], "model_id": model}
        doing = f"Adding {peer.get('member') or peer['url']} ({peer['url']}) to the router"
        try:
            call("POST", f"{url.rstrip('/')}/workers", body, timeout, doing)
        except RegistryError as exc:
            if "specific add_prefill_server" in str(exc):
                hint = "Start it with --enable-igw, or set router.membership: restart"
                text = f"{doing}: this router takes no members while it runs. {hint}."
                raise RegistryError(text, missing=True) from None
            raise

    def remove(self, url: str, peer: Peer, timeout: float) -> None:
        """The worker's URL is one path segment: unencoded it would be passed on to a member."""
        path = quote(peer["url"], safe="")
        try:
            call(
                "DELETE", f"{url.rstrip('/')}/workers/{path}", None, timeout, f"Removing {peer['url']} from the router"
            )
        except RegistryError as exc:
            if "WORKER_NOT_FOUND" not in str(exc) and "not found" not in str(exc).lower():
                raise

    def same_model(self, peer: Peer, model: str) -> bool:
        return peer["model"] in (None, model)


DIALECT = VllmRouter()
