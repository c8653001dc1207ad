# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The marks of a workload: what is to be known beside its state. Each is a stable word (docs/playbooks.md has them) with
its reason."""

from __future__ import annotations

import typing as t

from ..base.finding import Finding
from ..base.words import by_number, names
from ..facts.observed import Host, LiveMember
from ..plan.peer_snapshot import forgot_peers, stale_peers, unread_peers
from ..plan.situation import EVERYWHERE, Reach, Situation
from ..spec.spec import ENGINE_ROLES, Group
from ..spec.workload import Kind
from ..template.template import GroupTemplate

Mark = dict[str, t.Any]


def of(
    kind: Kind,
    group: Group | None,
    template: GroupTemplate | None,
    situation: Situation,
    hosts: t.Mapping[str, Host],
    roles: t.Mapping[str, t.Mapping[str, int]],
    state: str,
    findings: t.Sequence[Finding],
    reach: Reach = EVERYWHERE,
) -> list[Mark]:
    """All marks that what runs gives rise to, in the order in which a person wants them. `group` and `template` are None for what is no
    group, or has no spec."""
    engines = engines_of(situation)
    marks = _counts(kind, group, roles, state)
    marks += unread_peers(situation)
    marks += forgot_peers(situation)
    marks += stale_peers(situation)
    marks += _doubts(engines)
    marks += _pairing(findings)
    marks += _misplaced(template, engines)
    marks += _remote(engines)
    marks += _caches(engines)
    marks += _hosts_changed(kind, situation, hosts)
    marks += _hooks(kind, group, situation)
    marks += _cordoned(situation, hosts)
    marks += _strays(kind, situation)
    marks += [{"mark": "tombstone", "why": grave.told()} for grave in situation.tombstones]
    marks += _returned(kind, situation)
    marks += _held(situation, hosts)
    for host, damage in situation.damaged:
        marks.append({"mark": "state_damaged", "why": f"{host}: {damage.path} is damaged ({damage.why})"})
    if situation.unknown:
        marks.append({"mark": "members_unknown", "why": reach.told(situation.unknown)})
    return marks


def _cordoned(situation: Situation, hosts: t.Mapping[str, Host]) -> list[Mark]:
    """Members on hosts where nobody comes any more: they stay as long as they run, and come elsewhere once they do not."""
    found: dict[str, list[str]] = {}
    for member in situation.members:
        found.setdefault(member.host, []).append(member.id)
    return [
        {
            "mark": "cordoned",
            "why": f"{host} is {cordon.told()}: nobody comes there, and {names(ids)} {by_number(ids, 'is', 'are')} there",
            "host": host,
        }
        for host, ids in found.items()
        for cordon in [hosts[host].cordon if host in hosts else None]
        if cordon
    ]


def _hooks(kind: Kind, group: Group | None, situation: Situation) -> list[Mark]:
    """Hooks of the spec that do not have the endpoint for sure, and those that may know it and are none of the spec's."""
    if group is None or situation.noted is None:
        return []
    known, wanted = situation.last.endpoint.hooks, group.endpoint.hooks
    untold = [name for name in wanted if name not in known or not known[name].sure]
    left = [name for name in known if name not in wanted]
    deploy = f"ansible-playbook {kind.deploy(group.name)}"
    found = (
        [f"{names(untold)} {by_number(untold, 'is', 'are')} not seen to have the endpoint, which {deploy} gives"]
        if untold
        else []
    )
    found += (
        [
            f"{names(left)} may have the endpoint, and the spec does not name {by_number(left, 'it', 'them')}: {deploy} takes it away"
        ]
        if left
        else []
    )
    return [{"mark": "hooks_differ", "why": why} for why in found]


def _strays(kind: Kind, situation: Situation) -> list[Mark]:
    """Members of a workload's name that are none of it: they hold GPUs and ports, and get no request of a group's router."""
    return [
        {
            "mark": "stray",
            "why": f"{s.member.id} on {s.member.host} is none of the {kind.short}: {s.why}. The next deploy stops it",
            "host": s.member.host,
        }
        for s in situation.strays
    ]


def _returned(kind: Kind, situation: Situation) -> list[Mark]:
    """That a group is held at an earlier configuration, and its spec waits for more than a restart."""
    held = situation.last.held
    if held is None:
        return []
    name = situation.last.group
    way_out = f"applied by: ansible-playbook {kind.restart(name)} -e pd_release={name}"
    why = f"at revision {held.revision}" + (f", {held.why}" if held.why else "")
    return [{"mark": "held", "why": f"{why}; its spec is {way_out}", "revision": held.revision, "since": held.since}]


def _held(situation: Situation, hosts: t.Mapping[str, Host]) -> list[Mark]:
    """Ports that nobody gets, since a router of the group may still name them."""
    name = situation.noted.group if situation.noted else None
    return [
        {
            "mark": "port_held",
            "why": f"{host.name}: {hold.member} is gone, and {_ports(hold.ports)} is held for as long as a router may still name it",
            "host": host.name,
        }
        for host in hosts.values()
        for hold in host.holds
        if hold.group == name
    ]


def _doubts(engines: t.Sequence[LiveMember]) -> list[Mark]:
    """Members that serve and have logged that answers may be wrong: requests are answered with 200 all the same."""
    return [
        {
            "mark": "answers_doubtful",
            "why": f"{member.id}: {doubt.meaning}. Its log has {_lines(doubt.count)} of it, the last: {doubt.line}. {doubt.advice}",
            "member": member.id,
        }
        for member in engines
        for doubt in [member.now.doubt]
        if doubt
    ]


def _lines(count: int) -> str:
    return "one line" if count == 1 else f"{count} lines"


def _ports(ports: t.Sequence[int]) -> str:
    return f"port {', '.join(map(str, ports[:4]))}" + (f" and {len(ports) - 4} more" if len(ports) > 4 else "")


def _counts(kind: Kind, group: Group | None, roles: t.Mapping[str, t.Mapping[str, int]], state: str) -> list[Mark]:
    marks: list[Mark] = []
    for role in kind.serving:
        counts = roles[role]
        if state == "running" and counts["ready"] < counts["desired"]:
            marks.append({"mark": "ratio_unmet", "why": f"{role} {counts['ready']} of {counts['desired']} ready"})
        if group and counts["desired"] != group.roles[role].replicas:
            why = f"{role} runs {counts['desired']}, the inventory says {group.roles[role].replicas}"
            marks.append({"mark": "count_differs_from_inventory", "why": why})
    return marks


def _pairing(findings: t.Sequence[Finding]) -> list[Mark]:
    marks: list[Mark] = [
        {"mark": "pairing_unverified", "why": f.message, "factor": f.factor}
        for f in findings
        if f.severity == "unverified"
    ]
    below = [f for f in findings if f.code == "version-below-floor"]
    return marks + [{"mark": "version_below_floor", "why": f.message} for f in below]


def _misplaced(template: GroupTemplate | None, engines: t.Sequence[LiveMember]) -> list[Mark]:
    """The rule of tensor parallelism on the GPUs that members really got, where their width comes from these. A breach is no stop."""
    rule = template.mode.pairing.get("tensor_parallel", "any") if template else "any"
    if template is None or rule == "any" or all(template.roles[r].sizes.written for r in ENGINE_ROLES):
        return []
    widths: dict[str, dict[str, int]] = {}
    for role in ENGINE_ROLES:
        sizes = template.roles[role].sizes
        mine = [m for m in engines if m.role == role]
        widths[role] = {m.id: sizes.tensor if sizes.written else len(m.gpus) for m in mine if sizes.written or m.gpus}
    if not all(widths.values()):
        return []
    wide, narrow = ENGINE_ROLES if rule == "decode_ge_prefill" else tuple(reversed(ENGINE_ROLES))
    most = max(widths[wide], key=lambda name: widths[wide][name])
    least = min(widths[narrow], key=lambda name: widths[narrow][name])
    if widths[wide][most] <= widths[narrow][least]:
        return []
    why = (
        f"{most} runs on {widths[wide][most]} GPUs and {least} on {widths[narrow][least]}: mode {template.mode.name} wants"
        f" {narrow}'s tensor parallelism at least as wide as {wide}'s"
    )
    return [{"mark": "pairing_tp_misplaced", "why": why}]


def engines_of(situation: Situation) -> list[LiveMember]:
    """The engines that live and are not leaving."""
    return [m for m in situation.members if m.role in ENGINE_ROLES and m.alive and not m.draining]


def locality(engines: t.Sequence[LiveMember]) -> float | None:
    """The share of prefill-decode pairs that are on one host, 0 to 1, whose KV crosses no network; None without a pair."""
    hosts = {role: [m.host for m in engines if m.role == role] for role in ENGINE_ROLES}
    pairs = [one == other for one in hosts["prefill"] for other in hosts["decode"]]
    return round(sum(pairs) / len(pairs), 3) if pairs else None


def _remote(engines: t.Sequence[LiveMember]) -> list[Mark]:
    if locality(engines) == 0:
        return [{"mark": "pairing_remote", "why": "no host runs both roles: every request's KV crosses the network"}]
    return []


def _caches(engines: t.Sequence[LiveMember]) -> list[Mark]:
    """Members that were started without the cache that their role has, by their labels."""
    marks: list[Mark] = []
    for member in engines:
        cache = member.label.cache
        if cache is not None and cache.injected is False:
            what = " ".join(filter(None, (cache.provider, cache.service)))
            why = f"{member.id} runs without its cache ({what or 'unnamed'}): {cache.why or 'no reason is known'}"
            marks.append({"mark": "cache_not_injected", "why": why})
    return marks


def _hosts_changed(kind: Kind, situation: Situation, hosts: t.Mapping[str, Host]) -> list[Mark]:
    """Values of a host that are in a member's command line, and are others by now. The spec's revision does not cover them. What listens
    where its own spec says, as a cache service does, is told nothing of by the host's address."""
    found: dict[tuple[str, str], list[str]] = {}
    for member in situation.members if kind.joined else ():
        host = hosts.get(member.host)
        if host is None or not member.alive or member.draining:
            continue
        moved = [("address", member.label.address, host.address)]
        # Which interface is chosen depends on the mode: an address that the host still has has not changed.
        if member.role in ENGINE_ROLES and member.label.kv_address not in host.interface_addresses:
            moved.append(("address of the KV interface", member.label.kv_address, host.kv_address))
        for what, was, now in moved:
            if was and now and was != now:
                found.setdefault((member.host, f"{what} {was} -> {now}"), []).append(member.id)
        gone = [gpu for gpu in member.gpus if gpu not in {one.id for one in host.gpus}]
        if gone:
            found.setdefault((member.host, f"GPU {', '.join(gone)} is not there any more"), []).append(member.id)
    return [
        {
            "mark": "host_changed",
            "why": f"{host}: {what}, since {', '.join(ids)} was started; applied by a restart",
            "host": host,
            "members": ids,
        }
        for (host, what), ids in found.items()
    ]
