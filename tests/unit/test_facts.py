# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a host: read once, checked where they come in, and one that cannot be believed harms no other."""

from __future__ import annotations

import dataclasses

import pytest
from builders import Fleet, host_facts, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.kv_interface import KvInterface
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import Gpu, parse_range, read_host

KV = {
    "names": ["eth1"],
    "address": "10.1.0.1",
    "rdma_devices": ["mlx5_0:1"],
    "gid_index": 3,
    "mtu": 9000,
    "speed": 100_000,
    "candidates": ["eth0", "eth1"],
    "reason": "it is named",
    "error": None,
}


def test_a_kv_interface_is_the_same_on_both_sides():
    """What a host chooses and what a plan reads are one type."""
    host = read_host("h1", host_facts(kv_interface=KV))
    assert host.kv == KvInterface(**{k: tuple(v) if isinstance(v, list) else v for k, v in KV.items()})
    assert host.kv.to_plain() == KV
    assert (host.kv_names, host.kv_devices, host.ucx_net_devices) == (("eth1",), ("mlx5_0:1",), "mlx5_0:1,eth1")


# One fact that is none of its kind, and what is said of it.
DAMAGED = {
    "address": ({"a": 1}, "address is no text"),
    "gpus": ([{"id": "0"}, {"model": "H100"}], "gpus[1].id is missing"),
    "interfaces": ([{"name": "eth1", "rdma_ports": [{"active": True}]}], "interfaces[0].rdma_ports[0].name is missing"),
    "kv_interface": ({**KV, "mtu": "much"}, "kv_interface.mtu is no number from 0 to 16777216"),
    "ports": ({"used": [{"port": 70000}]}, "ports.used[0].port is no number from 1 to 65535"),
    "holds": ([{"group": "g", "member": "m", "ports": ["x"]}], "holds[0].ports is no list of ports"),
    "elsewhere": (7, "elsewhere is no list of at most 100000"),
    "gpu_processes": ([[]], "gpu_processes[0] is no object"),
    "damaged": ([{"path": "/s"}], "damaged[0].why is missing"),
    "models": ({"/m": 3}, "models./m is no object"),
    "executables": ([], "executables is no object"),
    "images": ("x", "images is no object"),
    "runtimes": ({"docker": True}, "runtimes.docker is no object"),
    "machine": ({"id": 4}, "machine.id is no text"),
    "state": ([], "state is no object"),
    "locks": ([], "locks is no object"),
    "digests": (3, "digests is no object"),
    "held": ([], "held is no object"),
    "records": ([], "records is no object"),
}


@pytest.mark.parametrize("fact", DAMAGED)
def test_a_bad_value_harms_one_fact_and_is_told_by_its_place(fact):
    value, why = DAMAGED[fact]
    good, bad = read_host("h1", host_facts(gpus=2)), read_host("h1", {**host_facts(gpus=2), fact: value})
    assert (good.unread, bad.unread) == ((), (why,))
    mine = {"address": "address", "kv_interface": "kv", "ports": "used", "gpu_processes": "busy_gpus"}.get(fact, fact)
    left_out = {"unread", "plain", mine, *(("port_low", "port_high") if fact == "ports" else ())}
    for one in dataclasses.fields(good):
        if one.name not in left_out:
            assert getattr(good, one.name) == getattr(bad, one.name), one.name


def test_of_a_list_what_is_good_counts():
    host = read_host("h1", host_facts() | {"gpus": [{"id": 0, "model": 4090}, {"model": "H100"}]})
    assert host.gpus == (Gpu("0", "4090"),)


def test_a_kv_interface_that_cannot_be_read_is_none():
    host = read_host("h1", host_facts(kv_interface={**KV, "speed": []}))
    assert host.kv_names == ()
    assert "kv_interface.speed is no number" in host.kv_error


@pytest.mark.parametrize("raw", [None, 0, "x", [], {}], ids=str)
def test_facts_of_any_shape_are_read(raw):
    host = read_host("h1", raw)
    assert (host.gpus, host.members) == ((), [])
    assert bool(host.unread) == (raw not in (None, {}))


@pytest.mark.parametrize(
    "given", ["²000-³000", "40000", "-", "40000-", "9" * 5000 + "-1", "40000-40063-1", 7, "1023-2000", "2000-65536"]
)
def test_what_is_no_port_range_is_refused(given):
    with pytest.raises(PdError, match="is no port range"):
        parse_range(given, "pd_port_range")


def test_a_port_range_is_the_users_and_refused():
    assert parse_range(" 40000 - 40063 ", "pd_port_range") == (40000, 40063)
    with pytest.raises(PdError, match="pd_port_range of h1: '9-1' is no port range"):
        read_host("h1", {"ports": {"range": "9-1"}})


def test_no_member_is_placed_on_a_host_that_says_what_cannot_be_believed():
    fleet = Fleet(h1={"gpus": 8}, h2={"gpus": 8})
    fleet.facts["h2"]["ports"]["used"] = [{"port": "http"}]
    raw = spec(prefill={"hosts": "h1"}, decode={"hosts": "h2"})
    found = only(fleet.plan(raw).findings.errors, "facts-damaged")
    assert found.host == "h2"
    assert "ports.used[0].port is no number from 1 to 65535" in found.message
