# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fault suite's client takes for an answer of two formations: a client that is blind would let every row pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from standin import who

NEW = "revision=r1 generation=2 length=4096 model=aa build= group=g formation=F2 now="
OLD = "revision=r1 generation=2 length=4096 model=aa build= group=g formation= now="


@pytest.mark.parametrize(
    ("prefill", "decode", "told"),
    [
        (NEW, NEW, ""),
        (NEW, NEW.replace("r1", "r2"), "revision"),
        (NEW, NEW.replace("generation=2", "generation=1"), "generation"),
        (NEW, NEW.replace("F2", "F1"), "formation"),
        (NEW, NEW.replace("group=g", "group=b"), "group"),
        (NEW, NEW.replace("model=aa", "model=bb"), "model"),
        (NEW, NEW.replace("build=", "build=2"), "build"),
        # Two that an earlier version started: before a run takes them over, in the middle of it, and after it.
        (OLD, OLD, ""),
        (OLD, OLD + "F2", ""),
        (OLD + "F2", OLD + "F2", ""),
        (OLD + "F1", OLD + "F2", "formation"),
        # One of this version beside one of an earlier.
        (NEW, OLD + "F2", ""),
        (NEW, OLD, "formation"),
        (NEW, OLD + "F1", "formation"),
        # Containers see no label.
        (NEW, NEW.replace("revision=r1", "revision=?"), ""),
        (NEW.replace("revision=r1", "revision=?"), OLD.replace("revision=r1", "revision=?") + "?", ""),
    ],
)
def test_mixed(prefill: str, decode: str, told: str) -> None:
    assert who.mixed(f"{prefill}>{decode}") == told
    assert who.mixed(f"{decode}>{prefill}") == told


def test_one_that_served_alone_is_not_mixed() -> None:
    assert who.mixed(NEW) == ""
    assert who.mixed("") == ""


def test_what_a_process_tells_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    label = tmp_path / "groups" / "g" / "members" / "g-decode-0" / "label.json"
    label.parent.mkdir(parents=True)
    label.write_text(json.dumps({"revision": "r1", "generation": 2, "group": "g"}))
    monkeypatch.setenv("INFEROPS_PD_STATE", str(tmp_path))
    monkeypatch.setenv("INFEROPS_PD_MEMBER", "g-decode-0")
    monkeypatch.delenv("INFEROPS_PD_FORMATION", raising=False)

    (one,) = who.read((started := who.Self(str(tmp_path / "model"), 4096)).text())
    assert (one["revision"], one["generation"], one["group"], one["formation"], one["now"]) == ("r1", "2", "g", "", "")

    label.write_text(json.dumps({"revision": "r2", "generation": 3, "group": "g", "formation": "F2"}))
    (one,) = who.read(started.text())
    assert (one["revision"], one["generation"], one["now"]) == ("r1", "2", "F2"), (
        "only what it was taken over into is asked again"
    )

    monkeypatch.setenv("INFEROPS_PD_FORMATION", "F3")
    (tmp_path / "model" / "config.json").write_text("{ }")
    (other,) = who.read(who.Self(str(tmp_path / "model"), 4096).text())
    assert (other["formation"], other["now"]) == ("F3", "")
    assert other["model"] != one["model"]
