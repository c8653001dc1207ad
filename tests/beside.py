# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group behind a hook, and a rollout that forms it beside what serves, in memory: the real decisions, plans and work on hosts, in the
order in which roles/rollout has them."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import memory
from builders import ENGINE, ROUTER, Fleet, judge, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import observed, stands
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.record import Record
from ansible_collections.inferops.pd.plugins.module_utils._core.hooks.hook import Hook
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hooks import Wired
from ansible_collections.inferops.pd.plugins.module_utils._core.report import status
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout import note as notes
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout import spec as rollouts
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.next_turn import next_turn
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.note import Note
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.standing import Standing, Twin
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.turn import Run, Turn
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.work import Work, of_turn, of_verb
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.workload import GROUP
from ansible_collections.inferops.pd.plugins.module_utils._host.note import write_notes

NAME = "demo"
HOOK = Hook("sd", "file_sd", "mon", "/sd/${group}.json")
WIRED = Wired({HOOK.name: (HOOK, ("mon",))})
# No run of one group takes as many turns.
MOST_TURNS = 40


class Fall(BaseException):
    """The controller of a run is gone."""


class Site:
    """The group on two hosts, deployed with a context of 4096. `length` is what its spec says now, `gateways` whom hooks send clients
    to."""

    def __init__(self, on_failure: str = "return", soak: int = 600, gpus: int = 4, racks: bool = False) -> None:
        # With `racks` each of two has room for one formation, and they have no host in common.
        names = ("h1", "h2", "h3", "h4") if racks else ("h1", "h2")
        self.fleet = Fleet(name=NAME, **{host: {"gpus": 1 if racks else gpus} for host in names})
        self.where, self.weight = ("h1", "h2", "h1"), 100
        self.gateways: dict[str, dict[tuple[str, str], str]] = {}
        self.length, self.clock = 4096, 1767600000.0
        self.unproven = self.hook_fails = False
        self.wired = WIRED
        self.on_failure, self.soak = on_failure, soak
        # Counted down with each write of a run, which falls over at zero.
        self.left: int | None = None
        self.falls_when: t.Callable[[], bool] = lambda: False
        self.watched = False
        # What another controller does meanwhile, once, as soon as `meets` says so.
        self.meanwhile: t.Callable[[], object] | None = None
        self.meets: t.Callable[[], bool] = lambda: False
        assert self.by_hand("deploy")

    @property
    def raw(self) -> dict[str, t.Any]:
        roles = {
            "prefill": {"hosts": self.where[0]},
            "decode": {"hosts": self.where[1]},
            "router": {"hosts": self.where[2], "executable": ROUTER, "port": None},
        }
        engine = {"executable": ENGINE, "args": [f"--max-model-len={self.length}"]}
        return spec(engine=engine, endpoint={"hooks": [HOOK.name], "weight": self.weight}, **roles)

    @property
    def rollout(self) -> rollouts.Rollout:
        raw = {"groups": "all", "waves": [{"percent": 100, "soak": self.soak}], "strategy": "beside"}
        found = rollouts.read("r", {**raw, "on_failure": self.on_failure}, findings := Findings())
        assert found is not None, findings.to_plain()
        return found

    # -- what there is -------------------------------------------------------------------------------------------------------

    def hosts(self) -> dict[str, observed.Host]:
        return self.fleet.hosts()

    def stands(self) -> stands.Stands:
        return stands.of(NAME, self.hosts())

    def there(self) -> set[str]:
        """The stands of which anything is on any host, answering or not."""
        found = {m["label"]["group"] for facts in self.fleet.facts.values() for m in facts["members"]}
        return found | {stand for facts in self.fleet.facts.values() for stand in facts["records"]}

    def entries(self) -> list[dict[str, t.Any]]:
        return [m for facts in self.fleet.facts.values() for m in facts["members"]]

    def reached(self, router: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
        """The live members that a router sends requests to."""
        label = router["label"]
        told = router.get("registered") if label.get("policy") == "dynamic" else label.get("peers")
        urls = {one["url"] for one in told or ()}
        return [m for m in self.entries() if m["state"] == "running" and m["label"].get("url") in urls]

    def mixed(self) -> list[str]:
        """Routers that reach a member of another formation than their own."""
        routers = [m for m in self.entries() if m["label"]["role"] == "router" and m["state"] == "running"]
        return [
            r["label"]["member"]
            for r in routers
            if {m["label"]["formation"] for m in self.reached(r)} - {r["label"]["formation"]}
        ]

    def serves(self) -> bool:
        """Whether a client that asks the hook's address is answered."""
        url = self.gateways.get("mon", {}).get((HOOK.name, NAME))
        for router in self.entries():
            label = router["label"]
            if label["role"] == "router" and label["url"] == url and router["state"] == "running":
                return {"prefill", "decode"} <= {m["label"]["role"] for m in self.reached(router) if m["ready"]}
        return False

    def standing(self, release: bool = False) -> Standing:
        """As plugin_utils/_rollout_fleet.py has it."""
        hosts, found = self.hosts(), self.stands()
        silent = sorted(self.fleet.silent)
        verdict = judge(self.raw, name=NAME)
        subject = status.Subject(GROUP, found.serves, verdict.group, verdict.template, verdict.findings.items)
        state = status.of(subject, hosts, silent)
        record = stands.record_of(found.serves, hosts) or Record.nothing(found.serves)
        other = stands.record_of(found.twin, hosts) if found.twin else None
        held = record.held
        return Standing(
            hosts=tuple(self.fleet.facts),
            state=state["state"],
            message=state["message"],
            pending=state["pending"],
            wanted=str(state["spec_revision"]),
            note=notes.read(dict(record.rollout) or None, "the record"),
            held="" if held is None or release else held.why,
            silent=tuple(silent),
            outage=60.0,
            stand=found.serves,
            twin=Twin.of(found.twin, other, record, silent) if found.twin else None,
        )

    # -- what is done --------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        assert not (self.watched and not self.serves()), "clients are without the group while a run goes on"
        assert self.mixed() == []
        if self.watched and self.falls_when():
            raise Fall
        if self.meanwhile is not None and self.meets():
            self._another()
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise Fall

    def _another(self) -> None:
        """Another run, from its beginning to its end, with the locks of this one there."""
        run, self.meanwhile = self.meanwhile, None
        kept = {host: dict(facts["locks"]) for host, facts in self.fleet.facts.items()}
        mine = self.left, self.watched
        assert run is not None
        run()
        self.left, self.watched = mine
        for host, locks in kept.items():
            self.fleet.facts[host]["locks"] = locks

    def _carry_out(self, works: t.Sequence[Work], verb: str, beside: bool) -> bool:
        """Whether all of it ended well; one plan after the other."""
        well = True
        for work in works:
            known = work.beside(self.hosts()) if beside or work.loses or work.points else None
            action = "remove" if work.loses or verb == "remove" else verb
            onto = {"to": work.to} if action != "remove" else {}
            made = self.fleet.plan(self.raw, action, name=work.stand, wired=self.wired, beside=known, **onto)
            if made.errors:
                well = False
                continue
            well &= self.fleet.carry_out(
                made,
                gateways=self.gateways,
                unproven=[work.stand] if self.unproven and work.to == "spec" else [],
                before_write=self._watch,
                before_phase=lambda _phase: self._watch(),
                hook_fails=lambda _host, _hook: self.hook_fails,
            )
        return well

    def by_hand(self, verb: str) -> bool:
        """A run that is no rollout's. Whether it ended well; what is refused does not."""
        record = stands.record_of(self.stands().serves, self.hosts())
        works = of_verb(verb, self.stands(), record.rollout if record else {})
        return (
            bool(works)
            and self._falls(lambda: self._carry_out(works, verb, beside=False), watches=verb != "remove") is True
        )

    def _falls(self, run: t.Callable[[], t.Any], at: int | None = None, watches: bool = True) -> t.Any:
        """What a run returns, None for one that fell over at its write `at`: nobody has its locks then. `watches`: where clients were
        served before it, they are all the time."""
        self.left, self.watched = at, watches and self.serves()
        try:
            return run()
        except Fall:
            return None
        finally:
            self.left, self.watched = None, False
            for facts in self.fleet.facts.values():
                facts["locks"] = {}

    def roll(self, at: int | None = None, **said: t.Any) -> Turn | None:
        """A run of the rollout to its last turn; None where it fell over. `said` are abort, resume and release."""
        return t.cast("Turn | None", self._falls(lambda: self._roll(**said), at))

    def _roll(self, abort: bool = False, resume: bool = False, release: bool = False) -> Turn:
        self.clock += 3600
        began, tried = self.clock, dict[tuple[str, str], int]()
        said = self.standing(release).note
        if said is not None and (abort or release):
            self._note(
                said.aborted(self.clock) if abort and not said.ended else said.released(self.clock) if release else said
            )
        for _turn in range(MOST_TURNS):
            group = self.standing(release)
            turn = next_turn(
                self.rollout,
                {NAME: group},
                self.clock,
                Run(began, resume=resume, release=(NAME,) if release else (), tried=dict(tried)),
            )
            # A run after this one would not know of it.
            lost = [note for note in turn.notes.values() if not self._note(note)]
            if turn.kind == "end" or lost:
                return replace(turn, kind="end", failed=turn.failed or bool(lost))
            if turn.kind == "soak":
                self.clock = max(self.clock, turn.until or 0.0)
            self._do(turn, self.standing(release), tried)
        raise AssertionError(f"it does not end: {turn}")

    def _do(self, turn: Turn, group: Standing, tried: dict[tuple[str, str], int]) -> None:
        note, self.clock = group.note, self.clock + 60
        if turn.kind == "judge":
            assert note is not None
            self._note(note.passed(self.clock))
        if turn.kind not in ("change", "return", "point", "clear"):
            return
        tried[turn.kind, NAME] = tried.get((turn.kind, NAME), 0) + 1
        work = of_turn(turn.kind, group, self.rollout)
        assert work is not None, "what failed beside something is not restarted"
        well = self._carry_out([work], "deploy", beside=True)
        note = self.standing().note
        if note is not None and turn.kind == "return":
            self._note(note.returned(self.clock) if well else note.unreturned(self.clock, "it was not told"))
        elif note is not None and turn.kind == "change" and not well:
            self._note(note.failed(self.clock, "it did not end well"))

    def _note(self, note: Note) -> bool:
        """Into the record of the stand that is the group, on each host that answers; whether it is on any."""
        self._watch()
        found, hosts = self.stands(), self.hosts()
        record = stands.record_of(found.serves, hosts)
        written = False
        for host in hosts if record else ():
            store = memory.FactsStore(self.fleet.facts[host])
            if record is not None and store.record(found.serves):
                given = {"note": note.to_plain(), "formation": record.formation, "serial": record.serial}
                told = write_notes(t.cast("t.Any", store), {found.serves: given}, {"run": "r", "who": "r"})
                written |= not told[found.serves].get("failed")
        return written

    def loses(self, host: str) -> None:
        self.fleet.silent.add(host)

    def gets_back(self) -> None:
        self.fleet.silent.clear()
