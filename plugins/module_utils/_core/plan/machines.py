# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines the hosts of a plan are: an inventory name is no identity. One state folder under two names would be one host planned
twice; one machine under two names with a folder each is allowed, and told."""

from __future__ import annotations

import typing as t

from ..base.finding import Findings
from ..facts.observed import Host
from ..facts.record import Record


def check(hosts: t.Mapping[str, Host], findings: Findings) -> None:
    """Every host of the plan against every other, by keys: the work grows with the hosts, not with their pairs."""
    _check_folders(hosts, findings)
    _check_clones(hosts, findings)


def check_group(group: str, hosts: t.Mapping[str, Host], noted: Record | None, findings: Findings) -> None:
    """Members of the group that its record names, and that run under another state folder than the inventory says: a former pd_state_dir.
    Of others of the name nobody can tell whose they are, and another inventory may have a group of that name: their ports and GPUs are
    taken, and no router of this group gets to know them."""
    others = [host for host in hosts.values() if host.elsewhere]
    if not others:
        return
    known = {(host.machine, str(host.state.get("dir"))) for host in hosts.values()}
    places = {(place.host, place.id): place.ports for place in noted.members} if noted else {}
    for host in others:
        own: dict[str, list[str]] = {}
        for one in host.elsewhere:
            at_its_place = places.get((host.name, one.member), set()) & set(one.ports)
            if one.group == group and (host.machine, one.state_dir) not in known and at_its_place:
                own.setdefault(one.state_dir, []).append(one.member)
        for place, names in sorted(own.items()):
            findings.error(
                "other-state-folder",
                f"{host.name} runs {', '.join(sorted(names))} of {group} under another state folder, {place}; the inventory says"
                f" {host.state.get('dir')}: they are neither seen as members of this group nor stopped.",
                f"Set pd_state_dir of {host.name} to {place}, or run as the user who deployed; to move, remove the group first.",
                [],
                host.name,
            )


def _check_folders(hosts: t.Mapping[str, Host], findings: Findings) -> None:
    by_folder: dict[tuple[str, ...], list[Host]] = {}
    for host in hosts.values():
        key = folder(host)
        if key:
            by_folder.setdefault(key, []).append(host)
    for found in by_folder.values():
        if len(found) < 2:
            continue
        names, first = " and ".join(sorted(h.name for h in found)), found[0]
        one = all(first.machine.same(h.machine) for h in found)
        what = "one machine" if one else "machines that share it (NFS?), or copies of one disk"
        findings.error(
            "one-state-folder",
            f"{names} are {what}, with one state folder, {first.state.get('dir')}: what the one does would be undone by the other.",
            "Keep one of the names in the inventory, or give each a pd_state_dir of its own."
            if one
            else f"Give each a state folder on its own disk (pd_state_dir); on a copied disk delete {first.state.get('dir')}/id"
            " of the copy.",
        )
    by_machine: dict[tuple[str | None, str | None], list[Host]] = {}
    for host in hosts.values():
        if host.machine.known:
            by_machine.setdefault((host.machine.id, host.machine.boot), []).append(host)
    for found in by_machine.values():
        namespaces = {h.machine.netns for h in found}
        if len(found) > 1 and len(namespaces) < len(found):
            names = ", ".join(sorted(h.name for h in found))
            findings.warning(
                "one-machine",
                f"{names} are one machine, each with a state folder of its own: its GPUs and ports are counted from all of them.",
                "",
            )


def folder(host: Host) -> tuple[str, ...] | None:
    """What makes a state folder the same one: its own id, else (nothing has been kept in it yet) where it is on its machine."""
    if host.state.get("id"):
        return ("id", str(host.state["id"]))
    if host.state.get("place") and host.machine.known:
        return ("place", str(host.machine.id), str(host.machine.boot), str(host.state["place"]))
    return None


def _check_clones(hosts: t.Mapping[str, Host], findings: Findings) -> None:
    by_id: dict[str, list[Host]] = {}
    for host in hosts.values():
        if host.machine.id:
            by_id.setdefault(host.machine.id, []).append(host)
    for found in by_id.values():
        if len({h.machine.boot for h in found if h.machine.boot}) > 1:
            findings.warning(
                "cloned-machine",
                f"{', '.join(sorted(h.name for h in found))} have one machine-id and are not one machine: they are clones.",
                "Give each its own: rm /etc/machine-id && systemd-machine-id-setup, then boot it.",
            )
