# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts in memory under the real code that changes hosts: a store and a runtime over the facts of a host, and the order of a run's phases.

What a host keeps and runs is one dictionary, its `pd_host` fact: `members` are its labels and processes, `records`, `locks` and `holds`
what is in its state directory. `carry_out` does with it what the roles do with a real host, phase by phase."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle
import typing as t
from dataclasses import dataclass, field

from ansible_collections.inferops.pd.plugins.action.members import concerns, share_of
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import label as labels
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import observed
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import record as records
from ansible_collections.inferops.pd.plugins.module_utils._core.plan import router_step
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan, Start
from ansible_collections.inferops.pd.plugins.module_utils._core.report import verdict
from ansible_collections.inferops.pd.plugins.module_utils._core.work.share import Share
from ansible_collections.inferops.pd.plugins.module_utils._host.members import Order, Work, World
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.batch import one_by_one
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.protocol import Created, Wanted
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.store import Damaged

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
    before_write: t.Callable[[], None] = lambda: None
    now: t.Callable[[], float] = lambda: 1000.0
    # Whether a run that failed takes back what it made (pd_on_failure: stop).
    undo: bool = False
    # Asked before each phase of a run.
    before_phase: t.Callable[[str], None] = lambda phase: None
    break_lock: bool = False
    # Whether this run has created the router.
    fresh: bool = False
    said: list[str] = field(default_factory=list)

    def work(self, plan: dict[str, t.Any], phase: str, host: str, undo: t.Any = None, **order: t.Any) -> Work | None:
        """The real work of one phase on one host."""
        read = Plan.from_plain(plan, host)
        part = share_of(read, host, undo)
        if part is None or not (concerns(part, phase) or phase == "router"):
            return None
        if phase == "router":
            part, _held = router_step.at_phase(
                read, part, order["ready"], order.pop("starts"), order.pop("early"), False
            )
        # As the module gets it.
        part = Share.from_plain(part.to_plain())
        order.pop("ready", None)
        if undo is not None and "lift" in order:
            order["lift"] = False
        store = FactsStore(self.facts[host], self.before_write)
        holder = {"run": plan["run"], "who": f"run {plan['run']}", "ttl": 300, "dead": plan.get("dead_locks", ())}
        wanted = plan["runtime"] or RUNTIMES[0]
        runtimes = [FactsRuntime(store, name) for name in RUNTIMES if name != wanted]
        asked = Order(part, phase, holder, break_lock=self.break_lock, **order)
        world = World(self.now, lambda ports: busy(self.facts[host], ports), lambda label, seconds, upstream: "")
        return Work(asked, t.cast("t.Any", store), FactsRuntime(store, wanted), runtimes, world)

    def phase(
        self, plan: dict[str, t.Any], phase: str, hosts: t.Iterable[str] | None = None, **order: t.Any
    ) -> Results:
        """A phase on its hosts, in the order of their names: each host's result, as its module tells it."""
        self.before_phase(phase)
        results: Results = {}
        for host in sorted(plan["hosts"] if hosts is None else hosts):
            if self.silent(host):
                results[host] = [{"unreachable": True, "msg": f"{host} did not answer", "phase": phase}]
                continue
            try:
                work = self.work(plan, phase, host, **copy.copy(order))
                if work is None:
                    continue
                told = work.run()
                results[host] = [{**told, "failed": bool(told["failed_members"]), "ok": not told["failed_members"]}]
            except PdError as exc:
                results[host] = [{"failed": True, "ok": False, "phase": phase, "msg": str(exc)}]
        return results


Results = dict[str, list[dict[str, t.Any]]]


def carry_out(plan: dict[str, t.Any], hosts: Hosts) -> bool:
    """What the roles do with a plan: whether the run ended well. A run that is refused changes nothing."""
    hosts.fresh = False
    if not (plan["changed"] or plan["steps"]):
        return True
    results = hosts.phase(plan, "lock")
    said = verdict.reach(Plan.from_plain(plan), results, "lock")
    if not said.good:
        hosts.said.append(said.msg)
        hosts.phase(plan, "unlock")
        return False
    if plan["action"] in ("restart", "remove"):
        for phase in ("router_stop", "stop"):
            if not _verdict(hosts, plan, phase, hosts.phase(plan, phase)):
                return False
        if plan["action"] == "remove":
            forgot = hosts.phase(plan, "forget", lift=_clean(plan, hosts, None))
            return all(r.get("ok") for said in forgot.values() for r in said)
    elif not _leave(plan, hosts) or not _stop(plan, hosts):
        return False
    return _form(plan, hosts)


def _verdict(hosts: Hosts, plan: dict[str, t.Any], phase: str, results: Results) -> bool:
    said = verdict.reach(Plan.from_plain(plan), results, phase)
    if not said.good:
        hosts.said.append(said.msg)
    return said.good


def _leave(plan: dict[str, t.Any], hosts: Hosts) -> bool:
    """Members leave the router before they stop: over its API, or by a router without them."""
    router = plan["router"]
    if not any(s["phase"] == "leave" for s in plan["steps"]):
        return True
    hosts.before_phase("leave")
    host = router["member"]["parts"][0]["host"]
    if hosts.silent(host):
        return False
    if router["policy"] == "dynamic":
        entry = _router_entry(plan, hosts)
        if entry is None or entry["state"] != "running":
            return False
        entry["registered"] = [p for p in entry.get("registered") or () if p["url"] not in router["remove"]]
    if router["early"] is not None:
        return _start_router(plan, hosts, router["early"], early=True)
    return True


def _stop(plan: dict[str, t.Any], hosts: Hosts) -> bool:
    if not any(s["phase"] in ("leave", "stop") for s in plan["steps"]):
        return True
    return _verdict(hosts, plan, "stop", hosts.phase(plan, "stop"))


def _form(plan: dict[str, t.Any], hosts: Hosts) -> bool:
    """Engines, the wait, the router, and the record."""
    started = hosts.phase(plan, "start")
    waited = _wait(plan, hosts)
    results = {h: [*started.get(h, ()), *waited.get(h, ())] for h in {*started, *waited}}
    said = verdict.reach(Plan.from_plain(plan), results, "start")
    ready = sorted(name for ids in said.ready.values() for name in ids)
    said, renewed = _renew(plan, hosts, said, results)
    if renewed is None:
        return False
    started, ready = _both(started, renewed), sorted(name for ids in said.ready.values() for name in ids)
    router = plan["router"]["member"]
    good, result = said.good, None
    if router is not None and good:
        phases = {s["phase"] for s in plan["steps"]}
        if plan["router"]["step"] != "none" or phases & {"router", "start", "wait"}:
            good = _start_router(plan, hosts, ready, early=False)
            result = good
    registered = True if good and router is not None else (None if said.registered == "keep" else False)
    state = "running" if registered else "partial"
    undo = None
    if hosts.undo and not said.good:
        undo = {name for told in started.values() for r in told for name in r.get("created") or ()}
        hosts.phase(plan, "stop", undo=undo)
    refused = {h for h, told in started.items() if any(r.get("failed") and not r.get("failed_members") for r in told)}
    hosts.phase(
        plan,
        "endpoint",
        [h for h in plan["hosts"] if h not in refused],
        registered=registered,
        state=state,
        undo=undo,
        lift=not refused and _clean(plan, hosts, result),
    )
    if not good:
        hosts.said.append(said.msg)
    return bool(good)


def _both(one: Results, other: Results) -> Results:
    return {host: [*one.get(host, ()), *other.get(host, ())] for host in {*one, *other}}


def _renew(
    plan: dict[str, t.Any], hosts: Hosts, said: verdict.Verdict, results: Results
) -> tuple[verdict.Verdict, Results | None]:
    """The rounds of renewal, while all goes well: the verdict after them, and what was started; None when something did not stop."""
    whole, started = Plan.from_plain(plan), t.cast("Results", {})
    for number, one in enumerate(whole.renew or ()):
        ready = {name for ids in said.ready.values() for name in ids}
        if not said.good or not ready & set(one.because):
            continue
        part = whole.round(number).to_plain()
        if not _leave(part, hosts) or not _stop(part, hosts):
            return said, None
        started = hosts.phase(part, "start")
        said = verdict.reach(whole, _both(results, _both(started, _wait(part, hosts))), "start")
        if said.good and part["router"]["step"] == "register":
            _start_router(part, hosts, sorted(name for ids in said.ready.values() for name in ids), early=False)
    return said, started


def _wait(plan: dict[str, t.Any], hosts: Hosts) -> Results:
    """What the wait sees of the engines: whether they serve, and the formation that what listens there carries."""
    hosts.before_phase("wait")
    found: Results = {}
    for member in plan["members"]:
        host = member["parts"][0]["host"]
        if member["role"] == "router":
            continue
        if hosts.silent(host):
            found[host] = [{"unreachable": True, "msg": f"{host} did not answer"}]
            continue
        store = FactsStore(hosts.facts[host])
        entry = store.entry(plan["group"], member["id"])
        up = (
            entry is not None
            and entry["state"] == "running"
            and entry.get("ready")
            and member["id"] not in hosts.never_ready
        )
        seen = {"state": "ready" if up else "loading", "why": "", "outcome": "ready" if up else "late"}
        seen["formation"] = (entry or {}).get("formation")
        found.setdefault(host, [{"members": {}, "not_ready": {}}])[0]["members"][member["id"]] = seen
    return found


def _start_router(plan: dict[str, t.Any], hosts: Hosts, ready: t.Sequence[str], early: bool) -> bool:
    """The router's phase on its host, and what is registered then."""
    router = plan["router"]
    host = router["member"]["parts"][0]["host"]
    results = hosts.phase(plan, "router", [host], ready=ready, starts=_starts(plan, hosts), early=early)
    hosts.fresh |= any(router["member"]["id"] in (r.get("created") or ()) for r in results[host])
    if any(r.get("failed") or r.get("unreachable") for r in results[host]):
        hosts.said += [str(r.get("msg")) for r in results[host]]
        return False
    entry = _router_entry(plan, hosts)
    if entry is None or entry["state"] != "running":
        return False
    if router["policy"] == "dynamic":
        spare = [p for p in entry.get("registered") or () if p["url"] in router["spare"]]
        wanted = [{"url": p["url"]} for p in router["peers"] if not ready or p["member"] in ready]
        entry["registered"] = [*wanted, *spare]
    return True


def _starts(plan: dict[str, t.Any], hosts: Hosts) -> dict[str, Start]:
    found = {}
    for member in plan["members"]:
        # At its place: a stray elsewhere may have the same id.
        entry = FactsStore(hosts.facts[member["parts"][0]["host"]]).entry(plan["group"], member["id"])
        if entry is not None:
            found[member["id"]] = Start.seen(entry)
    return found


def _router_entry(plan: dict[str, t.Any], hosts: Hosts) -> dict[str, t.Any] | None:
    member = plan["router"]["member"]
    return FactsStore(hosts.facts[member["parts"][0]["host"]]).entry(plan["group"], member["id"])


def _clean(plan: dict[str, t.Any], hosts: Hosts, router_done: bool | None) -> bool:
    """As the action plugin of members tells it: whether a router was seen to name nobody that is gone."""
    if any(grave["router"] for grave in plan["record"].get("tombstones") or ()):
        return False
    router = plan["router"]
    if router["member"] is None:
        return bool(plan["action"] == "remove")
    if router["clean"]:
        return True
    if not router_done:
        return False
    return hosts.fresh or router["policy"] == "dynamic"


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
