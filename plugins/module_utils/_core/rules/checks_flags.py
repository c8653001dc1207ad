# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags that a user writes for an engine, beside the table of those that it has: whether they exist, and whether they are the user's to
give."""

from __future__ import annotations

import re

from ..base.arguments import Option, tokens
from ..base.errors import PdError
from ..base.finding import Findings
from ..base.version import at_least
from ..spec.known import Known
from ..spec.spec import Group
from ..template.template import GroupTemplate
from .pairing_side import Side

# Why a flag is not the user's, by the reason that its class has, and what to write instead. What the recipe derives is compared with what
# it derives (template/owned_flags.py), and has no row.
OWNED: dict[str, tuple[str, str]] = {
    "http": (
        "router, probes and proof speak plain HTTP with the member, at its own address and port and without a prefix",
        "Remove it. TLS for clients belongs in front of the router: endpoint.external_url.",
    ),
    "counters": (
        "the proof and the drain read the member's counters, which it turns off",
        "Remove it.",
    ),
    "hosts": (
        "a member runs on one host today, and the parts of one that spans hosts would wait for each other: nobody starts the others",
        "Remove it. More GPUs of one host are --tensor-parallel-size or the like, more members are replicas.",
    ),
    "roles": (
        "which part of a request a member does is the role that it is written at",
        "Remove it.",
    ),
}

_SHELL = re.compile(r"[()`$]")
_OF_PORT = re.compile(r"\$\{(port|ports\.\w+)\}")


def check(template: GroupTemplate, side: Side, findings: Findings) -> None:
    """All flags of one role's args. A command of one's own may read others before it hands them on: there a strange one is a warning."""
    table = side.engine.flags
    if table is None:
        return
    recipe = template.mode.backend is not None
    try:
        written = side.engine.arguments(tokens(side.spec.args, "")).options
    except PdError:
        return
    for option in written:
        flag = table.flag(option.flag)
        if flag is None and _SHELL.search(option.flag):
            # A word of a line that only a shell reads, which is told as that.
            continue
        if flag is None:
            _unknown(side, option, findings)
            continue
        reason = flag.of("owned")
        if recipe and reason in OWNED and not _turned_off(option):
            why, instead = OWNED[reason]
            findings.error(
                "owned-flag",
                f"{side.spec.args_place}: {_told(option)} is not yours to set: {why}.",
                instead,
                [side.role],
            )
        elif recipe and flag.takes == "none" and option.value is not None:
            findings.error(
                "bad-value",
                f"{side.spec.args_place}: {_told(option)}: {flag.names[0]} takes no value, and the engine would not start.",
                f"Write {option.flag} alone" + (f", or {flag.names[1]}." if len(flag.names) > 1 else "."),
                [side.role],
            )


def check_conflicts(template: GroupTemplate, side: Side, findings: Findings) -> None:
    """Pairs of flags that the engine does not start with, whoever brings them: the user, the recipe, or a cache."""
    table, use = side.engine.flags, template.roles[side.role].cache
    brought = (
        {o.name for o in side.engine.arguments(use.recipe.arguments).options} if use and not use.stands_down else set()
    )
    for pair in table.conflicts if table else ():
        value = side.arguments.value([pair.other])
        if not (side.arguments.has(pair.flag) and side.arguments.has(pair.other)) or (value and value in pair.values):
            continue
        if pair.until and at_least(side.version, pair.until):
            continue
        cached = use is not None and bool(brought & {pair.flag, pair.other})
        beside = f" (which {use.provider.name} brings)" if cached and use else ""
        told = f"{side.spec.args_place}: --{pair.other} does not go with --{pair.flag}{beside}: {pair.why}, and the engine does not start."
        newer = f" With {pair.until} or newer, write engine.version." if pair.until else ""
        if cached:
            hint = f"Remove --{pair.other}, or give the role no cache.{newer}"
            findings.error("kv-cache-flag-conflict", told, hint, [side.role])
        else:
            findings.error("flag-conflict", told, f"Remove one of the two.{newer}", [side.role])


def check_ports(group: Group, template: GroupTemplate, known: Known, findings: Findings) -> None:
    """A line of a plan may be pasted back, its port with it; a port that no plan can give a member is not such a line."""
    for role in template.roles.values():
        spec = group.roles[role.role]
        ranges = known.port_ranges(spec)
        for written, derived in role.pasted:
            value, form = (text.partition("=")[2] for text in (written, derived))
            if (
                not _OF_PORT.fullmatch(form)
                or not value.isdigit()
                or any(low <= int(value) <= high for low, high in ranges)
            ):
                continue
            told = ", ".join(sorted({f"{low}-{high}" for low, high in ranges}))
            instead = " The router's port is roles.router.port." if role.role == "router" else ""
            findings.error(
                "owned-flag",
                f"{spec.args_place}: {written} is not yours to set: each member gets a port of its own, out of the range of its host"
                f" (pd_port_range, {told}).",
                f"Remove it.{instead}",
                [role.role],
            )


def _turned_off(option: Option) -> bool:
    """An explicit no to what must not be there."""
    return option.name.startswith("no-")


def _told(option: Option) -> str:
    """A flag for people, its value left out where it is long."""
    text = option.text
    return text if len(text) <= 120 else option.flag


def _unknown(side: Side, option: Option, findings: Findings) -> None:
    """A flag that the table has not: an error where the engine is known to be of the table's versions, or nothing is known of it."""
    lack = side.engine.lack(option.flag, side.version)
    if lack is None:
        return
    if lack.begun:
        hint = "Write the one that you mean in full."
    else:
        hint = f"Did you mean {lack.instead}?" if lack.instead else "Remove it."
        if side.version is None:
            hint += " If your engine is another version, write engine.version: then this is a warning."
    say = findings.error if lack.certain and side.spec.command is None else findings.warning
    say("unknown-flag", f"{side.spec.args_place}: {option.flag} {lack.why}.", hint, [side.role])
