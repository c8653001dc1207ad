# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a cache service as a value: its steps, the slice of each host, the record that is kept, and how a person reads it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..facts import record
from ..facts.observed import Host, Member
from ..recipes.cache_recipe import CacheRecipe
from ..runtimes.table import UNNOTED
from ..spec.cache_service import ROLE, CacheService
from ..template.cache_template import CacheTemplate
from . import diff
from .member import member_id
from .situation import Run, Situation
from .steps import leaves, slice_of, step, waits

Action = t.Literal["deploy", "restart", "remove"]


@dataclass
class Request:
    """Everything that the plan is made from. `pattern` are the hosts of the service's pattern, resolved without --limit; `silent` those
    that gave no facts; `lost` those that the user states are fenced; `users` the groups that name the service."""

    service: CacheService
    recipe: CacheRecipe
    template: CacheTemplate
    hosts: t.Mapping[str, Host]
    pattern: t.Sequence[str]
    run: Run
    action: Action = "deploy"
    silent: t.Collection[str] = ()
    lost: t.Collection[str] = ()
    users: t.Sequence[str] = ()
    reserved: t.Sequence[t.Mapping[str, t.Any]] = ()


@dataclass
class Choice:
    """Who stays, who leaves and who comes: hosts of new instances with why, by index."""

    keep: list[Member] = field(default_factory=list)
    leave: list[tuple[Member, str]] = field(default_factory=list)
    replace: list[tuple[Member, str]] = field(default_factory=list)
    create: list[tuple[str, int, str]] = field(default_factory=list)
    # Instances that keep running although the spec says another thing, with what.
    pending: list[str] = field(default_factory=list)


def _steps(request: Request, choice: Choice) -> list[dict[str, t.Any]]:
    steps = [step("stop", "remove", why, m.id, m.host) for m, why in choice.leave]
    steps += [step("start", "replace", why, m.id, m.host) for m, why in choice.replace]
    name = request.service.name
    steps += [step("start", "create", why, member_id(name, ROLE, index), host) for host, index, why in choice.create]
    steps += waits(choice.keep)
    if any(s["do"] != "wait" for s in steps):
        steps.append(step("endpoint", "write", "the record on every host of the service"))
    return steps


def assemble(
    request: Request,
    situation: Situation,
    choice: Choice,
    members: list[dict[str, t.Any]],
    generation: int,
    runtime: str,
) -> dict[str, t.Any]:
    steps = _steps(request, choice)
    plan = _frame(request.service.name, request.action, request.run, situation, steps)
    plan |= {
        "mode": request.recipe.name,
        "runtime": runtime,
        "revision": request.template.revision,
        "generation": generation,
        "pending": bool(choice.pending),
        "desired": {ROLE: len(members)},
        "members": members,
        "hosts": _slices(request, situation, choice, members),
        "cache": {
            **request.service.to_plain(),
            "users": list(request.users),
            "clients_note": request.recipe.clients_note,
        },
    }
    plan["record"] = _record(request, plan, situation)
    plan["changed"] = any(s["do"] != "wait" for s in steps) or record.differs(plan["record"], situation.record)
    plan["diff"] = _diff(plan, situation.record, request.template.masked())
    return plan


def _frame(name: str, action: str, run: Run, situation: Situation, steps: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    """What every plan has, and a service has not: a router, an endpoint, a proof, a formation."""
    return {
        "group": name,
        "action": action,
        "run": run.nonce,
        "formation": None,
        "readiness": "all",
        "router": {
            "member": None,
            "peers": [],
            "policy": None,
            "dialect": None,
            "step": "none",
            "why": "a cache service has none",
            "model": "",
            "add": [],
            "remove": [],
            "spare": [],
            "clean": False,
            "read": True,
            "gives_up": "",
        },
        "steps": steps,
        "endpoint": {"url": None, "served_model_name": None},
        "proof": {},
        "unknown": [m["id"] for m in situation.unknown],
    }


def _slices(
    request: Request, situation: Situation, choice: Choice, members: list[dict[str, t.Any]]
) -> dict[str, dict[str, t.Any]]:
    create = {member_id(request.service.name, ROLE, index) for _h, index, _w in choice.create}
    create |= {m.id for m, _why in choice.replace}
    names = {m["parts"][0]["host"] for m in members} | {m.host for m in situation.members}
    names |= {s.member.host for s in situation.strays}
    names |= {name for name, host in request.hosts.items() if request.service.name in host.records}
    slices = {name: slice_of(request.hosts[name], request.service.name, part=True) for name in sorted(names)}
    for member in members:
        mine = slices[member["parts"][0]["host"]]
        mine["present"].append(member["id"])
        if member["id"] in create:
            mine["create"].append(member["id"])
            mine["observed"]["host"] = request.hosts[member["parts"][0]["host"]].facts.get("digest")
    for gone, _why in choice.leave:
        leaves(slices[gone.host], gone)
    return slices


def _record(request: Request, plan: t.Mapping[str, t.Any], situation: Situation) -> dict[str, t.Any]:
    """What is kept of a service on its hosts. While a change is pending the applied spec stays what it was."""
    before = situation.record
    made: dict[str, t.Any] = {
        "schema": record.SCHEMA,
        "group": request.service.name,
        "cache": request.service.to_plain(),
        "mode": plan["mode"],
        "runtime": plan["runtime"],
        "generation": plan["generation"],
        "serial": int(before.get("serial", 0)) + 1,
        "revision": plan["revision"],
        "templates": request.template.masked(),
        "desired": dict(plan["desired"]),
        "members": [
            {
                "id": m["id"],
                "role": ROLE,
                "index": m["index"],
                "host": m["parts"][0]["host"],
                "revision": m["revision"],
                "url": m["url"],
                "port": m["parts"][0]["port"],
                "ports": m["parts"][0]["ports"],
                "gpus": [],
            }
            for m in plan["members"]
        ],
        "endpoint": {"url": None, "registered": False},
        "state": "partial",
    }
    known = {m["id"] for m in made["members"]}
    made["members"] += [m for m in situation.unknown if m["id"] not in known]
    if plan["pending"] and before:
        for key in ("revision", "templates", "cache", "runtime"):
            made[key] = before.get(key, made[key])
    return made


def removal(
    name: str,
    hosts: t.Mapping[str, Host],
    silent: t.Collection[str],
    lost: t.Collection[str],
    users: t.Sequence[str],
    run: Run,
) -> dict[str, t.Any]:
    """The plan that takes a service down. It needs no spec: what runs, and the record, say all of it."""
    situation = Situation.of(name, hosts, silent, lost, formations=False)
    every = [*situation.members, *(s.member for s in situation.strays)]
    mine = sorted({m.host for m in every} | {n for n, host in hosts.items() if name in host.records})
    steps = [step("stop", "remove", "the service is removed", m.id, m.host) for m in every]
    if mine:
        steps.append(step("endpoint", "remove", "the record on every host of the service"))
    noted = situation.record
    plan = _frame(name, "remove", run, situation, steps)
    runtime = noted.get("runtime") or next((m.label.get("runtime") for m in every), UNNOTED)
    plan |= {
        "mode": noted.get("mode"),
        "runtime": runtime,
        "revision": noted.get("revision"),
        "generation": situation.generation,
        "pending": False,
        "desired": {},
        "members": [],
        "hosts": {host: slice_of(hosts[host], name, part=True) for host in mine},
        "cache": {**(noted.get("cache") or {}), "users": list(users), "clients_note": ""},
        "record": noted,
        "changed": bool(steps),
    }
    for member in every:
        leaves(plan["hosts"][member.host], member)
    plan["diff"] = _diff(plan, noted, {})
    return plan


def _diff(
    plan: t.Mapping[str, t.Any], before: t.Mapping[str, t.Any], masked: t.Mapping[str, t.Any]
) -> list[dict[str, str]]:
    """The plan as Ansible's diff: the changed configuration, ordered actions, every new instance with its command line."""
    if not plan["changed"] and not plan["pending"] and not plan["steps"]:
        return []
    name = plan["group"]
    head = f"cache service {name}: {plan['action']}, {plan['mode']}" + (
        f", revision {plan['revision']}" if plan["revision"] else ""
    )
    lines = [f"{head}, generation {plan['generation']}"]
    told = [f"  ~ {line}" for line in diff.of_templates(before.get("templates") or {}, masked)] if masked else []
    if plan["pending"]:
        lines.append(f"pending, applied by inferops.pd.caches -e pd_cache={name} -e pd_restart_caches=true:")
        lines += told
    elif plan["action"] == "restart":
        lines += told
    return [{"prepared": "\n".join([*lines, *diff.of_steps(plan)]) + "\n"}]
