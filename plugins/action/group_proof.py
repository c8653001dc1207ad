# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_proof: which groups are proven from their routers' host, with which members, and with the keys that these
ask for."""

from __future__ import annotations

import contextlib
import typing as t

from ansible.errors import AnsibleError

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.course.course import Course
from ..module_utils._core.course.parcel import Parcel
from ..plugin_utils._keys import keys_of
from ..plugin_utils._plain import sealed
from ..plugin_utils._run import RUN, RunAction


class ActionModule(RunAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "run": RUN["run"],
        "wave": RUN["wave"],
        "timeout": {"type": "float", "default": 60},
        "limit": {"type": "float", "default": 600},
        "max_pairs": {"type": "int", "default": 64},
        "keys": {"type": "json", "no_log": True},
        "api_key": {"type": "str", "no_log": True},
    }

    def act(self) -> dict[str, t.Any]:
        if self._task.check_mode:
            return {"skipped": True, "skip_reason": "check mode: nothing is sent"}
        started = self.folder.said_by(self.wave, "router", self.host)
        found = {
            name: (parcel, course)
            for name, (parcel, course) in self.parcels().items()
            if course.serves and parcel.proof and started.get(name, {"ok": True}).get("ok")
        }
        if not found:
            return {"skipped": True, "skip_reason": f"nothing is proven from {self.host}"}
        away = self.left_alone("proof", found)
        if away:
            return away
        # The engines are on other hosts, whose secrets nobody can read here.
        keys: dict[str, t.Any] = {}
        for name, (parcel, _course) in found.items():
            # An entry that cannot be read here takes nothing from the proofs of others: its own says what is asked for.
            with contextlib.suppress(PdError, AnsibleError):
                keys[name] = keys_of(self, parcel.for_keys())
        arguments = {
            "workloads": [self._asked(parcel, course) for parcel, course in found.values()],
            "keys": self.args["keys"] or sealed(keys),
            "api_key": self.args["api_key"],
            "cluster": self.cluster(),
        }
        results = self.ask("proof", found, lambda: self.module("group_proof", arguments, found))
        for name, result in results.items():
            result.setdefault("good", not result.get("failed"))
            result["group"] = name
        self.folder.say(self.wave, "proof", self.host, results)
        return {"changed": False, "workloads": {name: {"good": result["good"]} for name, result in results.items()}}

    def _asked(self, parcel: Parcel, course: Course) -> dict[str, t.Any]:
        peers = {peer.member for peer in parcel.plan.router.peers}
        return {
            "group": parcel.plan.group,
            "plan": parcel.proof,
            # One that waits outside of the router is not to be met by anybody yet.
            "members": [name for name in course.ready if name in peers],
            "formations": dict(course.formations),
            **{key: self.args[key] for key in ("timeout", "limit", "max_pairs")},
        }
