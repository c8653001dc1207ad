# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members under a real supervisord: made, found, stopped for good, whatever they do; and the rules of module members around that."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import planned
import pytest
from integration import support_runtime as support
from ports import free_ports

from ansible_collections.inferops.pd.plugins.module_utils._core.facts import observed
from ansible_collections.inferops.pd.plugins.module_utils._core.work.share import Share
from ansible_collections.inferops.pd.plugins.module_utils._host.members import Order, Work
from ansible_collections.inferops.pd.plugins.module_utils._host.observe import Request, observe
from ansible_collections.inferops.pd.plugins.module_utils._probes import executables, processes
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import (
    driver,
    guard,
    supervisor_conf,
    supervisor_daemon,
)
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

pytestmark = pytest.mark.integration
ME = support.ME
OTHER = support.OTHER


class Host:
    """One host: a state directory and what is done there."""

    def __init__(self, root: str) -> None:
        self.state = State(root)
        self.again()

    def again(self) -> None:
        """A new look, as each module call takes one."""
        self.state = State(self.state.root)
        self.runtime = driver("supervisor", self.state)

    def label(self, index):
        known = {"group": "g", "member": f"g-prefill-{index}", "role": "prefill", "index": index}
        return {**known, "runtime": "supervisor", "revision": "r1", "generation": 1, "created": time.time()}

    def do(self, plan, phase, holder=None, **order):
        return Work(Order(Share.from_plain(plan), phase, holder or ME, **order), self.state, self.runtime).run()

    def start(self, *members, group="g", **plan):
        result = self.do(support.slice_of(group, members, **plan), "start")
        assert result["failed_members"] == {}
        return result

    def stop(self, *members, group="g", action="deploy"):
        plan = support.slice_of(group, [], absent=[m["id"] for m in members], create=[], action=action)
        result = self.do(plan, "stop")
        assert result["failed_members"] == {}
        return result

    def live(self, member):
        return next((m for m in self.runtime.members() if m["label"]["member"] == member["id"]), None)

    def ready(self, *members):
        ids = {m["id"] for m in members}

        def are():
            facts = observe(Request(), self.state)
            return {m["label"]["member"] for m in facts["members"] if m["ready"]} >= ids

        support.wait_for(are, why=f"{ids} ready")

    def until(self, member, state, seconds=15):
        return support.wait_for(
            lambda: (found := self.live(member)) and found["state"] == state and found,
            seconds,
            f"{member['id']} {state}",
        )

    def daemons(self):
        """Every supervisord of the directory, whether its files are there or not."""
        conf = os.path.join(self.state.root, "supervisor", "supervisord.conf")
        return [daemon.pid for daemon in supervisor_daemon.find(self.state.root, conf, processes.table())]

    @property
    def files(self):
        return [os.path.join(folder, name) for folder, _folders, names in os.walk(self.state.root) for name in names]


@pytest.fixture
def host():
    """In a short path of its own: a socket's path is limited, and pytest's folders grow longer with each worker and test name."""
    folder = tempfile.mkdtemp(prefix="pd-")
    made = Host(os.path.join(folder, "state"))
    yield made
    for daemon in made.daemons():
        os.kill(daemon, signal.SIGKILL)
    support.clean_up(made.state.root)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def port():
    return free_ports(1)[0]


def read(path):
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def one(port, role="prefill", index=0, group="g", **changes):
    return support.member(group, role, index, port, **changes)


# -- a life ----------------------------------------------------------------------------------------------------------------------------


def test_from_nothing_to_nothing(host, port):
    member = one(port)
    first = host.start(member)
    assert (first["changed"], first["created"], first["removed"]) == (True, ["g-prefill-0"], [])
    host.ready(member)
    daemon = support.supervisord_of(host.state.root)
    again = host.start(member)
    assert (again["changed"], again["created"], again["kept"]) == (False, [], ["g-prefill-0"])
    assert support.supervisord_of(host.state.root) == daemon

    plan = support.slice_of("g", [member])
    assert host.do(plan, "endpoint", state="running", registered=True)["changed"]
    record = host.state.record("g")
    assert (record["state"], record["endpoint"]["registered"], "lock" in record) == ("running", True, False)
    assert host.state.group_lock("g") is None
    host.do(plan, "lock")
    assert not host.do(
        {**plan, "record": {**plan["record"], "serial": 9}}, "endpoint", state="running", registered=True
    )["changed"]
    with pytest.raises(HostError, match="does not hold the group's lock any more: nobody has it"):
        host.do(plan, "endpoint", state="partial")
    host.do(plan, "lock")
    assert host.do(plan, "endpoint", state="partial")["changed"]

    gone = host.stop(member, action="remove")
    assert (gone["changed"], gone["removed"]) == (True, ["g-prefill-0"])
    assert support.marked(host.state.root) == []
    assert host.do(support.slice_of("g", [], create=[], action="remove"), "forget")["changed"]
    assert not os.path.exists(host.state.root)
    assert processes.read(daemon) is None
    nothing = support.slice_of("g", [], create=[], action="remove")
    with pytest.raises(HostError, match="nobody has it"):
        host.do(nothing, "forget")
    host.do(nothing, "lock")
    assert not host.do(nothing, "forget")["changed"]
    assert not os.path.exists(host.state.root)


def test_facts_tell_what_runs(host, port):
    member = one(port, gpus=["3"])
    host.start(member)
    host.ready(member)
    facts = observe(Request(gpus=[{"id": "3"}]), host.state)
    (told,) = facts["members"]
    assert (told["state"], told["ready"], told["restarts"], told["why"]) == ("running", True, 0, "")
    assert abs(told["since"] - time.time()) < 30
    assert member["parts"][0]["labels"].items() <= told["label"].items()
    stamp = executables.facts(sys.executable)["stamp"]
    assert told["label"]["identity"] == {"engine": "1", "model": "m", "engine_stamp": stamp}
    read = observed.read_host("h1", facts)
    assert (read.members[0].alive, read.members[0].ports, read.members[0].gpus) == (True, {port}, ("3",))
    (use,) = [u for u in facts["ports"]["used"] if u["port"] == port]
    assert (use["pid"], use["member"]) == (told["pid"], "g-prefill-0")
    assert facts["held"] == observed.held(host.state.labels())
    assert facts["records"]["g"]["state"] == "forming"


def test_a_member_gets_exactly_its_environment_and_files(host, port, tmp_path, monkeypatch):
    monkeypatch.setenv("LEAKED_FROM_ANSIBLE", "1")
    env = {"DUMP": str(tmp_path / "dump"), "ODD": 'it\'s "q"\n100% $HOME\n', "SAY": "the token is hunter2-secret"}
    member = one(
        port,
        env=env,
        gpus=["1", "2"],
        secrets=["HF_TOKEN"],
        files=[{"path": "conf/a.json", "content": "{}\n", "mode": "0640"}],
    )
    result = host.do(support.slice_of("g", [member]), "start", secrets={"g-prefill-0": {"HF_TOKEN": "hunter2-secret"}})
    assert result["failed_members"] == {}
    host.ready(member)
    seen = json.loads((tmp_path / "dump").read_text())["env"]
    assert {**env, "HF_TOKEN": "hunter2-secret"}.items() <= seen.items()
    assert (seen["INFEROPS_PD_MEMBER"], seen["INFEROPS_PD_STATE"]) == ("g-prefill-0", host.state.root)
    assert "LEAKED_FROM_ANSIBLE" not in seen
    folder = host.state.member_dir("g", "g-prefill-0")
    assert read(f"{folder}/conf/a.json") == "{}\n"

    holders = [path for path in host.files if not path.endswith(".sock") and "hunter2" in read(path)]
    assert sorted(map(os.path.basename, holders)) == ["env", "member.log"]  # the log: it was the member that said it
    assert "hunter2" not in json.dumps([result, observe(Request(), host.state)])
    assert host.runtime.logs("g", "g-prefill-0", 5)[-1] == "the token is ********"
    modes = {os.path.basename(path): stat.S_IMODE(os.stat(path).st_mode) for path in host.files}
    assert modes["run"] == 0o700
    assert {
        modes[name]
        for name in ("env", "label.json", "record.json", "member.log", "supervisord.log", "supervisord.conf")
    } == {0o600}
    assert modes["a.json"] == 0o640


def test_the_script_can_be_run_by_hand(host, port):
    member = one(port)
    host.start(member)
    host.ready(member)
    os.kill(host.live(member)["pid"], signal.SIGTERM)
    host.until(member, "exited")
    with subprocess.Popen(
        ["sh", f"{host.state.member_dir('g', 'g-prefill-0')}/run"], stdout=subprocess.DEVNULL
    ) as by_hand:
        found = host.until(member, "running")
        assert (found["pid"], "without supervision" in found["why"]) == (by_hand.pid, True)
        host.stop(member)
    assert support.marked(host.state.root) == []


# -- stopping --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "grace", "least", "most"),
    [
        ({}, 10, 0, 3),
        ({"IGNORE_TERM": "1"}, 1.5, 1.5, 4),
        ({"FORK_SESSION": "1"}, 10, 0, 3),
        ({"FORK_SESSION": "stubborn"}, 2, 0, 5),
        ({"FORK_SESSION": "stubborn", "IGNORE_TERM": "1"}, 1.5, 1.5, 4),
    ],
    ids=lambda value: "+".join(value) or "plain" if isinstance(value, dict) else None,
)
def test_stopped_is_gone(host, port, env, grace, least, most):
    member = one(port, env=env, grace=grace)
    host.start(member)
    host.ready(member)
    wanted = 1 + bool(env.get("FORK_SESSION"))
    support.wait_for(lambda: len(support.marked(host.state.root)) == wanted)
    begun = time.monotonic()
    assert host.stop(member)["removed"] == ["g-prefill-0"]
    assert least <= time.monotonic() - begun <= most
    assert support.marked(host.state.root) == []


def test_graces_do_not_add_up(host):
    members = [one(p, index=i, env={"IGNORE_TERM": "1"}, grace=2) for i, p in enumerate(free_ports(4))]
    host.start(*members)
    host.ready(*members)
    begun = time.monotonic()
    assert len(host.stop(*members)["removed"]) == 4
    assert time.monotonic() - begun < 5
    assert support.marked(host.state.root) == []


def test_children_of_a_crashed_member_go_as_well(host, port):
    member = one(port, env={"FORK_SESSION": "stubborn"}, grace=1)
    host.start(member)
    host.ready(member)
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    found = host.until(member, "exited")
    assert found["why"].startswith("was ended by SIGKILL")
    assert found["why"].endswith("; 1 process that it started is left")
    host.stop(member)
    assert support.marked(host.state.root) == []


def test_a_process_title_does_not_hide_a_child(host, port):
    """Engines name their processes with setproctitle, which by default overwrites the environment that /proc shows."""
    pytest.importorskip("setproctitle")
    child = (
        "import setproctitle, signal, time\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        "setproctitle.setproctitle('VLLM::EngineCore' * 20)\n"
        "time.sleep(600)\n"
    )
    code = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        "time.sleep(600)\n"
    )
    member = one(port, argv=[sys.executable, "-c", code], grace=1)
    host.start(member)
    titled = support.wait_for(lambda: next(iter(support.marked(host.state.root, b"EngineCore")), None))
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    host.stop(member)
    assert processes.read(titled) is None


# -- dying and restarting --------------------------------------------------------------------------------------------------------------


def test_one_that_dies_at_start_says_why(host, port):
    member = one(port, env={"DIE": "3", "SAY": "ValueError: no such model s3cr3t-token"}, secrets=["TOKEN"])
    host.do(support.slice_of("g", [member]), "start", secrets={"g-prefill-0": {"TOKEN": "s3cr3t-token"}})
    found = host.until(member, "exited")
    assert (found["exit"], found["restarts"]) == (3, 0)
    assert (found["why"], found["log_line"]) == ("exited with status 3", "ValueError: no such model ********")
    (told,) = observe(Request(), host.state)["members"]
    assert (told["ready"], told["why"]) == (False, f"{found['why']}; {found['log_line']}")


def test_restarts_are_counted_and_end(host, port):
    member = one(port, env={"DIE": "3"}, attempts=1)
    host.start(member)
    assert host.until(member, "restarting")["why"].startswith("exited with status 3")
    found = host.until(member, "exited")
    assert (found["restarts"], found["exit"]) == (1, 3)
    assert "started 2 times" in found["why"]


@pytest.mark.parametrize("attempts", [0, 3])
def test_a_crash_after_the_window(host, port, attempts):
    member = one(port, attempts=attempts)
    member["restart"]["window"] = 1
    host.start(member)
    host.ready(member)
    time.sleep(1.5)
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    if attempts:
        support.wait_for(lambda: (found := host.live(member))["restarts"] == 1 and found["state"] == "running")
        host.ready(member)
    else:
        found = host.until(member, "exited")
        assert found["why"].startswith("was ended by SIGKILL (out of memory? see dmesg)")
        assert found["restarts"] == 0


def test_a_dead_one_is_replaced_and_its_log_is_kept(host, port):
    member = one(port, env={"DIE": "3", "SAY": "the reason"})
    host.start(member)
    host.until(member, "exited")
    better = one(port)
    result = host.start(better)
    assert (result["created"], result["removed"]) == (["g-prefill-0"], ["g-prefill-0"])
    assert "the reason" in read(result["logs"]["g-prefill-0"])
    host.ready(better)


def test_a_supervisord_that_died(host):
    stays, dies = (one(p, index=i) for i, p in enumerate(free_ports(2)))
    host.start(stays, dies)
    host.ready(stays, dies)
    os.kill(support.supervisord_of(host.state.root), signal.SIGKILL)
    os.kill(host.live(dies)["pid"], signal.SIGKILL) if host.live(dies)["pid"] else None
    found = support.wait_for(lambda: (now := host.live(dies))["state"] == "missing" and now)
    assert found["why"] == "no supervisord runs, so nothing runs it"
    assert "without supervision" in host.live(stays)["why"]
    # A new supervisord starts nothing by itself; only what the plan creates is started.
    third = one(free_ports(3)[2], index=2)
    host.start(stays, dies, third, create=[third["id"]])
    host.ready(third)
    assert host.live(dies)["state"] == "exited"
    assert host.live(dies)["why"] == "it has not been started since supervisord was"
    assert "without supervision" in host.live(stays)["why"]
    host.start(stays, dies, third, create=[dies["id"]])
    host.ready(dies, third)
    host.stop(stays, dies, third)
    assert support.marked(host.state.root) == []


# -- starts that are refused ---------------------------------------------------------------------------------------------------------------


def formed(host, formation):
    """What a record of that formation leaves for the start scripts."""
    with open(os.path.join(guard.make_directory(host.state, "g"), "formation"), "w", encoding="ascii") as stream:
        stream.write(f"{formation}\n")


def refused(host, member, why):
    """A member whose process is killed is not started again, for good."""
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    found = host.until(member, "exited")
    assert (found["exit"], found["restarts"]) == (78, 0)
    # supervisord tells the end of a process before it has read the last that it wrote.
    told = f"not started: {why}"
    support.wait_for(lambda: host.live(member)["why"].startswith(told), 10, told)
    support.wait_for(lambda: host.runtime._programs()[member["id"]]["statename"] in ("FATAL", "EXITED"), 20, "given up")
    assert host.live(member)["why"].startswith(told)
    assert support.marked(host.state.root) == []


@pytest.mark.parametrize("window", [1, 60])
def test_nothing_starts_into_another_formation(host, port, window):
    formed(host, "f-1")
    member = one(port, attempts=2)
    member["restart"]["window"] = window
    member["parts"][0]["labels"]["formation"] = "f-1"
    host.start(member)
    host.ready(member)
    marks = processes.marks(host.live(member)["pid"])
    assert (marks["INFEROPS_PD_GROUP"], marks["INFEROPS_PD_FORMATION"]) == ("g", "f-1")
    time.sleep(1.5 if window == 1 else 0)
    formed(host, "f-2")
    refused(host, member, "its group has been formed anew without it (it is of formation f-1, the group of f-2)")
    (told,) = observe(Request(), host.state)["members"]
    assert (told["ready"], told["state"]) == (False, "exited")


def test_nothing_starts_on_an_exchanged_model(host, port, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    member = one(port, attempts=2, model=str(model))
    host.start(member)
    host.ready(member)
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    support.wait_for(lambda: (found := host.live(member))["restarts"] == 1 and found["state"] == "running")
    host.stop(member)
    host.start(member)
    host.ready(member)
    (model / "config.json").write_text('{"other": 1}')
    refused(host, member, f"the files of its model in {model} are not those that it was created with")
    assert host.start(member)["created"] == ["g-prefill-0"], "a deploy makes it anew, on the files that are there"
    host.ready(member)


# -- files that were lost -------------------------------------------------------------------------------------------------------------


def test_a_state_directory_that_was_lost(host):
    """Members and their supervisord live on. They are found, nothing is started beside them, and they can be stopped."""
    formed(host, "f-1")
    members = [one(p, index=i, attempts=3, env={"FORK_SESSION": "1"}) for i, p in enumerate(free_ports(2))]
    members[0]["parts"][0]["labels"]["formation"] = "f-1"
    host.start(*members)
    host.ready(*members)
    (daemon,) = host.daemons()
    pids = {m["id"]: host.live(m)["pid"] for m in members}
    shutil.rmtree(host.state.root)
    host.again()
    found = {live["label"]["member"]: live for live in host.runtime.members()}
    assert {name: live["pid"] for name, live in found.items()} == pids
    live = found["g-prefill-0"]
    assert live["label"] == {
        "group": "g", "member": "g-prefill-0", "role": "prefill", "index": 0, "formation": "f-1",
        "runtime": "supervisor", "generation": 0, "revision": "", "created": 0.0,
    }  # fmt: skip
    assert (live["state"], live["unlabelled"], "its label is gone" in live["why"]) == ("running", True, True)
    assert "formation" not in found["g-prefill-1"]["label"]
    assert driver("systemd", host.state).members() == []
    with pytest.raises(HostError, match=rf"pid {daemon}.* cannot be asked.*still runs g-prefill-0, g-prefill-1"):
        host.runtime.create_one(planned.wanted(one(free_ports(3)[2], index=2)), host.label(2))
    assert host.daemons() == [daemon]
    host.runtime.sweep()
    assert host.daemons() == [daemon]
    host.runtime.remove("g", "g-prefill-0", 5)
    assert [live["label"]["member"] for live in host.runtime.members()] == ["g-prefill-1"]
    host.runtime.remove("g", "g-prefill-1", 5)
    host.runtime.sweep()
    assert (host.runtime.members(), host.daemons(), support.marked(host.state.root)) == ([], [], [])
    assert not os.path.exists(host.state.root)


@pytest.mark.parametrize("lost", ["supervisor", "supervisor/supervisord.sock"])
def test_a_supervisord_that_cannot_be_asked_any_more(host, lost):
    """It is told while it has members; without any it is ended, and another one is started: never are there two."""
    members = [one(p, index=i, attempts=3) for i, p in enumerate(free_ports(3))]
    host.start(*members[:2])
    host.ready(*members[:2])
    (daemon,) = host.daemons()
    path = os.path.join(host.state.root, lost)
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    assert "without supervision" in host.live(members[0])["why"]
    result = host.do(support.slice_of("g", members, create=["g-prefill-2"]), "start")
    assert "Remove or restart the groups of these members" in result["failed_members"]["g-prefill-2"]
    assert host.daemons() == [daemon]
    host.stop(*members[:2])
    assert (host.daemons(), support.marked(host.state.root)) == ([], [])
    host.start(*members)
    host.ready(*members)
    assert len(host.daemons()) == 1
    assert all(host.live(m)["why"] == "" for m in members)


def test_lost_files_of_a_supervisord_that_answers_are_written_again(host):
    first, second = (one(p, index=i) for i, p in enumerate(free_ports(2)))
    host.start(first)
    shutil.rmtree(os.path.join(host.state.root, "supervisor", "members.d"))
    os.unlink(os.path.join(host.state.root, "supervisor", "supervisord.conf"))
    host.start(first, second, create=[second["id"]])
    host.ready(first, second)
    assert len(host.daemons()) == 1
    host.stop(first, second)


def test_an_earlier_versions_supervisord_is_known_by_its_command_line(host, port):
    folder = os.path.join(host.state.root, "supervisor")
    os.makedirs(os.path.join(folder, "members.d"), 0o700)
    conf = os.path.join(folder, "supervisord.conf")
    with open(conf, "w", encoding="utf-8") as stream:
        stream.write(supervisor_conf.render_main(folder, host.runtime.socket))
    subprocess.run([host.runtime._find(), "-c", conf], check=True)
    (daemon,) = host.daemons()
    os.unlink(support.wait_for(lambda: os.path.exists(host.runtime.socket) and host.runtime.socket))
    # Who only looks at the file is none.
    with subprocess.Popen(["tail", "-f", conf], stdout=subprocess.DEVNULL) as reader:
        assert host.daemons() == [daemon]
        reader.kill()
    host.start(one(port))
    host.ready(one(port))
    assert len(host.daemons()) == 1
    assert processes.read(daemon) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_users_process_does_not_keep_a_member_from_being_stopped(host, port):
    member = one(port)
    host.start(member)
    host.ready(member)
    env = {**os.environ, "INFEROPS_PD_MEMBER": "g-prefill-0", "INFEROPS_PD_STATE": host.state.root}
    with subprocess.Popen(["/bin/sleep", "60"], env=env, user=65534) as pretender:
        assert host.stop(member)["removed"] == ["g-prefill-0"]
        assert host.runtime.members() == []
        assert pretender.poll() is None
        pretender.kill()


def test_a_pid_in_starts_that_is_a_strangers_by_now(host, port):
    member = one(port, env={"DIE": "3"})
    host.start(member)
    host.until(member, "exited")
    code = "import os; os.execve('/bin/sleep', ['sleep', '60'], {})"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as stranger:
        support.wait_for(lambda: processes.environ(stranger.pid) == b"")
        path = os.path.join(host.state.member_dir("g", "g-prefill-0"), "starts")
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(f"{int(time.time()) - 5} ²\n{'9' * 300} {'9' * 300}\n{int(time.time()) - 5} {stranger.pid}\n")
        host.stop(member)
        assert stranger.poll() is None
        stranger.kill()


def test_a_supervisord_that_hangs_is_told(host, port):
    member = one(port)
    host.start(member)
    daemon = support.supervisord_of(host.state.root)
    host.runtime._rpc.timeout = 1
    os.kill(daemon, signal.SIGSTOP)
    try:
        with pytest.raises(HostError, match=r"no answer .* within 1 s"):
            host.runtime.members()
    finally:
        os.kill(daemon, signal.SIGCONT)


def test_without_supervisord(host, port, tmp_path):
    host.runtime = driver("supervisor", host.state, {"supervisor": {"supervisord": str(tmp_path / "nothing")}})
    told = host.runtime.available()
    assert (told["available"], "pd_supervisord" in told["why"], bool(told["hint"])) == (False, True, True)
    result = host.do(support.slice_of("g", [one(port)]), "start")
    assert "pd_supervisord is" in result["failed_members"]["g-prefill-0"]
    assert host.state.label("g", "g-prefill-0") is None


def test_a_long_state_directory(tmp_path, port):
    host = Host(str(tmp_path / ("long-" * 20)))
    try:
        member = one(port)
        host.start(member)
        host.ready(member)
        assert not host.runtime.socket.startswith(host.state.root)
        host.stop(member, action="remove")
        assert not os.path.exists(os.path.dirname(host.runtime.socket))
    finally:
        support.clean_up(host.state.root)


# -- ports, GPUs, and what cannot be created -------------------------------------------------------------------------------------------


def test_a_taken_port_does_not_stop_the_others(host):
    taken, free = free_ports(2)
    with socket.socket() as server:
        server.bind(("127.0.0.1", taken))
        server.listen()
        result = host.do(support.slice_of("g", [one(taken), one(free, index=1)]), "start")
    assert result["created"] == ["g-prefill-1"]
    assert f"port {taken} is taken by" in result["failed_members"]["g-prefill-0"]
    assert f"pid {os.getpid()}" in result["failed_members"]["g-prefill-0"]
    assert host.state.label("g", "g-prefill-0") is None


def test_what_another_group_holds_is_not_taken(host):
    first, second = free_ports(2)
    host.start(one(first, group="a", gpus=["0"]), group="a")
    result = host.do(
        support.slice_of("b", [one(first, group="b", index=0), one(second, group="b", index=1, gpus=["0"])]), "start"
    )
    assert "held by member a-prefill-0" in result["failed_members"]["b-prefill-0"]
    assert "GPU 0 is held by member a-prefill-0" in result["failed_members"]["b-prefill-1"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"argv": ["/nowhere/vllm"]}, "/nowhere/vllm: it is not there"),
        ({"argv": []}, "it is empty"),
        ({"secrets": ["TOKEN"]}, "no value was given for its secrets TOKEN"),
        ({"env": {"BAD-NAME": "1"}}, "no name of an environment variable"),
        ({"files": [{"path": "../x", "content": ""}]}, "in its own directory"),
        ({"files": [{"path": "/tmp/x", "content": ""}]}, "in its own directory"),
    ],
)
def test_what_cannot_be_created_leaves_nothing(host, port, change, reason):
    result = host.do(support.slice_of("g", [one(port, **change)]), "start")
    assert reason in result["failed_members"]["g-prefill-0"]
    assert host.state.label("g", "g-prefill-0") is None
    assert support.marked(host.state.root) == []


def test_what_is_for_containers_is_ignored_and_said(host, port):
    result = host.start(one(port, mounts=["/a:/a"], devices=["/dev/x"]))
    assert len(result["warnings"]) == 2


# -- locks and stale plans -------------------------------------------------------------------------------------------------------------


def test_a_stale_plan_is_refused_before_anything_happens(host):
    first, second = free_ports(2)
    seen = observed.digest([])
    host.start(one(first, group="a"), group="a", observed=seen)
    with pytest.raises(
        HostError, match=r"another run has changed the members of this host .* a-prefill-0 \(\d+ s ago\).* Run again"
    ):
        host.do(support.slice_of("b", [one(second, group="b")], observed=seen), "start")
    assert (host.state.record("b"), host.state.group_lock("b")) == (None, None)


def test_what_other_groups_do_matters_only_where_places_are_taken(host):
    first, second = free_ports(2)
    host.start(one(first))
    own = observed.digest_of_group("g", host.state.labels(), host.state.record("g"))
    host.do(support.slice_of("g", [one(first)]), "endpoint")
    host.start(one(second, group="a"), group="a")
    plan = support.slice_of("g", [], absent=["g-prefill-0"], create=[])
    plan["hosts"]["h1"]["observed"] = {"group": own, "host": None}
    with pytest.raises(HostError, match="another run has changed its members"):
        host.do({**plan, "hosts": {"h1": {**plan["hosts"]["h1"], "observed": {"group": "x", "host": None}}}}, "lock")
    assert host.do(plan, "lock")["lock"]["who"] == ME["who"]
    assert host.do(plan, "stop")["removed"] == ["g-prefill-0"]


def test_the_run_that_changed_the_host_itself_goes_on(host):
    first, second = free_ports(2)
    seen = observed.digest([])
    host.start(one(first), observed=seen)
    plan = support.slice_of("g", [one(first), one(second, index=1)], observed=seen)
    assert host.do(plan, "start")["created"] == ["g-prefill-1"]
    with pytest.raises(HostError):
        host.do(plan, "start", holder=OTHER)


def test_two_runs_on_one_group(host, port):
    plan = support.slice_of("g", [one(port)])
    host.do(plan, "start")
    for phase in ("lock", "start", "router", "stop", "router_stop"):
        with pytest.raises(HostError, match="me@test pid 1 is changing it since"):
            host.do(plan, phase, holder=OTHER)
    for phase in ("endpoint", "forget"):
        with pytest.raises(HostError, match="this run does not hold the group's lock any more: me@test pid 1 has it"):
            host.do(plan, phase, holder=OTHER)
    # Names and pids are for people: the same ones in another container are another run.
    with pytest.raises(HostError, match="me@test pid 1 is changing it since"):
        host.do(plan, "lock", holder={**ME, "run": "another"})
    assert not host.do(plan, "unlock", holder=OTHER)["changed"]
    assert host.state.group_lock("g")["run"] == ME["run"]
    assert host.do(plan, "start", holder=OTHER, break_lock=True)["lock"]["who"] == OTHER["who"]
    with pytest.raises(HostError, match="other@test pid 2"):
        host.do(plan, "endpoint")
    host.do(plan, "endpoint", holder=OTHER)
    assert host.do(plan, "start")["lock"]["who"] == ME["who"]


def test_of_two_plans_for_one_port_one_wins(host, port):
    seen = observed.digest([])
    results: dict[str, str] = {}

    def run(group):
        mine = Host(host.state.root)
        try:
            made = mine.do(
                support.slice_of(group, [one(port, group=group)], observed=seen),
                "start",
                holder={"run": group, "who": group},
            )
            results[group] = "won" if made["created"] else "lost"
        except HostError:
            results[group] = "lost"

    threads = [threading.Thread(target=run, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results.values()) == ["lost", "lost", "lost", "won"]


def test_forget_keeps_what_still_runs(host, port):
    host.start(one(port))
    with pytest.raises(HostError, match="g-prefill-0 of it are still there"):
        host.do(support.slice_of("g", [], create=[], action="remove"), "forget")
    assert host.state.record("g")


# -- draining --------------------------------------------------------------------------------------------------------------------------


def test_a_busy_member_finishes_first(host, port):
    member = one(port, env={"BUSY": "3"}, drain=10)
    host.start(member)
    host.ready(member)
    begun = time.monotonic()
    result = host.stop(member, action="scale")
    assert (result["removed"], result["drained"]) == (["g-prefill-0"], {})
    assert 1 < time.monotonic() - begun < 8


def test_a_member_is_marked_before_it_is_waited_for(host, port):
    """Whoever looks meanwhile sees it, and whoever runs after a run that was killed goes on removing it."""
    member = one(port, env={"BUSY": "4"}, drain=20)
    host.start(member)
    host.ready(member)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(host.stop, member, action="scale")
        support.wait_for(lambda: host.state.draining("g", "g-prefill-0"), 10, "the mark")
        (seen,) = observe(Request(), host.state)["members"]
        assert (seen["draining"], seen["ready"]) == (True, True)
        assert stopping.result()["removed"] == ["g-prefill-0"]
    assert not host.state.draining("g", "g-prefill-0")


def test_one_that_never_finishes_is_stopped_and_told(host, port):
    member = one(port, env={"BUSY": "60"}, drain=1.5)
    host.start(member)
    host.ready(member)
    result = host.stop(member)
    assert result["removed"] == ["g-prefill-0"]
    assert result["drained"]["g-prefill-0"] == "after 1.5 s: busy is 1"


@pytest.mark.parametrize("action", ["restart", "remove"])
def test_restart_and_remove_do_not_wait(host, port, action):
    member = one(port, env={"BUSY": "60"}, drain=30)
    host.start(member)
    host.ready(member)
    begun = time.monotonic()
    host.stop(member, action=action)
    assert time.monotonic() - begun < 4


# -- the router, restart, check mode ---------------------------------------------------------------------------------------------------


def test_a_router_is_replaced_once_per_run(host):
    engine, port = free_ports(2)
    members = [one(engine), one(port, role="router")]
    plan = support.slice_of("g", members)
    assert host.do(plan, "start")["created"] == ["g-prefill-0"]
    assert host.do(plan, "router")["created"] == ["g-router-0"]
    assert not host.do(plan, "router")["changed"]
    host.do(plan, "endpoint")
    time.sleep(0.01)
    replacing, next_run = support.slice_of("g", members, create=["g-router-0"]), {**ME, "run": "the-next-one"}
    assert host.do(replacing, "router", holder=next_run)["removed"] == ["g-router-0"]
    assert not host.do(replacing, "router", holder=next_run)["changed"]


def test_a_restart_of_the_whole_group(host):
    ports = free_ports(3)
    old = [one(ports[0]), one(ports[1], role="decode"), one(ports[2], role="router")]
    plan = support.slice_of("g", old)
    host.do(plan, "start")
    host.do(plan, "router")
    host.do(plan, "endpoint", state="running")
    daemon = support.supervisord_of(host.state.root)
    new = [
        one(ports[0], generation=2),
        one(ports[1], role="decode", generation=2),
        one(ports[2], role="router", generation=2),
    ]
    plan = support.slice_of(
        "g",
        new,
        absent=[m["id"] for m in old],
        action="restart",
        generation=2,
        observed=observed.digest(host.state.labels()),
    )
    assert host.do(plan, "router_stop")["removed"] == ["g-router-0"]
    assert host.do(plan, "stop")["removed"] == ["g-prefill-0", "g-decode-0"]
    assert support.marked(host.state.root) == []
    assert support.supervisord_of(host.state.root) == daemon
    assert host.do(plan, "start")["created"] == ["g-prefill-0", "g-decode-0"]
    assert host.do(plan, "router")["created"] == ["g-router-0"]
    assert host.state.record("g")["generation"] == 2
    assert {label["generation"] for label in host.state.labels()} == {2}


def test_check_mode_says_the_same_and_does_nothing(host):
    ports = free_ports(2)
    members = [one(ports[0]), one(ports[1], role="router")]
    plan = support.slice_of("g", members)
    assert host.do(plan, "start", check=True)["created"] == ["g-prefill-0"]
    assert host.do(plan, "router", check=True)["created"] == ["g-router-0"]
    assert host.do(plan, "endpoint", check=True)["changed"]
    assert not os.path.exists(host.state.root)
    host.do(plan, "start")
    host.do(plan, "router")
    before = {path: os.stat(path).st_mtime_ns for path in host.files if path.endswith((".json", ".conf"))}
    away = support.slice_of("g", [], absent=[m["id"] for m in members], create=[], action="remove")
    assert host.do(away, "router_stop", check=True)["removed"] == ["g-router-0"]
    told = host.do(away, "stop", check=True)
    assert (told["removed"], told["kept"]) == (["g-prefill-0", "g-router-0"], [])
    assert "diff" not in told, "the plan's is the one that people read"
    assert host.do(away, "forget", check=True)["changed"]
    again = support.slice_of("g", members, absent=[m["id"] for m in members], action="restart", generation=2)
    assert host.do(again, "start", check=True)["created"] == []  # the same generation is there
    # A process that was forked a moment ago may not have become the member yet, and one that becomes it shows no environment.
    support.wait_for(lambda: len(support.marked(host.state.root)) == 2)
    assert {path: os.stat(path).st_mtime_ns for path in before} == before


# -- as Ansible runs it ----------------------------------------------------------------------------------------------------------------


def test_modules_through_ansible(host, port):
    """Ansible's own pipes must close though a daemon was started, and a module's result must hold no secret."""
    member = one(port, secrets=["TOKEN"])
    state = {"state_dir": host.state.root}
    plan = support.slice_of("g", [member])

    def do(phase, plan, **call):
        told = support.module_direct("members", support.orders(phase, plan, **state, **call))
        assert not told.get("failed"), "what fails is told of its workload"
        return told["workloads"]["g"]

    facts = support.module("host_facts", state)["ansible_facts"]["pd_host"]
    assert (facts["members"], facts["runtimes"]["supervisor"]["available"]) == ([], True)
    plan["hosts"]["h1"]["observed"] = {"group": None, "host": observed.digest(host.state.labels())}
    begun = time.monotonic()
    made = do("start", plan, sealed=json.dumps({"g": {"g-prefill-0": {"TOKEN": "hunter2"}}}))
    assert (made["ok"], made["changed"], made["created"]) == (True, True, ["g-prefill-0"])
    assert time.monotonic() - begun < 20
    assert "hunter2" not in json.dumps(made)
    host.ready(member)
    facts = support.module("host_facts", state)["ansible_facts"]["pd_host"]
    assert (facts["members"][0]["ready"], facts["members"][0]["label"]["member"]) == (True, "g-prefill-0")
    refused = do("start", plan, holder=OTHER)
    assert refused["failed"]
    assert "me@test pid 1 is changing it since" in refused["msg"] or "another run has changed" in refused["msg"]
    away = support.slice_of("g", [], absent=[member["id"]], create=[], action="remove")
    assert do("stop", away)["removed"] == ["g-prefill-0"]
    assert do("forget", away)["changed"]
    assert not os.path.exists(host.state.root)


def test_groups_of_a_host_in_one_call(host):
    """They share a supervisord and the state directory; one that cannot start takes nothing from the others."""
    groups = ("a", "b", "c", "d")
    members = {g: support.member(g, "prefill", 0, p, drain=20) for g, p in zip(groups, free_ports(len(groups)))}
    members["b"]["parts"][0] |= {"executable": "/no/such/engine", "argv": ["/no/such/engine"]}

    def do(phase, *plans):
        told = support.module_direct("members", support.orders(phase, *plans, state_dir=host.state.root))
        assert not told.get("failed")
        return told["workloads"]

    made = do("start", *(support.slice_of(g, [members[g]]) for g in groups))
    assert {g: told["created"] for g, told in made.items()} == {
        g: [] if g == "b" else [f"{g}-prefill-0"] for g in groups
    }
    assert "/no/such/engine" in made["b"]["msg"]
    assert len(host.daemons()) == 1
    host.ready(*(members[g] for g in groups if g != "b"))
    away = [support.slice_of(g, [], absent=[f"{g}-prefill-0"], create=[], action="scale") for g in groups]
    gone = do("stop", *away)
    assert {g: told["removed"] for g, told in gone.items()} == {
        g: [] if g == "b" else [f"{g}-prefill-0"] for g in groups
    }
    assert all(told["ok"] and not told["drained"] for told in gone.values())
    assert all(told["changed"] for told in do("forget", *away).values())
    assert host.daemons() == []
    assert not os.path.exists(host.state.root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_somebody_elses_state_is_said_not_shown_as_empty(host, port):
    host.start(one(port))
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        code = 1
        try:
            told = observe(Request(runtimes=["supervisor"], state_given=True), State(host.state.root))
            code = 0 if "Run with become" in told["hidden"] and not told["members"] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
