# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errands: sent to nodes, seen to their ends, and taken away again, whatever becomes of them."""

from __future__ import annotations

import base64
import contextlib
import secrets as random
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from .._core.base import json_text
from .._core.base.errors import PdError
from .._core.base.printable import printable
from .._core.cluster import errand_pod, names, pod_state
from .._core.cluster.errand_pod import CODE_FILE, SCHEDULE, UNSCHEDULED, Errand
from .._core.cluster.pod import ENGINE, Pods
from .._errand import answer
from .._runtimes.errors import HostError
from .api import ConflictError
from .code import Code, code
from .namespace import Namespace

AT_ONCE = 16
# Between two looks at a Pod; how long it may be made before it is asked why; how long beyond its deadline its end is waited for.
_POLL, _QUIET, _SLACK = 0.3, 4.0, 60.0
# Clocks of controllers and servers may differ by this much, in seconds, before an errand of another run is taken for one that was left.
_LEFT = 600.0
# How long an answer may be on its way from a container that runs or has ended.
_SAID = 15.0
_FORBIDDEN = 403


@dataclass(frozen=True)
class Outcome:
    """What came of an errand: its `result`, or in a sentence the `error`. `word` is the cluster's own for what went wrong."""

    errand: Errand
    result: dict[str, t.Any] = field(default_factory=dict)
    error: str = ""
    word: str = ""


class ErrandError(HostError):
    """Why an errand has no result."""

    def __init__(self, errand: Errand, why: str, hint: str = "", word: str = "") -> None:
        super().__init__(errand.doing, why, hint)
        self.word = word


class Errands:
    """The errands of one namespace. `pods` is what members of it have in common."""

    def __init__(self, namespace: Namespace, pods: Pods) -> None:
        self.namespace, self.pods = namespace, pods

    def run(self, errands: t.Sequence[Errand]) -> list[Outcome]:
        """Do them side by side. What fails is told of the errand that it befell; nothing is raised but for what befalls all of them."""
        if not errands:
            return []
        its = code()
        self._keep(its)
        with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(errands))) as pool:
            return list(pool.map(lambda one: self._one(one, random.token_hex(8), names.of_code(its.digest)), errands))

    @contextlib.contextmanager
    def standing(self, errands: t.Sequence[Errand]) -> t.Iterator[list[Outcome]]:
        """The same for those that go on when they have answered, as who listens does: they are there as long as this is open."""
        if not errands:
            yield []
            return
        its = code()
        self._keep(its)
        tokens = [random.token_hex(8) for _errand in errands]
        try:
            # All at once, however many: none of them is of use without the others.
            with ThreadPoolExecutor(max_workers=min(4 * AT_ONCE, len(errands))) as pool:
                begun = pool.map(lambda one, token: self._begin(one, token, names.of_code(its.digest)), errands, tokens)
                outcomes = list(begun)
            yield outcomes
        finally:
            for token in tokens:
                self._remove(names.of_errand(token))

    def sweep(self) -> list[str]:
        """Take away what runs that were killed have left: the names of errands long beyond their deadline."""
        gone = []
        for pod in self.namespace.api.listed(self.namespace.path("pods"), labelSelector=_OURS):
            meta = json_text.mapping(pod.get("metadata"))
            begun = pod_state.moment(meta.get("creationTimestamp"))
            limit = json_text.count(json_text.mapping(pod.get("spec")).get("activeDeadlineSeconds")) or 0
            if begun is not None and begun + limit + _LEFT < time.time():
                gone.append(json_text.text(meta.get("name")))
                self._remove(gone[-1])
        return gone

    # -- one of them ---------------------------------------------------------------------------------------------------------------

    def _one(self, errand: Errand, token: str, its: str) -> Outcome:
        try:
            return self._begin(errand, token, its, over=True)
        finally:
            self._remove(names.of_errand(token))

    def _begin(self, errand: Errand, token: str, its: str, over: bool = False) -> Outcome:
        """Send it and read its answer: when it has ended, or as soon as it is said."""
        try:
            self._send(errand, token, its)
            self._await(errand, names.of_errand(token), over)
            return Outcome(errand, self._answer(errand, token))
        except ErrandError as exc:
            return Outcome(errand, error=str(exc), word=exc.word)
        except PdError as exc:
            return Outcome(errand, error=f"{errand.doing}: {exc}")

    def _send(self, errand: Errand, token: str, its: str) -> None:
        made = self.namespace.api.create(self.namespace.path("pods"), errand_pod.render(errand, token, its, self.pods))
        secret = errand_pod.secret(errand, token, made)
        if secret is not None:
            # After the Pod, which waits for it: so it can be the Pod's own, and is not left behind by a run that is killed.
            self.namespace.api.create(self.namespace.path("secrets"), secret)

    def _await(self, errand: Errand, name: str, over: bool) -> None:
        """Return when it has ended well or, unless it is to be `over`, begun. Raises ErrandError."""
        begun = time.monotonic()
        while True:
            pod = self.namespace.api.find(self.namespace.path("pods", name))
            waited = time.monotonic() - begun
            if pod is None:
                raise ErrandError(errand, "its Pod was deleted by somebody", "Run again.")
            found = errand_pod.seen(pod, errand)
            if found.over:
                if found.failed:
                    raise ErrandError(errand, found.failed, found.hint, found.word)
                return
            if not over and not found.waits:
                return
            if found.waits and waited > _QUIET:
                if found.word == UNSCHEDULED and waited > SCHEDULE:
                    raise ErrandError(errand, found.waits, _NO_ROOM, found.word)
                self._judge_events(errand, name)
            if waited > errand.seconds + SCHEDULE + _SLACK:
                raise ErrandError(
                    errand,
                    f"it did not end within {round(waited)} s ({found.waits or 'it runs'})",
                    _NODE_UP,
                    "DeadlineExceeded",
                )
            # One that is short is short to wait for.
            time.sleep(_POLL if waited < _QUIET else 3 * _POLL)

    def _judge_events(self, errand: Errand, name: str) -> None:
        """A volume that cannot be mounted is told by events alone. Without the right to read them its deadline ends the errand."""
        selector = f"involvedObject.name={name},reason=FailedMount"
        events: list[dict[str, t.Any]] = []
        with contextlib.suppress(HostError):
            events = self.namespace.api.listed(self.namespace.path("events"), fieldSelector=selector)
        said = [printable(json_text.text(one.get("message"))).strip() for one in events]
        for folder in errand.folders:
            if any(folder in one and "hostPath type check failed" in one for one in said):
                raise ErrandError(errand, f"{folder} is no folder of the node", word="FailedMount")

    def _answer(self, errand: Errand, token: str) -> dict[str, t.Any]:
        path = self.namespace.path("pods", names.of_errand(token), "log")
        said: dict[str, t.Any] = {}
        end = time.monotonic() + _SAID
        while not said:
            # Its last lines may come to the log a moment after its end is known, and one that has begun has yet to say something.
            try:
                said = answer.read(self.namespace.api.text(path, container=ENGINE), token)
            except (HostError, answer.CutError) as exc:
                if time.monotonic() > end or getattr(exc, "status", 0) == _FORBIDDEN:
                    raise ErrandError(errand, str(exc), _NO_LOG) from exc
                time.sleep(_POLL)
        if "error" in said:
            raise ErrandError(errand, json_text.text(said["error"]))
        return json_text.mapping(said.get("result"))

    # -- objects -------------------------------------------------------------------------------------------------------------------

    def _keep(self, its: Code) -> None:
        """Have the code where errands find it. One of that name is this one: the name is the digest."""
        name = names.of_code(its.digest)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self.namespace.namespace,
                "labels": {**names.labels(""), names.CODE: its.digest},
            },
            "immutable": True,
            "binaryData": {CODE_FILE: base64.b64encode(its.body).decode()},
        }
        found = self.namespace.api.find(self.namespace.path("configmaps", name))
        if found is None:
            with contextlib.suppress(ConflictError):
                self.namespace.api.create(self.namespace.path("configmaps"), body)
        elif found.get("binaryData") != body["binaryData"]:
            # It would be run, with keys.
            where = f"ConfigMap {self.namespace.namespace}/{name}"
            raise HostError(
                "Sending an errand", f"{where} is not the code that its name says", "Delete it, and run again."
            )

    def _remove(self, name: str) -> None:
        """The Secret first: what is secret is the first to go, by a right that does not read it. What cannot be removed now ends by its
        deadline, and is swept later."""
        with contextlib.suppress(HostError):
            self.namespace.api.call(
                "DELETE", self.namespace.path("secrets"), {"fieldSelector": f"metadata.name={name}"}
            )
        with contextlib.suppress(HostError):
            self.namespace.api.delete(self.namespace.path("pods", name))


_OURS = f"{names.SELECTOR},{names.ERRAND}"
_NO_ROOM = "An errand asks for 50m of CPU and 64Mi: is the node full, or has it a taint that kubernetes.tolerations leaves out?"
_NODE_UP = "Is the node up? kubectl get node shows it."
_NO_LOG = "Is kubelet in reach of the API server, and the right pods/log given? Run again."
