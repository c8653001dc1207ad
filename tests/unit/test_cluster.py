# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as hosts of a plan: quantities, selectors, nodes, and members as Pods."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t

import pytest
from planned import member

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import (
    names,
    node,
    node_selector,
    pod,
    pod_state,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster.node_selector import Nodes, Term
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster.quantity import count, number
from ansible_collections.inferops.pd.plugins.module_utils._core.runtimes.container import INSIDE

VERSIONS = ("1.25", "1.29", "1.32", "1.37")
PART = {
    "host": "k1/gpu-3", "through": "k1", "rank": 0, "gpus": ["0", "1"], "port": 28000,
    "ports": {"kv_side_channel": {"base": 28001, "count": 2}},
    "image": "registry.example/vllm@sha256:" + "a" * 64,
    "model": "/models/tiny",
    "argv": ["vllm", "serve", "--served-model-name=$(HOME)$$x"],
    "env": {"A": "$(B)"},
    "secrets": ["HF_TOKEN"],
    "files": [{"path": f"{INSIDE}/mooncake.json", "content": "{}"}],
    "mounts": ["/data:/data:ro"],
    "limits": {"memory": "64GiB", "cpu": 4},
}  # fmt: skip
MEMBER = {
    "id": "g-prefill-0", "role": "prefill", "index": 0, "revision": "abc", "url": "http://10.0.0.3:28000",
    "probe": {"url": "http://10.0.0.3:28000", "health": "/health", "limit": 600}, "stop": {"grace": 20, "drain": 5},
}  # fmt: skip
LABEL = {"group": "g", "member": "g-prefill-0", "generation": 3, "formation": "f"}


def made(part: dict[str, t.Any] | None = None, settings: dict[str, t.Any] | None = None, **changes: t.Any) -> t.Any:
    one = member({**MEMBER, **changes, "parts": [{**PART, **(part or {})}]})
    return pod.render(one, one.leader, LABEL, "gpu-3", pod.Pods("inference", **(settings or {})))


# -- quantities and selectors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4), ("500m", 0.5), ("16Gi", 16 * 2**30), ("1k", 1000), ("1e3", 1000), (8, 8), ("0.5", 0.5), ("1E", 1e18),
        ("", None), ("x", None), (None, None), (True, None), ("1 Gi", None), ("1KB", None), ("-", None),
    ],
)  # fmt: skip
def test_quantities(text, value):
    assert number(text) == (None if value is None else pytest.approx(value))


def test_devices_are_counted_whole():
    assert [count(one) for one in ("8", "0", "-1", None, "many", "1500m")] == [8, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("text", "labels", "fits"),
    [
        ("pool=h100", {"pool": "h100"}, True),
        ("pool==h100", {"pool": "a100"}, False),
        ("pool!=h100", {}, True),
        ("zone in (a, b)", {"zone": "b"}, True),
        ("zone notin (a,b)", {"zone": "b"}, False),
        ("zone not in (a)", {}, True),
        ("nvidia.com/gpu.present", {"nvidia.com/gpu.present": "true"}, True),
        ("!spot", {"spot": "yes"}, False),
        ("pool=h100,!spot", {"pool": "h100"}, True),
        ("pool=", {"pool": ""}, True),
    ],
)
def test_a_selector_is_read_as_kubectl_does(text, labels, fits):
    assert node_selector.parse(text, "roles.prefill.nodes").meant("n", labels) is fits


def test_names_of_nodes():
    meant = node_selector.parse(["gpu-1", "gpu-2", "gpu-1"], "x")
    assert meant == Nodes(names=("gpu-1", "gpu-2"))
    assert [meant.meant(name, {}) for name in ("gpu-1", "gpu-3")] == [True, False]
    assert node_selector.parse("", "x").meant("any", {})
    assert node_selector.parse("a in (b)", "x").terms == (Term("a", ("b",)),)


@pytest.mark.parametrize(
    "text", ["a=b,,c", "a in (b", "a = b = c", "a>b", "=b", "a=b,", [], [1], {"a": "b"}, 7, "a in (b c)"]
)
def test_what_is_no_selector_is_refused_by_its_place(text):
    with pytest.raises(PdError, match=r"^roles\.prefill\.nodes: "):
        node_selector.parse(text, "roles.prefill.nodes")


# -- nodes ---------------------------------------------------------------------------------------------------------------------------------

NODE = {
    "metadata": {"name": "gpu-3", "labels": {"pool": "h100", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
    "spec": {},
    "status": {
        "allocatable": {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1000Gi"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.3"}, {"type": "Hostname", "address": "gpu-3"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": ["registry.example/vllm@sha256:1", "registry.example/vllm:1"]}],
    },
}


def test_a_node():
    found = node.read(NODE, [node.NodeSettings(node_selector.parse("pool=h100", "x"), kv_interface="ens1f0")])
    assert (found.name, found.address, found.ready, found.open) == ("gpu-3", "10.0.0.3", True, True)
    assert (found.gpu_resource, found.vendor, found.model, found.gpus) == (
        "nvidia.com/gpu", "nvidia", "NVIDIA-H100-80GB-HBM3", 8,
    )  # fmt: skip
    assert found.settings.kv_interface == "ens1f0"
    assert "registry.example/vllm:1" in found.images


@pytest.mark.parametrize(
    ("raw", "ready", "is_open"),
    [
        ({**NODE, "spec": {"unschedulable": True}}, True, False),
        ({**NODE, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, False, True),
        ({"metadata": {"name": "new"}}, False, True),
        ({"metadata": None, "status": "?", "spec": []}, False, True),
    ],
)
def test_a_node_that_is_out_of_sight_or_closed(raw, ready, is_open):
    found = node.read(raw)
    assert (found.ready, found.open) == (ready, is_open)


def test_gpus_of_others_are_taken_from_the_end_and_never_ours():
    found = node.read(NODE)
    slots, busy = node.slots(found, held=["7", "0"], foreign=2)
    assert [one["id"] for one in slots] == list("01234567")
    assert [one["gpu"] for one in busy] == ["6", "5"]


def test_what_a_pod_of_others_holds():
    spec = {
        "containers": [
            {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
            {"resources": {"requests": {"nvidia.com/gpu": 2}}},
        ],
        "initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}],
    }
    assert node.gpus_of({"spec": spec}, "nvidia.com/gpu") == 4
    assert node.gpus_of({"spec": {"containers": spec["containers"]}}, "nvidia.com/gpu") == 3
    assert node.gpus_of({}, "nvidia.com/gpu") == 0


# -- a member as a Pod ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "rdma": ("rdma/hca_a", 1), "model": {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
            "service_account": "pd", "priority_class": "serving", "runtime_class": "nvidia", "pull_secrets": ("regcred",),
            "tolerations": ({"key": "nvidia.com/gpu", "operator": "Exists"},), "run_as_non_root": True, "drop_all": True,
            "seccomp": "RuntimeDefault", "overlay": {"schedulerName": "other"},
        },
    ],
    ids=["plain", "everything"],
)  # fmt: skip
def test_every_version_takes_it(version, settings):
    # On the oldest Ansible and Python the library is not there.
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(json.loads(json.dumps(made(settings=settings))), version, strict=True)


def test_who_it_is_and_where():
    found = made()
    assert found["metadata"]["name"] == "g-prefill-0"
    assert found["metadata"]["labels"][names.NODE] == "gpu-3"
    assert pod_state.label_of(found) == LABEL
    spec = found["spec"]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-3"]}]}
    assert "nodeName" not in spec, "the scheduler has the last word"
    assert (spec["hostNetwork"], spec["restartPolicy"]) == (True, "Never")
    assert spec["terminationGracePeriodSeconds"] == 22
    (container,) = spec["containers"]
    assert [port["hostPort"] for port in container["ports"]] == [28000, 28001, 28002]
    assert container["resources"]["limits"] == {
        "nvidia.com/gpu": "2", "cpu": "4000m", "memory": str(64 * 2**30),
    }  # fmt: skip
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": 28000, "host": "10.0.0.3"}
    assert "livenessProbe" not in container


def test_what_kubelet_would_expand_is_literal():
    (container,) = made()["spec"]["containers"]
    assert container["args"][-1] == "--served-model-name=$$(HOME)$$$$x"
    assert {"name": "A", "value": "$$(B)"} in container["env"]


def test_secrets_stand_nowhere_in_it():
    (container,) = made()["spec"]["containers"]
    (one,) = [each for each in container["env"] if each["name"] == "HF_TOKEN"]
    assert one["valueFrom"] == {"secretKeyRef": {"name": "pd-g-3-prefill", "key": "HF_TOKEN"}}


def test_files_come_with_the_pod():
    found = made()
    volume = next(one for one in found["spec"]["volumes"] if one["name"] == "pd")
    assert [item["path"] for item in volume["downwardAPI"]["items"]] == ["start", "mooncake.json"]
    assert found["metadata"]["annotations"][f"{names.FILE}0"] == "{}"
    with pytest.raises(PdError, match=r"its files are 293KiB, and a Pod can bring 200KiB"):
        made({"files": [{"path": f"{INSIDE}/x", "content": "x" * 300_000}]})


def test_a_router_locks_no_memory_and_has_no_rdma():
    found = made({"gpus": [], "limits": {}}, {"rdma": ("rdma/hca", 1)}, id="g-router-0", role="router")
    (container,) = found["spec"]["containers"]
    assert container["resources"] == {}
    assert container["securityContext"] == {}


def test_a_name_that_no_object_can_have_is_refused():
    with pytest.raises(PdError, match=r"g\.\.x-prefill-0: objects of Kubernetes cannot be named so"):
        made(id="g..x-prefill-0")


def test_the_digest_is_of_what_it_runs_and_of_no_time():
    assert made()["metadata"]["annotations"][names.MANIFEST] == made()["metadata"]["annotations"][names.MANIFEST]
    other = made({"argv": ["vllm", "serve", "--x"]})
    assert other["metadata"]["annotations"][names.MANIFEST] != made()["metadata"]["annotations"][names.MANIFEST]


def test_an_overlay_lies_under_ours():
    found = made(settings={"overlay": {"hostNetwork": False, "schedulerName": "kai", "affinity": {"podAffinity": {}}}})
    assert (found["spec"]["hostNetwork"], found["spec"]["schedulerName"]) == (True, "kai")
    assert set(found["spec"]["affinity"]) == {"nodeAffinity", "podAffinity"}


def test_the_start_script_starts_once_and_hands_the_end_on(tmp_path):
    script = pod.start_script("m", "g", 5).replace(f"{INSIDE}-once", str(tmp_path))
    (tmp_path / "start").write_text(script, encoding="utf-8")
    run = ["/bin/sh", str(tmp_path / "start"), "/bin/sh", "-c", "echo $0 $@; exit 3", "a b", "$(x)"]
    first = subprocess.run(
        run, capture_output=True, text=True, check=False, timeout=20, env={"PATH": os.environ["PATH"]}
    )
    assert (first.returncode, first.stdout) == (3, "a b $(x)\n")
    second = subprocess.run(
        run, capture_output=True, text=True, check=False, timeout=20, env={"PATH": os.environ["PATH"]}
    )
    assert second.returncode == pod.REFUSED
    assert pod.SAID in second.stderr


# -- how it is -----------------------------------------------------------------------------------------------------------------------------


def status(state: dict[str, t.Any] | None = None, **more: t.Any) -> dict[str, t.Any]:
    containers = [{"name": "engine", "state": state, **more.pop("container", {})}] if state is not None else []
    return {"metadata": {}, "spec": {"nodeName": "gpu-3"}, "status": {"containerStatuses": containers, **more}}


@pytest.mark.parametrize(
    ("raw", "state", "why"),
    [
        (status({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), "running", ""),
        (
            status({"waiting": {"reason": "ContainerCreating"}}),
            "running",
            "its container is being made (ContainerCreating)",
        ),
        (
            status({"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}),
            "exited",
            'its container was not made (ImagePullBackOff: Back-off pulling image "x")',
        ),
        (status({"terminated": {"exitCode": 1, "reason": "Error"}}), "exited", "exited with status 1"),
        (
            status({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
            "exited",
            "was ended for want of memory (OOMKilled): its limit, or the node's memory, is too small",
        ),
        (
            status({"terminated": {"exitCode": 78, "message": f"x\n{pod.SAID}it has run before\n"}}),
            "exited",
            "not started: it has run before",
        ),
        (
            status(None, phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
            "exited",
            "its Pod has failed (Evicted: The node was low on resource: memory.)",
        ),
        (
            status(None, phase="Failed", reason="OutOfnvidia.com/gpu", message="Node didn't have enough resource"),
            "exited",
            "its Pod has failed (OutOfnvidia.com/gpu: Node didn't have enough resource)",
        ),
        (
            {
                "spec": {},
                "status": {
                    "phase": "Pending",
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/3 nodes are available",
                        }
                    ],
                },
            },
            "running",
            "no node takes it yet (Unschedulable: 0/3 nodes are available)",
        ),
        ({}, "running", "it waits for its node"),
    ],
)
def test_how_a_pod_is_told(raw, state, why):
    found = pod_state.read(raw)
    assert (found.state, found.why) == (state, why)


def test_what_a_running_one_says():
    found = pod_state.read(
        status(
            {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            container={"ready": True, "restartCount": 1, "imageID": "docker-pullable://r/vllm@sha256:aa"},
        )
    )
    assert (found.ready, found.restarts, found.image, found.since) == (True, 1, "r/vllm@sha256:aa", 1767225600.0)
    going = status({"running": {}})
    going["metadata"] = {"deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {names.DRAINING: "true"}}
    found = pod_state.read(going)
    assert (found.going, found.draining, found.gone) == (True, True, False)
    assert pod_state.read(status({"terminated": {"exitCode": 0}})).gone
