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
_WRITTEN = (
    "{kind} {label}: its secrets are written again. AWX does not show those that it has, so that nobody can say whether they differ; leave"
    " their values out where they do not."
)


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "kind": {"type": "str", "required": True, "choices": list(KINDS)},
        "label": {"type": "str", "required": True},
        "params": {"type": "dict", "required": True},
        "there": {"type": "bool", "default": False},
        "same": {"type": "bool", "default": False},
        "before": {"type": "dict", "default": {}},
        "after": {"type": "dict", "default": {}},
        "secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "values": {"type": "dict", "default": {}, "no_log": True},
        "controller": {"type": "dict", "default": {}, "no_log": True},
    }

    def act(self) -> dict[str, t.Any]:
        if self.args["same"]:
            return {}
        params = self._params()
        if self._task.check_mode:
            made = self._checked(params)
        else:
            made = self._made(params)
        if made.get("failed"):
            raise PdError(f"{self.args['kind']} {self.args['label']}: {_said(made)}")
        result: dict[str, t.Any] = {"changed": bool(made.get("changed"))}
        if "id" in made:
            result["id"] = made["id"]
        if self.args["there"] and self._given():
            self._display.display(_WRITTEN.format(kind=self.args["kind"], label=self.args["label"]))
        if result["changed"] and self._task.diff:
            result["diff"] = self._diff()
        return result

    def _params(self) -> dict[str, t.Any]:
        """With the values of secrets, which come apart: they are in no result. One without a value stays as it is."""
        params, given = to_plain(self.args["params"]), self._given()
        if not self.args["secrets"]:
            return params
        kept = {name: ENCRYPTED for name in self.args["secrets"] if self.args["there"]} if given else {}
        return {**params, "inputs": {**params.get("inputs", {}), **kept, **given}}

    def _given(self) -> dict[str, str]:
        values = to_plain(self.args["values"])
        return {name: str(values[name]) for name in self.args["secrets"] if values.get(name)}

    def _made(self, params: dict[str, t.Any]) -> dict[str, t.Any]:
        return self._execute_module(
            module_name=f"awx.awx.{self.args['kind']}",
            module_args={**params, **to_plain(self.args["controller"])},
            task_vars=self.task_vars,
        )

    def _checked(self, params: dict[str, t.Any]) -> dict[str, t.Any]:
        """What a run would do. The modules look for what an object stands on, and that may not be there before a real run has made it."""
        new = KINDS[self.args["kind"]].endpoint and not self.args["there"]
        if new or "workflow_nodes" in params or "update_project" in params:
            return {"changed": True}
        made = self._made(params)
        if made.get("failed") and any(words in str(made.get("msg")).lower() for words in _NOT_YET):
            return {"changed": True}
        return made

    def _diff(self) -> dict[str, str]:
        before, after = to_plain(self.args["before"]), to_plain(self.args["after"])
        header = f"{self.args['kind']} {self.args['label']}"
        return {"before_header": header, "after_header": header, "before": _text(before), "after": _text(after)}


def _text(value: dict[str, t.Any]) -> str:
    return yaml.safe_dump(value, sort_keys=True, allow_unicode=True, width=140) if value else ""


def _said(made: t.Mapping[str, t.Any]) -> str:
    """What the module says, with what AWX has answered."""
    response = made.get("response") or {}
    answer = response.get("json") if isinstance(response, t.Mapping) else None
    return f"{made.get('msg') or 'the module of awx.awx failed'}{f': {answer}' if answer else ''}"
