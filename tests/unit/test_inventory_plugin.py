"""The inventory of members: what a host says of each is checked, and one that is damaged harms itself alone."""

from __future__ import annotations

import json

import pytest

from ansible_collections.inferops.pd.plugins.inventory import members

LABEL = {
    "schema": 2, "group": "g", "role": "prefill", "revision": "r", "generation": 3, "formation": "f", "port": 40000, "gpus": ["0"],
    "url": "http://10.0.0.1:40000",
}  # fmt: skip


def told(index, **changes):
    label = {**LABEL, "member": f"g-prefill-{index}", "index": index, **changes}
    return {"label": label, "state": "running", "ready": True}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """What the plugin makes of a host's answer: the members, and what it warns of."""

    def made(answer, only_ready=False):
        warned = []
        plugin = members.InventoryModule()
        monkeypatch.setattr(plugin.display, "warning", warned.append)
        monkeypatch.setattr(plugin, "get_option", {"only_ready": only_ready}.get)
        (tmp_path / "h1").write_text(json.dumps(answer))
        return plugin._answers(str(tmp_path))["h1"], warned

    return made


def test_members_are_told_with_what_their_labels_say(read):
    found, warned = read({"members": [told(0), {**told(1), "ready": False}], "damaged": []})
    assert found[0] == {**{k: v for k, v in told(0)["label"].items() if k not in ("member", "schema")}, "id": "g-prefill-0",
                        "state": "running", "ready": True, "stand": "g"}  # fmt: skip
    assert [one["ready"] for one in found] == [True, False]
    assert warned == []
    found, _warned = read({"members": [told(0), {**told(1), "ready": False}], "damaged": []}, only_ready=True)
    assert [one["id"] for one in found] == ["g-prefill-0"]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (told(1, group=["g"]), "the label of g-prefill-1 is damaged (group is no text"),
        (told(1, group="../g"), "the label of g-prefill-1 is damaged (group"),
        (told(1, generation="many"), "the label of g-prefill-1 is damaged (generation"),
        (told(1, gpus=7), "the label of g-prefill-1 is damaged (gpus"),
        (told(1, schema=99), "of schema 99, written by a later version"),
        (told(1, member=None), "the label of a member is damaged (member"),
        (told(1, member="x\x1b[2J"), "the label of x is damaged (member"),
        ({"label": None, "state": "running"}, "the label of a member is damaged (it is no object"),
        ({**told(1), "state": None}, "a member is damaged (state is missing"),
        ("text", "a member is damaged (it is no object"),
        (None, "a member is damaged (it is no object"),
    ],
)
def test_a_damaged_member_is_told_and_the_others_stay(read, broken, says):
    found, warned = read({"members": [told(0), broken, told(2)], "damaged": []})
    assert [one["id"] for one in found] == ["g-prefill-0", "g-prefill-2"]
    assert len(warned) == 1
    assert warned[0].startswith("inferops.pd.members: h1: ")
    assert warned[0].isprintable()
    assert says in warned[0]


@pytest.mark.parametrize("answer", [None, [], "text", {"members": {"a": 1}}, {"members": [], "damaged": [7]}])
def test_an_answer_that_is_none_is_told(read, answer):
    found, warned = read(answer)
    assert found == []
    assert len(warned) == 1


def test_files_that_the_host_could_not_read_are_told(read):
    damaged = [{"path": "/var/lib/x/g-prefill-1.json", "why": "it is no JSON", "group": "g", "member": "g-prefill-1"}]
    found, warned = read({"members": [told(0)], "damaged": damaged})
    assert [one["id"] for one in found] == ["g-prefill-0"]
    assert "/var/lib/x/g-prefill-1.json is damaged: it is no JSON" in warned[0]
