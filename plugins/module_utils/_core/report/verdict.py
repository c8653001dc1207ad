# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict: from what every host of a workload said in a phase, whether the run may go on, and what a person is told. Of a group and
of a cache service alike: what differs between them is their kind's (spec/workload.py)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.printable import printable
from ..base.words import by_number, counted, names
from ..facts import images
from ..plan.router_step import peer_list
from ..plan.value import Plan
from ..spec.workload import GROUP, KINDS
from ..work.member import Member
from ..work.share import Slice

Result = t.Mapping[str, t.Any]
Results = t.Mapping[str, t.Sequence[Result]]
PHASES = ("prepare", "lock", "start", "router_stop", "stop", "final")
# Lines that are told of the logs behind a proof.
MOST_LOGS = 12
_LONGEST = 600


@dataclass
class Verdict:
    """`good`: the run may go on (after start: the router may start; after stop: members may start; final: the group serves).
    `complete`: nothing at all is missing. `failed` says of each member that is not as wanted why; `problems` what hosts refused."""

    phase: str
    good: bool = False
    complete: bool = False
    ready: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    unreachable: list[str] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)
    # What the process that listens for a member carries; and whether the endpoint is registered: yes, no, keep
    # what was said, or undone: as keep, once what this run started is stopped again.
    formations: dict[str, str | None] = field(default_factory=dict)
    registered: str = "no"
    msg: str = ""

    def to_plain(self) -> dict[str, t.Any]:
        return {
            "good": self.good,
            "complete": self.complete,
            "ready": self.ready,
            "ready_members": sorted(i for ids in self.ready.values() for i in ids),
            "failed_members": self.failed,
            "unreachable_hosts": self.unreachable,
            "problems": self.problems,
            "formations": self.formations,
            "registered": self.registered,
            "msg": self.msg,
        }


def reach(plan: Plan, results: Results, phase: str, readiness: str | None = None, stops: bool = False) -> Verdict:
    """The verdict of a phase. `results`: what each host said, in order, without what was skipped; a host of the plan that says nothing
    at all did not answer. `stops`: the caller stops again what the run started when the verdict is bad (pd_on_failure: stop)."""
    if phase in ("stop", "router_stop"):
        return stopped(plan, results, phase)
    if phase == "lock":
        return locked(plan, results)
    if phase == "prepare":
        return prepared(plan, results)
    readiness = readiness or plan.readiness
    verdict = _members(plan, results, readiness)
    verdict.phase = phase
    if phase == "final":
        verdict.good = verdict.good and not verdict.problems
        verdict.complete = verdict.complete and not verdict.problems
    verdict.registered = _registration(plan, verdict)
    verdict.msg = _message(plan, results, verdict, readiness, stops)
    return verdict


# -- what the results say ----------------------------------------------------------------------------------------------------------


def bad(result: Result) -> bool:
    """Whether a result is one of something that went wrong, whatever its task made of it."""
    return bool(
        result.get("failed")
        or result.get("ok") is False
        or result.get("good") is False
        or result.get("exception")
        or result.get("unreachable")
    )


def out_of_reach(results: Results, host: str) -> bool:
    """Whether a host did not answer, or said nothing at all."""
    said = results.get(host)
    return not said or any(r.get("unreachable") for r in said)


def parts(plan: Plan) -> dict[str, Slice]:
    """What each host has to do that has something of the group, or a cluster in all of its places: the others are locked, and nothing is
    asked of them."""
    found: dict[str, list[Slice]] = {}
    for here in plan.hosts.values():
        if here.part:
            found.setdefault(here.through, []).append(here)
    return {host: Slice.together(its) if len(its) > 1 else its[0] for host, its in found.items()}


def _members(plan: Plan, results: Results, readiness: str) -> Verdict:
    kind = KINDS[plan.kind]
    verdict = Verdict("start", ready={role: [] for role in kind.serving})
    for member in (m for m in plan.members if m.role in kind.serving):
        why = next((w for w in (why_part(member.id, part.through, results) for part in member.parts) if w), None)
        why = why or _other_formation(plan, member, results, verdict)
        if why is None:
            verdict.ready[member.role].append(member.id)
        else:
            verdict.failed[member.id] = why
    nobody = "nothing can be told of it: its host does not answer, or its label is damaged. It may run, or not"
    # Of members that need nothing of each other, one out of sight takes nothing from the rest: the plan has told of it.
    for name in plan.unknown if kind.joined else ():
        verdict.failed.setdefault(name, failure(None, nobody, outcome="unknown"))
    verdict.unreachable = sorted(host for host in parts(plan) if out_of_reach(results, host))
    for host in plan.through:
        said = [reason(r) for r in results.get(host) or () if refusal(r)]
        if said:
            verdict.problems[host] = said
    refused = any(
        refusal(r) and r.get("phase") in (None, "start") for rs in results.values() for r in rs if not _later(r)
    )
    each = not kind.joined or all(verdict.ready[role] for role in kind.serving)
    verdict.complete = each and not verdict.failed and not verdict.unreachable and not refused
    verdict.good = (verdict.complete if readiness == "all" else each) and not refused
    return verdict


def _other_formation(plan: Plan, member: Member, results: Results, verdict: Verdict) -> dict[str, t.Any] | None:
    """What answers at a member's port must be of the plan's formation: its process carries it, and was read on its own host."""
    host = member.leader.through
    seen = _seen(member.id, results[host]) or {}
    carried, wanted = seen.get("formation"), plan.formation
    verdict.formations[member.id] = carried
    if not wanted or not carried or carried == wanted:
        return None
    return failure(
        host,
        f"what listens on its port is of another formation ({carried[:8]}; the group's is {wanted[:8]})",
        outcome="failed",
    )


def _registration(plan: Plan, verdict: Verdict) -> str:
    """Whether the endpoint may be registered. What nobody could see changes nothing that was said of it before."""
    if not KINDS[plan.kind].router:
        return "no"
    if verdict.good:
        return "yes"
    outcomes = [found["outcome"] for found in verdict.failed.values()]
    unseen = bool(outcomes) and all(outcome in ("unknown", "unreachable") for outcome in outcomes)
    if unseen and plan.unknown and not verdict.problems:
        return "keep"
    return "undone" if _serves_without(plan, verdict) else "no"


def _serves_without(plan: Plan, verdict: Verdict) -> bool:
    """Whether only what this run has started is not as wanted, and the router is the one of before: once that is stopped again
    (pd_on_failure: stop), what served goes on as it did."""
    fresh = {name for here in plan.hosts.values() for name in here.create}
    router = plan.router
    # One that is to be replaced lives until all that come are ready, unless it was replaced before they left.
    stays = router.member is not None and (router.member.id not in fresh or router.step == "replace")
    same = stays and router.early is None
    serves = all(verdict.ready.values()) and not (verdict.problems or plan.unknown)
    return bool(same and serves and plan.action != "restart" and set(verdict.failed) <= fresh)


# -- before anything changes ---------------------------------------------------------------------------------------------------------


def locked(plan: Plan, results: Results) -> Verdict:
    """Whether every host that the plan rests on has given its lock, and found the plan up to date. Where one has not, nothing changes."""
    verdict = Verdict("lock")
    verdict.unreachable = sorted(host for host in plan.through if out_of_reach(results, host))
    for host in plan.through:
        said = [reason(r) for r in results.get(host) or () if refusal(r)]
        if said:
            verdict.problems[host] = said
    verdict.good = verdict.complete = not (verdict.unreachable or verdict.problems)
    if verdict.good:
        verdict.msg = (
            f"{_subject(plan)}: {counted(len(plan.through), 'host')} {by_number(plan.through, 'is', 'are')} locked."
        )
        return verdict
    silent = [f"- {host} has not answered since the plan was made." for host in verdict.unreachable]
    lines = [f"{_subject(plan)}: nothing was changed on any host.", *_problems(verdict), *silent]
    verdict.msg = "\n".join([*lines, *_runs_on(plan), "Run the same playbook again: it makes a new plan."])
    return verdict


def _runs_on(plan: Plan) -> list[str]:
    """What ran when the plan was made: what it keeps, and what it would have stopped."""
    ran = {name for here in plan.hosts.values() for name in (*here.absent, *(set(here.present) - set(here.create)))}
    return [f"What ran before runs on: {names(sorted(ran), most=12)}."] if ran else []


def prepared(plan: Plan, results: Results) -> Verdict:
    """Whether a tag is one image wherever it is to run, and the one that runs already. Where it is not, nothing has stopped yet."""
    verdict, kind = Verdict("prepare"), KINDS[plan.kind]
    # Only of members that serve together must the image be one.
    engines = [m for m in plan.members if m.role in kind.serving and kind.joined]
    found: dict[str, list[tuple[str, images.Image]]] = {}
    for member, part in ((m, part) for m in engines for part in m.parts):
        fresh = member.id in plan.hosts[part.host].create
        told_by = results.get(part.through) or ()
        said: Result = next((r["images"] for r in told_by if r.get("images")), {}) if fresh else {}
        image = said.get(str(part.image)) if fresh else part.labels.get("image")
        found.setdefault(str(part.image), []).append((part.host, image or {}))
    for host, results_ in results.items():
        said_ = [reason(r) for r in results_ if refusal(r)]
        if said_:
            verdict.problems[host] = said_
    for name, where in found.items():
        kinds = images.kinds(where)
        if len(kinds) > 1:
            way_out = "Write its digest in the spec, or have one of them on all (pull: always)."
            verdict.problems[name] = [f"it is {len(kinds)} images: {images.listed(kinds)}. {way_out}"]
    verdict.good = verdict.complete = not verdict.problems
    lines = [f"{_subject(plan)}: nothing was stopped and nothing was started.", *_problems(verdict)]
    verdict.msg = "\n".join(lines)
    return verdict


def refusal(result: Result) -> bool:
    """Whether a host refused or failed as a whole, beyond what its members' own failures tell."""
    told_by_members = "not_ready" in result or (result.get("failed_members") and result.get("phase") != "router")
    return bad(result) and not result.get("unreachable") and not told_by_members


def reason(result: Result) -> str:
    """Why a host refused. A proof is told by its table."""
    if result.get("table"):
        return "the proof that the KV cache moves did not succeed from here:"
    return _one_line(result.get("msg")) or "a task failed without a reason"


def _later(result: Result) -> bool:
    """Whether a result is of a phase after the engines: the router, the proof, the endpoint."""
    return result.get("phase") in ("router", "endpoint") or any(
        key in result for key in ("pairs", "waited", "peers", "good")
    )


def why_part(member: str, host: str, results: Results) -> dict[str, t.Any] | None:
    """Why a member is not ready, as the host of its part says; None when it is."""
    if out_of_reach(results, host):
        reasons = (_one_line(r.get("msg")) for r in results.get(host) or () if r.get("unreachable"))
        text = next(reasons, "")
        return failure(host, f"{host} did not answer" + (f": {text}" if text else ""), outcome="unreachable")
    seen = _seen(member, results[host])
    if seen and seen.get("state") == "ready":
        return None
    for result in results[host]:
        broken = (result.get("failed_members") or {}).get(member)
        if broken:
            return failure(host, _one_line(broken), outcome="failed")
    if seen is None:
        refused = (_one_line(r.get("msg")) for r in results[host] if bad(r))
        return failure(host, next(refused, "") or "its host said nothing of it", outcome="unknown")
    return {
        **failure(host, _one_line(seen.get("why")) or str(seen.get("state")), seen.get("outcome") or seen.get("state")),
        "advice": seen.get("advice") or "",
        "log": seen.get("log"),
        "log_line": seen.get("log_line"),
        "symptom": (seen.get("symptom") or {}).get("name"),
    }


def _seen(member: str, said: t.Sequence[Result]) -> Result | None:
    """What the wait saw of a member last."""
    found = [r["members"][member] for r in said if isinstance(r.get("members"), t.Mapping) and member in r["members"]]
    return found[-1] if found else None


def failure(host: str | None, why: str, outcome: t.Any = None) -> dict[str, t.Any]:
    """What is said of a member that is not as wanted."""
    return {"host": host, "why": why, "advice": "", "log": None, "outcome": outcome}


def stopped(plan: Plan, results: Results, phase: str = "stop") -> Verdict:
    """Whether every member that had to go is seen to be gone. While that is not known nothing may start; and while it is not known of the
    router, no engine may stop either."""
    verdict, kind = Verdict(phase), KINDS[plan.kind]
    for host, part in parts(plan).items():
        every = part.absent
        said = results.get(host)
        if out_of_reach(results, host):
            if every:
                verdict.unreachable.append(host)
                verdict.failed.update(
                    {m: failure(host, f"{host} did not answer: it may still run", outcome="unreachable") for m in every}
                )
            continue
        for result in said or ():
            for name, why in (result.get("failed_members") or {}).items():
                verdict.failed[name] = failure(host, _one_line(why), outcome="failed")
            if refusal(result):
                verdict.problems.setdefault(host, []).append(reason(result))
    verdict.good = verdict.complete = not (verdict.failed or verdict.problems)
    if verdict.good:
        count = sum(len(part.absent) for part in parts(plan).values())
        gone = f"{counted(count, 'member')} {by_number(count, 'is', 'are')} seen to have stopped"
        seen = "its router is out of service" if phase == "router_stop" else gone
        verdict.msg = f"{_subject(plan)}: {seen}."
        return verdict
    if phase == "router_stop":
        head = "the router is not seen to be out of service on every host, so no engine was stopped and nothing was started."
    else:
        so = "those hosts are not empty" if plan.action == "evacuate" else "nothing was started"
        head = f"not everything that had to stop is seen to have stopped, so {so}."
    restarts = kind.router and phase == "stop" and plan.action == "restart"
    down = "The group is down: its router was stopped first." if restarts else ""
    again = f"Mend that, then run the same playbook again with -e {kind.variable}={plan.group}: it goes on from here."
    lines = [f"{_subject(plan)}: {head}", *_failed(verdict), *_problems(verdict), down, again]
    verdict.msg = "\n".join(line for line in lines if line)
    return verdict


# -- what a person is told ---------------------------------------------------------------------------------------------------------


def _subject(plan: Plan) -> str:
    return f"{KINDS[plan.kind].title} {plan.group}"


def _message(plan: Plan, results: Results, verdict: Verdict, readiness: str, stops: bool) -> str:
    kind, final = KINDS[plan.kind], verdict.phase == "final"
    refused = sorted(host for host, said in results.items() if any(r.get("refused") for r in said))
    if refused:
        head = f"{_subject(plan)}: {', '.join(refused)} refused this run, and nothing was changed there."
        return "\n".join([head, *_problems(verdict)])
    lines = [_head(plan, verdict), *_failed(verdict), *_problems(verdict)]
    if final:
        lines += [*_proven(results), *_logs_of(plan, results), *_doubted(results)]
    if final and plan.router.step == "operator":
        lines.append(f"Now make the router's peers, which are yours to set: {peer_list(plan.router.peers)}.")
    lines += [r["held"] for said in results.values() for r in said if r.get("held")]
    if not verdict.complete:
        if plan.action == "restart" and final and not verdict.good:
            lines.append(f"The restart has stopped all that ran before, so the {kind.short} is down.")
        lines += _next(plan, verdict, readiness, stops)
    elif final:
        lines += _reached(plan)
    return "\n".join(lines)


def _wanted(plan: Plan) -> dict[str, int]:
    """How many of each role are meant to be ready."""
    kind = KINDS[plan.kind]
    return {r: max(len([m for m in plan.members if m.role == r]), plan.desired.get(r) or 0) for r in kind.serving}


def _counts(plan: Plan, verdict: Verdict) -> str:
    """How many of each role are ready. Members that nobody could ask are wanted all the same."""
    kind, wanted = KINDS[plan.kind], _wanted(plan)
    return ", ".join(f"{len(ids)} of {wanted[r]} {kind.called.get(r, r)}" for r, ids in verdict.ready.items())


def _head(plan: Plan, verdict: Verdict) -> str:
    kind, counts, subject = KINDS[plan.kind], _counts(plan, verdict), _subject(plan)
    if verdict.phase == "final":
        if verdict.complete:
            return f"{subject} is running: {counts if kind.router else _places(plan)}."
        if verdict.good:
            return f"{subject} is running, short of members: {counts} ready."
        empty = [role for role, count in _wanted(plan).items() if not count]
        return f"{subject} {kind.falls_short}: {counts} ready." + (
            f" The plan has no {' and no '.join(empty)} member: its warnings say why." if empty else ""
        )
    if verdict.complete:
        return f"{subject}: all members are ready ({counts})."
    if verdict.good:
        return f"{subject} is short of members ({counts} ready), and goes on with those it has."
    return f"{subject} cannot serve: {counts} ready."


def _places(plan: Plan) -> str:
    """Where the clients of each member find it."""
    told = [f"{m.leader.host} {m.address}:{m.leader.port}" for m in plan.members]
    more = f" and {len(told) - 8} more" if len(told) > 8 else ""
    return ", ".join(told[:8]) + more if told else "on no host, since none of its hosts answered"


def _reached(plan: Plan) -> list[str]:
    """For whoever uses it: where it is, and who must restart since it did."""
    if KINDS[plan.kind].router:
        return [f"Endpoint: {plan.endpoint.url} (model {plan.endpoint.served_model_name})"]
    users = _users(plan) if plan.clients_restart else ()
    again = "; ".join(f"ansible-playbook {GROUP.restart(name)}" for name in users)
    return [f"Restart what uses it: {again}"] if again else []


def _users(plan: Plan) -> t.Sequence[str]:
    """The groups that use a cache service."""
    return (plan.cache or {}).get("users") or ()


def _failed(verdict: Verdict) -> list[str]:
    """What failed where. Members that only were not waited for any longer come last; a host out of reach is told once."""
    lines: list[str] = []
    lost = set(verdict.unreachable)
    for name, found in sorted(verdict.failed.items(), key=lambda item: (item[1]["outcome"] == "stopped", item[0])):
        if found["host"] in lost:
            continue
        where = f" on {found['host']}" if found["host"] else ""
        lines.append(f"- {name}{where}: {found['why']}")
        lines += [f"    {text}" for text in (found["advice"], found["log"] and f"log: {found['log']}{where}") if text]
    for host in sorted(lost):
        ids = sorted(n for n, f in verdict.failed.items() if f["host"] == host)
        held = f"; it has {', '.join(ids)}" if ids else ""
        lines.append(
            f"- {host} did not answer{held}. Bring it back, or state that it is fenced: -e pd_lost_hosts={host}"
        )
    return lines


def _problems(verdict: Verdict) -> list[str]:
    """What hosts refused, a line each."""
    return [f"- {host}: {text}" for host, texts in sorted(verdict.problems.items()) for text in texts]


def _proven(results: Results) -> list[str]:
    """The proof's table, wherever it was measured."""
    return [line for said in results.values() for r in said for line in r.get("table") or ()]


def _doubted(results: Results) -> list[str]:
    """Members whose logs say that answers may be wrong, and what to do: the cause of a proof that fails, or all that shows it."""
    lines = []
    for host, said in sorted(results.items()):
        for name, doubt in (found for result in said for found in sorted((result.get("doubts") or {}).items())):
            lines.append(f"! {name} on {host}: {_one_line(doubt['meaning'])}. {_one_line(doubt['advice'])}")
            lines.append(f"    {_one_line(doubt['line'])}")
    return lines


def _logs_of(plan: Plan, results: Results) -> list[str]:
    """What the logs of members say of a proof that is not good, where they were looked at after it."""
    bad_ones = [r for said in results.values() for r in said if r.get("table") and bad(r)]
    pairs = [pair for r in bad_ones for pair in r.get("pairs") or () if not pair.get("good")]
    wanted = {pair[role] for pair in pairs for role in ("prefill", "decode")} or {m.id for m in plan.engines}
    lines: list[str] = []
    for member in plan.engines if bad_ones else ():
        seen = _seen(member.id, results.get(member.leader.through) or ()) or {}
        if member.id not in wanted or seen.get("state") != "ready":
            continue
        found, end = seen.get("symptom") or {}, seen.get("log_line")
        told = ": ".join(_one_line(found[key]) for key in ("meaning", "line") if found.get(key))
        told = f"its log says: {told}" if told else f"its log ends with: {_one_line(end)}" if end else ""
        where = f" ({seen['log']})" if seen.get("log") else ""
        lines += [f"  {member.id} on {member.leader.host}: {told}{where}"] if told else []
        lines += [f"    {_one_line(found['advice'])}"] if found.get("advice") else []
    return lines[:MOST_LOGS]


def _next(plan: Plan, verdict: Verdict, readiness: str, stops: bool) -> list[str]:
    """What stays running, and what to do."""
    kind = KINDS[plan.kind]
    again = f"run {kind.deploy(plan.group)} again"
    if verdict.good:
        return [f"To start what is missing, {again}; what runs is left alone."]
    lines = []
    engines = all(verdict.ready.values()) and (readiness != "all" or not verdict.failed)
    if kind.router and not engines:
        lines.append(
            "Its router is not started before "
            + ("all members are" if readiness == "all" else "each role has a member that is")
            + " ready."
        )
    if _users(plan):
        lines.append(f"Nothing of {', '.join(_users(plan))} was touched.")
    if stops:
        lines.append(f"What this run started is stopped again (pd_on_failure is stop), so that {kind.freed}.")
        return [*lines, f"Mend the cause, then {again}."]
    running = sorted(i for ids in verdict.ready.values() for i in ids)
    if kind.router and engines and verdict.phase == "final":
        lines.append("Its endpoint is not registered; a router that runs still answers whoever asks it.")
    if running:
        lines.append(f"What runs is kept: {', '.join(running)}.")
    loading = sorted(name for name, found in verdict.failed.items() if found["outcome"] in ("stopped", "late"))
    if loading:
        lines.append(f"Not stopped either, and maybe ready later: {', '.join(loading)}.")
    instead = f"To free the {kind.held} instead: -e pd_on_failure=stop."
    return [*lines, f"Mend the cause, then {again}: it goes on from here. {instead}"]


def _one_line(text: t.Any) -> str:
    return printable(text or "", _LONGEST)
