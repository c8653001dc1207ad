# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role templates: what every member of a role has in common, rendered from the spec and the mode, with the placeholders that only a
host can fill left in. The revision is a digest of these; a member is one of them filled in (plan/member.py)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base import placeholders
from ..base.arguments import Arguments, normal, tokens
from ..base.errors import PdError
from ..base.finding import Findings
from ..recipes.engine import Engine, Sizes
from ..recipes.mode import Band, Membership, Mode, RouterRecipe
from ..runtimes.table import traits_of
from ..spec.known import NOTHING, Known
from ..spec.spec import ENGINE_ROLES, ROLES, Group, Role
from .connector import choose
from .connector_argument import connector_argument
from .kv_cache_template import cache_arguments, files_of, uses_of, without_hybrid
from .kv_cache_use import Use, added, block
from .owned_flags import Pasted, Told, without_owned
from .role import NO_SIZES, CompiledRole, RoleTemplate, check_placeholders, environment, mounted, partial, revision_of

# A template of a group is taken from here together with those of its roles.
__all__ = ("CompiledRole", "GroupTemplate", "RoleTemplate", "band_width", "lease_of", "render")


@dataclass(frozen=True)
class GroupTemplate:
    """All roles of a group, the router's policy, and the revision over both."""

    mode: Mode
    engines: t.Mapping[str, Engine]
    roles: t.Mapping[str, RoleTemplate]
    policy: str
    membership: Membership | None
    recipe: RouterRecipe | None
    runtime: str
    revision: str
    # What was chosen for all members and stays with the group: kept in its record (connector variant).
    choices: t.Mapping[str, t.Any] = field(default_factory=dict)

    def arguments(self, role: str, argv: t.Sequence[str]) -> Arguments:
        """A command line of a role in its engine's reading."""
        engine = self.engines.get(role)
        return engine.arguments(argv) if engine else Arguments(argv)

    @property
    def uses(self) -> dict[str, Use]:
        """The cache of each role that has one."""
        return {name: role.cache for name, role in self.roles.items() if role.cache}

    @property
    def cache_block(self) -> dict[str, t.Any] | None:
        """The plan's `kv_cache`."""
        return block(self.uses)

    def masked(self) -> dict[str, t.Any]:
        return {
            "mode": self.mode.name,
            "runtime": self.runtime,
            "restart": dict(self.mode.restart),
            "policy": self.policy,
            "roles": {name: role.masked() for name, role in self.roles.items()},
        }


def render(
    group: Group, mode: Mode, engines: t.Mapping[str, Engine], findings: Findings, known: Known = NOTHING
) -> GroupTemplate | None:
    """The templates of a group. Whatever the user wrote that cannot be rendered becomes a finding; None when a role cannot be at all.

    `engines` gives the engine of each engine role."""
    policy, membership = _membership(group, mode, findings)
    roles: dict[str, RoleTemplate] = {}
    try:
        argvs = {r.name: tokens(r.args, r.entries) for r in group.roles.values()}
    except PdError as exc:
        findings.error("unreadable-arguments", str(exc), "", [])
        return None
    read = {name: engines[name].arguments(argvs[name]) for name in ENGINE_ROLES}
    sizes = {name: engines[name].sizes(read[name], group.roles[name].gpus) for name in ENGINE_ROLES}
    choices = choose(mode, group, engines["prefill"], read["prefill"], known)
    values = {name: _role_values(group, mode, name, sizes, choices) for name in ROLES}
    gpus = {name: _gpus(group.roles[name], sizes[name]) for name in ENGINE_ROLES}
    uses, connectors = uses_of(group, mode, read, values, gpus, known, findings)
    off = without_hybrid(group, engines["prefill"], read["prefill"], uses, known, choices)
    for name in ENGINE_ROLES:
        argv, mine = argvs[name], connectors[name]
        part = _Part(group.roles[name], mode, engines[name], argv, sizes[name], values[name], mine, off)
        roles[name] = _engine_role(part, uses.get(name), findings)
        if roles[name].service:
            # Everything that is to be said of it has been said.
            roles[name] = replace(roles[name], without_cache=_engine_role(part, None, Findings()))
    roles["router"] = _router_role(group, mode, membership, argvs["router"], values["router"], findings)
    _check_placeholders(group, roles, findings)
    template = GroupTemplate(mode, engines, roles, policy, membership, mode.router, group.runtime, "", choices)
    return replace(template, revision=revision_of(template.masked()))


def lease_of(group: Group, mode: Mode) -> t.Any:
    return group.kv_lease if group.kv_lease is not None else mode.kv_lease.get("default")


def _membership(group: Group, mode: Mode, findings: Findings) -> tuple[str, Membership | None]:
    """The policy that the router follows: manual for an own command or a mode without a router, else the role's, else the mode's."""
    router, recipe = group.roles["router"], mode.router
    if recipe is None or router.command is not None:
        return "manual", recipe.memberships.get("manual") if recipe else None
    policy = router.membership or recipe.default_membership
    if policy not in recipe.memberships:
        findings.error(
            "membership-not-offered",
            f"roles.router.membership: mode {mode.name} has no policy {policy!r}.",
            f"Write one of {', '.join(recipe.memberships)}, or leave it out for {recipe.default_membership!r}.",
            ["router"],
        )
        policy = recipe.default_membership
    return policy, recipe.memberships[policy]


def _check_command(role: str, command: tuple[str, ...] | None, findings: Findings) -> None:
    if not command:
        findings.error(
            "command-missing",
            f"roles.{role}.command: this mode brings no command, and none is written.",
            "Write engine.command (or the role's own); ${role}, ${port} and ${peers.prefill} tell it its part.",
            [role],
        )


def _role_values(
    group: Group, mode: Mode, name: str, sizes: t.Mapping[str, Sizes], choices: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    role = group.roles[name]
    recipe_executable = mode.router.executable if name == "router" and mode.router else mode.executable
    values: dict[str, t.Any] = {
        "group": group.name,
        "role": name,
        "model": group.model,
        "served_model_name": group.served_model_name,
        "executable": role.executable
        or recipe_executable
        or (group.engine_executable if not mode.router else "")
        or "",
        "kv_load_failure_policy": group.kv_load_failure_policy,
        "kv_lease": lease_of(group, mode),
        "files": traits_of(group.runtime).files,
    }
    for peer, size in sizes.items():
        for key, number in (("tensor", size.tensor), ("data", size.data), ("pipeline", size.pipeline)):
            values[f"roles.{peer}.{key}_parallel_size"] = number
            if peer == name:
                values[f"{key}_parallel_size"] = number
        if peer == name:
            values["gpus"] = _gpus(group.roles[peer], size)
    if name in ENGINE_ROLES and choices.get("connector"):
        values["connector_variant"] = choices["connector"]["connector"]
    return values


def _gpus(role: Role, sizes: Sizes) -> int:
    """GPUs of one replica: as written (0 is a CPU engine), else what the parallel sizes need, else 1."""
    return role.gpus if role.gpus is not None else sizes.gpus


@dataclass(frozen=True)
class _Part:
    """What an engine role is rendered from, beside its cache. `connectors` are what may be derived for its connector, with a cache and
    without; `without_hybrid` says that the engine's hybrid KV cache manager is off."""

    role: Role
    mode: Mode
    engine: Engine
    argv: list[str]
    sizes: Sizes
    values: dict[str, t.Any]
    connectors: tuple[str, ...]
    without_hybrid: bool


def _engine_role(part: _Part, use: Use | None, findings: Findings) -> RoleTemplate:
    role, mode, values, sizes = part.role, part.mode, part.values, part.sizes
    gpus = _gpus(role, sizes)
    more = added(use, values, gpus)
    derived = [partial(a, values) for a in (*mode.arguments, *mode.role_arguments.get(role.name, ()))]
    read = part.engine.arguments
    kept, pasted = _without_derived(part.argv, derived, role, "the recipe sets it for every member", findings, read)
    kept, connector, again = connector_argument(
        read(kept), mode, role, values, more.connector, part.connectors, findings
    )
    pasted += again
    beside = cache_arguments(role, part.engine, kept, more, part.without_hybrid, findings)
    head = [partial(a, values) for a in (role.command or mode.command)]
    _check_command(role.name, tuple(head), findings)
    width = (
        [] if sizes.written or (mode.connector is None and not mode.arguments) else part.engine.width_arguments(gpus)
    )
    kept = [partial(a, values) for a in kept]
    return RoleTemplate(
        role=role.name,
        of=mounted(role, values),
        argv=(*head, *connector, *width, *beside, *kept, *derived),
        env=_environment(role, {**more.environment, **mode.environment_of(role.name)}, values, findings),
        executable=values["executable"],
        files=files_of(role, mode, values, more, findings),
        gpus=gpus,
        sizes=sizes,
        bands=tuple((band.name, band_width(band, sizes, gpus)) for band in mode.bands_of(role.name)),
        pasted=tuple(pasted),
        cache=use,
        host_ipc=bool(use and use.provider.host_ipc and not use.stands_down),
    )


def _router_role(
    group: Group,
    mode: Mode,
    membership: Membership | None,
    argv: list[str],
    values: dict[str, t.Any],
    findings: Findings,
) -> RoleTemplate:
    role, recipe = group.roles["router"], mode.router
    bands = tuple((band.name, band_width(band, NO_SIZES, 0)) for band in mode.bands_of("router"))
    made = RoleTemplate(
        role="router",
        of=mounted(role, values),
        argv=(),
        env=_environment(role, recipe.environment if recipe else {}, values, findings),
        executable=values["executable"],
        bands=bands,
    )
    if recipe is None or membership is None or role.command is not None:
        # The user's own router runs exactly as written; without a recipe, by the engines' command unless it has one.
        own = role.command if role.command is not None or recipe else group.engine_command
        _check_command("router", own, findings)
        return replace(made, argv=tuple(partial(a, values) for a in (*(own or ()), *argv)))
    if role.port is not None:
        values = {**values, "port": role.port}
        made = replace(made, of=mounted(role, values), env=_environment(role, recipe.environment, values, findings))
    derived = [partial(a, values) for a in (*recipe.arguments, *membership.arguments)]
    kept, pasted = _without_derived(argv, derived, role, "the recipe connects the router with it", findings)
    kept = _without_peer_flags(kept, recipe, membership, findings)
    tunables = _tunables(kept, (*membership.tunables, *recipe.tunables))
    head = [partial(a, values) for a in recipe.command]
    return replace(
        made,
        of=replace(made.of, image=role.image if "image" in role.own else recipe.image or role.image),
        argv=(*head, *derived, *tunables, *(partial(a, values) for a in kept)),
        pasted=tuple(pasted),
    )


def band_width(band: Band, sizes: Sizes, gpus: int) -> int:
    """How many ports a band takes on a member with these sizes."""
    if isinstance(band.width, int):
        return band.width
    return {
        "data_parallel_size": sizes.data,
        "tensor_parallel_size": sizes.tensor,
        "world_size": sizes.world,
        "gpus": gpus,
    }[band.width]


def _environment(
    role: Role, recipe: t.Mapping[str, str], values: dict[str, t.Any], findings: Findings
) -> dict[str, str]:
    return environment(role.env_place, role, recipe, values, findings, [role.name])


def _without_derived(
    argv: list[str],
    derived: list[str],
    role: Role,
    why: str,
    findings: Findings,
    read: t.Callable[[t.Sequence[str]], Arguments] = Arguments,
) -> tuple[list[str], Pasted]:
    """The user's argv without what is derived: all of it is owned."""
    told = Told(role.args_place, why, lambda flag: _instead(role.name, flag), [role.name])
    return without_owned(argv, derived, told, findings, read=read)


def _instead(role: str, flag: str) -> str:
    """The key of the spec that sets what the flag would."""
    if role == "router" and flag == "port":
        return " The router's port is roles.router.port."
    return " The name for clients is the group's served_model_name." if flag == "served-model-name" else ""


def _without_peer_flags(argv: list[str], recipe: RouterRecipe, membership: Membership, findings: Findings) -> list[str]:
    """Peer flags append, so one more would be a member that does not exist: refused in whichever policy."""
    flags = {
        normal(words[0]) for m in (membership, *recipe.memberships.values()) for words in m.peers.values() if words
    }
    found = [o for o in Arguments(argv).options if o.name in flags]
    for option in found:
        tunables = ", ".join(tunable.flag for tunable in (*membership.tunables, *recipe.tunables))
        findings.error(
            "owned-flag",
            f"roles.router.args: {option.text} is not yours to set: the router's peers are the group's members.",
            f"Remove it. What you may tune: {tunables}.",
            ["router"],
        )
    taken = {i for o in found for i in range(o.start, o.stop)}
    return [token for i, token in enumerate(argv) if i not in taken]


def _tunables(argv: list[str], tunables: t.Iterable[t.Any]) -> list[str]:
    """The recipe's defaults for flags that the user does not write."""
    written = Arguments(argv)
    return [f"{tunable.flag}={tunable.default}" for tunable in tunables if not written.has(tunable.flag)]


def _check_placeholders(group: Group, roles: t.Mapping[str, RoleTemplate], findings: Findings) -> None:
    for name, role in roles.items():
        written = group.roles[name]
        bands, more = [band for band, _width in role.bands], placeholders.OF_CACHE if role.service else ()

        def check(text: str, place: str, bands: t.Sequence[str] = bands, more: t.Sequence[str] = more) -> None:
            placeholders.check(text, bands, place, ("member",), more)

        def place(key: str, text: str, written: Role = written) -> str:
            return {"args": written.text_place, "env": written.env_place}.get(
                key, f"roles.{written.name}.{key}".format
            )(text)

        check_placeholders(role, place, check, findings, [name])
