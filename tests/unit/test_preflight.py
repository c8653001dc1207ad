# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A preflight's verdict, pure: every finding from what hosts would say, and who tries what from a plan."""

from __future__ import annotations

import copy

import pytest
from builders import MODEL, RUN, Fleet, codes, only, spec
from published_configs import CONFIGS

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hosts import Hosts
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reality, Request
from ansible_collections.inferops.pd.plugins.module_utils._core.preflight import between
from ansible_collections.inferops.pd.plugins.module_utils._core.preflight import hosts as of_hosts
from ansible_collections.inferops.pd.plugins.module_utils._core.preflight import tour as tours
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import load_modes

GIB = 2**30
TWO = spec(prefill={"hosts": "h1", "gpus": 1}, decode={"hosts": "h2", "gpus": 1}, router={"hosts": "h1"})


def merged(base, changes):
    """`changes` laid over `base`, deep."""
    out = copy.deepcopy(base)
    for key, value in changes.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def room(free=100 * GIB, **more):
    return {"path": "/s", "there": "/s", "free": free, "total": 200 * GIB, "files": 10**6, "writable": True, **more}


def look(number, **changes):
    """What a host says in which nothing is wrong."""
    addresses = [f"10.1.0.{number}", f"10.0.0.{number}"]
    good = {
        "listening": {
            "random": dict.fromkeys(addresses, 50000 + number),
            "ports": {addresses[1]: [40001]},
            "refused": [],
        },
        "rights": {"user": 0, "memlock": None, "ipc_lock": True},
        "rdma": {"verbs": ["uverbs0"], "open": True, "peermem": ["nvidia_peermem"], "dma_buf": False},
        "drivers": {"nvidia": "570.86.15"},
        "proxies": {"environment": {}, "daemon": {}},
        "disks": {"/s": room()},
        "shm": room(),
        "not_here": {},
        "firewall": {"active": [], "seen": True},
        "gpu_processes": [],
        "time": 1000.0,
    }
    return merged(good, changes)


def reach(peer, **changes):
    told = {"tried": 6, "failed": [], "clock": 0.0, "within": 0.01}
    return {"peers": {peer: {**told, **changes}}, "mtu": [], "measured": []}


RDMA = {
    "kv_interface": {
        "names": ["eth1"],
        "address": "10.1.0.1",
        "rdma_devices": ["mlx5_0:1"],
        "mtu": 9000,
        "speed": 100_000,
        "gid_index": 3,
    },
    "interfaces": [{"name": "eth1", "rdma_ports": [{"name": "mlx5_0:1", "active": True, "link_layer": "Ethernet"}]}],
}


class Case:
    """A group of two hosts, what they say, and the verdict."""

    def __init__(self, raw=TWO, both=None, h1=None, h2=None):
        facts = {"gpus": 1, "state_dir": "/s", **(both or {})}
        self.fleet = Fleet(h1=merged(facts, h1 or {}), h2=merged(facts, h2 or {}))
        self.raw = raw
        self.looks = {"h1": look(1), "h2": look(2)}
        self.reaches = {"h1": reach("h2"), "h2": reach("h1")}
        self.clocks = {}
        self.avoid = {}

    def flight(self):
        made = self.fleet.plan(self.raw)
        patterns = {r.name: r.hosts.split(":") for r in made.verdict.group.roles.values()}
        reality = Reality(Hosts(self.fleet.hosts()), RUN)
        request = Request(made.verdict.group, made.verdict.template, patterns, "deploy", reality)
        tour = tours.make(made.value, request.hosts)
        return of_hosts.Preflight(request, made.value, tour, self.looks, self.reaches, self.clocks)

    def judge(self):
        self.run, findings = self.flight(), Findings()
        of_hosts.judge_hosts(self.run, findings)
        of_hosts.judge_band(self.avoid, self.run, findings)
        between.judge_between(self.run, findings)
        return findings


def test_what_is_good_gives_rows_and_no_findings():
    case = Case(both=RDMA)
    assert case.judge().to_plain() == []
    assert {row.verdict for row in case.run.rows} == {"ok"}
    assert {"KV interface", "disk", "reached", "RDMA devices", "memlock", "GPU direct", "driver", "clock"} <= {
        row.check for row in case.run.rows
    }


# -- one host -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code", "severity", "part"),
    [
        ({"disks": {"/s": room(1024)}}, "disk-full", "error", "1.0 KiB are free"),
        ({"disks": {"/s": room(GIB)}}, "disk-short", "warning", "1.0 GiB free"),
        ({"disks": {"/s": room(files=0)}}, "disk-full", "error", "inodes"),
        ({"disks": {"/s": room(writable=False)}}, "disk-full", "error", "cannot be written"),
        ({"shm": room(2**26)}, "shm-small", "warning", "64 MiB"),
        ({"not_here": {"10.0.0.1": "no interface of the host has it"}}, "address-not-here", "error", "10.0.0.1"),
        (
            {"not_here": {"h1": "it is looked up here as 127.0.1.1 (/etc/hosts), which peers do not reach"}},
            "address-not-here",
            "error",
            "127.0.1.1",
        ),
        (
            {"listening": {"refused": [{"address": "10.0.0.1", "port": 40001, "code": "EADDRINUSE", "why": "in use"}]}},
            "port-not-free",
            "error",
            "40001",
        ),
        (
            {
                "listening": {
                    "refused": [{"address": "10.0.0.1", "port": 40001, "code": "EACCES", "why": "Permission denied"}]
                }
            },
            "port-not-free",
            "error",
            "Permission denied",
        ),
    ],
)
def test_one_host(changes, code, severity, part):
    case = Case()
    case.looks["h1"] = look(1, **changes)
    found = only(case.judge(), code)
    assert (found.severity, found.host) == (severity, "h1")
    assert part in found.message
    assert "expected" in found.message
    assert found.hint
    assert [r.host for r in case.run.rows if r.verdict == severity] == ["h1"]


@pytest.mark.parametrize(
    ("changes", "code", "severity", "part"),
    [
        ({"rdma": {"verbs": []}}, "rdma-unusable", "error", "no /dev/infiniband/uverbs*"),
        ({"rdma": {"open": False}}, "rdma-unusable", "error", "not open to this user"),
        ({"rights": {"memlock": 8 * 2**20, "ipc_lock": False}}, "memlock", "error", "8.0 MiB"),
        ({"rdma": {"peermem": []}}, "gpu-direct", "warning", "570.86.15"),
    ],
)
def test_rdma(changes, code, severity, part):
    case = Case(both=RDMA)
    case.looks["h1"] = look(1, **changes)
    found = only(case.judge(), code)
    assert (found.severity, found.host) == (severity, "h1")
    assert part in found.message
    without = Case()
    without.looks["h1"] = look(1, **changes)
    assert codes(without.judge()) == []


@pytest.mark.parametrize(
    "fine",
    [
        {"rights": {"memlock": 8 * 2**20, "ipc_lock": True}},
        {"rdma": {"peermem": [], "dma_buf": True}},
        {"rdma": {"peermem": []}, "drivers": {}},
    ],
)
def test_rdma_that_works_another_way(fine):
    case = Case(both=RDMA)
    case.looks["h1"] = look(1, **fine)
    if "drivers" in fine:
        case.looks["h1"]["drivers"] = {}  # no NVIDIA GPU that could be reached into
    assert codes(case.judge()) == []


def test_an_rdma_port_that_is_down():
    down = merged(RDMA, {})
    down["interfaces"][0]["rdma_ports"][0]["active"] = False
    down["kv_interface"]["rdma_devices"] = []
    found = only(Case(h2=down).judge(), "rdma-port-down")
    assert (found.severity, found.host) == ("warning", "h2")
    assert "falls to TCP" in found.message


def test_a_silent_host():
    case = Case()
    del case.looks["h2"], case.reaches["h2"]
    assert only(case.judge(), "preflight-silent").host == "h2"


@pytest.mark.parametrize(
    ("env", "environment", "told"),
    [
        ({}, {"http_proxy": "http://proxy:3128"}, False),  # the mode writes NO_PROXY
        ({"NO_PROXY": "localhost"}, {"http_proxy": "http://proxy:3128"}, True),
        ({"NO_PROXY": "10.0.0.0/8", "no_proxy": "10.0.0.0/8"}, {"http_proxy": "http://proxy:3128"}, False),
        ({"NO_PROXY": "localhost", "no_proxy": "localhost", "HTTP_PROXY": "http://proxy:3128"}, {}, True),
        ({"NO_PROXY": "localhost", "no_proxy": "localhost"}, {}, False),
    ],
)
def test_a_proxy_between_members(env, environment, told):
    raw = spec(
        prefill={"hosts": "h1", "gpus": 1, "extra_env": env}, decode={"hosts": "h2", "gpus": 1}, router={"hosts": "h2"}
    )
    if set(env) == {"NO_PROXY"}:
        raw["roles"]["prefill"]["extra_env"] = {**env, "no_proxy": "localhost"}
    case = Case(raw)
    case.looks["h1"] = look(1, proxies={"environment": environment})
    found = codes(case.judge())
    assert ("proxy-between-members" in found) is told


@pytest.mark.parametrize(
    ("address", "no_proxy", "expected"),
    [
        ("10.0.0.7", "localhost,10.0.0.7", True),
        ("10.0.0.7", "10.0.0.0/24", True),
        ("10.0.1.7", "10.0.0.0/24", False),
        ("fd00::7", "fd00::/64", True),
        ("10.0.0.7", "*", True),
        ("10.0.0.7", "10.0.0.*, /", False),
        ("10.0.0.7", "", False),
    ],
)
def test_what_no_proxy_covers(address, no_proxy, expected):
    assert of_hosts.bypassed(address, no_proxy) is expected


@pytest.mark.parametrize(
    ("used", "member", "severity"),
    [(20000, None, "error"), (100, None, "warning"), (None, None, "error"), (20000, "demo-prefill-0", None)],
)
def test_what_is_left_on_gpus(used, member, severity):
    case = Case()
    process = {"uuid": "GPU-1-0", "pid": 77, "used_mib": used, "command": "python", "member": member}
    case.looks["h1"] = look(1, gpu_processes=[process, {**process, "uuid": "GPU-9-0"}])
    found = case.judge()
    assert [f.severity for f in found.items if f.code == "gpu-in-use"] == ([severity] if severity else [])
    if severity:
        assert "pid 77" in only(found, "gpu-in-use").message


def test_listeners_that_are_no_members():
    found = only(Case(h1={"used": {40010: "python", 22: "sshd"}}).judge(), "leftover-listeners")
    assert (found.severity, found.host) == ("warning", "h1")
    assert "40010 (python" in found.message
    assert "sshd" not in found.message


@pytest.mark.parametrize(("ports", "told"), [("20500-20563", True), ("21000-21063", False), ("19900-20000", True)])
def test_ports_that_devices_take_at_random(ports, told):
    case = Case(both={"ports": ports})
    case.avoid = {"base": 20000, "per_gpu": 1000}
    found = [f for f in case.judge().items if f.code == "ports-device-band"]
    assert [f.host for f in found] == (["h1", "h2"] if told else [])
    assert not told or "21000" in found[0].hint


# -- containers ---------------------------------------------------------------------------------------------------------

IMAGE = "registry.example/engine:1"


def docker(images, **engine):
    raw = {
        **TWO,
        "runtime": "docker",
        "engine": {"image": IMAGE, "args": ["--max-model-len=32768"], "version": "0.32.0"},
    }
    raw["roles"] = {**raw["roles"], "router": {"hosts": "h1", "port": 8000}}
    told = {"available": True, "version": "27.1", "default_runtime": "nvidia", "nvidia": True, **engine}
    facts = [{"images": {IMAGE: image}, "runtimes": {"docker": told}} for image in images]
    return Case(raw, h1=facts[0], h2=facts[1])


HERE = {"exists": True, "id": "sha256:aa", "digest": "sha256:11", "pullable": None, "why": ""}


def test_images():
    assert codes(docker([HERE, HERE]).judge()) == []
    found = only(docker([HERE, {**HERE, "digest": "sha256:22"}]).judge(), "image-differs")
    assert found.severity == "error"
    assert "sha256:22 on h2" in found.message
    gone = {"exists": False, "pullable": False, "why": "the registry does not know it"}
    found = only(docker([HERE, gone]).judge(), "image-not-here")
    assert (found.severity, found.host) == ("error", "h2")
    assert "the registry does not know it" in found.message
    pulled = docker([HERE, {**gone, "pullable": True}])
    assert codes(pulled.judge()) == []
    assert any("its registry gives it" in row.value for row in pulled.run.rows)


def test_containers_without_gpus():
    found = [f for f in docker([HERE, HERE], nvidia=False).judge().items if f.code == "container-gpus"]
    assert [f.host for f in found] == ["h1", "h2"]
    assert "nvidia-ctk" in found[0].hint


# -- between hosts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("active", "seen", "part"),
    [
        (["firewalld", "nftables"], True, "firewall-cmd --permanent --zone=trusted --add-source=10.1.0.1"),
        (["ufw"], True, "ufw allow proto tcp from 10.1.0.1"),
        (["nftables"], True, "nft insert rule inet filter input ip saddr 10.1.0.1"),
        (["iptables"], True, "iptables -I INPUT -p tcp -s 10.1.0.1 -j ACCEPT"),
        ([], True, "There is no firewall on h2"),
        ([], False, "none that this user may see"),
    ],
)
def test_a_peer_that_is_not_reached(active, seen, part):
    case = Case()
    failed = [
        {"address": "10.1.0.2", "port": p, "kind": "dropped", "why": "no answer"} for p in (40000, 40001, 40007, 50002)
    ]
    case.looks["h2"] = look(2, firewall={"active": active, "seen": seen})
    case.reaches["h1"] = reach("h2", failed=failed)
    found = only(case.judge(), "peer-unreachable")
    assert (found.severity, found.host) == ("error", "h2")
    assert "h1 reaches 2 of 6 ports of h2" in found.message
    assert "40000-40001, 40007, a high port" in found.message
    assert part in found.hint


def measured(mbit, **more):
    return [{"peer": "h2", "address": "10.1.0.2", "bytes": int(mbit * 1e6 / 8), "seconds": 1.0, **more}]


CONFIG = {
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
    "num_attention_heads": 64,
    "head_dim": 128,
    "torch_dtype": "bfloat16",
}


def with_speed(number, speed, config=None):
    kv = {"names": ["eth1"], "address": f"10.1.0.{number}", "rdma_devices": [], "mtu": 9000, "speed": speed}
    return {"models": {MODEL: {"exists": True, "fingerprint": "f", "config": config}}, "kv_interface": kv}


@pytest.mark.parametrize(
    ("mbit", "speed", "config", "expected"),
    [
        (9400, 10_000, None, []),
        (940, 10_000, None, ["kv-bandwidth"]),
        (20_000, 400_000, None, []),  # TCP fills no such link
        (2_000, 400_000, None, ["kv-bandwidth"]),
        (940, None, None, []),
        (940, 1000, CONFIG, ["kv-transfer-slow"]),  # 1 GiB in 9 s
        (9400, 10_000, CONFIG, []),
    ],
)
def test_bandwidth_against_the_link_and_the_model(mbit, speed, config, expected):
    case = Case(h1=with_speed(1, speed, config), h2=with_speed(2, speed, config))
    case.reaches["h1"]["measured"] = measured(mbit)
    found = [f for f in case.judge().items if f.code.startswith("kv-")]
    assert [f.code for f in found] == expected
    assert all(f.severity == "warning" for f in found)
    row = next(r for r in case.run.rows if r.check == "bandwidth")
    assert ("4096 tokens in" in row.value) is bool(config)


GEMMA = CONFIGS["gemma-4-26B-A4B"]


@pytest.mark.parametrize(
    ("config", "args", "expected", "verdict"),
    [
        (CONFIG, [], "256 KiB a token; 1.0 GiB for 4096 tokens", "ok"),
        (GEMMA, [], "20 KiB a token, 200 KiB for each of the last 1024 tokens; 280 MiB for 4096 tokens", "ok"),
        (GEMMA, ["--disable-hybrid-kv-cache-manager"], "220 KiB a token; 880 MiB for 4096 tokens", "ok"),
        (CONFIGS["DeepSeek-V4-Flash"], [], "not known: its attention is compressed", "unverified"),
        (
            CONFIGS["Kimi-K2.6-NVFP4"],
            ["--dtype=bfloat16"],
            "34.3 KiB a token",
            "ok",
        ),  # the checkpoint's cache is FP8 still
        (CONFIG, ["--kv-cache-dtype=fp8"], "128 KiB a token", "ok"),
        (
            CONFIG,
            ['--speculative-config={"method": "eagle3", "model": "/d", "num_speculative_tokens": 2}'],
            "without the draft model's layers; at least 1.0 GiB for 4096 tokens",
            "ok",
        ),
        (
            CONFIGS["DeepSeek-V3"],
            ['--speculative-config={"method": "mtp", "num_speculative_tokens": 1}'],
            "69.8 KiB a token",
            "ok",
        ),
    ],
)
def test_the_size_of_the_kv_cache(config, args, expected, verdict):
    raw = copy.deepcopy(TWO)
    raw["engine"] = {**raw.get("engine", {}), "args": args}
    case = Case(raw, h1=with_speed(1, 10_000, config), h2=with_speed(2, 10_000, config))
    case.reaches["h1"]["measured"] = measured(9400)
    case.judge()
    row = next(r for r in case.run.rows if r.check == "KV cache")
    assert (expected in row.value, row.verdict) == (True, verdict), row.value


def test_a_transfer_that_stalls_is_an_error_and_one_that_was_not_measured_none():
    case = Case()
    case.reaches["h1"]["measured"] = [{"peer": "h2", "address": "10.1.0.2", "why": "stalled", "stalled": True}]
    assert only(case.judge(), "mtu-path").severity == "error"
    case.reaches["h1"]["measured"] = [{"peer": "h2", "address": "10.1.0.2", "why": "never free"}]
    assert codes(case.judge()) == []


def test_mtu():
    case = Case(h1=with_speed(1, 1000), h2=merged(with_speed(2, 1000), {"kv_interface": {"mtu": 1500}}))
    found = only(case.judge(), "mtu-differs")
    assert found.severity == "warning"
    assert "1500 on h2; 9000 on h1" in found.message
    case = Case()
    case.reaches["h1"]["mtu"] = [{"peer": "h2", "address": "10.1.0.2", "mtu": 9000, "passed": False, "limit": 1500}]
    found = only(case.judge(), "mtu-path")
    assert found.severity == "error"
    assert "the way takes 1500" in found.message
    case.reaches["h1"]["mtu"][0]["passed"] = None
    assert codes(case.judge()) == []


def test_clocks():
    case = Case()
    case.reaches["h1"] = reach("h2", clock=-40.2, within=0.1)
    found = only(case.judge(), "clock-offset")
    assert (found.severity, found.host) == ("warning", "h1")
    assert "-40.2 s" in found.message
    case = Case()
    case.clocks = {"h1": (998.0, 1001.0), "h2": (1100.0, 1102.0)}
    found = only(case.judge(), "clock-offset")
    assert found.host == "h2"
    assert "-100.0 s off the controller's" in found.message


def test_drivers_differ():
    case = Case()
    case.looks["h2"] = look(2, drivers={"nvidia": "550.1"})
    found = only(case.judge(), "driver-differs")
    assert found.severity == "warning"
    assert "550.1 on h2; 570.86.15 on h1" in found.message


@pytest.mark.parametrize(("indexes", "told"), [((3, 3), False), ((3, 5), True), ((3, None), True)])
def test_gid_indexes(indexes, told):
    one, two = (merged(RDMA, {"kv_interface": {"gid_index": index}}) for index in indexes)
    assert ("gid-index" in codes(Case(h1=one, h2=two).judge())) is told


# -- the tour -----------------------------------------------------------------------------------------------------------


def tour(prefill, decode, router="h1", pairs=16, told=(), **facts):
    hosts = sorted({*prefill, *decode, router})
    fleet = Fleet(**{h: {"gpus": 2, **facts} for h in hosts})
    raw = spec(
        prefill={"hosts": ":".join(prefill), "replicas": len(prefill), "gpus": 1},
        decode={"hosts": ":".join(decode), "replicas": len(decode), "gpus": 1},
        router={"hosts": router},
    )
    return tours.make(fleet.plan(raw).value, fleet.hosts(), told, pairs)


def test_who_connects_to_whom():
    made = tour(["h1", "h2"], ["h3"], "h4")
    peers = {name: part["peers"] for name, part in made["hosts"].items()}
    assert peers == {"h1": ["h3"], "h2": ["h3"], "h3": ["h1", "h2"], "h4": ["h1", "h2", "h3"]}
    assert made["hosts"]["h1"]["expect"] == ["h1", "h3", "h4"]
    assert made["hosts"]["h4"]["high"] == []
    assert made["hosts"]["h1"]["high"] == ["10.1.0.1", "10.0.0.1"]
    # HTTP is where the router asks, bands are on the KV interface.
    assert made["hosts"]["h1"]["ports"] == {"10.0.0.1": [40001], "10.1.0.1": [40000]}


def test_a_band_that_the_router_tells_of_is_reached_at_its_url():
    modes = load_modes()
    assert {name: tours.announced(modes[name]) for name in ("vllm-nixl", "vllm-mooncake", "sglang-nixl")} == {
        "vllm-nixl": set(),
        "vllm-mooncake": {"bootstrap"},
        "sglang-nixl": {"bootstrap"},
    }
    made = tour(["h1"], ["h2"], told={"kv_side_channel"})
    assert made["hosts"]["h2"]["ports"] == {"10.0.0.2": [40000, 40001], "10.1.0.2": [40000]}


def test_one_host_for_all_tries_nobody():
    made = tour(["h1"], ["h1"])
    assert (made["hosts"]["h1"]["peers"], made["pairs"], made["hosts"]["h1"]["expect"]) == ([], [], ["h1"])


@pytest.mark.parametrize(("p", "d"), [(1, 1), (2, 1), (1, 3), (4, 3), (5, 8)])
def test_pairs_touch_every_host_first_and_each_pair_comes_once(p, d):
    prefill, decode = [f"p{i}" for i in range(p)], [f"d{i}" for i in range(d)]
    pairs = tour(prefill, decode, "p0", pairs=10**6)["pairs"]
    assert sorted(map(tuple, pairs)) == sorted((a, b) for a in prefill for b in decode)
    few = {name for pair in pairs[: max(p, d)] for name in pair}
    assert few == {*prefill, *decode}


def test_a_host_that_has_the_router_alone_tells_its_own_listener_too():
    """It has no high port. Until it was told, it listened on the router's port to its deadline."""
    made = tour(["h2"], ["h3"])
    listening = {"h1": {"random": {}, "ports": {"10.0.0.1": [8000]}, "refused": []}}
    assert made["hosts"]["h1"]["expect"] == ["h1"]
    assert tours.attempts(made, "h1", listening)["tell"] == [{"address": "10.0.0.1", "port": 8000}]


def test_all_are_told_where_all_are_reached():
    made, well = tour(["h1"], ["h2"]), {"peers": {"h2": {"failed": []}}}
    assert tours.all_told(made, {"h1": well, "h2": {"peers": {}}})
    assert not tours.all_told(made, {"h1": well}), "h2 has not tried anybody"
    assert not tours.all_told(made, {"h1": {"peers": {"h2": {"failed": ["..."]}}}, "h2": {"peers": {}}})


def test_pairs_are_limited_and_what_is_left_out_is_told():
    made = tour([f"p{i}" for i in range(5)], [f"d{i}" for i in range(5)], "p0", pairs=6)
    assert (len(made["pairs"]), made["left_out"]) == (6, 19)


def test_attempts_go_where_somebody_listens():
    made = tour(["h1"], ["h2"], "h3")
    listening = {
        name: {
            "random": dict.fromkeys(part["high"], 50000),
            "ports": dict(part["ports"]),
            "refused": [],
        }
        for name, part in made["hosts"].items()
    }
    mine = tours.attempts(made, "h1", listening)
    (peer,) = mine["connect"]
    assert {(p["address"], tuple(p["ports"]), p["source"]) for p in peer["places"]} == {
        ("10.1.0.2", (50000,), "10.1.0.1"),
        ("10.0.0.2", (50000,), None),
        ("10.1.0.2", (40000,), "10.1.0.1"),
        ("10.0.0.2", (40001,), None),
    }
    assert mine["measure"] == [
        {"peer": "h2", "address": "10.1.0.2", "port": 50000, "own": {"address": "10.1.0.1", "port": 50000}}
    ]
    assert tours.attempts(made, "h2", listening)["measure"] == []
    # A router asks by HTTP, and nothing by the KV interface.
    router = tours.attempts(made, "h3", listening)
    assert {(peer["name"], p["address"]) for peer in router["connect"] for p in peer["places"]} == {
        ("h1", "10.0.0.1"),
        ("h2", "10.0.0.2"),
    }
    del listening["h2"]
    assert tours.attempts(made, "h1", listening)["connect"] == []


def test_ports_of_running_members_are_tried_as_they_are():
    fleet = Fleet(h1={"gpus": 1}, h2={"gpus": 1})
    fleet.deploy(TWO)
    made = tours.make(fleet.plan(TWO, "restart").value, fleet.hosts())
    served = made["hosts"]["h2"]["served"]
    assert served == [40000, 40001]
    refused = [{"address": "10.0.0.2", "port": p, "code": "EADDRINUSE", "why": ""} for p in (40000, 40001, 40002)]
    marked = tours.mark_live(made, {"h2": {"random": {}, "ports": {}, "refused": refused}})
    assert [r["live"] for r in marked["h2"]["refused"]] == [True, True, False]
    (peer,) = tours.attempts(made, "h1", marked)["connect"]
    assert peer["places"] == [{"address": "10.0.0.2", "ports": [40001], "ours": False, "source": None}]


def test_listeners_live_as_long_as_hosts_come_in_batches():
    made = tour([f"p{i}" for i in range(10)], ["d0"], "p0")
    assert tours.deadline(made, 5, 1.0) > tours.deadline(made, 50, 1.0) > 30


# -- the table ----------------------------------------------------------------------------------------------------------


def test_the_table_joins_what_is_alike_and_keeps_what_is_not():
    rows = [of_hosts.Row("disk", f"h{n}", "9 GiB free", "2 GiB free") for n in range(1, 7)]
    rows += [
        of_hosts.Row("shm", "h1", "1 MiB free", "1 GiB", "warning"),
        of_hosts.Row("shm", "h2", "1 MiB free", "1 GiB", "warning"),
    ]
    assert of_hosts.table(rows) == [
        "ok       disk  h1, h2, h3, h4 and 2 more  9 GiB free",
        "WARNING  shm   h1                         1 MiB free (expected: 1 GiB)",
        "WARNING  shm   h2                         1 MiB free (expected: 1 GiB)",
    ]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (64 * 2**20, "64 MiB"),
        (None, "unknown"),
        (3 * 2**40, "3.0 TiB"),
    ],
)
def test_sizes(count, expected):
    assert of_hosts.size(count) == expected
