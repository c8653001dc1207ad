# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache service as far as its spec goes, with what only a host can tell left in (plan/cache_member.py fills it in)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base import placeholders
from ..base.arguments import Option, tokens
from ..base.errors import PdError
from ..base.finding import Findings
from ..recipes.cache_recipe import CacheRecipe
from ..spec.cache_service import ROLE, CacheService
from .owned_flags import Told, without_owned
from .role import RoleTemplate, check_placeholders, environment, mounted, partial, revision_of


@dataclass(frozen=True)
class CacheTemplate:
    """What all instances of a service have in common. `role` and `binds` still hold what a host fills in."""

    service: CacheService
    recipe: CacheRecipe
    role: RoleTemplate
    listening: frozenset[str]
    binds: t.Mapping[str, str]
    revision: str = ""

    @property
    def bands(self) -> tuple[tuple[str, int], ...]:
        return self.role.bands

    def masked(self) -> dict[str, t.Any]:
        """What the revision covers, in the shape that a difference is told from."""
        roles = {ROLE: {**self.role.rendered(), "bind": dict(self.binds)}}
        restart = dict(self.recipe.restart)
        return {"mode": self.recipe.name, "runtime": self.service.runtime, "restart": restart, "roles": roles}


def render(service: CacheService, recipe: CacheRecipe, findings: Findings) -> CacheTemplate | None:
    """The template of a service that is to be deployed; None when its arguments cannot be read."""
    where = f"pd_caches.{service.name}"
    try:
        args = tokens(service.args, f"{where}.args")
    except PdError as exc:
        findings.error("unreadable-arguments", str(exc), "", [])
        return None
    values = _values(service, recipe)
    # A command of the user's own runs as written, with nothing added but the user's arguments.
    derived = _own_arguments(service, recipe) if service.command is None else []
    told = Told(f"{where}.args", "the plan gives each instance its own", lambda _flag: INSTEAD)
    kept, pasted = without_owned(args, derived, told, findings, lambda option: _given_by_plan(option, recipe))
    command = service.command if service.command is not None else recipe.command
    bands = [b for b in recipe.bands if not b.when or service.options.get(b.when)]
    binds = {name: str(service.options[name]) for name, o in recipe.options.items() if o.type == "bind"}
    role = RoleTemplate(
        role=ROLE,
        of=mounted(service, values),
        argv=tuple(partial(word, values) for word in (*command, *derived, *kept)),
        env=environment(lambda name: f"{where}.env.{name}", service, recipe.environment, values, findings),
        executable=service.executable or "",
        bands=tuple((b.name, b.width) for b in bands),
        host_ipc=recipe.host_ipc,
        pasted=tuple(pasted),
    )
    left = recipe.of_instance([b.name for b in bands])
    check_placeholders(
        role,
        lambda key, name: f"{where}.env.{name}" if key == "env" else f"{where}.{key}",
        lambda text, place: recipe.check(text, place, left),
        findings,
    )
    listening = frozenset(b.name for b in bands if b.listen)
    template = CacheTemplate(service, recipe, role, listening, {"bind": service.bind, **binds})
    return replace(template, revision=revision_of(template.masked()))


INSTEAD = " The port is pd_caches.NAME.port, the address it listens on pd_caches.NAME.bind."


def _values(service: CacheService, recipe: CacheRecipe) -> dict[str, t.Any]:
    """What the spec decides. Addresses by a word are a host's to tell."""
    values: dict[str, t.Any] = {"service": service.name}
    if service.executable:
        values["executable"] = service.executable
    for name, value in service.options.items():
        if recipe.options[name].type != "bind":
            values[f"options.{name}"] = str(value).lower() if isinstance(value, bool) else value
    return values


def _own_arguments(service: CacheService, recipe: CacheRecipe) -> list[str]:
    """The recipe's arguments. One that needs an option without a value is left out."""
    found = []
    for argument in recipe.arguments:
        if argument.when and not service.options.get(argument.when):
            continue
        wanted = [n for n in placeholders.names(argument.text) if n.startswith("options.")]
        if all(name.partition(".")[2] in service.options for name in wanted):
            found.append(argument.text)
    return found


def _given_by_plan(option: Option, recipe: CacheRecipe) -> bool:
    """Addresses and ports are the plan's to give; the kind's other arguments are defaults."""
    binds = {f"options.{name}" for name, one in recipe.options.items() if one.type == "bind"}
    names = placeholders.names(option.value or "")
    return any(n in binds or n in ("port", "bind") or n.startswith("ports.") for n in names)
