# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runtime systemd on three hosts over ssh: the life of a group of stand-ins, in order, then what a host can have against it."""

from __future__ import annotations

import json
import re
import shutil
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from integration import support_runtime
from lab.fixture import Lab, LabSite
from support import ROOT, Run, playbook_command, run

pytestmark = pytest.mark.integration
STATE = "/var/lib/inferops-pd"
ODD = 'it\'s "q"\n100% $HOME %h \\n'
SECRET = "hunter2-secret"
USER = {"systemd": {"scope": "user"}}
MEMBERS = {"g-prefill-0", "g-prefill-1", "g-decode-0", "g-router-0"}


@pytest.fixture(scope="module", autouse=True)
def material(lab: Lab) -> None:
    """Engine, router and model as far as hosts are asked about them, where every host and every user of it sees them."""
    shutil.copytree(ROOT / "tests" / "standin", lab.share / "standin", dirs_exist_ok=True)
    model = lab.share / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text('{"model_type": "standin", "torch_dtype": "float32"}')


def spec(**changes: t.Any) -> dict[str, t.Any]:
    made: dict[str, t.Any] = {
        "mode": "vllm-nixl",
        "runtime": "systemd",
        "model": "/srv/lab/model",
        "served_model_name": "tiny",
        "engine": {
            "executable": "/srv/lab/standin/vllm",
            "args": ["--max-model-len=4096"],
            "env": {"STANDIN_LOAD": "0.1", "STANDIN_PYTHON": "/usr/bin/python3", "ODD": ODD},
            "secrets": {"HF_TOKEN": SECRET},
        },
        "roles": {
            "prefill": {"hosts": "h1:h2", "replicas": 2, "gpus": 0},
            "decode": {"hosts": "h3", "gpus": 0},
            "router": {"hosts": "h1", "port": 8000, "executable": "/srv/lab/standin/vllm-router"},
        },
        "limits": {"start": 60, "drain": 2, "stop": 3},
    }
    made.update(changes)
    return made


class Fleet(LabSite):
    """What tests ask of the hosts."""

    def units(self) -> dict[str, tuple[str, int]]:
        """(host, pid) of every unit that runs, by member."""
        asked = "systemctl show --property=Id,MainPID,UnitFileState 'inferops-pd-*' --state=active"
        found = {}
        for host, said in self.lab.everywhere(asked).items():
            for block in filter(None, said.split("\n\n")):
                told = dict(line.split("=", 1) for line in block.splitlines() if line)
                assert told["UnitFileState"] == "static", "a unit that is enabled would start at boot"
                found[told["Id"][len("inferops-pd-") : -len(".service")]] = (host, int(told["MainPID"]))
        return found

    def left(self) -> dict[str, str]:
        """What there is of any member on the hosts: units, cgroups, files, processes."""
        look = (
            "ls -d /etc/systemd/system/inferops-pd-* /home/ops/.config/systemd/user/inferops-pd-* 2>/dev/null;"
            f" find {STATE} /home/ops/.local/state/inferops-pd 2>/dev/null; find /sys/fs/cgroup -name 'inferops-pd-*';"
            " systemctl list-units --all --plain --no-legend 'inferops-pd-*';"
            " grep -lzs INFEROPS_PD_MEMBER= /proc/[0-9]*/environ; true"
        )
        return {host: said for host, said in self.lab.everywhere(look).items() if said}

    def clean(self) -> None:
        self.lab.everywhere(
            "for u in $(ls /etc/systemd/system | grep ^inferops-pd-); do systemctl stop $u; rm -f /etc/systemd/system/$u; done;"
            " loginctl disable-linger ops; pkill -KILL -u ops; rm -rf /home/ops/.config/systemd/user/inferops-pd-*;"
            f" systemctl reset-failed; systemctl daemon-reload; rm -rf {STATE} /home/ops/.local/state/inferops-pd"
        )

    def ask(self) -> int:
        """The status of one completion through the router."""
        body = json.dumps({"model": "tiny", "prompt": "once upon a time " * 20, "max_tokens": 4}).encode()
        url = f"http://{self.lab.address('h1')}:8000/v1/completions"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as exc:
            return exc.code
        except OSError:
            return 0

    def module(self, host: str, name: str, arguments: dict[str, t.Any]) -> Run:
        """A module on one host, ad hoc."""
        ansible = playbook_command().replace("ansible-playbook", "ansible")
        plugins = Path(__file__).resolve().parents[1] / "plugins" / "action"
        command = ["env", "ANSIBLE_CALLBACK_RESULT_FORMAT=json", f"ANSIBLE_ACTION_PLUGINS={plugins}", ansible]
        command += ["-i", str(self.folder / "hosts.yml"), host, "-m", name, "-a", json.dumps(arguments)]
        return run(command, 120)

    def phase(self, host: str, phase: str, plan: dict[str, t.Any], **call: t.Any) -> Run:
        """One phase of a plan of one group."""
        arguments = support_runtime.orders(phase, {**plan, "runtime": "systemd"}, **call)
        return self.module(host, "pd_module", {"module": "inferops.pd.members", "arguments": arguments})

    def facts(self, host: str, **options: t.Any) -> dict[str, t.Any]:
        out = self.module(host, "inferops.pd.host_facts", {"runtimes": ["systemd"], **options}).ok().out
        return t.cast(
            "dict[str, t.Any]", json.JSONDecoder().raw_decode(out, out.index("=> {") + 3)[0]["ansible_facts"]["pd_host"]
        )


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    made = Fleet(lab, Path(tmp_path_factory.mktemp("site")), {"g": spec()}, pd_port_range="25000-25063")
    made.clean()
    yield made
    made.clean()


@pytest.fixture
def empty(site: Fleet) -> Fleet:
    """Hosts with nothing on them, whatever the test before has left."""
    if site.left():
        site.clean()
    return site


@pytest.fixture
def bare(empty: Fleet) -> t.Iterator[Fleet]:
    """Hosts with nothing on them before and after, and with variables that a test may change."""
    site, kept = empty, empty.variables
    yield site
    if site.left():
        site.clean()
    site.variables = kept
    site.write()


@pytest.fixture
def deployed(site: Fleet) -> Fleet:
    """The group, running. Usually it is what the test before has left: it takes a while to deploy."""
    if set(site.units()) != MEMBERS:
        site.clean()
        site.play("deploy").ok()
    return site


# -- a life: each of these can begin anywhere, and goes on from the one before where it can ----------------------------------------------


def test_check_shows_the_members_and_leaves_nothing(empty: Fleet) -> None:
    site = empty
    out = site.play("deploy", "--check", "--diff").ok().out
    assert "+ [start] create g-prefill-1 on h2" in out
    assert site.left() == {}


def test_deploy_over_three_hosts(empty: Fleet) -> None:
    site = empty
    out = site.play("deploy", "--diff").ok().out
    assert "2 of 2 pairs move the KV cache and answer right" in out
    assert SECRET not in out
    assert {name: host for name, (host, _pid) in site.units().items()} == {
        "g-prefill-0": "h1",
        "g-prefill-1": "h2",
        "g-decode-0": "h3",
        "g-router-0": "h1",
    }
    assert site.ask() == 200
    assert "g: RUNNING" in site.play("status", pd_fail_unless_running="true").ok().out


def test_a_second_deploy_changes_nothing(deployed: Fleet) -> None:
    site = deployed
    before = site.units()
    assert site.play("deploy").ok().changed == 0
    assert site.units() == before


def test_a_member_has_its_environment_and_nobody_else_its_secrets(deployed: Fleet) -> None:
    site = deployed
    _host, pid = site.units()["g-decode-0"]
    block = site.lab.ssh("h3", f"cat /proc/{pid}/environ").split("\0")
    assert {f"ODD={ODD}", f"HF_TOKEN={SECRET}", "HOME=/root"} <= set(block)
    folder = f"{STATE}/groups/g/members/g-decode-0"
    assert site.lab.ssh("h3", f"grep -rl {SECRET} {STATE} /etc/systemd").split() == [f"{folder}/env"]
    assert site.lab.ssh("h3", f"stat -c %a {folder}/env").strip() == "600"
    # It is bound to where it is asked, and its KV cache to the data NIC.
    listening = site.lab.ssh("h1", "cat /proc/net/tcp")
    assert re.search(r" 0B00D60A:61A8 .* 0A ", listening), "the side channel is on 10.214.0.11:25000"


def test_a_crash_is_healed_by_systemd_and_a_lost_member_by_deploy(deployed: Fleet) -> None:
    site = deployed
    before = site.units()
    host, pid = before["g-prefill-1"]
    site.lab.ssh(host, f"kill -KILL {pid}")
    support_runtime.wait_for(
        lambda: site.units().get("g-prefill-1", (host, pid)) != (host, pid), 15, "a restart by systemd"
    )
    site.lab.ssh("h3", "systemctl stop inferops-pd-g-decode-0")
    shown = site.play("status").ok().out
    assert "it was stopped by hand" in shown
    assert "decode 0/1" in shown
    site.play("deploy").ok()
    after = site.units()
    assert set(after) == set(before)
    assert after["g-prefill-0"] == before["g-prefill-0"]
    assert site.ask() == 200


def test_scaling_touches_nobody_else(deployed: Fleet) -> None:
    site = deployed
    before = site.units()
    site.play("scale", pd_group="g", pd_prefill=3).ok()
    grown = site.units()
    assert {name: where for name, where in grown.items() if name != "g-prefill-2"} == before
    site.play("scale", pd_group="g", pd_prefill=2).ok()
    assert site.units() == before
    host = grown["g-prefill-2"][0]
    assert (
        site.lab.ssh(host, f"test ! -e /proc/{grown['g-prefill-2'][1]} && ls /etc/systemd/system").count("prefill-2")
        == 0
    )


def test_an_edit_is_pending_until_the_restart(deployed: Fleet) -> None:
    site = deployed
    before = site.units()
    # The test after it goes on with the edited spec.
    site.groups["g"]["engine"]["args"] = ["--max-model-len=2048"]
    site.write()
    assert site.play("deploy").ok().changed == 0
    site.play("restart", pd_group="g").ok()
    after = site.units()
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert site.ask() == 200


def test_remove_leaves_nothing(deployed: Fleet) -> None:
    site = deployed
    before = site.units()
    site.play("remove", "--check", pd_group="g").ok()
    assert site.units() == before
    site.play("remove", pd_group="g").ok()
    assert site.left() == {}
    assert site.play("remove", pd_group="g").ok().changed == 0


# -- who may ---------------------------------------------------------------------------------------------------------------------------


def test_another_user_needs_become(bare: Fleet) -> None:
    site = bare
    site.variables = {**site.variables, "ansible_user": "ops"}
    site.write()
    out = " ".join(site.play("deploy").refused().out.split())
    assert "units of the system need root, and Ansible is user ops here" in out
    assert "pd_scope: user" in out
    site.variables = {**site.variables, "ansible_become": True}
    site.write()
    site.play("deploy", pd_proof="never").ok()
    assert len(site.units()) == 4
    site.play("remove", pd_group="g").ok()
    assert site.left() == {}


@pytest.fixture
def as_ops(bare: Fleet) -> t.Iterator[Fleet]:
    """h1 as its user ops, whose services run on after it logs out."""
    bare.variables = {**bare.variables, "ansible_user": "ops", "ansible_become": False}
    bare.write()
    yield bare
    bare.lab.ssh("h1", "loginctl disable-linger ops")


def test_units_of_a_user(as_ops: Fleet) -> None:
    site, lab = as_ops, as_ops.lab
    told = site.facts("h1", runtime_options=USER)["runtimes"]["systemd"]
    assert (told["available"], "does not linger" in told["why"], "loginctl enable-linger ops" in told["hint"]) == (
        False,
        True,
        True,
    )
    lab.ssh("h1", "loginctl enable-linger ops")
    support_runtime.wait_for(
        lambda: site.facts("h1", runtime_options=USER)["runtimes"]["systemd"]["available"],
        10,
        "its systemd",
    )

    member = support_runtime.member("g", "prefill", 0, 25001, attempts=1, env={"SAY": "said by a user's unit"})
    member["parts"][0]["argv"][0] = member["parts"][0]["executable"] = "/usr/bin/python3"
    plan = support_runtime.slice_of("g", [member])
    started = site.phase("h1", "start", plan, runtime_options=USER).ok().out
    assert "locked memory is limited to 8 MiB" in started
    (live,) = site.facts("h1")["members"]
    assert (live["state"], live["log"]) == ("running", "journalctl --user -u inferops-pd-g-prefill-0.service")
    assert "said by a user's unit" in lab.ssh("h1", f"XDG_RUNTIME_DIR=/run/user/$(id -u) {live['log']}", user="ops")
    assert lab.ssh("h1", f"stat -c %U /proc/{live['pid']}").strip() == "ops"
    stop = _away("g-prefill-0")
    site.phase("h1", "stop", stop).ok()
    site.phase("h1", "forget", stop).ok()
    assert site.left() == {}


# -- what a host can have against it ---------------------------------------------------------------------------------------------------


def test_a_member_that_keeps_dying_is_given_up_and_one_that_will_not_end_is_killed(bare: Fleet) -> None:
    site = bare
    dying = support_runtime.member("g", "prefill", 0, 25001, attempts=1, env={"DIE": "3", "SAY": "no such device"})
    stubborn = support_runtime.member(
        "g", "decode", 0, 25011, grace=1, env={"IGNORE_TERM": "1", "FORK_SESSION": "stubborn"}
    )
    for member in (dying, stubborn):
        member["parts"][0]["argv"][0] = member["parts"][0]["executable"] = "/usr/bin/python3"
    plan = support_runtime.slice_of("g", [dying, stubborn])
    site.phase("h1", "start", plan).ok()

    def told() -> dict[str, t.Any] | None:
        found = {live["label"]["member"]: live for live in site.facts("h1")["members"]}
        return found if found["g-prefill-0"]["state"] == "exited" else None

    found = support_runtime.wait_for(told, 15, "giving up")
    assert found["g-prefill-0"]["exit"] == 3
    assert "started 2 times; systemd gave it up" in found["g-prefill-0"]["why"]
    assert "no such device" in found["g-prefill-0"]["log_line"]
    assert found["g-decode-0"]["state"] == "running"
    stop = _away("g-prefill-0", "g-decode-0")
    site.phase("h1", "stop", stop).ok()
    kept = site.lab.ssh("h1", f"cat {STATE}/groups/g/logs/g-prefill-0.log")
    assert "no such device" in kept
    site.phase("h1", "forget", stop).ok()
    assert site.left() == {}


def _here(member: dict[str, t.Any]) -> dict[str, t.Any]:
    """The same member with the Python of a lab's host."""
    member["parts"][0]["argv"][0] = member["parts"][0]["executable"] = "/usr/bin/python3"
    return member


def _away(*ids: str) -> dict[str, t.Any]:
    return support_runtime.slice_of("g", [], absent=ids, create=[], action="remove")


def test_a_start_on_an_exchanged_model_or_another_machine_is_refused_for_good(bare: Fleet) -> None:
    site = bare
    site.lab.ssh("h1", "mkdir -p /tmp/model && echo '{}' > /tmp/model/config.json")
    moved, exchanged = (
        _here(support_runtime.member("g", role, 0, port, attempts=3, model=model))
        for role, port, model in (("prefill", 25001, None), ("decode", 25011, "/tmp/model"))
    )
    plan = support_runtime.slice_of("g", [moved, exchanged])
    site.phase("h1", "start", plan).ok()
    pids = {name: pid for name, (_host, pid) in site.units().items()}
    site.lab.ssh("h1", "echo '{\"other\": 1}' > /tmp/model/config.json")
    site.lab.ssh("h1", "sed -i s/^_pd_read.*machine-id.*/_pd_got=0/ " + f"{STATE}/groups/g/members/g-prefill-0/run")
    site.lab.ssh("h1", f"kill -KILL {pids['g-prefill-0']} {pids['g-decode-0']}")

    def told() -> dict[str, t.Any] | None:
        found = {live["label"]["member"]: live for live in site.facts("h1")["members"]}
        return found if {live["state"] for live in found.values()} == {"exited"} else None

    found = support_runtime.wait_for(told, 15, "refusals")
    assert found["g-decode-0"]["why"].startswith("not started: the files of its model in /tmp/model are not those")
    assert found["g-prefill-0"]["why"].startswith("not started: this is another machine than the one")
    assert {live["exit"] for live in found.values()} == {78}
    assert site.units() == {}
    site.phase("h1", "stop", _away("g-prefill-0", "g-decode-0")).ok()
    site.phase("h1", "forget", _away("g-prefill-0", "g-decode-0")).ok()
    assert site.left() == {}


def test_members_whose_labels_are_gone_can_be_stopped(bare: Fleet) -> None:
    """One runs, of the other only the unit is left."""
    site = bare
    members = [_here(support_runtime.member("g", "prefill", i, p)) for i, p in enumerate((25001, 25011))]
    plan = support_runtime.slice_of("g", members)
    site.phase("h1", "start", plan).ok()
    site.lab.ssh("h1", f"systemctl stop inferops-pd-g-prefill-1; rm -rf {STATE}")
    assert set(site.units()) == {"g-prefill-0"}
    removed = site.phase("h1", "stop", _away("g-prefill-0", "g-prefill-1")).ok().out
    assert '"g-prefill-0"' in removed.partition('"removed"')[2]
    assert '"g-prefill-1"' in removed.partition('"removed"')[2]
    site.phase("h1", "forget", _away("g-prefill-0", "g-prefill-1")).ok()
    assert site.left() == {}


def test_a_silent_systemd_is_told_before_anything_starts(bare: Fleet) -> None:
    site = bare
    site.lab.ssh(
        "h2", "mv /run/systemd/private /run/systemd/private.away; mv /run/dbus/system_bus_socket /run/dbus/away"
    )
    try:
        out = " ".join(site.play("deploy").refused().out.split())
    finally:
        site.lab.ssh(
            "h2", "mv /run/systemd/private.away /run/systemd/private; mv /run/dbus/away /run/dbus/system_bus_socket"
        )
    assert "runtime systemd is not usable on h2: systemd does not answer (systemctl said:" in out
    assert site.left() == {}


def test_a_unit_of_somebody_else_is_left_alone(bare: Fleet) -> None:
    site = bare
    path = "/etc/systemd/system/inferops-pd-g-decode-0.service"
    site.lab.ssh("h1", f"printf '[Service]\\nExecStart=/bin/true\\n' > {path}")
    member = support_runtime.member("g", "decode", 0, 25001)
    member["parts"][0]["argv"][0] = member["parts"][0]["executable"] = "/usr/bin/python3"
    plan = support_runtime.slice_of("g", [member])
    out = " ".join(site.phase("h1", "start", plan).refused().out.split())
    assert f"Writing {path}: it belongs to somebody else" in out
    assert site.lab.ssh("h1", f"cat {path}") == "[Service]\nExecStart=/bin/true\n"
    assert site.lab.ssh("h1", f"ls {STATE}/groups/g").split() == ["guard", "lock.json", "record.json"]


def test_two_nics_and_no_word_which(bare: Fleet) -> None:
    site = bare
    site.variables = {**site.variables, "pd_kv_interface": None}
    site.write()
    out = " ".join(site.play("deploy", "--check").refused().out.split())
    for number in (1, 2, 3):
        assert f"mgmt0 (10.213.0.1{number}," in out
        assert f"rdma0 (10.214.0.1{number}," in out
    assert "pd_kv_interface" in out
