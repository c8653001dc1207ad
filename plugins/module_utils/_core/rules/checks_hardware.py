# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the GPUs: their maker, their model, and members that share a card. What nobody has looked at is not judged."""

from __future__ import annotations

import typing as t

from ..base.arguments import Arguments
from ..base.finding import Findings
from ..facts.observed import Host
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..spec.known import Known
from ..spec.spec import ENGINE_ROLES, Group
from ..work.member import Member, Part
from .checks_engine import fraction_of
from .stands_for import cards_of, names_of


def check(group: Group, mode: Mode, known: Known, findings: Findings) -> None:
    """What the spec and the hosts' facts tell before anything is placed."""
    _check_vendor(group, mode, known, findings)
    found = [known.gpus_of(role) for role in group.engine_roles]
    if all(known.hosts_of(role) is not None for role in group.engine_roles) and all(
        r.gpus != 0 for r in group.engine_roles
    ):
        one, two = ({gpu.model for gpus in hosts.values() for gpu in gpus if gpu.model} for hosts in found)
        if one and two and not one & two:
            findings.error(
                "gpu-models-differ",
                f"the roles' hosts have no GPU model in common: prefill {', '.join(sorted(one))}, decode {', '.join(sorted(two))}.",
                "Take hosts of one GPU model for both: attention backends, block sizes and layouts follow from it.",
                ENGINE_ROLES,
            )


def _check_vendor(group: Group, mode: Mode, known: Known, findings: Findings) -> None:
    """A mode is for the GPUs of some makers; a mode that names none runs anywhere."""
    if not mode.vendors:
        return
    needs = " or ".join(mode.vendors)
    chosen = (group.vendor or "").strip().lower()
    if chosen and chosen not in mode.vendors:
        findings.error(
            "vendor-mismatch",
            f"vendor: {group.vendor} is chosen, and mode {mode.name} is for {needs}.",
            "Take a mode for these GPUs (mode_info lists them), or mode custom.",
        )
        return
    for role in group.engine_roles:
        if role.gpus == 0:
            continue
        makers = {gpu.vendor.lower() for gpus in known.gpus_of(role).values() for gpu in gpus if gpu.vendor}
        wanted = {chosen} if chosen else set(mode.vendors)
        if makers and not makers & wanted:
            findings.error(
                "vendor-mismatch",
                f"roles.{role.name}.hosts: the GPUs there are {' and '.join(sorted(makers))}, and mode {mode.name} is for"
                f" {chosen or needs}.",
                "Take a mode for these GPUs (mode_info lists them), or other hosts.",
                [role.name],
            )
        elif len(makers) > 1 and not chosen and known.hosts_of(role) is not None:
            findings.error(
                "vendor-ambiguous",
                f"roles.{role.name}.hosts: the hosts have GPUs of {' and '.join(sorted(makers))}, and a group cannot span makers.",
                f"Write vendor: {' or '.join(sorted(makers & wanted))}, and a pattern of hosts that have them.",
                [role.name],
            )


def check_members(
    members: t.Sequence[Member],
    hosts: t.Mapping[str, Host],
    engines: t.Mapping[str, Engine],
    findings: Findings,
) -> None:
    """What a plan gives its members: cards of one model, and no more of a card than there is. `engines` are those of the roles."""
    models: dict[str, set[str]] = {}
    for member in members:
        for part in member.parts:
            host, mine = part.host, set(part.gpus)
            for gpu in hosts[host].gpus if mine and host in hosts else ():
                if gpu.id in mine and gpu.model:
                    models.setdefault(gpu.model, set()).add(host)
    if len(models) > 1:
        told = "; ".join(f"{model} on {', '.join(sorted(where))}" for model, where in sorted(models.items()))
        findings.error(
            "gpu-models-differ",
            f"the members would run on different GPU models: {told}.",
            "Take hosts of one GPU model for prefill and decode: attention backends, block sizes and layouts follow from it.",
            ENGINE_ROLES,
        )
    memory_fractions(members, engines, findings)


def memory_fractions(members: t.Iterable[Member], engines: t.Mapping[str, Engine], findings: Findings) -> None:
    """Members that share a card: the shares of it that they take must not sum to more than all of it."""
    shares: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for member in members:
        engine = engines.get(member.role)
        if engine is None:
            continue
        for part in member.parts:
            argv = Arguments(part.argv)
            share = fraction_of(argv.value(engine.names("memory_fraction"))) or engine.memory_fraction
            for card in _cards(part) if share else ():
                shares.setdefault((part.host, card), []).append((member.id, share or 0))
    told: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (host, card), taken in shares.items():
        if len(taken) > 1 and sum(share for _id, share in taken) > 1 + 1e-9:
            told.setdefault((host, tuple(f"{name} {share:g}" for name, share in taken)), []).append(card)
    for (host, taken_by), cards in told.items():
        findings.error(
            "memory-fraction",
            f"{host}: {', '.join(taken_by)} share {'GPU' if len(cards) == 1 else 'GPUs'} {', '.join(cards)}, and ask for more memory than"
            " there is (a share is of the whole card).",
            "Lower their shares so that they sum to less than 1, or give each a card of its own.",
            ENGINE_ROLES,
            host,
        )


def _cards(part: Part) -> list[str]:
    """The cards of a part: those that the plan gave it, else those that its environment narrows it down to."""
    visible = next((part.env[name] for name in names_of("cards", "cards within") if part.env.get(name)), "")
    return list(part.gpus) or cards_of(visible)
