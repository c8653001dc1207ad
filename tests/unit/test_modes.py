"""Mode files: a user's own folder beside the built-in ones, and what is said of a file that does not fit."""

from __future__ import annotations

import os

import pytest
import yaml
from builders import ROOT, codes, judge, nixl_mode, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
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
