# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of what one host has and another has not: addresses, interfaces and RDMA devices that a spec names for all of its members. An
error where the hosts' facts prove it wrong."""

from __future__ import annotations

import ipaddress
import re
import typing as t
from dataclasses import dataclass, field

from ..base import address
from ..base.arguments import read_json_object
from ..base.finding import Findings
from ..base.words import MOST_HOSTS, about, names
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
_OF_DEVICES = "Remove it, or write ${member.kv_interface}, ${member.rdma_devices} or ${member.ucx_net_devices}: what each host has."
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
    for said in _said(placed):
        if said.one.kind in _ADDRESSES:
            _check_address(said, findings)
        elif said.one.kind in _DEVICES and said.one.literal:
            _check_device(said, findings)
    _check_shared(placed, findings)
    _check_networks(placed, findings)


@dataclass
class _Said:
    """What is written in one place, and the roles and hosts of the members that come with it."""

    one: Stated
    roles: list[str] = field(default_factory=list)
    hosts: dict[str, Host] = field(default_factory=dict)


def _said(placed: Placed) -> t.Iterable[_Said]:
    hosts: dict[str, dict[str, Host]] = {role: {} for role in sorted(placed.engines)}
    for member in placed.coming():
        if member.role in hosts:
            hosts[member.role].update((name, placed.hosts[name]) for name in member.hosts if name in placed.hosts)
    found: dict[tuple[str, str, str], _Said] = {}
    for role, its in hosts.items():
        for one in _stated(placed.group, placed.template, role) if its else ():
            said = found.setdefault((one.place, one.name, one.text), _Said(one))
            said.roles.append(role)
            said.hosts.update(its)
    return found.values()


def _check_address(said: _Said, findings: Findings) -> None:
    named = address_in(said.one)
    if not named:
        return
    its = {name: _addresses(host) for name, host in said.hosts.items()}
    wrong = {name: its[name] for name, host in said.hosts.items() if host.interfaces and named not in its[name]}
    _say_lacking(said, wrong, "such address", _INSTEAD, findings)
    # Where the hosts do not tell which addresses they have.
    rest = sorted(set(its) - set(wrong))
    if len(rest) > 1:
        findings.error(
            "not-of-host",
            f"{told(said.one)}: members on {names(rest, MOST_HOSTS)} would have it, and one address is one host's alone.",
            _INSTEAD,
            said.roles,
        )


def _addresses(host: Host) -> set[str]:
    return {a.partition("%")[0] for a in (*host.interface_addresses, host.address, host.kv_address) if a}


def _say_lacking(said: _Said, hosts: t.Mapping[str, t.Iterable[str]], what: str, hint: str, findings: Findings) -> None:
    """Hosts without what is written, with what each of them has: one finding, that shows it of the first."""
    if hosts:
        first = next(iter(hosts))
        findings.error(
            "not-of-host",
            f"{told(said.one)}: {about(list(hosts), f'has no {what}', MOST_HOSTS)}; {'it' if len(hosts) == 1 else first} has"
            f" {_listed(hosts[first])}.",
            hint,
            said.roles,
            first if len(hosts) == 1 else None,
        )


def _listed(names: t.Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:8]) + (", ..." if len(found) > 8 else "") if found else "none"


# -- interfaces and RDMA devices ---------------------------------------------------------------------------------------------------------


def _check_device(said: _Said, findings: Findings) -> None:
    kind = said.one.kind
    what = "interface" if kind.startswith("interfaces") else "RDMA device" if kind.startswith("RDMA") else "device"
    # By what is missing: hosts may lack different ones of a list.
    wrong: dict[tuple[str, ...], dict[str, t.Sequence[str]]] = {}
    for name, host in said.hosts.items():
        there = _devices_there(kind, host)
        missing = None if there is None else _missing(said.one, there)
        if there is not None and missing:
            wrong.setdefault(missing, {})[name] = there
    for missing, hosts in wrong.items():
        _say_lacking(said, hosts, f"{what} {' or '.join(missing)}", _OF_DEVICES, findings)


def _devices_there(kind: str, host: Host) -> t.Sequence[str] | None:
    """What a host has of a kind; None where nobody has looked."""
    interfaces = [i.name for i in host.interfaces]
    ports = {p.name.partition(":")[0] for i in host.interfaces for p in i.rdma_ports}
    devices = None if host.rdma_devices is None else sorted({*host.rdma_devices, *ports})
    if kind.startswith("interfaces"):
        return interfaces or None
    if kind == "net devices":
        return None if devices is None or not interfaces else [*interfaces, *devices]
    return devices


def _missing(one: Stated, there: t.Sequence[str]) -> tuple[str, ...]:
    """The names in a text that are not there, as a person is told them."""
    wanted = _wanted(one)
    some = one.kind.endswith("any") or one.kind == "net devices"
    if some and any(_is_there(w, there) for w in wanted):
        return ()
    return tuple(w.lstrip("=").rstrip("*") for w in wanted if not _is_there(w, there))


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
