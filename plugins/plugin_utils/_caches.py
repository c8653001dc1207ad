# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache services on the controller: the kinds in pd_modes/caches/ and in a user's own folders, and the merged pd_caches."""

from __future__ import annotations

import os
import typing as t
from functools import lru_cache

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings
from ..module_utils._core.recipes.cache_recipe import CacheRecipe, from_plain
from ..module_utils._core.runtimes.table import traits_of
from ..module_utils._core.spec.cache_service import CacheService, parse, services_named
from ..module_utils._core.spec.workload import CACHE, Kind
from ._modes import BUILT_IN, check_name, check_schema, read_yaml

FOLDER = "caches"
SCHEMA = os.path.join(BUILT_IN, FOLDER, "schema.json")


class Inventory(t.Protocol):
    """What is asked of an action: what the inventory's variables say (_action.py)."""

    def modes_path(self) -> list[str]: ...

    def groups(self) -> t.Mapping[str, t.Any]: ...

    def entries(self, kind: Kind) -> t.Mapping[str, t.Any]: ...

    def users_by_service(self) -> dict[str, list[str]]: ...


def load_recipes(paths: t.Sequence[str] = ()) -> dict[str, CacheRecipe]:
    """All kinds by name: the built-in ones, then those in caches/ of each folder. Raises PdError for a bad file, or a name twice."""
    recipes: dict[str, CacheRecipe] = {}
    for base in (BUILT_IN, *paths):
        folder = os.path.join(os.path.abspath(os.path.expanduser(base)), FOLDER)
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for path in (os.path.join(folder, name) for name in names if name.endswith((".yml", ".yaml"))):
            recipe = _load(path, os.stat(path).st_mtime_ns)
            if recipe.name in recipes:
                raise PdError(
                    f"{path}: kind {recipe.name!r} is defined in {recipes[recipe.name].source} already. Give it another name."
                )
            recipes[recipe.name] = recipe
    return recipes


@lru_cache(maxsize=64)
def _load(path: str, _changed: int) -> CacheRecipe:
    raw = read_yaml(path, "a cache service's file")
    check_schema(raw, path, SCHEMA, "docs/cache-services.md")
    check_name(raw, path)
    return from_plain(raw, path)


def recipes_of(action: Inventory) -> dict[str, CacheRecipe]:
    """The kinds that the action's modes_path, or pd_modes_path, adds to the built-in ones."""
    return load_recipes(action.modes_path())


def services_of(action: Inventory) -> tuple[dict[str, CacheService], dict[str, Findings]]:
    """The services of the inventory, read, and what is said of each entry."""
    recipes, groups = recipes_of(action), action.groups()
    services: dict[str, CacheService] = {}
    said: dict[str, Findings] = {}
    for name, entry in action.entries(CACHE).items():
        said[str(name)] = Findings()
        services |= parse({name: entry}, recipes, said[str(name)], groups)
    return services, said


def deployed_for(action: Inventory, group: str) -> list[str]:
    """The services that a group of pd_groups names and that the collection deploys: they start before its members."""
    # Of its own entry alone: what only others need may not be there.
    entries = action.entries(CACHE)
    return sorted(name for name in services_named(action.groups().get(group)) if deployed(entries.get(name)))


def deployed(entry: t.Any) -> bool:
    """Whether an entry is of a service that the collection deploys."""
    return isinstance(entry, dict) and not entry.get("address")


def observe(service: CacheService) -> dict[str, t.Any]:
    """What module host_facts is to look at on the service's hosts: the arguments of that module."""
    return {
        "executables": [service.executable] if service.executable and service.command is None else [],
        "images": [service.image] if traits_of(service.runtime).images and service.image else [],
        "runtimes": [service.runtime],
    }
