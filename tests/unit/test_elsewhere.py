# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of other state folders, and strangers on GPUs, over trees that look like /proc."""

from __future__ import annotations

import json
import os
import pwd

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._probes import carried, elsewhere, gpus, space
from ansible_collections.inferops.pd.plugins.module_utils._probes.command import Said
from ansible_collections.inferops.pd.plugins.module_utils._probes.elsewhere import Container
from ansible_collections.inferops.pd.plugins.module_utils._probes.ports import Listener

ME = pwd.getpwuid(os.geteuid()).pw_name
FORMATION = "3c0f8f0e-3b5f-4a53-8d43-4f1f6a1b2c3d"
BANDS = {"http": {"base": 40001, "count": 2}}


class Proc:
    """A folder that reads like /proc."""

    def __init__(self, root):
        self.root = root
        self.path = str(root)
        self.add(1, parent=0)
        (root / "self/ns").mkdir(parents=True)
        (root / "self/ns/net").symlink_to("net:[1]")

    def add(self, pid, *, parent=1, network="net:[1]", files=None, **env):
        """A process; `files` is its view of the file system, where that is another."""
        folder = self.root / str(pid)
        (folder / "ns").mkdir(parents=True)
        (folder / "ns/net").symlink_to(network)
        (folder / "stat").write_text(f"{pid} (python) S {parent} {pid} {pid} 0 -1 {'0 ' * 13} 0 100 0 0\n")
        (folder / "environ").write_bytes(b"".join(f"INFEROPS_PD_{k}={v}\0".encode() for k, v in env.items()))
        if files is not None:
            (folder / "root").symlink_to(files)

    def member(self, pid, member, state, **more):
        self.add(pid, MEMBER=member, STATE=state, **more)


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "proc").mkdir()
    return Proc(tmp_path / "proc")


@pytest.fixture
def ours(tmp_path):
    (tmp_path / "ours").mkdir()
    return str(tmp_path / "ours")


@pytest.fixture
def other(tmp_path):
    (tmp_path / "other").mkdir()
    return str(tmp_path / "other")


def label(state, group="g", member="g-prefill-0", **content):
    folder = os.path.join(state, "groups", group, "members", member)
    os.makedirs(folder)
    path = os.path.join(folder, "label.json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({"gpus": ["0", 1], "port": 40000, "ports": BANDS, **content}, stream)
    return path


# -- what a process carries ------------------------------------------------------------------------------------------------------------


def test_marks(proc):
    proc.member(7, "g-prefill-0", "/s", GROUP="g", FORMATION=FORMATION)
    assert carried.marks(7, proc.path) == {
        "member": "g-prefill-0",
        "state_dir": "/s",
        "group": "g",
        "formation": FORMATION,
    }
    proc.member(8, "g-prefill-0", "/s")
    assert carried.marks(8, proc.path) == {
        "member": "g-prefill-0",
        "state_dir": "/s",
        "group": None,
        "formation": None,
    }


@pytest.mark.parametrize(
    ("member", "state"),
    [("../../x", "/s"), ("\x1b[2J", "/s"), ("g", ""), ("g", "/s/$(x)"), ("g" * 300, "/s"), ("", "/s")],
)
def test_what_we_never_write_is_nobodys(proc, member, state):
    proc.member(7, member, state)
    assert carried.marks(7, proc.path) is None


def test_a_child_without_environment_is_its_members(proc):
    proc.member(7, "g-prefill-0", "/s", FORMATION=FORMATION)
    proc.add(8, parent=7)
    proc.add(9, parent=8)
    assert carried.whose(9, proc.path)["formation"] == FORMATION
    proc.add(20)
    assert carried.whose(20, proc.path) is None
    assert carried.whose(999, proc.path) is None


def listener(port, pid, address="0.0.0.0"):
    return Listener(port, address, 0, pid or 1, pid)


def test_what_the_listener_carries(proc):
    proc.member(7, "g-prefill-0", "/s", FORMATION=FORMATION)
    proc.member(8, "g-decode-0", "/s", FORMATION="other")
    proc.add(9)
    found = {"formation": FORMATION, "member": "g-prefill-0"}
    nothing = {"formation": None, "member": None}
    assert carried.carried(80, [listener(80, 7), listener(81, 8)], root=proc.path) == found
    assert carried.carried(80, [listener(81, 8)], root=proc.path) is None
    assert carried.carried(80, [listener(80, 9)], root=proc.path) == nothing
    assert carried.carried(80, [listener(80, None)], root=proc.path) == nothing
    # A connection may come to either.
    assert carried.carried(80, [listener(80, 7), listener(80, 8)], root=proc.path) == nothing
    assert carried.carried(80, [listener(80, 7), listener(80, 7)], root=proc.path) == found
    two = [listener(80, 7, "10.0.0.1"), listener(80, 8, "10.0.0.2")]
    assert carried.carried(80, two, ["10.0.0.1"], proc.path) == found
    assert carried.carried(80, two, ["node-1"], proc.path) == nothing
    assert carried.serving(80, two, ["10.0.0.2"], proc.path) == {"formation": "other", "listener_member": "g-decode-0"}
    assert carried.serving(None, two, (), proc.path) == {"formation": None, "listener_member": None}


# -- members of other folders ----------------------------------------------------------------------------------------------------------


def test_a_member_elsewhere_with_what_it_holds(proc, ours, other):
    label(other)
    proc.member(7, "g-prefill-0", other)
    proc.add(8, parent=7, MEMBER="g-prefill-0", STATE=other)
    proc.member(9, "g-prefill-0", ours)
    proc.add(10)
    assert elsewhere.find(ours, proc=proc.path) == [
        {
            "state_dir": other,
            "member": "g-prefill-0",
            "group": "g",
            "owner": ME,
            "gpus": ["0", "1"],
            "ports": [40000, 40001, 40002],
        }
    ]


def test_a_member_elsewhere_without_a_label(proc, ours, other):
    proc.member(7, "g-prefill-0", other, GROUP="g")
    (told,) = elsewhere.find(ours, proc=proc.path)
    assert (told["group"], told["gpus"], told["ports"]) == ("g", [], [])


def test_in_another_network_its_ports_are_none_of_ours(proc, ours, other):
    label(other)
    proc.member(7, "g-prefill-0", other, network="net:[2]")
    (told,) = elsewhere.find(ours, proc=proc.path)
    assert (told["gpus"], told["ports"]) == (["0", "1"], [])


def test_one_folder_under_two_names_is_ours(proc, ours, tmp_path):
    (tmp_path / "alias").symlink_to("ours")
    proc.member(7, "g-prefill-0", str(tmp_path / "alias"))
    assert elsewhere.find(ours, proc=proc.path) == []
    assert elsewhere.find(str(tmp_path / "alias"), proc=proc.path) == []


def test_the_same_path_in_another_view_of_the_files_is_another_folder(proc, ours, tmp_path):
    view = tmp_path / "view"
    (view / ours[1:]).mkdir(parents=True)
    label(str(view) + ours)
    proc.member(7, "g-prefill-0", ours, files=view)
    # A container of ours sees no state folder at all.
    (tmp_path / "image").mkdir()
    proc.member(8, "g-decode-0", ours, files=tmp_path / "image")
    (told,) = elsewhere.find(ours, proc=proc.path)
    assert (told["member"], told["gpus"]) == ("g-prefill-0", ["0", "1"])


@pytest.mark.parametrize(
    "content",
    [
        {"gpus": "01", "port": "40000", "ports": []},
        {"gpus": None, "port": True, "ports": {"a": None, "b": 4, "c": {"base": "1", "count": 2}, "d": {"base": 1}}},
        {"gpus": {"a": 1}, "port": 0, "ports": {"a": {"base": 40000, "count": 100000000}}},
        {"gpus": [None, {}, "x" * 200, "\x1b[2J"], "port": 70000, "ports": {"a": {"base": 65000, "count": 1000}}},
        {"gpus": [], "port": -1, "ports": {"a": {"base": 2**70, "count": 2**70}, "b": {"base": -5, "count": 3}}},
    ],
)
def test_a_label_of_any_shape_gives_only_what_a_member_can_hold(content):
    assert elsewhere.held(content) == ([], [])


def test_no_more_ports_than_a_member_can_have():
    bands = {str(n): {"base": 1000 * n + 1, "count": 1000} for n in range(1, 60)}
    assert len(elsewhere.held({"ports": bands})[1]) == 4000


@pytest.mark.parametrize("kind", ["fifo", "link", "deep", "list", "large", "broken"])
def test_an_odd_label_file_blocks_nothing(proc, ours, other, kind):
    path = label(other)
    os.unlink(path)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        os.symlink("/etc/passwd", path)
    else:
        text = {"deep": "[" * 200000, "list": "[1]", "large": '{"gpus": ["' + "x" * 300000 + '"]}', "broken": "{"}[kind]
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    proc.member(7, "g-prefill-0", other)
    (told,) = elsewhere.find(ours, proc=proc.path)
    assert (told["gpus"], told["ports"]) == ([], [])


def test_containers_elsewhere(proc, ours, other):
    said = {"member": "g-prefill-0", "group": "g", "gpus": ["2"], "port": 41000}
    told = elsewhere.find(
        ours,
        [
            Container(other, said, running=True, host_network=True),
            Container(other, {**said, "member": "g-prefill-1"}, running=True, host_network=False),
            Container(other, {**said, "member": "g-prefill-2"}, running=False, host_network=True),
            Container(other, {**said, "member": "\x1b"}, running=True, host_network=True),
            Container(ours, said, running=True, host_network=True),
        ],
        proc.path,
    )
    assert [(one["member"], one["gpus"], one["ports"]) for one in told] == [
        ("g-prefill-0", ["2"], [41000]),
        ("g-prefill-1", ["2"], []),
    ]


def test_a_container_and_its_process_are_one_member(proc, ours, other):
    proc.member(7, "g-prefill-0", other, network="net:[2]")
    said = {"member": "g-prefill-0", "group": "g", "gpus": ["2"], "port": 41000}
    (told,) = elsewhere.find(ours, [Container(other, said, running=True, host_network=True)], proc.path)
    assert (told["group"], told["gpus"], told["ports"]) == ("g", ["2"], [])


# -- strangers on GPUs -----------------------------------------------------------------------------------------------------------------

NVIDIA = "0, GPU-aa, NVIDIA H100 80GB HBM3, 81559\n1, GPU-bb, NVIDIA H100 80GB HBM3, 81559\n"
# From an issue of vllm-ascend: a newer npu-smi has one column more, and numbers two chips a card.
ASCEND = """
+------------------------------------------------------------------------------------------------------------------+
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
+===========================+===============+======================================================================+
| 0     Ascend910           | OK            | 178.5                36                      0    / 0                |
| 0     0                   | 0000:9D:00.0  | 0                    0    / 0                3416 / 65536            |
+------------------------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -                    36                      0    / 0                |
| 1     1                   | 0000:9F:00.0  | 0                    0    / 0                3195 / 65536            |
+===========================+===============+======================================================================+
| 7     Ascend910           | OK            | -                    35                      0    / 0                |
| 1     15                  | 0000:83:00.0  | 0                    0    / 0                31877/ 65536            |
+===========================+===============+======================================================================+
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | Process id in container |
+===========================+===============+======================================================================+
| 0       0                 | 632268        | python3.1          | 197                   | NA                      |
+===========================+===============+======================================================================+
| No running processes found in NPU 1                                                                              |
+===========================+===============+======================================================================+
| 7       1                 | 7             | python3.1          | 197                   | NA                      |
+===========================+===============+======================================================================+
"""


def tool(**said):
    """What stands for running a command: its words by the command's name; of any other nothing is there."""

    def ask(argv):
        text = said.get(argv[0].replace("-", "_"))
        return text if text is None or isinstance(text, Said) else Said(text, "")

    return ask


def test_gpus_by_the_name_that_the_driver_has_for_them():
    assert gpus.names(gpus.parse_nvidia(NVIDIA), tool())["GPU-bb"] == ["1"]
    given, _problems = gpus.find(["1", "GPU-aa"])
    named = gpus.names(given, tool(nvidia_smi=NVIDIA))
    assert (named["GPU-bb"], named["GPU-aa"]) == (["1"], ["GPU-aa"])
    assert gpus.names([], tool(nvidia_smi=NVIDIA)) == {}
    assert gpus.names(gpus.parse_ascend(ASCEND), tool())["7.1"] == ["2"]


def test_strangers_on_gpus(proc, ours, other):
    apps = "".join(
        f"{gpu}, {pid}, 20312, {name}\n"
        for gpu, pid, name in (
            ("GPU-aa", 7, "/opt/vllm/bin/python3.12"),  # ours
            ("GPU-aa", 8, "python3.12"),  # its child, which shows no environment
            ("GPU-bb", 9, "/usr/bin/train \x1b[2J"),
            ("GPU-bb", 10, "python3.12"),  # of another state folder
            ("GPU-cc", 9, "train"),  # not among those that we may use
            ("GPU-aa", 11, "nvidia-cuda-mps-server"),
        )
    )
    proc.member(7, "g-prefill-0", ours)
    proc.add(8, parent=7)
    proc.add(9, X="1")
    proc.member(10, "t-prefill-0", other)
    found, problem = space.users(tool(nvidia_smi=apps))
    named = gpus.names(gpus.parse_nvidia(NVIDIA), tool())
    assert problem == ""
    assert space.strangers(found, named, ours, ["0"], proc.path) == [
        {"gpu": "1", "pid": 9, "command": "train", "member": None},
        {"gpu": "1", "pid": 10, "command": "python3.12", "member": None},
    ]


def test_who_cannot_be_looked_at_counts_as_the_member_that_has_the_gpu(proc, ours):
    found = [
        {"uuid": "GPU-aa", "pid": 4711, "command": "x", "member": None},
        {"uuid": "GPU-bb", "pid": 4711, "command": "x", "member": None},
    ]
    named = gpus.names(gpus.parse_nvidia(NVIDIA), tool())
    assert [one["gpu"] for one in space.strangers(found, named, ours, ["0"], proc.path)] == ["1"]
    assert [one["gpu"] for one in space.strangers(found, named, ours, (), proc.path)] == ["0", "1"]


def test_strangers_on_npus(proc, ours):
    proc.member(7, "g-prefill-0", ours)
    found, _problem = space.users(tool(npu_smi=ASCEND))
    named = gpus.names(gpus.parse_ascend(ASCEND), tool())
    assert space.strangers(found, named, ours, (), proc.path) == [
        {"gpu": "0", "pid": 632268, "command": "python3.1", "member": None}
    ]


def test_a_tool_that_fails_is_told():
    found, problem = space.users(tool(nvidia_smi=Said("", "nvidia-smi failed with 9: no driver")))
    assert found == []
    assert "nvidia-smi failed with 9" in problem
