# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members as containers of a real Docker engine: what they are created with, how they end, and what never starts by itself."""

from __future__ import annotations

import json
import os
import signal
import time
import typing as t
from pathlib import Path

import pytest
from docker_engine import BARE, IMAGE, Engine, NoEngineError, fixture_engine, registry
from integration import support_runtime as support
from ports import free_ports

from ansible_collections.inferops.pd.plugins.module_utils._core.runtimes import container as forms
from ansible_collections.inferops.pd.plugins.module_utils._core.runtimes.accepts import CPUS, MEMORY, UnfitError
from ansible_collections.inferops.pd.plugins.module_utils._core.work.share import Share
from ansible_collections.inferops.pd.plugins.module_utils._host.hidden import Place, hidden
from ansible_collections.inferops.pd.plugins.module_utils._host.members import Order, Work
from ansible_collections.inferops.pd.plugins.module_utils._host.observe import Request, observe
from ansible_collections.inferops.pd.plugins.module_utils._host.orders import Call, run_orders
from ansible_collections.inferops.pd.plugins.module_utils._host.orders import Host as Orders
from ansible_collections.inferops.pd.plugins.module_utils._probes import model as probed
from ansible_collections.inferops.pd.plugins.module_utils._probes import processes
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import docker_elsewhere, docker_spec, driver, guard
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

pytestmark = pytest.mark.integration
pytest.importorskip("docker.api.client", reason="the Python library docker is not installed")
ME = support.ME
engine = pytest.fixture(scope="module")(fixture_engine)


class Host:
    """One host: a state directory, a Docker engine, and what is done there."""

    def __init__(self, root: Path, engine: Engine) -> None:
        self.engine = engine
        self.state = State(str(root))
        self.again()

    def again(self) -> None:
        """A new connection, as each module call makes one."""
        self.runtime: t.Any = driver("docker", self.state, {"docker": {"host": self.engine.url}})

    def do(self, plan: dict[str, t.Any], phase: str, **order: t.Any) -> dict[str, t.Any]:
        return Work(Order(Share.from_plain(plan), phase, ME, **order), self.state, self.runtime).run()

    def start(self, *members: dict[str, t.Any], **order: t.Any) -> dict[str, t.Any]:
        result = self.do(support.slice_of("g", members), "start", **order)
        assert result["failed_members"] == {}
        return result

    def fails(self, member: dict[str, t.Any], **order: t.Any) -> str:
        """Why a member cannot be created. Nothing of it is left."""
        result = self.do(support.slice_of("g", [member]), "start", **order)
        assert result["created"] == []
        assert not os.path.exists(self.state.member_dir("g", member["id"]))
        return str(result["failed_members"][member["id"]])

    def stop(self, *members: dict[str, t.Any]) -> dict[str, t.Any]:
        plan = support.slice_of("g", [], absent=[m["id"] for m in members], create=[], action="remove")
        result = self.do(plan, "stop")
        assert result["failed_members"] == {}
        return result

    def live(self, member: dict[str, t.Any]) -> dict[str, t.Any]:
        return next(m for m in self.runtime.members() if m["label"]["member"] == member["id"])

    def until(self, member: dict[str, t.Any], seconds: float = 15, **wanted: t.Any) -> dict[str, t.Any]:
        def seen() -> dict[str, t.Any] | None:
            live = self.live(member)
            return live if all(live[key] == value for key, value in wanted.items()) else None

        return t.cast("dict[str, t.Any]", support.wait_for(seen, seconds, f"{member['id']} {wanted}"))

    def ready(self, *members: dict[str, t.Any]) -> None:
        ids = {m["id"] for m in members}

        def are() -> bool:
            facts = observe(Request(runtime_options={"docker": {"host": self.engine.url}}), self.state)
            return {m["label"]["member"] for m in facts["members"] if m["ready"]} >= ids

        support.wait_for(are, 15, f"{ids} ready")


@pytest.fixture
def host(tmp_path: Path, engine: Engine) -> t.Iterator[Host]:
    yield Host(tmp_path / "state", engine)
    names = engine.names()
    if names:
        engine.docker("rm", "-f", *names)


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def one(port: int, role: str = "prefill", index: int = 0, **changes: t.Any) -> dict[str, t.Any]:
    changes = {"image": IMAGE, "argv": ["python3", "-c", support.SERVER, "127.0.0.1", str(port)], **changes}
    return support.member("g", role, index, port, **changes)


# -- a life ----------------------------------------------------------------------------------------------------------------------------


def test_from_nothing_to_nothing(host: Host, port: int) -> None:
    member = one(port)
    assert host.start(member)["created"] == ["g-prefill-0"]
    host.ready(member)
    begun = host.engine.inspect("g-prefill-0")["State"]["StartedAt"]
    again = host.start(member)
    assert (again["changed"], again["kept"]) == (False, ["g-prefill-0"])
    assert host.engine.inspect("g-prefill-0")["State"]["StartedAt"] == begun
    live = host.live(member)
    assert (live["state"], live["restarts"], live["why"]) == ("running", 0, "")
    assert abs(live["since"] - time.time()) < 30
    assert processes.marker(live["pid"]) == ("g-prefill-0", host.state.root)
    assert "hello from g-prefill-0" in host.runtime.logs("g", "g-prefill-0", 10)

    before = time.monotonic()
    gone = host.stop(member)
    assert time.monotonic() - before < 4, "a member that ends on SIGTERM is not waited for"
    assert gone["removed"] == ["g-prefill-0"]
    assert "hello from g-prefill-0" in Path(gone["logs"]["g-prefill-0"]).read_text()
    assert host.engine.names() == []
    assert support.marked(host.state.root) == []
    assert host.do(support.slice_of("g", [], create=[], action="remove"), "forget")["changed"]
    assert not os.path.exists(host.state.root)


def test_groups_of_a_host_in_one_call(host: Host) -> None:
    """Their calls have a connection each, and one deadline is not another's."""
    groups = ("a", "b", "c", "d")
    ports = free_ports(len(groups))
    argv = {g: ["python3", "-c", support.SERVER, "127.0.0.1", str(port)] for g, port in zip(groups, ports)}
    made = {g: support.member(g, "prefill", 0, p, image=IMAGE, argv=argv[g]) for g, p in zip(groups, ports)}
    made["c"]["parts"][0] |= {"image": "no-such-image:1", "pull": "never"}

    def do(phase: str, plans: t.Iterable[dict[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
        there = Orders.here(State(host.state.root), {"docker": {"host": host.engine.url}})
        asked = [{"plan": {**plan, "runtime": "docker"}, "phase": phase} for plan in plans]
        return run_orders(asked, Call(holder=ME), there)

    started = do("start", (support.slice_of(g, [made[g]]) for g in groups))
    assert [g for g, told in started.items() if told["created"] == [f"{g}-prefill-0"]] == ["a", "b", "d"]
    assert "no-such-image:1" in started["c"]["msg"]
    assert sorted(host.engine.names()) == ["a-prefill-0", "b-prefill-0", "d-prefill-0"]
    away = [support.slice_of(g, [], absent=[f"{g}-prefill-0"], create=[], action="remove") for g in groups]
    assert [g for g, told in do("stop", away).items() if told["removed"]] == ["a", "b", "d"]
    assert host.engine.names() == []
    assert all(told["ok"] for told in do("forget", away).values())
    assert not os.path.exists(host.state.root)


def test_what_a_container_is_created_with(host: Host, port: int, tmp_path: Path) -> None:
    model = tmp_path / "cache" / "snapshots" / "1"
    model.mkdir(parents=True)
    (tmp_path / "cache" / "blobs").mkdir()
    (tmp_path / "cache" / "blobs" / "abc").write_text("weights")
    (model / "config.json").write_text("{}")
    (model / "weights").symlink_to("../../blobs/abc")
    (tmp_path / "conf").write_text("of the host")
    (tmp_path / "shared").mkdir()
    member = one(
        port,
        gpus=["GPU-1", "3"],
        attempts=3,
        vendor="nvidia",
        files=[
            {"path": "/etc/own.json", "content": '{"a": 1}'},
            {"path": "/etc/hccn.conf", "host_path": str(tmp_path / "conf"), "mode": "ro"},
        ],
        mounts=[f"{tmp_path}/shared:/shared", {"source": str(tmp_path / "conf"), "target": "/conf", "mode": "ro"}],
        devices=["/dev/null:/dev/davinci0"],
        limits={"cpu": 1, "memory": "256MiB"},
    )
    member["parts"][0]["argv"].append(f"--model={model}")
    host.start(member)
    found = host.engine.inspect("g-prefill-0")
    settings, labels = found["HostConfig"], found["Config"]["Labels"]
    assert json.loads(labels["com.inferops.pd.label"])["identity"] == {"engine": "1", "model": "m"}
    assert json.loads(labels["com.inferops.pd.label"]) == host.state.label("g", "g-prefill-0")
    assert (labels["com.inferops.pd.group"], labels["com.inferops.pd.role"]) == ("g", "prefill")
    assert (settings["NetworkMode"], settings["IpcMode"]) == ("host", "private")
    assert settings["CapAdd"] == ["IPC_LOCK"]
    assert settings["Ulimits"] == [{"Name": "memlock", "Hard": -1, "Soft": -1}]
    assert settings["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 3}
    assert settings["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "3"}}
    assert settings["DeviceRequests"][0]["DeviceIDs"] == ["GPU-1", "3"]
    assert settings["ShmSize"] >= 2**30
    assert (settings["NanoCpus"], settings["Memory"]) == (10**9, 256 * 2**20)
    inside = f"""
import os
print(open({str(model / "weights")!r}).read(), open('/etc/own.json').read(), open('/etc/hccn.conf').read(), open('/conf').read())
print(os.path.exists('/dev/davinci0'), [v for v in open('/proc/1/environ').read().split(chr(0)) if v.startswith('NVIDIA')])
open('/shared/made', 'w')
try:
    open({str(model / "new")!r}, 'w')
except OSError as exc:
    print(exc.strerror)
"""
    said = host.engine.docker("exec", "g-prefill-0", "python3", "-c", inside).stdout
    assert said.splitlines() == [
        'weights {"a": 1} of the host of the host',
        "True ['NVIDIA_VISIBLE_DEVICES=GPU-1,3']",
        "Read-only file system",
    ]
    assert (tmp_path / "shared" / "made").exists()


def test_secrets_are_in_the_environment_and_not_in_inspect(host: Host, port: int, tmp_path: Path) -> None:
    secret = 'it\'s $HOME\n"zwei" lines'
    member = one(port, secrets=["TOKEN"], env={"DUMP": "/out/env"}, mounts=[f"{tmp_path}:/out"])
    host.start(member, secrets={"g-prefill-0": {"TOKEN": secret}})
    seen = support.wait_for(lambda: (tmp_path / "env").exists() and (tmp_path / "env").read_text(), 10)
    assert json.loads(seen)["env"]["TOKEN"] == secret
    assert "zwei" not in json.dumps(host.engine.inspect("g-prefill-0"))
    path = Path(host.state.member_dir("g", "g-prefill-0"), "env")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "zwei" not in json.dumps(
        observe(Request(runtime_options={"docker": {"host": host.engine.url}}), host.state)["members"]
    )


def test_secrets_are_masked_in_logs(host: Host, port: int) -> None:
    member = one(port, secrets=["SAY"])
    host.start(member, secrets={"g-prefill-0": {"SAY": "hunter2hunter2"}})
    host.ready(member)
    assert "********" in host.runtime.logs("g", "g-prefill-0", 10)
    kept = host.stop(member)["logs"]["g-prefill-0"]
    assert "hunter2" not in Path(kept).read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_image_whose_user_has_a_name_reads_its_secrets_and_files(host: Host, port: int, tmp_path: Path) -> None:
    """Who that is stands in the image's own /etc/passwd alone."""
    (tmp_path / "passwd").write_text("root:x:0:0::/:/bin/sh\napp:x:4321:4321::/:/bin/sh\n")
    host.engine.docker("create", "--name", "made", IMAGE, "true")
    host.engine.docker("cp", str(tmp_path / "passwd"), "made:/etc/passwd")
    host.engine.docker("commit", "--change", "USER app", "made", "pd-test-user:app")
    host.engine.docker("rm", "made")
    serve = ["python3", "-c", support.SERVER, "127.0.0.1", str(port)]
    member = one(
        port,
        image="pd-test-user:app",
        secrets=["SAY"],
        files=[{"path": "conf.json", "content": "read by app\n"}],
        argv=["/bin/sh", "-c", f'cat {docker_spec.INSIDE}/conf.json; exec "$@"', "sh", *serve],
    )
    host.start(member, secrets={"g-prefill-0": {"SAY": "hunter2hunter2"}})
    host.ready(member)
    said = host.runtime.logs("g", "g-prefill-0", 10)
    assert {"read by app", "********"} <= set(said)
    assert Path(host.state.member_dir("g", "g-prefill-0"), "env").stat().st_uid == 4321
    nobody = one(free_ports(1)[0], index=1, image=as_user(host.engine, "ghost"), secrets=["SAY"])
    assert "Looking for user ghost" in host.fails(nobody, secrets={"g-prefill-1": {"SAY": "hunter2hunter2"}})


def test_a_link_in_a_models_folder_shows_a_container_no_other_folder(host: Host, port: int, tmp_path: Path) -> None:
    model, store = tmp_path / "m", tmp_path / "store"
    for path in (model, store):
        path.mkdir()
    (model / "config.json").write_text("{}")
    (store / "weights").write_text("weights of the model\n")
    (store / "private").write_text("private\n")
    (model / "weights").symlink_to(store / "weights")
    serve = ["python3", "-c", support.SERVER, "127.0.0.1", str(port)]
    look = f'cat {model}/weights; ls {store} || echo "$(echo {store}/*)"; exec "$@"'
    member = one(port, argv=["/bin/sh", "-c", look, "sh", *serve, f"--model={model}"])
    host.start(member)
    host.ready(member)
    said = "\n".join(host.runtime.logs("g", "g-prefill-0", 10))
    assert "weights of the model" in said
    assert f"{store}/weights" in said
    assert "private" not in said


BIND = {"Type": "bind", "Source": "/srv"}
REFUSED_BY_BOTH: dict[str, tuple[t.Any, dict[str, t.Any]]] = {
    "capitals": (lambda: forms.image("Registry/Engine:1"), {"Image": "Registry/Engine:1"}),
    "no tag": (lambda: forms.image("engine:"), {"Image": "engine:"}),
    "half a digest": (lambda: forms.image("engine@sha256:12"), {"Image": "engine@sha256:12"}),
    "the whole container": (lambda: forms.mount("/srv:/"), {"HostConfig": {"Mounts": [{**BIND, "Target": "/"}]}}),
    "nowhere in it": (lambda: forms.mount("/srv:x"), {"HostConfig": {"Mounts": [{**BIND, "Target": "x"}]}}),
    "below /proc": (
        lambda: forms.mount("/srv:/proc/sys"),
        {"HostConfig": {"Mounts": [{**BIND, "Target": "/proc/sys"}]}},
    ),
    "no volume": (
        lambda: forms.mount("./x:/x"),
        {"HostConfig": {"Mounts": [{"Type": "volume", "Source": "./x", "Target": "/x"}]}},
    ),
    "twice": (None, {"HostConfig": {"Mounts": [{**BIND, "Target": "/x/"}, {**BIND, "Target": "/y/../x"}]}}),
    "too little CPU": (None, {"HostConfig": {"NanoCpus": 10**6}}),
    "more CPUs than here": (None, {"HostConfig": {"NanoCpus": 8192 * 10**9}}),
    "too little memory": (None, {"HostConfig": {"Memory": 6 * 2**20 - 1}}),
}


@pytest.mark.parametrize("case", REFUSED_BY_BOTH)
def test_what_a_spec_is_refused_for_the_engine_refuses(host: Host, case: str) -> None:
    judge, body = REFUSED_BY_BOTH[case]
    if judge is not None:
        with pytest.raises(UnfitError):
            judge()
    with pytest.raises(HostError):
        raw(host, body)


def raw(host: Host, body: dict[str, t.Any]) -> None:
    """A container as the engine itself takes it."""
    api = host.runtime.api
    whole = {"Image": IMAGE, "Cmd": ["/bin/sh", "-c", "true"], **body}
    api.call("Creating", lambda c: c.create_container_from_config(whole, "raw"))
    api.call("Starting", lambda c: c.start("raw"))


def test_what_stands_at_the_bounds_is_taken(host: Host) -> None:
    assert (CPUS.least, MEMORY.least) == (0.01, 6 * 2**20)
    raw(host, {"HostConfig": {"NanoCpus": 10**7, "Memory": int(MEMORY.least) * 2}})
    found = host.engine.inspect("raw")["HostConfig"]
    assert (found["NanoCpus"], found["Memory"]) == (10**7, int(MEMORY.least) * 2)


def test_what_it_could_not_start_is_told_when_it_is_locked(host: Host, port: int) -> None:
    member = one(port, mounts=["/no/such/place:/data"], devices=["/dev/none"])
    with pytest.raises(
        HostError, match=r"/no/such/place of its mounts is not on this host.*/dev/none.*Nothing was changed"
    ):
        host.do(support.slice_of("g", [member]), "lock")
    assert host.state.group_lock("g") is None


def test_an_image_without_a_shell(host: Host, port: int) -> None:
    """It runs, and what cannot be kept is said: restarts, and the secret's place."""
    member = one(port, image=BARE, attempts=3, secrets=["TOKEN"])
    told = host.start(member, secrets={"g-prefill-0": {"TOKEN": "hunter2"}})
    assert any("not restarted when it crashes" in text for text in told["warnings"])
    assert any("docker inspect shows" in text for text in told["warnings"])
    host.ready(member)
    found = host.engine.inspect("g-prefill-0")
    assert found["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert "TOKEN=hunter2" in found["Config"]["Env"]


# -- ends and restarts -------------------------------------------------------------------------------------------------------------------


def test_a_crash_is_restarted_as_often_as_the_mode_says(host: Host, port: int) -> None:
    member = one(port, attempts=1, env={"DIE": "3"})
    host.start(member)
    live = host.until(member, state="exited", restarts=1)
    assert (live["exit"], live["restarts"]) == (3, 1)
    assert "exited with status 3, started 2 times" in live["why"]
    assert live["log_line"].startswith("hello")


def test_where_the_mode_says_so_nothing_is_restarted(host: Host, port: int) -> None:
    member = one(port)
    host.start(member)
    host.ready(member)
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    live = host.until(member, state="exited")
    assert (live["restarts"], live["exit"]) == (0, 137)
    assert "signal 9" in live["why"]


def test_nothing_starts_with_the_engine(host: Host) -> None:
    """Docker starts what had failed under on-failure when it comes up itself; members never count as failed when Docker stopped them."""
    ports = free_ports(2)
    willing = one(ports[0], attempts=3, grace=1)
    deaf = one(ports[1], index=1, attempts=3, grace=1, env={"IGNORE_TERM": "1"})
    host.start(willing, deaf)
    host.ready(willing, deaf)
    host.engine.stop()
    assert support.marked(host.state.root) == []
    host.engine.start()
    host.again()
    time.sleep(1)
    for member in (willing, deaf):
        live = host.live(member)
        assert (live["state"], live["restarts"], live["exit"]) == ("exited", 0, 0)
    assert host.start(willing, deaf)["created"] == ["g-prefill-0", "g-prefill-1"]


def test_nothing_starts_after_a_boot(host: Host, port: int) -> None:
    """A boot is played by the mark of another one; the power going out, by a kill of everything."""
    member = one(port, attempts=3)
    host.start(member)
    host.ready(member)
    mark = host.engine.docker("exec", "g-prefill-0", "sh", "-c", "echo /tmp/.inferops*").stdout.strip()
    host.engine.docker("exec", "g-prefill-0", "sh", "-c", f"echo another > {mark}")
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    live = host.until(member, state="exited")
    assert live["why"].startswith("the host booted at ")
    assert live["exit"] == 0


def formed(host: Host, formation: str) -> None:
    """What a record of that formation leaves for the start scripts, replaced as State replaces it."""
    place = guard.make_directory(host.state, "g")
    new = Path(place, ".new")
    new.write_text(f"{formation}\n")
    new.chmod(0o644)
    new.replace(Path(place, "formation"))


def refused(host: Host, member: dict[str, t.Any], why: str) -> None:
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    live = host.until(member, state="exited")
    assert live["why"].startswith(f"not started: {why}")
    assert live["exit"] == 0
    time.sleep(1)
    assert host.live(member)["state"] == "exited"
    assert support.marked(host.state.root) == []


@pytest.mark.parametrize("user", ["", "65534:65534"])
def test_nothing_starts_into_another_formation(host: Host, port: int, user: str) -> None:
    """Whoever the image has it run as: the guard's directory is for everybody to read."""
    formed(host, "f-1")
    member = one(port, attempts=3, image=as_user(host.engine, user))
    member["parts"][0]["labels"]["formation"] = "f-1"
    host.start(member)
    host.ready(member)
    marks = processes.marks(host.live(member)["pid"])
    assert (marks["INFEROPS_PD_GROUP"], marks["INFEROPS_PD_FORMATION"]) == ("g", "f-1")
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    host.until(member, state="running", restarts=1)
    host.ready(member)
    formed(host, "f-2")
    refused(host, member, "its group has been formed anew without it (it is of formation f-1, the group of f-2)")


def as_user(engine: Engine, user: str) -> str:
    """The test image with another USER."""
    if not user:
        return IMAGE
    name = f"pd-test-user:{user.partition(':')[0]}"
    engine.docker("create", "--name", "made", IMAGE, "true")
    engine.docker("commit", "--change", f"USER {user}", "made", name)
    engine.docker("rm", "made")
    return name


def test_nothing_starts_on_an_exchanged_model(host: Host, port: int, tmp_path: Path) -> None:
    model, blobs = tmp_path / "snapshots" / "1", tmp_path / "blobs"
    model.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "abc").write_text("weights")
    (model / "config.json").write_text("{}")
    (model / "weights").symlink_to("../../blobs/abc")
    (model / "leads nowhere").symlink_to("../../nothing")
    member = one(port, attempts=3, model=str(model))
    host.start(member)
    host.ready(member)
    stamp = host.live(member)["label"]["identity"]["stamp"]
    assert stamp == probed.facts(str(model))["stamp"]
    os.kill(host.live(member)["pid"], signal.SIGKILL)
    host.until(member, state="running", restarts=1)
    host.ready(member)
    (blobs / "abc").write_text("other weights")
    refused(host, member, f"the files of its model in {model} are not those that it was created with")


def test_in_an_image_that_cannot_tell_a_member_is_started_once(host: Host, port: int, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    docker = host.engine.docker
    docker("create", "--net", "host", "--name", "made", IMAGE, "python3", "-c", "import os; os.unlink('/usr/bin/stat')")
    docker("start", "-a", "made")
    docker("commit", "made", "pd-test-slim:1")
    docker("rm", "made")
    member = one(port, attempts=3, model=str(tmp_path), image="pd-test-slim:1")
    host.start(member)
    host.ready(member)
    assert "inferops.pd: stat or sha256sum are lacking here" in host.runtime.logs("g", "g-prefill-0", 10)[0]
    refused(host, member, "stat or sha256sum are lacking here")


def test_names_that_a_shell_holds_reach_the_member(host: Host, port: int, tmp_path: Path) -> None:
    env = {
        name: f"the user's {name}" for name in ("UID", "OPTIND", "PPID", "first", "child", "_pd_got", "RANDOM", "code")
    }
    member = one(port, env={**env, "DUMP": "/out/env"}, mounts=[f"{tmp_path}:/out"], attempts=1)
    host.start(member)
    host.ready(member)
    seen = json.loads((tmp_path / "env").read_text())["env"]
    assert {name: seen.get(name) for name in env} == env


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_member_of_another_user_in_its_container_is_a_member(host: Host, port: int) -> None:
    member = one(port, image=as_user(host.engine, "65534:65534"))
    host.start(member)
    host.ready(member)
    pid = host.live(member)["pid"]
    assert processes.marked(host.state.root) == {}
    within = host.engine.inspect("g-prefill-0")["Id"]
    assert pid in [p.pid for p in processes.marked(host.state.root, within=within)["g-prefill-0"]]
    assert driver("supervisor", host.state).members() == []
    host.stop(member)
    assert support.marked(host.state.root) == []


# -- labels ------------------------------------------------------------------------------------------------------------------------------


def test_a_container_whose_label_is_damaged_does_not_vanish(host: Host) -> None:
    marks = ["--label", f"com.inferops.pd.state={host.state.root}", "--label", "com.inferops.pd.member=g-prefill-7"]
    marks += ["--label", "com.inferops.pd.group=g"]
    host.engine.docker("create", "--name", "aa", *marks, IMAGE, "sleep", "60")
    text = '{"group": "g", "member": "g-prefill-8", "role": "prefill", "index": 8}'
    host.engine.docker(
        "create", "--name", "bb", *marks[:2], "--label", f"com.inferops.pd.label={text}", IMAGE, "sleep", "9"
    )
    deep = "[" * 100_000
    host.engine.docker(
        "create", "--name", "cc", *marks[:2], "--label", f"com.inferops.pd.label={deep}", IMAGE, "sleep", "9"
    )
    assert host.runtime.members() == []
    found = {one.path: one for one in host.runtime.damaged()}
    assert found["container aa"] == (
        "container aa",
        "its label com.inferops.pd.label is no JSON",
        "g",
        "g-prefill-7",
    )
    assert found["container bb"].why == "its label com.inferops.pd.label is damaged: revision is missing"
    assert set(found) == {"container aa", "container bb", "container cc"}
    host.runtime.remove("g", "g-prefill-7", 1)
    assert host.engine.names() == ["bb", "cc"]


def test_what_an_adopted_member_was_given_is_laid_over_its_containers_label(host: Host, port: int) -> None:
    member = one(port)
    host.start(member)
    label = host.state.label("g", "g-prefill-0")
    host.state.write_label({**label, "formation": "f-1", "adopted": True, "schema": 2, "port": 1})
    told = host.live(member)["label"]
    assert {"formation": "f-1", "adopted": True, "schema": 2, "port": port}.items() <= told.items()
    host.state.write_label({**label, "formation": "f-1"})
    assert "formation" not in host.live(member)["label"], "of one that was not adopted the container tells the truth"


def test_one_that_ignores_sigterm_gets_its_grace_and_no_more(host: Host, port: int) -> None:
    member = one(port, env={"IGNORE_TERM": "1", "FORK_SESSION": "stubborn"}, grace=1)
    host.start(member)
    host.ready(member)
    begun = time.monotonic()
    host.stop(member)
    assert 1 <= time.monotonic() - begun < 8
    assert support.marked(host.state.root) == []


def test_removed_paused_and_created_by_hand(host: Host, port: int) -> None:
    member = one(port)
    host.start(member)
    host.engine.docker("pause", "g-prefill-0")
    assert "paused" in host.live(member)["why"]
    host.stop(member)
    host.start(member)
    host.engine.docker("rm", "-f", "g-prefill-0")
    live = host.live(member)
    assert (live["state"], live["why"]) == ("missing", "its container is gone: somebody removed it")
    host.start(member)
    assert host.live(member)["state"] == "running"
    # Without its files, and under another name, a container still says what it is.
    host.engine.docker("rename", "g-prefill-0", "mine")
    Path(host.state.member_dir("g", "g-prefill-0"), "label.json").unlink()
    assert host.live(member)["label"]["port"] == port
    host.stop(member)
    assert host.engine.names() == []


# -- refusals ----------------------------------------------------------------------------------------------------------------------------


def test_a_strangers_container_is_left_alone(host: Host, port: int) -> None:
    host.engine.docker("create", "--name", "g-prefill-0", IMAGE, "sleep", "9")
    said = host.fails(one(port))
    assert "there is a container of that name which is not this member: it runs image pd-test:1" in said
    assert host.engine.names() == ["g-prefill-0"]
    assert host.runtime.members() == []


def test_another_state_directory_is_another_fleet(host: Host, port: int, tmp_path: Path) -> None:
    host.start(one(port))
    other = Host(tmp_path / "other", host.engine)
    assert other.runtime.members() == []
    assert f"it belongs to the members in {host.state.root}" in other.fails(one(free_ports(2)[1]))
    assert host.live(one(port))["state"] == "running"


def test_images_that_are_not_there(host: Host, port: int) -> None:
    facts = observe(
        Request(runtime_options={"docker": {"host": host.engine.url}}, images=[IMAGE, "127.0.0.1:1/none:1"]), host.state
    )
    assert (facts["images"][IMAGE]["exists"], facts["images"][IMAGE]["id"][:7]) == (True, "sha256:")
    missing = facts["images"]["127.0.0.1:1/none:1"]
    assert (missing["exists"], missing["pullable"]) == (False, False)
    assert "refused" in missing["why"]
    wanted = one(port, image="127.0.0.1:1/none:1")
    with pytest.raises(HostError, match=r"Pulling image 127.0.0.1:1/none:1: .*refused.*docker pull"):
        host.do(support.slice_of("g", [wanted]), "prepare")
    assert not os.path.exists(host.state.root)
    wanted["parts"][0]["pull"] = "never"
    with pytest.raises(HostError, match=r"it is not on the host, and pull is never"):
        host.do(support.slice_of("g", [wanted]), "prepare")
    assert host.do(support.slice_of("g", [one(port)]), "prepare")["changed"] is False
    by_id = one(port, image=facts["images"][IMAGE]["id"])
    host.start(by_id)
    assert host.state.label("g", "g-prefill-0")["image"]["id"] == facts["images"][IMAGE]["id"]


def test_an_image_comes_from_its_registry(host: Host, port: int, tmp_path: Path) -> None:
    try:
        with registry(tmp_path / "registry", free_ports(2)[1]) as address:
            pull_from(host, port, f"{address}/vllm")
    except NoEngineError as exc:
        pytest.skip(str(exc))


def pull_from(host: Host, port: int, repository: str) -> None:
    docker = host.engine.docker
    docker("tag", BARE, f"{repository}:1")
    support.wait_for(lambda: docker("push", f"{repository}:1", check=False).returncode == 0, 20, "a push")
    digest = (
        docker("inspect", "--format", "{{index .RepoDigests 0}}", f"{repository}:1").stdout.strip().partition("@")[2]
    )
    docker("rmi", f"{repository}:1")
    image = f"{repository}@{digest}"
    told = host.runtime.images([image, f"{repository}:none"])
    assert (told[image]["exists"], told[image]["pullable"], told[image]["digest"]) == (False, True, digest)
    assert told[f"{repository}:none"]["pullable"] is False
    wanted = one(port, image=image)
    host.do(support.slice_of("g", [wanted]), "prepare")
    assert host.runtime.images([image])[image]["digest"] == digest
    host.start(wanted)
    assert host.live(wanted)["label"]["image"]["digest"] == digest
    # The tag is moved: `always` sees it, `missing` does not.
    docker("tag", IMAGE, f"{repository}:1")
    docker("push", f"{repository}:1")
    moved = host.runtime.images([IMAGE])[IMAGE]["id"]
    docker("tag", BARE, f"{repository}:1")
    by_tag = one(port, image=f"{repository}:1")
    host.do(support.slice_of("g", [by_tag]), "prepare")
    assert host.runtime.images([f"{repository}:1"])[f"{repository}:1"]["id"] != moved
    by_tag["parts"][0]["pull"] = "always"
    host.do(support.slice_of("g", [by_tag]), "prepare")
    assert host.runtime.images([f"{repository}:1"])[f"{repository}:1"]["id"] == moved


def test_what_the_engine_refuses_is_told_and_nothing_is_left(host: Host, port: int) -> None:
    said = host.fails(one(port, mounts=["/no/such/place:/data"]))
    assert "Creating container g-prefill-0" in said
    assert "/no/such/place" in said
    assert "Write SOURCE:TARGET" in host.fails(one(port, mounts=["nonsense"]))
    assert "no such file" in host.fails(one(port, devices=["/dev/none"]))
    assert "no value was given for its secrets TOKEN" in host.fails(one(port, secrets=["TOKEN"]))
    assert host.engine.names() == []


def test_a_member_is_seen_from_another_state_folder(host: Host, port: int) -> None:
    """By its container, and by its process: what it holds is taken for whoever looks from elsewhere, and it is nobody's member there."""
    member = one(port, gpus=[])
    host.start(member)
    other = State(host.state.root + "-other")
    facts = observe(Request(runtime_options={"docker": {"host": host.engine.url}}, gpus=[]), other)
    assert facts["members"] == []
    (told,) = [seen for seen in facts["elsewhere"] if seen["state_dir"] == host.state.root]
    assert (told["member"], told["group"], told["ports"]) == ("g-prefill-0", "g", [port])
    (place,) = [c for c in docker_elsewhere.containers(host.runtime.api) if c.running]  # type: ignore[attr-defined]
    looks = Place(other.root, euid=4242, system_dir="/nowhere", units_dir="/nowhere")
    assert "container g-prefill-0 belongs to the members in" in hidden(looks, [place])

    def mine() -> dict[str, t.Any]:
        return observe(Request(runtime_options={"docker": {"host": host.engine.url}}, gpus=[]), host.state)

    # What listens in a container carries the marker too.
    support.wait_for(lambda: mine()["members"][0]["listener_member"] == "g-prefill-0", 20)
    assert [seen for seen in mine()["elsewhere"] if seen["state_dir"] == host.state.root] == []


def test_an_engine_that_is_dead_or_hangs(host: Host, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    member = one(port)
    host.start(member)
    monkeypatch.setattr("ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker.LOOK_DEADLINE", 1)
    monkeypatch.setattr("ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker_api.LOOK_DEADLINE", 1)
    host.engine.freeze(True)
    try:
        host.again()
        with pytest.raises(HostError, match="did not answer in time"):
            host.runtime.members()
    finally:
        host.engine.freeze(False)
    host.engine.stop()
    try:
        host.again()
        with pytest.raises(HostError, match=r"(there is no|no container engine listens).*systemctl start docker"):
            observe(Request(runtime_options={"docker": {"host": host.engine.url}}), host.state)
        told = host.runtime.available()
        assert (told["available"], "systemctl start docker" in told["hint"]) == (False, True)
        # A host without members of this runtime needs no engine.
        nobody = State(host.state.root + "-other")
        facts = observe(Request(runtime_options={"docker": {"host": host.engine.url}}, images=[IMAGE]), nobody)
        assert facts["members"] == []
        assert facts["images"][IMAGE]["exists"] is None
        assert not facts["runtimes"]["docker"]["available"]
    finally:
        host.engine.start()


def test_many_are_one_list(host: Host) -> None:
    ports = free_ports(4)
    members = [one(port, index=number, role="decode") for number, port in enumerate(ports)]
    host.start(*members)
    begun = time.process_time()
    assert [live["state"] for live in host.runtime.members()] == ["running"] * 4
    assert time.process_time() - begun < 0.5
    host.stop(*members)
    assert host.engine.names() == []
