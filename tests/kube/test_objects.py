# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members, records and locks as objects of a real API server. There is no kubelet: what it would say is written by the tests."""

from __future__ import annotations

import json
import threading
import time
import typing as t
import uuid

import pytest
from kube.server import Server
from planned import member, wanted

from ansible_collections.inferops.pd.plugins.module_utils._core.base.checked import DamagedError
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import names
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster.pod import Pods
from ansible_collections.inferops.pd.plugins.module_utils._host import lock
from ansible_collections.inferops.pd.plugins.module_utils._kube import api as apis
from ansible_collections.inferops.pd.plugins.module_utils._kube import observe
from ansible_collections.inferops.pd.plugins.module_utils._kube.api import Access, Api, ApiError, ConflictError
from ansible_collections.inferops.pd.plugins.module_utils._kube.driver import ClusterDriver
from ansible_collections.inferops.pd.plugins.module_utils._kube.namespace import Namespace
from ansible_collections.inferops.pd.plugins.module_utils._kube.store import ClusterStore
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import BusyError, HostError

pytestmark = pytest.mark.integration
PART = {
    "host": "k1/n1", "through": "k1", "rank": 0, "gpus": ["0"], "port": 28000, "ports": {}, "image": "registry.example/vllm:1",
    "argv": ["vllm", "serve"], "secrets": ["HF_TOKEN"],
}  # fmt: skip
RECORD = {"schema": 2, "group": "g", "formation": "f-1", "generation": 1, "serial": 1}


@pytest.fixture
def api(api_server: Server) -> Api:
    name = f"t-{uuid.uuid4().hex[:8]}"
    made = Api(Access(name, kubeconfig=str(api_server.kubeconfig())))
    made.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return made


@pytest.fixture
def namespace(api: Api, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    # Their nodes are not there: nobody schedules them, and who deletes one sees it gone at once.
    monkeypatch.setattr(ClusterDriver, "_unscheduled", lambda _driver, _members: {})
    return Namespace(api)


def one(name: str = "g-prefill-0", **changes: t.Any) -> t.Any:
    raw = {"id": name, "role": "prefill", "index": 0, "revision": "r", "parts": [{**PART, **changes}]}
    return member({**raw, "probe": {"url": "http://127.0.0.1:28000", "health": "/health", "limit": 60}})


def label(name: str, generation: int = 1) -> dict[str, t.Any]:
    return {
        "schema": 2, "group": "g", "member": name, "role": "prefill", "index": 0, "revision": "r", "generation": generation,
        "formation": "f-1", "created": time.time(), "gpus": ["0"], "port": 28000, "ports": {}, "url": "http://127.0.0.1:28000",
    }  # fmt: skip


def driver(namespace: Namespace) -> ClusterDriver:
    return ClusterDriver(namespace, lambda _part: Pods(namespace.namespace))


def create(namespace: Namespace, name: str = "g-prefill-0", secret: str = "s3cr3t", **changes: t.Any) -> t.Any:
    batch = [wanted(one(name, **changes).to_plain(), {"HF_TOKEN": secret})]
    (made,) = driver(namespace).create(batch, lambda _wanted: label(name))
    return made


def kubelet(namespace: Namespace, name: str, state: dict[str, t.Any], phase: str = "Running", **more: t.Any) -> None:
    """Say of a Pod what a kubelet would."""
    status = {
        "phase": phase,
        "containerStatuses": [
            {
                "name": "engine", "state": state, "ready": bool(more.get("ready")), "restartCount": 0, "lastState": {},
                "image": "x", "imageID": "docker-pullable://registry.example/vllm@sha256:aa",
            }
        ],
    }  # fmt: skip
    body = {"status": status}
    namespace.api.patch(namespace.path("pods", name, "status"), body)


def test_a_member_is_created_seen_and_removed(namespace: Namespace) -> None:
    assert create(namespace).error is None
    (found,) = driver(namespace).members()
    assert (found["label"]["member"], found["state"], found["why"]) == (
        "g-prefill-0",
        "running",
        "it waits for its node",
    )
    assert [one.node for one in namespace.pods()] == ["n1"]
    kubelet(namespace, "g-prefill-0", {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, ready=True)
    (found,) = driver(namespace).members()
    assert (found["state"], found["since"]) == ("running", 1767225600.0)
    kubelet(namespace, "g-prefill-0", {"terminated": {"exitCode": 1, "reason": "Error"}}, phase="Failed")
    (found,) = driver(namespace).members()
    assert (found["state"], found["exit"], found["why"]) == ("exited", 1, "exited with status 1")
    driver(namespace).remove("g", "g-prefill-0", 1)
    driver(namespace).remove("g", "g-prefill-0", 1)
    assert namespace.pods() == [] or namespace.pods()[0].state.gone


def test_what_is_secret_is_in_the_secret_alone(namespace: Namespace) -> None:
    create(namespace)
    (found,) = namespace.pods()
    assert "s3cr3t" not in json.dumps(found.pod)
    secret = namespace.api.get(namespace.path("secrets", "pd-g-1-prefill"))
    assert set(secret["data"]) == {"HF_TOKEN"}
    assert "managedFields" not in secret or "s3cr3t" not in json.dumps(secret["metadata"]["managedFields"])


def test_a_name_is_given_once(namespace: Namespace) -> None:
    create(namespace)
    again = create(namespace)
    assert again.error is not None
    assert "a Pod of this name is there already" in again.error


def test_what_the_server_refuses_is_told_by_its_field(namespace: Namespace) -> None:
    made = create(namespace, image="")
    assert made.error == "Member g-prefill-0 has no image."
    made = create(namespace, name="g-prefill-1", argv=["x"], limits={"memory": "1GiB", "shm": "-3"})
    assert made.error is not None
    assert "-3" in made.error


def test_a_record_is_written_read_and_believed_or_not(namespace: Namespace) -> None:
    store = ClusterStore(namespace)
    assert store.record("g") is None
    store.write_record("g", RECORD)
    store.write_record("g", {**RECORD, "serial": 2})
    found = store.record("g")
    assert found is not None
    assert found["serial"] == 2
    assert set(store.records()) == {"g"}
    namespace.api.patch(namespace.path("configmaps", "pd-g"), {"data": {"record": "{"}})
    # The other copy stands.
    assert store.record("g") == found
    assert namespace.records() == ({"g": found}, [])
    namespace.api.patch(namespace.path("configmaps", "pd.g"), {"data": {"record": "{"}})
    with pytest.raises(DamagedError, match=r"ConfigMap t-\w+/pd\.g"):
        store.record("g")
    found_all, damaged = namespace.records()
    assert (found_all, [one.group for one in damaged]) == ({}, ["g"])


def test_one_of_two_runs_gets_the_lock(namespace: Namespace) -> None:
    stores = [ClusterStore(Namespace(namespace.api)) for _number in range(4)]
    barrier, got = threading.Barrier(len(stores)), []

    def take(number: int) -> None:
        holder = {"run": f"run-{number}", "who": f"ops pid {number}", "ttl": 300}
        found = stores[number].group_lock("g")
        barrier.wait()
        try:
            stores[number].write_lock("g", lock.taken(found, holder, "g", time.time()))
            got.append(number)
        except BusyError:
            pass

    threads = [threading.Thread(target=take, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (winner,) = got
    seen = stores[0].group_lock("g")
    assert seen is not None
    assert seen["run"] == f"run-{winner}"
    assert lock.release(stores[winner], "g", {"run": f"run-{winner}", "who": "x"})
    assert stores[0].group_lock("g") is None


def test_a_lock_that_was_taken_over_is_not_given_back_by_the_one_before(namespace: Namespace) -> None:
    first, second = ClusterStore(Namespace(namespace.api)), ClusterStore(Namespace(namespace.api))
    mine, other = {"run": "a", "who": "a", "ttl": 1}, {"run": "b", "who": "b", "ttl": 300}
    first.write_lock("g", lock.taken(first.group_lock("g"), mine, "g", time.time() - 100))
    second.write_lock("g", lock.taken(second.group_lock("g"), other, "g", time.time()))
    assert not lock.release(first, "g", mine)
    found = second.group_lock("g")
    assert found is not None
    assert found["run"] == "b"


def test_holds_stay_when_a_group_is_forgotten(namespace: Namespace) -> None:
    store = ClusterStore(namespace)
    hold = {"group": "g", "member": "g-decode-0", "formation": "f", "ports": [28001], "since": 1.0}
    store.write_holds("h", [])
    store.write_holds("g", [hold])
    store.write_holds("h", [{**hold, "group": "h"}])
    store.delete_group("g")
    assert (store.holds("g"), len(store.holds())) == ([hold], 2)
    store.write_holds("g", [])
    assert [one["group"] for one in store.holds()] == ["h"]


def test_a_group_that_is_forgotten_leaves_nothing(namespace: Namespace) -> None:
    store = ClusterStore(namespace)
    create(namespace)
    store.write_record("g", RECORD)
    kubelet(namespace, "g-prefill-0", {"terminated": {"exitCode": 0}}, phase="Succeeded")
    driver(namespace).remove("g", "g-prefill-0", 1)
    store.delete_group("g")
    for kind in ("configmaps", "secrets"):
        left = namespace.api.listed(namespace.path(kind), labelSelector=names.SELECTOR)
        assert [one["metadata"]["name"] for one in left] == []


def test_nodes_are_hosts_of_a_plan(namespace: Namespace) -> None:
    node = f"n-{uuid.uuid4().hex[:6]}"
    namespace.api.create("/api/v1/nodes", {"metadata": {"name": node, "labels": {"test": namespace.namespace}}})
    status = {
        "allocatable": {"nvidia.com/gpu": "4"},
        "addresses": [{"type": "InternalIP", "address": "10.9.9.9"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    namespace.api.patch(f"/api/v1/nodes/{node}/status", {"status": {**status, "capacity": status["allocatable"]}})
    wanted_nodes = [observe.Nodes(names=(node,))]
    told = observe.observe(observe.Request("k1", nodes=wanted_nodes), namespace.api)
    assert list(told["nodes"]) == [node]
    facts = told["nodes"][node]
    assert facts["node"]["cluster"] == "k1"
    assert (facts["address"], len(facts["gpus"]), facts["silent"], facts["cordon"]) == ("10.9.9.9", 4, "", None)
    namespace.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    told = observe.observe(observe.Request("k1", nodes=wanted_nodes), namespace.api)
    assert told["nodes"][node]["cordon"]["why"] == "unschedulable"
    with pytest.raises(HostError, match=r"Run kubectl cordon NODE"):
        ClusterStore(namespace).write_cordon({"by": "me"})


# -- the API's faults ----------------------------------------------------------------------------------------------------------------------


def test_who_has_no_right_is_told_which(api_server: Server, namespace: Namespace) -> None:
    stranger = Api(Access(namespace.namespace, kubeconfig=str(api_server.kubeconfig("nobody"))))
    with pytest.raises(ApiError, match=r'"nobody" cannot list resource "pods".*pd_show_rbac') as found:
        Namespace(stranger).pods()
    assert found.value.status == 403


def test_a_wrong_token_an_unknown_name_and_a_closed_port(api_server: Server) -> None:
    wrong = Api(Access("x", host=api_server.url, api_key="wrong", verify_ssl=False))
    with pytest.raises(ApiError, match=r"renew the credential"):
        wrong.get("/api/v1/nodes")
    with pytest.raises(ApiError, match=r"certificate of https://127\.0\.0\.1:\d+ is not one that is trusted here"):
        Api(Access("x", host=api_server.url, api_key="wrong")).call("GET", "/version", deadline=1)
    with pytest.raises(ApiError, match=r"refuses connections"):
        Api(Access("x", host="https://127.0.0.1:1", verify_ssl=False)).call("GET", "/version", deadline=1)
    with pytest.raises(HostError, match=r"Reading how the cluster is reached"):
        Api(Access("x", kubeconfig="/nowhere")).get("/version")


def test_lists_come_in_pages(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apis, "PAGE", 2)
    for number in range(5):
        ClusterStore(namespace).write_record(f"g{number}", {**RECORD, "group": f"g{number}"})
    assert len(namespace.records()[0]) == 5


def test_a_conflict_is_its_own_error(namespace: Namespace) -> None:
    body = {"metadata": {"name": "x", "namespace": namespace.namespace}}
    namespace.api.create(namespace.path("configmaps"), body)
    with pytest.raises(ConflictError):
        namespace.api.create(namespace.path("configmaps"), body)


def test_a_dry_run_makes_nothing(namespace: Namespace) -> None:
    namespace.api.create(namespace.path("configmaps"), {"metadata": {"name": "dry"}}, dry=True)
    assert namespace.api.find(namespace.path("configmaps", "dry")) is None
