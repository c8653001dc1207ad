# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as what runs members: a member is a Pod, on the node that the plan has chosen."""

from __future__ import annotations

import contextlib
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from .._core.base import json_text
from .._core.base.errors import PdError
from .._core.cluster import names, pod
from .._core.cluster.places import node_of
from .._core.cluster.pod import Pods
from .._core.cluster.pod_state import PodState
from .._core.work.member import Part
from .._runtimes.errors import HostError
from .._runtimes.protocol import Admit, Availability, Created, Facts, Live, Wanted
from . import endpoint
from .api import ConflictError, NotFoundError
from .errand import Errands
from .namespace import Found, Namespace

AT_ONCE = 16
# Seconds within which all of a batch must have their nodes: they were counted before, so that only what somebody took meanwhile is in the
# way.
SCHEDULED_WITHIN = 60.0
# How long after its grace a Pod may be there before that is told.
_SLACK = 60.0
_LOOK_EVERY = 0.5
# What is put after a member's name where its Pod is tried.
_TRIED = "-tried"
_UNSEEN = "kubelet has not seen it ready"


class ClusterDriver:
    """Implements protocol.Driver for all nodes of a cluster. A place of a plan is CLUSTER/NODE."""

    name = "kubernetes"

    def __init__(self, namespace: Namespace, pods: t.Callable[[Part], Pods]) -> None:
        self.namespace, self.settings = namespace, pods

    def available(self) -> Availability:
        return {"available": True, "why": "", "hint": ""}

    def facts(self, images: t.Sequence[str], /) -> Facts:  # noqa: ARG002 - which images a node has is a fact of the node
        return {"available": self.available(), "images": {}, "elsewhere": []}

    def members(self) -> list[Live]:
        return [self._live(one) for one in self.namespace.pods() if one.label is not None]

    def _live(self, found: Found) -> Live:
        """With how a person gets at its log."""
        where = self.namespace.namespace
        return {**live_of(found), "log": f"kubectl --namespace {where} logs {found.name}"}

    def create(self, batch: t.Sequence[Wanted], admit: Admit) -> list[Created]:
        """All of the batch get a node, or none of it stays: half a group would hold what the other half waits for."""
        if not batch:
            return []
        with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(batch))) as pool:
            made = list(pool.map(lambda wanted: self._create(wanted, admit), batch))
            waiting = self._unscheduled([one.member for one in made if one.error is None])
            if not waiting:
                return made
            group = str(batch[0].part.labels.get("group"))
            undone = [one.member for one in made if one.error is None]
            list(pool.map(lambda name: self._undo(group, name), undone))
        told = "; ".join(f"{name}: {why}" for name, why in waiting.items())
        error = (
            f"the nodes did not take the whole batch within {SCHEDULED_WITHIN:.0f} s, and it was taken back. {told}. Free what is"
            " asked for, or ask for less; then run again."
        )
        return [one if one.error is not None else Created(one.member, error=error) for one in made]

    def _unscheduled(self, members: t.Sequence[str]) -> dict[str, str]:
        """Those that have no node when their time is over, or never will, with why."""
        end = time.monotonic() + SCHEDULED_WITHIN
        while True:
            found = {one.member: one.state for one in self.namespace.pods() if one.member in members}
            left = {name: _no_node(found.get(name)) for name in members}
            left = {name: why for name, why in left.items() if why}
            refused = any(found.get(name) is None or found[name].gone for name in left)
            if not left or refused or time.monotonic() >= end:
                return left
            time.sleep(_LOOK_EVERY)

    def _undo(self, group: str, member: str) -> None:
        """Take back what nobody has seen serve. What does not end is told by whoever looks next."""
        with contextlib.suppress(HostError):
            self.remove(group, member, 1)

    def _create(self, wanted: Wanted, admit: Admit) -> Created:
        name, node = wanted.member.id, node_of(wanted.part.host)
        try:
            label = admit(wanted)
            self._keep_secrets(wanted, label)
            made = pod.render(wanted.member, wanted.part, label, node, self.settings(wanted.part))
            self.namespace.api.create(self.namespace.path("pods"), made)
        except ConflictError:
            why = "a Pod of this name is there already, and is none that the plan has seen"
            pod_name = names.of_member(name)
            hint = f"kubectl --namespace {self.namespace.namespace} get pod {pod_name} shows it. Run again."
            return Created(name, error=str(HostError(f"Creating member {name} on {node}", why, hint, name)))
        except PdError as exc:
            return Created(name, error=str(exc))
        return Created(name)

    def _keep_secrets(self, wanted: Wanted, label: t.Mapping[str, t.Any]) -> None:
        """Have the role's secrets in the Secret of the group's generation, as they are given now. It is written and never read: nobody
        needs a right to see what is secret here."""
        if not wanted.secrets:
            return
        group = str(label["group"])
        name = names.of_secrets(group, int(label["generation"]), wanted.member.role)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace.namespace, "labels": names.labels(group)},
            "type": "Opaque",
            "stringData": {key: str(value) for key, value in wanted.secrets.items()},
        }
        with self.namespace.mutex:
            try:
                self.namespace.api.create(self.namespace.path("secrets"), body)
            except ConflictError:
                self.namespace.api.replace(self.namespace.path("secrets", name), body)

    def refusals(self, batch: t.Sequence[Wanted]) -> list[str]:
        """What the API server would not take, by a dry run of each Pod under a name that is free: what has the member's own name may be
        what leaves. No dry run is charged to a quota."""
        if not batch:
            return []
        there = {one.name for one in self.namespace.pods()}
        with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(batch))) as pool:
            found = list(pool.map(lambda wanted: self._refusal(wanted, there), batch))
        return [one for one in found if one]

    def _refusal(self, wanted: Wanted, ours: t.Container[str]) -> str:
        name, node = names.of_member(wanted.member.id), node_of(wanted.part.host)
        try:
            if name not in ours and self.namespace.api.find(self.namespace.path("pods", name)) is not None:
                return (
                    f"Pod {self.namespace.namespace}/{name} is none of this collection's, and {name} would be its name too: delete it if"
                    " nobody needs it, or give the group another name"
                )
            if wanted.member.role == "router":
                endpoint.check_free(self.namespace, str(wanted.part.labels["group"]))
            made = pod.render(wanted.member, wanted.part, wanted.part.labels, node, self.settings(wanted.part))
            made["metadata"]["name"] = f"{name}{_TRIED}"
            self.namespace.api.create(self.namespace.path("pods"), made, dry=True)
        except PdError as exc:
            return str(exc).rstrip(".")
        return ""

    def remove(self, group: str, member: str, grace: float) -> None:
        """Nothing of it runs any more when this returns: the object is gone, or all its containers have ended and something else (a
        finalizer) keeps the object."""
        path = self.namespace.path("pods", names.of_member(member))
        found = self.namespace.pod(member)
        if found is None:
            return
        uid = json_text.text(json_text.mapping(found.pod.get("metadata")).get("uid"))
        seconds = max(1, round(grace) + 2)
        self.namespace.api.delete(path, gracePeriodSeconds=seconds, preconditions={"uid": uid})
        end = time.monotonic() + seconds + _SLACK
        while time.monotonic() < end:
            now = self.namespace.pod(member)
            if now is None or json_text.mapping(now.pod.get("metadata")).get("uid") != uid or now.state.gone:
                return
            time.sleep(_LOOK_EVERY)
        why = f"its Pod is still there {round(seconds + _SLACK)} s after it was told to end"
        hint = (
            "Is its node up? A node that was switched off for good is stated: -e pd_lost_hosts=CLUSTER/NODE. Run again."
        )
        where = f" on {found.node}" if found.node else ""
        raise HostError(f"Stopping member {member} of group {group}{where}", why, hint, member)

    def logs(self, group: str, member: str, lines: int) -> list[str]:  # noqa: ARG002 - a Pod's name is its own
        try:
            path = self.namespace.path("pods", names.of_member(member), "log")
            text = self.namespace.api.text(path, container=pod.ENGINE, tailLines=lines)
        except NotFoundError:
            return []
        except HostError as exc:
            # Of a container that has not begun there is none.
            if "waiting to start" in str(exc) or "is not available" in str(exc):
                return []
            raise
        return text.splitlines()[-lines:]

    def sweep(self) -> None:
        """Errands that runs have left which were killed. What cannot be swept now is so by the next run."""
        with contextlib.suppress(HostError):
            Errands(self.namespace, Pods(self.namespace.namespace)).sweep()


def _no_node(state: PodState | None) -> str:
    """Why a Pod has no node, or has been refused by the one it got; empty for one that is where it was meant to be."""
    if state is None:
        return "somebody has deleted its Pod"
    if state.gone and state.since is None and state.exit is None:
        return state.why or "its node has refused it"
    return "" if state.scheduled else state.why or "no node takes it"


def live_of(found: Found) -> Live:
    """A member as every runtime tells it."""
    state = found.state
    return {
        "label": dict(found.label or {}),
        "state": state.state,
        "pid": None,
        "since": state.since,
        "restarts": state.restarts,
        "exit": state.exit,
        "why": state.why or ("" if state.ready else _UNSEEN),
        "log": None,
        "ready": state.state == "running" and state.ready,
    }
