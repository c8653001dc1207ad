# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs, models, executables and processes, as hosts have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._probes import executables, gpus, model, processes, space

ASCEND = """
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.2                   Version: 23.0.2                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B4               | OK            | 87.2        42                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          2782 / 32768         |
+===========================+===============+====================================================+
| 1     910B4               | Warning       | 88.0        43                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          2782 / 32768         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 3171          | python                   | 2000                    |
+===========================+===============+====================================================+
"""


def test_nvidia():
    text = "0, GPU-aa, NVIDIA H100 80GB HBM3, 81559\n1, GPU-bb, NVIDIA H100 80GB HBM3, 81559\n"
    assert gpus.parse_nvidia(text)[1] == {
        "id": "1",
        "uuid": "GPU-bb",
        "model": "NVIDIA H100 80GB HBM3",
        "vendor": "nvidia",
        "memory_mib": 81559,
    }
    assert gpus.parse_nvidia("No devices were found\n") == []
    # Digits to one Python function, and none to another.
    assert gpus.parse_nvidia("², GPU-aa, H100, 81559\n") == []
    assert gpus.parse_nvidia("0, GPU-aa, H100, ²\n")[0]["memory_mib"] is None
    assert space.parse_apps("GPU-aa, ², 1, python\nGPU-aa, 31, ², python\n", lambda _pid: None)[0]["pid"] == 31


def test_amd():
    told = {
        "card10": {"Card Series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992"},
        "card2": {"Card series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992"},
        "system": {"Driver version": "6.7"},
    }
    found = gpus.parse_amd("WARNING: something\n" + json.dumps(told))
    assert [(g["id"], g["model"], g["memory_mib"]) for g in found] == [
        ("2", "AMD Instinct MI300X", 196592),
        ("10", "AMD Instinct MI300X", 196592),
    ]


def test_ascend():
    assert [(g["id"], g["model"], g["vendor"], g["memory_mib"]) for g in gpus.parse_ascend(ASCEND)] == [
        ("0", "Ascend 910B4", "ascend", 32768),
        ("1", "Ascend 910B4", "ascend", 32768),
    ]


def test_what_the_owner_says_is_not_looked_up():
    assert gpus.find([]) == ([], [])
    found, problems = gpus.find([0, "GPU-aa", {"id": 2, "model": "H100", "vendor": "NVIDIA"}, {"model": "x"}])
    assert problems == []
    assert [(g["id"], g["model"], g["vendor"]) for g in found] == [
        ("0", None, None),
        ("GPU-aa", None, None),
        ("2", "H100", "nvidia"),
        ("3", "x", None),
    ]


@pytest.fixture
def weights(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model-1.safetensors").write_bytes(b"x" * 10)
    (folder / "README.md").write_text("hello")
    return folder


def test_a_model_is_known_by_what_decides_its_answers(weights):
    first = model.facts(str(weights))
    assert (first["exists"], first["config"], first["weights"]) == (
        True,
        {"model_type": "qwen3"},
        {"files": 1, "bytes": 10, "times": first["weights"]["times"]},
    )
    (weights / "README.md").write_text("other")
    os.utime(weights / "model-1.safetensors", (1, 1))
    assert model.facts(str(weights))["fingerprint"] == first["fingerprint"]
    for name, content in (
        ("tokenizer.json", "[]"),
        ("model-1.safetensors", "y" * 11),
        ("chat_template.jinja", "t"),
        ("config.json", "{}"),
    ):
        before = (weights / name).read_bytes() if (weights / name).exists() else None
        (weights / name).write_text(content)
        assert model.facts(str(weights))["fingerprint"] != first["fingerprint"], name
        if before is None:
            (weights / name).unlink()
        else:
            (weights / name).write_bytes(before)
    assert model.facts(str(weights))["fingerprint"] == first["fingerprint"]


@pytest.mark.parametrize(
    ("path", "why"), [("/nowhere/at/all", "not there"), ("org/name", "no local path"), ("/etc/passwd", "no directory")]
)
def test_a_model_that_is_not_there(path, why):
    found = model.facts(path)
    assert (found["exists"], found["fingerprint"]) == (False, None)
    assert why in found["why"]


def test_a_model_without_a_readable_config(weights):
    (weights / "config.json").write_text("{broken")
    found = model.facts(str(weights))
    assert (found["exists"], found["config"]) == (True, None)


@pytest.fixture
def venv(tmp_path):
    """An engine's environment as pip lays it out, without an engine."""
    site = tmp_path / "venv/lib/python3.12/site-packages"
    for name, version, entry in (
        ("vllm", "0.29.0+cpu", "vllm = vllm.cli:main"),
        ("vllm_router", "0.1.17", ""),
        ("other", "1", "x = y:z"),
    ):
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n\nVersion: 9\n"
        )
        if entry:
            (info / "entry_points.txt").write_text(f"[console_scripts]\n{entry}\n")
        else:
            (info / "RECORD").write_text("../../../bin/vllm-router,sha256=x,1\n")
    binary = tmp_path / "venv/bin"
    binary.mkdir()
    python = binary / "python3"
    python.symlink_to(sys.executable)
    for name, first in (
        ("vllm", f"#!{python}"),
        ("vllm-router", "\x7fELF"),
        ("long", "#!/bin/sh"),
        ("unknown", f"#!{python}"),
    ):
        (binary / name).write_text(
            first + "\n" + (f"'''exec' {python} \"$0\" \"$@\"\n' '''\n" if name == "long" else "")
        )
        (binary / name).chmod(0o755)
    return binary


@pytest.mark.parametrize(
    ("name", "version", "distribution"),
    [
        ("vllm", "0.29.0+cpu", "vllm"),
        ("vllm-router", "0.1.17", "vllm-router"),
        ("python3", "0.29.0+cpu", "vllm"),
        ("unknown", None, None),
    ],
)
def test_the_version_of_a_command_without_running_it(venv, name, version, distribution):
    found = executables.facts(str(venv / name))
    known = {"exists": True, "path": str(venv / name), "version": version, "distribution": distribution}
    assert found == {**known, "stamp": model.stamp(executables.files(str(venv / name)))}


def test_a_command_linked_from_elsewhere_and_one_that_is_not_there(venv, tmp_path):
    (tmp_path / "vllm").symlink_to(venv / "vllm")
    assert executables.facts(str(tmp_path / "vllm"))["version"] == "0.29.0+cpu"
    assert executables.facts(str(tmp_path / "nothing"))["exists"] is False
    assert executables.facts("no-such-command-anywhere") == {
        "exists": False,
        "path": None,
        "version": None,
        "distribution": None,
        "stamp": None,
    }


def test_processes_are_known_by_their_marker(tmp_path):
    env = {**os.environ, processes.MEMBER: "g-prefill-0", processes.STATE: str(tmp_path)}
    child = "import time; time.sleep(60)"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=env) as main:
        try:
            for _look in range(100):
                found = processes.marked(str(tmp_path)).get("g-prefill-0", [])
                if len(found) == 2:
                    break
                time.sleep(0.05)
            assert len(found) == 2
            assert processes.marked(str(tmp_path / "other")) == {}
            table = processes.table()
            assert {p.pid for p in processes.family([table[main.pid]], table)} >= {p.pid for p in found}
            assert abs(table[main.pid].since - time.time()) < 30
        finally:
            for process in processes.marked(str(tmp_path)).get("g-prefill-0", []):
                os.kill(process.pid, 9)
    assert processes.read(main.pid) is None
    assert not processes.alive(table[main.pid])
