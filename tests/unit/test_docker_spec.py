# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container is created with, by vendor (golden/docker-*.json, PD_GOLDEN=rewrite writes them anew), and the parsing around it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import types
import typing as t
from pathlib import Path

import planned
import pytest

from ansible_collections.inferops.pd.plugins.module_utils._runtimes import (
    docker_api,
    docker_images,
    docker_said,
    docker_spec,
)
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker import Docker, epoch
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker_host import traits
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker_spec import Container, Traits
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.protocol import Wanted
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

GOLDEN = Path(__file__).parent / "golden"
GIB = 2**30
LABEL = {
    "group": "g",
    "member": "g-prefill-0",
    "role": "prefill",
    "index": 0,
    "revision": "r1",
    "generation": 2,
    "port": 40000,
}
# What the engines of real hosts say of themselves, as far as it matters (docker 28.2 with the NVIDIA toolkit, podman 5.4).
NVIDIA_HOST = {
    "Runtimes": {"runc": {}, "nvidia": {}},
    "DefaultRuntime": "runc",
    "LoggingDriver": "json-file",
    "MemTotal": 2048 * GIB,
}
PODMAN = {
    "BuildahVersion": "1.39.3",
    "Runtimes": {"crun": {}},
    "DefaultRuntime": "crun",
    "LoggingDriver": "",
    "MemTotal": 64 * GIB,
}
IB, NV = "/dev/infiniband", "/dev/nvidiactl"
DAVINCI = {
    "/dev/davinci_manager",
    "/dev/devmm_svm",
    "/dev/hisi_hdc",
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/bin/npu-smi",
}


def member(role: str = "prefill", **part: t.Any) -> Wanted:
    raw = {
        "id": "g-prefill-0",
        "role": role,
        "stop": {"grace": 30, "drain": 60},
        "restart": {"attempts": 3, "window": 300},
        "parts": [
            {
                "argv": ["vllm", "serve", "/models/m", "--port=40000"],
                "env": {"VLLM_HOST_IP": "10.1.0.7", "PYTHONHASHSEED": "0"},
                "gpus": [],
                "mounts": [],
                "devices": [],
                "limits": {},
                **part,
            }
        ],
    }
    return planned.wanted(raw)


def render(wanted: Wanted, given: Container, found: Traits) -> dict[str, t.Any]:
    return docker_spec.render(wanted.member, wanted.part, given, found)


def container(**changes: t.Any) -> Container:
    given = {"label": LABEL, "bound": (("/data/m", "/models/m"),), **changes}
    return Container("registry.example/vllm@sha256:1f", state_dir="/var/lib/inferops-pd", start="/d/start", **given)


def host(info: dict[str, t.Any], *present: str) -> Traits:
    return traits(docker_said.info(info), lambda path: path in present)


CASES: dict[str, tuple[Wanted, Traits]] = {
    "none": (member(), host({"MemTotal": 8 * GIB, "LoggingDriver": "json-file"})),
    "router-on-a-gpu-host": (
        member("router", limits={"cpu": "2", "memory": "2GiB"}),
        host({**NVIDIA_HOST, "DefaultRuntime": "nvidia", "LoggingDriver": "journald"}, NV, IB),
    ),
    "nvidia": (member(gpus=["0", "GPU-8a56a4bc"]), host(NVIDIA_HOST, NV, IB)),
    "nvidia-podman": (
        member(gpus=["0", "1"]),
        host({**PODMAN, "SecurityOptions": ["name=selinux,profile=default"]}, NV, IB),
    ),
    "amd": (
        member(gpus=["2", "3"], ipc="host"),
        Traits(
            log_driver="json-file",
            memory=512 * GIB,
            present=frozenset({"/dev/kfd"}),
            device_groups=(44, 110),
            vendor="amd",
        ),
    ),
    "ascend": (
        member(
            gpus=["0", "1"],
            mounts=["/scratch:/scratch", {"source": "cache", "target": "/cache", "mode": "ro"}],
            devices=["/dev/fuse"],
        ),
        host({"MemTotal": 512 * GIB, "LoggingDriver": "json-file"}, *DAVINCI),
    ),
    "ascend-runtime": (member(gpus=["0"]), host({"Runtimes": {"ascend": {}, "runc": {}}}, *DAVINCI)),
}


@pytest.mark.parametrize("name", CASES)
def test_golden_create_request(name: str) -> None:
    wanted, found = CASES[name]
    more = (
        {"secrets": "/d/env", "guard": "/g/guard", "label": {**LABEL, "formation": "f-1"}} if name == "nvidia" else {}
    )
    text = json.dumps(render(wanted, container(**more), found), indent=1, sort_keys=True) + "\n"
    path = GOLDEN / f"docker-{name}.json"
    if os.environ.get("PD_GOLDEN") == "rewrite":
        path.write_text(text)
    assert text == path.read_text()


def test_the_plans_vendor_wins_and_an_unknown_one_is_said() -> None:
    both = host({}, NV, "/dev/kfd")
    assert both.vendor is None
    assert "HIP_VISIBLE_DEVICES=1" in render(member(gpus=["1"], vendor="amd"), container(), both)["Env"]
    with pytest.raises(HostError, match=r"GPUs of vendor cerebras is not known.*amd, ascend, nvidia"):
        render(member(gpus=["1"], vendor="cerebras"), container(), both)


def test_without_a_shell_the_command_is_run_as_it_is_and_never_restarted() -> None:
    plain = Container("i", LABEL, "/s", None, exposed={"TOKEN": "x"})
    body = render(member(), plain, Traits())
    assert (body["Entrypoint"], body["Cmd"][0]) == (["vllm"], "serve")
    assert body["HostConfig"]["RestartPolicy"] == {"Name": "no", "MaximumRetryCount": 0}
    assert "TOKEN=x" in body["Env"]


def test_a_users_mount_replaces_ours_at_the_same_place() -> None:
    mounts = render(member(mounts=["/fast/m:/models/m:ro"]), container(), Traits())["HostConfig"]["Mounts"]
    assert [m["Source"] for m in mounts if m["Target"] == "/models/m"] == ["/fast/m"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/a:/b", ("bind", "/a", "/b", False)),
        ("/a:/b:ro", ("bind", "/a", "/b", True)),
        ("/a", ("bind", "/a", "/a", False)),
        ("vol:/b:rw", ("volume", "vol", "/b", False)),
        ({"source": "/a", "target": "/b", "mode": "ro"}, ("bind", "/a", "/b", True)),
        ({"source": "/a", "read_only": True}, ("bind", "/a", "/a", True)),
    ],
)
def test_mounts(text: t.Any, wanted: tuple[t.Any, ...]) -> None:
    mount = docker_spec.parse_mount(text, "m")
    assert (mount["Type"], mount["Source"], mount["Target"], mount["ReadOnly"]) == wanted


@pytest.mark.parametrize("text", ["", "a", "/a:b", "/a:/b:rx", {"target": "/b"}, {"source": "/a", "mode": "maybe"}])
def test_mounts_that_are_none(text: t.Any) -> None:
    with pytest.raises(HostError, match="Reading mount"):
        docker_spec.parse_mount(text, "m")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/dev/a", ("/dev/a", "/dev/a", "rwm")),
        ("/dev/a:/dev/b", ("/dev/a", "/dev/b", "rwm")),
        ("/dev/a:/dev/b:r", ("/dev/a", "/dev/b", "r")),
        ("/dev/a:rw", ("/dev/a", "/dev/a", "rw")),
        ({"source": "/dev/a", "permissions": "r"}, ("/dev/a", "/dev/a", "r")),
    ],
)
def test_devices(text: t.Any, wanted: tuple[str, ...]) -> None:
    device = docker_spec.parse_device(text, "m")
    assert (device["PathOnHost"], device["PathInContainer"], device["CgroupPermissions"]) == wanted
    with pytest.raises(HostError, match="Reading device"):
        docker_spec.parse_device("dev/a", "m")


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2 * GIB), ("1.5 Gi", 3 * GIB // 2), ("512M", 512 * 10**6), ("7", 7), ("1KB", 1000)]
)
def test_sizes(text: str, size: int) -> None:
    assert docker_spec.parse_size(text, "m") == size
    with pytest.raises(HostError, match="Write it as 2GiB"):
        docker_spec.parse_size("much", "m")


@pytest.mark.parametrize(
    ("image", "known", "digest"),
    [
        ("r.example:5000/a/vllm:1", ["other/vllm@sha256:0", "r.example:5000/a/vllm@sha256:1"], "sha256:1"),
        ("vllm", ["library/vllm@sha256:2"], "sha256:2"),
        ("vllm@sha256:3", ["vllm@sha256:3"], "sha256:3"),
        ("loaded:1", [], None),
    ],
)
def test_digest_of_an_image(image: str, known: list[str], digest: str | None) -> None:
    assert docker_images.digest_of(image, docker_said.image({"Id": "sha256:0", "RepoDigests": known})) == digest


def test_times_of_the_api() -> None:
    assert epoch("2026-11-29T15:00:00.5Z") == pytest.approx(1795964400.5)
    assert epoch("2026-11-29T16:00:00+01:00") == 1795964400
    assert epoch("0001-01-01T00:00:00Z") is None
    assert epoch("") is None
    assert epoch("2026-13-45T15:00:00Z") is None
    assert epoch("٢٠٢٦-11-29T15:00:00Z") is None


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("command", "wanted"), [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["true"], 0)]
)
def test_the_start_script_ends_as_its_program_does(shell: str, command: list[str], wanted: int, tmp_path: Path) -> None:
    script = tmp_path / "start"
    script.write_text(docker_spec.render_start("m", "g", float(os.getpid()), 2).replace("/tmp/", f"{tmp_path}/"))
    assert subprocess.run([shell, str(script), *command], check=False, timeout=10).returncode == wanted


def test_without_the_library_or_an_engine_it_is_said_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_library(name: str) -> t.Any:
        raise ImportError(f"No module named {name!r}")

    state = State(str(tmp_path / "state"))
    told = Docker(state, f"unix://{tmp_path}/none.sock").available()
    assert not told["available"]
    assert told["why"] == f"there is no {tmp_path}/none.sock"
    assert "systemctl start docker" in told["hint"]
    (tmp_path / "some.sock").touch()
    monkeypatch.setattr(docker_api.importlib, "import_module", no_library)
    told = Docker(state, f"unix://{tmp_path}/some.sock").available()
    assert "No module named" in told["why"]
    assert "python3-docker" in told["hint"]
    assert "pip install docker" in told["hint"]
    assert Docker(state, f"unix://{tmp_path}/some.sock").members() == []
    state.write_label({**LABEL, "runtime": "docker"})
    with pytest.raises(HostError, match="pip install docker"):
        Docker(state, f"unix://{tmp_path}/some.sock").members()


def test_a_deadline_is_of_one_threads_call_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of several groups are created, stopped and looked at at once: the client has one deadline for all that it does."""
    made: list[Client] = []

    class Client:
        def __init__(self, version: str, timeout: float, **_given: t.Any) -> None:
            self.asked, self.timeout, self.api_version = version, timeout, "1.45"
            made.append(self)

    library = types.SimpleNamespace(APIClient=Client, APIError=ZeroDivisionError)
    monkeypatch.setattr(docker_api.importlib, "import_module", lambda _name: library)
    (tmp_path / "some.sock").touch()
    api = docker_api.Api(f"unix://{tmp_path}/some.sock")

    def slow(client: Client) -> float:
        quick = threading.Thread(target=lambda: api.call("Looking", lambda c: c.timeout, 10))
        quick.start()
        quick.join(30)
        return client.timeout

    assert api.call("Creating", slow, 120) == 120
    assert [client.asked for client in made] == ["auto", "1.45"], "the engine is asked once what it speaks"
    assert api.call("Looking", lambda c: c, 10) is made[0]
