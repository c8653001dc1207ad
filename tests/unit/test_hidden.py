# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host can be judged as the user that Ansible is there. What only another user meets is in integration/test_hidden_hosts.py."""

from __future__ import annotations

import json

import planned
import pytest

from ansible_collections.inferops.pd.plugins.module_utils._host import hidden, observe
from ansible_collections.inferops.pd.plugins.module_utils._host.hidden import Place
from ansible_collections.inferops.pd.plugins.module_utils._probes.elsewhere import Container
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import docker_elsewhere, systemd_unit
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker_spec import LABEL
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

OPS = 4242
BECOME = "Run with become (ansible_become: true)"


@pytest.fixture
def place(tmp_path):
    """Makes the place where user 4242 looks, on a host that has nothing yet."""
    (tmp_path / "units").mkdir()

    def make(**more):
        places = {"system_dir": str(tmp_path / "system"), "units_dir": str(tmp_path / "units")}
        return Place(**{"root": str(tmp_path / "home"), "euid": OPS, **places, **more})

    return make


def unit(tmp_path, state_dir, name="inferops-pd-g-prefill-0.service"):
    made = planned.member({"id": "g-prefill-0"})
    text = systemd_unit.render(made, made.leader, "g", f"{state_dir}/x", state_dir, user=False)
    (tmp_path / "units" / name).write_text(text)


def test_a_host_with_nothing_can_be_judged(place):
    assert hidden.hidden(place()) == ""
    assert hidden.unreadable(place()) == ""


def test_the_systems_state_folder(place, tmp_path):
    (tmp_path / "system").symlink_to("/nowhere/at/all")
    told = hidden.hidden(place())
    assert f"members of the system are kept in {tmp_path}/system, and user 4242 looks into {tmp_path}/home." in told
    assert BECOME in told
    assert told.endswith(f"if members of user 4242 alone are meant, set pd_state_dir to {tmp_path}/home.")
    # Whoever says which members are meant, and root, are told nothing.
    assert hidden.hidden(place(given=True)) == ""
    assert hidden.hidden(place(euid=0)) == ""
    assert hidden.hidden(place(root=str(tmp_path / "system"))) == ""


def test_a_unit_of_others(place, tmp_path):
    unit(tmp_path, str(tmp_path / "home"))
    assert hidden.hidden(place()) == ""
    unit(tmp_path, "/srv/pd", "inferops-pd-h-prefill-0.service")
    told = hidden.hidden(place())
    assert "unit inferops-pd-h-prefill-0.service belongs to the members in /srv/pd" in told
    assert BECOME in told


def test_what_is_no_unit_of_ours_says_nothing(place, tmp_path):
    (tmp_path / "units/inferops-pd-x.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "units/inferops-pd-y.service").symlink_to("/dev/null")
    (tmp_path / "units/other.service").write_text("[X-Inferops-pd]\nState=/srv/pd\n")
    assert hidden.hidden(place()) == ""


def test_a_unit_that_cannot_be_read_is_somebody_elses(place, tmp_path):
    (tmp_path / "units/inferops-pd-x.service").mkdir()
    assert "belongs to members of somebody else" in hidden.hidden(place())


def test_a_container_of_others(place, tmp_path):
    ours = Container(str(tmp_path / "home"), {"member": "g-prefill-0"}, running=True, host_network=True)
    theirs = Container("/srv/pd", {"member": "h-prefill-0"}, running=False, host_network=True)
    assert hidden.hidden(place(), [ours]) == ""
    told = hidden.hidden(place(), [ours, theirs])
    assert "container h-prefill-0 belongs to the members in /srv/pd" in told
    assert BECOME in told


def test_a_folder_of_ours_that_belongs_to_another_user(place, tmp_path):
    folder = tmp_path / "home/groups/g/members/g-prefill-0"
    folder.mkdir(parents=True)
    told = hidden.unreadable(place())
    assert told.startswith(f"{tmp_path}/home/groups belongs to user ")
    assert BECOME in told
    assert ", or as user " in told
    assert hidden.unreadable(place(euid=0)) == ""


class Engine:
    """A container engine that lists these."""

    def __init__(self, *listed):
        self.listed = listed

    def call(self, _doing, what, _deadline):
        return what(self)

    def containers(self, **_given):
        return list(self.listed)


def test_the_containers_of_an_engine():
    entry = {
        "State": "running",
        "HostConfig": {"NetworkMode": "host"},
        "Labels": {f"{LABEL}.state": "/srv/pd", f"{LABEL}.label": json.dumps({"member": "m"})},
    }
    broken = {"State": "exited", "Labels": {f"{LABEL}.state": "/srv/pd", f"{LABEL}.label": "[" * 100000}}
    nobodys = {"State": "running", "Labels": {f"{LABEL}.state": "$(x)"}}
    assert docker_elsewhere.containers(Engine(entry, broken, nobodys, {"Labels": None})) == [
        Container("/srv/pd", {"member": "m"}, running=True, host_network=True),
        Container("/srv/pd", {}, running=False, host_network=False),
    ]


def test_an_engine_that_does_not_answer_has_none():
    class Silent:
        def call(self, *_given):
            raise HostError("Listing containers", "no")

    assert docker_elsewhere.containers(Silent()) == []


# -- the look as a whole ---------------------------------------------------------------------------------------------------------------


def test_a_look_creates_nothing_and_has_every_key(tmp_path):
    state = State(str(tmp_path / "state"))
    told = observe.observe(observe.Request(runtimes=["supervisor"], gpus=[]), state)
    assert not (tmp_path / "state").exists()
    assert {key: told["state"][key] for key in ("dir", "id", "device")} == {
        "dir": state.root,
        "id": None,
        "device": None,
    }
    assert (told["hidden"], told["gpu_processes"], told["damaged"], told["holds"]) == ("", [], [], [])
    assert set(told["machine"]) == {"id", "boot", "netns"}
    assert isinstance(told["elsewhere"], list)


def test_a_model_that_gives_no_answer_is_told_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(observe, "FILES_TIMEOUT", 0.2)

    def never(_path):
        observe.time.sleep(3)

    monkeypatch.setattr(observe.model, "facts", never)
    request = observe.Request(runtimes=["supervisor"], gpus=[], models=["/m"])
    told = observe.observe(request, State(str(tmp_path / "state")))
    assert told["models"]["/m"]["exists"] is False
    assert "gave no answer within 0.2 s" in told["models"]["/m"]["why"]
    assert any("/m: looking at it gave no answer" in warning for warning in request.warnings)


def test_a_model_that_breaks_its_reader_is_told_as_such(tmp_path, monkeypatch):
    def deep(_path):
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(observe.model, "facts", deep)
    told = observe.observe(
        observe.Request(runtimes=["supervisor"], gpus=[], models=["/m"]), State(str(tmp_path / "state"))
    )
    assert told["models"]["/m"]["why"] == "it cannot be read (maximum recursion depth exceeded)"
