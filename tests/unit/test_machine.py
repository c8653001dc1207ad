# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine, which state folder, and reading small files that somebody else may have made."""

from __future__ import annotations

import os
import threading
import time

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._probes import machine, small_file
from ansible_collections.inferops.pd.plugins.module_utils._probes.deadline import Look

ID = "0f3b6e0c5d7a4b0f9a6f3d1f5d0c2b1a"
UUID = "3c0f8f0e-3b5f-4a53-8d43-4f1f6a1b2c3d"


@pytest.fixture
def root(tmp_path):
    """The files of a machine that tell which it is."""
    for name, content in (("etc/machine-id", ID), ("proc/sys/kernel/random/boot_id", UUID)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/net").symlink_to("net:[4026531840]")
    return tmp_path


def test_a_machine(root):
    assert machine.machine(str(root)) == {"id": ID, "boot": UUID, "netns": "net:[4026531840]"}


@pytest.mark.parametrize("text", ["", "uninitialized\n", "x" * 10000, "0f3b\x1b[2J"])
def test_what_is_no_machine_id_is_none(root, text):
    (root / "etc/machine-id").write_text(text)
    assert machine.machine(str(root))["id"] is None


def test_a_machine_id_may_be_a_link(root):
    (root / "etc/machine-id").rename(root / "etc/dbus")
    (root / "etc/machine-id").symlink_to("dbus")
    assert machine.machine(str(root))["id"] == ID


def test_a_machine_that_says_nothing(tmp_path):
    assert machine.machine(str(tmp_path)) == {"id": None, "boot": None, "netns": None}


def test_this_machine():
    assert machine.machine()["netns"] == os.readlink("/proc/self/ns/net")


def test_a_state_folder_under_two_names_is_one_device(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "a/id").write_text(UUID + "\n")
    first, second = machine.state(str(tmp_path / "a")), machine.state(str(tmp_path / "b"))
    assert first["id"] == second["id"] == UUID
    assert first["device"] == second["device"]
    assert (first["dir"], second["dir"]) == (str(tmp_path / "a"), str(tmp_path / "b"))


def test_looking_at_a_state_folder_creates_nothing(tmp_path):
    path = str(tmp_path / "nothing")
    told = machine.state(path)
    assert {key: told[key] for key in ("dir", "id", "device")} == {"dir": path, "id": None, "device": None}
    assert told["place"] == f"{machine.device(str(tmp_path))}/nothing"
    assert not os.path.lexists(path)


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "large", "nonsense"])
def test_an_odd_id_is_none_and_blocks_nothing(tmp_path, kind):
    path = tmp_path / "id"
    if kind == "link":
        (tmp_path / "real").write_text(UUID)
        path.symlink_to("real")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text(UUID * 1000 if kind == "large" else "../../etc/passwd")
    assert machine.state(str(tmp_path))["id"] is None


def test_a_small_file(tmp_path):
    (tmp_path / "f").write_bytes(b" a\xff\n")
    assert small_file.read(str(tmp_path / "f"), 4) == b" a\xff\n"
    assert small_file.text(str(tmp_path / "f"), 4) == "a\ufffd"
    assert small_file.read(str(tmp_path / "f"), 3) is None
    assert small_file.read(str(tmp_path / "f\0"), 3) is None
    assert small_file.read("/dev/zero", 3) is None


# -- a look with a deadline ------------------------------------------------------------------------------------------------------------


def test_a_look_returns_what_it_saw_or_raises_it():
    assert Look(lambda a, b: a + b, 1, 2).result(5) == 3
    with pytest.raises(ZeroDivisionError):
        Look(lambda: 1 / 0).result(5)


def test_a_look_that_gives_no_answer_is_left():
    never = threading.Event()
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        Look(never.wait).result(0.05)
    assert time.monotonic() - begun < 2
    never.set()
