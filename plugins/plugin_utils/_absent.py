# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that there are, and that the inventory of a run has not. An inventory may be thinner than its sources: AWX leaves out hosts that
are disabled, and gives a slice of a job its part of each group. Nothing tells a run so, but a name that is written down."""

from __future__ import annotations

import re
import typing as t

from ansible.constants import LOCALHOST
from ansible.errors import AnsibleError
from ansible.inventory.manager import split_host_pattern
from ansible.plugins.inventory import expand_hostname_range

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings
from ..module_utils._core.base.words import MOST_HOSTS, by_number, names
from ..module_utils._core.spec.selector import nearest
from ._plain import names_list, to_plain

# By groups of the inventory, the names of the hosts that they have.
VARIABLE = "pd_expected_hosts"
_FORM = f"Write {VARIABLE}: {{GROUP: [node-a, 'node-[01:16]']}}, names by groups of the inventory"
# What makes hosts of the inventory itself.
_OF_INVENTORY = re.compile(r"\{[{%].*\b(groups|hostvars|inventory_hostnames|ansible_play_\w+|play_hosts)\b", re.S)
# Of one term of a pattern: what it takes away or crosses, and what matches names that it does not say.
_NO_NAME = re.compile(r"[!&~]|.*[*?\[\]]")


def named(pattern: str) -> list[str]:
    """The names, of hosts or of groups, that a pattern of hosts says in full."""
    terms = split_host_pattern(pattern) if pattern else []
    return [term for term in terms if term and not _NO_NAME.match(term) and term not in LOCALHOST]


def say(
    findings: Findings,
    places: t.Sequence[str],
    absent: t.Sequence[str],
    known: t.Iterable[str],
    otherwise: str,
    roles: t.Iterable[str] = (),
) -> None:
    """The finding for patterns, by their places, that name what is absent. `known` are the names that there are, `otherwise` is another way
    out."""
    near = nearest(absent[0], known) if len(absent) == 1 else ""
    it, none = by_number(absent, "it", "them"), by_number(absent, "no host or group of that name", "none of these")
    findings.error(
        "hosts-absent",
        f"{names(places)} {by_number(places, 'names', 'name')} {names(absent, MOST_HOSTS)}, and the inventory of this run has {none}.",
        f"{near}Put {it} back into the inventory (in AWX, enable {it}), or take {it} out of the pattern. {otherwise}",
        roles,
    )


def expected(raw: object, plain: t.Callable[[t.Any], t.Any], groups: t.Collection[str]) -> dict[str, list[str]]:
    """The hosts that each of the inventory's `groups` is to have, ranges written out. `raw` is the variable as the play has it, `plain`
    templates a value. Raises PdError for what cannot be read, for a group that there is not, and for what is made of the inventory: whoever
    is absent there would be absent here."""
    if any(_OF_INVENTORY.search(text) for text in _texts(raw)):
        raise PdError(
            f"{VARIABLE} is made of the inventory itself, so it would never miss a host. Write the names out, or have"
            " what makes the inventory write them."
        )
    found = to_plain(plain(raw))
    if not isinstance(found, dict):
        raise PdError(f"{VARIABLE} is no dictionary. {_FORM}.")
    for group in (str(one) for one in found if str(one) not in groups):
        raise PdError(f"{VARIABLE}.{group}: the inventory has no group of that name. {nearest(group, groups)}{_FORM}.")
    return {str(group): _hosts(str(group), its) for group, its in found.items()}


def _hosts(group: str, written: object) -> list[str]:
    if not isinstance(written, (str, list)) or any(not isinstance(one, str) for one in written):
        raise PdError(f"{VARIABLE}.{group}: {str(written)[:80]!r} is no list of names. {_FORM}.")
    hosts: list[str] = []
    for name in names_list(written):
        if not name.rpartition("[")[1]:
            hosts.append(name)
            continue
        try:
            its = expand_hostname_range(name)
        except (AnsibleError, ValueError, IndexError):
            its = []
        if not its:
            raise PdError(f"{VARIABLE}.{group}: {name!r} is no range of names. Write it as node-[01:16].")
        hosts += its
    return hosts


def _texts(raw: object) -> t.Iterator[str]:
    if isinstance(raw, str):
        yield raw
    elif isinstance(raw, t.Mapping):
        for one in raw.values():
            yield from _texts(one)
    elif isinstance(raw, (list, tuple)):
        for one in raw:
            yield from _texts(one)
