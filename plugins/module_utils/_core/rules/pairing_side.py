# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One role as pairing sees it: its arguments and environment in its engine's reading, its version, its connector and its model."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.arguments import Arguments, normal, read_json_object
from ..model import model_config
from ..model.model_config import ModelConfig
from ..recipes.engine import Engine, Sizes, Speculation
from ..recipes.mode import Mode
from ..runtimes.table import traits_of
from ..spec.known import Known
from ..spec.spec import ENGINE_ROLES, Group, Role
from ..template.template import GroupTemplate

# What stands for the value of a secret.
SECRET = "(a secret)"


@dataclass(frozen=True)
class Side:
    """`config` is None when nobody has read the model's config.json, or the role's overrides of it cannot be read."""

    role: str
    spec: Role
    arguments: Arguments
    engine: Engine
    env: t.Mapping[str, str]
    sizes: Sizes
    version: str | None
    config: ModelConfig | None
    overrides: t.Mapping[str, t.Any] | None
    connector: t.Mapping[str, t.Any] | None
    speculation: Speculation | None
    cache: bool

    def value(self, option: str) -> str | None:
        """The option's winning value, trimmed; None when it is not written."""
        value = self.arguments.value(self.engine.names(option))
        return value.strip() if value is not None else None

    def normal(self, option: str) -> str | None:
        """The value with synonyms made one (half = float16, NHD = LBNHC) and case ignored."""
        value = self.value(option)
        return None if value is None else self.normal_of(option, value)

    def normal_of(self, option: str, value: str) -> str:
        synonyms = {k.lower(): v.lower() for k, v in self.engine.synonyms.get(option, {}).items()}
        return synonyms.get(value.lower(), value.lower())

    def settled(self, option: str) -> str | None:
        """The value in force: as written, or what the model's config.json makes of silence and auto; None when it cannot be told."""
        value = self.normal(option)
        if value not in (None, "auto"):
            return value
        return self.engine.settle(self.config, option, self.normal("dtype")) if self.config else None

    def told(self, option: str) -> str:
        return self.value(option) or "does not write it"

    def flag(self, option: str) -> str:
        return f"--{self.engine.names(option)[0]}"

    def toggle(self, name: str) -> bool | None:
        """On or off as written, the last one wins; None when it is not written, or the engine has no such flags."""
        if name not in self.engine.toggles:
            return None
        on, off, _default = self.engine.toggles[name]
        return self.arguments.toggle(on, off)

    def variable(self, name: str) -> str | None:
        """A variable's value; SECRET for one that nobody may compare."""
        return SECRET if name in self.spec.secrets else self.env.get(name)


def sides_of(group: Group, template: GroupTemplate, known: Known) -> tuple[Side, Side]:
    prefill, decode = (_side(group, template, known, role) for role in ENGINE_ROLES)
    return prefill, decode


def _side(group: Group, template: GroupTemplate, known: Known, name: str) -> Side:
    role, rendered, engine = group.roles[name], template.roles[name], template.engines[name]
    arguments = Arguments(rendered.argv)
    overrides = _overrides(arguments, engine)
    config = known.config_of(group)
    version = role.version
    if version is None and traits_of(group.runtime).program == "host":
        version = known.engine_version(role, rendered.executable)
    connector = arguments.value(engine.spellings["kv_connector"]) if "kv_connector" in engine.spellings else None
    return Side(
        role=name,
        spec=role,
        arguments=arguments,
        engine=engine,
        env=rendered.env,
        sizes=rendered.sizes,
        version=version,
        config=model_config.read(config, overrides) if overrides is not None else None,
        overrides=overrides,
        connector=read_json_object(connector) if connector else None,
        speculation=engine.speculation(arguments),
        cache=bool(rendered.cache and not rendered.cache.stands_down),
    )


def _overrides(arguments: Arguments, engine: Engine) -> dict[str, t.Any] | None:
    """What a role lays over the model's config.json: {} for nothing, None when it cannot be read."""
    names = engine.spellings.get("hf_overrides")
    if not names:
        return {}
    if any(o.name.startswith(normal(n) + ".") for n in names for o in arguments.options):
        return None
    value = arguments.value(names)
    if value is None:
        return {}
    return read_json_object(value)


def connector_child(connector: t.Mapping[str, t.Any] | None, names: t.Collection[str]) -> str | None:
    """The name of the connector that moves the cache between the roles: the connector's own, or that of the first of a
    MultiConnector's children that is one of `names`."""
    if connector is None:
        return None
    own = str(connector.get("kv_connector"))
    return next((str(c.get("kv_connector")) for c in children_of(connector) if c.get("kv_connector") in names), own)


def children_of(connector: t.Mapping[str, t.Any] | None) -> list[t.Mapping[str, t.Any]]:
    """The connectors that a composed one is made of; none when it is a plain one."""
    extra = connector.get("kv_connector_extra_config") if connector else None
    children = extra.get("connectors") if isinstance(extra, t.Mapping) else None
    return [c for c in children if isinstance(c, t.Mapping)] if isinstance(children, (list, tuple)) else []


def in_family(connector: t.Mapping[str, t.Any] | None, mode: Mode) -> bool:
    """Whether a connector is known to shake hands as the mode's does: the mode's, alone or composed with caches that the mode knows."""
    names = mode.connector.names if mode.connector else ()
    caches = {
        (recipe.connector or {}).get("kv_connector")
        for provider in mode.kv_cache_providers.values()
        for recipe in provider.roles.values()
    }
    first, *others = children_of(connector) or [connector or {}]
    plain = not any(c.get("kv_connector_module_path") for c in (connector or {}, first))
    return bool(plain and first.get("kv_connector") in names and all(c.get("kv_connector") in caches for c in others))
