# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input: one clear error each, before anything starts, and nothing has changed on any host."""

from __future__ import annotations

import copy
import os
import socket
import typing as t
from pathlib import Path

import pytest
from integration.conftest import Life

pytestmark = pytest.mark.integration
Spec = dict[str, t.Any]


@pytest.fixture(scope="module")
def shared(make_site: t.Callable[..., Life]) -> Life:
    return make_site()


@pytest.fixture
def site(shared: Life) -> t.Iterator[Life]:
    """One site for all: none of these runs may leave anything in it."""
    kept = copy.deepcopy((shared.hosts, shared.groups))
    yield shared
    shared.hosts, shared.groups = kept
    shared.variables = {}
    shared.write()


def refused(site: Life, book: str, *texts: str, **extra: t.Any) -> str:
    """What a refused run says; it must hold every text, come before any change, and leave nothing."""
    run = site.play(book, **extra).refused()
    assert run.changed == 0, run.out
    assert site.untouched()
    said = " ".join(run.out.split())
    for text in texts:
        assert text in said, run.out
    return said


def set_at(spec: Spec, path: str, value: t.Any) -> None:
    *way, last = path.split(".")
    for key in way:
        spec = spec.setdefault(key, {})
    spec[last] = value


SPECS: dict[str, tuple[dict[str, t.Any], list[str]]] = {
    "unknown key": ({"roles.prefill.replcas": 2}, ["roles.prefill.replcas", "Did you mean 'replicas'?"]),
    "unknown mode": ({"mode": "vllm-nixll"}, ["vllm-nixll", "vllm-nixl"]),
    "pattern without hosts": (
        {"roles.decode.hosts": "gpu_nodes"},
        ["roles.decode.hosts", "names gpu_nodes", "no host or group of that name"],
    ),
    "model missing": ({"model": "/models/none"}, ["/models/none is not there on node", "Copy the model"]),
    "decode narrower": (
        {"roles.prefill.extra_args": ["--tensor-parallel-size=2"]},
        ["tensor", "prefill", "2", "decode", "1"],
    ),
    "context lengths": (
        {"roles.prefill.args": ["--max-model-len=128k"], "roles.decode.args": ["--max-model-len", "131072"]},
        ["128000", "131072"],
    ),
    "owned router flag": ({"roles.router.args": ["--port=1"]}, ["--port", "roles.router.port"]),
    "malformed connector": (
        {"roles.prefill.extra_args": ["--kv-transfer-config={kv_role: kv_both}"]},
        ["--kv-transfer-config", "JSON"],
    ),
    "a secret that is null": (
        {"engine.secrets": {"HF_TOKEN": None}},
        ["engine.secrets.HF_TOKEN: the secret is empty", "vault"],
    ),
    "a port for two members": (
        {"engine.args": ["--master-port=29500"]},
        ["engine.args: --master-port=29500: 2 members (prefill and decode) would take it, and have the one host node"],
    ),
    "a port of the plan": (
        {"roles.prefill.env": {"VLLM_NIXL_SIDE_CHANNEL_PORT": 21057}},
        ["VLLM_NIXL_SIDE_CHANNEL_PORT is not yours to set", "${ports.kv_side_channel}"],
    ),
    "cards that the member has not": (
        {"roles.prefill.env": {"CUDA_VISIBLE_DEVICES": "0,1"}, "roles.prefill.gpus": 1},
        ["roles.prefill.env.CUDA_VISIBLE_DEVICES: '0,1': it names 2 cards, and a member has 1", "gpus: 0"],
    ),
    "an interface that is not there": (
        {"roles.decode.env": {"GLOO_SOCKET_IFNAME": "nosuch0"}},
        ["roles.decode.env.GLOO_SOCKET_IFNAME: 'nosuch0': node has no interface nosuch0; it has"],
    ),
    "an address that is not there": (
        {"roles.decode.env": {"HOST_IP": "192.0.2.77"}},
        ["roles.decode.env.HOST_IP: '192.0.2.77': node has no such address; it has"],
    ),
    "an RDMA device that is not there": (
        {"roles.decode.env": {"NCCL_IB_HCA": "=nosuch_0"}},
        ["node has no RDMA device nosuch_0; it has"],
    ),
    "engine missing": (
        {"engine.executable": "/opt/none/vllm"},
        ["/opt/none/vllm is not there, or not executable, on node", "engine.executable"],
    ),
    "router missing": (
        {"roles.router.executable": "/opt/none/vllm-router"},
        ["/opt/none/vllm-router is not there, or not executable, on node", "roles.router.executable"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SPECS)
def test_a_spec_that_cannot_work_is_refused(site: Life, case: str) -> None:
    changes, texts = SPECS[case]
    for path, value in changes.items():
        set_at(site.groups["g"], path, value)
    site.write()
    said = refused(site, "deploy", "Group g is refused: ", *texts)
    assert "is refused: 1 error." in said


def test_all_reasons_at_once_and_for_check_mode_too(site: Life) -> None:
    set_at(site.groups["g"], "mod", "x")
    set_at(site.groups["g"], "roles.decode.replicas", 0)
    set_at(site.groups["g"], "roles.router.args", ["--port=1"])
    site.write()
    run = site.play("deploy", "--check", "--diff").refused()
    assert "3 errors" in run.out
    assert site.untouched()
    assert "3 errors" in site.play("validate").refused().out


def test_a_port_range_too_small_says_how_wide_it_must_be(site: Life) -> None:
    low = site.port + 1
    site.hosts["node"]["pd_port_range"] = f"{low}-{low + 2}"
    site.write()
    # Two engines with a side channel each, and the router's metrics.
    said = refused(site, "deploy", "port-range-too-small", "pd_port_range")
    site.hosts["node"]["pd_port_range"] = f"{low}-{low + 4}"
    site.write()
    assert f"{low}-{low + 4}" in said
    site.play("deploy", "--check").ok()


def test_a_port_range_that_is_none_is_told_with_its_host(site: Life) -> None:
    site.hosts["node"]["pd_port_range"] = "many"
    site.write()
    refused(site, "deploy", "node", "pd_port_range", "'many'")


def test_a_router_port_taken_by_a_stranger_names_port_and_holder(site: Life) -> None:
    with socket.create_server(("127.0.0.1", site.port)):
        said = refused(site, "deploy", "port-taken", f"{site.port} on node is taken by", f"(pid {os.getpid()})")
    assert "1 error." in said


@pytest.mark.parametrize("book", ["validate", "deploy", "status", "restart", "scale", "remove", "preflight", "caches"])
def test_a_slip_in_a_variable_of_the_command_line_is_refused(site: Life, book: str) -> None:
    refused(site, book, "There is no variable pd_gruop. Did you mean pd_group?", pd_gruop="g")


def test_counts_that_are_none(site: Life) -> None:
    refused(site, "scale", "scale needs a count", "-e pd_prefill=N", pd_group="g")
    refused(site, "scale", "pd_prefill: 'abc' is not a count", pd_group="g", pd_prefill="abc")
    refused(site, "scale", "pd_decode: '0' is not a count", "inferops.pd.remove", pd_group="g", pd_decode=0)


@pytest.mark.parametrize("book", ["scale", "restart", "remove"])
def test_a_playbook_that_must_be_told_the_group(site: Life, book: str) -> None:
    refused(site, book, "Say which group: -e pd_group=NAME", **({"pd_prefill": 2} if book == "scale" else {}))


def test_scale_works_on_one_group(site: Life) -> None:
    refused(site, "scale", "Say which group", pd_group="all", pd_prefill=2)


@pytest.mark.parametrize("book", ["deploy", "status", "restart", "remove"])
def test_an_unknown_group_is_told_with_those_that_exist(site: Life, book: str) -> None:
    refused(site, book, "There is no group 'nope'", "g", pd_group="nope")


def test_a_group_twice(site: Life) -> None:
    site.variables = {"pd_groups_team": {"g": site.groups["g"]}}
    site.write()
    refused(site, "deploy", "Group 'g' is defined twice: in pd_groups and in pd_groups_team")


def test_an_inventory_without_groups(site: Life) -> None:
    site.groups = {}
    site.write()
    refused(site, "deploy", "No group is defined", "pd_groups")
    assert "No group is defined, and none runs." in site.play("status").ok().out


def test_a_word_that_is_no_choice_is_not_taken_for_the_default(site: Life) -> None:
    refused(site, "deploy", "pd_on_failure", "'halt'", "keep", "stop", pd_on_failure="halt")
    refused(site, "deploy", "pd_proof", "'sometimes'", "changed", "always", "never", pd_proof="sometimes")


def test_a_status_before_any_deploy_leaves_nothing(site: Life, tmp_path: Path) -> None:
    run = site.play("status").ok()
    assert "g: PENDING (no member is running yet)" in run.out
    assert site.play("status", pd_fail_unless_running="true").refused()
    assert site.untouched()


def test_two_routers_on_one_port_are_refused_before_any_host_is_asked(site: Life) -> None:
    site.groups["h"] = {**site.groups["g"]}
    site.write()
    refused(site, "validate", "is the router's of group g as well")


def test_specs_under_a_wrong_name_are_not_shown(site: Life) -> None:
    run = site.play("validate", "-e", '{"pd_group": {"g": {"engine": {"secrets": {"T": "hunter2"}}}}}').refused()
    assert "hunter2" not in run.out
    assert "pd_groups" in run.out


def test_a_host_variable_that_cannot_be_read_is_no_host_out_of_reach(site: Life) -> None:
    site.hosts["node"]["pd_port_range"] = "26050"
    site.write()
    said = refused(site, "deploy", "host-facts", "26050")
    assert "pd_lost_hosts" not in said


def test_a_misspelt_variable_is_told(site: Life) -> None:
    """In an inventory it may be anybody's: a warning. On the command line it is an error (test_a_slip_in_a_variable)."""
    site.hosts["node"]["pd_lost_host"] = "h3"
    site.write()
    said = " ".join(site.play("validate").ok().out.split())
    assert "The variable pd_lost_host is read by nothing. Did you mean pd_lost_hosts?" in said


def test_gpus_given_as_a_count_are_that_many(site: Life) -> None:
    site.hosts["node"]["pd_gpus"] = 2
    for role in ("prefill", "decode"):
        site.group["roles"][role]["gpus"] = 1
    site.write()
    site.play("deploy", "--check").ok()
    site.group["roles"]["decode"]["gpus"] = 2
    site.write()
    refused(site, "deploy", "does-not-fit")
