# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The templates of a group as its record keeps them, and the way back: from what is kept members are rendered as they were, whatever the
spec and the recipe say by now.

All that a member *is* comes from the record. How it is probed, stopped and registered is the structure of the mode as it is today; where
that cannot carry what is kept, there is a reason and no template."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.finding import Findings
from ..base.plain import Plain
from ..facts.applied import Applied, AppliedRole, Rendered
from ..facts.stands import name_of
from ..recipes.catalogue import Catalogue
from ..recipes.engine import Engine, Sizes
from ..recipes.mode import Membership, Mode
from ..recipes.provider import provider_of
from ..runtimes import table
from ..runtimes.table import traits_of
from ..spec import spec
from ..spec.cache_service import CacheService
from ..spec.row import restored
from ..spec.spec import ENGINE_ROLES, ROLES, Group, Role
from .kv_cache_use import Use
from .role import NO_SIZES, RoleTemplate
from .template import GroupTemplate

# The name of a secret stands in a spec with a value, which nothing that reads a spec back looks at.
_SOME = "kept elsewhere"


# -- kept ------------------------------------------------------------------------------------------------------------------------------


def kept_of(group: Group, template: GroupTemplate) -> dict[str, t.Any]:
    """What the record keeps of a template beside `masked()`."""
    return {
        "engines": {role: engine.backend for role, engine in sorted(template.engines.items())},
        "dialect": template.recipe.dialect if template.recipe else None,
        "peers": {
            role: list(words) for role, words in (template.membership.peers if template.membership else {}).items()
        },
        "roles": {name: _role_kept(group, role) for name, role in template.roles.items()},
    }


def source_of(group: Group, role: str, executable: str, image: str | None) -> dict[str, str]:
    """Where what a member is comes from: with it, whoever looks at the host can tell that it has changed there since."""
    model = group.on_host(role, group.model) if role != "router" else None
    given = {"model": model, "executable": executable, "image": image}
    if traits_of(group.runtime).program == "image":
        given["executable"] = None
    return {key: value for key, value in given.items() if value}


def _role_kept(group: Group, role: RoleTemplate) -> dict[str, t.Any]:
    kept: dict[str, t.Any] = {
        "executable": role.executable,
        "pull": role.pull,
        "sizes": {name: int(value) for name, value in role.sizes._asdict().items()},
        "bands": [{"name": name, "width": width} for name, width in role.bands],
        "source": source_of(group, role.role, role.executable, role.image),
    }
    if role.cache:
        kept["cache"] = _cache_kept(role.cache)
    bare = role.without_cache
    if bare:
        kept["bare"] = {"argv": list(bare.argv), "env": dict(bare.env), "files": [dict(file) for file in bare.files]}
    return kept


_CLIENT = ("name", "provider", "address", "scope", "clients", "given_host", "given_port")


def _cache_kept(use: Use) -> dict[str, t.Any]:
    kept = {
        "provider": use.provider.name,
        "service": use.service_name,
        "options": dict(use.options),
        "why": use.why,
        "stands_down": use.stands_down,
    }
    if use.service is not None:
        client = {key: getattr(use.service, key) for key in _CLIENT}
        kept["client"] = {**client, "options": dict(use.service.options)}
    return kept


# -- and back --------------------------------------------------------------------------------------------------------------------------


def group_of(name: str, kept: Applied, now: Group | None) -> Group | None:
    """The spec that a formation was made of, as far as members are made of it. What is no part of a member (hosts, counts, limits, how the
    endpoint is told) is as the spec has it `now`, where there is one. None when it cannot be read."""
    written = {**kept.spec, "roles": {n: _with_secrets(role) for n, role in (kept.spec.get("roles") or {}).items()}}
    group = spec.parse(name_of(name), written, Findings())
    group = replace(group, stands_as=name) if group is not None else None
    if group is None or set(kept.rendered) != set(ROLES):
        return None
    if now is None:
        return group
    placed = {
        n: replace(role, hosts=now.roles[n].hosts, replicas=now.roles[n].replicas) for n, role in group.roles.items()
    }
    return replace(
        group,
        roles=placed,
        readiness=now.readiness,
        endpoint=now.endpoint,
        limits=now.limits,
        labels=now.labels,
    )


def _with_secrets(role: t.Any) -> t.Any:
    if not isinstance(role, t.Mapping):
        return role
    return {**role, "secrets": dict.fromkeys(role.get("secrets") or (), _SOME)}


def template_of(kept: Applied, group: Group, today: Catalogue) -> tuple[GroupTemplate | None, str]:
    """(the templates of a formation that is kept, why today's mode cannot carry them). One of the two is empty."""
    mode = today.modes.get(kept.mode)
    if mode is None:
        return None, f"mode {kept.mode} is not there any more"
    engines = {role: engine for role in ENGINE_ROLES if (engine := today.engine(kept.engines.get(role))) is not None}
    uses = {role: _use(role, one, mode) for role, one in kept.roles.items()}
    why = _why_not(kept, mode, engines) or next((use for use in uses.values() if isinstance(use, str)), "")
    if why:
        return None, why
    roles = {
        name: _role(group.roles[name], kept.rendered[name], kept.roles[name], t.cast("Use | None", uses[name]))
        for name in ROLES
    }
    return (
        GroupTemplate(
            mode=replace(mode, restart=dict(kept.restart)),
            engines=engines,
            roles=roles,
            policy=kept.policy,
            membership=_membership(kept, mode),
            recipe=mode.router,
            runtime=kept.runtime,
            revision=kept.revision,
            choices=dict(kept.choices),
        ),
        "",
    )


def _why_not(kept: Applied, mode: Mode, engines: t.Mapping[str, Engine]) -> str:
    """Why a mode, as it is today, cannot carry what is kept; empty when it can."""
    if kept.runtime not in table.NAMES:
        return f"there is no runtime {kept.runtime}"
    for role in ENGINE_ROLES:
        if role not in engines:
            return f"nothing is known of its engine ({kept.engines.get(role) or 'none is named'})"
    for role, one in kept.roles.items():
        had, has = [name for name, _width in one.bands], [band.name for band in mode.bands_of(role)]
        if set(had) != set(has):
            told = f"{', '.join(has) or 'none'} instead of {', '.join(had) or 'none'}"
            return f"mode {mode.name} gives {role} other bands of ports by now: {told}"
    dialect = mode.router.dialect if mode.router else None
    if dialect != kept.dialect:
        return f"mode {mode.name} asks its router in dialect {dialect} by now, and this one speaks {kept.dialect}"
    if mode.router and kept.policy != "manual" and kept.policy not in mode.router.memberships:
        return f"mode {mode.name} has no membership {kept.policy} any more"
    return ""


def _membership(kept: Applied, mode: Mode) -> Membership | None:
    now = mode.router.memberships.get(kept.policy) if mode.router else None
    return replace(now, peers=dict(kept.peers)) if now else None


def _role(of: Role, rendered: Rendered, kept: AppliedRole, use: Use | None) -> RoleTemplate:
    written = {**restored(Role, rendered.plain), "pull": kept.pull}
    made = RoleTemplate(
        role=of.name,
        of=replace(of, **written),
        argv=rendered.argv,
        env=dict(rendered.env),
        executable=kept.executable,
        files=rendered.files,
        gpus=rendered.gpus,
        sizes=_sizes(kept.sizes),
        bands=kept.bands,
        cache=use,
        host_ipc=rendered.ipc,
    )
    bare = kept.bare
    if bare is None:
        return made
    without = replace(made, argv=bare.argv, env=dict(bare.env), files=bare.files, cache=None, host_ipc=False)
    return replace(made, without_cache=without)


def _sizes(kept: t.Mapping[str, int]) -> Sizes:
    known = {name: value for name, value in kept.items() if name in Sizes._fields and name != "written"}
    return Sizes(**{**NO_SIZES._asdict(), **known, "written": bool(kept.get("written"))})


def _use(role: str, kept: AppliedRole, mode: Mode) -> Use | str | None:
    """The cache of a role, or why the mode has it no more."""
    cache = kept.cache
    if cache is None:
        return None
    name = str(cache["provider"])
    provider = provider_of(mode.kv_cache_providers, name)
    if provider is None or provider.roles[role].refused:
        return f"mode {mode.name} does not give {role} the cache {name} any more"
    options: Plain = cache.get("options") or {}
    lacks = sorted(set(options) - set(provider.options))
    if lacks:
        return f"the cache {name} of mode {mode.name} has no option {lacks[0]} any more"
    return Use(
        role=role,
        place="kv_cache",
        provider=provider,
        recipe=provider.roles[role],
        options=dict(options),
        service=_client(cache.get("client") or {}),
        service_name=cache.get("service"),
        why=str(cache.get("why") or ""),
        stands_down=str(cache.get("stands_down") or ""),
    )


def _client(kept: Plain) -> CacheService | None:
    if not kept:
        return None
    known = {key: kept[key] for key in _CLIENT if key in kept}
    return CacheService(**known, options=dict(kept.get("options") or {}))
