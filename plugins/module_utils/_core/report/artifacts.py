# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a proposal by whoever ran it: AWX shows such values in clear, keeps them with the job, and gives them to the jobs that
follow. So no value of a variable and no file is in them, and they are bounded: a few kilobytes, whatever the size of a fleet."""

from __future__ import annotations

import json
import typing as t

from ..base.plain import Plain
from ..plan import overview
from ..plan.plan import summary
from ..work.member import Part
from .proposal import Planned, Proposal, words

# The names under which they are kept.
DIGEST, DIGESTS, SUMMARY, SEATS = "pd_plan_digest", "pd_plan_digests", "pd_plan_summary", "pd_plan_seats"
NAMES = (DIGEST, DIGESTS, SUMMARY, SEATS)
# So many bytes of summaries, and as many of seats: what is beyond is counted.
MOST = 12_000
# So many changes and findings of one workload, so long a line at most.
FEW, LINE = 8, 160


def of(proposal: Proposal, action: str, planned: t.Sequence[Planned], approves: str | None) -> dict[str, t.Any]:
    """The values by their names. `approves` is what the next job may be given as its digest, None for nothing."""
    plans = [one for one in planned if one.plan is None or overview.works(one.plan)]
    workloads, left = _within({one.name: _workload(one) for one in plans})
    seats, unseated = _within({m.id: _seat(m.leader) for one in plans if one.plan for m in one.plan.members})
    told = {"action": action, "digest": proposal.digest, "workloads": workloads, "unchanged": len(planned) - len(plans)}
    told |= {key: count for key, count in (("more_workloads", left), ("more_seats", unseated)) if count}
    made = {SUMMARY: told, SEATS: seats}
    return made if approves is None else {DIGEST: approves, DIGESTS: proposal.digests, **made}


def _workload(one: Planned) -> dict[str, t.Any]:
    warnings = _few([words(found) for found in one.findings])
    if one.plan is None:
        return {"says": "refused", "warnings": warnings}
    counts = overview.Counts.of(one.plan)
    changes = [change for told in one.plan.diff for change in told.get("changes") or ()]
    return {
        "says": _cut(summary(one.plan).partition("\n")[0]),
        **{word: len(getattr(counts, word)) for word in ("created", "replaced", "removed", "kept")},
        "pending": one.plan.pending,
        "changes": _few(changes),
        "warnings": warnings,
    }


def _seat(part: Part) -> dict[str, t.Any]:
    return {"host": part.host, "gpus": list(part.gpus), "port": part.port}


def _few(lines: t.Iterable[str]) -> list[str]:
    every = list(dict.fromkeys(_cut(line) for line in lines))
    return every if len(every) <= FEW else [*every[:FEW], f"and {len(every) - FEW} more"]


def _cut(line: str) -> str:
    return line if len(line) <= LINE else line[: LINE - 1] + "…"


def _within(values: t.Mapping[str, Plain]) -> tuple[dict[str, Plain], int]:
    """(as many of them as there is room for, how many are left out)."""
    found: dict[str, Plain] = {}
    size = 0
    for name, value in values.items():
        size += len(json.dumps({name: value}))
        if size > MOST:
            break
        found[name] = value
    return found, len(values) - len(found)
