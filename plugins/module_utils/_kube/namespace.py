# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is of ours in a namespace, looked at once for all nodes: Pods, records, locks."""

from __future__ import annotations

import json
import threading
import typing as t

from .._core.base import json_text
from .._core.base.checked import DamagedError
from .._core.cluster import names, pod_state
from .._core.cluster.pod_state import PodState
from .._core.facts import label as labels
from .._core.facts import lock as locks
from .._core.facts import record as records
from .._runtimes.store import Damaged
from .api import Api, ConflictError, NotFoundError, path_of

LEASES = "coordination.k8s.io/v1/leases"
_RECORD = "record"
_LOCK = f"{names.DOMAIN}/lock"


class Found(t.NamedTuple):
    """A Pod of ours, with its label where that can be read."""

    pod: dict[str, t.Any]
    label: dict[str, t.Any] | None
    state: PodState

    @property
    def name(self) -> str:
        return json_text.text(json_text.mapping(self.pod.get("metadata")).get("name"))

    @property
    def member(self) -> str:
        """Whose Pod it is, as far as it says so."""
        said = json_text.mapping(json_text.mapping(self.pod.get("metadata")).get("labels")).get(names.MEMBER)
        return str(said) if said else self.name

    @property
    def node(self) -> str | None:
        """Where it was meant to be, which is where it is."""
        said = json_text.mapping(json_text.mapping(self.pod.get("metadata")).get("labels")).get(names.NODE)
        return str(said) if said else self.state.node


class Namespace:
    """Our objects in one namespace. Every call asks the API: what was read a moment ago may be another's by now."""

    def __init__(self, api: Api) -> None:
        self.api, self.namespace = api, api.namespace
        # Turns are taken by decisions, each with the calls that it makes; the mutex is held by threads of one of them for a moment.
        self.turns, self.mutex = threading.RLock(), threading.RLock()
        # The version of each Lease as it was read, which a write must still find.
        self._read: dict[str, str | None] = {}

    def path(self, kind: str, name: str | None = None, under: str = "") -> str:
        return path_of(kind, self.namespace, name, under)

    # -- Pods ----------------------------------------------------------------------------------------------------------------------

    def pods(self, node: str | None = None) -> list[Found]:
        """Pods of members, of all groups; of one node alone. Errands are none."""
        selector = f"{names.SELECTOR},!{names.ERRAND}" + (f",{names.NODE}={node}" if node else "")
        return [self._found(pod) for pod in self.api.listed(self.path("pods"), labelSelector=selector)]

    def pod(self, member: str) -> Found | None:
        found = self.api.find(self.path("pods", names.of_member(member)))
        return self._found(found) if found else None

    def _found(self, pod: dict[str, t.Any]) -> Found:
        label = pod_state.label_of(pod)
        if label is not None:
            try:
                labels.read(label, "the annotation")
            except DamagedError:
                label = None
        return Found(pod, label, pod_state.read(pod))

    def note(self, member: str, **annotations: str | None) -> None:
        """Write annotations of a member's Pod; None takes one away."""
        self.api.patch(self.path("pods", names.of_member(member)), {"metadata": {"annotations": annotations}})

    def mark(self, member: str, **marks: str | None) -> None:
        """Write labels of a member's Pod; None takes one away."""
        self.api.patch(self.path("pods", names.of_member(member)), {"metadata": {"labels": marks}})

    # -- records -------------------------------------------------------------------------------------------------------------------

    def records(self) -> tuple[dict[str, dict[str, t.Any]], list[Damaged]]:
        """(the record of each group, those of which no copy can be read). Each stands twice: who deletes one, or tears it, takes nothing
        from a group that serves."""
        found: dict[str, list[dict[str, t.Any]]] = {}
        damaged: dict[str, Damaged] = {}
        for one in self.api.listed(self.path("configmaps"), labelSelector=names.SELECTOR):
            data = json_text.mapping(one.get("data"))
            group = json_text.mapping(json_text.mapping(one.get("metadata")).get("labels")).get(names.GROUP)
            if _RECORD not in data or not group:
                continue
            try:
                record = self._record_of(one)
                found.setdefault(str(group), []).append(record)
            except DamagedError as exc:
                damaged[str(group)] = Damaged(exc.where, exc.why, str(group), None)
        return {group: _newest(its) for group, its in found.items()}, [
            one for group, one in damaged.items() if group not in found
        ]

    def record(self, group: str) -> dict[str, t.Any] | None:
        """Raises DamagedError where there is one and no copy of it can be believed."""
        found: list[dict[str, t.Any]] = []
        torn: DamagedError | None = None
        for name in (names.of_group(group), names.of_copy(group)):
            one = self.api.find(self.path("configmaps", name))
            try:
                found += [self._record_of(one)] if one else []
            except DamagedError as exc:
                torn = exc
        if torn is not None and not found:
            raise torn
        return _newest(found) if found else None

    def _record_of(self, one: dict[str, t.Any]) -> dict[str, t.Any]:
        where = f"ConfigMap {self.namespace}/{json_text.text(json_text.mapping(one.get('metadata')).get('name'))}"
        try:
            raw = json.loads(json_text.text(json_text.mapping(one.get("data")).get(_RECORD)))
        except ValueError as exc:
            raise DamagedError(where, f"its record is no JSON ({exc})") from exc
        records.read(raw, where)
        return t.cast("dict[str, t.Any]", raw)

    def write_record(self, group: str, record: t.Mapping[str, t.Any]) -> None:
        for name in (names.of_group(group), names.of_copy(group)):
            self._write(name, group, {_RECORD: json.dumps(record, sort_keys=True)})

    def _write(self, name: str, group: str, data: t.Mapping[str, str]) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace, "labels": names.labels(group)},
            "data": dict(data),
        }
        try:
            self.api.replace(self.path("configmaps", name), body)
        except NotFoundError:
            self.api.create(self.path("configmaps"), body)

    # -- holds ---------------------------------------------------------------------------------------------------------------------

    def holds(self) -> dict[str, list[dict[str, t.Any]]]:
        """What is held, by group."""
        one = self.api.find(self.path("configmaps", names.HOLDS))
        data = json_text.mapping((one or {}).get("data"))
        return {group: json_text.objects(json.loads(text)) for group, text in data.items()}

    def write_holds(self, group: str, holds: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        """Those of one group. They stay when it is forgotten."""
        data = {group: json.dumps([dict(one) for one in holds], sort_keys=True) if holds else None}
        try:
            self.api.patch(self.path("configmaps", names.HOLDS), {"data": data})
        except NotFoundError:
            if holds:
                self._write(names.HOLDS, "", {key: value for key, value in data.items() if value})

    # -- the lock ------------------------------------------------------------------------------------------------------------------

    def lock(self, group: str) -> dict[str, t.Any] | None:
        """Who changes the group."""
        lease = self.api.find(self.path(LEASES, names.of_group(group)))
        meta = json_text.mapping((lease or {}).get("metadata"))
        with self.mutex:
            self._read[group] = json_text.text(meta.get("resourceVersion")) or None
        text = json_text.mapping(meta.get("annotations")).get(_LOCK)
        if not isinstance(text, str):
            return None
        return dict(locks.read(json.loads(text), f"Lease {self.namespace}/{names.of_group(group)}"))

    def write_lock(self, group: str, lock: t.Mapping[str, t.Any] | None) -> None:
        """Take, renew or release the lock, if it is still as `lock` read it last: of two runs that take it at once one is refused."""
        name = names.of_group(group)
        with self.mutex:
            version = self._read.pop(group, None)
            if lock is None:
                self.api.delete(self.path(LEASES, name), **_if_still(version))
                return
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": name,
                    "namespace": self.namespace,
                    "labels": names.labels(group),
                    "annotations": {_LOCK: json.dumps(lock, sort_keys=True)},
                    **({"resourceVersion": version} if version else {}),
                },
                "spec": {"holderIdentity": str(lock.get("who"))[:200]},
            }
            if version:
                made = self.api.replace(self.path(LEASES, name), body)
            else:
                made = self.api.create(self.path(LEASES), body)
            self._read[group] = json_text.text(json_text.mapping(made.get("metadata")).get("resourceVersion")) or None

    def locks(self) -> dict[str, dict[str, t.Any]]:
        """Every group's lock."""
        found = {}
        for lease in self.api.listed(self.path(LEASES), labelSelector=names.SELECTOR):
            meta = json_text.mapping(lease.get("metadata"))
            group = json_text.mapping(meta.get("labels")).get(names.GROUP)
            text = json_text.mapping(meta.get("annotations")).get(_LOCK)
            if group and isinstance(text, str):
                found[str(group)] = dict(locks.read(json.loads(text), "a Lease"))
        return found

    # -- the end of a group --------------------------------------------------------------------------------------------------------

    def forget(self, group: str) -> None:
        """Delete what is kept of a group: secrets first, its record last, so that what is left is found by a run that comes after."""
        self.api.call("DELETE", self.path("secrets"), {"labelSelector": f"{names.SELECTOR},{names.GROUP}={group}"})
        for one in self.api.listed(self.path("services"), labelSelector=f"{names.SELECTOR},{names.GROUP}={group}"):
            self.api.delete(self.path("services", json_text.text(json_text.mapping(one.get("metadata")).get("name"))))
        for name in (names.of_copy(group), names.of_group(group)):
            self.api.delete(self.path("configmaps", name))
        if not self.records()[0]:
            # With the last group goes what errands of all of them were made of.
            for one in self.api.listed(self.path("configmaps"), labelSelector=f"{names.SELECTOR},{names.CODE}"):
                name = json_text.text(json_text.mapping(one.get("metadata")).get("name"))
                self.api.delete(self.path("configmaps", name))


def _newest(copies: t.Sequence[dict[str, t.Any]]) -> dict[str, t.Any]:
    """The copy that was written last: a run may have died between the two."""
    return max(copies, key=lambda one: int(one.get("serial") or 0))


def _if_still(version: str | None) -> dict[str, t.Any]:
    return {"preconditions": {"resourceVersion": version}} if version else {}


__all__ = ["ConflictError", "Found", "Namespace"]
