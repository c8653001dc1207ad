# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot be asked: hosts that are silent, lost or damaged, and what a plan may do all the same."""

from __future__ import annotations

import typing as t

from ..base.finding import Findings
from ..base.words import by_number, names
from ..cluster.places import asking, node_of
from ..facts.cordon import BY_INVENTORY
from ..facts.observed import Host
from ..spec.workload import Kind
from .situation import Asked, Reality, Situation, Template, Workload


def check_reach(action: str, situation: Situation, reality: Reality, findings: Findings) -> None:
    """Unknown is not lost: with a part of the group out of reach nothing of it may be stopped or replaced, and nothing may be formed where
    nobody knows whether it is formed already."""
    reach = reality.reach
    # One that was emptied has nothing that could be in the way.
    hold: dict[str, list[str]] = {host: [] for host in set(reality.silent) - set(situation.last.emptied)}
    damaged = {(host, d.member) for host, d in situation.damaged}
    for member in situation.unknown:
        if (member.host, member.id) not in damaged:
            hold.setdefault(member.host, []).append(member.id)
    if not hold:
        return
    told, way_out = reach.of_hosts(hold), reach.ways_out(hold)
    gone = reach.maybe_gone(hold)
    them = f"If {by_number(gone, 'it is', 'they are')} fenced for good, say so: -e pd_lost_hosts={','.join(gone)}"
    fenced = [them] if gone else []
    if action in ("restart", "remove"):
        refused = f"a {action} of a part of the group is refused, nothing was stopped."
        findings.error("host-unreachable", f"{told}: {refused}", " ".join([way_out, *fenced]))
    elif situation.noted is None:
        findings.error(
            "host-unreachable",
            f"{told}, and no other host has a record of the group: whether it is formed already, there, nobody knows. Nothing is formed.",
            "; or ".join(
                [
                    " ".join([way_out, *fenced]),
                    "pd_out_of_service: true in the inventory, for one that is away for a while.",
                ]
            )
            if gone
            else way_out,
        )
    elif action == "evacuate" and situation.unknown:
        findings.error("host-unreachable", f"{told}: nothing of the group is moved.", " ".join([way_out, *fenced]))
    else:
        # By its record none of it is on those of which nothing is held.
        kept = "nothing of the group is replaced or restarted." if any(hold.values()) else "no member comes there."
        findings.warning("host-unreachable", f"{told}: {kept}", " ".join([way_out, *fenced]))


def say_cordons(asked: Asked[Workload, Template], situation: Situation, kind: Kind, findings: Findings) -> None:
    """Which hosts of the workload nobody is seated on, and why. What is emptied is told as such."""
    mine = {host for hosts in asked.patterns.values() for host in hosts} | {m.host for m in situation.members}
    for name in sorted(mine - set(asked.evacuated)):
        host = asked.hosts.get(name)
        if host is None or host.cordon is None:
            continue
        ends = f"ansible-playbook inferops.pd.evacuate -e pd_host={name} -e pd_return=true ends that."
        if host.node is not None:
            ends = f"kubectl uncordon {node_of(name)} ends that." if host.node.ready else f"See why: {asking(name)}"
        findings.warning(
            "host-cordoned",
            f"{name} is {host.cordon.told()}: what runs there stays, and no member of the {kind.short} comes there.",
            "Take pd_cordoned out of the inventory to end that." if host.cordon == BY_INVENTORY else ends,
            [],
            name,
        )


def check_lost(lost: t.Iterable[str], situation: Situation, hosts: t.Mapping[str, Host], findings: Findings) -> None:
    """A host that answers is not lost: what runs there is seen, and is stopped as anything else. Of a node that nobody hears of its cluster
    alone answers."""
    there = {name for name, host in hosts.items() if host.node is None or host.node.ready} | set(situation.renamed)
    answering = sorted(set(lost) & there)
    if answering:
        findings.error(
            "lost-host-answers",
            f"pd_lost_hosts names {names(answering)}, and {by_number(answering, 'it answers', 'they answer')}: not lost.",
            "Leave it out of pd_lost_hosts. To keep a host that answers from being used: pd_out_of_service: true in the inventory.",
        )


def check_damaged(action: str, situation: Situation, findings: Findings) -> None:
    """A file that cannot be read harms the member or the group that it is of, and is named. Beside a member of which nothing is known the
    others are neither stopped nor formed anew."""
    for host, damage in situation.damaged:
        whole = damage.member is None
        if whole and situation.noted is not None:
            findings.warning(
                "state-damaged",
                f"{host}: {damage.path} is damaged ({damage.why}). The record of another host holds, and is written there again.",
                "",
                [],
                host,
            )
            continue
        say = findings.error if whole or action in ("restart", "remove", "evacuate") else findings.warning
        say(
            "state-damaged",
            f"{host}: {damage.path} is damaged ({damage.why}): "
            + ("what there is of the group is not known." if whole else f"whether {damage.member} runs is not known."),
            "Restore the file, or stop what runs and delete it by hand; then run again.",
            [],
            host,
        )
