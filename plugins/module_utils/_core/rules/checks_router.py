# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the router: flags of a membership policy that is not in use, its version, and how long it waits compared with the engines."""

from __future__ import annotations

import typing as t

from ..base.arguments import Arguments, normal, read_integer, tokens
from ..base.errors import PdError
from ..base.finding import Findings
from ..base.version import below
from ..recipes.mode import Tunable
from ..spec.spec import Group
from ..template.template import GroupTemplate, lease_of
from .checks_engine import connector_number
from .pairing_side import Side

# Both routers' flag for a whole request, and what they wait without it (measured: vllm-router 0.1.17, sglang-router 0.3.2).
TIMEOUT_FLAG, TIMEOUT = "request-timeout-secs", 1800


def check(group: Group, template: GroupTemplate, sides: tuple[Side, Side], findings: Findings) -> None:
    recipe, router = template.recipe, group.roles["router"]
    if recipe is None or template.membership is None or router.command is not None:
        return
    try:
        written = Arguments(tokens(router.args, ""))
    except PdError:
        return
    _check_policies(template, written, findings)
    if router.version and recipe.known_versions and not router.image and below(router.version, recipe.known_versions):
        findings.warning(
            "version-below-floor",
            f"roles.router.version: {router.version} is older than the router that mode {template.mode.name} is known to work with"
            f" ({recipe.known_versions}).",
            "Newer is safer; this is advice, not a limit.",
            ["router"],
        )
    _check_timeouts(group, template, sides, findings)


def _check_policies(template: GroupTemplate, written: Arguments, findings: Findings) -> None:
    """Flags that only another policy of membership uses."""
    recipe, mine = template.recipe, template.membership
    if recipe is None or mine is None:
        return
    tuned = {normal(tunable.flag) for tunable in (*recipe.tunables, *mine.tunables)}
    derived = {o.name for o in Arguments([*recipe.arguments, *mine.arguments]).options}
    peers = {normal(words[0]) for m in recipe.memberships.values() for words in m.peers.values() if words}
    _check_overruled((*mine.tunables, *recipe.tunables), written, findings)
    for other in recipe.memberships.values():
        if other.policy == mine.policy:
            continue
        switches = {o.name for o in Arguments(other.arguments).options} - derived - peers
        for option in written.options:
            if option.name in switches:
                findings.error(
                    "owned-flag",
                    f"roles.router.args: {option.text} is not yours to set: it is how the router learns its peers under membership"
                    f" {other.policy}, and this group's is {mine.policy}.",
                    f"Remove it, or write roles.router.membership: {other.policy}.",
                    ["router"],
                )
            elif option.name in {normal(tunable.flag) for tunable in other.tunables} - tuned:
                findings.warning(
                    "no-effect",
                    f"roles.router.args: {option.text} has no effect under membership {mine.policy}: "
                    + (mine.gives_up or f"it is a flag of {other.policy}")
                    + ".",
                    f"Remove it, or write roles.router.membership: {other.policy}.",
                    ["router"],
                )


def _check_overruled(tunables: t.Iterable[Tunable], written: Arguments, findings: Findings) -> None:
    """A flag for all hops, beside the recipe's defaults for each hop, which the router prefers."""
    standing: dict[str, list[str]] = {}
    for tunable in tunables:
        if tunable.instead_of and written.has(tunable.instead_of) and not written.has(tunable.flag):
            standing.setdefault(tunable.instead_of, []).append(f"{tunable.flag}={tunable.default}")
    for flag, stand in standing.items():
        own = written.last([flag])
        findings.warning(
            "no-effect",
            f"roles.router.args: {own.text if own else flag} is overruled by the recipe's {' and '.join(stand)}.",
            f"Write {' and '.join(text.partition('=')[0] for text in stand)} instead.",
            ["router"],
        )


# -- timeouts ------------------------------------------------------------------------------------------------------------------


def _check_timeouts(group: Group, template: GroupTemplate, sides: tuple[Side, Side], findings: Findings) -> None:
    """An engine's wait for its peer ends before the router's wait for the engine; a lease ends before what aborts the request."""
    text = Arguments(template.roles["router"].argv).value([TIMEOUT_FLAG])
    router = read_integer(text) if text else TIMEOUT
    # (whether someone wrote it, seconds, what it is called) of each wait above the router's, and the roles that wait so long.
    longer: dict[tuple[bool, int, str], list[str]] = {}
    for side in sides:
        lease = _seconds(connector_number(side, "kv_lease_duration"))
        own = group.kv_lease is not None
        waits = [(own or lease != template.mode.kv_lease.get("default"), lease, "the KV lease")] if lease else []
        for name, default in side.engine.waits.items():
            written = side.env.get(name)
            wait = default if written is None else read_integer(written)
            if wait is not None:
                waits.append((name in side.spec.env or (own and written is not None), wait, name))
                _check_abort(group, template, side, name, wait, lease, findings)
        for wait_of in waits:
            if router is not None and wait_of[1] > router:
                longer.setdefault(wait_of, []).append(side.role)
    if not longer:
        return
    # One is enough to know what to write: the longest that someone chose, else the longest default.
    own, wait, what = max(longer)
    roles = longer[own, wait, what]
    say = findings.error if own else findings.warning
    say(
        "timeouts-order",
        f"{' and '.join(roles)}: {what} is {wait} s, and the router gives a request up after {router} s"
        f" ({'--' + TIMEOUT_FLAG if text else 'its default'}): blocks stay held for a client that is gone.",
        f"Write --{TIMEOUT_FLAG}={wait} or more at roles.router.args, or shorten {what}.",
        [*roles, "router"],
    )


def _check_abort(
    group: Group, template: GroupTemplate, side: Side, name: str, wait: int, lease: int | None, findings: Findings
) -> None:
    """A user's own abort time below the lease that the spec or the connector promises."""
    if lease is None and group.kv_lease is not None:
        lease = _seconds(lease_of(group, template.mode))
    if name in side.spec.env and lease is not None and wait < lease:
        findings.error(
            "timeouts-order",
            f"{side.spec.env_place(name)}: {wait} s is below the KV lease of {lease} s: a request is given up while its blocks are"
            " promised.",
            f"Write {lease} or more, or lower kv_lease.",
            [side.role],
        )


def _seconds(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if abs(value) < 1e12 else None
    return read_integer(value) if isinstance(value, str) else None
