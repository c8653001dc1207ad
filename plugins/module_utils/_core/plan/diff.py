# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences, as a person reads them: before and after of a group's templates, and what a plan does to each host."""

from __future__ import annotations

import json
import shlex
import typing as t
from dataclasses import dataclass

from ..base.arguments import options
from ..base.plain import Plain
from ..facts.record import Record
from ..spec.workload import GROUP, KINDS
from ..work.member import Part
from .value import Plan

# Begins a line that tells a change of the configuration.
_CHANGE = "  ~ "


# What of a role's template may be told to anybody with its values: what a process list shows as well.
_OPEN = frozenset({"executable", "image"})


@dataclass(frozen=True)
class Change:
    """One fact that differs: the line that a person reads, and what is told of it where that is kept by others, without the values of
    variables and files."""

    line: str
    named: str


def of_templates(before: Plain, after: Plain) -> list[str]:
    """The lines that differ between two masked group templates, one fact a line: `decode args: --max-num-seqs=4 -> 8`."""
    return [one.line for one in _changes(before, after)]


def _changes(before: Plain, after: Plain) -> list[Change]:
    found: list[Change] = []
    if not before:
        return found
    for key, called in (
        ("mode", "mode"),
        ("runtime", "runtime"),
        ("policy", "membership"),
        ("restart", "restart rule"),
    ):
        if before.get(key) != after.get(key):
            found.append(_open(f"{called}: {_text(before.get(key))} -> {_text(after.get(key))}"))
    olds, news = before.get("roles") or {}, after.get("roles") or {}
    for role in sorted({*olds, *news}):
        old, new = olds.get(role) or {}, news.get(role) or {}
        if old != new:
            found += _of_role(role, old, new)
    return found


def _of_role(role: str, old: Plain, new: Plain) -> list[Change]:
    flags = _values(f"{role} args", _flags(old.get("argv") or []), _flags(new.get("argv") or []))
    found = [_open(line) for _name, line in flags]
    if old.get("argv") != new.get("argv") and not flags:
        found = [_open(f"{role} args: the same flags, written or ordered differently")]
    env = _values(f"{role} env", old.get("env") or {}, new.get("env") or {})
    found += [Change(line, f"{role} env: {name}") for name, line in env]
    for key in sorted({*old, *new} - {"argv", "env"}):
        if old.get(key) != new.get(key):
            line = f"{role} {key}: {_text(old.get(key))} -> {_text(new.get(key))}"
            found.append(_open(line) if key in _OPEN else Change(line, f"{role} {key}"))
    return found


def _open(line: str) -> Change:
    return Change(line, line)


def _flags(argv: t.Sequence[str]) -> dict[str, str]:
    """Flags by name with their values; the words before the first flag are the command."""
    # A record's words may be numbers.
    argv = [str(word) for word in argv]
    found = options(argv)
    first = found[0].start if found else len(argv)
    flags: dict[str, str] = {"command": shlex.join(argv[:first])}
    for option in found:
        value = option.value if option.value is not None else "(set)"
        flags[option.flag] = f"{flags[option.flag]} {value}" if option.flag in flags else value
    return flags


def _values(what: str, old: Plain, new: Plain) -> list[tuple[str, str]]:
    """(name, line) of each that differs."""
    lines = []
    for name in [*old, *(n for n in new if n not in old)]:
        if old.get(name) == new.get(name):
            continue
        if name not in new:
            lines.append((name, f"{what}: {name}={_text(old[name])} removed"))
        elif name not in old:
            lines.append((name, f"{what}: {name}={_text(new[name])} added"))
        else:
            lines.append((name, f"{what}: {name}={_text(old[name])} -> {_text(new[name])}"))
    return lines


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def of_plan(plan: Plan, before: Record, masked: Plain) -> list[Plain]:
    """The plan as Ansible's diff: ordered actions, every new member with its command line, and the changed configuration. `changes` beside
    it names what changes, for what keeps no values."""
    if not plan.changed and not plan.pending and not plan.steps:
        return []
    kind, was = KINDS[plan.kind], before.revision
    revision = plan.revision if was in (None, plan.revision) else f"{was} -> {plan.revision}"
    recipe = f"mode {plan.mode}" if kind is GROUP else str(plan.mode)
    head = f"{kind.noun} {plan.group}: {plan.action}, {recipe}" + (f", revision {revision}" if revision else "")
    lines = [f"{head}, generation {plan.generation}"]
    differ = _changes(before.templates, masked) if masked and (plan.pending or plan.action == "restart") else []
    told = [_CHANGE + one.line for one in differ]
    if plan.pending:
        lines.append(f"pending, applied by {kind.restart(plan.group)}:")
        lines += [*told, *(_CHANGE + line for line in plan.moved)]
    elif plan.action == "restart":
        lines += told
    lines += of_steps(plan)
    if plan.router.peers and plan.steps:
        lines += _of_router(plan)
    if plan.endpoint.url:
        lines.append(f"endpoint: {plan.endpoint.url} serves {plan.endpoint.served_model_name}")
    return [{"prepared": "\n".join(lines) + "\n", "changes": [one.named for one in differ]}]


def changes(plan: Plan) -> list[str]:
    """What a plan with a diff makes different of the configuration, without the members and their command lines."""
    return [line for one in plan.diff for line in one["prepared"].splitlines() if line.startswith(_CHANGE)]


def _of_router(plan: Plan) -> list[str]:
    router = plan.router
    lines = [f"router: {router.policy} membership, {router.step}: {router.why}"]
    if router.first is not None:
        lines.append("  before this run, yours to apply:")
        lines += [f"    {p.role:7} {p.url}" for p in router.first]
        lines.append("  after it:")
    return [*lines, *(f"    {p.role:7} {p.url}" for p in router.peers)]


def of_steps(plan: Plan) -> list[str]:
    """The ordered actions, each new member with its ports, environment and command line."""
    members = {m.id: m for m in plan.members}
    lines: list[str] = []
    for step in plan.steps:
        mark = {
            "create": "+",
            "remove": "-",
            "replace": "!",
            "deregister": "-",
            "register": "+",
            "withdraw": "-",
            "announce": "+",
        }.get(step.do, "*")
        what = " ".join(filter(None, [step.do, step.member, step.host and f"on {step.host}"]))
        lines.append(f"{mark} [{step.phase}] {what}: {step.why}")
        member = members.get(step.member or "")
        if member and step.do in ("create", "replace"):
            lines += [line for part in member.parts for line in of_part(part, as_known(part, member.identity))]
    return lines


def of_seat(part: Part) -> str:
    """What a part takes at its place."""
    bands = ", ".join(
        f"{n} {b['base']}" + (f"-{b['base'] + b['count'] - 1}" if b["count"] > 1 else "") for n, b in part.ports.items()
    )
    gpus = f", GPUs {','.join(part.gpus)}" if part.gpus else ""
    return f"    port {part.port}" + (f", {bands}" if bands else "") + gpus


def of_part(part: Part, known: str) -> list[str]:
    """A part as it is started. `known` is what is told of its image beside the name."""
    lines = [of_seat(part)]
    lines += [f"    {line}" for line in _of_container(part, known)]
    cache = part.labels.get("cache")
    if cache:
        lines.append("    " + _cache(cache))
    lines += [f"    env {name}={value}" for name, value in part.env.items()]
    lines += [f"    env {name}=(secret)" for name in part.secrets]
    for file in part.files:
        if file.get("content") is not None:
            lines += [f"    file {file['path']}: {line}" for line in str(file["content"]).splitlines()]
    lines.append("    " + shlex.join(part.argv))
    return lines


def as_known(part: Part, identity: Plain) -> str:
    """By which digest its host knows a part's image, where the name does not say it."""
    found = str(identity.get("engine") or identity.get("image_id") or "")
    return f" ({found})" if found and found not in str(part.image) else "" if found else " (not on the host yet)"


def _of_container(part: Part, known: str) -> list[str]:
    """What a container is made of beside its command: its image, and what it is given of the host."""
    if not part.image:
        return []
    lines = [f"image {part.image}{known}"]
    lines += [f"mount {_given(mount)}" for mount in part.mounts]
    lines += [f"device {_given(device)}" for device in part.devices]
    return lines + ([f"limits {_text(part.limits)}"] if part.limits else [])


def _given(value: object) -> str:
    """A mount or a device, as a text or a dictionary says it."""
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{key} {_text(one)}" for key, one in value.items())


def _cache(cache: Plain) -> str:
    service = f" ({cache['service']})" if cache.get("service") else ""
    without = "" if cache.get("injected") else "WITHOUT "
    return f"{without}cache {cache['provider']}{service}: {cache['why']}"
