# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measuring: the few counters of the engines and routers of this host that a gate compares, read from their metrics."""

from __future__ import annotations

import math
import typing as t
from concurrent.futures import ThreadPoolExecutor

from .._core.base.errors import PdError
from .._core.base.plain import Plain, name, texts
from .._core.proof.measured import MOST_BUCKETS, Reading
from .._probes import credentials, http, metrics

TIMEOUT = 5.0
# Members that are asked at a time.
SIDE_BY_SIDE = 32


def measure(workloads: t.Mapping[str, t.Sequence[Plain]]) -> dict[str, dict[str, t.Any]]:
    """What the members of each workload have counted since they started, by id: a Reading each, as plain values. Of a member is given its
    `id`, `role`, the `url` of its metrics, and what is read there (Counted.of). Raises PdError for a member that is not given so."""
    every = [(group, name(one, "id"), one) for group, members in workloads.items() for one in members]
    with ThreadPoolExecutor(max_workers=max(1, min(SIDE_BY_SIDE, len(every)))) as pool:
        read = list(pool.map(lambda one: reading(one[2]), every))
    found: dict[str, dict[str, t.Any]] = {group: {"members": {}} for group in workloads}
    for (group, member, _one), what in zip(every, read):
        found[group]["members"][member] = what.to_plain()
    return found


def reading(member: Plain) -> Reading:
    """One member. One that does not answer is told as that."""
    role = name(member, "role")
    try:
        answer = credentials.request("GET", name(member, "url"), None, TIMEOUT, http.PAGE_LIMIT)
    except PdError as exc:
        return Reading(role, why=str(exc))
    if not answer.ok:
        return Reading(role, why=f"{answer.asked} {answer.refusal}")
    if not answer.whole:
        return Reading(role, why=f"{answer.asked} answered with more than {http.PAGE_LIMIT // http.MIB} MiB")
    return of_page(metrics.parse(answer.text), member)


def of_page(page: metrics.Metrics, member: Plain) -> Reading:
    """What is read of a page of metrics. A counter that its process makes with its first use is zero before it."""
    late = bool(member.get("late"))
    missing: list[str] = []
    requests = _sum(page, texts(member, "requests"), late, missing)
    errors = _sum(page, texts(member, "errors"), late, missing)
    histogram = member.get("first_token")
    buckets = _buckets(page, str(histogram)) if histogram else {}
    if histogram and not buckets and (requests or not late):
        missing.append(str(histogram))
    return Reading(name(member, "role"), requests, errors, buckets, tuple(dict.fromkeys(missing)))


def _sum(page: metrics.Metrics, selectors: t.Sequence[str], late: bool, missing: list[str]) -> float | None:
    """The sum over the metrics, None where one is not there. One whose name is there, and not with these labels, is zero."""
    total = 0.0
    for selector in selectors:
        count = page.total(selector)
        if count is None and not late and not page.find(selector.partition("{")[0]):
            missing.append(selector)
            return None
        total += count or 0.0
    return total if selectors else None


def _buckets(page: metrics.Metrics, histogram: str) -> dict[float, float]:
    """A histogram of Prometheus, over all engines of the process."""
    found: dict[float, float] = {}
    for labels, count in page.find(f"{histogram}_bucket"):
        try:
            bound = float(labels.get("le", "nan").replace("+Inf", "inf"))
        except ValueError:
            continue
        if not math.isnan(bound):
            found[bound] = found.get(bound, 0.0) + count
    return found if len(found) <= MOST_BUCKETS else {}
