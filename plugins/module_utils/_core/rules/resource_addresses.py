# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of what one host has and another has not: addresses, interfaces and RDMA devices that a spec names for all of its members. An
error where the hosts' facts prove it wrong."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..base import address
from ..base.arguments import read_json_object
from ..base.finding import Findings
from ..facts.observed import Host
from ..spec.known import Known
from ..spec.spec import Group
from ..template.template import GroupTemplate
from .stands_for import Gathered, Placed, Stated, stated, told

_ADDRESSES = ("address", "HOST:PORT")
_DEVICES = ("interfaces", "interfaces, any", "RDMA", "RDMA, any", "net devices")
_INSTEAD = (
    "Remove it, if the recipe sets it; else write ${member.address} or ${member.kv_address}, which are each host's own."
)
_SEP = ","
# Words by which it finds them itself.
_ANY = ("", "all", "auto", "auto-discovery")
_Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def address_in(one: Stated) -> str | None:
    """The address that a text names: one that a single host can have. None for a name, a placeholder, and what is every host's own."""
    text = (address.split(one.text) or ("", 0))[0] if one.kind == "HOST:PORT" else one.text.strip("[]")
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return None if found.is_loopback or found.is_unspecified else str(found)


# -- before anything is placed ---------------------------------------------------------------------------------------------------------


def check(group: Group, template: GroupTemplate, known: Known, findings: Findings) -> None:
    """One address for both roles, whose hosts have none in common."""
    found = [known.hosts_of(role) for role in group.engine_roles]
    if None in found or {*(found[0] or ())} & {*(found[1] or ())}:
        return
    every = [s for role in group.engine_roles for s in _stated(group, template, role.name) if s.kind in _ADDRESSES]
    for one, roles in Gathered.of(every):
        if address_in(one) and len(roles) > 1:
            findings.error(
                "not-of-host",
                f"{told(one)}: prefill and decode are on different hosts, and one address is one host's alone.",
                _INSTEAD,
                roles,
            )


def _stated(group: Group, template: GroupTemplate, role: str) -> list[Stated]:
    rendered = template.roles[role]
    found = stated(group.roles[role], template.arguments(role, rendered.argv), rendered.env)
    use = rendered.cache
    for name, option in use.provider.options.items() if use else ():
        if use and option.devices and use.options.get(name):
            found.append(Stated(name, "RDMA", str(use.options[name]), f"{use.place}.options.{name}", role))
    return found


# -- as placed -------------------------------------------------------------------------------------------------------------------------


def check_members(placed: Placed, findings: Findings) -> None:
    """What a member is told and its host has not; addresses that two hosts say are theirs; KV addresses in two networks."""
    of_role = {role: _stated(placed.group, placed.template, role) for role in placed.engines}
    hosts: dict[str, list[str]] = {role: [] for role in sorted(of_role)}
    for member in placed.coming():
        for name in member.hosts if member.role in hosts else ():
            if name in placed.hosts and name not in hosts[member.role][-1:]:
                hosts[member.role].append(name)
    for role, names in hosts.items():
        for host in (placed.hosts[name] for name in dict.fromkeys(names)):
            for one in of_role[role]:
                if one.kind in _ADDRESSES:
                    _check_address(one, host, findings)
                elif one.kind in _DEVICES and one.literal:
                    _check_device(one, host, findings)
        _check_one_host_each(of_role[role], set(names), findings)
    _check_shared(placed, findings)
    _check_networks(placed, findings)


def _check_address(one: Stated, host: Host, findings: Findings) -> None:
    its = {a.partition("%")[0] for a in (*host.interface_addresses, host.address, host.kv_address) if a}
    named = address_in(one)
    if host.interfaces and named and named not in its:
        findings.error(
            "not-of-host",
            f"{told(one)}: {host.name} has no such address; it has {_listed(its)}.",
            _INSTEAD,
            [one.role],
            host.name,
        )


def _check_one_host_each(stated_: t.Iterable[Stated], hosts: set[str], findings: Findings) -> None:
    """One address of a role's members on several hosts, where the hosts do not tell which addresses they have."""
    for one in stated_:
        if one.kind not in _ADDRESSES or not address_in(one):
            continue
        wrong = {f.host for f in findings.errors if f.code == "not-of-host" and told(one) in f.message}
        if len(hosts - wrong) > 1:
            findings.error(
                "not-of-host",
                f"{told(one)}: members on {' and '.join(sorted(hosts))} would have it, and one address is one host's alone.",
                _INSTEAD,
                [one.role],
            )


def _listed(names: t.Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:8]) + (", ..." if len(found) > 8 else "") if found else "none"


# -- interfaces and RDMA devices ---------------------------------------------------------------------------------------------------------


def _check_device(one: Stated, host: Host, findings: Findings) -> None:
    names = [i.name for i in host.interfaces]
    ports = {p.name.partition(":")[0] for i in host.interfaces for p in i.rdma_ports}
    devices = None if host.rdma_devices is None else sorted({*host.rdma_devices, *ports})
    if one.kind.startswith("interfaces"):
        there: t.Sequence[str] | None = names or None
    elif one.kind == "net devices":
        there = None if devices is None or not names else [*names, *devices]
    else:
        there = devices
    if there is None:
        return
    wanted = _wanted(one)
    some = one.kind.endswith("any") or one.kind == "net devices"
    missing = (
        [] if some and any(_is_there(w, there) for w in wanted) else [w for w in wanted if not _is_there(w, there)]
    )
    if missing:
        what = (
            "interface"
            if one.kind.startswith("interfaces")
            else "RDMA device"
            if one.kind.startswith("RDMA")
            else "device"
        )
        findings.error(
            "not-of-host",
            f"{told(one)}: {host.name} has no {what} {' or '.join(w.lstrip('=').rstrip('*') for w in missing)}; it has {_listed(there)}.",
            "Remove it, or write ${member.kv_interface}, ${member.rdma_devices} or ${member.ucx_net_devices}: what each host has.",
            [one.role],
            host.name,
        )


def _wanted(one: Stated) -> list[str]:
    """The names in a text, as patterns; none where it excludes (^), means all, or is a file."""
    text = one.text
    if text.startswith(("^", "/")) or text.endswith(".json") or text.lower() in _ANY:
        return []
    by_gpu = read_json_object(text) if one.kind == "RDMA" else None
    words = [w for value in by_gpu.values() for w in str(value).split(",")] if by_gpu else text.split(",")
    if not one.kind.endswith("any"):
        return [w.strip().partition(":")[0] if one.kind != "interfaces" else w.strip() for w in words if w.strip()]
    # The sign stands once, before all of them.
    exact = text.startswith("=")
    names = [w.strip().lstrip("=").partition(":")[0] for w in words]
    return [name if exact else f"{name}*" for name in names if name]


def _is_there(pattern: str, names: t.Iterable[str]) -> bool:
    wanted = re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."))
    return any(wanted.fullmatch(name) for name in names)


# -- between the hosts -----------------------------------------------------------------------------------------------------------------


def _check_shared(placed: Placed, findings: Findings) -> None:
    """Two hosts of one address: whoever is sent there reaches one of them, for both."""
    if not placed.come:
        return
    used = dict.fromkeys(name for m in placed.members for name in m.hosts if name in placed.hosts)
    for what, variable in (("address", "pd_address"), ("kv_address", "pd_kv_interface")):
        by_address: dict[str, list[Host]] = {}
        for host in (placed.hosts[name] for name in used):
            its = getattr(host, what)
            if its and not (what == "kv_address" and host.kv_names == ("lo",)):
                by_address.setdefault(its, []).append(host)
        for its, hosts in by_address.items():
            machines = [host.machine for host in hosts if host.machine.known]
            # Names of one machine share its addresses, and of an unknown one nobody can tell.
            if any(not machines[0].same(other) for other in machines[1:]):
                findings.error(
                    "address-shared",
                    f"{' and '.join(host.name for host in hosts)} have one {'KV ' if what == 'kv_address' else ''}address, {its}:"
                    " what is sent there reaches one of them alone.",
                    f"Set {variable} of each host, in its own variables and not in those of a group.",
                )


def _check_networks(placed: Placed, findings: Findings) -> None:
    """KV addresses in two networks: mostly a wrong interface on one of the hosts. A fabric that routes between networks of its own, over
    interfaces of one name, is none."""
    if not placed.come or placed.mode.interface_plane == "none":
        return
    used = dict.fromkeys(n for m in placed.members if m.role in placed.engines for n in m.hosts if n in placed.hosts)
    groups = _by_network(placed.hosts[name] for name in used)
    names = {host.kv_names for hosts in groups.values() for host in hosts}
    nearer = [line for network, hosts in groups.items() for host in hosts for line in _nearer(host, network, groups)]
    if len(groups) < 2 or (len(names) == 1 and not nearer):
        return
    listed = [
        f"{net} on {_listed(f'{h.name} ({_SEP.join(h.kv_names)})' for h in hosts)}" for net, hosts in groups.items()
    ]
    findings.warning(
        "kv-networks",
        f"the KV addresses are in {len(groups)} networks: {'; '.join(listed[:8])}."
        + (f" {'; '.join(nearer[:4])}." if nearer else ""),
        "Set pd_kv_interface of the hosts to interfaces of one network; where all are routed, and as fast, nothing is to be done.",
    )


def _by_network(hosts: t.Iterable[Host]) -> dict[_Network, list[Host]]:
    """The hosts by the network of their KV address, those left out of which it is not known. One that holds another is one with it: two
    hosts may write the prefix differently."""
    found: dict[_Network, list[Host]] = {}
    for host in hosts:
        network = _network_of(host)
        if network is not None:
            found.setdefault(network, []).append(host)
    groups: dict[_Network, list[Host]] = {}
    for network in sorted(found, key=lambda n: (n.version, n.prefixlen, int(n.network_address))):
        wider = next((n for n in _wider(network) if n in groups), network)
        groups.setdefault(wider, []).extend(found[network])
    return groups


def _wider(network: _Network) -> t.Iterator[_Network]:
    """The networks that hold this one, itself first."""
    return (network.supernet(new_prefix=prefix) for prefix in range(network.prefixlen, 0, -1))


def _nearer(host: Host, mine: _Network, groups: t.Mapping[_Network, t.Sequence[Host]]) -> t.Iterator[str]:
    """The interfaces by which a host is in the network of others' KV addresses."""
    for one in host.interfaces:
        its = {wider for n in _networks(one.networks) for wider in _wider(n) if wider in groups and wider != mine}
        for network in its if one.name not in host.kv_names else ():
            yield f"{host.name} is in the network of {_listed(other.name for other in groups[network])} by {one.name}"


def _network_of(host: Host) -> _Network | None:
    """The network of a host's KV address; None where it is not known, or has no other address in it."""
    try:
        its = ipaddress.ip_address((host.kv_address or "").partition("%")[0])
    except ValueError:
        return None
    found = (n for one in host.interfaces if one.name in host.kv_names for n in _networks(one.networks))
    return next((n for n in found if n.version == its.version and its in n and n.num_addresses > 1), None)


def _networks(texts: t.Iterable[str]) -> t.Iterator[_Network]:
    for text in texts:
        try:
            yield ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue
