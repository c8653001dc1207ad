# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members that retire: their host is emptied, and they serve on until those that come in their place do.

Who comes is of the same formation, and for a while both serve. So no request fails, no capacity is missing, and where somebody does not
come up nothing has been lost: the old ones are where they were. A router that moves goes first: what clients still send to it reaches
engines that are there."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.finding import Findings
from ..base.plain import Plain
from ..facts.observed import LiveMember
from ..facts.record import Record
from ..spec.spec import Group
from .situation import Choice, Request
from .value import Retirement, RouterStep


def rounds(choice: Choice, router: RouterStep) -> tuple[Retirement, ...]:
    """In which order those that retire leave."""
    routers = [m for m in choice.retire if m.role == "router"]
    engines = [m for m in choice.retire if m.role != "router"]
    stays = any(m.role == "router" for m in choice.keep)
    leaves = [m.label.url for m in engines if m.label.url] if stays and router.policy == "dynamic" else []
    found = (_round(routers, ()), _round(engines, leaves))
    return tuple(one for one in found if one.members)


def say(group: Group, choice: Choice, router: RouterStep, findings: Findings) -> None:
    """A router that moves has another address, which clients have to learn."""
    old = next((m for m in choice.retire if m.role == "router"), None)
    new = router.member
    if old is None or new is None or old.label.url == new.url:
        return
    mine = f"endpoint.external_url stays {group.endpoint.external_url}: have it lead to {new.url}"
    learn = f"Clients reach the group at {new.url} from then on; {old.label.url} ends with the run"
    findings.warning(
        "router-moves",
        f"the router moves from {old.host} to {new.leader.host}: its address is {new.url} instead of {old.label.url}.",
        f"{mine if group.endpoint.external_url else learn}.",
        ["router"],
        old.host,
    )


def _round(members: t.Sequence[LiveMember], leaves: t.Iterable[str]) -> Retirement:
    by_host: dict[str, list[str]] = {}
    for member in members:
        by_host.setdefault(member.host, []).append(member.id)
    return Retirement({host: tuple(ids) for host, ids in sorted(by_host.items())}, tuple(leaves))


def at_once(choice: Choice, stale: t.Mapping[str, t.Sequence[str]]) -> Choice:
    """Those of them that would take a prefill that comes for the process that was at its address before cannot serve beside it: they leave
    before it starts. `stale` are they, with these prefills."""
    early = [m for m in choice.retire if m.id in stale]
    if not early:
        return choice
    why = "its host is evacuated, and it would take {} for the process that was there before"
    return replace(
        choice,
        leave=(*choice.leave, *((m, why.format(", ".join(stale[m.id]))) for m in early)),
        retire=tuple(m for m in choice.retire if m.id not in stale),
    )


def emptied(asked: Request, record: Plain, last: Record) -> list[str]:
    """The hosts that were emptied of the group, and on which nothing of it can be since: they are cordoned, or off."""
    there = {one["host"] for one in record["members"]}
    found = {*last.emptied, *asked.evacuated} - there
    return sorted(host for host in found if host not in asked.hosts or asked.hosts[host].cordon)


def meanwhile(record: Plain, choice: Choice, last: Record) -> Plain:
    """The record as long as they are there: it names their places, and a router that moves is the one of before."""
    gone = {(m.host, m.id) for m in choice.retire}
    before = last.plain
    theirs = [one for one in before.get("members") or () if (one["host"], one["id"]) in gone]
    found = {**record, "members": [*record["members"], *theirs]}
    if any(m.role == "router" for m in choice.retire):
        found |= {key: before[key] for key in ("router", "endpoint") if key in before}
    told = {key: record["endpoint"][key] for key in ("hooks",) if key in record["endpoint"]}
    found["endpoint"] = {**found["endpoint"], **told, "registered": last.endpoint.registered}
    return found
