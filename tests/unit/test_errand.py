# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errands: the answer in a log, the Pod, what it says of itself, the code that runs in it, and each kind's order."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import errand_pod, names
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster.errand_pod import Errand, Seen
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster.pod import Pods
from ansible_collections.inferops.pd.plugins.module_utils._errand import answer, kinds, run
from ansible_collections.inferops.pd.plugins.module_utils._host import observe
from ansible_collections.inferops.pd.plugins.module_utils._kube import code as codes
from ansible_collections.inferops.pd.plugins.module_utils._probes import credentials
from ansible_collections.inferops.pd.plugins.module_utils._probes import model as models
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

VERSIONS = ("1.25", "1.29", "1.32", "1.37")
ONE = Errand("router", "gpu-3", "registry.example/vllm:1", {"peers": {}}, {"lent": {"http://a:1": ["k3y"]}}, group="g")
SETTINGS: list[dict[str, t.Any]] = [
    {},
    {
        "model": {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}}, "service_account": "pd",
        "priority_class": "serving", "pull_secrets": ("regcred",), "run_as_non_root": True, "drop_all": True,
        "tolerations": ({"key": "nvidia.com/gpu", "operator": "Exists"},), "seccomp": "RuntimeDefault",
        "overlay": {"schedulerName": "other"},
    },
]  # fmt: skip


# -- the answer in a log -------------------------------------------------------------------------------------------------------------------


def log_of(said: t.Any, token: str = "t1") -> str:
    return "\n".join(answer.lines(token, said)) + "\n"


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=20)))
def test_an_answer_comes_back_as_it_was_said(said):
    assert answer.read(log_of(said), "t1") == said


# What no compression makes small.
LARGE = {"result": "".join(f"{n * 7919 % 104729:x}" for n in range(60_000))}


def test_no_line_is_one_that_a_log_cuts():
    lines = log_of(LARGE).splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) < 16 * 1024


def test_what_others_write_between_and_what_comes_twice_does_no_harm():
    lines = log_of(LARGE).splitlines()
    mixed = ["a warning of somebody"]
    for line in lines:
        mixed += [line, "Traceback: no", line]
    mixed += log_of({"result": "of another errand"}, "t2").splitlines()
    assert answer.read("\r\n".join(mixed), "t1") == LARGE
    assert answer.read("\n".join(reversed(mixed)), "t1") == LARGE


def test_what_stands_unfinished_before_it_ends_there():
    assert answer.read("half a line" + log_of({"a": 1}), "t1") == {"a": 1}


@pytest.mark.parametrize("dropped", [1, 2, -2, -1])
def test_a_log_that_was_cut_says_so(dropped):
    lines = log_of(LARGE).splitlines()
    del lines[dropped]
    with pytest.raises(answer.CutError, match=r"its log was cut: (1 of \d+ lines are|its end is) missing") as found:
        answer.read("\n".join(lines), "t1")
    assert found.value.begun


def test_a_log_without_an_answer_or_with_another_ones():
    for log in ("", "Segmentation fault\n", log_of({"a": 1}, "t2")):
        with pytest.raises(answer.CutError, match="its log has no answer") as found:
            answer.read(log, "t1")
        assert not found.value.begun


def test_a_log_that_was_changed_is_not_believed():
    log = log_of({"a": 1})
    part = log.splitlines()[1].split()[-1]
    for other in (part[:8] + ("A" if part[8] != "A" else "B") + part[9:], part[:-4], "????"):
        with pytest.raises(answer.CutError, match="its log was changed"):
            answer.read(log.replace(part, other), "t1")


# -- the Pod -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "everything"])
def test_every_version_takes_it(version, settings):
    validate = pytest.importorskip("kubernetes_validate")
    made = errand_pod.render(
        Errand(**{**vars(ONE), "folders": ("/models/m",)}), "t1", "pd-code-x", Pods("ns", **settings)
    )
    made["metadata"]["uid"] = "u"
    validate.validate(json.loads(json.dumps(made)), version, strict=True)
    validate.validate(json.loads(json.dumps(errand_pod.secret(ONE, "t1", made))), version, strict=True)


def test_it_is_on_its_node_whoever_else_may_be_there():
    made = errand_pod.render(ONE, "t1", "pd-code-x", Pods("ns"))
    spec = made["spec"]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-3"]}]}
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"} in spec[
        "tolerations"
    ]
    assert (spec["hostNetwork"], spec["restartPolicy"], spec["activeDeadlineSeconds"]) == (True, "Never", 120)
    assert "nvidia.com/gpu" not in json.dumps(spec)
    assert made["metadata"]["labels"] == {
        names.MANAGED_BY: names.MANAGER, names.GROUP: "g", names.ERRAND: "router", names.NODE: "gpu-3",
    }  # fmt: skip


def test_what_is_secret_is_in_its_own_secret_that_goes_with_the_pod():
    made = errand_pod.render(ONE, "t1", "pd-code-x", Pods("ns"))
    assert "k3y" not in json.dumps(made) + repr(ONE)
    made["metadata"]["uid"] = "u-1"
    secret = errand_pod.secret(ONE, "t1", made)
    assert secret is not None
    assert json.loads(secret["stringData"]["secrets"]) == {"lent": {"http://a:1": ["k3y"]}}
    assert secret["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "pd-errand-t1", "uid": "u-1"}
    ]
    plain = Errand("look", "gpu-3", "i", {})
    assert errand_pod.secret(plain, "t1", errand_pod.render(plain, "t1", "c", Pods("ns"))) is None


def test_an_order_that_no_annotation_holds_is_a_file_of_the_secret():
    large = Errand("look", "gpu-3", "i", {"models": ["x" * errand_pod.ORDER_LIMIT]})
    made = errand_pod.render(large, "t1", "c", Pods("ns"))
    assert made["metadata"]["annotations"] == {}
    secret = errand_pod.secret(large, "t1", made)
    assert secret is not None
    assert json.loads(secret["stringData"]["order"])["order"] == large.order


def state(phase: str = "Pending", reason: str = "", **state_: t.Any) -> dict[str, t.Any]:
    return {
        "spec": {"nodeName": "gpu-3"},
        "status": {"phase": phase, "reason": reason, "containerStatuses": [{"name": "engine", "state": state_}]},
    }


IMAGE = ONE.image
NOT_FOUND = 'exec: "python3": executable file not found in $PATH'
NO_PYTHON = "its image has no python3"
OLD = "inferops.pd: errands need Python >= 3.9, and this image has 3.6"
SAYS: list[tuple[str, dict[str, t.Any], bool, str]] = [
    ("made", state(waiting={"reason": "ContainerCreating"}), False, ""),
    ("runs", state("Running", running={"startedAt": "2026-01-01T00:00:00Z"}), False, ""),
    ("done", state("Succeeded", terminated={"exitCode": 0}), True, ""),
    (
        "pull", state(waiting={"reason": "ErrImagePull", "message": "not found"}), True,
        f"image {IMAGE} cannot be pulled (ErrImagePull: not found)",
    ),
    ("never", state(waiting={"reason": "ErrImageNeverPull"}), True, f"image {IMAGE} is not on the node"),
    ("docker", state("Failed", terminated={"exitCode": 127, "reason": "ContainerCannotRun", "message": NOT_FOUND}), True, NO_PYTHON),
    ("containerd", state("Failed", terminated={"exitCode": 128, "reason": "StartError", "message": NOT_FOUND}), True, NO_PYTHON),
    (
        "cri-o", state(waiting={"reason": "CreateContainerError", "message": "python3: no such file or directory"}), True,
        NO_PYTHON,
    ),
    ("old", state("Failed", terminated={"exitCode": 69, "message": f"a\n{OLD}\n"}), True, f"it exited with status 69: {OLD}"),
    ("late", state("Failed", "DeadlineExceeded", terminated={"exitCode": 137}), True, "it did not end within 120 s"),
    (
        "evicted", {"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}}, True,
        "its Pod has failed (Evicted: low on memory)",
    ),
    (
        "memory", state("Failed", terminated={"exitCode": 137, "reason": "OOMKilled"}), True,
        "it was ended for want of memory (OOMKilled)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "over", "failed"), [row[1:] for row in SAYS], ids=[row[0] for row in SAYS])
def test_what_its_pod_says(pod, over, failed):
    found = errand_pod.seen(pod, ONE)
    assert (found.over, found.failed) == (over, failed)


def test_one_that_no_node_takes_says_why():
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: full."}
    found = errand_pod.seen({"status": {"phase": "Pending", "conditions": [condition]}}, ONE)
    assert found == Seen(waits="no node takes it (0/3 nodes: full.)", word="Unschedulable")


# -- the code ------------------------------------------------------------------------------------------------------------------------------


def test_the_code_is_the_same_bytes_each_time_and_fits():
    first = codes.code()
    codes.code.cache_clear()
    assert codes.code() == first
    assert len(first.body) < codes.LIMIT / 2


def test_the_code_needs_nothing_that_is_not_in_it_or_in_python():
    with zipfile.ZipFile(io.BytesIO(codes.code().body)) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert not [name for name in texts if "/_kube/" in name or "/_runtimes/" in name or "/plan/" in name]
    foreign = {
        one.partition(".")[0]
        for text in texts.values()
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.ImportFrom) and not node.level) or isinstance(node, ast.Import)
        for one in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert foreign - set(sys.stdlib_module_names) == {"inferops_pd"}


def test_the_code_runs_where_nothing_else_is(tmp_path):
    file = tmp_path / "errand.zip"
    file.write_bytes(codes.code().body)
    words = [sys.executable, "-I", "-S", str(file)]
    ran = subprocess.run(words, cwd=tmp_path, env={}, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == f"inferops.pd: this errand has no order: {errand_pod.TOLD}\n"
    assert ran.returncode == 1


def test_the_code_is_the_same_where_ansible_has_shipped_it_in_a_zip(tmp_path):
    """A module finds its sources in a zip, with packages above ours that are empty."""
    package = "ansible_collections.inferops.pd.plugins.module_utils"
    above = package.split(".")
    with zipfile.ZipFile(tmp_path / "module.zip", "w") as archive:
        for depth in range(1, len(above) + 1):
            archive.writestr("/".join([*above[:depth], "__init__.py"]), "")
        for file in sorted((ROOT / "plugins" / "module_utils").rglob("*.py")):
            archive.write(file, "/".join([*above, str(file.relative_to(ROOT / "plugins" / "module_utils"))]))
    asked = f"import sys; sys.path.insert(0, {str(tmp_path / 'module.zip')!r}); from {codes.__name__} import code; print(code().digest)"
    ran = subprocess.run([sys.executable, "-I", "-c", asked], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    assert ran.stdout.strip() == codes.code().digest


def test_a_python_that_is_too_old_is_told_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 6, 8))
    with pytest.raises(SystemExit) as found:
        exec(compile(codes._FIRST, "first", "exec"), {})
    assert found.value.code == errand_pod._OLD_PYTHON
    assert capsys.readouterr().err == "inferops.pd: errands need Python >= 3.9, and this image has 3.6\n"


def test_code_that_is_too_large_is_told_with_its_size(monkeypatch):
    monkeypatch.setattr(codes, "LIMIT", 1000)
    codes.code.cache_clear()
    with pytest.raises(PdError, match=r"the code of errands is [0-9.]+KiB, and a ConfigMap holds"):
        codes.code()
    codes.code.cache_clear()


# -- orders --------------------------------------------------------------------------------------------------------------------------------


def carried_out(tmp_path: Path, capsys: t.Any, errand: Errand) -> dict[str, t.Any]:
    """Through the files that its Pod has, and its log."""
    told, kept = tmp_path / "told", tmp_path / "kept"
    for folder in (told, kept):
        folder.mkdir(exist_ok=True)
    pod = errand_pod.render(errand, "t1", "c", Pods("ns"))
    (told / "order").write_text(pod["metadata"]["annotations"].get(names.ORDER, ""))
    for name, text in errand.kept("t1").items():
        (kept / name).write_text(text)
    assert run.main(str(told), str(kept)) == 0
    return answer.read(capsys.readouterr().out, "t1")


def test_a_look_has_the_facts_of_a_host(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "x"}')
    order = {
        "ports": "28000-28063",
        "models": [str(tmp_path)],
        "executables": ["python3"],
        "interface_plane": "control",
    }
    found = carried_out(tmp_path, capsys, Errand("look", "n", "i", order))["result"]
    host = observe.observe(
        observe.Request(
            "28000-28063",
            interface_plane="control",
            models=[str(tmp_path)],
            executables=["python3"],
            runtimes=[],
            gpus=[],
        ),
        State(str(tmp_path / "state")),
    )
    host = json.loads(json.dumps(host))
    same = (
        "address",
        "kv_interface",
        "kv_interfaces",
        "interfaces",
        "rdma_devices",
        "machine",
        "models",
        "executables",
    )
    assert {key: found[key] for key in same} == {key: host[key] for key in same}
    assert set(found["ports"]) == set(host["ports"])
    assert found["models"] == {str(tmp_path): models.facts(str(tmp_path))}


@pytest.mark.parametrize("kind", ["router", "leave"])
def test_a_router_that_does_not_answer_is_in_the_result(tmp_path, capsys, kind):
    peers = {"url": "http://127.0.0.1:1", "dialect": "vllm-router", "model": "m", "timeout": 0.5}
    order = {
        "peers": peers,
        "members": [{"label": {"member": "g-decode-0", "url": "http://127.0.0.1:1"}, "seconds": 5}],
    }
    found = carried_out(tmp_path, capsys, Errand(kind, "n", "i", order, group="g"))["result"]
    assert found["peers"]["failed"]
    assert "http://127.0.0.1:1" in found["peers"]["msg"]
    assert found.get("left", {}) == {}, "nobody drains whom requests may still be sent to"


def test_members_that_leave_are_drained(tmp_path, capsys):
    label = {"member": "g-decode-0", "url": "http://127.0.0.1:1", "probe": {"busy": ["running"]}}
    order = {"members": [{"label": label, "seconds": 5}]}
    found = carried_out(tmp_path, capsys, Errand("leave", "n", "i", order))
    assert found == {"result": {"left": {"g-decode-0": ""}}}, "one that nobody listens at has nothing left to do"


def test_a_proof_is_given_by_workload(tmp_path, capsys):
    found = carried_out(tmp_path, capsys, Errand("proof", "n", "i", {"workloads": [{"group": "g", "plan": {}}]}))
    assert found["result"]["workloads"]["g"]["good"] is False


def test_peers_are_tried(tmp_path, capsys):
    place = {"address": "127.0.0.1", "ports": [1], "ours": False}
    task = {"connect": [{"name": "n2", "places": [place]}]}
    found = carried_out(tmp_path, capsys, Errand("connect", "n", "i", {"task": task, "token": "x", "seconds": 1}))
    (failed,) = found["result"]["peers"]["n2"]["failed"]
    assert failed["port"] == 1


def test_who_listens_is_there_until_its_peers_have_tried_it(tmp_path):
    """In a process of its own, which leaves one that goes on: its answer is there to be read while it does."""
    told = tmp_path / "told"
    told.mkdir()
    order = {"task": {"expect": ["n2"], "high": ["127.0.0.1"]}, "token": "x", "seconds": 60, "name": "pd-test"}
    (told / "order").write_text(Errand("listen", "n", "i", order).told("t1"))
    begin = f"import sys; from {run.__name__} import main; sys.exit(main({str(told)!r}, {str(tmp_path)!r}))"
    collections = str(ROOT / ".build" / "collections")
    words, env = [sys.executable, "-c", begin], {"PYTHONPATH": collections, "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        lines = [ran.stdout.readline() for _line in range(3)]
        found = answer.read("".join(lines), "t1")["result"]
        port = found["listening"]["random"]["127.0.0.1"]
        assert ran.poll() is None
        task = {"name": "n2", "tell": [{"address": "127.0.0.1", "port": port}]}
        assert kinds.carry_out("connect", {"task": task, "token": "x", "seconds": 1}, {})["peers"] == {}
        assert ran.wait(60) == 0


def test_keys_are_lent_to_who_asks_a_process_that_it_cannot_see(monkeypatch):
    monkeypatch.setattr(credentials, "_LENT", {})
    with pytest.raises(PdError, match="'dance' is no kind of errand"):
        kinds.carry_out("dance", {}, {})
    kinds.carry_out("leave", {}, {"lent": {"http://127.0.0.1:1/": ["k"]}})
    assert credentials.of_listener("http://127.0.0.1:1/metrics") == ("k",)
    assert credentials.of_listener("http://127.0.0.1:2/metrics") == ()


def test_a_fault_of_our_own_shows_no_value(tmp_path, capsys):
    found = carried_out(tmp_path, capsys, Errand("router", "n", "i", {}, {"keys": {"prefill": "k3y"}}))
    assert found["error"].startswith("a fault in the errand's own code: KeyError (kinds.py:")
