# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that is to be in AWX, as objects: each a kind, and the parameters of the module of awx.awx that makes it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.errors import PdError
from ..base.plain import Plain
from ..base.words import names
from .survey import Choices, survey

# Who may launch what: changers whatever operators may, and more.
OPERATORS, CHANGERS, NOBODY = "operators", "changers", "nobody"
_MAY = {OPERATORS: (OPERATORS,), CHANGERS: (OPERATORS, CHANGERS)}
_OURS = ("survey", "who")
_VERBS = {"execute": "launch", "approval": "approve", "read": "see"}
_NO_GALAXY = (
    "Without one AWX installs nothing of the project's collections/requirements.yml, and says nothing of it: name one that is there, give"
    " awx_galaxy_url to have one made, or leave it empty where the execution environment has the collections."
)
_GALAXY_TYPE = "Ansible Galaxy/Automation Hub API Token"


@dataclass(frozen=True)
class Object:
    """One object. `secrets` are the inputs of a credential whose values are given apart, with the variables that have them; `playbooks`
    are files that a project must have; one that is `gone` was left out by the user, and is taken away where it is there."""

    kind: str
    label: str
    params: Plain
    secrets: t.Mapping[str, str] = field(default_factory=dict)
    playbooks: tuple[str, ...] = ()
    gone: bool = False


@dataclass(frozen=True)
class Need:
    """What must be in AWX before: where it is listed, what it is asked for by, the key by which a user named it, and the way out."""

    endpoint: str
    query: Plain
    place: str
    way_out: str = "Name one that is there, or make it first."

    def missing(self) -> str:
        name = self.query.get("name") or self.query.get("username")
        return f"{self.place}: AWX has none of {self.endpoint} with the name {name}. {self.way_out}"


@dataclass(frozen=True)
class Names:
    """The names of our objects in AWX."""

    prefix: str
    organization: str

    def of(self, what: str) -> str:
        return f"{self.prefix}{what}"

    @property
    def named(self) -> dict[str, str]:
        return {"organization": self.organization}


@dataclass(frozen=True)
class Wanted:
    """The settings of role awx, by their names without its prefix (`secrets`: labels by variable); what it has itself (`own`), by the names
    in its vars; and what the inventory has."""

    settings: Plain
    own: Plain
    choices: Choices = field(default_factory=Choices)

    def get(self, key: str) -> t.Any:
        return self.settings.get(key)

    def text(self, key: str) -> str:
        return str(self.settings.get(key) or "")

    @property
    def names(self) -> Names:
        return Names(self.text("prefix"), self.text("organization"))

    @property
    def environment(self) -> str:
        """The execution environment, by its name: one that is there, or ours."""
        return self.text("environment") or (self.names.of("environment") if self.text("image") else "")

    @property
    def templates(self) -> dict[str, dict[str, t.Any]]:
        """The job templates, by name: ours with the user's laid over them, and those that the user adds."""
        every = {
            "playbook": "",
            "survey": [],
            "who": CHANGERS,
            "forks": self.get("forks"),
            **self.own["every_template"],
        }
        return {
            name: {**every, **one}
            for name, one in _laid_over(self.own["templates"], self.get("templates"), "awx_templates").items()
        }

    @property
    def schedules(self) -> dict[str, dict[str, t.Any]]:
        return _laid_over(self.own["schedules"], self.get("schedules"), "awx_schedules")


def objects(wanted: Wanted) -> list[Object]:
    """All of them, in the order in which they can be made. Raises PdError, in the words of role awx, for settings that cannot be meant."""
    _check(wanted)
    return [
        *_left_out(wanted),
        *_organization(wanted),
        *_environment(wanted),
        *_secrets(wanted),
        _project(wanted),
        *_inventory(wanted),
        *(_template(wanted, name, one) for name, one in wanted.templates.items()),
        *_workflow(wanted),
        *(_schedule(wanted, name, one) for name, one in wanted.schedules.items()),
        *_access(wanted),
    ]


def needs(wanted: Wanted) -> list[Need]:
    """What the user has named and the role does not make."""
    found = [
        Need("credentials", {"name": str(name)}, f"awx_credentials[{at}]")
        for at, name in enumerate(wanted.get("credentials") or ())
    ]
    found += [
        Need("instance_groups", {"name": str(name)}, f"awx_instance_groups[{at}]")
        for at, name in enumerate(wanted.get("instance_groups") or ())
    ]
    if wanted.text("galaxy_credential") and not wanted.text("galaxy_url"):
        found.append(
            Need("credentials", {"name": wanted.text("galaxy_credential")}, "awx_galaxy_credential", _NO_GALAXY)
        )
    if wanted.text("scm_credential"):
        found.append(Need("credentials", {"name": wanted.text("scm_credential")}, "awx_scm_credential"))
    if wanted.text("environment"):
        found.append(Need("execution_environments", {"name": wanted.text("environment")}, "awx_environment"))
    for (kind, name), roles in _actors(wanted).items():
        asked = (
            {"name": name, "organization__name": wanted.names.organization} if kind == "teams" else {"username": name}
        )
        found.append(Need(kind, asked, f"awx_{sorted(roles)[0]}.{kind}"))
    return found


def to_remove(wanted: Wanted) -> list[Object]:
    """Those that can be taken away again, each after all that need it. The organization stays: with it would go what others have there."""
    made = objects(wanted)
    rest = [one for one in reversed(made) if one.kind not in ("organization", "role") and not one.gone]
    return [*(one for one in made if one.gone), *rest]


def _check(wanted: Wanted) -> None:
    for key, what in (("organization", "the organization in AWX"), ("scm_url", "the git repository of the project")):
        if not wanted.text(key):
            raise PdError(f"awx_{key} is not given: write {what}.")
    if wanted.text("image") and wanted.text("environment"):
        raise PdError(
            "awx_image and awx_environment are both given: one makes an execution environment, the other names one that is there."
        )
    templates = wanted.templates
    for name, one in templates.items():
        place = f"awx_templates.{name}"
        if not one["playbook"]:
            raise PdError(f"{place} has no playbook: write a file of the project, such as deploy.yml.")
        if one["who"] not in (OPERATORS, CHANGERS, NOBODY):
            raise PdError(f"{place}.who: {one['who']!r} is none of {names((OPERATORS, CHANGERS, NOBODY))}.")
    for name, one in wanted.schedules.items():
        if one.get("template") not in templates:
            raise PdError(f"awx_schedules.{name}.template: {one.get('template')!r} is none of {names(templates)}.")


def _laid_over(ours: Plain, users: Plain | None, place: str) -> dict[str, dict[str, t.Any]]:
    """Entries by name, the user's over ours key by key; false leaves one out."""
    found = {name: dict(one) for name, one in ours.items()}
    for name, one in (users or {}).items():
        if one is False:
            found.pop(name, None)
        elif isinstance(one, t.Mapping):
            found[name] = {**found.get(name, {}), **one}
        else:
            raise PdError(f"{place}.{name}: {one!r} is neither a dictionary nor false, which leaves it out.")
    return found


# -- what the jobs stand on ------------------------------------------------------------------------------------------------------


def _organization(wanted: Wanted) -> t.Iterator[Object]:
    """It, and what collections are installed with: without such a credential AWX installs nothing of the project's requirements."""
    names_, url = wanted.names, wanted.text("galaxy_url")
    yield Object("organization", names_.organization, {"name": names_.organization})
    galaxy = wanted.text("galaxy_credential")
    if url:
        galaxy = names_.of("galaxy")
        inputs = {
            "url": url,
            **({"auth_url": wanted.text("galaxy_auth_url")} if wanted.text("galaxy_auth_url") else {}),
        }
        token = {"token": "awx_galaxy_token"} if wanted.get("galaxy_token_given") else {}
        params = {"name": galaxy, **names_.named, "credential_type": _GALAXY_TYPE, "inputs": inputs}
        yield Object("credential", galaxy, params, secrets=token)
    if galaxy:
        params = {"name": names_.organization, "galaxy_credentials": [galaxy]}
        yield Object("organization", f"{names_.organization}: {galaxy}", params)


def _environment(wanted: Wanted) -> t.Iterator[Object]:
    if wanted.text("image"):
        params = {"name": wanted.environment, **wanted.names.named, "image": wanted.text("image"), "pull": "missing"}
        yield Object("execution_environment", wanted.environment, params)


def _secrets(wanted: Wanted) -> t.Iterator[Object]:
    """The type whose fields are variables that specs read, and the credential that has their values."""
    secrets: dict[str, str] = dict(wanted.get("secrets") or {})
    if not secrets:
        return
    name = wanted.names.of("secrets")
    fields = [
        {"id": variable, "type": "string", "label": label or variable, "secret": True}
        for variable, label in secrets.items()
    ]
    extra = {variable: f"{{{{ {variable} }}}}" for variable in secrets}
    params = {
        "name": name,
        "description": "Variables that the specs of inferops.pd read",
        "kind": "cloud",
        "inputs": {"fields": fields},
        "injectors": {"extra_vars": extra},
    }
    yield Object("credential_type", name, params)
    credential = {"name": name, **wanted.names.named, "credential_type": name, "inputs": {}}
    yield Object("credential", name, credential, secrets={variable: variable for variable in secrets})


def _project(wanted: Wanted) -> Object:
    name = wanted.names.of("project")
    params = {
        "name": name,
        **wanted.names.named,
        "scm_type": "git",
        "scm_url": wanted.text("scm_url"),
        "scm_branch": wanted.text("scm_branch"),
        **_given(credential=wanted.text("scm_credential"), default_environment=wanted.environment),
        # What is in git counts, also for a job that begins a minute after a push.
        "scm_update_on_launch": True,
        "scm_update_cache_timeout": 60,
        "wait": True,
    }
    playbooks = sorted({str(one["playbook"]) for one in wanted.templates.values()})
    return Object("project", name, params, playbooks=tuple(playbooks))


def _inventory(wanted: Wanted) -> t.Iterator[Object]:
    name = wanted.names.of("inventory")
    yield Object("inventory", name, {"name": name, **wanted.names.named})
    params = {
        "name": name,
        "inventory": name,
        **wanted.names.named,
        "source": "scm",
        "source_project": wanted.names.of("project"),
        "source_path": wanted.text("inventory_path"),
        **_given(execution_environment=wanted.environment),
        # What somebody edits in AWX lasts until the next update: git is the truth.
        "overwrite": True,
        "overwrite_vars": True,
        "update_on_launch": True,
        "update_cache_timeout": 60,
    }
    yield Object("inventory_source", name, params)


# -- what is launched ------------------------------------------------------------------------------------------------------------


def _template(wanted: Wanted, name: str, one: Plain) -> Object:
    own = wanted.names
    asked = survey(one["survey"], wanted.own["questions"], wanted.choices, f"awx_templates.{name}.survey")
    credentials = [*(wanted.get("credentials") or ()), *([own.of("secrets")] if wanted.get("secrets") else [])]
    params = {
        "name": own.of(name),
        **own.named,
        "project": own.of("project"),
        "inventory": own.of("inventory"),
        "credentials": credentials,
        **_given(execution_environment=wanted.environment, instance_groups=wanted.get("instance_groups")),
        **_survey(asked),
        **{key: value for key, value in one.items() if key not in _OURS},
    }
    return Object("job_template", own.of(name), params)


def _has_workflow(wanted: Wanted) -> bool:
    """One that needs a template which the user has left out is left out as well."""
    needed = {node["template"] for node in wanted.own["workflow"]["nodes"] if "template" in node}
    return bool(wanted.get("workflow")) and needed <= set(wanted.templates)


def _left_out(wanted: Wanted) -> t.Iterator[Object]:
    """What the user does not want, each before what it needs: an earlier run may have made it."""
    own = wanted.names
    for name, one in (wanted.get("schedules") or {}).items():
        if one is False:
            template = (wanted.own["schedules"].get(name) or {}).get("template")
            params = {"name": own.of(name), **own.named, **_given(unified_job_template=template and own.of(template))}
            yield Object("schedule", own.of(name), params, gone=True)
    if not _has_workflow(wanted):
        name = own.of(wanted.own["workflow"]["name"])
        yield Object("workflow_job_template", name, {"name": name, **own.named}, gone=True)
    for name, one in (wanted.get("templates") or {}).items():
        if one is False:
            yield Object("job_template", own.of(name), {"name": own.of(name), **own.named}, gone=True)
    secrets, galaxy = own.of("secrets"), own.of("galaxy")
    if not wanted.get("secrets"):
        yield Object("credential", secrets, {"name": secrets, **own.named, "credential_type": secrets}, gone=True)
        yield Object("credential_type", secrets, {"name": secrets}, gone=True)
    if not wanted.text("galaxy_url"):
        yield Object("credential", galaxy, {"name": galaxy, **own.named, "credential_type": _GALAXY_TYPE}, gone=True)
    if not wanted.text("image"):
        name = own.of("environment")
        yield Object("execution_environment", name, {"name": name}, gone=True)


def _workflow(wanted: Wanted) -> t.Iterator[Object]:
    one, own = wanted.own["workflow"], wanted.names
    if not _has_workflow(wanted):
        return
    nodes = [dict(node) for node in one["nodes"]]
    asked = survey(one["survey"], wanted.own["questions"], wanted.choices, "the survey of the workflow")
    params = {
        "name": own.of(one["name"]),
        **own.named,
        "description": one["description"],
        "allow_simultaneous": False,
        "ask_inventory_on_launch": False,
        "ask_limit_on_launch": False,
        "ask_variables_on_launch": False,
        **_survey(asked),
        "workflow_nodes": [_node(wanted, node) for node in nodes],
    }
    yield Object("workflow_job_template", own.of(one["name"]), params)


def _node(wanted: Wanted, node: Plain) -> dict[str, t.Any]:
    if "approval" in node:
        job: dict[str, t.Any] = {
            "name": node["approval"],
            "type": "workflow_approval",
            "description": node.get("description", ""),
            "timeout": int(wanted.get("approval_timeout") or 0),
        }
    else:
        organization = {"name": wanted.names.organization}
        job = {"name": wanted.names.of(node["template"]), "type": "job_template", "organization": organization}
    after = {
        f"{when}_nodes": [{"identifier": name} for name in node.get(when, ())]
        for when in ("success", "failure", "always")
    }
    related = {key: found for key, found in after.items() if found}
    made: dict[str, t.Any] = {"identifier": node["identifier"], "unified_job_template": job}
    return {**made, **_given(extra_data=node.get("extra_data"), related=related)}


def _schedule(wanted: Wanted, name: str, one: Plain) -> Object:
    own = wanted.names
    rest = {key: value for key, value in one.items() if key != "template"}
    params = {
        "name": own.of(name),
        **own.named,
        "unified_job_template": own.of(one["template"]),
        "enabled": True,
        **rest,
    }
    return Object("schedule", own.of(name), params)


# -- who may launch it -----------------------------------------------------------------------------------------------------------


def _access(wanted: Wanted) -> t.Iterator[Object]:
    """For each that the user has named: what they may launch, and that they may not launch the rest of ours, whatever they were granted."""
    templates, actors = wanted.templates, _actors(wanted)
    workflow = [one.label for one in _workflow(wanted)]
    for (kind, actor), roles in actors.items():
        may = {level for role in roles for level in _MAY.get(role, ())}
        allowed = [wanted.names.of(name) for name, one in templates.items() if one["who"] in may]
        others = [wanted.names.of(name) for name, one in templates.items() if one["who"] not in may]
        changes, approves = CHANGERS in roles, "approvers" in roles
        common = {kind: [actor], "lookup_organization": wanted.names.organization}
        plan = [wanted.names.of("plan")] if approves and "plan" in templates else []
        for role, kind_of, things, granted in (
            ("execute", "job_templates", allowed, True),
            ("execute", "job_templates", others, False),
            ("execute", "workflows", workflow, changes),
            ("approval", "workflows", workflow, approves),
            # Who approves a plan must see it.
            ("read", "job_templates", plan, True),
        ):
            if things:
                told = f"{actor} may {'' if granted else 'not '}{_VERBS[role]}: {names(things)}"
                state = "present" if granted else "absent"
                yield Object("role", told, {"role": role, kind_of: things, **common, "state": state})


def _actors(wanted: Wanted) -> dict[tuple[str, str], set[str]]:
    """The roles of each team and user: (teams or users, name) to operators, changers, approvers."""
    found: dict[tuple[str, str], set[str]] = {}
    for role in (OPERATORS, CHANGERS, "approvers"):
        for kind, actors in (wanted.get(role) or {}).items():
            if kind not in ("teams", "users"):
                raise PdError(f"awx_{role}.{kind}: there are teams and users.")
            for actor in actors or ():
                found.setdefault((kind, str(actor)), set()).add(role)
    return found


def _survey(asked: Plain) -> dict[str, t.Any]:
    """A survey without a question is none: AWX refuses it."""
    return {"survey_enabled": True, "survey_spec": asked} if asked["spec"] else {"survey_enabled": False}


def _given(**values: t.Any) -> dict[str, t.Any]:
    return {name: value for name, value in values.items() if value}
