# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the start scripts do before they become a member, in every shell that a host's or an image's /bin/sh may be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import typing as t
from dataclasses import replace
from pathlib import Path

import planned
import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base import process_words
from ansible_collections.inferops.pd.plugins.module_utils._probes import executables, model, processes
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import docker_spec, gone, guard, script
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker_bound import Inside, models
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.folder import Folder, Start
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

SHELLS = ("dash", "bash", "busybox")
FORMATION = "5f0c6a52-92a1-4c3e-8b65-1d6f7a0b1c2d"
LABEL = {"group": "g", "member": "g-prefill-0", "role": "prefill", "index": 0, "revision": "r", "generation": 1}
ODD_NAMES = [
    "a b.txt",
    "it's",
    'say "q"',
    "100%s %n",
    "-n",
    "--help",
    "-",
    "ü🚀",
    "back\\slash",
    "$HOME",
    "*",
    "[a-z]",
    "two\nlines",
    "Z",
    "a",
    "_",
]


@pytest.fixture(params=SHELLS)
def sh(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A shell that was called as sh."""
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"there is no {request.param}")
    path = tmp_path / "shell" / "sh"
    path.parent.mkdir()
    path.symlink_to(found)
    return str(path)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "model's dir"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("weights")
    return folder


def shell_stamp(sh: str, *files: guard.Files) -> str:
    """What the shell text makes of these: it is asked for a stamp that nothing has, and what it found is printed."""
    text = guard.render(guard.Guard(files=files), 78, "true").replace("_pd_refuse '", 'echo "$_pd_got" || : \'')
    done = subprocess.run([sh, "-c", text], capture_output=True, text=True, check=False, env=CLEAN)
    return done.stdout.split()[0]


CLEAN = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


# -- the stamp -------------------------------------------------------------------------------------------------------------------------


def test_a_shell_and_python_take_the_same_stamp(sh: str, weights: Path) -> None:
    def both() -> tuple[str | None, str]:
        path = str(weights)
        return model.stamp([path]), shell_stamp(sh, guard.Files("m", (path,), "none", folder=True))

    def same() -> str:
        mine, its = both()
        assert mine == its
        return its

    seen = [same()]
    for number, name in enumerate(ODD_NAMES):
        (weights / name).write_text("x" * number)
        os.utime(weights / name, (1, 1_700_000_000 + number))
    Path(os.fsdecode(os.fsencode(str(weights)) + b"/\xff\xfe")).write_text("no UTF-8")
    seen.append(same())
    (weights / "link").symlink_to("config.json")
    (weights / "leads nowhere").symlink_to("nothing")
    (weights / "folder").mkdir()
    (weights / "to a folder").symlink_to("/usr")
    os.mkfifo(weights / "pipe")
    os.utime(weights / "config.json", (1, -5.5))
    seen.append(same())
    for number in range(600):
        (weights / f"part-{number}-of-{'n' * 100}.safetensors").touch()
    seen.append(same())
    assert len(set(seen)) == len(seen)
    (weights / ".cache").mkdir()
    assert same() == seen[-1], "dotfiles are not the model's"
    (weights / "model.safetensors").write_text("weighty")
    os.utime(weights / "model.safetensors", (1, 1_600_000_000))
    assert same() != seen[-1]


def test_of_an_empty_directory_and_of_files(sh: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert model.stamp([str(tmp_path / "empty")]) == shell_stamp(
        sh, guard.Files("m", (str(tmp_path / "empty"),), "none", folder=True)
    )
    names = [str(tmp_path / name) for name in ("vllm", "ME TA'DATA", "100%")]
    for name in names:
        Path(name).write_text(name)
    assert model.stamp(names) == shell_stamp(sh, guard.Files("e", tuple(names), "none"))
    assert model.stamp([*names, str(tmp_path / "nothing")]) is None
    assert model.stamp([str(tmp_path / "nothing")]) is None


def test_more_names_than_a_command_takes_are_not_stamped(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "NAMES_LIMIT", 10)
    assert model.stamp([str(weights)]) is None


def test_facts_have_the_stamps(weights: Path) -> None:
    assert model.facts(str(weights))["stamp"] == model.stamp([str(weights)])
    assert model.facts("/nowhere")["stamp"] is None
    python = executables.facts(sys.executable)
    assert python["stamp"] == model.stamp(executables.files(sys.executable))
    assert executables.files(sys.executable)[0] == sys.executable
    assert executables.files("no-such-command-anywhere") == []


def test_a_distributions_own_files_are_the_engines(tmp_path: Path) -> None:
    info = tmp_path / "lib" / "python3.11" / "site-packages" / "vllm-0.32.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[console_scripts]\nvllm = vllm:main\n")
    (info / "METADATA").write_text("Name: vllm\nVersion: 0.32.0\n")
    (info / "RECORD").write_text("")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "vllm"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    assert executables.files(str(command)) == [str(command), str(info / "METADATA"), str(info / "RECORD")]
    before = executables.facts(str(command))["stamp"]
    (info / "RECORD").write_text("vllm/x.py,,\n")
    assert executables.facts(str(command))["stamp"] != before


def test_in_a_container_only_what_leads_somewhere_counts(tmp_path: Path) -> None:
    """Hugging Face's cache: links to blobs, which are bound as well, and one to a place that is not."""
    snapshot, blobs = tmp_path / "hub" / "snapshots" / "1", tmp_path / "hub" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "abc").write_text("weights")
    (snapshot / "config.json").write_text("{}")
    (snapshot / "weights").symlink_to("../../blobs/abc")
    part = planned.part({"argv": ["vllm", "serve", str(snapshot)]})
    inside = Inside(part, models(part), "m")
    assert inside.place(str(snapshot / "weights")) == str(blobs / "abc")
    assert model.stamp([str(snapshot)], inside.place) == model.stamp([str(snapshot)])
    alone = Inside(part, [(str(snapshot), str(snapshot))], "m")
    assert alone.place(str(snapshot / "weights")) is None
    (snapshot / "weights").unlink()
    assert model.stamp([str(snapshot)], alone.place) == model.stamp([str(snapshot)])
    # A user's own mount there is another directory, and a volume is nobody's.
    (tmp_path / "fast").mkdir()
    mounts = [f"{tmp_path}/fast:{snapshot}:ro", "volume:/cache"]
    other = Inside(replace(part, mounts=tuple(mounts)), models(part), "m")
    assert other.place(str(snapshot / "config.json")) == f"{tmp_path}/fast/config.json"
    assert other.place("/cache/x") is None
    assert other.place("/etc/passwd") is None


# -- run -------------------------------------------------------------------------------------------------------------------------------


class Member:
    """A member's directory, and its `run` in a shell."""

    def __init__(self, sh: str, root: Path, part: dict[str, t.Any], **label: t.Any) -> None:
        self.sh, self.state = sh, State(str(root / "state"))
        self.label = {**LABEL, **label}
        self.state.write_label(self.label)
        self.folder = Folder(self.state, "g", "g-prefill-0")
        self.part = planned.part({"argv": ["/usr/bin/env", "-0"], "executable": "/usr/bin/env", **part})

    def write(self, **secrets: str) -> dict[str, t.Any]:
        return self.folder.write(self.part, self.label, secrets)

    def formed(self, formation: str) -> None:
        place = Path(guard.make_directory(self.state, "g"), "formation")
        place.write_text(f"{formation}\n")

    def run(self, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.sh, f"{self.folder.path}/run"],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=20,
            env={**CLEAN, **env},
        )

    def environment(self) -> dict[str, str]:
        done = self.run()
        assert (done.returncode, done.stderr) == (0, "")
        return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)

    def refused(self) -> str:
        done = self.run()
        assert (done.returncode, done.stderr) == (78, "")
        (line,) = done.stdout.splitlines()
        told = guard.refusal(["before", line])
        assert told is not None
        assert told.startswith("not started: ")
        return told


def test_what_carries_the_marks_of_a_formation(sh: str, tmp_path: Path) -> None:
    member = Member(sh, tmp_path, {})
    member.write()
    seen = member.environment()
    assert (seen[processes.GROUP], processes.FORMATION in seen) == ("g", False)
    member = Member(sh, tmp_path, {}, formation=FORMATION)
    member.formed(FORMATION)
    member.write()
    assert {processes.GROUP: "g", processes.FORMATION: FORMATION}.items() <= member.environment().items()


def test_another_formation_is_not_started_into(sh: str, tmp_path: Path) -> None:
    member = Member(sh, tmp_path, {}, formation=FORMATION)
    member.write()
    assert f"it is of formation {FORMATION}, the group of none that can be read" in member.refused()
    member.formed("another-one")
    assert "the group of another-one); deploy the group again" in member.refused()
    assert member.folder.starts() == []
    member.formed(FORMATION)
    assert member.run().returncode == 0
    assert len(member.folder.starts()) == 1


def test_another_machine_is_not_started_on(sh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = tmp_path / "machine-id"
    monkeypatch.setattr(guard, "MACHINE", str(machine))
    monkeypatch.setattr(guard.machine_id, "__defaults__", (str(machine),))
    member = Member(sh, tmp_path, {})
    member.write()
    assert member.run().returncode == 0, "a host without a machine-id is not asked for it"
    machine.write_text("0" * 31 + "1\n")
    member.write()
    assert member.run().returncode == 0
    machine.write_text("0" * 31 + "2\n")
    assert f"machine-id {'0' * 31}1, and here it is {'0' * 31}2)" in member.refused()
    machine.unlink()
    assert "and here it is none)" in member.refused()


def test_an_exchanged_model_is_not_started_on(sh: str, tmp_path: Path, weights: Path) -> None:
    member = Member(sh, tmp_path, {"model": str(weights)})
    told = member.write()
    assert told["identity"] == {
        "stamp": model.facts(str(weights))["stamp"],
        "engine_stamp": executables.facts("/usr/bin/env")["stamp"],
    }
    assert member.state.label("g", "g-prefill-0") == told
    assert member.run().returncode == 0
    assert member.run().returncode == 0
    old = weights / "model.safetensors"
    old.rename(weights / ".old")
    old.write_text("other weights")
    assert f"the files of its model in {weights} are not those that it was created with" in member.refused()
    old.unlink()
    assert "restart the group on these" in member.refused()
    (weights / ".old").rename(old)
    assert member.run().returncode == 0
    shutil.rmtree(weights)
    member.refused()


def test_a_router_reads_no_model(sh: str, tmp_path: Path, weights: Path) -> None:
    member = Member(sh, tmp_path, {"model": str(weights)}, role="router")
    assert set(member.write()["identity"]) == {"engine_stamp"}
    shutil.rmtree(weights)
    assert member.run().returncode == 0


def test_another_engine_is_not_started(sh: str, tmp_path: Path) -> None:
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    member = Member(sh, tmp_path, {"argv": [str(program)], "executable": str(program)})
    member.write()
    assert member.run().returncode == 7
    program.write_text("#!/bin/sh\nexit 77\n")
    assert f"the files of its program ({program} and its package) are not those" in member.refused()


def test_where_it_cannot_be_checked_the_first_start_alone_goes_on(sh: str, tmp_path: Path, weights: Path) -> None:
    slim = tmp_path / "slim"
    slim.mkdir()
    for name in ("date", "ls", "xargs", "grep", "env"):
        (slim / name).symlink_to(t.cast("str", shutil.which(name)))
    member = Member(sh, tmp_path, {"model": str(weights)})
    member.write()
    first, second = member.run(PATH=str(slim)), member.run(PATH=str(slim))
    assert first.returncode == 0
    assert second.returncode == 78
    line, _newline, rest = first.stdout.partition("\n")
    assert line.startswith("inferops.pd: stat or sha256sum are lacking here")
    assert "INFEROPS_PD_MEMBER=g-prefill-0" in rest
    assert "not started: stat or sha256sum are lacking here" in second.stdout


SHELL_NAMES = [
    *("UID", "EUID", "PPID", "OPTIND", "RANDOM", "SECONDS", "LINENO", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "BASHPID", "GROUPS"),
    *("FUNCNAME", "DIRSTACK", "HISTCMD", "SHLVL", "IFS", "PS4", "OLDPWD", "BASH_ENV", "EPOCHSECONDS", "SRANDOM", "first", "boot"),
    *("child", "code", "left", "stopped", "plain", "_pd_got", "_pd_boot", "_pd_first", "_pd_child", "_pd_code", "_pd_stopped", "_pd_count"),
    *("_pd_left", "_pd_stat", "_pd_ticks", "_pd_plain", "CDPATH", "ENV", "POSIXLY_CORRECT", "TERM", "PS1", "MAIL", "HOSTNAME"),
]  # fmt: skip


def test_no_name_of_the_users_environment_is_the_scripts(sh: str, tmp_path: Path) -> None:
    env = {name: f"it's {name} of the user" for name in SHELL_NAMES}
    member = Member(sh, tmp_path, {"env": env}, formation=FORMATION)
    member.formed(FORMATION)
    member.write(TOKEN="secret")
    seen = member.environment()
    assert {name: seen.get(name) for name in env} == env
    assert seen["TOKEN"] == "secret"
    assert sorted(name for name in seen if name.startswith("_pd_") and name not in env) == []
    assert script.parse_env(script.render_env(env)) == env


def test_a_secret_that_would_become_a_word_is_refused(tmp_path: Path) -> None:
    member = Member("sh", tmp_path, {"secrets": ["UID"]})
    with pytest.raises(HostError, match="shells hold variable UID for themselves"):
        member.write(UID="1")


# -- which process it was ----------------------------------------------------------------------------------------------------------------


def test_a_start_notes_which_process_it_was(sh: str, tmp_path: Path) -> None:
    member = Member(sh, tmp_path, {"argv": ["/bin/sleep", "60"], "executable": "/bin/sleep"})
    member.write()
    with subprocess.Popen([sh, f"{member.folder.path}/run"], env=CLEAN) as running:
        try:
            for _look in range(200):
                if processes.marker(running.pid):
                    break
                time.sleep(0.02)
            (start,) = member.folder.starts()
            its = processes.read(running.pid)
            assert its is not None
            assert (start.pid, start.boot, start.ticks) == (running.pid, processes.boot_id(), its.start)
            assert start.process(processes.table()) == its
            assert processes.marks(running.pid) == {
                processes.MEMBER: "g-prefill-0",
                processes.STATE: member.state.root,
                processes.GROUP: "g",
            }
            assert processes.formation_of(running.pid) is None
        finally:
            running.kill()


def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(tmp_path: Path) -> None:
    """A stranger that leads its process group and shows no environment, under the pid that a member had before a boot."""
    code = "import os, time; os.execve('/bin/sleep', ['sleep', '60'], {})"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as stranger:
        try:
            for _look in range(200):
                # While it becomes another program its environment is empty, too.
                its = processes.read(stranger.pid)
                if its and its.command == "sleep" and processes.environ(stranger.pid) == b"":
                    break
                time.sleep(0.02)
            assert its is not None
            boot = processes.boot_id()
            for start in (
                Start(its.pid, its.since - 100),
                Start(its.pid, its.since - 100, boot, its.start - 1),
                Start(its.pid, its.since - 100, "another", its.start),
            ):
                assert gone.of_member("g-prefill-0", str(tmp_path), None, start) == []
            very = Start(its.pid, its.since, boot, its.start)
            assert gone.of_member("g-prefill-0", str(tmp_path), None, very) == [its]
        finally:
            stranger.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_users_process_is_no_member_whatever_it_carries(sh: str, tmp_path: Path) -> None:
    member = Member(sh, tmp_path, {"argv": ["/bin/true"], "executable": "/bin/true"})
    member.write()
    env = {**CLEAN, processes.MEMBER: "g-prefill-0", processes.STATE: member.state.root}
    with subprocess.Popen(["/bin/sleep", "60"], env=env, user=65534, start_new_session=True) as pretender:
        try:
            assert processes.marker(pretender.pid) == ("g-prefill-0", member.state.root)
            assert processes.marked(member.state.root) == {}
            assert gone.of_member("g-prefill-0", member.state.root, None, None) == []
            inside = processes.marked(member.state.root, within=processes.cgroup(pretender.pid).splitlines()[0][2:])
            assert [p.pid for p in inside["g-prefill-0"]] == [pretender.pid], (
                "in a container a member is whom its image says"
            )
            # Nor does the start script end it; what the owner left behind, it does.
            with subprocess.Popen(["/bin/sleep", "60"], env=env, start_new_session=True) as left:
                assert f"ended process {left.pid} of an earlier start" in member.run().stdout
                assert left.wait(5) == -9
            assert pretender.poll() is None
            os.chown(member.state.root, 65534, -1)
            assert list(processes.marked(member.state.root)) == ["g-prefill-0"]
        finally:
            pretender.kill()


# -- the container's script ----------------------------------------------------------------------------------------------------------------


class Container:
    """The start script of a container, with its places moved below a directory."""

    def __init__(self, sh: str, root: Path, watched: guard.Guard, created: float = 5.0) -> None:
        self.sh, self.root = sh, root
        (root / "tmp").mkdir(exist_ok=True)
        (root / "inside").mkdir(exist_ok=True)
        text = docker_spec.render_start("m", "g", created, 2, watched)
        self.text = text.replace("/tmp/.inferops", f"{root}/tmp/.inferops").replace(
            docker_spec.INSIDE, f"{root}/inside"
        )
        (root / "inside" / "start").write_text(self.text)

    def run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        words = [self.sh, str(self.root / "inside" / "start"), *(argv or ("/usr/bin/env", "-0"))]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=20, env={**CLEAN, **env})

    def refused(self) -> str:
        done = self.run()
        assert done.returncode == 0, "docker restarts what fails"
        told = guard.refusal(done.stdout.splitlines())
        assert told is not None
        return told


def test_a_container_looks_at_formation_and_model(sh: str, tmp_path: Path, weights: Path) -> None:
    files = guard.model_files(LABEL, planned.part({"model": str(weights)}))
    assert files is not None
    made = Container(sh, tmp_path, guard.Guard(FORMATION, docker_spec.GUARD, None, (files,)))
    assert "the group of none that can be read" in made.refused()
    (tmp_path / "inside" / "guard").mkdir()
    (tmp_path / "inside" / "guard" / "formation").write_text(f"{FORMATION}\n")
    assert made.run("sh", "-c", "exit 7").returncode == 7
    (weights / "more").touch()
    assert "the files of its model" in made.refused()
    (weights / "more").unlink()
    assert made.run().returncode == 0
    (next((tmp_path / "tmp").glob(".inferops*"))).write_text("another boot\n")
    assert "the host was booted since" in made.refused()


def test_no_name_of_a_containers_environment_is_the_scripts(sh: str, tmp_path: Path) -> None:
    made = Container(sh, tmp_path, guard.Guard(FORMATION, docker_spec.GUARD))
    (tmp_path / "inside" / "guard").mkdir()
    (tmp_path / "inside" / "guard" / "formation").write_text(f"{FORMATION}\n")
    env = {name: f"it's {name} of the user" for name in SHELL_NAMES}
    wanted = planned.wanted({"id": "m", "parts": [{"argv": ["x"], "env": env}]})
    label = dict(LABEL)
    given = docker_spec.Container("i", label, "/s", "/d/start", "/d/env")
    body = docker_spec.render(wanted.member, wanted.part, given, docker_spec.Traits())
    told = dict(entry.split("=", 1) for entry in body["Env"])
    held = {name: value for name, value in env.items() if process_words.is_held(name)}
    assert not set(held) & set(told)
    (tmp_path / "inside" / "env").write_text(script.render_env({**held, "TOKEN": "secret"}))
    for _start in range(2):
        done = made.run(**told)
        assert (done.returncode, done.stderr) == (0, "")
        seen = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)
        assert {name: seen.get(name) for name in env} == env
        assert seen["TOKEN"] == "secret"
        assert sorted(name for name in seen if name.startswith("_pd_") and name not in env) == []
    done = made.run(sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", "a b", "", "*", **told)
    assert json.loads(done.stdout) == ["a b", "", "*"]


def test_an_image_without_the_tools_is_started_once(sh: str, tmp_path: Path, weights: Path) -> None:
    files = guard.model_files(LABEL, planned.part({"model": str(weights)}))
    assert files is not None
    made = Container(sh, tmp_path, guard.Guard(files=(files,)))
    done = made.run("/usr/bin/env", PATH="/nowhere")
    assert "lacking here" in done.stdout.splitlines()[0]
    assert "PATH=/nowhere" in done.stdout
    done = made.run("/usr/bin/env", PATH="/nowhere")
    assert done.returncode == 0
    assert guard.refusal(done.stdout.splitlines())


def test_a_refusal_is_what_a_log_ends_with() -> None:
    assert guard.refusal([]) is None
    assert guard.refusal(["inferops.pd: not started: x", "hello"]) is None
    assert guard.refusal(["inferops.pd: not started: " + "x" * 5000]) == "not started: " + "x" * (1000 - 13)
