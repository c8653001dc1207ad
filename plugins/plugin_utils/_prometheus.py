# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Prometheus server has counted of a group, in place of its members' own counters: instant queries, each of one number."""

from __future__ import annotations

import math
import typing as t
from urllib.parse import quote

from ..module_utils._core.base import json_text
from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.printable import printable
from ..module_utils._core.proof.measured import Measured
from ..module_utils._core.rollout.placeholders import fill
from ..module_utils._core.rollout.spec import Prometheus
from ..module_utils._probes import http

TIMEOUT = 15.0
PATH = "/api/v1/query"


def asked(server: Prometheus, group: str, seconds: float) -> Measured:
    """What it says of the last `seconds` of a group. Raises nothing: what cannot be had is told in `why`, what it knows nothing of in
    `missing`."""
    numbers: dict[str, float | None] = {}
    missing, why = [], []
    for key in ("requests", "errors", "ttft_p95"):
        query = getattr(server, key)
        if query is None:
            continue
        try:
            numbers[key] = number(server.url, fill(query, {"group": group, "seconds": max(1, round(seconds))}))
        except PdError as exc:
            why.append(f"{key}: {exc}")
            continue
        # Without requests there is no ratio, and no time, of them.
        if numbers[key] is None and (key == "requests" or numbers.get("requests")):
            missing.append(f"of prometheus.{key}: the query gives nothing")
    requests, ratio = numbers.get("requests"), numbers.get("errors")
    errors = None if requests is None or ratio is None else ratio * requests
    if requests == 0 and server.errors is not None and not why:
        errors = 0.0
    return Measured(seconds, requests, errors, numbers.get("ttft_p95"), tuple(missing), why="; ".join(why))


def number(url: str, query: str) -> float | None:
    """The one number that a query gives; None where it gives none. Raises PdError that names the server."""
    answer = http.get(f"{http.join(url, PATH)}?query={quote(query, safe='')}", TIMEOUT)
    # The query is not repeated: it is long, and what was asked is in the inventory.
    where = f"GET {printable(http.join(url, PATH))}"
    if not answer.ok:
        raise PdError(f"{where}: {answer.refusal}")
    data = json_text.member(answer.json(), "data")
    kind, result = json_text.member(data, "resultType"), json_text.member(data, "result")
    if not isinstance(result, list) or kind not in ("vector", "scalar"):
        raise PdError(
            f"{where}: it gives no number, but {printable(kind or 'something else', 40)}; use an instant query"
        )
    if kind == "scalar":
        return _value(result, where)
    if len(result) > 1:
        raise PdError(
            f"{where}: the query gives {len(result)} numbers; sum them, and name the group in it (${{group}})"
        )
    return _value(json_text.member(result[0], "value"), where) if result else None


def _value(sample: t.Any, where: str) -> float | None:
    """A sample is a moment and a number as text; NaN is what a ratio of nothing is."""
    try:
        value = float(sample[1])
    except (TypeError, ValueError, IndexError, KeyError) as exc:
        raise PdError(f"{where}: a sample is not of Prometheus' form") from exc
    return value if math.isfinite(value) and value >= 0 else None
