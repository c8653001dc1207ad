# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_plan: reads the entries and the hosts' facts of this run, lets the core make the plans, one in sight of the
others, shows them, and writes them into the run's folder. One way for groups and cache services; what differs is their kind's
(plugin_utils/_workloads.py)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings, as_text, sentences
from ..module_utils._core.base.values import blank, integer
from ..module_utils._core.base.words import counted
from ..module_utils._core.base.words import names as listed
from ..module_utils._core.cluster.places import asking
from ..module_utils._core.course.orders import parts_of
from ..module_utils._core.facts.cordon import Cordon
from ..module_utils._core.facts.stands import Beside, both, name_of, record_of
from ..module_utils._core.plan import overview
from ..module_utils._core.plan import plan as core_plan
from ..module_utils._core.plan.reserved import Reserved
from ..module_utils._core.plan.situation import Run, To
from ..module_utils._core.plan.value import Plan
from ..module_utils._core.plan.waves import waves
from ..module_utils._core.report import status
from ..module_utils._core.report.proposal import Planned, Proposal, propose
from ..module_utils._core.report.users import uses
from ..module_utils._core.rollout.twice import say_twice
from ..module_utils._core.rollout.work import Work, of_verb
from ..module_utils._core.spec.selector import no_such
from ..module_utils._core.spec.spec import ENGINE_ROLES
from ..module_utils._core.spec.workload import CACHE, GROUP, KINDS
from ..plugin_utils import _caches, approval
from ..plugin_utils._action import PdAction, Refusal, refuse
from ..plugin_utils._batch import check_batch
from ..plugin_utils._plain import names_list, to_plain
from ..plugin_utils._workloads import Asked, Judged, Workloads, workloads_of
from ..plugin_utils.locking import of_dead
from ..plugin_utils.run_folder import Index, RunFolder

ACTIONS = ("deploy", "scale", "restart", "heal", "evacuate", "remove")
# What a restart is onto.
TO = ("spec", "applied", "previous")
# What says that a spec waits for a restart.
PENDING = ("pending-configuration", "identity-moved", "cache-pending")


@dataclass
class One:
    """A workload of the run: what its plan is made of, and the plan, or why there is none."""

    works: Workloads
    name: str
    action: str
    findings: Findings
    judged: Judged | None = None
    plan: Plan | None = None
    refusal: Refusal | None = None
    to: To = "spec"
    beside: Beside | None = None

    @property
    def from_record(self) -> bool:
        """Whether its record says all of it, and its spec is not asked."""
        return self.action == "heal" or self.to != "spec"

    @property
    def works_on(self) -> bool:
        """Whether there is anything to be done."""
        return self.plan is not None and self.refusal is None and bool(self.plan.changed or self.plan.steps)


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str"},
        "kind": {"type": "str", "choices": list(KINDS), "default": GROUP.name},
        "workloads": {"type": "list", "elements": "dict"},
        "spec": {"type": "dict"},
        "hosts": {"type": "dict"},
        "register": {"type": "str", "default": "pd_facts"},
        "action": {"type": "str", "choices": list(ACTIONS), "default": "deploy"},
        "counts": {"type": "dict", "default": {}},
        "allow_scale_down": {"type": "bool", "default": False},
        "evacuate": {"type": "list", "elements": "str", "default": []},
        "to": {"type": "raw"},
        "release": {"type": "list", "elements": "str", "default": []},
        "lost_hosts": {"type": "list", "elements": "str", "default": []},
        "parallel": {"type": "int"},
        "proof": {"type": "str", "default": "changed"},
        "modes_path": {"type": "list", "elements": "path", "default": []},
        "fail_on": {"type": "str", "choices": ["error", "unverified", "warning", "never"], "default": "error"},
        "fail_on_pending": {"type": "bool", "default": False},
        "forget_tombstone": {"type": "list", "elements": "str", "default": []},
        "fence": {"type": "bool", "default": False},
        "plan_out": {"type": "path"},
        "plan_digest": {"type": "str"},
        "plan_digests": {"type": "raw"},
        "plan_file": {"type": "path"},
        "plan_is_part": {"type": "bool", "default": False},
        "fails": {"type": "bool", "default": True},
    }

    def act(self) -> dict[str, t.Any]:
        check_batch(self._task, self.task_vars)
        every = self._every()
        run, counts = self.new_run(), self._counts()
        reserved = Reserved()
        for one in every:
            self._make(one, self._asked(one, replace(run, formation=self.new_run().formation), counts, reserved))
            # The next one sees what this one takes, and where its cache service will be. What is removed takes nothing, and what is
            # cleared away beside a group is a change of this run.
            if one.plan is not None and one.refusal is None and (one.action != "remove" or one.beside is not None):
                reserved = reserved.beside(one.plan)
        return self._answer(every)

    def _every(self) -> list[One]:
        """What is planned, in order."""
        given = to_plain(self.args["workloads"])
        if given is None:
            if not self.args["name"]:
                raise PdError("group_plan needs name, or workloads: a list of {kind, name}.")
            given = [{"kind": self.args["kind"], "name": self.args["name"]}]
        groups = [one for one in given if (one.get("kind") or GROUP.name) == GROUP.name]
        every = []
        to = self._to([str(one["name"]) for one in groups])
        # A removal of groups neither starts a service nor waits for one, and what is healed are groups.
        alone = self.args["action"] == "heal" or (groups and self.args["action"] == "remove")
        for raw in groups if alone else given:
            kind = raw.get("kind") or GROUP.name
            # Services that groups of the run use are there for these: they are brought to what their entries say, and never restarted.
            beside = kind == CACHE.name and bool(groups) and self.args["action"] != "evacuate"
            action = "deploy" if beside else self.args["action"]
            onto = to.get(str(raw["name"]), "spec") if not beside else "spec"
            works = workloads_of(kind, self)
            if kind == GROUP.name and self.args["spec"] is None:
                every += on_stands(self, works, raw, action, onto)
            else:
                every.append(One(works, str(raw["name"]), action, Findings(), to=onto))
        twice = sorted({one.name for one in every if sum(other.name == one.name for other in every) > 1})
        if twice:
            raise PdError(
                f"{listed(twice)}: the name of a group and of a cache service. On hosts a name is of one thing: rename one of them."
            )
        return every

    def _make(self, one: One, asked: Asked) -> None:
        """Its plan, or why it is refused. A group that is refused takes nothing from the others."""
        if one.refusal:
            return
        try:
            if one.action == "remove":
                entry = self._removed(one)
                one.refusal = self._refuse_broken(one, entry)
                if one.refusal:
                    return
                made = one.works.removal(entry, asked, one.findings)
            elif one.from_record:
                entry = self._removed(one)
                one.refusal = self._refuse_broken(one, entry)
                if one.refusal:
                    return
                made = one.works.from_record(entry, asked, one.findings)
            else:
                entry = self.spec_of(one.name, one.works.kind)
                one.refusal = self._refuse_broken(one, entry)
                if one.refusal:
                    return
                one.judged = self._judged(one, entry)
                one.findings = one.judged.findings
                one.refusal = refuse(one.name, one.findings, self.args["fail_on"], one.works.kind)
                if one.refusal:
                    return
                made = one.works.make(one.judged, asked)
        except PdError as exc:
            if len(self.args["workloads"] or ()) < 2:
                raise
            one.refusal = Refusal(one.name, str(exc), [])
            return
        self._say_hosts(asked.silent(one.works.patterns(one.name, entry)), one.findings)
        # A run that was killed here holds its locks on hosts that cannot see that it is gone.
        stands = both(one.name) if one.works.kind is GROUP else (one.name,)
        dead = of_dead(host.locks.get(stand) for host in asked.hosts.values() for stand in stands)
        one.plan = replace(made, dead_locks=tuple(dead)) if dead else made
        one.refusal = refuse(one.name, one.findings, self.args["fail_on"], one.works.kind)
        if not one.refusal and made.pending and self.args["fail_on_pending"]:
            told = [f for f in one.findings.to_plain() if f["code"] in PENDING]
            one.refusal = Refusal(one.name, f"{one.works.kind.title} {one.name} has a pending configuration.", told)

    # -- the answer ----------------------------------------------------------------------------------------------------------------

    def _answer(self, every: list[One]) -> dict[str, t.Any]:
        good = [one for one in every if not one.refusal]
        bad = [one.refusal for one in every if one.refusal]
        if bad and self.args["fails"] and (len(every) == 1 or not any(map(self._goes, good))):
            self._show_all(good, self._index(every))
            raise self.refused(*bad)
        self._display_refused(bad)
        index = self._index(every)
        self._show_all(good, index)
        proposed = self._proposal(every, index)
        self._check_approved(proposed)
        plans = {one.name: one.plan for one in good if one.plan is not None}
        folder = RunFolder.create(index, plans)
        stay = sorted({host for number in range(len(index.waves)) for host in folder.hosts(number)})
        self._say_forks(len(stay))
        result: dict[str, t.Any] = {
            "run": folder.path,
            "waves": [self._wave(number, index, plans) for number in range(len(index.waves))],
            "stay": stay,
            "refused": sorted(index.refused),
            "warnings": list(dict.fromkeys(s for one in good for s in sentences(one.findings.to_plain()))),
            "digest": proposed.digest,
            "ansible_stats": self._stats(every, proposed),
        }
        if len(every) == 1 and good:
            return {**result, **self._single(good[0])}
        summary = {
            name: {"changed": p.changed, "pending": p.pending, "members": len(p.members)} for name, p in plans.items()
        }
        return {**result, "workloads": summary}

    @staticmethod
    def _single(one: One) -> dict[str, t.Any]:
        """The plan of one workload is returned, too: for people, and for what reads it by itself."""
        plan = one.plan.to_plain() if one.plan else {}
        return {"plan": plan, "findings": one.findings.to_plain(), "diff": plan.pop("diff", [])}

    def _say_forks(self, hosts: int) -> None:
        """Fewer forks than hosts harm nothing, and cost time: who waits for engines keeps a fork. A part of something greater is told with
        that, not each time."""
        forks = integer(self.task_vars.get("ansible_forks"))
        if forks is not None and 0 < forks < hosts and not self.args["plan_is_part"]:
            self._display.display(
                f"{counted(hosts, 'host')} have a part in this, and Ansible asks {forks} at a time: some begin to wait for their engines"
                f" when others have ended. More at a time: --forks={hosts}; in AWX, Forks of the job template."
            )

    # -- what is approved ----------------------------------------------------------------------------------------------------------

    def _proposal(self, every: t.Sequence[One], index: Index) -> Proposal:
        """What is put before whoever approves it. What becomes of a run that fails is no part of it, but for the proof."""
        options = {"proof": self.args["proof"], **({"fence": "with pd_fence_command"} if self.args["fence"] else {})}
        return propose(self.args["action"], map(_planned, every), index.waves, options)

    def _asked_for(self) -> approval.Approved | None:
        return self._once(
            "approved",
            lambda: approval.approved(self.args["plan_digest"], self.args["plan_file"], self.args["plan_digests"]),
        )

    def _check_approved(self, proposed: Proposal) -> None:
        """Write the plan down where that is asked for, and go on only with what was approved. Nothing has been locked by now."""
        asked = self._asked_for()
        if self.args["plan_out"]:
            approval.write(self.args["plan_out"], proposed)
        findings = asked.against(proposed) if asked else Findings()
        if asked and findings.errors:
            self._display.display("\n".join(asked.told(proposed)))
            raise self.refused(
                Refusal("", "The plan is not the one that was approved.", findings.to_plain()), digest=proposed.digest
            )
        if asked:
            self._display.display(f"This is the plan that was approved: {proposed.digest}")
        elif (self._task.check_mode and not self.args["plan_is_part"]) or self.args["plan_out"]:
            self._display.display(f"To carry out this plan and no other: -e pd_plan_digest={proposed.digest}")

    def _stats(self, every: t.Sequence[One], proposed: Proposal) -> dict[str, t.Any]:
        planned, part = [_planned(one) for one in every], self.args["plan_is_part"]
        check = bool(self._task.check_mode)
        return approval.stats(proposed, self.args["action"], planned, check, self._asked_for(), part)

    def _goes(self, one: One) -> bool:
        """Whether it is in a wave: it has work, or is to be proven all the same."""
        proves = self.args["proof"] == "always" and one.action != "remove" and one.plan and one.plan.router.member
        return one.works_on or bool(proves)

    def _index(self, every: t.Sequence[One]) -> Index:
        going = {one.name: one.plan for one in every if one.plan is not None and not one.refusal and self._goes(one)}
        names = [one.name for one in every]
        groups = [one.name for one in every if one.works.kind is GROUP] if self.args["spec"] is None else []
        needs = {name: [s for s in _caches.deployed_for(self, name) if s in names] for name in groups}
        if self.args["action"] == "evacuate":
            needs = self._users(every)
        made = waves(going, self.args["parallel"])
        rounds = [max((len(going[name].renew or ()) for name in wave), default=0) for wave in made]
        refused = {one.name: one.refusal.in_short() for one in every if one.refusal}
        # Whoever restarts groups one after the other does not want the next one down when the last one did not come back.
        return Index([list(wave) for wave in made], rounds, needs, refused, halts=self.args["action"] == "restart")

    def cordons(self) -> dict[str, Cordon]:
        """With the hosts that this run evacuates: in check mode they have no mark yet."""
        evacuated = Cordon(by=self.new_run().by, why="evacuated")
        return {**dict.fromkeys(names_list(self.args.get("evacuate")), evacuated), **super().cordons()}

    def _users(self, every: t.Sequence[One]) -> dict[str, list[str]]:
        """By service of the run, the groups of it that use the service where it is to stop: they leave first."""
        there = [h for name, h in self.seen().hosts.items() if name in names_list(self.args.get("evacuate"))]
        members = [m for host in there for m in host.members]
        services = [one.name for one in every if one.works.kind is CACHE]
        return {name: sorted({m.group for m in members if uses(m, name)}) for name in services}

    def _wave(self, number: int, index: Index, plans: t.Mapping[str, Plan]) -> dict[str, t.Any]:
        """What the roles ask of a wave: who is in it, and which parts of what may be done there are."""
        some = [plans[name] for name in index.waves[number]]
        return {"names": index.waves[number], "rounds": index.rounds[number], **parts_of(some)}

    def _display_refused(self, bad: t.Sequence[Refusal]) -> None:
        """Of several, one that is refused is told where the plan is; the run goes on with the others, and fails in the end."""
        for refusal in bad:
            self._display.display("\n".join(filter(None, [refusal.head, as_text(refusal.findings)])))

    def _asked(self, one: One, run: Run, counts: t.Mapping[str, int], reserved: Reserved) -> Asked:
        """What is wanted of a workload, and what this run has seen."""
        return Asked(
            name=one.name,
            hosts=self.seen().hosts,
            action=one.action,
            run=run,
            lost=names_list(self.args["lost_hosts"]),
            away=self.away(),
            # A check run fences nobody, and says the same.
            fence="pd_fence_command" if self.args["fence"] else "",
            forget=names_list(self.args["forget_tombstone"]),
            counts=counts,
            allow_scale_down=self.args["allow_scale_down"],
            evacuated=names_list(self.args.get("evacuate")),
            reserved=reserved,
            reach=self.reach(),
            to=one.to,
            release=name_of(one.name) in self._released(),
            beside=one.beside,
        )

    def _to(self, groups: t.Sequence[str]) -> dict[str, To]:
        """What each group is restarted onto: one word for all, or a word by name."""
        given = to_plain(self.args.get("to"))
        if given in (None, ""):
            return {}
        if self.args["action"] != "restart":
            raise PdError(f"pd_to says what a restart is onto, and this is a {self.args['action']}: leave it out.")
        found = given if isinstance(given, dict) else dict.fromkeys(groups, given)
        for name, word in found.items():
            if word not in TO:
                raise PdError(f"pd_to: {word!r} is not known. Write one of {', '.join(TO)}.")
            if name not in groups:
                raise PdError(
                    f"pd_to names {name}, which is none of the groups of this run: {listed(groups) or 'none'}."
                )
        return t.cast("dict[str, To]", found)

    def _released(self) -> set[str]:
        """The groups that are held no more. A name that is no group's would be a group that stays held, and nobody knows."""
        names = [name_of(name) for name in names_list(self.args["release"])]
        unknown = [name for name in names if name not in self.groups()]
        if unknown:
            raise PdError(f"pd_release: {no_such(unknown[0], self.groups(), GROUP)}")
        return set(names)

    def _judged(self, one: One, entry: t.Any) -> Judged:
        hosts = self.seen().hosts
        for host in hosts:
            # The caller may give facts of hosts that the inventory does not know, and a pattern may name them.
            if host not in self._inventory().hosts and hosts[host].node is None:
                self._inventory().add_host(host)
        return one.works.judge(one.name, entry, one.works.known(one.name, entry, hosts))

    def _removed(self, one: One) -> t.Any:
        """The entry of what is to go, as far as there is one."""
        given = self.args["spec"]
        if given is not None:
            return to_plain(given)
        one.works.check_known(one.name, self.seen().hosts)
        return self.entries(one.works.kind).get(one.name)

    def _refuse_broken(self, one: One, entry: t.Any) -> Refusal | None:
        """A host that answered, and whose facts failed over a value, is not out of reach: the value is the user's to mend. Of a workload
        whose members need nothing of each other, a host that does not show what it has would get a second one."""
        seen, findings = self.seen(), Findings()
        named = {host for hosts in one.works.patterns(one.name, entry).values() for host in hosts}
        records = (host.records[one.name] for host in seen.hosts.values() if one.name in host.records)
        named |= {place.host for record in records for place in record.members}
        for host, said in seen.broken.items():
            if host in named:
                findings.error("host-facts", f"{host} {said.said}.", said.way_out, [], host)
        for cluster, rights in seen.lacks.items():
            if rights and any(place in named for place in seen.clusters[cluster]):
                findings.error(
                    "rights-missing",
                    f"{cluster}: whoever runs this may not {', '.join(rights)} there.",
                    "inferops.pd.validate -e pd_show_rbac=true prints the Role with all that is needed.",
                    [],
                    cluster,
                )
        for host, why in {} if one.works.kind.joined else seen.hidden.items():
            if host in named:
                findings.error("host-facts", f"{host}: {why}", "", [], host)
        return refuse(one.name, findings, self.args["fail_on"], one.works.kind)

    def _say_hosts(self, silent: t.Collection[str], findings: Findings) -> None:
        """Why nothing is known of a host that the plan would have asked."""
        seen = self.seen()
        reasons = {**seen.silent, **seen.hidden}
        for host in silent:
            if host in reasons:
                way_out = "" if host in seen.hidden else f"Make it answer: {asking(host)}"
                findings.warning("host-unreachable", f"{host}: {reasons[host]}", way_out, [], host)
        for host in self.away():
            findings.warning(
                "host-out-of-service",
                f"{host} is out of service by the inventory (pd_out_of_service): it is not asked, and nothing is placed there.",
                "",
                [],
                host,
            )

    def _counts(self) -> dict[str, int]:
        """The counts that scale asks for; `-e` gives them as text."""
        counts = {}
        for role, value in (to_plain(self.args["counts"]) or {}).items():
            if blank(value):
                continue
            if role not in ENGINE_ROLES:
                raise PdError(f"counts.{role}: only prefill and decode can be scaled; a group has one router.")
            count = integer(value)
            if count is None or count < 1:
                raise PdError(
                    f"pd_{role}: {value!r} is not a count. Give a whole number of at least 1; inferops.pd.remove takes a group down."
                )
            counts[role] = count
        if self.args["action"] == "scale" and not counts:
            raise PdError("scale needs a count: give -e pd_prefill=N, -e pd_decode=N, or both.")
        return counts

    # -- what a person is shown ----------------------------------------------------------------------------------------------------

    def _show_all(self, good: t.Sequence[One], index: Index) -> None:
        """Of several first what changes at all, as a table, and then each; without --diff a line each."""
        plans = [one.plan for one in good if one.plan is not None]
        if len(good) < 2:
            for one in good:
                self._show(one)
        elif self._task.diff:
            self._display.display("\n".join(overview.table(plans, index.waves)))
            for plan in plans:
                diff = "\n".join(str(d["prepared"]) for d in plan.diff).rstrip()
                if diff and (plan.changed or plan.steps):
                    self._display.display("\n" + diff)
        else:
            self._display.display("\n".join(overview.summaries(plans)))

    def _show(self, one: One) -> None:
        """With --diff the plan is shown even where it changes nothing by itself: people read it before they run it."""
        plan = t.cast("Plan", one.plan)
        diff = "\n".join(str(d["prepared"]) for d in plan.diff).rstrip()
        if self._task.diff and diff:
            self._display.display(diff)
        else:
            self._display.display(core_plan.summary(plan))
            # A peer may be none of the group's: whoever registered it by hand is to know that it goes.
            for step in plan.steps:
                if step.phase == "leave" and step.do == "deregister":
                    self._display.display(f"  {step.why}")
        if not one.works_on and one.action not in ("remove", "heal"):
            self._show_state(one)

    def _show_state(self, one: One) -> None:
        """Where nothing is to be done, how it is: otherwise a person would have to ask once more."""
        seen, subject = self.seen(), one.works.subject(one.name, one.judged)
        state = status.of(subject, seen.hosts, sorted({*seen.silent, *seen.hidden}), self.reach(), self.away())
        self._display.display("\n".join(status.head(state)))


def on_stands(action: PdAction, works: Workloads, raw: t.Mapping[str, t.Any], verb: str, onto: To) -> list[One]:
    """What is planned of a group, by where it stands (facts/stands.py). A rollout says of which stand; everybody else works on the one that
    is the group, unless a rollout has both in its hands."""
    name, hosts = str(raw["name"]), action.seen().hosts
    if raw.get("stand"):
        given = Work(str(raw["stand"]), raw.get("to") or "spec", bool(raw.get("loses")), str(raw.get("held") or ""))
        return [_on_stand(works, given, verb, given.to, given.beside(hosts))]
    stands = action.stands(name)
    serves = record_of(stands.serves, hosts)
    note = serves.rollout if serves is not None else {}
    found = of_verb(verb, stands, note)
    if not found:
        one = One(works, stands.serves, verb, Findings())
        say_twice(name, stands, note, one.findings)
        one.refusal = refuse(name, one.findings, "error")
        return [one]
    return [_on_stand(works, w, verb, onto, w.beside(hosts) if w.loses or w.points else None) for w in found]


def _on_stand(works: Workloads, work: Work, verb: str, onto: To, beside: Beside | None) -> One:
    if work.loses:
        return One(works, work.stand, "remove", Findings(), beside=beside)
    return One(works, work.stand, verb, Findings(), to=onto, beside=beside)


def _planned(one: One) -> Planned:
    """What is said of a workload, its plan only where that may be carried out."""
    findings = one.refusal.findings if one.refusal else one.findings.to_plain()
    return Planned(one.name, None if one.refusal else one.plan, findings)
