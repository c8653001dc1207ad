"""Files of the state directory that somebody has damaged: each is named, harms what it is of, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base.checked import DamagedError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import label
from ansible_collections.inferops.pd.plugins.module_utils._host import lock
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.folder import Folder
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import LARGEST, State

GOOD = {"group": "g", "member": "g-decode-0", "role": "decode", "index": 0, "revision": "r", "generation": 1}
BAND = {"base": 40000, "count": 100_000_000}


@pytest.fixture
def state(tmp_path: Path) -> State:
    """With a member of group g, and one of group other."""
    made = State(str(tmp_path / "state"))
    for group in ("g", "other"):
        made.write_label({**GOOD, "group": group, "member": f"{group}-decode-0"})
        made.write_record(group, {"schema": 2, "group": group, "generation": 1, "formation": "f"})
    return made


def path(state: State, name: str) -> Path:
    return Path(state.group_dir("g"), "members/g-decode-0" if name in ("label.json", "starts") else "", name)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "group is missing"),
        ("", "Expecting value"),
        ("[]", "it is no object"),
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        (json.dumps({**GOOD, "ports": {"x": BAND}}), "ports.x.count is no number from 0 to 25536"),
        (json.dumps({**GOOD, "schema": 9}), "it is of schema 9, written by a later version"),
        (json.dumps({**GOOD, "stop": {"grace": [30]}}), "stop.grace is no number of seconds"),
        (json.dumps({**GOOD, "index": "²"}), "index is no number"),
        (json.dumps({**GOOD, "peers": [7]}), "peers[0] is no object"),
        (json.dumps({**GOOD, "member": "another"}), "it names another of g"),
        (json.dumps({"group": "g", "member": "g-decode-0", "role": "decode", "revision": "r"}), "index is missing"),
        ("9" * (LARGEST + 1), "it is larger than 8 MiB"),
    ],
)
def test_a_damaged_label_is_named_and_the_other_group_is_read(state: State, text: str, why: str) -> None:
    file = path(state, "label.json")
    file.write_text(text)
    assert [one["member"] for one in state.labels()] == ["other-decode-0"]
    (damage,) = state.damaged()
    assert (damage.path, damage.group, damage.member) == (str(file), "g", "g-decode-0")
    assert why in damage.why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"router": {"peers": [7]}}, "router.peers[0] is no object"),
        ({"templates": {"roles": {"decode": {"argv": [["x"]]}}}}, "templates.roles.decode.argv is no list of texts"),
        (
            {"members": [{"id": "g-decode-0", "role": "decode", "index": 0, "host": "h", "ports": {"x": BAND}}]},
            "ports.x.count is no number",
        ),
        ({"schema": 9}, "written by a later version"),
        ({"generation": "2"}, "generation is no number"),
    ],
)
def test_a_damaged_record_is_named_and_the_other_group_is_read(
    state: State, change: dict[str, object], why: str
) -> None:
    file = path(state, "record.json")
    file.write_text(json.dumps({"group": "g", **change}))
    assert set(state.records()) == {"other"}
    (damage,) = state.damaged()
    assert (damage.path, damage.group, damage.member) == (str(file), "g", None)
    assert why in damage.why


@pytest.mark.parametrize(
    "held",
    [
        {"expires": "x"},
        {"expires": 1e999},
        {"since": [1], "expires": 2e9},
        {"process": 7},
        {"process": {"pid": 2**63}},
        {"who": {}},
        ["a"],
    ],
)
def test_a_lock_that_nobody_can_read_holds_nobody_up(state: State, held: object) -> None:
    path(state, "lock.json").write_text(json.dumps(held))
    assert state.group_lock("g") is None
    assert lock.taken(state.group_lock("g"), {"run": "mine", "who": "me"}, "g", 1000.0)["run"] == "mine"


def test_a_lock_that_can_be_read_holds(state: State) -> None:
    state.write_lock(
        "g", {"run": "r", "who": "you", "since": 1.0, "expires": 2000.0, "process": {"pid": 1, "machine": "elsewhere"}}
    )
    with pytest.raises(PdError, match="you is changing it"):
        lock.taken(state.group_lock("g"), {"run": "mine", "who": "me"}, "g", 1000.0)


def test_of_holds_those_that_can_be_read_hold(state: State) -> None:
    good = {"group": "g", "member": "g-decode-1", "formation": "f", "ports": [40000]}
    file = path(state, "holds.json")
    file.write_text(json.dumps({"holds": [{**good, "ports": [70000]}, good, 7]}))
    assert state.holds() == [good]
    assert [(one.path, one.why) for one in state.damaged()] == [
        (str(file), "holds[0].ports is no list of ports"),
        (str(file), "holds[2] is no object"),
    ]


def test_lines_of_starts_that_no_start_wrote_are_left_out(state: State) -> None:
    path(state, "starts").write_text("²²²² ²²\n1795965600 31\n1795965600 ²\n99999999999999999999 1\n\n")
    assert [start.pid for start in Folder(state, "g", "g-decode-0").starts()] == [31]


@pytest.mark.parametrize("url", ["http://[", "http://h:99999", "http://[1.2]:80", "h", "http://h", 7])
def test_a_url_that_cannot_be_taken_apart_is_none(url: object) -> None:
    with pytest.raises(DamagedError, match="url is no"):
        label.read({**GOOD, "url": url}, "x")


@pytest.mark.parametrize(
    "url",
    [None, "", "http://10.0.0.1:40000", "http://[fe80::1%eth0]:8000", "tcp://h_1:6379", "https://h.example:8000/v1"],
)
def test_a_url_that_can_is_one(url: object) -> None:
    assert label.read({**GOOD, "url": url}, "x").url == (url or None)
