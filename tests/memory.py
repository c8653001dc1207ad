# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts in memory under the real code that changes hosts: a store and a runtime over the facts of a host, and the order of a run's phases.

What a host keeps and runs is one dictionary, its `pd_host` fact: `members` are its labels and processes, `records`, `locks` and `holds`
what is in its state directory. `Wave` does with it what the roles do with real hosts, phase by phase, by the same orders and verdicts."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import typing as t
from dataclasses import dataclass, field

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.plain import Plain
from ansible_collections.inferops.pd.plugins.module_utils._core.course.course import Course
from ansible_collections.inferops.pd.plugins.module_utils._core.course.hooks import acts_of
from ansible_collections.inferops.pd.plugins.module_utils._core.course.judge import judge
from ansible_collections.inferops.pd.plugins.module_utils._core.course.orders import Order, order_of
from ansible_collections.inferops.pd.plugins.module_utils._core.course.parcel import Parcel, split
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import label as labels
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import observed
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import record as records
from ansible_collections.inferops.pd.plugins.module_utils._core.hooks.hook import Act
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import RETIRES, Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.waves import waves
from ansible_collections.inferops.pd.plugins.module_utils._core.watch.readiness import complete
from ansible_collections.inferops.pd.plugins.module_utils._core.work.share import Share
from ansible_collections.inferops.pd.plugins.module_utils._host import members as work
from ansible_collections.inferops.pd.plugins.module_utils._host.members import Work, World
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.batch import one_by_one
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import BusyError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.protocol import Created, Wanted
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.store import Damaged
from ansible_collections.inferops.pd.plugins.plugin_utils.run_folder import AGAIN, place_of

Facts = dict[str, t.Any]
_PROCESSES = itertools.count(1)


def copied(value: t.Any) -> t.Any:
    """As a file would give it back: nothing of it is shared. Quicker than copy.deepcopy, which half of a history's time went into."""
    return pickle.loads(pickle.dumps(value))


class FactsStore:
    """What a host keeps, over its facts. `before_write` is asked before each change: it may raise."""

    def __init__(self, facts: Facts, before_write: t.Callable[[], None] = lambda: None) -> None:
        self.facts, self.before_write = facts, before_write
        for key, empty in (("members", []), ("records", {}), ("locks", {}), ("holds", []), ("damaged", [])):
            facts.setdefault(key, empty)

    root = "/state"

    def lock(self, wait: float = 0) -> t.ContextManager[None]:
        return contextlib.nullcontext()

    def labels(self) -> list[dict[str, t.Any]]:
        return [copied(m["label"]) for m in self.facts["members"] if not m.get("unlabelled")]

    def bury(self, group: str, hosts: t.Collection[str]) -> None: ...

    def serve(self, group: str, registered: bool, check: bool) -> bool:
        return False

    def beside(self, place: str) -> list[dict[str, t.Any]]:
        return self.labels()

    def label(self, group: str, member: str) -> dict[str, t.Any] | None:
        found = self.entry(group, member)
        return copied(found["label"]) if found and not found.get("unlabelled") else None

    def entry(self, group: str, member: str) -> dict[str, t.Any] | None:
        mine = (m for m in self.facts["members"] if (m["label"]["group"], m["label"]["member"]) == (group, member))
        return next(mine, None)

    def write_label(self, label: t.Mapping[str, t.Any]) -> None:
        self.before_write()
        labels.read(label, "a label in memory")
        found = self.entry(label["group"], label["member"])
        if found is None:
            self.facts["members"].append({"label": copied(dict(label)), "state": "missing", "ready": False})
        else:
            found["label"] = copied(dict(label))
            found.pop("unlabelled", None)

    def records(self) -> dict[str, dict[str, t.Any]]:
        return copied(self.facts["records"])

    def record(self, group: str) -> dict[str, t.Any] | None:
        return copied(self.facts["records"].get(group))

    def write_record(self, group: str, record: t.Mapping[str, t.Any]) -> None:
        self.before_write()
        records.read(record, "a record in memory")
        self.facts["records"][group] = copied(dict(record))

    def damaged(self) -> list[Damaged]:
        return [Damaged(d["path"], d["why"], d.get("group"), d.get("member")) for d in self.facts["damaged"]]

    def group_lock(self, group: str) -> dict[str, t.Any] | None:
        return self.facts["locks"].get(group)

    def write_lock(self, group: str, lock: t.Mapping[str, t.Any] | None) -> None:
        self.before_write()
        self.facts["locks"].pop(group, None)
        if lock is not None:
            self.facts["locks"][group] = dict(lock)

    def holds(self, group: str | None = None) -> list[dict[str, t.Any]]:
        return [dict(h) for h in self.facts["holds"] if group in (None, h["group"])]

    def write_holds(self, group: str, holds: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        self.before_write()
        self.facts["holds"] = [h for h in self.facts["holds"] if h["group"] != group] + [dict(h) for h in holds]

    def draining(self, group: str, member: str) -> bool:
        return bool((self.entry(group, member) or {}).get("draining"))

    def mark_draining(self, group: str, member: str) -> None:
        self.before_write()
        found = self.entry(group, member)
        if found:
            found["draining"] = True

    def cordon(self) -> dict[str, t.Any] | None:
        return copied(self.facts.get("cordon"))

    def write_cordon(self, mark: t.Mapping[str, t.Any] | None) -> None:
        self.before_write()
        self.facts["cordon"] = copied(dict(mark)) if mark is not None else None

    def kept_log(self, group: str, member: str) -> str | None:
        return None

    def delete_member(self, group: str, member: str) -> None:
        self.before_write()
        self.facts["members"] = [m for m in self.facts["members"] if m is not self.entry(group, member)]

    def delete_group(self, group: str) -> None:
        self.before_write()
        self.facts["records"].pop(group, None)


class FactsRuntime:
    """Members that run because their entry says so. A router has a registry: what it was started with, or what it is told."""

    def __init__(self, store: FactsStore, name: str) -> None:
        self.store, self.name = store, name

    def available(self) -> t.Any:
        return {"available": True, "why": "", "hint": ""}

    def members(self) -> list[t.Any]:
        mine = [m for m in self.store.facts["members"] if (m["label"].get("runtime") or self.name) == self.name]
        return [{"why": "", "restarts": 0, "pid": None, "since": None, **copied(m)} for m in mine]

    def create(self, batch: t.Sequence[Wanted], admit: t.Any) -> list[Created]:
        return one_by_one(batch, admit, self.create_one)

    def create_one(self, wanted: Wanted, label: dict[str, t.Any]) -> list[str]:
        self.store.write_label(label)
        self.store.before_write()
        found = self.store.entry(label["group"], label["member"])
        assert found is not None
        # Which process it is: no two are one, and only that of a runtime's restart is its own again.
        found |= {
            "state": "running",
            "ready": True,
            "restarts": 0,
            "process_id": f"{label['member']} {next(_PROCESSES)}",
        }
        for old in ("why", "draining", "pid", "since", "registered"):
            found.pop(old, None)
        # What the process itself carries, whatever becomes of its label.
        found["formation"] = label.get("formation")
        if label["role"] == "router" and label.get("policy") == "dynamic":
            found["registered"] = []
        return []

    def remove(self, group: str, member: str, grace: float) -> None:
        self.store.before_write()
        found = self.store.entry(group, member)
        if found is not None:
            found |= {"state": "exited", "ready": False}
        self.store.delete_member(group, member)

    def logs(self, group: str, member: str, lines: int) -> list[str]:
        return []

    def sweep(self) -> None: ...


RUNTIMES = ("supervisor", "docker", "systemd")


@dataclass
class Hosts:
    """The hosts of a run, and what becomes of it: who does not answer, what loads for ever, and when a write does not happen."""

    facts: dict[str, Facts]
    silent: t.Callable[[str], bool] = lambda host: False
    never_ready: t.Collection[str] = ()
    # In which pass of a wave members are ready at the earliest; all others are in the first one.
    late: t.Mapping[str, int] = field(default_factory=dict)
    before_write: t.Callable[[], None] = lambda: None
    now: t.Callable[[], float] = lambda: 1000.0
    # Whether a run that failed takes back what it made (pd_on_failure: stop).
    undo: bool = False
    # Asked before each phase of a run.
    before_phase: t.Callable[[str], None] = lambda phase: None
    break_lock: bool = False
    # Groups whose proof is not good.
    unproven: t.Collection[str] = ()
    said: list[str] = field(default_factory=list)
    # What each host's hooks send clients to, by (hook, group); and whether a hook (host, its name) fails whatever it is told.
    gateways: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)
    hook_fails: t.Callable[[str, str], bool] = lambda host, hook: False
    # Who did not answer in a phase is not asked again in the run.
    lost: set[str] = field(default_factory=set)

    def work(self, order: Order, holder: Plain) -> Work:
        """The real work of an order on the host of its share."""
        # As the module gets it.
        raw = order.to_plain()
        share = Share.from_plain(copied(raw["plan"]))
        host, _here = share.here()
        store = FactsStore(self.facts[host], self.before_write)
        wanted = share.runtime or RUNTIMES[0]
        runtimes = [FactsRuntime(store, name) for name in RUNTIMES if name != wanted]
        asked = work.Order(
            share,
            order.phase,
            holder,
            break_lock=self.break_lock,
            registered={"yes": True, "no": False, "keep": None}[order.registered],
            state=order.state,
            why=order.why,
            lift=order.lift,
            hooks=order.hooks,
            proven=order.proven,
        )
        world = World(self.now, lambda ports: busy(self.facts[host], ports), lambda label, seconds, upstream: "")
        return Work(asked, t.cast("t.Any", store), FactsRuntime(store, wanted), runtimes, world)


Result = dict[str, t.Any]
Said = dict[str, dict[str, dict[str, Result]]]


class Wave:
    """Workloads that go through the phases together, as the roles have them go: `courses` are how far each has come."""

    def __init__(self, plans: t.Iterable[Plan], hosts: Hosts) -> None:
        self.plans = {plan.group: plan for plan in plans}
        self.hosts = hosts
        self.courses = {name: Course(name) for name in self.plans}
        self.said: dict[str, Said] = {name: {} for name in self.plans}
        self.rounds = max((len(plan.renew or ()) for plan in self.plans.values()), default=0)
        self.passes = 0
        self._parcels: dict[tuple[str, int | None], dict[str, Parcel]] = {}

    def run(self) -> dict[str, Course]:
        """What roles/group does (tasks/wave.yml)."""
        self._go(["lock"])
        if self._goes_on():
            self.phase("deregister")
            self.hooks("withdraw")
            self.judge("withdraw")
            self.hooks("restore")
            self.phase("drain")
            self._go(["router_stop", "leave", "stop"])
        if self._goes_on():
            self._go(["forget"])
            if any(plan.action != "remove" for plan in self.plans.values()):
                self.phase("start")
                self._see_through()
        else:
            self.phase("unlock")
        self.hosts.said += [one.told for one in self.courses.values() if one.told and one.failed]
        return self.courses

    def _goes_on(self) -> bool:
        return any(one.goes_on for one in self.courses.values())

    def _go(self, phases: t.Iterable[str]) -> None:
        for phase in phases:
            self.phase(phase)
            self.judge(phase)

    def _see_through(self) -> None:
        """What it does in a pass (tasks/pass.yml), and in another one for who was left."""
        self.passes += 1
        self.wait()
        self.judge("start")
        if any(one.serves for one in self.courses.values()):
            self._renew()
        self.phase("undo")
        self.phase("router")
        self._prove()
        self.judge("settle")
        self.hooks("announce")
        self.judge("announce")
        if any(one.retires and one.goes_on for one in self.courses.values()):
            self._retire()
        self.phase("endpoint")
        self.judge("final")
        if any(one.goes_on and one.left for one in self.courses.values()):
            self._see_through()
        else:
            self.phase("unlock")

    def _prove(self) -> None:
        """What the proof says of a router that serves, on its host."""
        for name, plan in self.plans.items():
            for host in plan.router.through if self.courses[name].serves else ():
                entry = self._router(plan, host)
                if entry is not None and entry["state"] == "running" and not self.hosts.silent(host):
                    good = name not in self.hosts.unproven
                    told = {"ok": good, "good": good, "why": "" if good else "the KV cache did not move"}
                    self.said[name].setdefault("proof", {})[host] = told

    def _renew(self) -> None:
        for number in range(self.rounds):
            for phase in ("leave", "stop"):
                self.phase(phase, number)
                self.judge(phase, number)
            self.phase("start", number)
            self.wait(number)
            self.judge("renewal", number)
            self.phase("router", number)
        if self.rounds:
            self.wait(AGAIN - 1)
            self.judge("renewal")

    def _retire(self) -> None:
        """Who has been replaced leaves (tasks/retire.yml)."""
        numbers = sorted({one for plan in self.plans.values() for one in plan.rounds if one >= RETIRES})
        for number in numbers:
            for phase in ("leave", "stop"):
                self.phase(phase, number)
                self.judge(phase, number)

    # -- phases --

    def phase(self, phase: str, number: int | None = None) -> None:
        """A phase on its hosts, in the order of their names: each host's orders, one after the other."""
        asked = False
        for host in sorted(self.hosts.facts):
            orders = {
                name: order
                for name, parcel in self.parcels(host, number).items()
                if (order := order_of(parcel, phase, self.courses[name], False)) and not self._unlocked(order, host)
            }
            if orders and not asked:
                self.hosts.before_phase(phase)
                asked = True
            for name, order in orders.items():
                step = "unlock" if order.phase == "unlock" else _step(phase, number)
                self.said[name].setdefault(step, {})[host] = self._answer(order, host)

    def hooks(self, phase: str) -> None:
        """What hooks are told in a phase, wherever they are."""
        asked = False
        every = {*self.hosts.facts, *(host for plan in self.plans.values() for host in plan.hook_hosts)}
        for host in sorted(every):
            for name, parcel in self.parcels(host).items():
                acts = acts_of(parcel, phase, self.courses[name])
                if acts and not asked:
                    self.hosts.before_phase(phase)
                    asked = True
                if acts:
                    self.said[name].setdefault(phase, {})[host] = self._hooked(host, acts)

    def _hooked(self, host: str, acts: t.Iterable[Act]) -> Result:
        if self.hosts.silent(host) or host in self.hosts.lost:
            self.hosts.lost.add(host)
            return {"unreachable": True, "msg": f"{host} did not answer"}
        known, told = self.hosts.gateways.setdefault(host, {}), {}
        for act in acts:
            if self.hosts.hook_fails(host, act.hook.name):
                told[act.hook.name] = {"ok": False, "msg": "the gateway is closed today"}
                continue
            self.hosts.before_write()
            known.pop((act.hook.name, act.group), None)
            if act.event == "in":
                known[act.hook.name, act.group] = act.url
            told[act.hook.name] = {"ok": True}
        ok = all(one["ok"] for one in told.values())
        return {"ok": ok, "hooks": told, **({} if ok else {"failed": True})}

    def _unlocked(self, order: Order, host: str) -> bool:
        return order.phase == "unlock" and host in self.said[order.share.group].get("unlock", {})

    def _answer(self, order: Order, host: str) -> Result:
        if self.hosts.silent(host) or host in self.hosts.lost:
            self.hosts.lost.add(host)
            return {"unreachable": True, "msg": f"{host} did not answer"}
        if order.held:
            return {"changed": False, "ok": True, "refused": False, "phase": "router", "held": order.held}
        plan = self.plans[order.share.group]
        holder = {"run": plan.run, "who": f"run {plan.run}", "ttl": 300, "dead": plan.dead_locks or ()}
        try:
            if order.phase == "leave":
                return self._leave(order, host)
            told = self.hosts.work(order, holder).run()
            result = {**told, "failed": bool(told["failed_members"]), "ok": not told["failed_members"]}
        except PdError as exc:
            refused = order.phase in ("start", "lock")
            busy = {"busy": True} if isinstance(exc, BusyError) else {}
            return {"failed": True, "ok": False, "refused": refused, "phase": order.phase, "msg": str(exc), **busy}
        if order.phase == "router" and result["ok"]:
            result |= self._registered(plan, order, host)
        return result

    def _router(self, plan: Plan, host: str) -> Facts | None:
        member = plan.router.member
        return FactsStore(self.hosts.facts[host]).entry(plan.group, member.id) if member else None

    def _leave(self, order: Order, host: str) -> Result:
        entry = self._router(self.plans[order.share.group], host)
        if entry is None or entry["state"] != "running":
            return {"failed": True, "ok": False, "msg": "the router does not answer"}
        gone = (order.peers or {})["remove"]
        entry["registered"] = [p for p in entry.get("registered") or () if p["url"] not in gone]
        return {"ok": True, "peers": {"confirmed": True}}

    def _registered(self, plan: Plan, order: Order, host: str) -> Result:
        """A router that answers, with the peers that it was told."""
        entry = self._router(plan, host)
        if entry is None or entry["state"] != "running":
            return {"failed": True, "ok": False, "msg": "the router does not answer"}
        peers = order.peers
        if peers is None or not peers["manage"]:
            return {}
        spare = [p for p in entry.get("registered") or () if p["url"] in peers["spare"]]
        entry["registered"] = [*({"url": p["url"]} for p in peers["peers"]), *spare]
        return {"peers": {"confirmed": True}}

    # -- the wait --

    def wait(self, number: int | None = None) -> None:
        """What the wait sees of the engines: whether they serve, and the formation that what listens there carries. Once a workload is
        complete, nobody waits for those that are not; and as long as none is, who comes late is waited for."""
        self.hosts.before_phase("wait")
        seen = self._look(number)
        while number is None and not self._complete(seen) and any(at > self.passes for at in self.hosts.late.values()):
            self.passes += 1
            seen = self._look(number)
        if number is None and self._complete(seen):
            for result in (one for hosts in seen.values() for one in hosts.values()):
                result["left"] = any(one["outcome"] == "late" for one in (result.get("members") or {}).values())
        for name, hosts in seen.items():
            self.said[name].setdefault(_step("wait", number), {}).update(hosts)

    def _look(self, number: int | None) -> dict[str, dict[str, Result]]:
        """By workload and host."""
        again = number is not None and number >= self.rounds
        seen: dict[str, dict[str, Result]] = {}
        for host in sorted(self.hosts.facts):
            for name, parcel in self.parcels(host, None if again else number).items():
                course = self.courses[name]
                refused = (
                    self.said[name].get(_step("start", None if again else number), {}).get(host, {}).get("refused")
                )
                waits = course.goes_on and parcel.takes_part(course) and parcel.plan.engines and not refused
                if waits and not (again and (course.left or not parcel.renews)):
                    seen.setdefault(name, {})[host] = self._seen(parcel, host)
        return seen

    def _complete(self, seen: t.Mapping[str, t.Mapping[str, Result]]) -> bool:
        """Whether any workload is, on all of its hosts."""
        notes = {"ready": "ready", "late": "", "failed": "failed"}
        for name, hosts in seen.items():
            told = {m.id: "ended" for m in self.plans[name].engines}
            for result in hosts.values():
                told |= {member: notes[one["outcome"]] for member, one in (result.get("members") or {}).items()}
            everyone = [{"id": m.id, "role": m.role} for m in self.plans[name].engines]
            if complete(told, everyone, self.plans[name].readiness):
                return True
        return False

    def _seen(self, parcel: Parcel, host: str) -> Result:
        if self.hosts.silent(host) or host in self.hosts.lost:
            self.hosts.lost.add(host)
            return {"unreachable": True, "msg": f"{host} did not answer"}
        store, members = FactsStore(self.hosts.facts[host]), {}
        for member in parcel.plan.engines:
            entry = store.entry(parcel.plan.group, member.id) or {}
            lives, loads = entry.get("state") == "running", member.id in self.hosts.never_ready
            loads |= not entry.get("ready") or self.hosts.late.get(member.id, 1) > self.passes
            outcome = "ready" if lives and not loads else "late" if lives else "failed"
            state = "loading" if outcome == "late" else outcome
            since = {key: entry.get(key) for key in ("restarts", "pid", "since")}
            members[member.id] = {
                "state": state,
                "outcome": outcome,
                **since,
                "why": "",
                "formation": entry.get("formation"),
            }
        return {"members": members, "not_ready": {}}

    # -- verdicts --

    def judge(self, phase: str, number: int | None = None) -> None:
        for name, course in self.courses.items():
            plan, said = self.plans[name], self.said[name]
            if number is not None and phase != "renewal":
                if number not in plan.rounds:
                    continue
                plan = plan.round(number)
                said = {step.partition(".")[0]: told for step, told in said.items() if step.endswith(f".{number + 1}")}
                if not said:
                    continue
            ordered = {step: said[step] for step in sorted(said, key=place_of)}
            self.courses[name] = judge(plan, course, phase, ordered, self.hosts.undo)

    def parcels(self, host: str, number: int | None = None) -> dict[str, Parcel]:
        """What a host carries out, as its files would have it."""
        if (host, number) not in self._parcels:
            found = {}
            for name, plan in self.plans.items():
                if number is None or number in plan.rounds:
                    shared, own = copied(split(plan, number))
                    if host in own:
                        found[name] = Parcel.of(shared, own[host], host)
            self._parcels[host, number] = found
        return self._parcels[host, number]


def _step(phase: str, number: int | None) -> str:
    return phase if number is None else f"{phase}.{number + 1}"


def carry_out(plan: dict[str, t.Any], hosts: Hosts) -> bool:
    """What the roles do with a plan: whether the run ended well. A run that is refused changes nothing."""
    return carry_out_all([plan], hosts)[plan["group"]]


def carry_out_all(plans: t.Iterable[dict[str, t.Any]], hosts: Hosts, parallel: int | None = None) -> dict[str, bool]:
    """The same of all workloads of a run, wave by wave (roles/group/tasks/carry_out.yml)."""
    read = {plan["group"]: Plan.from_plain(copied(plan)) for plan in plans}
    going = {name: plan for name, plan in read.items() if plan.changed or plan.steps}
    ended = dict.fromkeys(read, True)
    for names in waves(going, parallel):
        if not all(ended.values()) and going[names[0]].action == "restart":
            # A run that restarts one after the other goes no further.
            ended |= dict.fromkeys(names, False)
            continue
        courses = Wave((going[name] for name in names), hosts).run()
        ended |= {name: not course.failed for name, course in courses.items()}
    return ended


def told(facts: Facts) -> Facts:
    """The facts as an observation gives them: with the digests that a plan takes for granted."""
    store = FactsStore(facts)
    held = store.labels()
    groups = {label["group"] for label in held} | set(facts["records"])
    digests = {g: observed.digest_of_group(g, held, store.record(g)) for g in groups}
    used = [*facts["ports"]["used"], *_listeners(facts)]
    ports = {**facts["ports"], "used": used}
    return {**facts, "ports": ports, "held": observed.held(held), "digests": digests}


def _listeners(facts: Facts) -> list[dict[str, t.Any]]:
    """Who listens where: what runs, whatever is known of it."""
    found = []
    for entry in facts["members"]:
        label = entry.get("process") or entry["label"]
        if entry["state"] == "running" and label.get("port"):
            found.append({"port": int(label["port"]), "command": "engine", "pid": 1, "member": label["member"]})
    return found


def busy(facts: Facts, ports: t.Collection[int]) -> dict[int, str]:
    """Of these ports those that somebody listens on now, with who."""
    return {one["port"]: one["member"] for one in _listeners(facts) if one["port"] in ports}
