# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of awx_objects: which objects there are to be in AWX, and what of them there is."""

from __future__ import annotations

import typing as t

from ..module_utils._core.awx.objects import Object, Wanted, needs, objects, to_remove
from ..module_utils._core.awx.survey import Choices
from ..module_utils._core.awx.there import KINDS, Difference, difference, graph, graph_there, identity, query
from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.plain import Plain
from ..plugin_utils._action import PdAction
from ..plugin_utils._awx import Awx
from ..plugin_utils._batch import check_variables
from ..plugin_utils._plain import to_plain


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "settings": {"type": "dict", "required": True},
        "own": {"type": "dict", "required": True},
        "groups": {"type": "list", "elements": "str", "default": []},
        "rollouts": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "controller": {"type": "dict", "default": {}},
    }

    def act(self) -> dict[str, t.Any]:
        check_variables(self._task, self.variable)
        choices = Choices(tuple(self.args["groups"]), tuple(self.args["rollouts"]))
        wanted = Wanted(to_plain(self.args["settings"]), to_plain(self.args["own"]), choices)
        gone = self.args["state"] == "absent"
        listed = to_remove(wanted) if gone else objects(wanted)
        awx = Awx(to_plain(self.args["controller"]))
        try:
            if not gone:
                _check(awx, wanted)
            told = [_absent(awx, one) if gone or one.gone else _present(awx, one) for one in listed]
        finally:
            awx.close()
        if gone:
            self._display.display(
                f"The organization {wanted.names.organization} stays: with it would go what others have there."
            )
        return {"objects": [one for one in told if one]}


def _check(awx: Awx, wanted: Wanted) -> None:
    """Raise PdError for all that AWX lacks of what is named and not made: before anything is."""
    missing = [one.missing() for one in needs(wanted) if not awx.every(one.endpoint, one.query)]
    if missing:
        raise PdError(" ".join(missing))


def _look(awx: Awx, one: Object) -> dict[str, t.Any] | None:
    """What AWX has of an object."""
    kind = KINDS[one.kind]
    found = awx.every(kind.endpoint, query(one.kind, one.params)) if kind.endpoint else []
    return found[0] if found else None


def _absent(awx: Awx, one: Object) -> dict[str, t.Any] | None:
    there = _look(awx, one)
    if there is None:
        return None
    params = {**identity(one.kind, one.params), "state": "absent"}
    return _told(one, params, True, Difference({"state": "present"}, {"state": "absent"}, True))


def _present(awx: Awx, one: Object) -> dict[str, t.Any] | None:
    there = _look(awx, one)
    params = {"state": "present", **one.params}
    if there is not None:
        if one.playbooks and set(one.playbooks) - set(awx.get(there["related"]["playbooks"])):
            # The copy that AWX has is older than what templates are made of.
            params["update_project"] = True
        if "galaxy_credentials" in params:
            kept = awx.every(there["related"]["galaxy_credentials"])
            if set(params["galaxy_credentials"]) <= {each["name"] for each in kept}:
                return None
            # Those of others stay, and come first: their order is who is asked first.
            params["galaxy_credentials"] = [*(str(each["id"]) for each in kept), *params["galaxy_credentials"]]
    survey = awx.get(there["related"]["survey_spec"]) if there and "survey_spec" in params else None
    nodes = params.pop("workflow_nodes", None)
    differs = difference(params, there, survey)
    if nodes is not None:
        has = graph_there(awx.every(there["related"]["workflow_nodes"])) if there else {}
        if has != graph(nodes):
            # Whole, since the module takes no node or arrow away. Workflows that run have a copy.
            params |= {"workflow_nodes": nodes, "destroy_current_nodes": True}
            differs.before["workflow_nodes"], differs.after["workflow_nodes"] = has, graph(nodes)
    return _told(one, params, there is not None, differs)


def _told(one: Object, params: Plain, there: bool, differs: Difference) -> dict[str, t.Any]:
    """As awx_object takes it. What its module would have nothing to do for is not asked of it: each asks AWX ten times."""
    same = differs.none and not one.secrets and "update_project" not in params
    return {
        "name": f"{one.kind.replace('_', ' ')} {one.label}",
        "kind": one.kind,
        "params": {} if same else params,
        "secrets": dict(one.secrets) if params["state"] == "present" else {},
        "there": there,
        "same": same,
        "before": differs.before,
        "after": differs.after,
    }
