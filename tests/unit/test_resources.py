"""A user's values beside what the plan gives: used where they are right, refused with what to write where they are not."""

from __future__ import annotations

import json

import pytest
from builders import GROUP, Fleet, catalogue, codes, host_facts, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import validate
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.known import Known

IMAGE = "registry.example/engine@sha256:" + "0" * 64
TWO = {"gpus": 1, "hosts": "h1"}


def engine(**changes):
    return {"executable": "/opt/vllm/bin/vllm", "args": [], **changes}


def validated(raw, *hosts, facts=None):
    """The verdict before anything is placed, with the hosts that the patterns stand for; none where nobody has resolved them."""
    named = {role: one["hosts"].split(":") for role, one in raw["roles"].items()}
    known = {h: read_host(h, host_facts(n, **(facts or {}))) for n, h in enumerate(hosts, 1)}
    return validate.validate(GROUP, raw, catalogue(), Known(hosts=known, patterns=named if hosts else {})).findings


def fleet(**hosts):
    """Hosts with two GPUs each, numbered as nvidia-smi does, with interfaces; a host's own facts over these."""
    made = {}
    for number, (name, facts) in enumerate(hosts.items(), 1):
        cards = [{"id": str(i), "uuid": f"GPU-{number}{i}aa", "model": "H100", "vendor": "nvidia"} for i in range(2)]
        its = {
            "interfaces": [
                nic("mgmt0", f"10.0.0.{number}"),
                nic("eth1", f"10.1.0.{number}", rdma_ports=[{"name": "mlx5_0:1", "active": True}]),
            ],
            "rdma_devices": ["mlx5_0"],
            "images": {IMAGE: {"exists": True, "id": "i", "digest": "sha256:1"}},
            **facts,
        }
        made[name] = its
        its.setdefault("gpu_list", cards)
    found = Fleet(**{name: {k: v for k, v in f.items() if k != "gpu_list"} for name, f in made.items()})
    for name, its in made.items():
        found.facts[name]["gpus"] = its["gpu_list"]
    return found


def nic(name, address, prefix=24, **more):
    return {"name": name, "addresses": [address], "networks": [f"{address}/{prefix}"], **more}


ON_ONE = {"prefill": TWO, "decode": TWO}
ON_TWO = {"prefill": {"hosts": "h1"}, "decode": {"hosts": "h2"}, "router": {"hosts": "h1"}}
DOCKER = {"runtime": "docker", "router": {"hosts": "h1", "executable": ...}}


def docker(env=None, **more):
    return spec(**DOCKER, engine={"image": IMAGE, "executable": ..., "args": [], "env": env or {}, **more}, **ON_ONE)


# -- GPUs --------------------------------------------------------------------------------------------------------------


def test_one_card_for_two_members_of_a_host_is_refused_at_once():
    raw = spec(engine=engine(env={"CUDA_VISIBLE_DEVICES": "0"}), **ON_ONE)
    told = only(validated(raw, "h1"), "gpus-not-its-own")
    assert told.severity == "error"
    assert "engine.env.CUDA_VISIBLE_DEVICES: '0'" in told.message
    assert "the one host h1" in told.message
    assert "gpus: 0" in told.hint
    assert told.roles == ("prefill", "decode")


def test_where_nobody_has_resolved_the_hosts_the_plan_tells():
    raw = spec(engine=engine(env={"CUDA_VISIBLE_DEVICES": "0"}), **ON_ONE)
    assert codes(validated(raw)) == []
    made = fleet(h1={}).plan(raw)
    told = only(made.findings, "gpus-not-its-own")
    assert "demo-decode-0 has GPU 1" in told.message


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"])
def test_more_cards_than_the_member_has(name):
    raw = spec(engine=engine(), prefill={"hosts": "h1", "env": {name: "4,5,6,7"}})
    told = only(validated(raw), "gpus-not-its-own")
    assert f"roles.prefill.env.{name}" in told.message
    assert "names 4 cards, and a member has 1" in told.message


@pytest.mark.parametrize("value", ["0", "GPU-10aa", "GPU-10", "${member.gpus}"])
def test_the_members_own_card_is_used(value):
    raw = spec(engine=engine(), prefill={"hosts": "h1", "env": {"CUDA_VISIBLE_DEVICES": value}})
    made = fleet(h1={}).plan(raw)
    assert made.errors == []
    assert made.members["demo-prefill-0"]["parts"][0]["gpus"] == ["0"]


@pytest.mark.parametrize("value", ["1", "GPU-11aa", "7", "GPU-9"])
def test_anothers_card_is_refused(value):
    raw = spec(engine=engine(), prefill={"hosts": "h1", "env": {"CUDA_VISIBLE_DEVICES": value}})
    told = only(fleet(h1={}).plan(raw).findings, "gpus-not-its-own")
    assert told.host == "h1"
    assert "demo-prefill-0 has GPU 0" in told.message


def test_in_a_container_cards_are_counted_from_0():
    assert fleet(h1={}).plan(docker({"CUDA_VISIBLE_DEVICES": "0"})).errors == []
    told = only(fleet(h1={}).plan(docker({"CUDA_VISIBLE_DEVICES": "${member.gpus}"})).findings, "gpus-not-its-own")
    assert "demo-decode-0 has GPU 1" in told.message
    assert "counted from 0: 0" in told.message


def test_a_mask_of_other_cards_than_the_container_has():
    told = only(fleet(h1={}).plan(docker({"CUDA_VISIBLE_DEVICES": "4"})).findings, "gpus-not-its-own")
    assert "on h1 demo-prefill-0 has GPU 0, demo-decode-0 has GPU 1" in told.message
    told = only(validated(docker({"CUDA_VISIBLE_DEVICES": "4,5,6,7"})), "gpus-not-its-own")
    assert "it names 4 cards, and a member has 1" in told.message
    assert told.roles == ("prefill", "decode")


def test_what_a_container_runtime_grants():
    raw = docker({"NVIDIA_VISIBLE_DEVICES": "all"})
    assert codes(validated(raw, "h1")) == []
    assert fleet(h1={}).plan(raw).errors == ["gpus-not-its-own"]
    whole = spec(
        **DOCKER,
        engine={"image": IMAGE, "executable": ..., "env": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        prefill={"hosts": "h1", "gpus": 2},
        decode={"hosts": "h2", "gpus": 2},
    )
    assert fleet(h1={}, h2={}).plan(whole).errors == []
    assert "gpus-not-its-own" in codes(validated(docker({"NVIDIA_VISIBLE_DEVICES": "void"}), "h1"))


def test_it_grants_nothing_to_a_process_of_the_host():
    raw = spec(engine=engine(env={"NVIDIA_VISIBLE_DEVICES": "all"}), **ON_ONE)
    assert only(validated(raw, "h1"), "no-effect").severity == "warning"
    assert fleet(h1={}).plan(raw).errors == []


@pytest.mark.parametrize(
    ("flag", "right", "wrong"),
    [("--base-gpu-id", "0", "4"), ("--gpu-id-step", "1", "2")],
)
def test_how_sglang_counts_its_cards(flag, right, wrong):
    def raw(value, gpus=1):
        side = {"hosts": "h1", "gpus": gpus}
        changes = {"executable": "/opt/sglang/bin/python3", "args": [f"{flag} {value}"]}
        return spec(mode="sglang-nixl", engine=changes, prefill=side, decode=side)

    assert codes(validated(raw(right), "h1")) == []
    told = only(validated(raw(wrong), "h1"), "gpus-not-its-own")
    assert f"engine.args: {flag}={wrong}" in told.message
    assert codes(validated(raw(wrong, gpus=0), "h1")) == []


@pytest.mark.parametrize(
    ("ids", "found"), [("0,1", []), ("1,0", []), ("2,3", ["gpus-not-its-own"]), ("0", ["gpus-not-its-own"])]
)
def test_device_ids_count_within_the_members_own(ids, found):
    raw = spec(
        engine=engine(),
        prefill={"hosts": "h1", "gpus": 2, "args": [f"--device-ids {ids}"]},
        decode={"hosts": "h2", "gpus": 2},
    )
    assert codes(validated(raw, "h1", "h2").errors) == found


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ("/dev/nvidia0", []),
        ("/dev/nvidia1:/dev/nvidia1:rwm", ["gpus-not-its-own"]),
        ("/dev/davinci7", ["gpus-not-its-own"]),
        ("/dev/nvidiactl", []),
        ("/dev/infiniband", []),
    ],
)
def test_devices_of_cards(device, found):
    raw = docker()
    raw["roles"]["prefill"]["devices"] = [device]
    made = fleet(h1={}).plan(raw)
    assert made.errors == found
    if found:
        assert f"roles.prefill.devices: {device.partition(':')[0]}" in only(made.findings, found[0]).message


def test_a_secret_is_no_choice_of_cards():
    raw = spec(engine=engine(secrets={"CUDA_VISIBLE_DEVICES": "0"}), prefill={"hosts": "h1", "gpus": 0})
    assert [f.roles for f in validated(raw, "h1").errors if f.code == "owned-variable"] == [("decode",)]


def chosen(prefill, decode, **more):
    sides = {"prefill": {"gpus": 0, "hosts": "h1", "env": {"CUDA_VISIBLE_DEVICES": prefill}}}
    sides["decode"] = {"gpus": 0, "hosts": "h1", "env": {"CUDA_VISIBLE_DEVICES": decode}, **more}
    return spec(engine=engine(args=["--gpu-memory-utilization=0.4"]), **sides)


@pytest.mark.parametrize(("prefill", "decode"), [("0", "1"), ("0", "0"), ("0,1", "1"), ("", "-1"), ("GPU-10aa", "1")])
def test_without_cards_of_the_plan_the_users_choice_is_used(prefill, decode):
    made = fleet(h1={}).plan(chosen(prefill, decode))
    assert made.errors == []
    assert made.members["demo-prefill-0"]["parts"][0]["env"]["CUDA_VISIBLE_DEVICES"] == prefill


def test_a_chosen_card_must_be_there():
    told = only(fleet(h1={}).plan(chosen("0", "5")).findings, "gpus-not-its-own")
    assert "h1 has no GPU 5; it has 0, 1" in told.message


def test_a_chosen_card_must_be_nobody_elses():
    told = only(fleet(h1={}).plan(chosen("0", ..., gpus=1, env={})).findings, "gpu-taken")
    assert "GPU 0 of h1 is demo-decode-0's" in told.message


def test_nothing_is_known_of_the_cards_of_a_host_without_facts():
    assert fleet(h1={"gpu_list": []}).plan(chosen("3", "4")).errors == []


# -- ports -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "role", "name"),
    [
        ("vllm-nixl", "prefill", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
        ("vllm-nixl", "decode", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
        ("vllm-mooncake", "prefill", "VLLM_MOONCAKE_BOOTSTRAP_PORT"),
    ],
)
def test_what_stands_for_a_band_is_the_plans(mode, role, name):
    told = only(validated(spec(mode=mode, engine=engine(), **{role: {"env": {name: 21057}}})), "owned-variable")
    assert told.severity == "error"
    assert name in told.message
    assert "21057" in told.message
    band = "bootstrap" if "BOOTSTRAP" in name else "kv_side_channel"
    assert codes(validated(spec(mode=mode, engine=engine(), **{role: {"env": {name: f"${{ports.{band}}}"}}}))) == []
    assert "owned-variable" in codes(validated(spec(mode=mode, engine=engine(), **{role: {"secrets": {name: "1"}}})))


def test_on_the_other_role_it_is_a_port_like_any():
    raw = spec(
        mode="vllm-mooncake", engine=engine(), decode={"hosts": "h1", "env": {"VLLM_MOONCAKE_BOOTSTRAP_PORT": 8998}}
    )
    assert codes(validated(raw)) == []


def test_marks_of_the_collection_are_its_own():
    found = validated(spec(engine=engine(env={"INFEROPS_PD_MEMBER": "x"}))).errors
    assert {f.code for f in found} == {"owned-variable"}
    assert all("INFEROPS_PD_MEMBER" in f.message for f in found)


LITERALS = [
    ({"args": ["--master-port=29500"]}, "--master-port=29500"),
    ({"args": ["--master_port 29500"]}, "--master-port=29500"),
    ({"args": ["--data-parallel-rpc-port=29550"]}, "--data-parallel-rpc-port=29550"),
    ({"args": ["-dpp 29550"]}, "--data-parallel-rpc-port=29550"),
    ({"args": ["--data-parallel-rpc 29550"]}, "--data-parallel-rpc-port=29550"),
    ({"args": ["--grpc_po=29550"]}, "--grpc-port=29550"),
    ({"args": ["--kv-events-config.publisher=zmq", "--kv_events_config.endpoint=tcp://*:6000"]}, "port 6000"),
    ({"args": ["--kv-events-config.enable_kv_cache_events=true"]}, "port 5557"),
    ({"args": ['--ec-transfer-config={"ec_connector":"ECMooncakeConnector","ec_port":6100}']}, "port 6100"),
    ({"env": {"VLLM_PORT": 23000}}, "VLLM_PORT: '23000'"),
    ({"env": {"MASTER_PORT": "29500"}}, "MASTER_PORT"),
    ({"env": {"PROMETHEUS_MULTIPROC_DIR": "/tmp/metrics"}}, "PROMETHEUS_MULTIPROC_DIR"),
    ({"args": ['--kv-events-config={"enable_kv_cache_events":true,"publisher":"zmq"}']}, "port 5557"),
    ({"args": ['--kv-events-config={"enable_kv_cache_events":true,"endpoint":"tcp://*:6000"}']}, "port 6000"),
    (
        {
            "args": [
                '--kv-events-config={"publisher":"zmq","endpoint":"tcp://*:${port}","replay_endpoint":"tcp://*:6001"}'
            ]
        },
        "port 6001",
    ),
    (
        {"args": ['--kv-events-config={"publisher":"zmq","endpoint":"","replay_endpoint":"tcp://10.0.0.1:6002"}']},
        "port 6002",
    ),
    ({"args": ['--kv-events-config={"publisher":"zmq","endpoint":"ipc:///tmp/events"}']}, "ipc:///tmp/events"),
]


@pytest.mark.parametrize(("written", "says"), LITERALS)
def test_two_members_of_a_host_cannot_have_one_port(written, says):
    raw = spec(engine=engine(**written), **ON_ONE)
    told = only(validated(raw, "h1"), "claimed-twice")
    assert says in told.message
    assert told.message.startswith("engine.")
    assert "2 members (prefill and decode) would take it, and have the one host h1" in told.message
    assert codes(validated(raw)) == []
    told = only(fleet(h1={}).plan(raw).findings, "claimed-twice")
    assert "demo-prefill-0 and demo-decode-0 are on h1" in told.message
    apart = spec(engine=engine(**written), **ON_TWO)
    assert codes(validated(apart, "h1", "h2")) == []
    assert fleet(h1={}, h2={}).plan(apart).errors == []


def test_two_members_of_a_host_cannot_have_one_port_of_sglang():
    raw = spec(
        mode="sglang-nixl", engine={"args": ["--context-length=32768", "--dist-init-addr 127.0.0.1:5757"]}, **ON_ONE
    )
    assert "--dist-init-addr" in only(validated(raw, "h1"), "claimed-twice").message


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--nccl-init-addr 127.0.0.1:5757", "--dist-init-addr=127.0.0.1:5757"),
        ("--grpc-http-sidecar-port 5757", "--smg-http-sidecar-port=5757"),
        ("--load-publish-endpoint tcp://*:5757", "--load-publish-endpoint=tcp://*:5757"),
        ("--decoupled-spec-bind-endpoint ipc:///tmp/bound", "--decoupled-spec-bind-endpoint=ipc:///tmp/bound"),
    ],
)
def test_and_however_it_is_spelled(line, told):
    raw = spec(mode="sglang-nixl", engine={"args": ["--context-length=32768", line]}, **ON_ONE)
    assert told in only(validated(raw, "h1"), "claimed-twice").message
    apart = spec(mode="sglang-nixl", engine={"args": ["--context-length=32768", line]}, **ON_TWO)
    assert codes(validated(apart, "h1", "h2")) == []


@pytest.mark.parametrize(
    "written",
    [
        {"args": ["--master-port=0"]},
        {"env": {"VLLM_PORT": "${ports.kv_side_channel}"}},
        {"args": ['--kv-events-config={"enable_kv_cache_events":false,"endpoint":"tcp://*:6000"}']},
        {"args": ['--kv-events-config={"enable_kv_cache_events":true,"publisher":"null"}']},
        {"args": ['--kv-events-config={"publisher":"zmq","endpoint":"tcp://10.0.0.9:6000"}']},
        {"args": ['--kv-events-config={"publisher":"zmq","endpoint":"tcp://*:${port}"}']},
        {"args": ["--kv-events-config=nonsense"]},
        {"args": ['--kv-events-config={"publisher":"zmq","endpoint":"tcp://0.0.0.0:6000"}']},
        {"env": {"PROMETHEUS_MULTIPROC_DIR": "/tmp/${member.id}"}},
        {"args": ['--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both","kv_port":14579}']},
    ],
)
def test_what_is_no_port_of_the_member_clashes_with_nothing(written):
    raw = spec(engine=engine(**written), **ON_ONE)
    assert "claimed-twice" not in codes(validated(raw, "h1"))
    assert "claimed-twice" not in fleet(h1={}).plan(raw).errors


def test_more_members_than_hosts():
    raw = spec(engine=engine(), prefill={"hosts": "h1:h2", "replicas": 3, "args": ["--master-port=29500"]})
    assert (
        "3 members (prefill) would take it, and have 2 hosts"
        in only(validated(raw, "h1", "h2"), "claimed-twice").message
    )
    raw["roles"]["prefill"]["replicas"] = 2
    assert codes(validated(raw, "h1", "h2")) == []


def test_events_of_data_parallel_ranks_take_a_port_each():
    config = '--kv-events-config={"publisher":"zmq","endpoint":"tcp://*:6000"}'
    other = '--kv-events-config={"publisher":"zmq","endpoint":"tcp://*:6001"}'
    raw = spec(
        engine=engine(),
        prefill={"hosts": "h1", "args": [config, "--data-parallel-size=2"]},
        decode={"hosts": "h1", "args": [other]},
    )
    its = fleet(h1={"gpu_list": [{"id": str(i), "model": "H100", "vendor": "nvidia"} for i in range(4)]}).plan(raw)
    assert "demo-prefill-0 and demo-decode-0" in only(its.findings, "claimed-twice").message


def test_folders_of_containers_are_their_own():
    assert fleet(h1={}).plan(docker({"PROMETHEUS_MULTIPROC_DIR": "/tmp/metrics"})).errors == []
    assert codes(validated(docker({"PROMETHEUS_MULTIPROC_DIR": "/tmp/metrics"}), "h1")) == []


def test_a_port_of_the_range_is_the_plans_to_give():
    raw = spec(engine=engine(), decode={"hosts": "h1", "args": ["--master-port=40050"]})
    assert "40000-40063" in only(fleet(h1={}).plan(raw).findings, "claimed-twice").message
    taken = spec(engine=engine(), decode={"hosts": "h1", "args": ["--master-port=40000"]})
    assert "demo-prefill-0 has it on h1" in only(fleet(h1={}).plan(taken).findings, "claimed-twice").message


def test_a_port_that_something_else_listens_on():
    raw = spec(engine=engine(), decode={"hosts": "h1", "args": ["--master-port=29500"]})
    told = only(fleet(h1={"used": {29500: "etcd"}}).plan(raw).findings, "port-taken")
    assert "--master-port=29500" in told.message
    assert "etcd (pid " in told.message


def test_a_member_that_runs_is_not_in_its_own_way():
    its = fleet(h1={})
    raw = spec(engine=engine(), decode={"hosts": "h1", "args": ["--master-port=29500"]})
    its.apply(its.plan(raw))
    its.facts["h1"]["ports"]["used"].append({"port": 29500, "member": "demo-decode-0", "command": "python3"})
    assert its.plan(raw).errors == []
    assert its.plan(raw, "restart").errors == []


def test_a_group_of_the_same_run_has_its_ports():
    one = spec(engine=engine(), prefill={"hosts": "h1", "args": ["--master-port=29500"]}, decode={"hosts": "h2"})
    its = fleet(h1={}, h2={})
    first = its.plan(one, name="other")
    its.facts["h1"]["gpus"].append({"id": "2", "model": "H100", "vendor": "nvidia"})
    other = spec(
        engine=engine(), decode={"hosts": "h1", "args": ["--master-port=40000"]}, router={"hosts": "h2", "port": 8001}
    )
    its = its.plan(other, reserved=[first.plan])
    assert "other-" in only(its.findings, "claimed-twice").message


@pytest.mark.parametrize("value", ["tcp://10.96.0.7:8000", "eight", "70000", "", "²", "9" * 5000])
def test_a_port_that_is_none(value):
    told = only(validated(spec(engine=engine(env={"VLLM_PORT": value}))), "bad-value")
    assert "engine.env.VLLM_PORT" in told.message
    assert told.roles == ("prefill", "decode")
    assert ("URI" in told.message) == value.startswith("tcp")


ASCEND = {
    "kv_connector": "MooncakeConnectorV1",
    "kv_role": "kv_producer",
    "kv_connector_extra_config": {"prefill": {"tp_size": 1, "dp_size": 1}, "decode": {"tp_size": 1, "dp_size": 1}},
}


@pytest.mark.parametrize(
    ("port", "found"),
    [("36000", ["owned-flag"]), (None, ["owned-flag"]), ("${ports.kv_port}", []), ('"${ports.kv_port}"', [])],
)
def test_a_connector_of_ones_own_listens_on_the_plans_band(port, found):
    text = json.dumps(ASCEND)[:-1] + (f', "kv_port": {port}' if port else "") + "}"
    raw = spec(mode="vllm-ascend-mooncake", engine=engine(), prefill={"args": [f"--kv-transfer-config={text}"]})
    findings = validated(raw)
    assert codes(findings.errors) == found
    for told in findings.errors:
        assert "kv_port" in told.message
        assert '"kv_port": ${ports.kv_port}' in told.hint


def test_ports_of_a_connector_of_another_family_are_collected():
    text = json.dumps({"kv_connector": "P2pNcclConnector", "kv_role": "kv_both", "kv_port": 21001})
    raw = spec(engine=engine(args=[f"--kv-transfer-config={text}"]), **ON_ONE)
    assert "port 21001" in only(validated(raw, "h1"), "claimed-twice").message


# -- addresses, interfaces and devices -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["VLLM_HOST_IP", "VLLM_NIXL_SIDE_CHANNEL_HOST", "HCCL_IF_IP", "HOST_IP", "MC_TCP_BIND_ADDRESS"]
)
def test_an_address_of_another_host(name):
    raw = spec(engine=engine(), prefill={"hosts": "h1", "env": {name: "172.17.0.16"}})
    told = only(fleet(h1={}).plan(raw).findings, "not-of-host")
    assert f"roles.prefill.env.{name}: '172.17.0.16': h1 has no such address; it has 10.0.0.1, 10.1.0.1" in told.message
    assert "${member.kv_address}" in told.hint
    right = spec(engine=engine(), prefill={"hosts": "h1", "env": {name: "10.0.0.1"}})
    assert fleet(h1={}).plan(right).errors == []


MANY = {f"h{number:02}": {} for number in range(1, 13)}
OF_MANY = {"prefill": {"hosts": "h01:h02", "replicas": 2}, "decode": {"hosts": ":".join([*MANY][2:]), "replicas": 10}}
SAID_ONCE = [
    (
        {"env": {"VLLM_HOST_IP": "172.17.0.16"}},
        "not-of-host",
        "h03, h04, h05, h06, h07, h08, h09, h10 and 4 more have no such address; h03 has 10.0.0.3, 10.1.0.3.",
    ),
    (
        {"env": {"GLOO_SOCKET_IFNAME": "bond0"}},
        "not-of-host",
        "h10 and 4 more have no interface bond0; h03 has eth1, mgmt0.",
    ),
    (
        {"args": ["--master-port=40050"]},
        "claimed-twice",
        "members of h01 their ports; likewise on h02, h03, h04, h05, h06, h07, h08, h09 and 3 more.",
    ),
    (
        {"args": ["--master-port=29500"]},
        "port-taken",
        "on h01 it is taken by etcd (pid 4500); likewise on h02, h03, h04, h05, h06, h07, h08, h09 and 3 more.",
    ),
]


@pytest.mark.parametrize(("written", "code", "says"), SAID_ONCE)
def test_what_is_wrong_on_many_hosts_is_said_once(written, code, says):
    made = fleet(**{name: {"used": {29500: "etcd"}} for name in MANY})
    told = only(made.plan(spec(engine=engine(**written), **OF_MANY)).findings, code)
    assert says in told.message
    assert told.host is None
    assert told.roles == ("decode", "prefill")


def test_members_that_meet_on_several_hosts_are_told_once():
    pairs = {"prefill": {"hosts": "h1:h2", "replicas": 2}, "decode": {"hosts": "h1:h2", "replicas": 2}}
    raw = spec(engine=engine(args=["--master-port=29500"]), **pairs)
    told = only(fleet(h1={}, h2={}).plan(raw).findings, "claimed-twice")
    assert told.message.endswith("demo-prefill-0 and demo-decode-0 are on h1; likewise on h2.")


def test_hosts_that_lack_different_devices_are_told_apart():
    devices = {"h1": {"rdma_devices": ["mlx5_0", "mlx5_8"]}, "h2": {}, "h3": {}}
    raw = spec(
        mode="vllm-mooncake",
        engine=engine(env={"MOONCAKE_DEVICE": "mlx5_8,mlx5_9"}),
        prefill={"hosts": "h1:h2", "replicas": 2},
        decode={"hosts": "h3"},
    )
    told = [f for f in fleet(**devices).plan(raw).findings.items if f.code == "not-of-host"]
    assert [f.host for f in told] == [None, "h1"]
    assert "h3, h2 have no RDMA device mlx5_8 or mlx5_9; h3 has mlx5_0." in told[0].message
    assert "h1 has no RDMA device mlx5_9; it has mlx5_0, mlx5_8." in told[1].message


def test_one_address_for_two_hosts_is_refused_at_once():
    raw = spec(mode="vllm-ascend-mooncake", engine=engine(env={"HCCL_IF_IP": "10.1.0.1"}), **ON_TWO)
    told = only(validated(raw, "h1", "h2", facts={"vendor": "ascend"}), "not-of-host")
    assert "one address is one host's alone" in told.message
    assert codes(validated(raw).errors) == []


def test_one_address_for_two_hosts_that_say_nothing_of_theirs():
    raw = spec(engine=engine(), prefill={"hosts": "h1:h2", "replicas": 2, "env": {"VLLM_HOST_IP": "10.1.0.1"}})
    bare = {"interfaces": []}
    assert "members on h1, h2 would" in only(fleet(h1=bare, h2=bare).plan(raw).findings, "not-of-host").message


def test_an_address_that_is_every_hosts_own_is_another_matter():
    raw = spec(engine=engine(env={"VLLM_DP_MASTER_IP": "127.0.0.1", "MC_TCP_BIND_ADDRESS": "0.0.0.0"}), **ON_TWO)
    assert fleet(h1={}, h2={}).plan(raw).errors == []


DEVICES = [
    ("GLOO_SOCKET_IFNAME", "eth1", True),
    ("GLOO_SOCKET_IFNAME", "bond0", False),
    ("GLOO_SOCKET_IFNAME", "eth1,bond0", False),
    ("GLOO_SOCKET_IFNAME", "${member.kv_interface}", True),
    ("TP_SOCKET_IFNAME", "eth", False),
    ("NCCL_SOCKET_IFNAME", "eth", True),
    ("NCCL_SOCKET_IFNAME", "=eth1", True),
    ("NCCL_SOCKET_IFNAME", "=eth", False),
    ("NCCL_SOCKET_IFNAME", "^docker,lo", True),
    ("NCCL_SOCKET_IFNAME", "bond0,eth1", True),
    ("NCCL_SOCKET_IFNAME", "bond0,ib", False),
    ("HCCL_SOCKET_IFNAME", "enp189s0f0", False),
    ("NCCL_IB_HCA", "mlx5", True),
    ("NCCL_IB_HCA", "=mlx5_0:1", True),
    ("NCCL_IB_HCA", "mlx5_9", False),
    ("NCCL_IB_HCA", "^mlx5_9", True),
    ("UCX_NET_DEVICES", "all", True),
    ("UCX_NET_DEVICES", "mlx5_0:1,eth1", True),
    ("UCX_NET_DEVICES", "mlx5_9:1,eth1", True),
    ("UCX_NET_DEVICES", "mlx5_*:1", True),
    ("UCX_NET_DEVICES", "mlx5_9:1", False),
    ("MOONCAKE_DEVICE", "mlx5_0,mlx5_9", False),
    ("MOONCAKE_DEVICE", "auto-discovery", True),
]


@pytest.mark.parametrize(("name", "value", "there"), DEVICES)
def test_interfaces_and_devices_that_a_host_has_not(name, value, there):
    made = fleet(h1={}).plan(spec(engine=engine(env={name: value}), **ON_ONE))
    assert made.errors == ([] if there else ["not-of-host"])
    if not there:
        told = only(made.findings, "not-of-host")
        assert f"engine.env.{name}" in told.message
        assert told.host == "h1"
        assert told.roles == ("decode", "prefill")


@pytest.mark.parametrize(
    ("value", "there"),
    [
        ("mlx5_0", True),
        ("mlx5_9", False),
        ("mlx5_0,mlx5_9", False),
        ('{"0": "mlx5_0", "1": "mlx5_0"}', True),
        ('{"0": "mlx5_0", "1": "mlx5_9"}', False),
        ("/etc/ib.json", True),
        ("${member.rdma_devices}", True),
    ],
)
def test_rdma_devices_of_sglang(value, there):
    args = {"executable": "/opt/sglang/bin/python3", "args": [f"--disaggregation-ib-device={value}"]}
    made = fleet(h1={}).plan(spec(mode="sglang-mooncake", engine=args, **ON_ONE))
    assert ("not-of-host" not in made.errors) == there


def test_what_nobody_has_looked_at_is_not_judged():
    raw = spec(
        engine=engine(env={"NCCL_IB_HCA": "mlx5_9", "UCX_NET_DEVICES": "mlx5_9:1", "VLLM_HOST_IP": "10.9.9.9"}),
        **ON_ONE,
    )
    its = fleet(h1={"interfaces": []})
    del its.facts["h1"]["rdma_devices"]
    assert its.plan(raw).errors == []


def test_one_address_of_two_hosts():
    raw = spec(engine=engine(), **ON_TWO)
    same = {"address": "10.0.0.9"}
    told = only(fleet(h1=same, h2=same).plan(raw).findings, "address-shared")
    assert "h1 and h2 have one address, 10.0.0.9" in told.message
    assert "pd_address" in told.hint
    bridge = {"kv_interface": {"names": ["docker0"], "address": "172.17.0.1", "rdma_devices": []}}
    told = only(fleet(h1=bridge, h2=bridge).plan(raw).findings, "address-shared")
    assert "KV address, 172.17.0.1" in told.message
    assert fleet(h1={}, h2={}).plan(raw).errors == []


# -- KV addresses in two networks --------------------------------------------------------------------------------------


def kv(name, address):
    return {"names": [name], "address": address, "rdma_devices": []}


def test_a_management_network_among_fast_ones_is_told():
    slow = {"kv_interface": kv("mgmt0", "10.0.0.1")}
    told = only(fleet(h1=slow, h2={}).plan(spec(engine=engine(), **ON_TWO)).findings, "kv-networks")
    assert told.severity == "warning"
    assert "10.0.0.0/24 on h1 (mgmt0); 10.1.0.0/24 on h2 (eth1)" in told.message
    assert "h1 is in the network of h2 by eth1" in told.message
    assert "pd_kv_interface" in told.hint


def test_a_fabric_that_routes_between_networks_is_fine():
    def rack(number):
        its = {"interfaces": [nic("mgmt0", f"10.0.0.{number}"), nic("rdma0", f"10.{number}.0.1")]}
        return {**its, "kv_interface": kv("rdma0", f"10.{number}.0.1")}

    assert fleet(h1=rack(1), h2=rack(2)).plan(spec(engine=engine(), **ON_TWO)).codes == []


def test_interfaces_of_other_names_in_one_network_are_fine():
    other = {"interfaces": [nic("ens3", "10.1.0.1")], "kv_interface": kv("ens3", "10.1.0.1")}
    assert fleet(h1=other, h2={}).plan(spec(engine=engine(), **ON_TWO)).codes == []


def test_a_prefix_that_one_host_writes_wider_is_one_network():
    wide = {"interfaces": [nic("ens3", "10.1.0.1", prefix=16)], "kv_interface": kv("ens3", "10.1.0.1")}
    assert fleet(h1=wide, h2={}, h3={}).plan(spec(engine=engine(), **ON_TWO)).codes == []


def test_addresses_of_two_families_are_told():
    six = {"interfaces": [nic("eth1", "fd00::1", prefix=64)], "kv_interface": kv("eth1", "fd00::1")}
    named = {"interfaces": [nic("eth2", "10.1.0.2")], "kv_interface": kv("eth2", "10.1.0.2")}
    told = only(fleet(h1=six, h2=named).plan(spec(engine=engine(), **ON_TWO)).findings, "kv-networks")
    assert "10.1.0.0/24 on h2 (eth2); fd00::/64 on h1 (eth1)" in told.message


def test_a_router_is_in_whatever_network():
    raw = spec(engine=engine(), prefill={"hosts": "h1"}, decode={"hosts": "h1"}, router={"hosts": "h2"})
    slow = {"kv_interface": kv("mgmt0", "10.0.0.2")}
    assert fleet(h1={}, h2=slow).plan(raw).codes == []


@pytest.mark.parametrize("networks", [[], ["10.1.0.1/32"], ["nonsense"]])
def test_without_a_network_nothing_is_told(networks):
    alone = {
        "interfaces": [{"name": "x0", "addresses": ["10.9.0.1"], "networks": networks}],
        "kv_interface": kv("x0", "10.9.0.1"),
    }
    assert fleet(h1=alone, h2={}).plan(spec(engine=engine(), **ON_TWO)).codes == []


def test_devices_of_a_cache_are_those_of_the_hosts():
    def raw(devices):
        cache = {
            "provider": "mooncake",
            "service": "10.0.0.9:50051",
            "roles": ["prefill"],
            "options": {"device_name": devices},
        }
        return spec(mode="vllm-mooncake", engine=engine(), kv_cache=cache, **ON_ONE)

    assert "not-of-host" not in fleet(h1={}).plan(raw("mlx5_0")).errors
    told = only(fleet(h1={}).plan(raw("mlx5_0,mlx5_9")).findings, "not-of-host")
    assert "kv_cache.options.device_name" in told.message
    assert "mlx5_9" in told.message


# -- what the collection mounts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mount", "found"),
    [
        ("/srv/env:/run/inferops-pd/env", ["owned-mount"]),
        ("/srv:/run/inferops-pd", ["owned-mount"]),
        ({"source": "/srv", "target": "/run/inferops-pd/guard/"}, ["owned-mount"]),
        ("/srv:/run/inferops-pd-mine", []),
        ("/srv:/run", []),
    ],
)
def test_what_the_collection_brings_is_not_mounted_over(mount, found):
    findings = validated(docker(mounts=[mount]))
    assert codes(findings.errors) == found
    if found:
        assert only(findings, "owned-mount").message.startswith("engine.mounts: /run/inferops-pd")


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [("other", ["served-name-differs"]), ("demo", []), ("other demo", []), ("${served_model_name}", [])],
)
def test_a_command_of_ones_own_serves_the_groups_name(name, found):
    command = ["/opt/vllm", "serve", "/models/m", f"--served-model-name={name}"]
    if " " in name:
        command[-1:] = ["--served-model-name", *name.split()]
    raw = spec(
        mode="custom", engine={"executable": ..., "command": command, "args": []}, router={"command": ["/opt/router"]}
    )
    findings = validated(raw, "h1")
    assert codes(findings) == found
    if found:
        told = only(findings, "served-name-differs")
        assert told.severity == "warning"
        assert "'demo'" in told.message
        assert "served_model_name: other" in told.hint
        assert told.roles == ("prefill", "decode")
