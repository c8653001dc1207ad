# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proposal: what a run would do, in the lines that somebody approves, and the digest over them.

In it is what a person is shown: who is where after the run, with ports, GPUs, command line, environment and files of those that start; the
steps in order; the router and its peers; what changes of the configuration; which findings there are; the waves. Not in it is what differs
between two looks at the same hosts: identities of runs and formations, times, and the reasons that are told of a step or a finding, which
quote logs. So the same inventory on the same hosts is the same proposal, in check mode or not, on any controller, whatever order hosts
come in."""

from __future__ import annotations

import difflib
import hashlib
import json
import shlex
import typing as t
from dataclasses import dataclass, field

from ..base import json_text
from ..base.errors import PdError
from ..base.plain import Plain
from ..hooks.hook import Hooked
from ..plan import diff
from ..plan.value import Peer, Plan, Step
from ..spec.workload import KINDS
from ..work.member import Member, Part

# Of a later one it is not known what its lines mean.
SCHEMA = 1
# Where one thing comes before the other within a phase; elsewhere the order is that of a look at the hosts.
_IN_ORDER = frozenset({"leave", "renew", "retire", "router_stop"})
_STARTS = frozenset({"create", "replace"})
# An image that is named by its digest is the same one, whether the host has it already or not.
_PINNED = "@sha256:"


@dataclass(frozen=True)
class Planned:
    """A workload of a run: its plan, None where it is refused, and its findings as results have them."""

    name: str
    plan: Plan | None
    findings: t.Sequence[Plain] = ()


@dataclass(frozen=True)
class Differences:
    """The names of workloads in which two proposals differ: those that both have, those of the second alone, those of the first alone."""

    changed: tuple[str, ...] = ()
    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """`run` are the lines about the run as a whole, `workloads` those of each workload."""

    run: tuple[str, ...] = ()
    workloads: t.Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Of all of it, in 64 hexadecimal digits."""
        return _digest([SCHEMA, self.run, sorted(self.workloads.items())])

    @property
    def digests(self) -> dict[str, str]:
        """Of each workload, to tell which one differs. They approve nothing."""
        return {name: _digest(lines)[:16] for name, lines in sorted(self.workloads.items())}

    def to_plain(self) -> dict[str, t.Any]:
        return {
            "schema": SCHEMA,
            "digest": self.digest,
            "run": list(self.run),
            "workloads": {name: list(lines) for name, lines in sorted(self.workloads.items())},
        }

    @classmethod
    def from_plain(cls, raw: object) -> Proposal:
        """One that was written down. Raises PdError for what is none, or is not as it was written."""
        told = json_text.mapping(raw)
        if told.get("schema") != SCHEMA:
            raise PdError("it is no plan of this version of the collection.")
        workloads = json_text.mapping(told.get("workloads"))
        made = cls(
            tuple(json_text.texts(told.get("run"))),
            {str(name): tuple(json_text.texts(lines)) for name, lines in workloads.items()},
        )
        if made.digest != told.get("digest"):
            raise PdError("its digest is not that of its lines: it was edited, or cut off.")
        return made

    def until(self, now: Proposal) -> list[str]:
        """What has changed from this one to another, as a diff with the workload above each; empty where they are the same."""
        found = _diff("run", self.run, now.run)
        for name in sorted({*self.workloads, *now.workloads}):
            found += _diff(name, self.workloads.get(name, ()), now.workloads.get(name, ()))
        return found


def differences(before: t.Mapping[str, str], now: t.Mapping[str, str]) -> Differences:
    """Between the digests of two proposals' workloads."""
    return Differences(
        tuple(sorted(name for name in before if now.get(name, before[name]) != before[name])),
        tuple(sorted(set(now) - set(before))),
        tuple(sorted(set(before) - set(now))),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


def _diff(name: str, before: t.Sequence[str], now: t.Sequence[str]) -> list[str]:
    lines = [line.rstrip("\n") for line in difflib.unified_diff(before, now, n=1)]
    # Without its two heads, which would name files.
    return [f"{name}:", *(f"  {line}" for line in lines[2:] if not line.startswith("@@"))] if lines else []


# -- what is in it -----------------------------------------------------------------------------------------------------------------


def propose(
    action: str, planned: t.Iterable[Planned], waves: t.Sequence[t.Sequence[str]], options: t.Mapping[str, str]
) -> Proposal:
    """The proposal of a run. `options` are what is wanted of it beside its plans, in words."""
    every = {one.name: one for one in planned}
    run = [action, *(f"wave {number}: {', '.join(names)}" for number, names in enumerate(waves, 1))]
    run += [f"{name}: {value}" for name, value in sorted(options.items())]
    return Proposal(tuple(run), {name: _lines(one) for name, one in every.items()})


def _lines(one: Planned) -> tuple[str, ...]:
    findings = sorted({words(found) for found in one.findings})
    if one.plan is None:
        return ("refused", *findings)
    plan = one.plan
    starts = {step.member for step in plan.steps if step.do in _STARTS}
    members = [line for member in plan.members for line in _member(member, member.id in starts)]
    return (*_head(plan), *_steps(plan), *members, *_router(plan), *_beside(plan), *findings)


def words(finding: Plain) -> str:
    """Which finding it is, without what it says: that may quote a log, or what a connection said."""
    about, host = ", ".join(sorted(finding.get("roles") or ())), finding.get("host")
    told = [finding["severity"], finding["code"], about, finding.get("factor"), f"on {host}" if host else ""]
    return " ".join(filter(None, told))


def _head(plan: Plan) -> list[str]:
    kind = KINDS[plan.kind]
    lines = [
        f"{kind.noun} {plan.group}: {plan.action}, {plan.mode}, revision {plan.revision}, generation {plan.generation}"
    ]
    if plan.pending:
        lines.append(f"pending, applied by {kind.restart(plan.group)}")
    lines += [*diff.changes(plan), *plan.moved]
    if not _done(plan):
        lines.append("the record is written" if plan.changed else "nothing to change")
    return lines


def _done(plan: Plan) -> list[Step]:
    """The steps that do anything: what comes up by itself is waited for, and is up by the next look."""
    return [step for step in plan.steps if step.do != "wait"]


def _steps(plan: Plan) -> list[str]:
    found: list[str] = []
    for phase in dict.fromkeys(step.phase for step in _done(plan)):
        mine = [_step(step) for step in _done(plan) if step.phase == phase]
        found += mine if phase in _IN_ORDER else sorted(mine)
    return found


def _step(step: Step) -> str:
    return " ".join(filter(None, [f"[{step.phase}]", step.do, step.member, step.host and f"on {step.host}"]))


def _member(member: Member, starts: bool) -> list[str]:
    """Who there is after the run: of one that starts, all that it is started with."""
    lines = [f"member {member.id}: {member.role}, {member.url}, revision {member.revision}"]
    for part in member.parts:
        lines.append(f"  on {part.host}{', started' if starts else ''}")
        lines += _started(member, part) if starts else [diff.of_seat(part)]
    return lines


def _started(member: Member, part: Part) -> list[str]:
    pinned = bool(part.image and _PINNED in part.image)
    lines = diff.of_part(part, "" if pinned else diff.as_known(part, member.identity))
    engine, model = member.identity.get("engine"), member.identity.get("model")
    if engine and not part.image:
        lines.append(f"    engine {engine}")
    return [*lines, f"    model {model}"] if model else lines


def _router(plan: Plan) -> list[str]:
    """What the router does, whom it is told of, and whom it has to forget."""
    router = plan.router
    if router.member is None and router.policy is None:
        return []
    when = [word for word, holds in (("before", router.early is not None), ("after", router.late)) if holds]
    lines = [f"router: {router.policy} membership, {router.step}" + (f" {' and '.join(when)}" if when else "")]
    lines += [_peer("has", peer) for peer in router.peers]
    lines += [_peer("gets", peer) for peer in router.add]
    lines += [f"  loses {url}" for url in sorted(router.remove)]
    return [*lines, *(_peer("first has", peer) for peer in router.first or ())]


def _peer(what: str, peer: Peer) -> str:
    return f"  {what} {peer.role} {peer.url} ({peer.member})"


def _beside(plan: Plan) -> list[str]:
    """The counts that are meant, the hosts of it, the endpoint; what is lost and out of reach; of a service, who uses it."""
    lines = (
        [f"wanted: {', '.join(f'{role} {count}' for role, count in sorted(plan.desired.items()))}"]
        if plan.desired
        else []
    )
    lines.append(f"hosts: {', '.join(sorted(place for place, mine in plan.hosts.items() if mine.part))}")
    if plan.endpoint.url:
        lines.append(f"endpoint: {plan.endpoint.url} serves {plan.endpoint.served_model_name}")
    lines += sorted(f"lost: {one.host} with {', '.join(sorted(one.members))}" for one in plan.fence)
    if plan.unknown:
        lines.append(f"out of reach: {', '.join(sorted(plan.unknown))}")
    lines += [line for one in plan.hooks or () for line in _hook(one)]
    if plan.cache:
        lines.append(f"used by: {', '.join(sorted(plan.cache.get('users') or ())) or 'nobody'}")
    return [*lines, "its clients must restart after it"] if plan.clients_restart else lines


def _hook(one: Hooked) -> list[str]:
    """Whom the endpoint is given to, and whom it is taken from."""
    told = ["taken out first"] if one.withdraws else []
    if not one.stays:
        told.append("taken out for good")
    elif one.announces:
        told.append(f"given {one.url} of {one.model}, weight {one.weight}, as {one.digest}")
    if not told:
        return []
    commands = (("check", one.hook.check), ("reload", one.hook.reload))
    return [
        f"hook {one.hook.name}, {one.hook.file} on {', '.join(sorted(one.hosts))}: {', then '.join(told)}",
        *(f"  {word} {shlex.join(argv)}" for word, argv in commands if argv),
    ]
