# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a spec's runtime would refuse, or ignore: a restart stops all members first, and must not learn only then that none can start."""

from __future__ import annotations

import re
import typing as t

from ..base.finding import Findings
from ..base.placeholders import PLACEHOLDER
from ..base.process_words import ALL_WORDS
from ..base.sizes import parse_bytes, told_size
from ..base.values import number
from ..runtimes.accepts import Accepts, Bounds, Judge, UnfitError
from ..runtimes.table import RUNTIMES, runtime_of, traits_of
from ..spec import kubernetes
from ..spec.fields import CacheService, Process
from ..spec.spec import Group
from ..template.template import GroupTemplate

# The place of a key, as it is written.
Place = t.Callable[[str], str]
# A placeholder that stands where a path or a name begins.
_LEADING = re.compile(r"(^|:)\$\{[^}]*\}")


def check(group: Group, template: GroupTemplate | None, findings: Findings) -> None:
    """A group's roles, rendered or not. What is inherited is told once, at the engine."""
    if group.runtime_unread:
        return
    _check_cluster_keys(group, findings)
    for role in group.roles.values():

        def place(key: str, role: t.Any = role) -> str:
            own = key in role.own or key == "resources"
            return f"pd_groups.{group.name}." + (f"roles.{role.name}.{key}" if own else f"engine.{key}")

        judged = _Judged(group.runtime, runtime_of(group.runtime).accepts, findings, [role.name])
        judged.process(role, place)
        brought = template.roles[role.name].image if template else None
        if template and brought and brought != role.image:
            judged.one(brought, judged.accepts.image, f"mode {template.mode.name}: router.image")


def _check_cluster_keys(group: Group, findings: Findings) -> None:
    """Keys that only mean something where members are Pods, and the other way round."""
    where, pods = f"pd_groups.{group.name}", traits_of(group.runtime).pods
    if pods:
        for role in group.roles.values():
            if role.devices:
                findings.error(
                    "runtime-refuses",
                    f"{where}.roles.{role.name}: devices: a Pod gets no device file of its node by its path.",
                    "Ask for what a device plugin gives: GPUs by gpus, RDMA by kubernetes.rdma.",
                    [role.name],
                )
        return
    way_out = f"Leave it out, or write runtime: {' or '.join(one.name for one in RUNTIMES if one.traits.pods)}."
    if group.kubernetes != kubernetes.NOTHING:
        findings.error(
            "runtime-refuses",
            f"{where}.kubernetes: runtime {group.runtime} runs members on hosts, and not in a cluster.",
            way_out,
        )
    for role in group.roles.values():
        if role.nodes is not None:
            findings.error(
                "runtime-refuses",
                f"{where}.roles.{role.name}.nodes: runtime {group.runtime} runs members on the hosts of a pattern, which have no nodes.",
                way_out,
                [role.name],
            )


def check_service(service: CacheService, findings: Findings) -> None:
    """A cache service that is deployed."""
    if traits_of(service.runtime).pods:
        findings.error(
            "runtime-refuses",
            f"pd_caches.{service.name}.runtime: {service.runtime}: cache services are not deployed in clusters.",
            "Write address: HOST:PORT of one that runs there already, or name hosts and another runtime.",
        )
        return
    judged = _Judged(service.runtime, runtime_of(service.runtime).accepts, findings, [])
    judged.process(service, lambda key: f"pd_caches.{service.name}.{key}")


class _Judged(t.NamedTuple):
    """One process by what its runtime accepts."""

    runtime: str
    accepts: Accepts
    findings: Findings
    roles: list[str]

    def process(self, of: Process, place: Place) -> None:
        accepts = self.accepts
        if of.image and accepts.image:
            self.one(of.image, accepts.image, place("image"))
        for key, entries, judge in (("mounts", of.mounts, accepts.mount), ("devices", of.devices, accepts.device)):
            for at, entry in enumerate(entries):
                if judge is not None:
                    self.one(entry, judge, f"{place(key)}[{at}]")
        if accepts.mount is not None:
            self._check_targets(of, place("mounts"))
        cpu, memory = of.resources.get("cpu"), of.resources.get("memory")
        self._check_bounds(f"{place('resources')}.cpu", cpu, number(cpu), accepts.cpu, "{:g}".format)
        self._check_bounds(f"{place('resources')}.memory", memory, parse_bytes(memory), accepts.memory, told_size)
        self._check_length(of, place)

    def one(self, value: t.Any, judge: Judge | None, place: str) -> None:
        """One value, with what a host fills in taken for a path, or a part of one."""
        if judge is None:
            return
        try:
            judge(_filled(value))
        except UnfitError as exc:
            self._bad(f"{place}: {value!r} {exc.why}.", exc.todo)

    def _check_targets(self, of: Process, place: str) -> None:
        """Two mounts at one place: container engines refuse the second."""
        seen: dict[str, int] = {}
        for at, entry in enumerate(of.mounts):
            try:
                target = t.cast(Judge, self.accepts.mount)(_filled(entry)).place
            except UnfitError:
                continue
            first = seen.setdefault(target, at)
            if first != at:
                self._bad(
                    f"{place}[{at}]: {entry!r} has the place of {place}[{first}] in the container.",
                    "Remove one of them.",
                )

    def _check_bounds(
        self, place: str, value: t.Any, amount: float | None, bounds: Bounds | None, told: t.Callable[[float], str]
    ) -> None:
        """What is no amount, or nothing at all, has been said by who read it."""
        if bounds is None or not amount:
            return
        if amount < bounds.least:
            self._bad(f"{place}: {value} is too little: {bounds.below}.", f"Write {told(bounds.least)} at least.")
        elif amount > bounds.most:
            self._bad(f"{place}: {value} is too much: {bounds.above}.", f"Write {told(bounds.most)} at most.")

    def _check_length(self, of: Process, place: Place) -> None:
        words = [*(of.command or ()), *of.args, *(f"{name}={value}" for name, value in of.env.items())]
        size = sum(len(word.encode("utf-8", "surrogatepass")) + 1 for word in words)
        if size > ALL_WORDS:
            self._bad(
                f"{place('args')} and {place('env')}: {size} bytes in all are more than a process can be started with ({ALL_WORDS}).",
                "Put long values into files on the hosts, and name these.",
            )

    def _bad(self, message: str, todo: str) -> None:
        self.findings.error("runtime-refuses", message, todo, self.roles)


def _filled(value: t.Any) -> t.Any:
    """A text as a host would have it: what is filled in there is a path where one begins, and a name within one."""
    if not isinstance(value, str):
        return value
    return PLACEHOLDER.sub("x", _LEADING.sub(r"\1/x", value))
