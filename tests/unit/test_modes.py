"""Mode files: a user's own folder beside the built-in ones, and what is said of a file that does not fit."""

from __future__ import annotations

import os

import pytest
import yaml
from builders import ROOT, codes, judge, nixl_mode, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._routers import DIALECTS
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import BUILT_IN, load_modes

TEMPLATE = nixl_mode()


def write(folder, name: str, text) -> str:
    path = os.path.join(str(folder), name)
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text if isinstance(text, str) else yaml.safe_dump(text))
    return path


def own(**changes):
    made = {**nixl_mode(), "name": "mine", **changes}
    return {key: value for key, value in made.items() if value is not ...}


def refused(folder) -> str:
    with pytest.raises(PdError) as told:
        load_modes([str(folder)])
    return str(told.value)


@pytest.mark.parametrize("name", sorted(f for f in os.listdir(BUILT_IN) if f.endswith(".yml")))
def test_each_built_in_mode_fits_the_schema_and_is_named_like_its_file(name):
    assert load_modes()[name[: -len(".yml")]].source.endswith(name)


def test_a_mode_of_ones_own_is_a_file_more(tmp_path):
    write(tmp_path, "mine.yml", own(summary="my recipe"))
    modes = load_modes([str(tmp_path)])
    assert modes["mine"].summary == "my recipe"
    assert "vllm-nixl" in modes
    assert codes(judge(spec(mode="mine"), modes["mine"]).findings) == []


def test_the_smallest_mode(tmp_path):
    write(tmp_path, "small.yml", {"name": "small", "summary": "nothing", "pairing": {"tensor_parallel": "any"}})
    small = load_modes([str(tmp_path)])["small"]
    assert (small.backend, small.router, small.bands, small.connector) == (None, None, (), None)


def test_other_files_of_the_folder_are_left_alone(tmp_path):
    write(tmp_path, "README.md", "not a mode")
    write(tmp_path, "notes.txt", "{")
    assert sorted(load_modes([str(tmp_path)])) == sorted(load_modes())


def test_a_folder_that_does_not_exist(tmp_path):
    assert "no-such is not a folder" in refused(tmp_path / "no-such")


def test_two_modes_of_one_name(tmp_path):
    write(tmp_path, "vllm-nixl.yml", nixl_mode())
    told = refused(tmp_path)
    assert told.startswith(str(tmp_path / "vllm-nixl.yml"))
    assert os.path.join(BUILT_IN, "vllm-nixl.yml") in told


def test_a_file_named_unlike_its_mode(tmp_path):
    write(tmp_path, "other.yml", own())
    assert "Name the file mine.yml" in refused(tmp_path)


def test_text_that_is_no_yaml(tmp_path):
    path = write(tmp_path, "mine.yml", "name: [")
    told = refused(tmp_path)
    assert told.startswith(f"{path}: not readable as YAML")
    assert "line " in told
    assert "\n" not in told


@pytest.mark.parametrize("text", ["", "- a\n", "just text"])
def test_yaml_that_is_no_dictionary(tmp_path, text):
    write(tmp_path, "mine.yml", text)
    assert "a mode file is one dictionary" in refused(tmp_path)


BAD = {
    "a key that is missing": (own(summary=...), ["the file", "'summary' is a required property"]),
    "a key too many": (own(conector={}), ["the file", "conector"]),
    "a value of the wrong kind": (own(vendors="nvidia"), ["vendors", "'nvidia' is not of type 'array'"]),
    "a word that is not on the list": (own(pairing={"tensor_parallel": "same"}), ["pairing.tensor_parallel", "same"]),
    "a place deep inside": (
        own(bands={"kv_side_channel": {"roles": ["prefil"], "width": 1}}),
        ["bands.kv_side_channel.roles.0", "'prefil' is not one of"],
    ),
    "a name that cannot be": (own(name="Mine"), ["name", "'Mine' does not match"]),
    "several at once": (own(vendors="nvidia", files={}), ["vendors: ", "files: "]),
    "a placeholder that does not exist": (
        own(arguments=["--host=${member.adress}"]),
        ["arguments[0]", "${member.adress}", "Did you mean ${member.address}?"],
    ),
    "a band that is not described": (
        own(environment={"all": {"A": "${ports.bootstrap}"}}),
        ["environment.all.A", "${ports.bootstrap}"],
    ),
    "a width that is no size": (
        own(
            bands={
                "kv_side_channel": {"roles": ["prefill", "decode"], "width": "cards"},
                "prometheus": TEMPLATE["bands"]["prometheus"],
            }
        ),
        ["bands.kv_side_channel.width", "'cards'", "data_parallel_size"],
    ),
    "a width below nothing": (
        own(
            bands={
                "kv_side_channel": {"roles": ["prefill", "decode"], "width": -1},
                "prometheus": TEMPLATE["bands"]["prometheus"],
            }
        ),
        ["bands.kv_side_channel.width"],
    ),
    "a membership that is not described": (
        own(router={**TEMPLATE["router"], "membership": {"default": "restart", "dynamic": {}}}),
        ["router.membership.default", "'restart'", "dynamic"],
    ),
    "a handoff that nobody knows": (own(handoff="carrier_pigeon"), ["handoff", "'carrier_pigeon'", "bootstrap_room"]),
    "a placeholder of a peer outside the peers": (
        own(arguments=["--peer=${peer.url}"]),
        ["arguments[0]", "${peer.url}"],
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_refused_with_the_file_the_place_and_the_reason(tmp_path, what):
    pytest.importorskip("jsonschema")
    content, said = BAD[what]
    path = write(tmp_path, f"{content['name'].lower()}.yml", content)
    told = refused(tmp_path)
    assert told.startswith(f"{path}: ")
    for text in said:
        assert text in told


# -- routers and providers that modes share -----------------------------------------------------------------------------------------

ROUTER_FILE = {
    "name": "my-router",
    "summary": "a router of the user's own",
    "executable": "my-router",
    "command": ["${executable}", "route"],
    "dialect": "vllm-router",
    "arguments": ["--host=${member.address}", "--port=${port}"],
    "tunables": {"--retries": {"default": 3}},
    "membership": {
        "default": "dynamic",
        "dynamic": {"arguments": ["--igw"], "gives_up": "one policy"},
        "restart": {
            "arguments": ["--pd"],
            "peers": {"prefill": ["-p", "${peer.url}"], "decode": ["-d", "${peer.url}"]},
        },
    },
}
PROVIDER_FILE = {
    "name": "my-store",
    "summary": "a store",
    "prefill": {"arguments": ["--x=1"]},
    "decode": {"refused": "no"},
}


def shared(folder, kind: str, content) -> None:
    (folder / kind).mkdir(exist_ok=True)
    write(folder / kind, f"{content['name']}.yml", content)


def test_a_router_is_a_file_that_modes_name(tmp_path):
    shared(tmp_path, "routers", ROUTER_FILE)
    write(tmp_path, "mine.yml", own(router="my-router"))
    router = load_modes([str(tmp_path)])["mine"].router
    assert router.command == ("${executable}", "route")
    assert (router.default_membership, sorted(router.memberships)) == ("dynamic", ["dynamic", "restart"])


def test_a_mode_writes_keys_of_its_router_anew(tmp_path):
    shared(tmp_path, "routers", ROUTER_FILE)
    changed = {
        "use": "my-router",
        "extra_arguments": ["--kv=mine"],
        "tunables": {},
        "membership": {"default": "restart", "restart": {"arguments": []}},
    }
    write(tmp_path, "mine.yml", own(router=changed))
    router = load_modes([str(tmp_path)])["mine"].router
    assert router.arguments == ("--kv=mine", "--host=${member.address}", "--port=${port}")
    assert router.tunables == ()
    assert list(router.memberships) == ["restart"]
    assert (router.memberships["restart"].arguments, router.memberships["restart"].peers["decode"]) == (
        (),
        ("-d", "${peer.url}"),
    )


def test_a_provider_is_a_file_that_modes_name_and_one_may_build_on_another(tmp_path):
    shared(tmp_path, "providers", PROVIDER_FILE)
    shared(tmp_path, "providers", {"name": "twin", "use": "my-store", "summary": "its twin"})
    inline = {key: value for key, value in PROVIDER_FILE.items() if key != "name"}
    given = {"a": "my-store", "b": "twin", "c": inline, "d": {"use": "vllm-in-process", "summary": "theirs"}}
    write(tmp_path, "mine.yml", own(kv_cache_providers=given))
    found = load_modes([str(tmp_path)])["mine"].kv_cache_providers
    assert [found[name].summary for name in "abcd"] == ["a store", "its twin", "a store", "theirs"]
    assert found["a"].roles == found["b"].roles == found["c"].roles
    assert (found["a"].name, found["b"].name) == ("a", "b")


def test_an_edited_shared_file_is_read_anew(tmp_path):
    shared(tmp_path, "providers", PROVIDER_FILE)
    write(tmp_path, "mine.yml", own(kv_cache_providers={"a": "my-store"}))
    assert load_modes([str(tmp_path)])["mine"].kv_cache_providers["a"].summary == "a store"
    shared(tmp_path, "providers", {**PROVIDER_FILE, "summary": "another"})
    os.utime(tmp_path / "providers" / "my-store.yml", ns=(1, 1))
    assert load_modes([str(tmp_path)])["mine"].kv_cache_providers["a"].summary == "another"


BAD_SHARED = {
    "a router that no file has": (
        {},
        own(router="vllm-ruoter"),
        ["router", "'vllm-ruoter'", "Did you mean 'vllm-router'?"],
    ),
    "a provider that no file has": (
        {},
        own(kv_cache_providers={"a": "vllm-lmcahce"}),
        ["kv_cache_providers.a", "Did you mean 'vllm-lmcache'?"],
    ),
    "a router of its own that lacks what it needs": (
        {},
        own(router={"executable": "r"}),
        ["router", "'command' is a required property", "'membership' is a required property"],
    ),
    "a file that lacks what it needs": (
        {"providers": {"name": "bad", "summary": "x"}},
        own(),
        ["providers/bad.yml", "'prefill' is a required property"],
    ),
    "a file named unlike its content": (
        {"routers": {**ROUTER_FILE, "name": "vllm-router"}},
        own(),
        ["routers/vllm-router.yml", "is defined in", "Give it another name"],
    ),
    "files that name each other": (
        {"providers": {"name": "round", "use": "round"}},
        own(kv_cache_providers={"a": "round"}),
        ["kv_cache_providers.a", "name each other"],
    ),
    "a placeholder that does not exist": (
        {"routers": {**ROUTER_FILE, "arguments": ["--host=${member.adress}"]}},
        own(router="my-router"),
        ["router.arguments[0]", "Did you mean ${member.address}?"],
    ),
}


@pytest.mark.parametrize("what", BAD_SHARED)
def test_a_bad_shared_file_is_refused(tmp_path, what):
    pytest.importorskip("jsonschema")
    files, content, said = BAD_SHARED[what]
    for kind, file in files.items():
        shared(tmp_path, kind, file)
    write(tmp_path, "mine.yml", content)
    told = refused(tmp_path)
    for text in said:
        assert text in told


@pytest.mark.parametrize("kind", ["routers", "providers"])
def test_every_shared_file_is_named_by_a_mode(kind):
    names = {f[: -len(".yml")] for f in os.listdir(os.path.join(BUILT_IN, kind))}
    texts = [os.path.join(BUILT_IN, f) for f in os.listdir(BUILT_IN) if f.endswith(".yml")]
    written = "\n".join(open(path, encoding="utf-8").read() for path in texts)  # noqa: SIM115
    assert not [name for name in names if name not in written]


def test_a_dialect_without_an_api_is_refused_with_those_that_there_are(tmp_path):
    router = {key: value for key, value in ROUTER_FILE.items() if key not in ("name", "summary")}
    path = write(tmp_path, "mine.yml", own(router={**router, "dialect": "vllm-ruoter"}))
    told = refused(tmp_path)
    assert path in told
    assert "router.dialect: 'vllm-ruoter' is not one of" in told
    assert all(name in told for name in DIALECTS)


def test_an_edited_file_is_read_anew(tmp_path):
    path = write(tmp_path, "mine.yml", own(summary="one"))
    assert load_modes([str(tmp_path)])["mine"].summary == "one"
    write(tmp_path, "mine.yml", own(summary="two"))
    os.utime(path, ns=(1, 1))
    assert load_modes([str(tmp_path)])["mine"].summary == "two"


def test_no_code_knows_the_name_of_a_mode():
    """A mode's facts stand in its file and nowhere in code."""
    names = [f[: -len(".yml")] for f in os.listdir(BUILT_IN) if f.endswith(".yml") and f != "custom.yml"]
    for folder in ("module_utils", "action", "plugin_utils"):
        for root, _folders, files in os.walk(os.path.join(ROOT, "plugins", folder)):
            for file in (f for f in files if f.endswith(".py")):
                with open(os.path.join(root, file), encoding="utf-8") as handle:
                    code = handle.read()
                assert not [name for name in names if f'"{name}"' in code], os.path.join(root, file)
