# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What other users of a host can put in the way of root: links, FIFOs, folders of theirs. And what a host says before anything stops."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
import typing as t
from pathlib import Path

import planned
import pytest

from ansible_collections.inferops.pd.plugins.module_utils._probes import (
    carried,
    executables,
    model,
    model_links,
    ports,
    processes,
    small_file,
)
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import (
    docker_bound,
    docker_user,
    folder,
    trusted,
)
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker_bound import Inside, models
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
ALICE = 54321


def owned(path: Path, uid: int = ALICE) -> Path:
    os.chown(path, uid, uid, follow_symlinks=False)
    return path


@pytest.fixture(name="weights")
def fixture_weights(tmp_path: Path) -> Path:
    made = tmp_path / "m"
    made.mkdir()
    (made / "config.json").write_text('{"model_type": "qwen3"}')
    return made


def bound(path: Path, *mounts: t.Any) -> dict[str, str]:
    part = planned.part({"argv": ["vllm", "serve", str(path)], "mounts": list(mounts)})
    return {target: source for source, target in models(part)}


# -- links in a model's folder -----------------------------------------------------------------------------------------------------------


def test_a_link_brings_its_file_alone_and_never_the_folder(weights: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "deep").mkdir(parents=True)
    (store / "a.safetensors").write_text("a")
    (store / "private").write_text("not the model's")
    (weights / "a.safetensors").symlink_to(store / "a.safetensors")
    (weights / "again.safetensors").symlink_to("a.safetensors")
    (weights / "deep").symlink_to(store / "deep")
    (weights / "nowhere").symlink_to(store / "gone")
    found = bound(weights)
    assert found == {str(weights): str(weights), f"{store}/a.safetensors": f"{store}/a.safetensors"}
    inside = Inside(planned.part({"argv": []}), [(s, t_) for t_, s in found.items()], "m")
    assert inside.place(f"{weights}/again.safetensors") == f"{store}/a.safetensors"
    assert inside.place(f"{weights}/deep") is None


def test_of_a_cache_the_blobs_are_bound_where_the_links_lead(tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--x" / "snapshots" / "1", tmp_path / "models--x" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for name in ("config.json", "weights"):
        (blobs / f"b-{name}").write_text("{}")
        (snapshot / name).symlink_to(f"../../blobs/b-{name}")
    assert bound(snapshot) == {str(snapshot): str(snapshot), str(blobs): str(blobs)}
    # Under another name a container follows the links from there.
    other = tmp_path / "models" / "current"
    other.parent.mkdir()
    other.symlink_to(snapshot)
    assert bound(other) == {str(other): str(snapshot), f"{tmp_path}/blobs".replace("/models", ""): str(blobs)}


@root
def test_nobody_gets_by_a_link_what_he_may_not_read(weights: Path, tmp_path: Path) -> None:
    secret = tmp_path / "roots.json"
    secret.write_text('{"key": "s3cret"}')
    secret.chmod(0o600)
    (weights / "config.json").unlink()
    link = weights / "config.json"
    link.symlink_to(secret)
    (weights / "params.json").write_text("{}")
    # Root's own link is root's word.
    assert model.facts(str(weights))["config"] == {"key": "s3cret"}
    owned(link)
    assert model_links.leads_to(str(link)) is None
    assert model.facts(str(weights))["config"] is None
    assert str(secret) not in bound(weights)
    part = planned.wanted(
        {"id": "g-prefill-0", "role": "prefill", "parts": [{"argv": ["vllm", "serve", str(weights)]}]}
    )
    (told,) = docker_bound.refusals(part, 0, True)
    assert told.startswith(f"g-prefill-0: {link} leads to {secret}")
    assert list(docker_bound.refusals(part, 0, False)) == []
    # Through a link of root's that alice can turn: each hop counts.
    (tmp_path / "hop").symlink_to(secret)
    owned(tmp_path / "hop")
    link.unlink()
    link.symlink_to(tmp_path / "hop")
    assert model_links.leads_to(str(link)) is None
    # What everybody may read, or is the maker's, is followed.
    owned(secret)
    assert model_links.leads_to(str(link)) == str(secret)
    # What its maker may read anyway, by a group or as everybody, is no secret; in a folder that he may not look into it still is one.
    owned(secret, 0).chmod(0o644)
    tmp_path.chmod(0o700)
    assert model_links.leads_to(str(link)) is None
    link.unlink()
    link.symlink_to("/etc/passwd")
    assert model_links.leads_to(str(owned(link))) == os.path.realpath("/etc/passwd")


@root
def test_a_group_may_share_a_store_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_links, "_groups", lambda uid: frozenset({777} if uid == ALICE else ()))
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        store = Path(made)
        store.chmod(0o750)
        weights = store / "weights"
        weights.write_text("x")
        weights.chmod(0o640)
        for path in (store, weights):
            os.chown(path, 0, 777)
        link = tmp_path / "weights"
        link.symlink_to(weights)
        assert model_links.leads_to(str(owned(link))) == str(weights)
        assert model_links.leads_to(str(owned(link, ALICE + 1))) is None
        store.chmod(0o700)
        assert model_links.leads_to(str(owned(link))) is None


@root
def test_blobs_that_are_a_link_are_no_cache(tmp_path: Path) -> None:
    snapshot, elsewhere = tmp_path / "models--x" / "snapshots" / "1", tmp_path / "root"
    snapshot.mkdir(parents=True)
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "secret").write_text("s3cret")
    (tmp_path / "models--x" / "blobs").symlink_to(elsewhere)
    (snapshot / "params.json").write_text("{}")
    (snapshot / "weights").symlink_to("../../blobs/secret")
    owned(snapshot / "weights")
    assert model_links.blobs(str(snapshot)) is None
    assert bound(snapshot) == {str(snapshot): str(snapshot)}


# -- files that are none -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    ["[" * 200_000, '{"a":' * 200_000, '{"a": ' + "[" * 60 + "]" * 60 + "}", "[1]", "\xff", ""],
)
def test_a_config_that_is_none(weights: Path, content: str) -> None:
    (weights / "config.json").write_text(content, encoding="latin-1")
    found = model.facts(str(weights))
    assert (found["exists"], found["config"]) == (True, None)


def test_a_config_beyond_all_bounds(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.facts(str(weights))["config"] == {"model_type": "qwen3"}
    monkeypatch.setattr(model, "CONFIG_LIMIT", 10)
    assert model.facts(str(weights))["config"] is None


def test_a_fifo_is_not_waited_for(weights: Path, tmp_path: Path) -> None:
    (weights / "config.json").unlink()
    os.mkfifo(weights / "config.json")
    os.mkfifo(weights / "tokenizer.json")
    assert model.facts(str(weights))["config"] is None
    assert small_file.read(str(weights / "config.json"), 10, follow=True) is None
    info = tmp_path / "lib" / "python3.12" / "site-packages" / "vllm-1.dist-info"
    info.mkdir(parents=True)
    os.mkfifo(info / "entry_points.txt")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "vllm"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    assert executables.facts(str(command))["exists"]


# -- told before anything stops ----------------------------------------------------------------------------------------------------------


def test_what_a_container_engine_would_only_say_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    part = {
        "argv": ["x"],
        "limits": {"cpu": "4.5"},
        "mounts": [f"{tmp_path}/there:/a", f"{tmp_path}/gone:/b", "volume:/c"],
        "devices": ["/dev/null", "/dev/no-such-device"],
        "files": [{"path": "f", "host_path": "/no/such/file"}],
    }
    wanted = planned.wanted({"id": "g-router", "role": "router", "parts": [part]})
    assert list(docker_bound.refusals(wanted, 4, True)) == [
        "g-router: resources.cpu is 4.5, and this host has 4 CPUs",
        "g-router: /no/such/file of its files is not on this host",
        f"g-router: {tmp_path}/gone of its mounts is not on this host",
        "g-router: /dev/no-such-device of its devices is not on this host",
    ]
    # Of an engine elsewhere nothing is known of paths; of one that does not say its CPUs nothing of these.
    assert list(docker_bound.refusals(wanted, 0, False)) == []


def test_what_a_process_of_the_host_lacks() -> None:
    part = {"argv": ["no-such-engine", "serve"], "files": [{"path": "f", "host_path": "/no/such/file"}]}
    told = folder.not_here([planned.wanted({"id": "g-decode-0", "role": "decode", "parts": [part]})])
    assert [line.partition(": ")[0] for line in told] == ["g-decode-0"] * 2
    assert "Looking for no-such-engine on PATH: it is not there" in told[0]
    assert "/no/such/file is not there" in told[1]
    fine = planned.wanted({"id": "g-decode-0", "role": "decode", "parts": [{"argv": ["/bin/sh"]}]})
    assert folder.not_here([fine]) == []


# -- the user of an image ----------------------------------------------------------------------------------------------------------------


class Engine:
    """A container engine with one file system: contents by path, links as {path: target}."""

    def __init__(self, files: dict[str, bytes], links: dict[str, str]) -> None:
        self.files, self.links = files, links

    def call(self, _doing: str, what: t.Callable[[t.Any], t.Any], *_more: t.Any) -> t.Any:
        return what(self)

    def get_archive(self, _container: str, path: str) -> tuple[list[bytes], None]:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            entry = tarfile.TarInfo(os.path.basename(path))
            if path in self.links:
                entry.type, entry.linkname = tarfile.SYMTYPE, self.links[path]
            content = self.files.get(path, b"")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        data = made.getvalue()
        return [data[:700], data[700:]], None


PASSWD = b"root:x:0:0::/:/bin/sh\nbroken\napp:x:1234:99:App:/:/bin/sh\n"


@pytest.mark.parametrize(
    ("user", "uid"),
    [
        ("", 0),
        ("0", 0),
        ("1000:users", 1000),
        ("root", 0),
        ("app", 1234),
        ("app:app", 1234),
        ("1000660000", 1000660000),
    ],
)
def test_who_runs_in_a_container(user: str, uid: int) -> None:
    engine = Engine({"/nix/etc/passwd": PASSWD}, {"/etc/passwd": "../nix/etc/passwd"})
    assert docker_user.uid_of(t.cast("t.Any", engine), "g-router", user) == uid


@pytest.mark.parametrize("user", ["²", "4294967295", "9" * 5000])
def test_a_user_that_is_no_number_and_no_name(user: str) -> None:
    engine = Engine({"/etc/passwd": PASSWD + f"{user}:x:{user}:\n".encode()}, {})
    with pytest.raises(HostError, match=r"Build the image with USER and a number"):
        docker_user.uid_of(t.cast("t.Any", engine), "g-router", user)


@pytest.mark.parametrize("links", [{}, {"/etc/passwd": "passwd"}])
def test_an_image_that_does_not_say_who_its_user_is(links: dict[str, str]) -> None:
    engine = Engine({"/etc/passwd": PASSWD.replace(b"app", b"other")}, links)
    with pytest.raises(HostError, match=r"Looking for user app .* Build the image with USER and a number"):
        docker_user.uid_of(t.cast("t.Any", engine), "g-router", "app")


@root
def test_files_are_given_to_the_images_user(tmp_path: Path) -> None:
    private, public = tmp_path / "env", tmp_path / "conf"
    for path, mode in ((private, 0o600), (public, 0o644)):
        path.write_text("x")
        path.chmod(mode)
    docker_bound.give([str(private), str(public)], 0, "g-router")
    assert private.stat().st_uid == 0
    docker_bound.give([str(private), str(public)], ALICE, "g-router")
    assert (private.stat().st_uid, public.stat().st_uid) == (ALICE, 0)


def test_who_cannot_give_files_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "env"
    path.write_text("x")
    path.chmod(0o600)

    def refuse(*_words: t.Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(HostError, match=f"Giving {path} to user {ALICE} of the image: .*Use become"):
        docker_bound.give([str(path)], ALICE, "g-router")


# -- the state directory -----------------------------------------------------------------------------------------------------------------


@root
def test_a_state_directory_in_another_users_folder_is_not_used(tmp_path: Path) -> None:
    home = tmp_path / "alice"
    home.mkdir()
    owned(home)
    with (
        pytest.raises(HostError, match=rf"{home} belongs to user {ALICE}, who could put a link in its place"),
        State(str(home / "s")).lock(),
    ):
        pass
    assert list(home.iterdir()) == []
    # A link of hers to a folder of root's is as good.
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    owned(tmp_path / "link")
    assert trusted.untrusted(str(tmp_path / "link" / "s")) == f"{tmp_path}/link belongs to user {ALICE}"


def test_a_folder_that_everybody_may_write_to_is_nobodys(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert trusted.untrusted(str(shared / "s")) == f"everybody may write to {shared}"
    # As /tmp is: what is in it is of whom it is.
    shared.chmod(0o1777)
    assert trusted.untrusted(str(shared / "s")) == ""
    with State(str(shared / "s")).lock():
        pass


def test_the_lock_of_a_host_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "s" / "host.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(HostError, match=r"Locking .*/s/host.lock"), State(str(tmp_path / "s")).lock():
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_labels_and_records_are_files(tmp_path: Path) -> None:
    state = State(str(tmp_path / "s"))
    group = tmp_path / "s" / "groups" / "g"
    (group / "members" / "g-prefill-0").mkdir(parents=True)
    (tmp_path / "other.json").write_text("{}")
    (group / "record.json").symlink_to(tmp_path / "other.json")
    os.mkfifo(group / "members" / "g-prefill-0" / "label.json")
    assert (state.labels(), state.records()) == ([], {})
    assert [one.why for one in state.damaged()] == ["it is no regular file"] * 2


# -- what a process says of itself -------------------------------------------------------------------------------------------------------

MARKS = {
    "INFEROPS_PD_MEMBER": "g-prefill-0",
    "INFEROPS_PD_STATE": "/var/lib/inferops-pd",
    "INFEROPS_PD_FORMATION": "f-1",
}
LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); time.sleep(60)"


@root
@pytest.mark.parametrize(("user", "member", "formation"), [(None, "g-prefill-0", "f-1"), (65534, None, None)])
def test_a_strangers_listener_is_no_members(user: int | None, member: str | None, formation: str | None) -> None:
    """Whatever it carries: else it would be ready for a member, or keep the member's port from being told as taken."""
    words = ["/usr/bin/python3", "-c", LISTEN]
    with subprocess.Popen(words, env=MARKS, user=user, cwd="/", stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        (found,) = ports.listening({port})
        assert (found.pid, found.member) == (process.pid, member)
        assert carried.serving(port, [found]) == {"formation": formation, "listener_member": member}
        process.kill()


@root
@pytest.mark.parametrize(
    ("cgroup", "within", "believed"),
    [
        (f"0::/system.slice/docker-{'a' * 64}.scope\n", True, True),
        (f"4:pids:/docker/{'a' * 64}\n0::/\n", True, True),
        (f"0::/user.slice/user-1000.slice/user@1000.service/{'a' * 64}\n", True, False),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", False, False),
    ],
)
def test_what_another_user_runs_is_believed_in_a_container(
    tmp_path: Path, cgroup: str, within: bool, believed: bool
) -> None:
    (tmp_path / "7").mkdir()
    owned(tmp_path / "7")
    (tmp_path / "7" / "cgroup").write_text(cgroup)
    assert processes.in_container(7, str(tmp_path)) is within
    assert processes.is_believed(7, str(tmp_path)) is believed
    owned(tmp_path / "7", 0)
    assert processes.is_believed(7, str(tmp_path)) is True
