# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of rollout_turn: what comes next of a rollout, from what its groups' records say; then what was measured and noted of
it. The decision is the core's (rollout/turn.py), and what is kept is in the records: here they are brought together."""

from __future__ import annotations

import time
import typing as t
from dataclasses import replace

from ..module_utils._core.base.order import natural
from ..module_utils._core.base.plain import to_plain
from ..module_utils._core.base.printable import printable
from ..module_utils._core.base.words import names
from ..module_utils._core.facts.stands import name_of
from ..module_utils._core.rollout import note as notes
from ..module_utils._core.rollout.draw import draw
from ..module_utils._core.rollout.next_turn import next_turn
from ..module_utils._core.rollout.note import Note
from ..module_utils._core.rollout.told import table
from ..module_utils._core.rollout.turn import LONGEST_WAIT, Run, Turn
from ..module_utils._core.rollout.work import Work, of_turn
from ..module_utils._core.spec.workload import CACHE, GROUP
from ..plugin_utils import _caches
from ..plugin_utils._action import PdAction
from ..plugin_utils._rollout_fleet import Known, Looking
from ..plugin_utils._rollout_gate import Measuring
from ..plugin_utils._rollouts import entry_of, gate_command, rollout_of
from ..plugin_utils.rollout_folder import Plain, RolloutFolder
from ..plugin_utils.run_folder import RunFolder

PHASES = ("next", "measured", "noted", "soak", "end")
# Turns that carry out a plan.
WORKS = ("change", "return", "point", "clear")
_LONGEST = 600
# How a person is told of a turn, with the groups it is about.
_TOLD = {
    "note": "how far it has come",
    "change": "change {0}",
    "soak": "watch {0}",
    "judge": "judge {0}",
    "return": "return {0}",
    "point": "have hooks know {0}",
    "clear": "clear away what stands beside {0}",
    "end": "the end",
}


# And of what a person has said to it.
_SAID = {
    "run": "{0}: released, to be changed again",
    "pause": "it is paused",
    "go": "it goes on",
    "abort": "it is given up",
}


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "rollout": {"type": "path", "required": True},
        "phase": {"type": "str", "choices": list(PHASES), "default": "next"},
        "run": {"type": "path"},
        "register": {"type": "str", "default": "pd_facts"},
    }

    def act(self) -> dict[str, t.Any]:
        self.folder = RolloutFolder(str(self.args["rollout"]))
        self.state = self.folder.state()
        self.rollout = rollout_of(self, self.state["name"])
        phase = {
            "next": self._next,
            "measured": self._measured,
            "noted": self._noted,
            "soak": self._soak,
            "end": self._end,
        }[self.args["phase"]]
        return phase()

    # -- what comes next -----------------------------------------------------------------------------------------------------------

    def _next(self) -> dict[str, t.Any]:
        known, before, now = self._looked(), self.folder.turn(), time.time()
        became = self._became(before, known, now)
        fleet = {name: replace(one.standing, note=became.get(name, one.standing.note)) for name, one in known.items()}
        said = self._said(known, now) if not before else {}
        if said:
            turn = Turn("note", tuple(said), notes=said, why=_SAID[self.state["state"]].format(names(list(said))))
        else:
            state, release = self.state, tuple(self.state["release"])
            tried = {(kind, name): count for kind, told in state["tried"].items() for name, count in told.items()}
            run = Run(state["began"], state["ends"], state["state"] == "go", release, tried)
            turn = next_turn(self.rollout, fleet, now, run)
        written = {**became, **turn.notes}
        number = int(before.get("number") or 0) + 1
        measuring = Measuring(self.rollout, turn, written, self._kept_notes(known))
        hosts = sorted({host for name in measuring.names for host in known[name].hosts}, key=natural)
        self.folder.write_turn(
            {
                "number": number,
                "kind": turn.kind,
                "names": list(turn.names),
                "until": turn.until,
                "failed": turn.failed,
                "why": turn.why,
                "notes": {name: one.to_plain() for name, one in written.items()},
                "measures": measuring.names,
            }
        )
        return {"do": turn.kind, "told": self._told(turn), "measures": hosts, "names": list(turn.names)}

    def _looked(self) -> dict[str, Known]:
        """How all groups stand: those whose hosts were looked at now as they are now."""
        looking = Looking.of(self, self.rollout, self.state["release"])
        known = {name: Known.from_plain(raw) for name, raw in self.state["known"].items()}
        for name, one in known.items():
            if looking.looked_at({*one.hosts, *one.keeps}):
                known[name] = looking.at(name)
        self._keep(known)
        return known

    def _keep(self, known: t.Mapping[str, Known]) -> None:
        self.state["known"] = {name: one.to_plain() for name, one in known.items()}
        self.folder.write_state(self.state)

    def _became(self, before: Plain, known: t.Mapping[str, Known], now: float) -> dict[str, Note]:
        """What became of the groups of the turn before, as notes: of a change that did not end well, and of a return."""
        if before.get("kind") not in ("change", "return") or not self.args["run"]:
            return {}
        failed = _outcomes(RunFolder(str(self.args["run"])))
        found = {}
        for name in before["names"]:
            note = known[name].standing.note
            if note is None:
                continue
            if before["kind"] == "return":
                found[name] = note.unreturned(now, failed[name]) if name in failed else note.returned(now)
            elif name in failed:
                found[name] = note.failed(now, failed[name])
        return found

    def _said(self, known: t.Mapping[str, Known], now: float) -> dict[str, Note]:
        """What a person has said to the rollout, as notes of all its groups that it is not done with."""
        mine = {name: note for name, note in self._kept_notes(known).items() if note.rollout == self.rollout.name}
        said, release = self.state["state"], self.state["release"]
        if said == "abort":
            return {name: note.aborted(now) for name, note in mine.items() if not note.ended}
        if said in ("pause", "go"):
            return {
                name: note.pausing(said == "pause") for name, note in mine.items() if note.paused != (said == "pause")
            }
        freed = {name: note.released(now) for name, note in mine.items() if name in release}
        return {name: note for name, note in freed.items() if note is not mine[name]}

    @staticmethod
    def _kept_notes(known: t.Mapping[str, Known]) -> dict[str, Note]:
        return {name: one.standing.note for name, one in known.items() if one.standing.note is not None}

    @staticmethod
    def _told(turn: Turn) -> str:
        return _TOLD[turn.kind].format(names(list(turn.names)))

    # -- what was measured -----------------------------------------------------------------------------------------------------------

    def _measured(self) -> dict[str, t.Any]:
        """The notes with what was measured; and, of those whose soak is over, the verdict."""
        turn = self.folder.turn()
        known = {name: Known.from_plain(raw) for name, raw in self.state["known"].items()}
        measuring = Measuring(self.rollout, self._turn(turn), self._notes(turn), self._kept_notes(known))
        said = self.folder.said("measured", turn["number"])
        written, lines = measuring.done(said, time.time())
        self.folder.write_turn({**turn, "notes": {name: one.to_plain() for name, one in written.items()}})
        for line in lines:
            self._display.display(line)
        hosts = {host for name in written for host in known[name].keeps}
        return {"do": turn["kind"], "names": turn["names"], "notes": sorted(hosts, key=natural)}

    @staticmethod
    def _notes(turn: Plain) -> dict[str, Note]:
        found = {name: notes.read(raw, "a note of this run") for name, raw in turn["notes"].items()}
        return {name: one for name, one in found.items() if one is not None}

    @staticmethod
    def _turn(raw: Plain) -> Turn:
        return Turn(raw["kind"], tuple(raw["names"]), until=raw["until"], failed=raw["failed"], why=raw["why"])

    # -- what was noted --------------------------------------------------------------------------------------------------------------

    def _noted(self) -> dict[str, t.Any]:
        """What is done now. Of a group whose note nobody could write nothing is done: a run after this one would not know of it."""
        turn = self.folder.turn()
        known = {name: Known.from_plain(raw) for name, raw in self.state["known"].items()}
        lost = self._unwritten(turn, known)
        if lost:
            why = "; ".join(f"{name}: {why}" for name, why in lost.items())
            turn |= {
                "kind": "end",
                "failed": True,
                "why": f"How far it has come could not be kept, so it goes no further. {why}",
            }
            self.folder.write_turn(turn)
        for name, note in self._notes(turn).items():
            if name not in lost:
                one = known[name]
                known[name] = replace(one, standing=replace(one.standing, note=note), serial=one.serial + 1)
        self._keep(known)
        if turn["why"]:
            self._display.display(f"Rollout {self.rollout.name}: {turn['why']}")
        # What a turn has done is looked at; and before others are chosen, all of it.
        seen = turn["names"] if turn["kind"] in (*WORKS, "soak") else list(known)
        hosts = {host for name in turn["names"] for host in known[name].hosts}
        looked = {host for name in seen for host in known[name].hosts}
        return {
            "do": turn["kind"],
            "number": turn["number"],
            "names": turn["names"],
            "told": self._told(self._turn(turn)),
            **self._done(turn, known),
            "hosts": sorted(hosts, key=natural),
            "seen": self._workloads(seen),
            "look": [] if turn["kind"] == "end" else sorted(looked, key=natural),
            # What it ran before has passed already.
            "gate": self.rollout.name if turn["kind"] == "change" and self._has_command() else "",
        }

    def _done(self, turn: Plain, known: t.Mapping[str, Known]) -> dict[str, t.Any]:
        """What is done about the groups of a turn: by which action of the group's role, to which workloads, and onto what."""
        kind, every = turn["kind"], list(turn["names"])
        if kind in ("point", "clear"):
            self._count(kind, every)
        found = {name: of_turn(kind, known[name].standing, self.rollout) for name in every}
        stands = [_stand(name, work) for name, work in found.items() if work is not None]
        if stands:
            services = self._services(every) if kind == "change" else []
            return {"action": "deploy", "workloads": [*services, *stands], "to": {}}
        to = {name: known[name].back for name in every} if kind == "return" else {}
        return {"action": "restart", "workloads": self._workloads(every), "to": to}

    def _count(self, kind: str, names: t.Iterable[str]) -> None:
        tried = self.state["tried"].setdefault(kind, {})
        for name in names:
            tried[name] = int(tried.get(name) or 0) + 1
        self.folder.write_state(self.state)

    def _has_command(self) -> bool:
        return bool(gate_command(entry_of(self, self.rollout.name)))

    def _workloads(self, groups: t.Sequence[str]) -> list[dict[str, str]]:
        """The groups, with the services that they use before them."""
        return self._services(groups) + [{"kind": GROUP.name, "name": name} for name in groups]

    def _services(self, groups: t.Sequence[str]) -> list[dict[str, str]]:
        services = dict.fromkeys(one for name in groups for one in _caches.deployed_for(self, name))
        return [{"kind": CACHE.name, "name": one} for one in services]

    def _unwritten(self, turn: Plain, known: t.Mapping[str, Known]) -> dict[str, str]:
        """Groups whose note is on no host, with why. On one is enough: the record that was written last holds."""
        said = self.folder.said("noted", turn["number"])
        found = {}
        for name in turn["notes"]:
            told = {host: one[name] for host, one in said.items() if name in one}
            if any(not one.get("failed") for one in told.values()):
                continue
            whys = {f"{host}: {one.get('msg') or 'no reason given'}" for host, one in told.items()}
            found[name] = "; ".join(sorted(whys)) or f"none of {names(list(known[name].keeps))} answered"
        return found

    # -- a soak, and the end ---------------------------------------------------------------------------------------------------------

    def _soak(self) -> dict[str, t.Any]:
        turn = self.folder.turn()
        until = min(float(turn["until"] or 0), time.time() + LONGEST_WAIT)
        left = until - time.time()
        if left > 0:
            clock = time.strftime("%H:%M:%S", time.localtime(until))
            self._display.display(f"{names(turn['names'])}: watched until {clock}, for {left:.0f} s.")
            time.sleep(left)
        return {"do": turn["kind"]}

    def _end(self) -> dict[str, t.Any]:
        """What has become of it, group by group; and a failure where there is one to see to."""
        turn = self.folder.turn()
        fleet = {name: Known.from_plain(raw).standing for name, raw in self.state["known"].items()}
        self._display.display("\n".join(table(self.rollout, fleet, draw(self.rollout, fleet))))
        states = {name: one.note.state for name, one in fleet.items() if one.note is not None}
        result: dict[str, t.Any] = {"groups": states, "go_on": turn["until"], "changed": False}
        if turn["failed"]:
            return {**result, "failed": True, "msg": f"Rollout {self.rollout.name}: {turn['why']}"}
        return {**result, "msg": f"Rollout {self.rollout.name}: {turn['why']}"}


def _stand(name: str, work: Work) -> dict[str, t.Any]:
    """A stand of a group, as what a run works on (action/group_plan.py)."""
    return {"kind": GROUP.name, "name": name, **to_plain(work)}


def _outcomes(run: RunFolder) -> dict[str, str]:
    """The workloads of a run that did not end well, by what their users call them, with why in one line."""
    index = run.index()
    found = dict(index.refused)
    for wave in range(len(index.waves)):
        found |= {name: one.told for name, one in run.courses(wave).items() if one.failed}
    return {name_of(name): _in_a_line(text) for name, text in found.items()}


def _in_a_line(told: str) -> str:
    """What a person is told of a workload, without what stands below it: its head, and each thing that went wrong."""
    head, *rest = told.splitlines() or [""]
    wrong = [line.removeprefix("- ") for line in rest if line.startswith("- ")]
    return printable("; ".join([head.rstrip("."), *wrong]), _LONGEST)
