# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the groups of a rollout stand, from what the hosts said in this look; of those that were not looked at, what the last look said."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..module_utils._core.base.checked import DamagedError
from ..module_utils._core.base.order import natural
from ..module_utils._core.base.plain import to_plain
from ..module_utils._core.facts.record import Record, newest
from ..module_utils._core.facts.stands import Beside, both, name_of, other_of, record_of
from ..module_utils._core.plan.hooks import SKIP
from ..module_utils._core.plan.situation import To
from ..module_utils._core.report import status
from ..module_utils._core.rollout import note as notes
from ..module_utils._core.rollout.spec import Rollout
from ..module_utils._core.rollout.standing import Standing, Twin
from ..module_utils._core.spec.selector import labels_of
from ..module_utils._core.spec.spec import Group
from ..module_utils._core.spec.workload import GROUP
from ._action import PdAction
from ._plain import names_list
from ._workloads import Asked, Groups, Judged
from .locking import of_dead

Plain = dict[str, t.Any]


@dataclass(frozen=True)
class Known:
    """A group as it was seen: how it stands; the hosts that keep its record, and which that is (`formation`, `serial`); and all hosts that
    it has members on, or may have."""

    standing: Standing
    keeps: tuple[str, ...] = ()
    formation: str | None = None
    serial: int = 0
    hosts: tuple[str, ...] = ()
    # What a return is onto: what runs by its record, as long as that is not what the rollout brings, else what ran before.
    back: To = "previous"
    # Its locks that dead runs of this machine have left on hosts.
    dead: tuple[str, ...] = ()

    def to_plain(self) -> Plain:
        standing = {**to_plain(self.standing), "note": None, "twin": None}
        twin = self.standing.twin
        note = self.standing.note
        return {
            "standing": standing,
            "note": note.to_plain() if note else None,
            "twin": to_plain(twin) if twin else None,
            "keeps": list(self.keeps),
            "formation": self.formation,
            "serial": self.serial,
            "hosts": list(self.hosts),
            "back": self.back,
            "dead": list(self.dead),
        }

    @classmethod
    def from_plain(cls, raw: Plain) -> Known:
        told = dict(raw["standing"])
        for key in ("hosts", "what", "silent"):
            told[key] = tuple(told.get(key) or ())
        told["note"] = notes.read(raw["note"], "a note of this run")
        twin = raw.get("twin")
        told["twin"] = Twin(**{**twin, "silent": tuple(twin.get("silent") or ())}) if twin else None
        return cls(
            Standing(**told),
            tuple(raw["keeps"]),
            raw.get("formation"),
            int(raw["serial"]),
            tuple(raw["hosts"]),
            raw["back"],
            tuple(raw.get("dead") or ()),
        )


class Looking:
    """What one look says of groups. Of those of `release` it does not count any more that they are held; `returns`: it is asked whether
    each could be returned to what it runs, or ran; `beside`: whether it could be formed beside that."""

    def __init__(
        self, action: PdAction, release: t.Collection[str] = (), returns: bool = False, beside: bool = False
    ) -> None:
        self.action, self.works = action, Groups(action)
        self.seen, self.release, self.returns, self.beside = action.seen(), release, returns, beside

    @classmethod
    def of(cls, action: PdAction, rollout: Rollout, release: t.Collection[str]) -> Looking:
        """With what that rollout asks of its groups."""
        return cls(action, release, rollout.on_failure == "return" and not rollout.beside, rollout.beside)

    def at(self, name: str) -> Known:
        """The group as it is now."""
        action, works, hosts = self.action, self.works, self.seen.hosts
        entry, stands = action.entry(name), action.stands(name)
        stand = stands.serves
        judged = works.judge(stand, entry, works.known(stand, entry, hosts))
        out_of_sight = {**self.seen.silent, **self.seen.hidden, **{h: c.said for h, c in self.seen.broken.items()}}
        state = status.of(works.subject(stand, judged), hosts, sorted(out_of_sight), action.reach(), action.away())
        records = {host: one.records[stand] for host, one in hosts.items() if stand in one.records}
        record = newest(records.values()) or Record.nothing(stand)
        mine = self._hosts_of(name, entry, record)
        other = record_of(stands.twin, hosts) if stands.twin else None
        note, damaged = self._note(record)
        wanted = str(state["spec_revision"] or "")
        back: To = "previous" if record.applied is None or record.applied.revision == wanted else "applied"
        standing = Standing(
            labels=labels_of(entry),
            hosts=mine,
            state=str(state["state"]),
            message=str(state["message"]),
            pending=bool(state["pending"]),
            wanted=wanted,
            what=tuple(str(line) for line in state["pending_diff"]),
            note=note,
            held="" if name in self.release else _held(record),
            silent=tuple(host for host in mine if host in out_of_sight),
            outage=record.took,
            no_return=self._no_return(stand, entry, back) if self.returns and record.members else "",
            damaged=damaged,
            stand=stand,
            twin=Twin.of(stands.twin, other, record, out_of_sight) if stands.twin else None,
        )
        if self.beside and standing.pending:
            standing = replace(standing, no_hook=self._no_hook(judged), no_room=self._no_room(standing, entry, record))
        every = mine if other is None else tuple(sorted({*mine, *(p.host for p in other.members)}, key=natural))
        every = tuple(action.carriers(every))
        keeps = tuple(action.carriers(records))
        dead = of_dead(host.locks.get(one) for one in both(name) for host in hosts.values())
        return Known(standing, keeps, record.formation, record.serial, every, back, tuple(dict.fromkeys(dead)))

    def _no_hook(self, judged: Judged) -> str:
        """Why clients could not be told of another router of the group."""
        hooks = judged.spec.endpoint.hooks if isinstance(judged.spec, Group) else ()
        skipped = [name for name in names_list(self.action.variable(SKIP)) if name in hooks]
        if skipped:
            return f"this run goes without hook {', '.join(skipped)} ({SKIP})"
        return "" if hooks else "it has no endpoint hook that would tell its clients"

    def _no_room(self, standing: Standing, entry: t.Any, record: Record) -> str:
        """What the hosts lack for a second formation, by the plan of it."""
        if standing.twin is not None:
            return ""
        if record.members and record.formation is None:
            deploy = f"ansible-playbook {GROUP.deploy(name_of(record.group))}"
            return f"an earlier version has deployed it, and its record names no formation; {deploy} gives it one"
        action, works, hosts = self.action, self.works, self.seen.hosts
        stand = other_of(standing.stand)
        judged = works.judge(stand, entry, works.known(stand, entry, hosts))
        asked = Asked(
            name=stand,
            hosts=hosts,
            action="deploy",
            run=action.new_run(),
            away=action.away(),
            reach=action.reach(),
            beside=Beside(record),
        )
        # What is wrong with the spec itself is said before.
        if judged.findings.errors:
            return ""
        works.make(judged, asked)
        return " ".join(one.message for one in judged.findings.errors)

    def looked_at(self, hosts: t.Iterable[str]) -> bool:
        """Whether all of these were asked in this look."""
        return not self.seen.passed.intersection(hosts)

    def _no_return(self, name: str, entry: t.Any, back: To) -> str:
        """Why it could not be returned."""
        asked = Asked(
            name=name,
            hosts=self.seen.hosts,
            action="restart",
            run=self.action.new_run(),
            away=self.action.away(),
            reach=self.action.reach(),
            to=back,
        )
        return self.works.no_return(entry, asked)

    def _hosts_of(self, name: str, entry: t.Any, record: Record) -> tuple[str, ...]:
        named = {host for hosts in self.works.patterns(name, entry).values() for host in hosts}
        return tuple(sorted(named | {place.host for place in record.members}, key=natural))

    @staticmethod
    def _note(record: Record) -> tuple[notes.Note | None, str]:
        try:
            return notes.read(dict(record.rollout) or None, f"the record of group {record.group}"), ""
        except DamagedError as exc:
            return None, str(exc)


def _held(record: Record) -> str:
    held = record.held
    return "" if held is None else held.why or f"it was returned to revision {held.revision}"
