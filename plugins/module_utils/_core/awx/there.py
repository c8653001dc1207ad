# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is in AWX already, beside what is to be: where to ask for it, what differs, and whether a workflow's graph is the same."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.plain import Plain

# What AWX shows instead of a secret, and takes for "as it is".
ENCRYPTED = "$encrypted$"
_HIDDEN = "(not shown)"


@dataclass(frozen=True)
class Kind:
    """A kind of object: where AWX lists it, and by which parameters of its module one is found: the key of the query by the parameter.
    These are also all that its module needs to remove one."""

    endpoint: str
    found_by: t.Mapping[str, str]


_OF_ORGANIZATION = {"name": "name", "organization": "organization__name"}
KINDS: t.Mapping[str, Kind] = {
    "organization": Kind("organizations", {"name": "name"}),
    "credential_type": Kind("credential_types", {"name": "name"}),
    "credential": Kind("credentials", {**_OF_ORGANIZATION, "credential_type": "credential_type__name"}),
    "execution_environment": Kind("execution_environments", {"name": "name"}),
    "project": Kind("projects", _OF_ORGANIZATION),
    "inventory": Kind("inventories", _OF_ORGANIZATION),
    "inventory_source": Kind(
        "inventory_sources",
        {"name": "name", "inventory": "inventory__name", "organization": "inventory__organization__name"},
    ),
    "job_template": Kind("job_templates", _OF_ORGANIZATION),
    "workflow_job_template": Kind("workflow_job_templates", _OF_ORGANIZATION),
    "schedule": Kind("schedules", {"name": "name", "unified_job_template": "unified_job_template__name"}),
    "role": Kind("", {}),
}


def query(kind: str, params: Plain) -> dict[str, str]:
    """What AWX is asked for an object by."""
    return {key: str(params[name]) for name, key in KINDS[kind].found_by.items() if name in params}


def identity(kind: str, params: Plain) -> dict[str, t.Any]:
    """Of its parameters, those by which it is known."""
    return {name: params[name] for name in KINDS[kind].found_by if name in params}


@dataclass(frozen=True)
class Difference:
    """What differs of an object, by parameter: as it is, and as it is to be. `whole`: all of its parameters could be compared."""

    before: dict[str, t.Any]
    after: dict[str, t.Any]
    whole: bool

    @property
    def none(self) -> bool:
        return self.whole and not self.after


# What is no part of an object.
_MANNERS = ("state", "wait", "update_project")


def difference(params: Plain, there: Plain | None, survey: Plain | None = None) -> Difference:
    """Of an object, what AWX has (`there`, None where it has none; `survey`, which it lists apart) beside the parameters of its module."""
    wanted = {name: value for name, value in params.items() if name not in _MANNERS}
    if there is None:
        return Difference({}, {name: _shown(value) for name, value in wanted.items()}, False)
    made = Difference({}, {}, True)
    for name, value in wanted.items():
        seen, found = _as_seen(name, there, survey)
        if not seen:
            made = replace(made, whole=False)
        elif found != value:
            made.before[name], made.after[name] = _shown(found), _shown(value)
    return made


def _as_seen(name: str, there: Plain, survey: Plain | None) -> tuple[bool, t.Any]:
    """(whether AWX shows a parameter, what it shows)."""
    summary = there.get("summary_fields") or {}
    if name == "survey_spec":
        return survey is not None, survey
    if name == "inputs" and isinstance(there.get(name), t.Mapping) and "credential_type" in there:
        # Of a credential; secrets come apart from what is compared.
        return True, {key: value for key, value in there[name].items() if value != ENCRYPTED}
    if name in summary and isinstance(summary[name], t.Mapping):
        return True, summary[name].get("name")
    if name in summary and isinstance(summary[name], list):
        return True, [one.get("name") for one in summary[name]]
    if name not in there or name == "credential":
        return False, None
    if name in (
        "organization",
        "inventory",
        "project",
        "execution_environment",
        "default_environment",
        "unified_job_template",
    ):
        return True, None  # a number without a name is of one that is gone
    return True, there[name]


def _shown(value: t.Any) -> t.Any:
    if isinstance(value, t.Mapping):
        return {name: _shown(one) for name, one in value.items()}
    return _HIDDEN if value == ENCRYPTED else value


# -- workflows -------------------------------------------------------------------------------------------------------------------

_AFTER = ("success_nodes", "failure_nodes", "always_nodes")


def graph(nodes: t.Iterable[Plain]) -> dict[str, t.Any]:
    """The graph that nodes as awx.awx takes them make: of each identifier its job, what it is given, and who comes after it."""
    made = {}
    for node in nodes:
        job, related = node["unified_job_template"], node.get("related") or {}
        approval = (
            {key: job.get(key) for key in ("description", "timeout")} if job["type"] == "workflow_approval" else {}
        )
        after = {key: sorted(one["identifier"] for one in related.get(key, ())) for key in _AFTER}
        made[str(node["identifier"])] = {"job": job["name"], **approval, "given": node.get("extra_data") or {}, **after}
    return made


def graph_there(nodes: t.Iterable[Plain]) -> dict[str, t.Any]:
    """The same of the nodes that AWX lists. An approval shows its timeout and description in its summary."""
    listed = list(nodes)
    identifiers = {node["id"]: str(node["identifier"]) for node in listed}
    made = {}
    for node in listed:
        job = (node.get("summary_fields") or {}).get("unified_job_template") or {}
        approval = (
            {"description": job.get("description", ""), "timeout": job.get("timeout")}
            if job.get("unified_job_type") == "workflow_approval"
            else {}
        )
        after = {key: sorted(identifiers.get(one, "?") for one in node.get(key) or ()) for key in _AFTER}
        made[str(node["identifier"])] = {
            "job": job.get("name"),
            **approval,
            "given": node.get("extra_data") or {},
            **after,
        }
    return made
