# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of a user's own choice of GPUs beside the plan's: it is what the plan gives, or `gpus: 0` leaves the choice to the user."""

from __future__ import annotations

import re
import typing as t

from ..base.finding import Findings
from ..facts.observed import Gpu, Host
from ..runtimes.table import traits_of
from ..spec.known import Known
from ..spec.spec import Group
from ..template.template import GroupTemplate
from ..work.member import Member, Part
from .stands_for import VARIABLES, Gathered, Placed, Stated, cards_of, place_of, stated, told

OWN = "Remove it: the plan gives each member its cards and shows it no others. With gpus: 0 they are yours to choose."
_DEVICE = re.compile(r"/dev/(?:nvidia|davinci)(\d+)")


# -- before anything is placed ---------------------------------------------------------------------------------------------------------


def check(group: Group, template: GroupTemplate, known: Known, findings: Findings) -> None:
    """What no placement can make right."""
    absolute: list[Stated] = []
    for role in group.engine_roles:
        rendered = template.roles[role.name]
        for name in role.secrets:
            if VARIABLES.get(name, "").startswith("cards") and rendered.gpus:
                findings.error(
                    "owned-variable",
                    f"roles.{role.name}.secrets.{name} is not yours to set: the plan gives each member its cards, and they are no secret.",
                    "Remove it.",
                    [role.name],
                )
        for one in stated(role, template.arguments(role.name, rendered.argv), rendered.env):
            if not one.kind.startswith(("cards", "first", "card ")) or not one.literal:
                continue
            if rendered.gpus:
                _check_one(group, one, rendered.gpus, findings)
                absolute += [one] if _is_absolute(group, one) else []
            if one.kind == "cards granted" and not traits_of(group.runtime).containers:
                findings.warning(
                    "no-effect",
                    f"{told(one)}: it tells a container runtime which GPUs to give, and a member of runtime {group.runtime} is in no"
                    " container.",
                    "Remove it.",
                    [role.name],
                )
    for one, roles in Gathered.of(absolute):
        members, hosts = sum(group.roles[r].replicas for r in roles), hosts_of(known, group, roles)
        if hosts is not None and members > len(hosts):
            findings.error(
                "gpus-not-its-own",
                f"{told(one)}: {members} members ({' and '.join(roles)}) would use the same cards, and have {_hosts(hosts)} to be on.",
                OWN,
                roles,
            )


def hosts_of(known: Known, group: Group, roles: t.Iterable[str]) -> set[str] | None:
    """All hosts that members of these roles may be on; None where nobody can tell."""
    found = [known.hosts_of(group.roles[role]) for role in roles]
    return None if any(names is None for names in found) else {name for names in found for name in names or ()}


def _hosts(names: t.Collection[str]) -> str:
    return f"the one host {next(iter(names))}" if len(names) == 1 else f"{len(names)} hosts"


def _is_absolute(group: Group, one: Stated) -> bool:
    """Whether it names cards of the host, and not of those that a container was given."""
    return one.kind == "cards" and not traits_of(group.runtime).containers


def _check_one(group: Group, one: Stated, gpus: int, findings: Findings) -> None:
    """One text of a role whose members get `gpus` cards each."""
    wrong = ""
    if one.kind in ("first card", "card step"):
        right = "0" if one.kind == "first card" else "1"
        wrong = "" if one.text == right else f"a member sees its own {gpus} cards alone, counted from 0"
    elif one.kind == "cards granted" and (not traits_of(group.runtime).containers or one.text == "all"):
        return
    elif len(set(cards_of(one.text))) != gpus:
        wrong = f"it names {len(set(cards_of(one.text)))} cards, and a member has {gpus}"
    elif one.kind == "cards within" and _numbers(one.text) and set(cards_of(one.text)) != _counted(gpus):
        wrong = f"it counts within the member's own {gpus} cards, which are {','.join(sorted(_counted(gpus)))} then"
    if wrong:
        findings.error("gpus-not-its-own", f"{told(one)}: {wrong}.", OWN, [one.role])


def _numbers(text: str) -> bool:
    return all(card.isdigit() for card in cards_of(text))


def _counted(gpus: int) -> set[str]:
    return {str(number) for number in range(gpus)}


# -- as placed -------------------------------------------------------------------------------------------------------------------------


def check_members(placed: Placed, findings: Findings) -> None:
    """Who would see others than its own cards, and who chooses one that is not there or another's."""
    # Where and what is written, by host, with who has what instead.
    wrong: dict[tuple[str, str], list[tuple[Member, str]]] = {}
    said = {r.name for r in placed.group.engine_roles if _says(placed, r.name)}
    for member in placed.coming():
        role = placed.group.roles[member.role]
        for part in member.parts if member.role in said else ():
            host = placed.hosts.get(part.host)
            if host is None:
                continue
            arguments = placed.template.arguments(member.role, part.argv)
            found = [one for one in stated(role, arguments, part.env) if "card" in one.kind]
            if part.gpus:
                others = [*_masks(placed, part, host, found), *_devices(part, place_of(role, "devices"))]
                for text in others:
                    wrong.setdefault((text, host.name), []).append((member, ", ".join(part.gpus)))
            else:
                _check_chosen(placed, member, found, host, findings)
    for (text, name), members in wrong.items():
        its = ", ".join(f"{member.id} has GPU {gpus}" for member, gpus in members[:4]) + (
            ", ..." if len(members) > 4 else ""
        )
        roles = list(dict.fromkeys(member.role for member, _gpus in members))
        findings.error("gpus-not-its-own", f"{text}: on {name} {its}.", OWN, roles, name)


def _says(placed: Placed, role: str) -> bool:
    """Whether a role says anything of cards: most say nothing, and have thousands of members."""
    template = placed.template.roles[role]
    arguments = placed.template.arguments(role, template.argv)
    return bool(template.devices) or any(
        "card" in one.kind for one in stated(placed.group.roles[role], arguments, template.env)
    )


def _masks(placed: Placed, part: Part, host: Host, found: t.Iterable[Stated]) -> t.Iterator[str]:
    """What a part would see other cards by than its own."""
    contained = traits_of(placed.group.runtime).containers
    for one in found:
        if one.kind in ("first card", "card step") or (one.kind == "cards granted" and not contained):
            continue
        # Where a container was given its cards, they are counted anew in it; AMD's are all there, and told apart by the mask.
        inside = one.kind == "cards within" or (
            one.kind == "cards" and contained and (part.vendor or "nvidia") != "amd"
        )
        mine = {str(n): gpu for n, gpu in enumerate(part.gpus)} if inside else {gpu: gpu for gpu in part.gpus}
        if one.kind == "cards granted" and one.text == "all":
            named = {gpu.id for gpu in host.gpus}
        else:
            named = {mine.get(card) or _by_uuid(card, host.gpus) or f"no {card}" for card in cards_of(one.text)}
        # Whether Ascend's cards are counted anew depends on the version of its container runtime.
        as_on_host = part.vendor == "ascend" and set(cards_of(one.text)) == set(part.gpus)
        if named != set(part.gpus) and not as_on_host:
            yield told(one) + (
                f" (in a container they are counted from 0: {','.join(mine)})" if inside and contained else ""
            )


def _by_uuid(card: str, gpus: t.Iterable[Gpu]) -> str | None:
    """The id of the GPU of this uuid, or of the one whose uuid begins so."""
    found = [gpu.id for gpu in gpus if len(card) > 3 and any(n and n.startswith(card) for n in (gpu.uuid, gpu.id))]
    return found[0] if len(found) == 1 else None


def _devices(part: Part, place: str) -> t.Iterator[str]:
    """Devices of cards beside those that the plan gives."""
    for device in part.devices:
        path = str(device.get("source") if isinstance(device, t.Mapping) else device).partition(":")[0]
        match = _DEVICE.fullmatch(path)
        if match and all(gpu.isdigit() for gpu in part.gpus) and match[1] not in part.gpus:
            yield f"{place}: {path}"


def _check_chosen(placed: Placed, member: Member, found: t.Sequence[Stated], host: Host, findings: Findings) -> None:
    """The cards that the user of `gpus: 0` chooses: they must be there, and no other member's by its plan."""
    holders = _held(placed, host)
    contained = traits_of(placed.group.runtime).containers
    for one in found:
        # What a container sees, the user's own devices tell, and no number does.
        if one.kind != ("cards granted" if contained else "cards"):
            continue
        for card in cards_of(one.text):
            gpu = card if any(g.id == card for g in host.gpus) else _by_uuid(card, host.gpus)
            if gpu is None and host.gpus and card != "all":
                findings.error(
                    "gpus-not-its-own",
                    f"{told(one)}: {host.name} has no GPU {card}; it has {', '.join(g.id for g in host.gpus)}.",
                    "Write one that every host of the role has, or gpus: N for the plan to choose.",
                    [member.role],
                    host.name,
                )
            elif gpu in holders:
                findings.error(
                    "gpu-taken",
                    f"{told(one)}: GPU {gpu} of {host.name} is {holders[gpu]}'s, which the plan gave it.",
                    "Choose another one, or write gpus: N instead, so that the plan chooses for both.",
                    [member.role],
                    host.name,
                )


def _held(placed: Placed, host: Host) -> dict[str, str]:
    """Who was given each card of a host by a plan."""
    held = {gpu: m.id for m in host.members if m.alive and m.group != placed.group.stand for gpu in m.gpus}
    for member in (*placed.others(host.name), *placed.members):
        part = member.at(host.name)
        held.update((gpu, member.id) for gpu in (part.gpus if part else ()))
    return held
