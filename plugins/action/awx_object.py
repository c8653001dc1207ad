# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of awx_object: makes one object in AWX, by the module of awx.awx that is there for it."""

from __future__ import annotations

import typing as t

import yaml

from ..module_utils._core.awx.there import ENCRYPTED, KINDS
from ..module_utils._core.base.errors import PdError
from ..plugin_utils._action import PdAction
from ..plugin_utils._plain import to_plain

# What the modules say, in check mode, of an object that a real run would have made by then.
_NOT_YET = ("not found", "could not find", "missing items")
# What AWX says of what a user has forgotten, and what to do then.
_WAYS_OUT = {
    "PATCH to /api/v2/credential_types": (
        "AWX changes no fields of a credential type that a credential has. Run this once with -e '{\"awx_secrets\": []}', which takes both"
        " away, and then as it is: the values have to be written again."
    ),
    "Playbook not found for project": "The project's repository has no such file: copy it from examples/awx, push it, and run this again.",
}
_WRITTEN = (
    "{name}: its secrets are written again. AWX does not show those that it has, so that nobody can say whether they differ; leave"
    " their values out where they do not."
)


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "object": {"type": "dict", "required": True},
        "values": {"type": "dict", "default": {}, "no_log": True},
        "controller": {"type": "dict", "default": {}, "no_log": True},
    }

    def act(self) -> dict[str, t.Any]:
        self.one = to_plain(self.args["object"])
        if self.one["same"]:
            return {}
        params = self._params()
        if self._task.check_mode:
            made = self._checked(params)
        else:
            made = self._made(params)
        if made.get("failed"):
            raise PdError(f"{self.one['name']}: {_said(made)}")
        result: dict[str, t.Any] = {"changed": bool(made.get("changed"))}
        if "id" in made:
            result["id"] = made["id"]
        if self.one["there"] and self._given():
            self._display.display(_WRITTEN.format(name=self.one["name"]))
        if result["changed"] and self._task.diff:
            result["diff"] = self._diff()
        return result

    def _params(self) -> dict[str, t.Any]:
        """With the values of secrets, which come apart: they are in no result. One without a value stays as it is."""
        params, given = dict(self.one["params"]), self._given()
        if not self.one["secrets"]:
            return params
        kept = {name: ENCRYPTED for name in self.one["secrets"] if self.one["there"]} if given else {}
        return {**params, "inputs": {**params.get("inputs", {}), **kept, **given}}

    def _given(self) -> dict[str, str]:
        """The inputs of a credential that have a value, from the variables that they are of."""
        values = to_plain(self.args["values"])
        return {name: str(values[of]) for name, of in self.one["secrets"].items() if values.get(of)}

    def _made(self, params: dict[str, t.Any]) -> dict[str, t.Any]:
        return self._execute_module(
            module_name=f"awx.awx.{self.one['kind']}",
            module_args={**params, **to_plain(self.args["controller"])},
            task_vars=self.task_vars,
        )

    def _checked(self, params: dict[str, t.Any]) -> dict[str, t.Any]:
        """What a run would do. The modules look for what an object stands on, and that may not be there before a real run has made it."""
        new = KINDS[self.one["kind"]].endpoint and not self.one["there"]
        if new or "workflow_nodes" in params or "update_project" in params:
            return {"changed": True}
        made = self._made(params)
        if made.get("failed") and any(words in str(made.get("msg")).lower() for words in _NOT_YET):
            return {"changed": True}
        return made

    def _diff(self) -> dict[str, str]:
        before, after = self.one["before"], self.one["after"]
        header = self.one["name"]
        return {"before_header": header, "after_header": header, "before": _text(before), "after": _text(after)}


def _text(value: dict[str, t.Any]) -> str:
    return yaml.safe_dump(value, sort_keys=True, allow_unicode=True, width=140) if value else ""


def _said(made: t.Mapping[str, t.Any]) -> str:
    """What the module says, with what AWX has answered."""
    response = made.get("response") or {}
    answer = response.get("json") if isinstance(response, t.Mapping) else None
    told = f"{made.get('msg') or 'the module of awx.awx failed'}{f': {answer}' if answer else ''}"
    return told + next((f" {way_out}" for words, way_out in _WAYS_OUT.items() if words in told), "")
