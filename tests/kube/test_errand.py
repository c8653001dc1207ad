# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errands on a real API server, with the stand-in for kubelet: what they answer, how they fail, and that nothing of them is left."""

from __future__ import annotations

import json
import sys
import threading
import typing as t
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from integration.test_group_proof import Engines
from kube.kubelet import Image, Kubelet, Nodes
from kube.server import Server

from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import errand_pod, names, rights
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster.errand_pod import Errand
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster.pod import Pods
from ansible_collections.inferops.pd.plugins.module_utils._kube import errand as sending
from ansible_collections.inferops.pd.plugins.module_utils._kube import observe
from ansible_collections.inferops.pd.plugins.module_utils._kube.api import Access, Api, path_of
from ansible_collections.inferops.pd.plugins.module_utils._kube.beside import Beside
from ansible_collections.inferops.pd.plugins.module_utils._kube.code import code
from ansible_collections.inferops.pd.plugins.module_utils._kube.driver import ClusterDriver
from ansible_collections.inferops.pd.plugins.module_utils._kube.errand import Errands, Outcome
from ansible_collections.inferops.pd.plugins.module_utils._kube.looking import Look, look
from ansible_collections.inferops.pd.plugins.module_utils._kube.namespace import Namespace
from ansible_collections.inferops.pd.plugins.module_utils._kube.reach import ByErrand, from_here
from ansible_collections.inferops.pd.plugins.module_utils._probes import credentials
from ansible_collections.inferops.pd.plugins.module_utils._probes import model as models
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError

pytestmark = pytest.mark.integration
IMAGE = "registry.example/engine:1"
KEY = "k3y-of-the-router"


@pytest.fixture
def api(api_server: Server) -> Api:
    name = f"t-{uuid.uuid4().hex[:8]}"
    made = Api(Access(name, kubeconfig=str(api_server.kubeconfig())))
    made.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return made


@pytest.fixture
def errands(api: Api) -> Errands:
    return Errands(Namespace(api), Pods(api.namespace))


@pytest.fixture
def node(kube_nodes: Nodes) -> Kubelet:
    return kube_nodes(images={IMAGE: Image(path=(f"{sys.prefix}/bin",)), "bare:1": Image(bare=True)})


def run(errands: Errands, **words: t.Any) -> Outcome:
    (found,) = errands.run([Errand(**words)])
    return found


def left(api: Api) -> list[str]:
    """Objects of errands that are in the namespace; a Pod that is being deleted is not."""
    found = []
    for kind in ("pods", "secrets"):
        for one in api.listed(f"/api/v1/namespaces/{api.namespace}/{kind}", labelSelector=names.ERRAND):
            if not one["metadata"].get("deletionTimestamp"):
                found.append(f"{kind}/{one['metadata']['name']}")
    return found


def test_a_node_is_looked_at_as_a_host_is(
    api: Api, errands: Errands, node: Kubelet, model: Path, tmp_path: Path
) -> None:
    one = Look(node.name, IMAGE, "28000-28010", "127.0.0.1", models=(str(model),), executables=("python3",))
    none = Look(node.name, IMAGE, "28000-28010", "127.0.0.1", models=(str(tmp_path / "none"),))
    seen, problems = look(errands, [one])
    assert problems == {}
    facts = seen[node.name]
    assert facts["models"] == {str(model): models.facts(str(model))}
    assert facts["ports"]["range"] == "28000-28010"
    assert facts["executables"]["python3"]["exists"]
    request = observe.Request("k1", nodes=[observe.Nodes(names=(node.name,))], looked=seen)
    told = observe.observe(request, api)["nodes"][node.name]
    same = ("kv_interface", "kv_interfaces", "interfaces", "rdma_devices", "models", "executables")
    assert {key: told[key] for key in same} == {key: facts[key] for key in same}
    assert (told["ports"]["used"], told["address"]) == (facts["ports"]["used"], "127.0.0.1")
    seen, problems = look(errands, [none])
    assert problems == {}
    assert seen[node.name]["models"][str(tmp_path / "none")] == {
        "exists": False, "fingerprint": None, "config": None, "weights": None, "why": "there is no such directory on the node",
    }  # fmt: skip
    assert left(api) == []
    assert [one.name for one in Namespace(api).pods()] == []


def test_the_printed_rights_are_enough(
    api_server: Server, api: Api, node: Kubelet, registry: _Registry, tmp_path: Path
) -> None:
    subject = {"kind": "User", "name": "deployer", "apiGroup": "rbac.authorization.k8s.io"}
    for one in rights.objects(api.namespace):
        if one["kind"] in ("Role", "RoleBinding"):
            its = {**one, "subjects": [subject]} if "subjects" in one else one
            api.create(path_of(f"rbac.authorization.k8s.io/v1/{one['kind'].lower()}s", api.namespace), its)
    own = Api(Access(api.namespace, kubeconfig=str(api_server.kubeconfig("deployer"))))
    errands = Errands(Namespace(own), Pods(api.namespace))
    seen, problems = look(errands, [Look(node.name, IMAGE, "28000-28010", models=(str(tmp_path / "none"),))])
    assert problems == {}
    assert not seen[node.name]["models"][str(tmp_path / "none")]["exists"]
    asked = {"url": registry.url, "dialect": "vllm-router", "model": "m", "peers": [], "timeout": 5, "settle": 1}
    told = Beside(errands, node.name, IMAGE, "g").register(asked, False, {registry.url: [KEY]})
    assert not told["failed"], told["msg"]
    assert left(api) == []
    assert errands.sweep() == []
    errands.namespace.forget("nobody")


class _Registry(ThreadingHTTPServer):
    """A router's registry that asks for a key."""

    def __init__(self) -> None:
        self.workers: list[dict[str, t.Any]] = []
        self.keys: set[str | None] = set()
        super().__init__(("127.0.0.1", 0), _Worker)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Worker(BaseHTTPRequestHandler):
    server: _Registry

    def do_GET(self) -> None:
        self._answer({"workers": self.server.workers})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._answer({"status": "ok"}):
            self.server.workers.append(
                {
                    "url": body["url"],
                    "worker_type": body.get("worker_type"),
                    "is_healthy": True,
                    "id": "1",
                    "model_id": body.get("model_id"),
                }
            )

    def _answer(self, said: dict[str, t.Any]) -> bool:
        given = self.headers.get("Authorization")
        self.server.keys.add(given)
        ok = given == f"Bearer {KEY}"
        body = json.dumps(said if ok else {"error": "who are you?"}).encode()
        self.send_response(200 if ok else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return ok

    def log_message(self, *_words: t.Any) -> None:
        pass


@pytest.fixture
def registry() -> t.Iterator[_Registry]:
    made = _Registry()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()


def test_a_router_is_told_its_peers_with_a_key_that_nobody_sees(
    api: Api, errands: Errands, node: Kubelet, registry: _Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    create = Api.create

    def seen(self: Api, path: str, body: t.Any, dry: bool = False) -> dict[str, t.Any]:
        written.append((path.rpartition("/")[2], json.dumps(body)))
        return create(self, path, body, dry)

    monkeypatch.setattr(Api, "create", seen)
    peer = {"member": "g-prefill-0", "role": "prefill", "url": "http://127.0.0.1:1", "ports": {}}
    asked = {"url": registry.url, "dialect": "vllm-router", "model": "m", "peers": [peer], "timeout": 5, "settle": 1}
    beside = Beside(errands, node.name, IMAGE, "g")
    monkeypatch.setattr(Beside, "of", lambda _namespace, _group=None: beside)
    tell = ByErrand(errands.namespace).register("g")
    peers = tell({**asked, "keys": {"prefill": KEY, "router": KEY}}, False, lambda: None)
    assert (peers["failed"], peers["added"], peers["confirmed"]) == (False, [peer["url"]], [peer["url"]])
    assert f"Bearer {KEY}" in registry.keys
    assert [kind for kind, body in written if KEY in body] == ["secrets"]
    assert left(api) == []


def test_a_router_that_is_reached_from_here_is_lent_its_key_too(
    registry: _Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process, where the key would be read, is of another machine."""
    monkeypatch.setattr(credentials, "_is_here", lambda _host: False)
    monkeypatch.setattr(credentials, "_LENT", {})
    asked = {"url": registry.url, "dialect": "vllm-router", "model": "m", "peers": [], "timeout": 5, "settle": 1}
    without = from_here("g")({**asked, "keys": {"prefill": KEY}}, False, lambda: None)
    assert (without["failed"], "401" in without["msg"]) == (True, True)
    told = from_here("g")({**asked, "keys": {"router": KEY}}, False, lambda: None)
    assert not told["failed"], told["msg"]
    assert KEY not in json.dumps([without, told])


def test_a_proof_is_what_it_is_on_a_host(errands: Errands, node: Kubelet) -> None:
    engines = Engines()
    try:
        engines.start("prefill-0", "kv_producer")
        engines.start("decode-0", "kv_consumer")
        engines.start("decode-recompute", "kv_consumer", STANDIN_RECOMPUTE="1")
        workloads = [
            {"group": decode, "plan": engines.plan("prefill-0", decode)} for decode in ("decode-0", "decode-recompute")
        ]
        found = Beside(errands, node.name, IMAGE, "g").prove_all(workloads, {})
    finally:
        for process in engines.processes:
            process.kill()
            process.wait(10)
    assert found["decode-0"]["good"], found["decode-0"]["msg"]
    (pair,) = found["decode-0"]["pairs"]
    assert pair["prompt_tokens"] == pair["transferred_tokens"] > 150
    assert not found["decode-recompute"]["good"]


def test_who_cannot_be_sent_is_a_result_that_has_failed(errands: Errands, node: Kubelet) -> None:
    beside = Beside(errands, node.name, "registry.example/none:1", "g")
    url, member = "http://127.0.0.1:1", {"label": {"member": "g-decode-0"}, "seconds": 1}
    why = f"Errand %s on {node.name}: image registry.example/none:1 is not on the node"
    told = beside.register({"url": url, "dialect": "vllm-router", "model": "m"}, False)
    assert told["failed"]
    assert told["msg"].startswith(f"The router at {url} could not be told its members. {why % 'router'}")
    assert beside.leave(None, [member])[1]["g-decode-0"].startswith(f"it could not be asked. {why % 'leave'}")
    proof = beside.prove_all([{"group": "g", "plan": {}}], {})["g"]
    assert (proof["good"], proof["failed"]) == (False, True)
    assert proof["why"].startswith(why % "proof")


def test_nodes_try_each_other(api: Api, errands: Errands, kube_nodes: Nodes) -> None:
    images = {IMAGE: Image(path=(f"{sys.prefix}/bin",))}
    here, there = (kube_nodes(address=f"127.0.3.{n}", images=images) for n in (1, 2))
    common: dict[str, t.Any] = {"token": "t0k3n", "seconds": 60}
    order = {**common, "task": {"high": [there.address], "expect": [here.name]}, "name": "pd-test"}
    with errands.standing([Errand("listen", there.name, IMAGE, order)]) as (stands,):
        assert stands.error == ""
        port = stands.result["listening"]["random"][there.address]
        place = {"address": there.address, "ports": [port, 1], "ours": True}
        task = {"name": here.name, "connect": [{"name": there.name, "places": [place]}]}
        found = run(errands, kind="connect", node=here.name, image=IMAGE, order={**common, "task": task})
        assert found.error == ""
        peer = found.result["peers"][there.name]
        assert (peer["tried"], [one["port"] for one in peer["failed"]]) == (2, [1])
        assert len(left(api)) == 1, "who listens is still there"
    assert left(api) == []


def test_each_failure_is_one_sentence(
    api: Api, errands: Errands, node: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "SCHEDULE", 1.0)
    monkeypatch.setattr(sending, "_QUIET", 0.5)
    its: dict[str, t.Any] = {"kind": "look", "node": node.name, "order": {"ports": "28000-28010"}}
    told = {
        "no image": run(errands, **its, image="registry.example/none:1"),
        "not pulled": run(errands, **its, image="registry.example/none:1", pull=False),
        "no python": run(errands, **its, image="bare:1"),
        "no node": run(errands, **{**its, "node": "nowhere"}, image=IMAGE),
        "its own": run(errands, **{**its, "order": {"ports": "x"}}, image=IMAGE),
        "no kind": run(errands, **{**its, "kind": "dance"}, image=IMAGE),
    }
    start = f"Errand look on {node.name}: "
    assert told["no image"].error.startswith(start + "image registry.example/none:1 cannot be pulled (")
    assert told["not pulled"].error.startswith(
        start + "image registry.example/none:1 is not on the node. Nothing is pulled"
    )
    assert told["no python"].error.startswith(start + "its image has no python3. Errands need Python >= 3.9")
    assert told["no node"].error.startswith("Errand look on nowhere: no node takes it (0/")
    assert told["its own"].error.startswith(start + "pd_nodes: port_range: 'x' is no port range.")
    assert "'dance' is no kind of errand. Known: connect, leave, listen, look" in told["no kind"].error
    assert left(api) == []


def test_one_that_takes_too_long_ends(api: Api, errands: Errands, node: Kubelet, registry: _Registry) -> None:
    asked = {"url": "http://127.0.0.1:1", "dialect": "vllm-router", "model": "m", "peers": [], "timeout": 120}
    found = run(errands, kind="router", node=node.name, image=IMAGE, order={"peers": asked}, seconds=3)
    assert found.error.startswith(f"Errand router on {node.name}: it did not end within 3 s. ")
    assert found.word == "DeadlineExceeded"
    assert left(api) == []


def test_an_order_that_is_large_goes_the_way_of_a_secret(errands: Errands, node: Kubelet) -> None:
    order = {"ports": "28000-28010", "models": [f"/none/{'x' * 4000}-{n}" for n in range(40)]}
    assert len(json.dumps(order)) > errand_pod.ORDER_LIMIT
    found = run(errands, kind="look", node=node.name, image=IMAGE, order=order)
    assert found.error == ""
    assert len(found.result["models"]) == 40


def test_what_a_killed_run_has_left_is_swept(api: Api, errands: Errands, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a node that is not there: nobody ends it."""
    made = Errand("look", "nowhere", IMAGE, {"ports": "28000-28010"}, secrets={"keys": {}}, seconds=60)
    errands._send(made, "abc", errand_pod.names.of_code(code().digest))
    assert sorted(left(api)) == ["pods/pd-errand-abc", "secrets/pd-errand-abc"]
    driver = ClusterDriver(errands.namespace, lambda _part: errands.pods)
    driver.sweep()
    assert sorted(left(api)) == ["pods/pd-errand-abc", "secrets/pd-errand-abc"]
    monkeypatch.setattr(sending, "_LEFT", -70.0)
    # What runs do at their ends.
    driver.sweep()
    assert left(api) == []


def test_the_code_is_one_object_that_goes_with_the_last_group(api: Api, errands: Errands, node: Kubelet) -> None:
    for _time in range(2):
        run(errands, kind="look", node=node.name, image=IMAGE, order={"ports": "28000-28010"})
    held = api.listed(errands.namespace.path("configmaps"), labelSelector=names.CODE)
    assert [one["metadata"]["name"] for one in held] == [f"pd-code-{code().digest}"]
    assert held[0]["immutable"]
    errands.namespace.forget("nobody")
    named = {key: held[0]["metadata"][key] for key in ("name", "labels")}
    other = {"metadata": named, "binaryData": {"errand.zip": "AAEC"}}
    api.create(errands.namespace.path("configmaps"), other)
    with pytest.raises(HostError, match=r"ConfigMap t-\w+/pd-code-\w+ is not the code that its name says. Delete it"):
        run(errands, kind="look", node=node.name, image=IMAGE, order={"ports": "28000-28010"})
    errands.namespace.forget("nobody")
    assert api.listed(errands.namespace.path("configmaps"), labelSelector=names.CODE) == []
