# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interface carries the KV cache: on what `ip -j` says of real hosts' kinds, and on a laid-out /sys."""

from __future__ import annotations

import json

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._probes import network


def link(name, *addresses, state="UP", flags=("UP",)):
    info = [{"family": "inet6" if ":" in a else "inet", "local": a, "prefixlen": 24} for a in addresses]
    return {"ifindex": 1, "ifname": name, "flags": list(flags), "mtu": 1500, "operstate": state, "addr_info": info}


LO = link("lo", "127.0.0.1", "::1", state="UNKNOWN", flags=("LOOPBACK", "UP"))
ETH0 = link("eth0", "10.0.0.7", "fe80::1")
ETH2 = link("eth2", "10.1.0.7")
ETH3 = link("eth3", "10.2.0.7")


def interfaces(*links, default="eth0"):
    found = network.parse_addr(json.dumps(links))
    for one in found:
        one.default_route = one.name == default
        one.rdma = {"eth2": ["mlx5_0:1"], "eth3": ["mlx5_1:1"]}.get(one.name, [])
    return found


def test_the_only_candidate_is_used():
    chosen = network.choose(interfaces(LO, ETH0, link("docker0", "172.17.0.1")), [], "data", "10.0.0.7")
    assert (chosen["names"], chosen["address"], chosen["error"]) == (["eth0"], "10.0.0.7", None)
    assert chosen["reason"]


def test_the_only_candidate_is_used_though_the_address_is_elsewhere():
    chosen = network.choose(interfaces(LO, ETH2), [], "data", "203.0.113.9")
    assert (chosen["names"], chosen["address"], chosen["rdma_devices"]) == (["eth2"], "10.1.0.7", ["mlx5_0:1"])


def test_several_are_refused_with_the_list():
    chosen = network.choose(interfaces(LO, ETH0, ETH2), [], "data", "10.0.0.7")
    assert chosen["names"] == []
    assert "eth0 (10.0.0.7), eth2 (10.1.0.7)" in chosen["error"]
    assert chosen["candidates"] == ["eth0", "eth2"]


def test_control_plane_takes_the_hosts_own():
    chosen = network.choose(interfaces(LO, ETH0, ETH2), [], "control", "10.0.0.7")
    assert chosen["names"] == ["eth0"]
    assert "no interface has" in network.choose(interfaces(LO, ETH0), [], "control", "10.9.9.9")["error"]


def test_rails_in_their_order():
    chosen = network.choose(interfaces(LO, ETH0, ETH2, ETH3), ["eth3", "eth2"], "data", "10.0.0.7")
    assert (chosen["names"], chosen["address"], chosen["rdma_devices"]) == (
        ["eth3", "eth2"],
        "10.2.0.7",
        ["mlx5_1:1", "mlx5_0:1"],
    )


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (["eth9"], "names eth9, which the host has not (it has lo, eth0, ib0, eth4)"),
        (["ib0"], "which has no usable address"),
        (["eth4"], "eth4 is down"),
    ],
)
def test_a_wrong_override_is_told(names, part):
    found = interfaces(LO, ETH0, link("ib0", "fe80::2"), link("eth4", "10.4.0.1", state="DOWN"))
    assert part in network.choose(found, names, "data", "10.0.0.7")["error"]


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", "127.0.0.1"), ("127.0.0.3", "127.0.0.3"), ("10.0.0.7", "127.0.0.1")]
)
def test_loopback_only_when_named(address, expected):
    assert network.choose(interfaces(LO, ETH0), ["lo"], "data", address)["address"] == expected
    assert network.choose(interfaces(LO), [], "data", address)["error"]


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (link("br0", "10.0.0.1"), True),
        (link("br-4f2a", "10.0.0.1"), False),
        (link("ib0", "fe80::3"), False),
        (link("eth0", "169.254.1.1"), False),
        (link("eth0", "fd00::1"), True),
        (link("bond0.100", "10.0.0.1"), True),
        (link("eth0"), False),
        (link("eth0", "10.0.0.1", state="DOWN"), False),
        (link("macvlan0", "10.0.0.1"), True),
        (link("tailscale0", "100.64.0.1"), False),
        (link("wlan0", "10.0.0.1", state="UNKNOWN"), True),
        (link("eth0", "10.0.0.1", flags=()), False),
        (LO, False),
    ],
)
def test_what_counts_as_a_candidate(one, counts):
    assert network.parse_addr(json.dumps([one]))[0].candidate is counts


def test_ipv4_before_ipv6_before_nothing():
    (one,) = network.parse_addr(json.dumps([link("eth0", "fd00::1", "10.0.0.7")]))
    assert one.address() == "10.0.0.7"
    assert one.address("fd00::1") == "fd00::1"
    (one,) = network.parse_addr(json.dumps([link("eth0", "fe80::1", "fd00::1")]))
    assert one.address() == "fd00::1"


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
    ]
    assert network.parse_route(json.dumps(routes)) == ["eth0", "eth2", "eth3"]


def test_rdma_devices_by_netdev_and_by_device(tmp_path):
    sys = tmp_path
    ndevs = sys / "class/infiniband/mlx5_10/ports/1/gid_attrs/ndevs"
    ndevs.mkdir(parents=True)
    (ndevs / "0").write_text("eth2\n")
    (ndevs / "1").write_text("bond0.100\n")
    (sys / "class/infiniband/mlx5_2/ports/2/gid_attrs/ndevs").mkdir(parents=True)
    (sys / "class/infiniband/mlx5_2/ports/2/gid_attrs/ndevs/0").write_text("eth2\n")
    (sys / "class/net/ib0/device/infiniband/mlx5_3/ports/1").mkdir(parents=True)
    (sys / "class/net/ib0/dev_port").write_text("0\n")
    assert network.rdma_devices("eth2", str(sys)) == ["mlx5_2:2", "mlx5_10:1"]
    assert network.rdma_devices("bond0.100", str(sys)) == ["mlx5_10:1"]
    assert network.rdma_devices("ib0", str(sys)) == ["mlx5_3:1"]
    assert network.rdma_devices("eth0", str(sys)) == []


def test_without_ip_this_host_looks_the_same():
    """The fall-back sees what `ip` sees; IPv4 addresses beyond an interface's first are its known limit."""
    plain = {i.name: i for i in network.without_ip()}
    assert "127.0.0.1" in plain["lo"].addresses
    assert plain["lo"].loopback
    assert not plain["lo"].candidate
    for one in network.interfaces():
        assert one.name in plain
        assert one.candidate == plain[one.name].candidate
