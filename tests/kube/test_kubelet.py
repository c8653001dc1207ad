# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for kubelet: that it does with Pods what other tests take from it."""

from __future__ import annotations

import sys
import time
import typing as t
import uuid

import pytest
from kube.kubelet import Image, Kubelet, Nodes, expanded
from kube.server import Server
from ports import free_ports

from ansible_collections.inferops.pd.plugins.module_utils._kube.api import Access, Api, path_of

pytestmark = pytest.mark.integration
IMAGE = "registry.example/all:1"


@pytest.fixture
def api(api_server: Server) -> Api:
    name = f"t-{uuid.uuid4().hex[:8]}"
    made = Api(Access(name, kubeconfig=str(api_server.kubeconfig())))
    made.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return made


@pytest.fixture
def node(kube_nodes: Nodes) -> Kubelet:
    return kube_nodes(images={IMAGE: Image(path=(f"{sys.prefix}/bin",))}, allocatable={"nvidia.com/gpu": "2"})


def wait_for(what: t.Callable[[], t.Any], name: str) -> t.Any:
    """What it returns, once that is true."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited for {name} in vain")


def run(api: Api, name: str, script: str, spec: dict[str, t.Any] | None = None, **container: t.Any) -> None:
    body = {
        "metadata": {"name": name, "annotations": {"note": "said so\n"}},
        "spec": {
            "hostNetwork": True,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "engine", "image": IMAGE, "command": ["/bin/sh", "-c", script], **container}],
            **(spec or {}),
        },
    }
    api.create(path_of("pods", api.namespace), body)


def see(api: Api, name: str, what: t.Callable[[dict[str, t.Any]], t.Any]) -> t.Any:
    """Wait until the Pod's status is so."""
    path = path_of("pods", api.namespace, name)
    return wait_for(lambda: what(api.get(path)["status"]), f"Pod {name}")


def state(status: dict[str, t.Any]) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", (status.get("containerStatuses") or [{}])[0].get("state") or {})


def log(api: Api, name: str, **asked: t.Any) -> str:
    return api.text(path_of("pods", api.namespace, name, "log"), **asked)


def test_a_pod_runs_to_its_end_and_its_log_is_read(api: Api, node: Kubelet) -> None:
    run(api, "ends", "echo one; echo two; exit 3", terminationMessagePolicy="FallbackToLogsOnError")
    end = see(api, "ends", lambda status: state(status).get("terminated"))
    assert (end["exitCode"], end["reason"], end["message"]) == (3, "Error", "one\ntwo\n")
    assert see(api, "ends", lambda status: status["phase"]) == "Failed"
    assert (log(api, "ends"), log(api, "ends", tailLines=1)) == ("one\ntwo\n", "two\n")
    api.delete(path_of("pods", api.namespace, "ends"))
    wait_for(lambda: api.find(path_of("pods", api.namespace, "ends")) is None, "the end of the object")


def test_volumes_and_environment_are_the_containers_own(api: Api, node: Kubelet) -> None:
    api.create(path_of("secrets", api.namespace), {"metadata": {"name": "s"}, "stringData": {"key": "s3cr3t"}})
    api.create(path_of("configmaps", api.namespace), {"metadata": {"name": "c"}, "binaryData": {"code": "AAEC"}})
    run(
        api, "sees", "cat /run/mine/note; od -An -tx1 /run/code/code; echo $KEY $(pwd) $WHERE '$(WHERE)'; ls /run; touch /run/mine/x",
        {
            "volumes": [
                {"name": "d", "downwardAPI": {"items": [{"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}}]}},
                {"name": "c", "configMap": {"name": "c"}},
            ]
        },
        env=[
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
            {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        volumeMounts=[{"name": "d", "mountPath": "/run/mine", "readOnly": True}, {"name": "c", "mountPath": "/run/code"}],
        workingDir="/usr",
    )  # fmt: skip
    see(api, "sees", lambda status: state(status).get("terminated"))
    lines = log(api, "sees").splitlines()
    # Kubelet expands names in a command, before any shell.
    assert lines[:5] == ["said so", " 00 01 02", f"s3cr3t /usr {node.name} {node.name}", "code", "mine"]
    assert "Read-only" in lines[5]


def test_readiness_is_asked_and_a_pod_that_is_deleted_ends_in_time(api: Api, node: Kubelet) -> None:
    (port,) = free_ports(1)
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    run(api, "serves", f"trap '' TERM; python -m http.server {port} --bind 127.0.0.1", readinessProbe=probe)
    see(api, "serves", lambda status: (status.get("containerStatuses") or [{}])[0].get("ready"))
    pid = node.pid("serves", api.namespace)
    assert pid is not None
    api.delete(path_of("pods", api.namespace, "serves"))
    wait_for(lambda: api.find(path_of("pods", api.namespace, "serves")) is None, "the end of the object")
    assert node.pid("serves", api.namespace) is None


def test_a_node_out_of_sight_keeps_what_runs_and_one_that_boots_does_not(api: Api, node: Kubelet) -> None:
    run(api, "stays", "sleep 300")
    see(api, "stays", lambda status: state(status).get("running"))
    node.part()
    run(api, "later", "sleep 300")
    assert node.pid("stays", api.namespace)
    node.back()
    see(api, "later", lambda status: state(status).get("running"))
    node.reboot(again=True)
    see(
        api,
        "stays",
        lambda status: status["containerStatuses"][0]["restartCount"] == 1 and state(status).get("running"),
    )
    node.reboot(again=False)
    assert see(api, "stays", lambda status: status.get("reason") == "NodeRebooted" and status["phase"]) == "Failed"


def test_what_cannot_be_made_says_why(api: Api, node: Kubelet) -> None:
    run(api, "no-image", "true", image="registry.example/none:1")
    assert "none:1" in see(api, "no-image", lambda status: state(status).get("waiting", {}).get("message"))
    run(api, "never", "true", image="registry.example/none:1", imagePullPolicy="Never")
    see(api, "never", lambda status: state(status).get("waiting", {}).get("reason") == "ErrImageNeverPull")
    run(api, "no-program", "true", command=["nothing-of-that-name"])
    assert "executable file not found" in see(
        api, "no-program", lambda status: state(status).get("terminated", {}).get("message")
    )
    run(api, "no-secret", "true", env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "a"}}}])
    see(api, "no-secret", lambda status: state(status).get("waiting", {}).get("reason") == "CreateContainerConfigError")
    run(api, "late", "sleep 300", {"activeDeadlineSeconds": 1})
    see(api, "late", lambda status: status.get("reason") == "DeadlineExceeded")
    run(api, "too-many", "true", resources={"limits": {"nvidia.com/gpu": "3"}})
    found = see(
        api,
        "too-many",
        lambda status: [one for one in status.get("conditions") or () if one.get("reason") == "Unschedulable"],
    )
    assert "Insufficient nvidia.com/gpu" in found[0]["message"]


def test_words_are_expanded_as_kubelet_does() -> None:
    assert expanded("$(A) $$(A) $(B) $x", {"A": "1"}) == "1 $(A) $(B) $x"
