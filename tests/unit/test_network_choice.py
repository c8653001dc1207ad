# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interface carries the KV cache: on recorded hosts, and on what `ip -j -d` says of single interfaces."""

from __future__ import annotations

import json

import pytest
from recorded_hosts import interfaces as recorded

from ansible_collections.inferops.pd.plugins.module_utils._core.facts.kv_interface import names_of
from ansible_collections.inferops.pd.plugins.module_utils._probes import links, network


def link(name, *addresses, state="UP", flags=("UP",), kind="", **more):
    info = []
    for address in addresses:
        ip, _slash, prefix = address.partition("/")
        info.append({"family": "inet6" if ":" in ip else "inet", "local": ip, "prefixlen": int(prefix or 24)})
    made = {"ifindex": 1, "ifname": name, "flags": list(flags), "mtu": 1500, "operstate": state, "addr_info": info}
    return {**made, **({"linkinfo": {"info_kind": kind}} if kind else {}), **more}


LO = link("lo", "127.0.0.1", "::1", state="UNKNOWN", flags=("LOOPBACK", "UP"))
ETH0 = link("eth0", "10.0.0.7", "fe80::1")
ETH2 = link("eth2", "10.1.0.7")
ETH3 = link("eth3", "10.2.0.7")


def interfaces(*raw, default="eth0", devices=()):
    found = links.parse_addr(json.dumps(raw))
    for one in found:
        one.default_route = one.name == default
        one.device = one.name in devices
    return network.judge(found, "/nowhere")


def choose(*given):
    """The choice, as a host's facts tell it."""
    return network.choose(*given).to_plain()


def why_not(one, **how):
    return {i.name: i.why_not for i in interfaces(one, **how)}[one["ifname"]]


# -- recorded hosts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "candidates"),
    [
        ("vm", ["eth0"]),
        ("container", ["eth0", "rdma0"]),
        # p0 leads to another namespace with a network of its own: a NIC as good as the uplink, as far as the kernel tells.
        ("container-host", ["p0", "uplink", "mac0"]),
        ("ipv6-only", ["eth0"]),
        ("bond-vlan", ["eno1", "bond0.100"]),
        ("rails", ["eth0", "rail0", "rail1"]),
        ("infiniband", ["eno1", "ibp65s0"]),
    ],
)
def test_candidates_of_recorded_hosts(host, candidates, tmp_path, monkeypatch):
    assert [i.name for i in recorded(host, tmp_path, monkeypatch) if i.candidate] == candidates


@pytest.mark.parametrize(
    ("host", "name", "part"),
    [
        ("vm", "pdm213", "a bridge without a NIC"),
        ("vm", "m213-1", "a part of pdm213"),
        ("vm", "ifb0", "down"),
        ("container-host", "docker0", "a bridge without a NIC"),
        ("container-host", "stub7", "a part of docker0"),
        ("container-host", "flannel.1", "a tunnel (vxlan)"),
        ("container-host", "cilium_host", "its other end is on this host"),
        ("container-host", "ptp7", "a single container"),
        ("bond-vlan", "ens1f0np0", "a part of bond0"),
        ("bond-vlan", "bond0", "no address that another host could route to"),
        ("bond-vlan", "virbr0", "a bridge without a NIC"),
        ("bond-vlan", "vnet0", "a part of virbr0"),
        ("rails", "rail2", "down"),
    ],
)
def test_why_an_interface_of_a_recorded_host_does_not_count(host, name, part, tmp_path, monkeypatch):
    assert part in {i.name: i.why_not for i in recorded(host, tmp_path, monkeypatch)}[name]


def test_a_refusal_tells_what_one_chooses_by(tmp_path, monkeypatch):
    error = choose(recorded("bond-vlan", tmp_path, monkeypatch), [], "data", "192.168.1.7")["error"]
    assert "pd_kv_interface" in error
    assert "eno1 (192.168.1.7, 1 Gb/s, driver igb, no RDMA, default route)" in error
    assert "bond0.100 (10.20.0.7, 200 Gb/s, vlan, RDMA mlx5_bond_0:1)" in error


def test_the_speed_of_a_pair_is_made_up_and_not_told(tmp_path, monkeypatch):
    found = {i.name: i for i in recorded("container", tmp_path, monkeypatch)}
    assert found["rdma0"].rate is None
    assert "speed unknown" in found["rdma0"].told


def test_rails_with_their_devices_index_mtu_and_speed(tmp_path, monkeypatch):
    chosen = choose(recorded("rails", tmp_path, monkeypatch), ["rail1", "rail0"], "data", "10.0.0.7")
    assert chosen["error"] is None
    assert (chosen["names"], chosen["address"]) == (["rail1", "rail0"], "10.2.0.7")
    assert chosen["rdma_devices"] == ["mlx5_2:1", "mlx5_10:1"]
    assert (chosen["gid_index"], chosen["mtu"], chosen["speed"]) == (3, 9000, 800_000)


def test_infiniband_has_devices_and_a_speed_and_no_index(tmp_path, monkeypatch):
    chosen = choose(recorded("infiniband", tmp_path, monkeypatch), ["ibp65s0"], "data", "192.168.1.7")
    assert (chosen["rdma_devices"], chosen["gid_index"], chosen["speed"], chosen["mtu"]) == (
        ["mlx5_0:1"],
        None,
        400_000,
        2044,
    )


def test_a_host_with_ipv6_alone_has_an_address(tmp_path, monkeypatch):
    found = recorded("ipv6-only", tmp_path, monkeypatch)
    assert network.http_address(found, None) == "2001:db8::7"
    assert choose(found, [], "data", None)["address"] == "2001:db8::7"


def test_the_first_address_of_an_interface_and_not_one_that_moves(tmp_path, monkeypatch):
    found = {i.name: i for i in recorded("container", tmp_path, monkeypatch)}
    assert found["rdma0"].address() == "10.214.0.11"
    assert found["rdma0"].address("10.214.0.100") == "10.214.0.100"


# -- what counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (link("eth0", "10.0.0.1"), True),
        (link("docker0", "10.0.0.1"), True),  # a name alone says nothing
        (link("ib0", "fe80::3"), False),
        (link("eth0", "169.254.1.1"), False),
        (link("eth0", "224.0.0.9"), False),
        (link("eth0", "fd00::1"), True),
        (link("bond0.100", "10.0.0.1", kind="vlan", link="bond0"), True),
        (link("eth0"), False),
        (link("eth0", "10.0.0.1", state="DOWN"), False),
        (link("eth0", "10.0.0.1", state="LOWERLAYERDOWN"), False),
        (link("macvlan0", "10.0.0.1", kind="macvlan", link="eth1"), True),
        (link("ipvlan0", "10.0.0.1", kind="ipvlan", link="eth1"), True),
        (link("team0", "10.0.0.1", kind="team"), True),
        (link("wg", "10.0.0.1", kind="wireguard", state="UNKNOWN"), False),
        (link("vpn", "100.64.0.1", kind="tun", state="UNKNOWN"), False),
        (link("uplink", "10.0.0.1", kind="gre"), False),
        (link("eth9", "10.0.0.1", kind="dummy", state="UNKNOWN"), False),
        (link("wlan0", "10.0.0.1", state="UNKNOWN"), True),
        (link("eth0", "10.0.0.1", flags=()), False),
        (link("ppp0", "10.0.0.1/32", flags=("POINTOPOINT", "UP"), state="UNKNOWN"), False),
        (link("red", "10.0.0.1", master="vrf-red"), False),
        (link("br-int", "10.0.0.1", kind="openvswitch", state="UNKNOWN"), False),
        (LO, False),
    ],
)
def test_what_counts_as_a_candidate(one, counts):
    assert (not why_not(one, default=None, devices=("eth0",))) is counts


def test_a_bridge_counts_with_a_nic_in_it_or_the_default_route():
    bridge, port = link("br0", "10.0.0.1", kind="bridge"), link("eno1", master="br0")
    assert {i.name: i.candidate for i in interfaces(bridge, port, devices=("eno1",))} == {"br0": True, "eno1": False}
    bond, vlan = link("bond0", kind="bond"), link("bond0.5", kind="vlan", link="bond0", master="br0")
    slave = link("eno1", master="bond0")
    found = interfaces(bridge, bond, vlan, slave, devices=("eno1",))
    assert [i.name for i in found if i.candidate] == ["br0"]
    stub = link("veth1", kind="veth", master="br0", link_index=4, link_netnsid=0)
    assert "without a NIC" in why_not(bridge)
    assert why_not(bridge) == {i.name: i.why_not for i in interfaces(bridge, stub)}["br0"]
    assert not why_not(bridge, default="br0")
    # The host's own NIC may hang below a switch of Open vSwitch, which then has its address.
    assert not why_not(link("br-ex", "10.0.0.1", kind="openvswitch", state="UNKNOWN"), default="br-ex")


def test_one_end_of_a_pair_is_a_nic_inside_and_a_stub_outside():
    end = link("eth0", "10.0.0.7", kind="veth", link_index=9, link_netnsid=0)
    data = link("data0", "10.1.0.7", kind="veth", link_index=9, link_netnsid=0)
    nic = link("eno1", "192.168.1.7")
    assert [i.name for i in interfaces(end, data) if i.candidate] == ["eth0", "data0"]
    assert [i.name for i in interfaces(end, data, default=None) if i.candidate] == ["eth0", "data0"]
    assert [i.name for i in interfaces(nic, data, default="eno1", devices=("eno1",)) if i.candidate] == ["eno1"]
    # An SR-IOV function was given to the container beside its own end of a pair.
    assert [i.name for i in interfaces(end, nic, devices=("eno1",)) if i.candidate] == ["eth0", "eno1"]
    both = [link("a", "10.0.0.1", kind="veth", link="b"), link("b", kind="veth", link="a"), end]
    assert [i.name for i in interfaces(*both) if i.candidate] == ["eth0"]


def test_a_slave_of_a_vrf_keeps_its_address():
    found = interfaces(
        link("vrf-red", "10.9.0.1", kind="vrf"), link("eno1", "10.0.0.1", master="vrf-red"), default=None
    )
    assert {i.name: i.candidate for i in found} == {"vrf-red": False, "eno1": True}


# -- choosing ---------------------------------------------------------------------------------------------------------


def test_the_only_candidate_is_used():
    chosen = choose(interfaces(LO, ETH0, link("docker0", "172.17.0.1", kind="bridge")), [], "data", "10.0.0.7")
    assert (chosen["names"], chosen["address"], chosen["error"]) == (["eth0"], "10.0.0.7", None)
    assert chosen["reason"]


def test_the_only_candidate_is_used_though_the_address_is_elsewhere():
    chosen = choose(interfaces(LO, ETH2), [], "data", "203.0.113.9")
    assert (chosen["names"], chosen["address"]) == (["eth2"], "10.1.0.7")


def test_several_are_refused_with_the_list():
    chosen = choose(interfaces(LO, ETH0, ETH2), [], "data", "10.0.0.7")
    assert (chosen["names"], chosen["candidates"]) == ([], ["eth0", "eth2"])
    assert "eth0 (10.0.0.7" in chosen["error"]
    assert "eth2 (10.1.0.7" in chosen["error"]


def test_no_candidate_tells_why_the_others_are_none():
    error = choose(interfaces(LO, link("docker0", "172.17.0.1", kind="bridge")), [], "data", None)["error"]
    assert "docker0: it is a bridge without a NIC" in error


def test_control_plane_takes_the_hosts_own():
    chosen = choose(interfaces(LO, ETH0, ETH2), [], "control", "10.0.0.7")
    assert chosen["names"] == ["eth0"]
    assert "no interface has" in choose(interfaces(LO, ETH0), [], "control", "10.9.9.9")["error"]


def test_a_name_that_means_the_loopback_on_its_own_host_is_no_address():
    """Debian writes 127.0.1.1 for a host's own name."""
    found = interfaces(LO, ETH0, ETH2)
    at_home = {"h1": ["127.0.1.1"], "h2": ["127.0.1.1", "10.1.0.7"]}
    assert choose(found, [], "control", "h1", at_home.get)["names"] == ["eth0"]
    assert choose(found, [], "control", "h2", at_home.get)["names"] == ["eth2"]
    assert choose(found, ["eth2"], "data", "h1", at_home.get)["address"] == "10.1.0.7"


def test_rails_in_their_order():
    chosen = choose(interfaces(LO, ETH0, ETH2, ETH3), ["eth3", "eth2"], "data", "10.0.0.7")
    assert (chosen["names"], chosen["address"]) == (["eth3", "eth2"], "10.2.0.7")


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (["eth9"], "names eth9, which the host has not (it has lo, eth0, ib0, eth4, eth5)"),
        (["ib0"], "which has no usable address"),
        (["eth4"], "eth4 is down"),
        (["eth0", "eth5"], "eth5 is a part of bond0: name that one"),
    ],
)
def test_a_wrong_override_is_told(names, part):
    down, slave = link("eth4", "10.4.0.1", state="DOWN"), link("eth5", master="bond0")
    found = interfaces(LO, ETH0, link("ib0", "fe80::2"), down, slave)
    assert part in choose(found, names, "data", "10.0.0.7")["error"]


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", "127.0.0.1"), ("127.0.0.3", "127.0.0.3"), ("10.0.0.7", "127.0.0.1")]
)
def test_loopback_only_when_named(address, expected):
    assert choose(interfaces(LO, ETH0), ["lo"], "data", address)["address"] == expected
    assert choose(interfaces(LO), [], "data", address)["error"]


def test_any_interface_may_be_named():
    found = interfaces(LO, ETH0, link("docker0", "172.17.0.1", kind="bridge"))
    assert choose(found, ["docker0"], "data", "10.0.0.7")["address"] == "172.17.0.1"


# -- addresses and routes -----------------------------------------------------------------------------------------------


def test_ipv4_before_ipv6_before_nothing():
    (one,) = interfaces(link("eth0", "fd00::1", "10.0.0.7"))
    assert one.address() == "10.0.0.7"
    assert one.address("fd00::1") == "fd00::1"
    (one,) = interfaces(link("eth0", "fe80::1", "fd00::1"))
    assert one.address() == "fd00::1"


def test_addresses_that_come_and_go_are_last():
    raw = link("eth0")
    raw["addr_info"] = [
        {"local": "2001:db8::aa", "prefixlen": 64, "temporary": True},
        {"local": "2001:db8::7", "prefixlen": 64},
        {"local": "2001:db8::bb", "prefixlen": 64, "tentative": True},
        {"local": "2001:db8::cc", "prefixlen": 64, "dadfailed": True},
    ]
    (one,) = interfaces(raw)
    assert [a.ip for a in one.addresses] == ["2001:db8::7", "2001:db8::aa"]


def test_http_address():
    assert network.http_address(interfaces(LO, ETH0, ETH2), None) == "10.0.0.7"
    assert network.http_address(interfaces(LO, ETH0, ETH2), "203.0.113.9") == "203.0.113.9"
    assert network.http_address(interfaces(LO, ETH2, default=None), None) == "10.1.0.7"
    assert network.http_address(interfaces(LO, ETH0, ETH2, default=None), None) is None


def test_default_routes_by_metric_and_hops():
    routes = [
        {"dst": "10.0.0.0/24", "dev": "eth1"},
        {"dst": "default", "gateway": "10.1.0.1", "dev": "eth2", "metric": 200},
        {"dst": "default", "gateway": "10.0.0.1", "dev": "eth0", "metric": 100},
        {"dst": "default", "metric": 300, "nexthops": [{"dev": "eth3"}, {"dev": "eth0"}]},
        {"type": "unreachable", "dst": "default", "dev": "lo", "metric": 1},
    ]
    assert links.parse_route(json.dumps(routes)) == ["eth0", "eth2", "eth3"]


def test_without_ip_this_host_looks_the_same(monkeypatch):
    """The fall-back sees what `ip` sees; IPv4 addresses beyond an interface's first are its known limit."""
    seen = {i.name: i for i in network.interfaces()}
    monkeypatch.setattr(links.command, "run", lambda *_args, **_kwargs: None)
    plain = {i.name: i for i in network.interfaces()}
    assert "127.0.0.1" in [a.ip for a in plain["lo"].addresses]
    for name in seen.keys() & plain.keys():  # others come and go
        one, other = seen[name], plain[name]
        assert (one.candidate, one.kind, one.default_route) == (other.candidate, other.kind, other.default_route), name


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([" eth1 "], ("eth1",)),
        (["eth1,eth2"], ("eth1", "eth2")),
        (["eth1", " eth2 , eth1"], ("eth1", "eth2")),
        ([""], ()),
        ([], ()),
    ],
)
def test_names_are_read_as_people_write_them(given, names):
    assert names_of(given) == names
