# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of a KV cache beside the transfer: versions, sizes, hashes and pages, and what a group shares with others (docs/caches.md)."""

from __future__ import annotations

import ipaddress
import json
import typing as t

from ..base.address import split
from ..base.arguments import Arguments, read_integer
from ..base.finding import Findings
from ..base.sizes import told_size
from ..base.version import below
from ..model import kv_size
from ..recipes.mode import Mode
from ..spec.cache_service import ROLE as CACHE
from ..spec.known import Known
from ..spec.spec import ENGINE_ROLES, Group
from ..template.kv_cache_template import TOGGLE
from ..template.kv_cache_use import Use
from ..template.kv_compose import MULTI
from ..template.template import GroupTemplate
from ..work.member import Member
from .pairing_side import SECRET, Side, children_of

# Where the engine's hash of a block depends on it, two processes find each other's blocks only with one value of it.
SEED = "PYTHONHASHSEED"
# A store that holds fewer of the longest prompts evicts what it has just taken.
PROMPTS = 3


def check(group: Group, template: GroupTemplate, sides: tuple[Side, Side], known: Known, findings: Findings) -> None:
    uses = {name: use for name, use in template.uses.items() if not use.stands_down}
    if not template.uses:
        return
    pools = Pools(known)
    _check_services(template.uses, pools, findings)
    _check_sharing(group, template.uses, known, pools, findings)
    _check_seed(template.mode, sides, uses, findings)
    _check_hybrid_manager(template, sides, uses, findings)
    _check_pages(sides, uses, findings)
    for side in sides:
        use = uses.get(side.role)
        if use:
            _check_versions(side, use, template.mode.name, findings)
            _check_recurrent(side, use, findings)
            _check_flags(side, use, findings)
            _check_hardware(side, use, known, findings)
            _check_capacity(side, use, findings)


class Pools:
    """Which names mean one service: a service of pd_caches has its name, and addresses where they are known; HOST:PORT is an address."""

    def __init__(self, known: Known) -> None:
        self.caches = known.caches or {}
        self.instances: dict[str, set[str]] = {}
        for host in known.hosts.values():
            for member in host.members:
                if member.role == CACHE:
                    address = member.label.address or host.address or ""
                    self._add(member.group, address, member.label.port)

    def _add(self, name: str, host: str, port: t.Any) -> None:
        # One that listens on its own host alone has the same address on every host.
        if host and host != "localhost" and not host.startswith("127.") and host != "::1":
            self.instances.setdefault(name, set()).add(_canonical(host, port))

    def of(self, name: str) -> set[str]:
        """The name, and every address that it is known to stand for."""
        service = self.caches.get(name)
        given = split((service.address if service else name) or "")
        return {name, *self.instances.get(name, ()), *([_canonical(*given)] if given else ())}

    def one(self, *names: str) -> bool:
        """Whether all of these names mean the same service as the first."""
        first = self.of(names[0])
        return all(first & self.of(name) for name in names)


def _canonical(host: str, port: t.Any) -> str:
    try:
        host = str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        host = host.lower()
    return f"{host} {port}"


def _check_services(uses: t.Mapping[str, Use], pools: Pools, findings: Findings) -> None:
    """One pool for a group: what prefill puts into one is not found in another."""
    named = {role: use.service_name for role, use in uses.items() if use.service_name}
    if named and not pools.one(*named.values()):
        told = ", ".join(f"{role} {name}" for role, name in named.items())
        findings.error(
            "kv-cache-two-services",
            f"kv_cache: the roles name two services: {told}. A group has one pool: what a role puts into one is not found in the other.",
            "Name one service for both roles, or give one of them none.",
            list(named),
        )


def _check_sharing(group: Group, uses: t.Mapping[str, Use], known: Known, pools: Pools, findings: Findings) -> None:
    """Another group on the same service, as far as the inventory and the hosts tell."""
    users: dict[str, set[str]] = {name: {str(g) for g in groups} for name, groups in known.cache_users.items()}
    for member in (one for host in known.hosts.values() for one in host.members):
        cache = member.label.cache
        if cache is not None and cache.service:
            users.setdefault(cache.service, set()).add(member.group)
    for use in uses.values():
        name = use.service_name
        if not name or not use.provider.own_service:
            continue
        others = {user for other, groups in users.items() if pools.one(name, other) for user in groups} - {group.name}
        if others:
            findings.warning(
                "kv-cache-shared",
                f"kv_cache.service: {name} is used by group {', '.join(sorted(others))} as well as by {group.name}:"
                f" {use.provider.own_service}.",
                "Give each group a service of its own, or size it for both.",
            )
            return


def _check_seed(mode: Mode, sides: tuple[Side, Side], uses: t.Mapping[str, Use], findings: Findings) -> None:
    """The seed of what names blocks for one cache: one number in the roles that use it and in their service. It must be there where the
    provider or the mode sets it; a secret's value is not compared."""
    values: dict[str, str | None] = {}
    needing = set()
    for side in sides:
        use, value = uses.get(side.role), side.variable(SEED)
        if use is None or value == SECRET:
            continue
        values[side.role] = value
        if SEED in use.recipe.environment or SEED in mode.environment_of(side.role):
            needing.add(side.role)
        if use.service and SEED in use.service.environment:
            values[f"the service {use.service.name}"] = use.service.environment[SEED]
    told = ", ".join(f"{name} {value or 'none'}" for name, value in values.items())
    roles = [name for name in values if name in ENGINE_ROLES]
    hint = f"Leave {SEED} out: it is set to 0 for all members and services."
    if roles and len({value or "" for value in values.values()}) > 1:
        findings.error(
            "kv-cache-hash-seed",
            f"{SEED} differs: {told}: they name the same blocks differently, and nothing is ever found in the cache.",
            hint,
            roles,
        )
    elif any((name in needing or value) and not (value or "").isdigit() for name, value in values.items()):
        findings.error(
            "kv-cache-hash-seed",
            f"{SEED}: {told}: every process names blocks differently, and nothing that another has stored is ever found.",
            hint,
            roles,
        )


def _check_hybrid_manager(
    template: GroupTemplate, sides: tuple[Side, Side], uses: t.Mapping[str, Use], findings: Findings
) -> None:
    """A user's explicit opposite of what the cache's connector allows: the engine does not start, or the pair's hashes differ."""
    off = next((use for use in uses.values() if use.provider.hybrid_manager == "off"), None)
    if off is None and template.choices.get("hybrid_manager", {}).get("off"):
        off = next((use for use in uses.values() if use.provider.hybrid_manager == "recurrent"), None)
    for side in sides if off else ():
        if off and side.toggle(TOGGLE):
            on_flag, off_flag, _default = side.engine.toggles[TOGGLE]
            findings.error(
                "kv-cache-hybrid-manager",
                f"{side.spec.flag_place(on_flag)}: --{on_flag} is written, and the connector of {off.provider.name} ({off.role}) does"
                " not go with"
                " the hybrid KV cache manager. It must be off on both roles, since what they compare at the first request covers it.",
                f"Remove it; --{off_flag} is added to both roles.",
                [side.role],
            )


def _check_pages(sides: tuple[Side, Side], uses: t.Mapping[str, Use], findings: Findings) -> None:
    """A chunk size that a cache turns into the engine's block size, on one side of the pair alone."""
    for side, peer in (sides, sides[::-1]):
        use = uses.get(side.role)
        names = {n.replace("_", "-") for n in side.engine.spellings.get("block_size", ())}
        mine = [a for a in (use.recipe.arguments if use else ()) if a.lstrip("-").partition("=")[0] in names]
        size = side.value("block_size")
        if (
            use is None
            or not mine
            or size is None
            or "chunk" not in use.options
            or peer.value("block_size") is not None
        ):
            continue
        findings.error(
            "kv-cache-page-size",
            f"{side.role} has pages of {size} tokens (kv_cache.options.chunk {use.options['chunk']} of {use.provider.name}), {peer.role}"
            f" does not write {peer.flag('block_size')}: the engine refuses a pair of different pages at the first request.",
            f"Write {peer.flag('block_size')}={size} for {peer.role}, give it the cache as well, or leave the chunk out.",
            ENGINE_ROLES,
        )


def _check_versions(side: Side, use: Use, mode: str, findings: Findings) -> None:
    """Advice alone, and none for images: what is in one is its builder's to know."""
    version = side.version
    if not version or side.spec.image:
        return
    said = (
        f"roles.{side.role}.version: {version}"
        if side.spec.version
        else f"the engine of {side.role}, {version} on its hosts,"
    )
    for known_versions, note in (
        (use.recipe.known_versions, use.recipe.versions_note),
        (use.provider.known_versions, ""),
    ):
        if known_versions and below(version, known_versions):
            findings.warning(
                "kv-cache-version-below-floor",
                f"{said} is older than what {use.provider.name} in mode {mode} is known to work"
                f" with ({known_versions})" + (f": {note}." if note else "."),
                "Newer is safer; this is advice, not a limit.",
                [side.role],
            )
            return


def _check_recurrent(side: Side, use: Use, findings: Findings) -> None:
    """Models with recurrent layers; silent where the config.json cannot be read."""
    if side.config is None or not side.config.recurrent:
        return
    if use.provider.recurrent_refused:
        findings.error(
            "kv-cache-recurrent",
            f"{side.role}: {use.provider.name} does not go with a model that has recurrent layers: {use.provider.recurrent_refused}.",
            "Take another provider, or none.",
            [side.role],
        )
    elif use.provider.recurrent_advice and not _follows(side, use):
        findings.warning(
            "kv-cache-recurrent",
            f"{side.role}: the model has recurrent layers: {use.provider.recurrent_advice}.",
            "See docs/caches.md.",
            [side.role],
        )


def _follows(side: Side, use: Use) -> bool:
    """Whether the advice for models with recurrent layers is followed: by the role's args, or by the service's entry in pd_caches."""
    option = use.provider.recurrent_unless_service
    served = bool(use.service and option and use.service.options.get(option) is True)
    return served or _writes(side, use.provider.recurrent_unless)


def _writes(side: Side, flag: str) -> bool:
    """Whether a role's args say what `flag` says."""
    wanted = Arguments([flag]).options if flag else []
    return bool(wanted) and side.arguments.value([wanted[0].name]) == wanted[0].value


def _check_flags(side: Side, use: Use, findings: Findings) -> None:
    """Flags of the engine with which a cache does not start."""
    for flag, why in use.provider.not_with.items():
        if side.arguments.has(flag):
            findings.error(
                "kv-cache-flag-conflict",
                f"{side.spec.flag_place(flag)}: {flag} does not go with {use.provider.name}: {why}.",
                f"Remove {flag}, or give the role no cache.",
                [side.role],
            )


def _check_hardware(side: Side, use: Use, known: Known, findings: Findings) -> None:
    models = {gpu.model for gpus in known.gpus_of(side.spec).values() for gpu in gpus if gpu.model}
    for name, why in use.provider.not_on.items():
        found = sorted(model for model in models if name.lower() in model.lower())
        if found:
            findings.error(
                "kv-cache-hardware",
                f"{side.role}: {use.provider.name} does not run on {', '.join(found)}: {why}.",
                "Take another provider, or none.",
                [side.role],
            )


def _check_capacity(side: Side, use: Use, findings: Findings) -> None:
    """What the cache holds, compared with the KV cache of the longest prompts."""
    capacity = use.provider.capacity
    size = use.options.get(capacity.get("option", ""))
    told = side.settled("context_length")
    tokens = read_integer(told, side.engine.units) if told else None
    kept = kv_size.of_model(side.config, side.value("kv_cache_dtype"), side.sizes.tensor) if side.config else None
    if not size or not tokens or not isinstance(kept, kv_size.KvSize):
        return
    ranks = side.sizes.tensor * side.sizes.pipeline * side.sizes.data if capacity.get("each") == "gpu" else 1
    holds, prompt = size * ranks, kept.of(tokens)
    if holds < prompt * PROMPTS:
        findings.warning(
            "kv-cache-too-small",
            f"{side.role}: kv_cache.options.{capacity['option']} {told_size(size)}"
            + (f" x {ranks} ranks" if ranks > 1 else "")
            + f" is {holds / prompt:.1f} times the KV cache of one prompt of {tokens} tokens ({told_size(prompt)} by the model's"
            " config.json): what is stored is evicted before it is used, or does not fit.",
            f"Give it {told_size(prompt * PROMPTS / ranks)} or more.",
            [side.role],
        )


# -- the members of a plan -------------------------------------------------------------------------------------------------------------


def check_members(members: t.Sequence[Member], template: GroupTemplate, findings: Findings) -> None:
    """Names that must be unique among the members of a host: an IPC name that two share answers one for the other."""
    unique = {key for use in template.uses.values() for key in use.provider.unique_per_host}
    connector = template.mode.connector
    seen: dict[tuple[str, str, str], list[Member]] = {}
    for member in members if unique else ():
        engine = template.engines.get(member.role)
        for part in member.parts if engine and connector else ():
            value = engine.arguments(part.argv).value([connector.flag]) if engine and connector else None
            for key, number in _named(value, unique):
                seen.setdefault((part.host, key, number), []).append(member)
    for (host, key, number), holders in seen.items():
        if len(holders) > 1:
            findings.error(
                "kv-cache-name-taken",
                f"{host}: {', '.join(m.id for m in holders)} have {key} {number} in common: it names an IPC socket in /tmp,"
                " and one would answer for the other.",
                f"Leave {key} out for the recipe's, or write ${{port}} there, which is each member's own.",
                sorted({m.role for m in holders}),
                host,
            )


def _named(connector: str | None, keys: t.Collection[str]) -> t.Iterator[tuple[str, str]]:
    """(key, value) of these keys in a connector's extra configuration, its children's included."""
    try:
        whole = json.loads(connector or "")
    except (ValueError, RecursionError):
        return
    if not isinstance(whole, t.Mapping):
        return
    for child in children_of(whole) if whole.get("kv_connector") == MULTI else [whole]:
        extra = child.get("kv_connector_extra_config")
        for key in keys:
            if isinstance(extra, t.Mapping) and extra.get(key) is not None:
                yield key, str(extra[key])
