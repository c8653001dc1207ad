# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache service's own steps of a plan: instances that need nothing of each other, without a router, an endpoint or a formation."""

from __future__ import annotations

from dataclasses import replace

from ..base.errors import PdError
from ..base.finding import Findings
from ..base.plain import Plain
from ..facts.observed import Host
from ..rules import port_clashes
from ..runtimes.table import traits_of
from ..spec.cache_service import ROLE, CacheService
from ..spec.workload import CACHE
from ..template.cache_template import INSTEAD, CacheTemplate
from ..work.member import Member
from . import diff, record
from .cache_member import as_it_runs, build
from .member import member_id, seat_of
from .placement import Seats
from .preconditions import check_ephemeral, check_pasted_of, check_read, check_runtime_of
from .seating import seat_instances
from .service_choice import choose
from .situation import Choice, ServiceRequest, Situation
from .value import Plan, RouterStep
from .way import Draft, Way

ServiceDraft = Draft[CacheService, CacheTemplate]


class Services(Way[CacheService, CacheTemplate]):
    """The kind of workload that a cache service is."""

    kind = CACHE

    def choose(self, draft: ServiceDraft) -> Choice:
        asked, service = draft.asked, draft.asked.workload
        if not asked.patterns[ROLE]:
            draft.findings.error(
                "no-hosts",
                f"pd_caches.{service.name}.hosts: the pattern {service.hosts!r} matches no host of the inventory.",
                "Name a group or host that exists; see ansible-inventory --graph.",
            )
        choice = choose(asked, draft.situation, draft.findings)
        _check_runtime(asked, draft.situation, choice, draft.findings)
        return choice

    def seat(self, draft: ServiceDraft) -> tuple[Choice, Seats]:
        return draft.choice, seat_instances(draft.asked, draft.choice, draft.findings)

    def check_hosts(self, draft: ServiceDraft) -> None:
        service = draft.asked.workload
        for name in sorted({seat.host for seat in draft.seats.values()}):
            host = draft.asked.hosts[name]
            check_read(host, draft.findings)
            check_runtime_of(service.runtime, host, draft.findings)
            check_ephemeral(host, draft.findings)
            _check_files(service, host, draft.findings)

    def render(self, draft: ServiceDraft) -> tuple[Member, ...]:
        """Every instance that there is afterwards, those of an earlier spec as their labels say."""
        asked, keep = draft.asked, draft.choice.keep
        same = [m for m in keep if m.revision == asked.template.revision]
        found = [as_it_runs(asked.workload, m) for m in keep if m.revision != asked.template.revision]
        places = [(seat_of(m), m.index, m.generation) for m in same]
        places += [
            (seat, int(name.rpartition("-")[2]), draft.formation.generation) for name, seat in draft.seats.items()
        ]
        for seat, index, generation in places:
            try:
                found.append(build(asked.template, asked.hosts[seat.host], seat, index, generation))
            except PdError as exc:
                draft.findings.error("unresolved-placeholder", f"{seat.host}: {exc}", "", [], seat.host)
        fresh = [m for m in found if m.revision == asked.template.revision]
        check_pasted_of(asked.template.role, fresh, f"pd_caches.{asked.name}.args", INSTEAD, draft.findings)
        come = {m.id for m in found} - {m.id for m in keep}
        port_clashes.check_instances(asked.workload, fresh, come, asked.hosts, asked.others, draft.findings)
        return tuple(sorted(found, key=lambda m: m.index))

    def router(self, draft: ServiceDraft) -> RouterStep:
        return RouterStep(why=f"cache service {draft.asked.name} has none")

    def fields(self, draft: ServiceDraft) -> Plain:
        service, recipe = draft.asked.workload, draft.asked.template.recipe
        users = list(draft.asked.reality.users)
        return {
            "mode": recipe.name,
            "runtime": _started_with(draft.situation, service.runtime) or service.runtime,
            "pending": draft.choice.pending,
            "desired": {ROLE: len(draft.members)},
            "cache": {**service.to_plain(), "users": users, "clients_note": recipe.clients_note},
        }

    def record(self, draft: ServiceDraft, plan: Plan) -> Plain:
        return record.of_service(plan, draft.asked.workload, draft.asked.template, draft.situation)

    def say(self, draft: ServiceDraft, plan: Plan) -> Plan:
        _say_pending(draft, plan)
        return replace(plan, clients_restart=_say_clients(draft))


def _started_with(situation: Situation, wanted: str) -> str | None:
    """The runtime that instances of the service run under, where that is another one than its spec names."""
    members = (*situation.members, *(s.member for s in situation.strays))
    others = {m.label.runtime for m in members if m.label.runtime} - {wanted}
    return min(others, default=None)


def _check_runtime(asked: ServiceRequest, situation: Situation, choice: Choice, findings: Findings) -> None:
    """One run cannot take an instance from one runtime to another."""
    wanted, name = asked.workload.runtime, asked.name
    other = _started_with(situation, wanted)
    if other and (len(choice.keep) < len(situation.members) or choice.create):
        findings.error(
            "cache-runtime",
            f"pd_caches.{name}.runtime: {wanted}, but instances of it were started with {other}.",
            f"Remove it first: ansible-playbook inferops.pd.caches_remove -e pd_cache={name}. Then deploy it.",
        )


def _check_files(service: CacheService, host: Host, findings: Findings) -> None:
    """What an instance is started from is there before anything starts."""
    executable = service.executable if service.command is None else None
    if traits_of(service.runtime).program == "host" and executable and not host.executable(executable).get("exists"):
        findings.error(
            "executable-missing",
            f"pd_caches.{service.name}.executable: {executable} is not there, or not executable, on {host.name}.",
            "Install it (role cache, entry point install), or set executable to its path.",
            [],
            host.name,
        )
    facts = host.image(service.image) if service.image else {}
    if facts and facts.get("exists") is False and (service.pull == "never" or not facts.get("pullable")):
        why = ", and pull is never." if service.pull == "never" else f" and cannot be pulled: {facts.get('why')}."
        findings.error(
            "image-missing",
            f"{host.name}: image {service.image} is not there{why}",
            "Load it on the host, or name one that its registry has.",
            [],
            host.name,
        )


def _say_pending(draft: ServiceDraft, plan: Plan) -> None:
    if not plan.pending:
        return
    asked, before = draft.asked, draft.situation.last.templates
    lines = [line.strip() for line in diff.of_templates(before, asked.template.masked())]
    told = "; ".join(lines[:6] or draft.choice.outdated[:6])
    users = asked.reality.users if asked.workload.clients == "restart" else ()
    after = f" Its clients must restart after it: {', '.join(users)}." if users else ""
    draft.findings.warning(
        "cache-pending",
        f"the spec of cache service {asked.name} differs from what runs, and nothing is restarted: {told}.",
        f"Apply it: ansible-playbook {CACHE.restart(plan.group)}.{after}",
    )


def _say_clients(draft: ServiceDraft) -> bool:
    """What a start of an instance that clients knew already means for them; whether they must restart."""
    asked, choice = draft.asked, draft.choice
    coming = {member_id(asked.name, one.role, one.index) for one in choice.create}
    again = [*(m for m, _w in choice.leave if m.id in coming), *choice.replace]
    # Where not every host was looked at, any of them may run.
    passed = asked.reality.reach.passed
    users = [n for n in asked.reality.users if passed or asked.hosts.runs(n)]
    if not again or not users:
        return False
    places = {m.id: (m.address, m.leader.port) for m in draft.members}
    moved = [m.id for m in again if m.id in places and places[m.id] != (m.label.address or "", m.label.port or 0)]
    if asked.workload.clients == "reconnect" and not moved:
        return False
    names = ", ".join(users)
    why = (
        f"{', '.join(moved)} has another address or port" if moved else f"{', '.join(m.id for m in again)} starts anew"
    )
    draft.findings.warning(
        "cache-clients-restart",
        f"cache service {asked.name}: {why}, and its clients must restart after it: {names}."
        f" {asked.template.recipe.clients_note}".strip(),
        "After this run: " + "; ".join(f"ansible-playbook inferops.pd.restart -e pd_group={g}" for g in users),
    )
    return True
