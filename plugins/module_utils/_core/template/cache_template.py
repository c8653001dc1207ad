# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache service as far as its spec goes, with what only a host can tell left in (plan/cache_member.py fills it in)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base import placeholders
from ..base.arguments import Arguments, tokens
from ..base.errors import PdError
from ..base.finding import Findings
from ..recipes.cache_recipe import CacheRecipe
from ..spec.cache_service import ROLE, CacheService
from .template import revision_of


@dataclass(frozen=True)
class CacheTemplate:
    """What all instances of a service have in common. `argv`, `env` and `probe` still hold what a host fills in."""

    service: CacheService
    recipe: CacheRecipe
    argv: tuple[str, ...]
    env: t.Mapping[str, str]
    bands: tuple[tuple[str, int], ...]
    listening: frozenset[str]
    binds: t.Mapping[str, str]
    revision: str = ""

    def masked(self) -> dict[str, t.Any]:
        """What the revision covers, in the shape that a difference is told from."""
        service = self.service
        role = {
            "argv": list(self.argv),
            "env": dict(self.env),
            "image": service.image,
            "secrets": list(service.secrets),
            "mounts": list(service.mounts),
            "devices": list(service.devices),
            "resources": dict(service.resources),
            "port": service.port,
            "bind": dict(self.binds),
        }
        restart = dict(self.recipe.restart)
        return {"mode": self.recipe.name, "runtime": service.runtime, "restart": restart, "roles": {ROLE: role}}


def render(service: CacheService, recipe: CacheRecipe, findings: Findings) -> CacheTemplate | None:
    """The template of a service that is to be deployed; None when its arguments cannot be read."""
    where = f"pd_caches.{service.name}"
    try:
        args = tokens(service.args, f"{where}.args")
    except PdError as exc:
        findings.error("unreadable-arguments", str(exc), "", [])
        return None
    values = _values(service, recipe)
    own = _own_arguments(service, recipe)
    _check_owned(where, args, own, recipe, findings)
    command = service.command if service.command is not None else recipe.command
    env = {name: _partial(value, values) for name, value in recipe.environment.items()}
    env |= {name: _partial(value, values) for name, value in service.env.items()}
    for name in service.secrets:
        env.pop(name, None)
    # A command of the user's own runs as written, with nothing added but the user's arguments.
    words = [*command, *(own if service.command is None else ()), *args]
    bands = [b for b in recipe.bands if not b.when or service.options.get(b.when)]
    binds = {name: str(service.options[name]) for name, o in recipe.options.items() if o.type == "bind"}
    template = CacheTemplate(
        service,
        recipe,
        tuple(_partial(word, values) for word in words),
        env,
        tuple((b.name, b.width) for b in bands),
        frozenset(b.name for b in bands if b.listen),
        {"bind": service.bind, **binds},
    )
    _check_placeholders(where, template, findings)
    return replace(template, revision=revision_of(template.masked()))


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


def _check_owned(where: str, args: list[str], own: list[str], recipe: CacheRecipe, findings: Findings) -> None:
    """Addresses and ports are the plan's to give."""
    binds = {f"options.{name}" for name, option in recipe.options.items() if option.type == "bind"}
    owned = {}
    for option in Arguments(own).options:
        names = placeholders.names(option.value or "")
        if any(n in binds or n in ("port", "bind") or n.startswith("ports.") for n in names):
            owned[option.name] = option.text
    for option in Arguments(args).options:
        if option.name in owned:
            findings.error(
                "owned-flag",
                f"{where}.args: {option.text} is not yours to set: the plan gives each instance its own"
                f" ({owned[option.name]}).",
                "Remove the line. The port is pd_caches.NAME.port, the address it listens on pd_caches.NAME.bind.",
            )


def _check_placeholders(where: str, template: CacheTemplate, findings: Findings) -> None:
    mounts = [m for m in template.service.mounts if isinstance(m, str)]
    places = (("args", template.argv), ("env", tuple(template.env.values())), ("mounts", mounts))
    for place, texts in places:
        for text in texts:
            try:
                template.recipe.check(text, f"{where}.{place}")
            except PdError as exc:
                findings.error("unknown-placeholder", str(exc), "")


def _partial(text: str, values: t.Mapping[str, t.Any]) -> str:
    return placeholders.fill(text, values, partial=True)
