# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan of a group is made from: its spec, or a formation that its record keeps as it was rendered.

From the record are made: the members that a pending group lost, all that `heal` replaces, and a restart onto what ran before. None of them
takes anything of a member from the spec; where the group may be, how long is waited for it and where its endpoint is told is the spec's to
say at any time."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.finding import Findings
from ..base.words import names
from ..facts.applied import Applied
from ..facts.observed import Host, LiveMember, on_plane
from ..facts.stands import Beside
from ..recipes.catalogue import Catalogue
from ..runtimes.table import traits_of
from ..spec.spec import ENGINE_ROLES, ROLES, Group
from ..spec.workload import GROUP
from ..template.kept import group_of, template_of
from ..template.template import GroupTemplate
from . import drift
from .hooks import NOTHING as NOT_WIRED
from .hooks import Wired
from .hosts import Hosts
from .situation import Action, Reality, Request, Situation, To

_UNKNOWN = "its record is of a version that did not keep how members were rendered"


@dataclass(frozen=True)
class FromRecord:
    """What is asked for where the record says all of the group: to `heal` it, or to `restart` it onto a formation that it keeps. `group` is
    its spec, None where that cannot be read; `patterns` are the hosts of its roles, as far as it names them."""

    name: str
    action: Action
    to: To
    patterns: t.Mapping[str, t.Sequence[str]]
    reality: Reality
    catalogue: Catalogue
    group: Group | None = None
    release: bool = False
    wired: Wired = NOT_WIRED
    beside: Beside | None = None


def resolve(asked: Request, situation: Situation, findings: Findings) -> Request:
    """The request for a spec as it is carried out: while the spec is pending, what has to be started is what the record keeps."""
    last, revision = situation.last, asked.template.revision
    if asked.action == "restart":
        _check_held(asked, situation, findings)
        return asked
    alive = [m for m in situation.members if m.alive]
    pending = any(m.revision != revision for m in alive)
    pending |= bool(situation.unknown) and last.revision not in (None, revision)
    held = last.held is not None and not asked.release and last.held.revision != revision
    if not alive and not situation.unknown and situation.noted is not None:
        # Nothing runs: it forms anew, on the spec, unless that is what it was taken back from.
        pending = held
    if not pending or asked.catalogue is None:
        return asked
    made, why = _of_applied(asked, situation, alive)
    if made is not None:
        return replace(
            made,
            waits=asked,
            counts=asked.counts,
            allow_scale_down=asked.allow_scale_down,
            wired=asked.wired,
            release=asked.release,
            evacuated=asked.evacuated,
            beside=asked.beside,
        )
    if not alive and not situation.unknown:
        _check_held(asked, situation, findings)
    return replace(asked, unkept=why)


def _of_applied(asked: Request, situation: Situation, alive: t.Sequence[LiveMember]) -> tuple[Request | None, str]:
    """(the request for what runs, why there is none)."""
    kept = situation.last.applied
    if kept is None or asked.catalogue is None:
        return None, _UNKNOWN
    if any(m.revision != kept.revision for m in alive):
        return None, "its members are not of the one revision that its record keeps"
    of = FromRecord(asked.name, asked.action, "spec", asked.patterns, asked.reality, asked.catalogue, asked.workload)
    return _request(of, kept, situation)


def _check_held(asked: Request, situation: Situation, findings: Findings) -> None:
    """A group that was returned to an earlier configuration does not go onto its spec by the way."""
    held = situation.last.held
    if held is None or asked.release or asked.template.revision == held.revision:
        return
    findings.error(
        "group-held",
        f"{asked.name} is held at revision {held.revision}"
        + (f": {held.why}" if held.why else "")
        + ". Its spec is not applied.",
        f"Correct the spec, then apply it: ansible-playbook {GROUP.restart(asked.name)} -e pd_release={asked.name}. To restart it as it"
        f" runs: -e pd_to=applied.",
    )


def recorded(asked: FromRecord, situation: Situation, findings: Findings) -> Request | None:
    """The request that is made of the record alone; None, and a finding, where it cannot be."""
    last = situation.last
    kept = last.previous if asked.to == "previous" else last.applied
    restart = f"ansible-playbook {GROUP.restart(asked.name)}"
    if kept is None and asked.to == "previous" and last.applied is not None:
        findings.error(
            "nothing-to-return-to",
            f"{asked.name}: its record keeps no configuration before this one whose proof was good.",
            f"Correct the spec, then apply it: {restart}.",
        )
        return None
    if kept is None:
        why = _UNKNOWN if situation.noted is not None else "no host has a record of it"
        findings.error(
            "applied-unknown",
            f"{asked.name}: what its members were started as is not known: {why}.",
            f"Apply the spec: {restart}; from then on the record keeps it."
            if situation.noted
            else f"Deploy it: ansible-playbook inferops.pd.deploy -e pd_group={asked.name}.",
        )
        return None
    made, why = _request(asked, kept, situation)
    if made is None:
        what = "what ran before" if asked.to == "previous" else "what runs"
        findings.error(
            "applied-not-carried",
            f"{asked.name}: {what} (revision {kept.revision}, generation {kept.generation}) cannot be started again: {why}."
            " Nothing was stopped.",
            f"Bring that back, or apply the spec: {restart}.",
        )
    return made


def no_return(asked: FromRecord, situation: Situation) -> str:
    """Why what the record keeps could not be returned to, in words that follow a colon; empty when nothing is known to be in the way.
    Before a change it is asked of what runs (`to`: applied), which becomes what ran before."""
    last = situation.last
    kept = last.previous if asked.to == "previous" else last.applied
    if kept is None:
        known = asked.to == "previous" and last.applied is not None
        return "no configuration before this one was proven" if known else _UNKNOWN
    if kept.proven is None:
        return "no proof of it was good"
    request, why = _request(asked, kept, situation)
    if request is None:
        return why
    other = drift.moved_since(request, {place.id: place.host for place in last.members})
    return other[0].line() if other else ""


def _request(asked: FromRecord, kept: Applied, situation: Situation) -> tuple[Request | None, str]:
    """(the request for a formation that is kept, why there is none)."""
    group = group_of(asked.name, kept, asked.group)
    if group is None:
        return None, "the spec that the record keeps cannot be read"
    template, why = template_of(kept, group, asked.catalogue)
    if template is None:
        return None, why
    lacks = _secrets_gone(asked.group, template)
    if lacks:
        return None, lacks
    hosts = Hosts.of(on_plane(asked.reality.hosts, template.mode.interface_plane))
    request = Request(
        group,
        template,
        {role: _places(asked, role, group, template, situation) for role in ROLES},
        asked.action,
        replace(asked.reality, hosts=hosts),
        wired=asked.wired,
        to=asked.to,
        release=asked.release,
        catalogue=asked.catalogue,
        beside=asked.beside,
        kept=kept,
    )
    return request, ""


def _secrets_gone(now: Group | None, template: GroupTemplate) -> str:
    """Names of secrets that members were started with and that the variables do not give any more. A spec that cannot be read is asked
    when the hosts are locked, and nothing has been stopped by then."""
    for role in ROLES if now else ():
        gone = sorted(set(template.roles[role].secrets) - set(now.roles[role].secrets if now else ()))
        if gone:
            told = f"{'secrets' if len(gone) > 1 else 'secret'} {names(gone)}"
            return f"roles.{role} was started with {told}, which its spec does not give any more"
    return ""


def _places(asked: FromRecord, role: str, group: Group, template: GroupTemplate, situation: Situation) -> list[str]:
    """Where members of a role may be: on the hosts of its pattern, else on those that the record names; and of these only where this run
    has looked at what they are made of, so that nothing is started that nobody has compared."""
    named = list(asked.patterns.get(role) or dict.fromkeys(p.host for p in situation.last.members if p.role == role))
    hosts = asked.reality.hosts
    return [name for name in named if name not in hosts or _looked_at(hosts[name], role, group, template)]


def _looked_at(host: Host, role: str, group: Group, template: GroupTemplate) -> bool:
    if host.node is not None and not host.node.looked:
        # What the API does not know of a node nobody has compared before either.
        return True
    one, model = template.roles[role], group.on_host(role, group.model) if role in ENGINE_ROLES else None
    program = traits_of(group.runtime).program
    seen = model is None or model in host.models
    if traits_of(group.runtime).images and one.image:
        seen = seen and one.image in host.images
    return seen and (program == "image" or not one.executable or one.executable in host.executables)
