# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoint hooks on the controller: the entries of pd_endpoint_hooks, whose hosts they are on, and which of these can be asked."""

from __future__ import annotations

import difflib
import typing as t

from ..module_utils._core.base import braces
from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings
from ..module_utils._core.base.reader import Reader
from ..module_utils._core.base.words import names as listed
from ..module_utils._core.facts.announced import Announced
from ..module_utils._core.facts.observed import Host
from ..module_utils._core.hooks.hook import Hook
from ..module_utils._core.plan.hooks import NOTHING, SKIP, Wired
from ..module_utils._core.spec.endpoint import VARIABLE, read_hook
from ..module_utils._core.spec.spec import Group
from ._absent import named, say
from ._action import PdAction
from ._plain import names_list, to_plain

_GONE = "is not in the inventory"


def _entries(action: PdAction) -> t.Mapping[str, t.Any]:
    """The entries as they are written: each is templated when a group names it."""
    raw = action.task_vars.get(VARIABLE)
    found = raw if isinstance(raw, t.Mapping) else action.variable(VARIABLE)
    if found in (None, ""):
        return {}
    if not isinstance(found, t.Mapping):
        raise PdError(
            f"{VARIABLE} is not a dictionary of hooks by name. Write {VARIABLE}: {{NAME: {{kind: ..., hosts: ...}}}}."
        )
    return {str(name): entry for name, entry in found.items()}


def _read(action: PdAction, name: str, findings: Findings) -> Hook | None:
    written = to_plain(action._templated(_entries(action)[name]))
    braces.check(written, f"{VARIABLE}.{name}", findings)
    return read_hook(name, written, Reader(findings))


def check(action: PdAction, group: Group, findings: Findings) -> None:
    """What is wrong with the hooks that a spec names: before any host is asked."""
    known = _entries(action)
    for at, name in enumerate(group.endpoint.hooks):
        place = f"pd_groups.{group.name}.endpoint.hooks[{at}]"
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            there = f"Known hooks: {listed(sorted(known))}." if known else f"{VARIABLE} defines none."
            findings.error(
                "unknown-hook",
                f"{place}: there is no hook {name!r}.",
                f"Did you mean {near[0]!r}?" if near else f"Define it in {VARIABLE}, or take it out. {there}",
            )
            continue
        hook = _read(action, name, findings)
        _check_alone(name, hook, known, findings)
        absent = [] if hook is None else [one for one in named(hook.hosts) if one in action.absent(hook.hosts)]
        if absent and name not in names_list(action.variable(SKIP)):
            inventory = action._inventory()
            otherwise = f"To go on without the hook, whose clients are told nothing then: -e {SKIP}={name}"
            say(findings, [f"{VARIABLE}.{name}.hosts"], absent, [*inventory.hosts, *inventory.groups], otherwise)
        elif hook is not None and not action.pattern_hosts(hook.hosts):
            findings.error(
                "no-hosts",
                f"{VARIABLE}.{name}.hosts: the pattern {hook.hosts!r} matches no host of the inventory.",
                "Name a group or host that exists; see ansible-inventory --graph. The controller itself is one once it stands in the"
                " inventory: localhost, with ansible_connection: local.",
            )


def _check_alone(name: str, hook: Hook | None, known: t.Mapping[str, t.Any], findings: Findings) -> None:
    """A file is one hook's: two would each write its own lines over those of the other."""
    path = hook.file if hook is not None and hook.kind != "tasks" else None
    for other, entry in known.items():
        if path and other != name and isinstance(entry, t.Mapping) and str(entry.get("file")) == path:
            findings.error(
                "hook-file-twice",
                f"{VARIABLE}.{name}.file: {path} is the file of hook {other} as well: each would write over the other.",
                "Give each hook a file of its own; groups that are to be behind one name share one hook.",
            )


def wired(
    action: PdAction,
    recorded: t.Sequence[t.Mapping[str, Announced]],
    named: t.Iterable[str],
    hosts: t.Mapping[str, Host],
    findings: Findings,
) -> Wired:
    """The hooks that a plan of a group may have to tell: those that are named, by its spec, and those that its records say know it."""
    every = list(dict.fromkeys((*named, *(name for one in recorded for name in one))))
    if not every:
        return NOTHING
    entries, found = _entries(action), {}
    for name in every:
        hook = _read(action, name, findings) if name in entries else None
        if hook is not None:
            found[name] = (hook, tuple(action.pattern_hosts(hook.hosts)))
    concerned = {host for _hook, its in found.values() for host in its}
    concerned |= {host for known in recorded for one in known.values() for host in one.hosts}
    away = _away(action, concerned)
    gone = frozenset(host for host, why in away.items() if why == _GONE)
    skip = _skipped(action, {*entries, *_recorded(hosts)})
    return Wired(found, skip, away, frozenset(action.away()), gone)


def _recorded(hosts: t.Mapping[str, Host]) -> set[str]:
    """The hooks that any record names."""
    return {name for host in hosts.values() for record in host.records.values() for name in record.endpoint.hooks}


def _skipped(action: PdAction, known: t.Collection[str]) -> frozenset[str]:
    """The hooks that the run goes without. Raises PdError for one that there is not: the one that was meant would be told."""
    found = names_list(action.variable(SKIP))
    for name in (one for one in found if one not in known):
        near = difflib.get_close_matches(name, known, 1, 0.5)
        way_out = f"Did you mean {near[0]!r}?" if near else f"Known hooks: {listed(sorted(known)) or 'none'}."
        raise PdError(f"{SKIP}: there is no hook {name!r}. {way_out}")
    return frozenset(found)


def _away(action: PdAction, hosts: t.Iterable[str]) -> dict[str, str]:
    """Why hosts cannot be asked, as far as that is known: this run may not have looked at them."""
    if action.args.get("hosts") is not None:
        return {}
    inventory = {host for some in (action.task_vars.get("groups") or {}).values() for host in some}
    asked = set(action.task_vars.get("ansible_play_hosts_all") or ())
    silent, living = action.seen().silent, action.living()
    found = {}
    for host in hosts:
        if host not in inventory:
            found[host] = _GONE
        elif host not in asked:
            found[host] = "was left out of this run"
        elif host in silent or host not in living:
            found[host] = "did not answer"
    return found
