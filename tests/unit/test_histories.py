# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing serves across two formations, whatever happens to hosts, runs and operators: random histories over the real planner, the real
work on hosts and the real verdicts, in memory.

What must hold is asked after every step, and at every write of every run in it: no live router anywhere, reachable or not, reaches members
of two formations or of another group. A run is of one group or of both, in one wave or in two: whatever becomes of one of them, the other
is as if it had been alone. Who has ended, well or badly, holds no lock. At the end of each walk everything comes back: then a clean run
converges, and the one after it changes nothing. `PD_WALKS=20000` makes other and more walks; `make test-faults` makes 2,000."""

from __future__ import annotations

import dataclasses
import os
import typing as t

import memory
from builders import ROOT, Fleet, Made, spec
from hypothesis import configuration
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from walks import walked

configuration.set_hypothesis_home_dir(os.path.join(ROOT, ".build", "hypothesis"))

HOSTS = ("h1", "h2", "h3", "h4")
GROUPS = ("demo", "other")
ROUTER_PORTS = {"demo": 8000, "other": 8001}
hosts_ = st.sampled_from(HOSTS)
some_hosts = st.lists(hosts_, min_size=1, max_size=3, unique=True)
groups_ = st.sampled_from(GROUPS)
MEMBERS = [f"{group}-{name}" for group in GROUPS for name in ("prefill-0", "decode-0", "decode-1")]
# Those that come in the place of others.
NEW = [f"{group}-{role}-{number}" for group in GROUPS for role in ("prefill", "decode", "router") for number in (1, 2)]
counts_ = st.integers(1, 3)
lengths_ = st.sampled_from([4096, 8192, 32768])
# Modes, and how each is told the length of a context. Decode members of the second take a prefill for the one before at its address.
LENGTH = {"vllm-nixl": "--max-model-len", "sglang-nixl": "--context-length"}
phases_ = st.sampled_from(["lock", "leave", "router_stop", "stop", "start", "wait", "router", "endpoint", "forget"])
moments_ = st.none() | st.integers(1, 25)


class Groups(t.NamedTuple):
    """What a run is of: the groups in the order in which they are planned, and how many of them go together."""

    names: tuple[str, ...]
    parallel: int | None = None


runs_ = st.builds(
    Groups,
    st.sampled_from([("demo",), ("other",), ("demo", "other"), ("other", "demo")]),
    st.sampled_from([None, 1, 2]),
)


class Fall(Exception):  # noqa: N818 - what happens to it
    """The run falls over, with the controller that carries it out."""


class Histories(RuleBasedStateMachine):
    """Four hosts, two groups, and everything that may happen to them."""

    @initialize(
        mode=st.sampled_from(sorted(LENGTH)),
        membership=st.sampled_from(["dynamic", "restart"]),
        readiness=st.sampled_from(["any_per_role", "all"]),
    )
    def begin(self, mode: str, membership: str, readiness: str) -> None:
        # Few ports, so that what is freed is soon given to somebody else.
        self.fleet = Fleet(**{name: {"gpus": 3, "ports": "40000-40011"} for name in HOSTS})
        self.mode = mode
        # Of each decode process, which prefill process it has met where.
        self.met: dict[tuple[str, int], dict[tuple[str, int], str]] = {}
        self.spec = {
            name: spec(
                mode=mode,
                prefill={"hosts": "h1", "gpus": 1},
                decode={"hosts": "h2", "gpus": 1},
                router={"hosts": "h1", "port": ROUTER_PORTS[name], "membership": membership},
                readiness=readiness,
            )
            for name in GROUPS
        }
        self.off: set[str] = set()
        self.away: set[str] = set()
        self.dead: set[str] = set()
        self.broken: list[str] = []
        # Ports that a router names, and that their own host has forgotten: a plan that does not see the router either cannot know of them.
        self.forgotten: set[tuple[str, int]] = set()
        self.clock = 1000.0

    # -- hosts -----------------------------------------------------------------------------------------------------------

    @rule(host=hosts_)
    def falls_silent(self, host: str) -> None:
        """Ansible does not reach it any more; what it runs serves on."""
        self.fleet.silent.add(host)

    @rule(host=hosts_)
    def answers_again(self, host: str) -> None:
        self.off.discard(host)
        self.fleet.silent.discard(host)

    @rule(host=hosts_)
    def loses_power(self, host: str) -> None:
        self.off.add(host)
        self.fleet.silent.add(host)
        self._end(host)

    @rule(host=hosts_)
    def boots(self, host: str) -> None:
        self._end(host)
        self.off.discard(host)
        self.fleet.silent.discard(host)

    @rule(host=hosts_)
    def goes_out_of_service(self, host: str) -> None:
        self.away.add(host)

    @rule(host=hosts_)
    def comes_back_to_service(self, host: str) -> None:
        self.away.discard(host)

    @rule(host=hosts_)
    def loses_its_state_folder(self, host: str) -> None:
        """What runs goes on, and only its processes know what it is."""
        facts = self.fleet.facts[host]
        self.forgotten |= {(host, port) for facts_ in (facts,) for port in self._named(facts_, host)}
        facts |= {"records": {}, "locks": {}, "holds": []}
        facts["members"] = [m for m in facts["members"] if m["state"] == "running"]
        for member in facts["members"]:
            known = {key: member["label"][key] for key in ("group", "member", "role", "index")}
            # What a router was started with, and where a process listens, is a matter of the process.
            member.setdefault("process", memory.copied(member["label"]))
            member["label"] = {**known, "revision": "", "generation": 0, "formation": member["formation"]}
            member["unlabelled"] = True

    @rule(host=hosts_)
    def is_cordoned(self, host: str) -> None:
        self.fleet.facts[host]["cordon"] = {"by": "somebody", "since": self.clock, "why": ""}

    @rule(host=hosts_)
    def is_given_back(self, host: str) -> None:
        self.fleet.facts[host]["cordon"] = None

    # -- members ---------------------------------------------------------------------------------------------------------

    @rule(number=st.integers(0, 11))
    def crashes(self, number: int) -> None:
        found = self._running()
        if found:
            host, member = found[number % len(found)]
            member |= {"state": "exited", "ready": False, "why": "exit code 137"}
            member.pop("registered", None)
            del host

    @rule(number=st.integers(0, 11))
    def is_started_again_by_its_runtime(self, number: int) -> None:
        """Its start script compares its formation with the host's record; a router comes back as it was started."""
        every = [(h, m) for h in HOSTS if h not in self.off for m in self.fleet.facts[h]["members"]]
        if not every:
            return
        host, member = every[number % len(every)]
        label = member["label"]
        record = self.fleet.facts[host]["records"].get(label["group"]) or {}
        if member.get("unlabelled") or member["state"] not in ("running", "exited"):
            return
        if record.get("formation") != label.get("formation"):
            member |= {"state": "exited", "ready": False, "why": "not started: another formation"}
            return
        member |= {"state": "running", "ready": True, "restarts": int(member.get("restarts") or 0) + 1}
        if label["role"] == "router" and label.get("policy") == "dynamic":
            member["registered"] = []

    @rule(number=st.integers(0, 11))
    def is_slow(self, number: int) -> None:
        found = self._running()
        if found:
            found[number % len(found)][1]["ready"] = False

    # -- operators -------------------------------------------------------------------------------------------------------

    @rule(group=groups_, length=lengths_)
    def edits(self, group: str, length: int) -> None:
        self.spec[group]["engine"]["args"] = [f"{LENGTH[self.mode]}={length}"]

    @rule(group=groups_, prefill=some_hosts, decode=some_hosts, router=hosts_)
    def moves_patterns(self, group: str, prefill: list[str], decode: list[str], router: str) -> None:
        roles = self.spec[group]["roles"]
        roles["prefill"]["hosts"], roles["decode"]["hosts"] = ":".join(prefill), ":".join(decode)
        roles["router"]["hosts"] = router

    @rule(group=groups_, membership=st.sampled_from(["dynamic", "restart"]))
    def changes_membership(self, group: str, membership: str) -> None:
        self.spec[group]["roles"]["router"]["membership"] = membership

    @rule(group=groups_, prefill=counts_, decode=counts_)
    def changes_counts(self, group: str, prefill: int, decode: int) -> None:
        self.spec[group]["roles"]["prefill"]["replicas"] = prefill
        self.spec[group]["roles"]["decode"]["replicas"] = decode

    # -- runs ------------------------------------------------------------------------------------------------------------

    @rule(groups=runs_, lower=st.booleans())
    def deploys(self, groups: Groups, lower: bool) -> None:
        self._run(groups, "deploy", allow_scale_down=lower)

    @rule(groups=runs_)
    def restarts(self, groups: Groups) -> None:
        self._run(groups, "restart")

    @rule(groups=runs_, prefill=counts_, decode=counts_)
    def scales(self, groups: Groups, prefill: int, decode: int) -> None:
        self._run(groups, "scale", counts={"prefill": prefill, "decode": decode})

    @rule(groups=runs_, release=st.booleans())
    def restarts_what_may_be_held(self, groups: Groups, release: bool) -> None:
        self._run(groups, "restart", release=release)

    @rule(groups=runs_, to=st.sampled_from(["previous", "applied"]), at=moments_)
    def returns_to_previous(self, groups: Groups, to: str, at: int | None) -> None:
        """What ran before, or what runs, as it was rendered."""
        self._run(groups, "restart", to=to, fall_at=at)

    @rule(group=groups_, first=lengths_, then=lengths_, at=moments_, bad=st.booleans())
    def is_changed_and_returned(self, group: str, first: int, then: int, at: int | None, bad: bool) -> None:
        """Onto what was proven a moment ago. The proof of what it is changed to, or of what it returns to, may not be good, and the run may
        fall over."""
        mine = Groups((group,))
        for host in HOSTS:
            self.answers_again(host)
            self.comes_back_to_service(host)
        for action, length in (("deploy", first), ("restart", first), ("restart", then)):
            self.edits(group, length)
            self._run(mine, action, release=True, how={"unproven": [group]} if bad and length == then else {})
        self._run(mine, "restart", to="previous", fall_at=at, how={"unproven": [group]} if bad else {})

    @rule(
        groups=runs_,
        dead=st.sets(st.integers(0, 5), max_size=2),
        length=st.none() | lengths_,
        at=st.none() | st.integers(1, 25),
        lost=st.none() | hosts_,
        unread=st.booleans(),
    )
    def heals(
        self, groups: Groups, dead: set[int], length: int | None, at: int | None, lost: str | None, unread: bool
    ) -> None:
        """What is down comes again as it was, also while an edit is pending: no count, no revision and no formation is another one after
        it."""
        for name in groups.names:
            mine = [m for _host, m in self._running() if m["label"]["group"] == name]
            for number in dead if len(mine) > len(dead) else ():
                mine[number % len(mine)].update(state="exited", ready=False, why="exit code 137")
            if length:
                self.edits(name, length)
        more = {"lost": [lost], "fence": "pd_fence_command"} if lost in self.fleet.silent else {}
        before = {group: self._applied(group) for group in groups.names}
        self._run(groups, "heal", fall_at=at, unread=unread, **more)
        after = {group: self._applied(group) for group in groups.names}
        assert before == after, f"heal changed {before} to {after}"

    @rule(groups=runs_)
    def removes(self, groups: Groups) -> None:
        self._run(groups, "remove")

    @rule(
        host=hosts_,
        parallel=st.sampled_from([None, 1]),
        at=st.none() | st.integers(1, 40),
        never=st.sets(st.sampled_from(NEW), max_size=1),
        undo=st.booleans(),
        room=st.booleans(),
    )
    def evacuates(
        self, host: str, parallel: int | None, at: int | None, never: set[str], undo: bool, room: bool
    ) -> None:
        """All groups that have anything on it; the run may fall over, and some of those that come may load for ever. With `room`, members
        may be on any host by now, and there are some."""
        for name in GROUPS if room else ():
            for role in self.spec[name]["roles"].values():
                role["hosts"] = ":".join(HOSTS)
        if room:
            self._run(Groups(GROUPS), "deploy")
        there = sorted({m["label"]["group"] for m in self.fleet.facts[host]["members"]})
        if host in self.fleet.silent or host in self.away or not there:
            return
        self.is_cordoned(host)
        groups = Groups(tuple(there), parallel)
        ended = self._run(groups, "evacuate", fall_at=at, how={"never_ready": never, "undo": undo}, evacuated=[host])
        if ended is None or set(ended) != set(there) or not all(ended.values()) or never:
            return
        left = [m["label"]["member"] for m in self.fleet.facts[host]["members"]]
        assert not left, f"{host} was evacuated, and has {left}"
        # One of a group that has no member there names none there either, and is in nobody's way.
        kept = sorted(set(self.fleet.facts[host]["records"]) & set(there))
        assert not kept, f"{host} was evacuated, and has a record of {kept}"

    @rule(groups=runs_, action=st.sampled_from(["deploy", "restart", "remove"]), host=hosts_, fence=st.booleans())
    def states_that_a_host_is_lost(self, groups: Groups, action: str, host: str, fence: bool) -> None:
        """True or false, as it may be: fenced it is true."""
        self._run(groups, action, lost=[host], fence="pd_fence_command" if fence else "")

    @rule(groups=runs_, action=st.sampled_from(["deploy", "restart"]), left_out=hosts_)
    def runs_with_limit(self, groups: Groups, action: str, left_out: str) -> None:
        self._run(groups, action, limit={left_out})

    @rule(groups=runs_, action=st.sampled_from(["deploy", "restart", "remove"]), at=st.integers(1, 25))
    def is_killed_in_the_middle_of_a_run(self, groups: Groups, action: str, at: int) -> None:
        """The controller falls over between two writes."""
        self._run(groups, action, fall_at=at)

    @rule(groups=runs_, action=st.sampled_from(["deploy", "restart", "remove"]), host=hosts_, at=phases_)
    def loses_a_host_in_the_middle_of_a_run(self, groups: Groups, action: str, host: str, at: str) -> None:
        self._run(groups, action, at=at, then=lambda: self.falls_silent(host))

    @rule(
        groups=runs_,
        action=st.sampled_from(["deploy", "restart", "remove"]),
        second=st.sampled_from(["deploy", "restart", "remove", "scale"]),
        others=runs_,
        at=phases_ | st.just("plan"),
        moved=st.none() | some_hosts,
        count=counts_,
    )
    def meets_another_run(
        self, groups: Groups, action: str, second: str, others: Groups, at: str, moved: list[str] | None, count: int
    ) -> None:
        """Another terminal, and maybe another checkout of the spec, plans and works in the middle of this run."""

        def meet() -> None:
            before = memory.copied(self.spec)
            for name in others.names if moved else ():
                self.spec[name]["roles"]["decode"]["hosts"] = ":".join(moved or ())
            self._run(others, second, counts={"decode": count} if second == "scale" else {})
            self.spec = before

        self._run(groups, action, at=at, then=meet)

    @rule(
        groups=runs_,
        action=st.sampled_from(["deploy", "restart", "scale"]),
        count=counts_,
        never=st.sets(st.sampled_from(MEMBERS)),
        late=st.dictionaries(st.sampled_from(MEMBERS), st.integers(2, 3)),
        undo=st.booleans(),
        unread=st.booleans(),
        at=st.none() | st.integers(1, 25),
    )
    def has_members_that_do_not_come_up(
        self,
        groups: Groups,
        action: str,
        count: int,
        never: set[str],
        late: dict[str, int],
        undo: bool,
        unread: bool,
        at: int | None,
    ) -> None:
        """Some load for ever, or for longer than others wait; the run may take back what it made, may not have read the router's registry,
        and may fall over."""
        counts = {"counts": {"decode": count}} if action == "scale" else {}
        how = {"undo": undo, "never_ready": never, "late": late}
        self._run(groups, action, fall_at=at, how=how, unread=unread, **counts)

    @rule(
        groups=runs_,
        action=st.sampled_from(["deploy", "restart", "remove"]),
        at=st.integers(1, 20),
        number=st.integers(0, 11),
        what=st.sampled_from(["starts", "crashes", "all start"]),
        host=st.none() | hosts_,
    )
    def something_happens_in_a_phase(
        self, groups: Groups, action: str, at: int, number: int, what: str, host: str | None
    ) -> None:
        """Between two writes members crash, or their runtime starts them again, and a host falls silent."""

        def then() -> None:
            if host:
                self.falls_silent(host)
            if what == "crashes":
                self.crashes(number)
            for one in range(12) if what == "all start" else [number] if what == "starts" else []:
                self.is_started_again_by_its_runtime(one)

        self._run(groups, action, at_write=at, then=then)

    @rule(group=groups_, number=st.integers(0, 2), at=st.none() | st.integers(1, 45), more=st.booleans())
    def prefills_die_and_come_back(self, group: str, number: int, at: int | None, more: bool) -> None:
        """One, or all of them; the run that replaces them may fall over, before or in the rounds in which others are renewed."""
        mine = [m for _host, m in self._running() if m["label"]["group"] == group and m["label"]["role"] == "prefill"]
        for member in mine if more else mine[number : number + 1]:
            member |= {"state": "exited", "ready": False, "why": "exit code 137"}
        self._run(Groups((group,)), "deploy", fall_at=at)

    @rule(group=groups_)
    def all_of_a_group_die(self, group: str) -> None:
        for _host, member in self._running():
            if member["label"]["group"] == group:
                member |= {"state": "exited", "ready": False, "why": "exit code 137"}
                member.pop("registered", None)

    @rule(group=groups_, host=hosts_)
    def gives_a_machine_a_second_name(self, group: str, host: str) -> None:
        """The same state folder under two names: every run is refused."""
        if host in self.fleet.silent or host in self.away:
            return
        made = self._plan(group, "deploy", alias=host)
        assert made is None or "one-state-folder" in made.errors

    @precondition(lambda self: hasattr(self, "fleet"))
    @rule()
    def breaks_all_locks(self) -> None:
        """Time passes: what a dead run held has run out."""
        self.clock += 100_000

    # -- what must hold --------------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_mixed(self) -> None:
        if not hasattr(self, "fleet"):
            return
        assert self.broken == [], self.broken[0]
        self._look("after the step")
        assert self.broken == [], self.broken[0]

    def _look(self, when: str) -> None:
        """Every live router, and whom its requests reach."""
        at: dict[tuple[str, int], dict[str, t.Any]] = {}
        routers = []
        for host, member in self._running():
            label = member.get("process") or member["label"]
            place = (host, int(label["port"]))
            if place in at:
                self.broken.append(f"{when}: {label['member']} and {at[place]['label']['member']} both hold {place}")
            at[place] = member
            if label["role"] == "router":
                routers.append((host, member))
        by_url = {f"http://10.0.0.{host[1:]}:{port}": (host, port) for host, port in at}
        for host, router in routers:
            label = router.get("process") or router["label"]
            told = router.get("registered") if label.get("policy") == "dynamic" else label.get("peers")
            places = [by_url[p["url"]] for p in told or () if p["url"] in by_url]
            unseen = host in self.fleet.silent | self.away or router.get("unlabelled")
            reached = [(place, at[place]) for place in places if not (unseen and place in self.forgotten)]
            engines = {(m["label"]["group"], m["formation"]) for _place, m in reached}
            revisions = {m["label"]["revision"] for _place, m in reached if not m.get("unlabelled")}
            if len(revisions) > 1:
                self.broken.append(
                    f"{when}: {label['member']} reaches members of revisions {', '.join(sorted(revisions))}"
                )
            if len(engines) > 1 or any(group != label["group"] for group, _formation in engines):
                who = [f"{m['label']['member']} of {m['formation']}" for _place, m in reached]
                self.broken.append(f"{when}: {label['member']} of {router['formation']} reaches {', '.join(who)}")
            if self.mode == "sglang-nixl":
                self._meet(reached, when)

    def _meet(self, reached: list[tuple[tuple[str, int], dict[str, t.Any]]], when: str) -> None:
        """Every decode meets every prefill that the same router reaches; none meets two processes at one address."""
        for place, prefill in reached:
            for _place, decode in reached:
                if (prefill["label"]["role"], decode["label"]["role"]) != ("prefill", "decode"):
                    continue
                who = (str(decode.get("process_id")), int(decode.get("restarts") or 0))
                first = self.met.setdefault(who, {}).setdefault(place, str(prefill.get("process_id")))
                if first != str(prefill.get("process_id")):
                    self.broken.append(f"{when}: {who} takes {prefill['process_id']} at {place} for {first}")

    def teardown(self) -> None:
        """Everything comes back: a clean run converges, and the one after it changes nothing."""
        if not hasattr(self, "fleet"):
            return
        for host in HOSTS:
            self.answers_again(host)
            self.comes_back_to_service(host)
            self.is_given_back(host)
        self.clock += 100_000
        for facts in self.fleet.facts.values():
            for member in facts["members"]:
                if member["state"] == "running":
                    member["ready"] = True
        for group in GROUPS:
            self._converge(group)
        self.nothing_is_mixed()

    def _converge(self, group: str) -> None:
        self._run(Groups((group,)), "deploy")
        made = self._plan(group, "deploy")
        if made is None:
            return
        if not any(member["label"]["group"] == group for _host, member in self._running()):
            # The last that ran were on their way out, under an older spec: they are gone now, and the group forms anew.
            self._run(Groups((group,)), "deploy")
            made = self._plan(group, "deploy")
            if made is None:
                return
        if made.plan["pending"]:
            if self._plan(group, "restart", release=True) is None:
                return
            self._run(Groups((group,)), "restart", release=True)
            made = self._plan(group, "deploy")
        if made is None or "does-not-fit" in made.codes or "port-range-too-small" in made.codes:
            return
        told = [f.message for f in made.findings.items]
        assert not made.plan["changed"], f"{group} does not settle: {made.plan['steps']} {told} {self.fleet.said}"
        state = self.fleet.of(group).status(self.spec[group])
        assert state["state"] == "running", (state["message"], state["marks"], told)
        assert not state["strays"], state["strays"]

    def _applied(self, group: str) -> tuple[t.Any, ...]:
        """What no healing changes: formation, revision, how it is rendered, and the counts; of the record that holds."""
        noted = self.fleet.newest(group)
        keys = ("formation", "revision", "generation", "desired", "templates", "previous", "held")
        more = {key: value for key, value in (noted.get("applied") or {}).items() if key != "proven"}
        return (*(noted.get(key) for key in keys), more)

    # -- how a run is made -------------------------------------------------------------------------------------------------

    def _running(self) -> list[tuple[str, dict[str, t.Any]]]:
        return [
            (host, member)
            for host in HOSTS
            for member in self.fleet.facts[host]["members"]
            if member["state"] == "running"
        ]

    @staticmethod
    def _named(facts: dict[str, t.Any], host: str) -> set[int]:
        """The ports of a host that its state folder keeps from others."""
        labels = [m["label"] for m in facts["members"] if m["label"].get("port")]
        places = [p for r in facts["records"].values() for p in r.get("members", ()) if p["host"] == host]
        return {int(one["port"]) for one in (*labels, *places)} | {p for h in facts["holds"] for p in h["ports"]}

    def _end(self, host: str) -> None:
        for member in self.fleet.facts[host]["members"]:
            # What a run had noted, and died before it made it, has never been.
            if member["state"] != "missing":
                member |= {"state": "exited", "ready": False, "why": "the host went down"}
                member.pop("registered", None)
        # What only processes told of is gone with them.
        facts = self.fleet.facts[host]
        facts["members"] = [m for m in facts["members"] if not m.get("unlabelled")]

    def _plan(
        self, group: str, action: str, limit: t.Collection[str] = (), alias: str | None = None, **more: t.Any
    ) -> Made | None:
        """The plan of a run; None when it is refused."""
        silent = set(self.fleet.silent)
        self.fleet.silent = silent | set(limit)
        try:
            if action == "remove":
                more = {key: value for key, value in more.items() if key in ("lost", "fence", "run")}
                made = self.fleet.removal(group, away=sorted(self.away), **more)
            else:
                made = self.fleet.plan(
                    self.spec[group], action, name=group, away=sorted(self.away), alias=alias, **more
                )
        finally:
            self.fleet.silent = silent
        return made if not made.errors or alias else None

    def _run(
        self,
        groups: Groups,
        action: str,
        at: str | None = None,
        then: t.Callable[[], None] = lambda: None,
        fall_at: int | None = None,
        at_write: int | None = None,
        how: t.Mapping[str, t.Any] | None = None,
        unread: bool = False,
        **more: t.Any,
    ) -> dict[str, bool] | None:
        """One run: planned, and carried out where nothing refuses it. `then` happens once, before phase `at` or at the write `at_write`;
        at the write `fall_at` the run falls over. `how` is what else becomes of it (memory.Hosts); with `unread` no registry answers while
        it plans. How each group ended; None of one that fell over."""
        mute = [(m, m["registered"]) for _h, m in self._running() if unread and m.get("registered") is not None]
        for member, _registry in mute:
            member["registered"] = None
        plans = self._plans(groups.names, action, **more)
        for member, registry in mute:
            member["registered"] = registry
        if not plans:
            return {}
        return self._carry_out(plans, groups, action, at, then, fall_at, at_write, how or {})

    def _plans(self, names: t.Iterable[str], action: str, **more: t.Any) -> list[dict[str, t.Any]]:
        """Each beside those before it. One that is refused takes nothing from the others."""
        run, plans = self.fleet.run(), list[dict[str, t.Any]]()
        for name in names:
            mine = dataclasses.replace(run, formation=self.fleet.run().formation)
            made = self._plan(name, action, run=mine, reserved=list(plans), **more)
            if made is not None:
                plans.append({**made.plan, "dead_locks": sorted(self.dead)})
        return plans

    def _carry_out(
        self,
        plans: list[dict[str, t.Any]],
        groups: Groups,
        action: str,
        at: str | None,
        then: t.Callable[[], None],
        fall_at: int | None,
        at_write: int | None,
        how: t.Mapping[str, t.Any],
    ) -> dict[str, bool] | None:
        names = [plan["group"] for plan in plans]
        told, writes, left = f"{action} of {', '.join(names)}", 0, [at]

        def before_write() -> None:
            nonlocal writes
            writes += 1
            self._look(f"at write {writes} of {told}")
            if writes == at_write:
                then()
            if writes == fall_at:
                raise Fall

        def before_phase(phase: str) -> None:
            if phase == left[0]:
                left[0] = None
                then()

        if at == "plan":
            before_phase("plan")
        for host in (one["host"] for plan in plans for one in plan["fence"]):
            self._end(host)
        before = memory.copied(self.fleet.facts)
        hosts = self._hosts(self.fleet.facts, how, before_write=before_write, before_phase=before_phase)
        ended: dict[str, bool] = {}
        try:
            ended = memory.carry_out_all(plans, hosts, groups.parallel)
        except Fall:
            self.dead.add(plans[0]["run"])
        self.fleet.said = hosts.said
        if ended:
            self._no_lock_stays(plans[0]["run"], hosts.lost, told)
        self._seats_nobody_on_cordoned(before, told)
        if at is None and at_write is None:
            self._touches_nobody_else(names, before, told)
            if ended and not all(ended.values()) and action != "restart":
                self._is_as_if_alone(plans, before, how, told)
        return ended or None

    def _hosts(self, facts: dict[str, memory.Facts], how: t.Mapping[str, t.Any], **hooks: t.Any) -> memory.Hosts:
        def silent(host: str) -> bool:
            return host in self.fleet.silent or host in self.away

        return memory.Hosts(facts, silent=silent, now=lambda: self.clock, **hooks, **how)

    def _seats_nobody_on_cordoned(self, before: dict[str, memory.Facts], told: str) -> None:
        """Who is on a host that was cordoned before the run was there before."""
        for host, facts in before.items():
            if facts.get("cordon") and self.fleet.facts[host].get("cordon"):
                there = {m["label"]["member"] for m in facts["members"]}
                come = [
                    m["label"]["member"] for m in self.fleet.facts[host]["members"] if m["label"]["member"] not in there
                ]
                assert not come, f"{told} seated {come} on {host}, which is cordoned"

    def _touches_nobody_else(self, names: t.Collection[str], before: dict[str, memory.Facts], told: str) -> None:
        for group in set(GROUPS) - set(names):
            assert self._of(group) == self._of(group, before), f"{told} touched {group}"

    def _no_lock_stays(self, run: str, lost: t.Collection[str], told: str) -> None:
        """But on a host that nobody could ask to give it back."""
        held = {
            (host, group)
            for host, facts in self.fleet.facts.items()
            for group, lock in facts["locks"].items()
            if lock["run"] == run and host not in lost
        }
        assert not held, f"{told} has ended, and holds {sorted(held)}: {self.fleet.said}"

    def _is_as_if_alone(
        self, plans: list[dict[str, t.Any]], before: dict[str, memory.Facts], how: t.Mapping[str, t.Any], told: str
    ) -> None:
        """Whatever one group of the run has failed over, the other is what the same plan makes of it by itself."""
        for plan in plans if len(plans) > 1 else ():
            facts = memory.copied(before)
            memory.carry_out_all([plan], self._hosts(facts, how))
            mine, alone = self._of(plan["group"]), self._of(plan["group"], facts)
            assert mine == alone, f"{told}: {plan['group']} is {mine}, alone {alone}; {self.fleet.said}"

    def _of(self, group: str, facts: dict[str, memory.Facts] | None = None) -> list[t.Any]:
        """The members and records of a group, but for which process it is."""
        return memory.copied(
            [
                sorted(
                    (
                        {k: v for k, v in m.items() if k != "process_id"}
                        for m in one["members"]
                        if m["label"]["group"] == group
                    ),
                    key=lambda m: m["label"]["member"],
                )
                + [r for g, r in one["records"].items() if g == group]
                for one in (facts or self.fleet.facts).values()
            ]
        )


Histories.TestCase.settings = walked(200, 25)
test_histories = Histories.TestCase
