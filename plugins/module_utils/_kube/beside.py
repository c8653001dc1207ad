# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run does beside members, by an errand where a host does it itself: each function takes and gives what that of the host does, and
an errand that fails is a result that has failed."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._core.base.json_text import mapping, objects, text
from .._core.base.plain import Plain
from .._core.cluster.errand_pod import Errand
from .._core.cluster.pod import Pods
from .._host.proving import LIMIT, KeysOf
from .._host.wait import ENGINE_ROLES
from .._runtimes.errors import HostError
from .errand import Errands
from .namespace import Namespace

# Beside what is asked for, that a Pod is made. No image is pulled: what changes a router must be over before the lock of a run that was
# killed is another's.
_START = 60
# What a registration takes when nothing is said.
_REGISTER = 60.0
# By the URL of a member or router: the keys that its process wants, which a Pod beside it cannot see.
Lent = t.Mapping[str, t.Sequence[str]]


@dataclass(frozen=True)
class Beside:
    """Where errands of a group go: a node, with an image that has Python and is there already: that of a member on it."""

    errands: Errands
    node: str
    image: str
    group: str

    @classmethod
    def of(cls, namespace: Namespace, group: str | None = None) -> Beside:
        """Beside a member that runs, of the group or of any: an engine, whose image has Python, else the router. The errand is let onto
        its node as that one is. Raises HostError where nobody runs."""
        running = [
            one
            for one in namespace.pods()
            if one.label is not None
            and one.state.state == "running"
            and one.node
            and group in (None, one.label["group"])
        ]
        ready = [one for one in running if one.state.ready]
        engines = [one for one in ready or running if (one.label or {})["role"] in ENGINE_ROLES]
        found = next(iter(engines or running), None)
        if found is None:
            of = f"group {group}" if group else "any group"
            raise HostError(
                "Sending an errand", f"no member of {of} runs, beside which it could go", "Deploy the group."
            )
        spec = mapping(found.pod.get("spec"))
        (container,) = objects(spec.get("containers"))[:1]
        settings = Pods(
            namespace.namespace,
            service_account=text(spec.get("serviceAccountName")) or None,
            priority_class=text(spec.get("priorityClassName")) or None,
            pull_secrets=tuple(text(one.get("name")) for one in objects(spec.get("imagePullSecrets"))),
            tolerations=tuple(objects(spec.get("tolerations"))),
        )
        label = found.label or {}
        return cls(Errands(namespace, settings), str(found.node), text(container.get("image")), str(label["group"]))

    def peers(self, routers: t.Sequence[Plain]) -> list[tuple[list[dict[str, t.Any]] | None, str]]:
        """Whom each of these routers knows, {url, dialect} each; None where that cannot be read, and why."""
        found = self._do("peers", {"routers": list(routers)}, {}, _REGISTER)
        if isinstance(found, str):
            return [(None, found)] * len(routers)
        return [(one.get("peers"), str(one.get("why") or "")) for one in objects(found.get("registered"))]

    def register(self, asked: Plain, check: bool, lent: Lent | None = None) -> dict[str, t.Any]:
        """As registration.register. `asked.keys` are given as a secret. The caller has looked whether the run holds the lock; the errand's
        time is shorter than that of a lock."""
        order = {"peers": {key: value for key, value in asked.items() if key != "keys"}, "check": check}
        seconds = float(asked.get("timeout") or _REGISTER) + float(asked.get("settle") or _REGISTER)
        found = self._do("router", order, {"keys": asked.get("keys") or {}, "lent": lent or {}}, seconds)
        if isinstance(found, str):
            return {"failed": True, "msg": f"The router at {asked['url']} could not be told its members. {found}"}
        return mapping(found.get("peers"))

    def leave(
        self, asked: Plain | None, members: t.Sequence[Plain], lent: Lent | None = None
    ) -> tuple[dict[str, t.Any], dict[str, str]]:
        """(what register says, None asks for none; by member what drain says). `members`: {label, seconds, upstream} each."""
        peers = {"peers": {key: value for key, value in asked.items() if key != "keys"}} if asked else {}
        seconds = max([0.0, *(float(one["seconds"]) for one in members)]) + 2 * _REGISTER
        found = self._do("leave", {**peers, "members": list(members)}, {"lent": lent or {}}, seconds)
        if isinstance(found, str):
            unknown = {str(one["label"]["member"]): f"it could not be asked. {found}" for one in members}
            return ({"failed": True, "msg": found} if asked else {}), unknown
        return mapping(found.get("peers")), {str(name): str(why) for name, why in mapping(found.get("left")).items()}

    def prove_all(
        self, workloads: t.Sequence[Plain], keys: KeysOf, api_key: str | None = None, lent: Lent | None = None
    ) -> dict[str, dict[str, t.Any]]:
        """As proving.prove_all. What of the workloads' routers can be seen on a host is `lent` here."""
        if not workloads:
            return {}
        seconds = max(float(one.get("limit") or LIMIT) for one in workloads)
        secrets = {"keys": keys, "api_key": api_key, "lent": lent or {}}
        found = self._do("proof", {"workloads": list(workloads)}, secrets, seconds)
        if not isinstance(found, str):
            return mapping(found.get("workloads"))
        return {
            str(one["group"]): {
                "good": False, "why": found, "msg": found, "router": None, "pairs": [], "table": [found], "changed": False,
                "failed": True, "group": one["group"],
            }
            for one in workloads
        }  # fmt: skip

    def _do(self, kind: str, order: Plain, secrets: Plain, seconds: float) -> dict[str, t.Any] | str:
        """Its result, or why there is none."""
        given = {key: value for key, value in secrets.items() if value}
        one = Errand(kind, self.node, self.image, order, given, round(seconds) + _START, pull=False, group=self.group)
        (found,) = self.errands.run([one])
        return found.error or found.result
