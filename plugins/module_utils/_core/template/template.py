# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role templates: what every member of a role has in common, rendered from the spec and the mode, with the placeholders that only a
host can fill left in. The revision is a digest of these; a member is one of them filled in (plan/member.py)."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from dataclasses import dataclass, field, replace

from ..base import placeholders
from ..base.arguments import Arguments, normal, tokens
from ..base.errors import PdError
from ..base.finding import Findings
from ..base.placeholders import Template
from ..recipes.engine import Engine, Sizes
from ..recipes.mode import Band, Membership, Mode, RouterRecipe
from ..runtimes.table import traits_of
from ..spec.cache_service import CacheService
from ..spec.known import NOTHING, Known
from ..spec.spec import ENGINE_ROLES, ROLES, Group, Role
from .connector import choose
from .connector_argument import connector_argument
from .kv_cache_template import cache_arguments, files_of, uses_of, without_hybrid
from .kv_cache_use import Use, added, block
from .pasted import same


@dataclass(frozen=True)
class RoleTemplate:
    """One role, rendered as far as the spec goes. `argv` and `env` values still hold `${member...}`, `${port}` and `${ports...}`."""

    role: str
    argv: tuple[str, ...]
    env: t.Mapping[str, str]
    executable: str
    image: str | None
    secrets: tuple[str, ...]
    files: tuple[t.Mapping[str, t.Any], ...]
    mounts: tuple[t.Any, ...]
    devices: tuple[t.Any, ...]
    gpus: int
    sizes: Sizes
    bands: tuple[tuple[str, int], ...]
    resources: t.Mapping[str, t.Any] = field(default_factory=dict)
    # When a container's image is fetched; how a member comes to its image is no part of what it is.
    pull: str = "missing"
    # The KV cache beside the transfer: what the label of a member says of it, its service, and whether it needs the host's IPC namespace.
    cache: Use | None = None
    host_ipc: bool = False
    # The same role without its cache, for a member whose host has no instance of the service.
    without_cache: RoleTemplate | None = None
    # Owned lines that the user pasted back: (as written, the derived template); the plan checks them against what it renders.
    pasted: tuple[tuple[str, str], ...] = ()

    def masked(self) -> dict[str, t.Any]:
        """What the revision covers: everything but values that differ from host to host."""
        masked: dict[str, t.Any] = {
            "argv": list(self.argv),
            "env": dict(self.env),
            "image": self.image,
            "secrets": list(self.secrets),
            "files": [dict(f) for f in self.files],
            "mounts": list(self.mounts),
            "devices": list(self.devices),
            "gpus": self.gpus,
            "resources": dict(self.resources),
        }
        if self.cache:
            masked["cache"] = self.cache.to_plain()
        if self.host_ipc:
            masked["ipc"] = "host"
        return masked

    @property
    def service(self) -> CacheService | None:
        """The cache service that its members connect to."""
        return self.cache.service if self.cache and not self.cache.stands_down else None

    def port_demand(self) -> int:
        """Ports that one member takes on its host: its HTTP port and its bands."""
        return 1 + sum(width for _name, width in self.bands)


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
        argvs = {r.name: tokens(r.args, f"roles.{r.name}.args") for r in group.roles.values()}
    except PdError as exc:
        findings.error("unreadable-arguments", str(exc), "", [])
        return None
    for name in ENGINE_ROLES:
        _check_dashes(group.roles[name], engines[name], findings)
    sizes = {name: engines[name].sizes(Arguments(argvs[name]), group.roles[name].gpus) for name in ENGINE_ROLES}
    choices = choose(mode, group.model, engines["prefill"], Arguments(argvs["prefill"]), known)
    values = {name: _role_values(group, mode, name, sizes, choices) for name in ROLES}
    gpus = {name: _gpus(group.roles[name], sizes[name]) for name in ENGINE_ROLES}
    uses, connectors = uses_of(group, mode, argvs, values, gpus, known, findings)
    off = without_hybrid(group, engines["prefill"], Arguments(argvs["prefill"]), uses, known, choices)
    for name in ENGINE_ROLES:
        argv, mine = argvs[name], connectors[name]
        part = _Part(group.roles[name], mode, engines[name], argv, sizes[name], values[name], mine, off)
        roles[name] = _engine_role(part, uses.get(name), findings)
        if roles[name].service:
            # Everything that is to be said of it has been said.
            roles[name] = replace(roles[name], without_cache=_engine_role(part, None, Findings()))
    roles["router"] = _router_role(group, mode, membership, argvs["router"], values["router"], findings)
    _check_placeholders(roles, findings)
    template = GroupTemplate(mode, engines, roles, policy, membership, mode.router, group.runtime, "", choices)
    return replace(template, revision=revision_of(template.masked()))


def _check_dashes(role: Role, engine: Engine, findings: Findings) -> None:
    """An entry that names a flag of the engine without its dashes would become a value of the flag before it."""
    flags = {normal(s) for spellings in engine.spellings.values() for s in spellings if len(s) > 2}
    for entry in role.args:
        word = re.match(r"[A-Za-z][\w-]+(?=[= ])", entry)
        if word and normal(word.group()) in flags:
            findings.error(
                "bad-value",
                f"{role.args_place}: the entry {entry!r} has no dashes, and would be a value of the flag before it.",
                f"Did you mean {'--' + entry!r}?",
                [role.name],
            )


def revision_of(masked: t.Mapping[str, t.Any]) -> str:
    """The digest of masked role templates: 16 hex digits of SHA-256 over canonical JSON."""
    text = json.dumps(masked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    derived = [_partial(a, values) for a in (*mode.arguments, *mode.role_arguments.get(role.name, ()))]
    kept, pasted = _without_derived(part.argv, derived, role, "the recipe sets it for every member", findings)
    kept, connector, again = connector_argument(kept, mode, role, values, more.connector, part.connectors, findings)
    pasted += again
    beside = cache_arguments(role, part.engine, kept, more, part.without_hybrid, findings)
    head = [_partial(a, values) for a in (role.command or mode.command)]
    _check_command(role.name, tuple(head), findings)
    width = (
        [] if sizes.written or (mode.connector is None and not mode.arguments) else part.engine.width_arguments(gpus)
    )
    kept = [_partial(a, values) for a in kept]
    return RoleTemplate(
        role=role.name,
        argv=(*head, *connector, *width, *beside, *kept, *derived),
        env=_environment(role, {**more.environment, **mode.environment_of(role.name)}, values, findings),
        executable=values["executable"],
        image=role.image,
        pull=role.pull,
        secrets=role.secrets,
        files=files_of(role, mode, values, more, findings),
        mounts=_mounts(role, values),
        devices=role.devices,
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
    sizes = Sizes(1, 1, 1, 0, False)
    bands = tuple((band.name, band_width(band, sizes, 0)) for band in mode.bands_of("router"))
    if recipe is None or membership is None or role.command is not None:
        # The user's own router runs exactly as written; without a recipe, by the engines' command unless it has one.
        own = role.command if role.command is not None or recipe else group.engine_command
        _check_command("router", own, findings)
        command = [_partial(a, values) for a in (*(own or ()), *argv)]
        env = _environment(role, recipe.environment if recipe else {}, values, findings)
        return RoleTemplate(
            "router",
            tuple(command),
            env,
            values["executable"],
            role.image,
            role.secrets,
            (),
            role.mounts,
            role.devices,
            0,
            sizes,
            bands,
        )
    if role.port is not None:
        values = {**values, "port": role.port}
    derived = [_partial(a, values) for a in (*recipe.arguments, *membership.arguments)]
    kept, pasted = _without_derived(argv, derived, role, "the recipe connects the router with it", findings)
    kept = _without_peer_flags(kept, recipe, membership, findings)
    tunables = _tunables(kept, (*membership.tunables, *recipe.tunables))
    return RoleTemplate(
        role="router",
        argv=(
            *(_partial(a, values) for a in recipe.command),
            *derived,
            *tunables,
            *(_partial(a, values) for a in kept),
        ),
        env=_environment(role, recipe.environment, values, findings),
        executable=values["executable"],
        image=role.image if "image" in role.own else recipe.image or role.image,
        pull=role.pull,
        secrets=role.secrets,
        files=(),
        mounts=_mounts(role, values),
        devices=role.devices,
        gpus=0,
        sizes=sizes,
        bands=bands,
        resources=role.resources,
        pasted=tuple(pasted),
    )


def band_width(band: Band, sizes: Sizes, gpus: int) -> int:
    """How many ports a band takes on a member with these sizes."""
    if isinstance(band.width, int):
        return band.width
    return {
        "data_parallel_size": sizes.data,
        "tensor_parallel_size": sizes.tensor,
        "world_size": sizes.tensor * sizes.data * sizes.pipeline,
        "gpus": gpus,
    }[band.width]


def _partial(text: str, values: t.Mapping[str, t.Any]) -> str:
    return placeholders.fill(text, values, partial=True)


def _mounts(role: Role, values: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    return tuple(_partial(mount, values) if isinstance(mount, str) else mount for mount in role.mounts)


def _environment(
    role: Role, recipe: t.Mapping[str, str], values: dict[str, t.Any], findings: Findings
) -> dict[str, str]:
    """The recipe's variables under the user's; one that the user takes over is said."""
    env = {name: _partial(value, values) for name, value in recipe.items()}
    for name, value in role.env.items():
        if name in env and env[name] != value:
            findings.warning(
                "environment-overridden",
                f"roles.{role.name}.env.{name}: {value!r} takes the place of the recipe's {env[name]!r}.",
                "Leave it out unless you mean it: the recipe sets it so that members find each other.",
                [role.name],
            )
        env[name] = _partial(value, values)
    for name in role.secrets:
        env.pop(name, None)
    return env


def _without_derived(
    argv: list[str], derived: list[str], role: Role, why: str, findings: Findings
) -> tuple[list[str], list[tuple[str, str]]]:
    """The user's argv without lines that say what is derived anyway; a different value for a derived flag is an error."""
    owned = {option.name: option for option in Arguments(derived).options}
    kept: list[str] = []
    pasted: list[tuple[str, str]] = []
    arguments = Arguments(argv)
    at = 0
    for option in arguments.options:
        kept += argv[at : option.start]
        at = option.stop
        mine = owned.get(option.name)
        if mine is None:
            kept += argv[option.start : option.stop]
        elif same(option, mine):
            if mine.value and "${" in mine.value:
                pasted.append((option.text, mine.text))
        else:
            findings.error(
                "owned-flag",
                f"{role.args_place}: {option.text} is not yours to set: {why} ({mine.text}).",
                "Remove it." + _instead(role.name, option.name),
                [role.name],
            )
    kept += argv[at:]
    return kept, pasted


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


def _check_placeholders(roles: t.Mapping[str, RoleTemplate], findings: Findings) -> None:
    for role in roles.values():
        bands = [name for name, _width in role.bands]
        mounts = tuple(mount for mount in role.mounts if isinstance(mount, str))
        for place, texts in (("args", role.argv), ("env", tuple(role.env.values())), ("mounts", mounts)):
            for text in texts:
                for name in placeholders.names(text):
                    try:
                        # What the spec decides is filled in: a name of that kind that is left has no value in this role.
                        plain = f"${{{name.partition(':')[0]}}}"
                        more = placeholders.OF_CACHE if role.service else ()
                        placeholders.check(plain, bands, f"roles.{role.role}.{place}", ("member",), more)
                    except PdError as exc:
                        findings.error("unknown-placeholder", str(exc), "", [role.role])


class CompiledRole:
    """A role template with its texts split once, to be filled in for thousands of members."""

    def __init__(self, template: RoleTemplate) -> None:
        self.template = template
        self.argv = [Template(a) for a in template.argv]
        self.env = [(name, Template(value)) for name, value in template.env.items()]
        self.mounts = [Template(m) if isinstance(m, str) else m for m in template.mounts]
        self.files = [{k: Template(v) if isinstance(v, str) else v for k, v in f.items()} for f in template.files]

    def fill_mounts(self, values: t.Mapping[str, t.Any]) -> list[t.Any]:
        return [m.fill(values) if isinstance(m, Template) else m for m in self.mounts]

    def fill(self, values: t.Mapping[str, t.Any]) -> tuple[list[str], dict[str, str], list[dict[str, t.Any]]]:
        """(argv, env, files) of one member. Raises PdError for a placeholder that has no value on its host."""
        argv = [a.fill(values) if a.parts else a.text for a in self.argv]
        env = {name: v.fill(values) if v.parts else v.text for name, v in self.env}
        files = [{k: v.fill(values) if isinstance(v, Template) else v for k, v in f.items()} for f in self.files]
        return argv, env, files
