"""Role templates: what the recipe adds to what the user wrote, what of it is the user's to change, and the revision over it."""

from __future__ import annotations

import dataclasses
import json

import pytest
from builders import Fleet, cases, check_findings, codes, judge, mode, nixl_mode, revision, spec, spec_of

from ansible_collections.inferops.pd.plugins.module_utils._core.base import placeholders
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError


@pytest.mark.parametrize("row", [*cases("connector"), *cases("owned"), *cases("placeholders")])
def test_findings(row):
    check_findings(judge(spec_of(row)).findings.items, row["findings"])


def template(name: str, *modes, **changes):
    verdict = judge(spec(**changes), *modes)
    assert verdict.template is not None, verdict.findings.to_plain()
    return verdict.template.roles[name]


def flags(argv, flag: str) -> list[str]:
    return [token for token in argv if token == flag or token.startswith(flag + "=")]


# -- the command line -------------------------------------------------------------------------------------------------


def test_an_engines_command_line():
    connector = (
        '{"kv_connector":"NixlConnector","kv_role":"kv_producer","kv_load_failure_policy":"fail",'
        '"kv_connector_extra_config":{"kv_lease_duration":60}}'
    )
    assert list(template("prefill", prefill={"gpus": 2}, decode={"gpus": 2}).argv) == [
        "/opt/vllm/bin/vllm",
        "serve",
        "/models/m",
        f"--kv-transfer-config={connector}",
        "--tensor-parallel-size=2",
        "--max-model-len=32768",
        "--host=${member.address}",
        "--port=${port}",
        "--served-model-name=demo",
    ]


def test_the_routers_command_line_under_dynamic_membership():
    argv = template("router", router={"args": ["--policy cache_aware", "--log-level=debug"]}).argv
    assert argv[0] == "/opt/vllm/bin/vllm-router"
    assert "--enable-igw" in argv
    assert flags(argv, "--port") == ["--port=8000"]
    assert flags(argv, "--prometheus-port") == ["--prometheus-port=${ports.prometheus}"]


def test_what_the_user_tunes_takes_the_place_of_the_recipes_default_and_stands_last():
    argv = template("router", router={"args": ["--policy cache_aware", "--retry_max_retries=0"]}).argv
    assert flags(argv, "--policy") == ["--policy"]
    assert not flags(argv, "--retry-max-retries")
    assert argv[-3:] == ("--policy", "cache_aware", "--retry_max_retries=0")


def test_the_routers_command_line_under_restart_membership():
    argv = template("router", router={"membership": "restart"}).argv
    assert "--enable-igw" not in argv
    assert flags(argv, "--prefill-policy") == ["--prefill-policy=cache_aware"]
    assert flags(argv, "--decode-policy") == ["--decode-policy=round_robin"]
    assert not flags(argv, "--policy")


def test_a_command_of_the_users_own_takes_the_place_of_the_modes():
    argv = template("prefill", prefill={"command": ["/usr/bin/nice", "${executable}", "serve", "${model}"]}).argv
    assert argv[:4] == ("/usr/bin/nice", "/opt/vllm/bin/vllm", "serve", "/models/m")
    assert "--port=${port}" in argv


def test_a_command_may_be_one_line():
    argv = template("prefill", prefill={"command": "/usr/bin/nice -n 5 ${executable} serve '${model}'"}).argv
    assert argv[:6] == ("/usr/bin/nice", "-n", "5", "/opt/vllm/bin/vllm", "serve", "/models/m")


def test_a_router_of_the_users_own_runs_exactly_as_written():
    verdict = judge(spec(router={"command": ["/opt/my-router", "--listen=${port}"], "args": ["--x 1"]}))
    assert verdict.template.roles["router"].argv == ("/opt/my-router", "--listen=${port}", "--x", "1")
    assert verdict.template.policy == "manual"


def test_a_router_of_the_users_own_keeps_everything_else_that_is_written_of_it():
    written = {
        "command": ["/opt/my-router"],
        "pull": "always",
        "resources": {"cpu": 2, "memory": "2GiB"},
        "mounts": ["/data/${group}:/data"],
        "devices": ["/dev/x"],
    }
    verdict = judge(spec(router=written))
    assert codes(verdict.findings) == []
    role = verdict.template.roles["router"]
    assert (role.pull, role.resources, role.devices) == ("always", {"cpu": 2, "memory": "2GiB"}, ("/dev/x",))
    assert role.mounts == ("/data/demo:/data",)
    made = Fleet(h1={}).plan(spec(router=written))
    part = made.plan["router"]["member"]["parts"][0]
    assert (part["pull"], part["limits"], part["mounts"]) == ("always", written["resources"], ["/data/demo:/data"])


def test_nothing_is_injected_that_was_not_asked_for():
    argv = template("decode", engine={"args": []}).argv
    known = {"--kv-transfer-config", "--host", "--port", "--served-model-name"}
    assert {token.split("=")[0] for token in argv[3:]} == known


def test_a_written_size_is_not_written_again():
    argv = template("prefill", prefill={"gpus": 4, "extra_args": ["-tp 4"]}, decode={"gpus": 4}).argv
    assert flags(argv, "--tensor-parallel-size") == []
    assert template("decode", prefill={"gpus": 4, "extra_args": ["-tp 4"]}, decode={"gpus": 4}).argv[4] == (
        "--tensor-parallel-size=4"
    )


@pytest.mark.parametrize(
    ("changes", "gpus"),
    [
        ({}, 1),
        ({"gpus": 0}, 0),
        ({"gpus": 4}, 4),
        ({"extra_args": ["-tp 4"]}, 4),
        ({"extra_args": ["-tp 2 -dp 2 -pp 2"]}, 8),
    ],
    ids=str,
)
def test_gpus_of_a_member(changes, gpus):
    assert template("decode", decode=changes).gpus == gpus


def test_the_lease_and_the_failure_policy_go_where_the_recipe_says():
    def connector(role):
        argv = template(role, kv_lease=120, kv_load_failure_policy="recompute").argv
        (flag,) = flags(argv, "--kv-transfer-config")
        return json.loads(flag.partition("=")[2])

    assert connector("prefill")["kv_connector_extra_config"] == {"kv_lease_duration": 120}
    assert connector("prefill")["kv_load_failure_policy"] == "recompute"
    assert connector("decode")["kv_load_failure_policy"] == "recompute"
    assert "kv_connector_extra_config" not in connector("decode")


def test_a_side_channel_port_for_each_data_parallel_rank():
    assert template("decode", decode={"extra_args": ["--data_parallel_size 4"]}).bands == (("kv_side_channel", 4),)
    assert template("decode", decode={"extra_args": ["--data_parallel_size 4"]}).port_demand() == 5
    assert template("router").bands == (("prometheus", 1),)


@pytest.mark.parametrize(("asked", "width"), [("data_parallel_size", 4), ("tensor_parallel_size", 2), (3, 3)])
@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_the_width_of_a_band_is_a_number_or_a_size(asked, width, role):
    own = mode(
        "own", bands={**nixl_mode()["bands"], "kv_side_channel": {"roles": ["prefill", "decode"], "width": asked}}
    )
    engine = {"args": ["-tp 2 -dp 4"]}
    assert template(role, own, mode="own", engine=engine).bands == (("kv_side_channel", width),)


@pytest.mark.parametrize("width", ["gpus", "world_size"])
def test_a_band_as_wide_as_all_devices(width):
    own = mode(
        "own", bands={**nixl_mode()["bands"], "kv_side_channel": {"roles": ["prefill", "decode"], "width": width}}
    )
    assert template("decode", own, mode="own", engine={"args": ["-tp 2 -dp 4"]}).bands == (("kv_side_channel", 8),)


def test_files_go_to_the_roles_that_the_mode_names():
    files = [{"path": "/etc/a", "content": "${role}"}, {"path": "/etc/b", "content": "x", "roles": ["prefill"]}]
    own = mode("own", files=files)
    assert [f["path"] for f in template("prefill", own, mode="own").files] == ["/etc/a", "/etc/b"]
    assert [f["path"] for f in template("decode", own, mode="own").files] == ["/etc/a"]


def test_role_arguments_of_a_mode():
    own = mode("own", role_arguments={"prefill": ["--only-prefill=${role}"]})
    assert flags(template("prefill", own, mode="own").argv, "--only-prefill") == ["--only-prefill=prefill"]
    assert not flags(template("decode", own, mode="own").argv, "--only-prefill")


def test_the_users_environment_comes_over_the_recipes():
    env = template("prefill", engine={"env": {"VLLM_HOST_IP": "10.9.9.9", "UCX_TLS": "rc"}}).env
    assert (env["VLLM_HOST_IP"], env["UCX_TLS"]) == ("10.9.9.9", "rc")
    assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "${ports.kv_side_channel}"


def test_a_secret_is_in_no_environment():
    role = template("prefill", engine={"env": {"HF_TOKEN": "plain"}, "secrets": {"HF_TOKEN": "t"}})
    assert "HF_TOKEN" not in role.env
    assert role.secrets == ("HF_TOKEN",)


def test_mounts_know_their_placeholders():
    assert template("prefill", engine={"mounts": ["/data/${role}:/data"]}).mounts == ("/data/prefill:/data",)


@pytest.mark.parametrize(
    ("own", "mode_image", "inherited", "runs"),
    [
        ("own", "modes", "engine", "own"),
        (None, "modes", "engine", "modes"),
        (None, None, "engine", "engine"),
        (None, "modes", None, "modes"),
    ],
)
def test_the_routers_image_is_its_own_else_the_modes_else_the_inherited_one(own, mode_image, inherited, runs):
    router = nixl_mode()["router"] | ({"image": mode_image} if mode_image else {})
    changes = {"router": {"image": own or ...}, "engine": {"image": inherited or ...}, "mode": "own"}
    assert template("router", mode("own", router=router), **changes).image == runs


# -- the connector ----------------------------------------------------------------------------------------------------

OWN = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'


def test_an_own_connector_takes_the_place_of_the_recipes_whose_environment_stays():
    role = template("decode", decode={"extra_args": ["--kv-transfer-config=" + OWN]})
    assert flags(role.argv, "--kv-transfer-config") == ["--kv-transfer-config=" + OWN]
    assert role.env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "${ports.kv_side_channel}"
    assert role.bands == (("kv_side_channel", 1),)


def test_the_engine_gets_one_connector_since_it_reads_every_one():
    role = template("decode", decode={"extra_args": ["--kv-transfer-config={", "--kv-transfer-config=" + OWN]})
    assert flags(role.argv, "--kv-transfer-config") == ["--kv-transfer-config=" + OWN]


def test_a_connector_pasted_back_after_an_own_one_is_what_the_engine_gets():
    (derived,) = flags(template("decode").argv, "--kv-transfer-config")
    role = template("decode", decode={"extra_args": ["--kv-transfer-config=" + OWN, derived]})
    assert flags(role.argv, "--kv-transfer-config")[-1] == derived


# -- lines pasted back ------------------------------------------------------------------------------------------------


def test_the_whole_command_line_pasted_back_changes_nothing():
    plain = template("prefill", prefill={"gpus": 2}, decode={"gpus": 2})
    line = list(plain.argv[3:])
    again = template("prefill", prefill={"gpus": 2, "args": line}, decode={"gpus": 2})
    assert again.argv == plain.argv
    assert judge(spec(prefill={"gpus": 2, "args": line}, decode={"gpus": 2})).findings.items == []


def test_the_routers_command_line_pasted_back_changes_nothing():
    plain = template("router")
    again = template("router", router={"args": list(plain.argv[1:])})
    assert sorted(again.argv) == sorted(plain.argv)


# -- revision ---------------------------------------------------------------------------------------------------------

SAME = {
    "counts": {"prefill": {"replicas": 3}, "decode": {"replicas": 2}},
    "placement": {"prefill": {"hosts": "h7:h8"}, "router": {"hosts": "h9"}},
    "a secret's value": {"engine": {"secrets": {"HF_TOKEN": "another"}}},
    "notes": {"notes": "for the search team"},
    "limits": {"limits": {"start": 60}},
    "readiness": {"readiness": "all"},
    "the address for clients": {"endpoint": {"external_url": "https://x"}},
    "a default written out": {"served_model_name": "demo", "kv_load_failure_policy": "fail"},
    "a version that is believed": {"engine": {"version": "0.32.0", "secrets": {"HF_TOKEN": "one"}}},
    "an owned flag pasted back": {"prefill": {"extra_args": ["--served-model-name=demo"]}},
}
OTHER = {
    "args": {"prefill": {"extra_args": ["--seed=1"]}},
    "args of the router": {"router": {"args": ["--policy=cache_aware"]}},
    "env": {"decode": {"env": {"A": "1"}}},
    "a secret's name": {"engine": {"secrets": {"OTHER": "one"}}},
    "no secret": {"engine": {"secrets": {}}},
    "image": {"engine": {"image": "e@sha256:2", "secrets": {"HF_TOKEN": "one"}}},
    "executable": {"engine": {"executable": "/other/vllm", "secrets": {"HF_TOKEN": "one"}}},
    "model": {"model": "/models/other"},
    "served name": {"served_model_name": "other"},
    "lease": {"kv_lease": 90},
    "policy": {"kv_load_failure_policy": "recompute"},
    "gpus": {"prefill": {"gpus": 2}, "decode": {"gpus": 2}},
    "membership": {"router": {"membership": "restart"}},
    "the router's port": {"router": {"port": 8001}},
    "mounts": {"engine": {"mounts": ["/a:/a"], "secrets": {"HF_TOKEN": "one"}}},
    "runtime": {"runtime": "systemd"},
}
BASE = {"engine": {"secrets": {"HF_TOKEN": "one"}}}


@pytest.mark.parametrize("what", SAME)
def test_the_revision_stays_when_only_this_changes(what):
    assert revision(spec(**{**BASE, **SAME[what]})) == revision(spec(**BASE))


@pytest.mark.parametrize("what", OTHER)
def test_the_revision_changes_with(what):
    assert revision(spec(**{**BASE, **OTHER[what]})) != revision(spec(**BASE))


def test_the_revision_changes_with_the_recipe():
    same, other = mode("own"), mode("own", environment={**nixl_mode()["environment"], "prefill": {"A": "1"}})
    assert revision(spec(mode="own"), same) != revision(spec(mode="own"), other)


def test_the_revision_changes_with_how_a_crash_is_handled():
    """The runtime gets the recipe's restart policy with the member, so it shapes the member."""
    other = mode("own", restart={"attempts": 0, "window": 300})
    assert revision(spec(mode="own"), mode("own")) != revision(spec(mode="own"), other)


def test_the_revision_does_not_know_the_name_of_the_file_that_a_mode_is_from():
    own = mode("own")
    assert revision(spec(mode="own"), own) == revision(spec(mode="own"), dataclasses.replace(own, source="/elsewhere"))


def test_a_revision_holds_no_secret():
    masked = judge(spec(engine={"secrets": {"HF_TOKEN": "hf_very_secret"}})).template.masked()
    assert "hf_very_secret" not in json.dumps(masked)


# -- placeholders -----------------------------------------------------------------------------------------------------


def test_a_placeholder_that_is_a_whole_json_value_keeps_its_type():
    text = placeholders.from_json({"port": "${port}", "host": "${member.address}", "both": "tcp://${member.address}:1"})
    values = {"port": 40001, "member.address": "10.0.0.1"}
    assert json.loads(placeholders.fill(text, values)) == {
        "port": 40001,
        "host": "10.0.0.1",
        "both": "tcp://10.0.0.1:1",
    }


def test_a_json_value_is_escaped():
    text = placeholders.from_json({"name": "${model}"})
    assert json.loads(placeholders.fill(text, {"model": 'a"b\\c'})) == {"name": 'a"b\\c'}


def test_two_dollars_are_a_literal_one():
    once = placeholders.fill("$${port} ${port}", {}, partial=True)
    assert placeholders.fill(once, {"port": 1}) == "${port} 1"


def test_a_placeholder_without_a_value_is_an_error_that_names_it():
    with pytest.raises(PdError, match=r"\$\{member.kv_address\} has no value here"):
        placeholders.fill("tcp://${member.kv_address}", {})
