# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a cache service: whether every instance of the plan answers, and what its users are told."""

from __future__ import annotations

from ..spec.cache_service import ROLE
from .verdict import (
    Result,
    Results,
    Verdict,
    list_failed,
    list_problems,
    out_of_reach,
    reason,
    refusal,
    stopped,
    why_part,
)


def reach(plan: Result, results: Results, phase: str) -> Verdict:
    """The verdict of a phase, start, stop or final. It is good only when nothing is missing: what uses the service starts after it."""
    if phase == "stop":
        return stopped(plan, results, what="Cache service", variable="pd_cache")
    verdict = Verdict(phase, ready={ROLE: []})
    for member in plan["members"]:
        why = next((w for w in (why_part(member["id"], p["host"], results) for p in member["parts"]) if w), None)
        if why is None:
            verdict.ready[ROLE].append(member["id"])
        else:
            verdict.failed[member["id"]] = why
    verdict.unreachable = sorted(host for host in plan["hosts"] if out_of_reach(results, host))
    for host in plan["hosts"]:
        said = [reason(r) for r in results.get(host) or () if refusal(r)]
        if said:
            verdict.problems[host] = said
    verdict.good = verdict.complete = not (verdict.failed or verdict.problems or verdict.unreachable)
    verdict.msg = "\n".join(_message(plan, verdict))
    return verdict


def _message(plan: Result, verdict: Verdict) -> list[str]:
    name, count = plan["group"], len(plan["members"])
    ready = len(verdict.ready[ROLE])
    if not verdict.good:
        again = f"run inferops.pd.caches -e pd_cache={name} again"
        users = ", ".join(plan["cache"].get("users") or ())
        return [
            f"Cache service {name} does not serve: {ready} of {count} instances ready.",
            *list_failed(verdict),
            *list_problems(verdict),
            f"Mend the cause, then {again}." + (f" Nothing of {users} was touched." if users else ""),
        ]
    return [f"Cache service {name} is running: {_where(plan)}.", *_clients(plan)]


def _where(plan: Result) -> str:
    told = [f"{m['parts'][0]['host']} {m['address']}:{m['parts'][0]['port']}" for m in plan["members"]]
    return ", ".join(told[:8]) + (f" and {len(told) - 8} more" if len(told) > 8 else "")


def _clients(plan: Result) -> list[str]:
    """What the users of a service that has just restarted must do."""
    users = plan["cache"].get("users") or ()
    if not plan.get("clients_restart") or not users:
        return []
    return [
        f"Restart what uses it: {'; '.join(f'ansible-playbook inferops.pd.restart -e pd_group={g}' for g in users)}"
    ]
