# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for kubelet: it runs the Pods of a node as processes of this machine, and tells the API server what a kubelet would.

What it can: commands, args and env as kubelet expands them, secrets, config maps, downward API, emptyDir and hostPath as mounts
(rooted.py), readiness by httpGet and tcpSocket, logs, restarts, deadlines, and the end of a Pod by SIGTERM and SIGKILL. What it cannot
it refuses by name. An image is a row of `images`; all of them have this machine's files. The network is this machine's: hostNetwork."""

from __future__ import annotations

import base64
import contextlib
import datetime
import http.server
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import typing as t
import urllib.error
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .rooted import Mount, Rooted
from .server import Server

TICK = 0.2
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KNOWN = {
    "name",
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "env",
    "ports",
    "resources",
    "volumeMounts",
    "readinessProbe",
    "workingDir",
}
_IGNORED = {"securityContext", "terminationMessagePath", "terminationMessagePolicy"}


@dataclass(frozen=True)
class Image:
    """What a node knows of an image: where its programs are, before those of the machine, or `bare` without these. `here`: the node has
    it; else the first Pod that may pulls it."""

    path: tuple[str, ...] = ()
    env: t.Mapping[str, str] = field(default_factory=dict)
    here: bool = True
    bare: bool = False

    @property
    def search(self) -> str:
        return ":".join([*self.path, *(() if self.bare else (_PATH,))])


class WaitError(Exception):
    """Why a container is not made yet, in the words of a kubelet; it is tried again. `event`: it is told as an event, not in the status."""

    def __init__(self, reason: str, message: str, event: bool = False) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message, self.event = reason, message, event


class Client:
    """The API, as the administrator."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def call(self, verb: str, path: str, body: t.Any = None, kind: str = "application/json") -> dict[str, t.Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", "Content-Type": kind}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._url + path, data, headers, method=verb)
        with urllib.request.urlopen(request, timeout=20, context=self._context) as answer:
            return t.cast("dict[str, t.Any]", json.loads(answer.read() or b"{}"))

    def patch(self, path: str, body: t.Any) -> dict[str, t.Any]:
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def find(self, path: str) -> dict[str, t.Any] | None:
        try:
            return self.call("GET", path)
        except urllib.error.HTTPError as exc:
            if exc.code == 404:
                return None
            raise


class Kubelet:
    """One node. `images` may be changed while it runs."""

    def __init__(
        self,
        server: Server,
        name: str,
        folder: Path,
        address: str = "127.0.0.1",
        images: t.Mapping[str, Image] | None = None,
        labels: t.Mapping[str, str] | None = None,
        allocatable: t.Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.folder, self.address = name, folder, address
        self.images: dict[str, Image] = dict(images or {})
        self.client = Client(server.url, server.token)
        self.boot = uuid.uuid4().hex
        self._labels, self._allocatable = dict(labels or {}), dict(allocatable or {})
        self._workers: dict[str, Worker] = {}
        self._mutex = threading.Lock()
        self._ending, self._apart = threading.Event(), threading.Event()
        self._loop = threading.Thread(target=self._run, name=f"kubelet-{name}", daemon=True)
        self._https = _serve(self, folder, address)

    # -- what tests do with it ---------------------------------------------------------------------------------------------------------

    def start(self) -> Kubelet:
        meta = {"name": self.name, "labels": {"kubernetes.io/hostname": self.name, **self._labels}}
        self.client.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        self.report()
        # What the controller of nodes would take away as soon as the node is Ready.
        self.client.patch(f"/api/v1/nodes/{self.name}", {"spec": {"taints": None}})
        self._loop.start()
        return self

    def stop(self) -> None:
        """End all that runs, and the node."""
        self._ending.set()
        self._loop.join(30)
        for worker in self.workers():
            worker.kill()
        for worker in self.workers():
            worker.join()
        self._https.shutdown()
        self._https.server_close()
        with contextlib.suppress(OSError):
            self.client.call("DELETE", f"/api/v1/nodes/{self.name}")

    def report(self, ready: bool = True) -> None:
        """Write the node's status; not ready as the controller of nodes writes it when nothing is heard of it."""
        stamp = _now()
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi", **self._allocatable}
        status = {
            "capacity": room,
            "allocatable": room,
            "addresses": [{"type": "InternalIP", "address": self.address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._https.server_port}},
            "nodeInfo": {
                "bootID": self.boot, "machineID": self.name, "systemUUID": self.name, "kernelVersion": "0", "osImage": "stand-in",
                "containerRuntimeVersion": "standin://1", "kubeletVersion": "v1.20.2", "kubeProxyVersion": "v1.20.2",
                "operatingSystem": "linux", "architecture": "amd64",
            },
            "images": [{"names": [name], "sizeBytes": 1} for name, image in sorted(self.images.items()) if image.here],
            "conditions": [
                {
                    "type": "Ready", "status": "True" if ready else "Unknown", "lastHeartbeatTime": stamp, "lastTransitionTime": stamp,
                    "reason": "KubeletReady" if ready else "NodeStatusUnknown",
                    "message": "" if ready else "Kubelet stopped posting node status.",
                }
            ],
        }  # fmt: skip
        self.client.patch(f"/api/v1/nodes/{self.name}/status", {"status": status})

    def part(self) -> None:
        """Lose the API server: what runs runs on, and nothing is told or done. The node is seen not ready."""
        self._apart.set()
        self.report(ready=False)

    def back(self) -> None:
        self._apart.clear()
        self.report()

    def reboot(self, again: bool = True) -> None:
        """All that runs is gone with the machine. `again`: containers are started a second time, as kubelet does when it does not know
        that they have ended; else their Pods have failed."""
        self.boot = uuid.uuid4().hex
        for worker in self.workers():
            worker.lose(again)
        self.report()

    def pid(self, pod: str, namespace: str) -> int | None:
        """The process that is number 1 of a Pod's container."""
        found = self.worker(namespace, pod)
        return found.pid if found else None

    # -- Pods --------------------------------------------------------------------------------------------------------------------------

    def workers(self) -> list[Worker]:
        with self._mutex:
            return list(self._workers.values())

    def worker(self, namespace: str, pod: str) -> Worker | None:
        """Of two of a name the one that came last."""
        return next((one for one in reversed(self.workers()) if (one.namespace, one.name) == (namespace, pod)), None)

    @property
    def apart(self) -> bool:
        return self._apart.is_set()

    def _run(self) -> None:
        while not self._ending.wait(TICK):
            if not self.apart:
                # A server that is being stopped, or that a test has taken down: as a kubelet, it is asked again.
                with contextlib.suppress(OSError, ValueError):
                    self._sync()

    def _sync(self) -> None:
        listed = self.client.call("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}")
        pods = {pod["metadata"]["uid"]: pod for pod in listed["items"]}
        for uid, pod in pods.items():
            worker = self._workers.get(uid)
            if worker is None:
                worker = Worker(self, pod)
                with self._mutex:
                    self._workers[uid] = worker
                worker.start()
            worker.told(pod)
        for uid in set(self._workers) - set(pods):
            with self._mutex:
                gone = self._workers.pop(uid)
            gone.kill()


class Worker:
    """One Pod, from its first start to its end."""

    def __init__(self, kubelet: Kubelet, pod: dict[str, t.Any]) -> None:
        self.kubelet, self.pod = kubelet, pod
        self.name, self.namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        self.uid = pod["metadata"]["uid"]
        self.folder = kubelet.folder / f"pod-{self.uid}"
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self._thread = threading.Thread(target=self._run, name=f"pod-{self.name}", daemon=True)
        self._gone, self._lost = threading.Event(), threading.Event()
        # Beyond its deadline.
        self._over = self._again = False
        self._process: Rooted | None = None
        self._restarts = 0
        self._last: dict[str, t.Any] = {}
        self._begun: float | None = None
        # When it was told to end, by our own clock.
        self._end_from: float | None = None
        self._sent: t.Any = None

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(30)

    def kill(self) -> None:
        """Nobody asks for it any more: end it at once, and tell nothing."""
        self._gone.set()
        process = self._process
        if process:
            process.kill()

    def lose(self, again: bool) -> None:
        """The machine has gone down with it."""
        self._again = again
        self._lost.set()
        process = self._process
        if process:
            process.kill()

    def told(self, pod: dict[str, t.Any]) -> None:
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp") and self._end_from is None:
            self._end_from = time.monotonic()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def log(self) -> Path:
        return self.folder / f"log-{self._restarts}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # -- its life ----------------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        phase = (self.pod.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            self._await_deletion()
            return
        while not self._gone.is_set():
            try:
                ended = self._once()
            except Exception as exc:  # a test reads it where it looks first
                self._say(
                    {"phase": "Failed", "reason": "StandIn", "message": f"{type(exc).__name__}: {exc}"},
                    {"waiting": {"reason": "StandIn"}},
                )
                break
            if ended is None or not self._restart(ended):
                break
            self._restarts += 1
            self._last = {"terminated": ended}
        self._await_deletion()

    def _restart(self, ended: dict[str, t.Any]) -> bool:
        if self._end_from is not None or self._over or self._gone.is_set():
            return False
        if self._lost.is_set():
            self._lost.clear()
            return self._again
        policy = self.pod["spec"].get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and ended["exitCode"] != 0)

    def _once(self) -> dict[str, t.Any] | None:
        """Start the container and see it end: its end as the API writes it. None when it never began."""
        made = self._made()
        if made is None:
            return None
        self._lost.clear()
        words, env, mounts = made
        container = self._container
        missing = words[0] if not shutil.which(words[0], path=env["PATH"]) and not _inside(words[0], mounts) else None
        begun, self._begun = _now(), time.monotonic()
        if missing:
            said = f'failed to create task: exec: "{missing}": executable file not found in $PATH: unknown'
            return self._ended(
                {"exitCode": 128, "reason": "StartError", "message": said, "startedAt": begun, "finishedAt": begun}
            )
        self.log.touch()
        folder = self.folder / f"run-{self._restarts}"
        self._process = Rooted(folder, words, env, mounts, container.get("workingDir") or "/", self.log)
        while not self._process.started and self._process.poll() is None:
            time.sleep(0.01)
        probe = _Probe(container.get("readinessProbe"), self.kubelet.address)
        why = self._watched(begun, probe)
        status = self._process.poll()
        code, number = (128 - status, -status) if status is not None and status < 0 else (status or 0, None)
        if status == 128 + signal.SIGKILL:
            number = int(signal.SIGKILL)
        end: dict[str, t.Any] = {
            "exitCode": code, "reason": "Completed" if code == 0 else "Error", "startedAt": begun, "finishedAt": _now(),
            "containerID": self._id,
        }  # fmt: skip
        if number:
            end["signal"] = number
        if code and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            end["message"] = self.log.read_bytes()[-2048:].decode("utf-8", "replace")
        return self._ended(end, why)

    def _watched(self, begun: str, probe: _Probe) -> str:
        """Stand by until the container has ended: why the Pod is over beside that, if it is."""
        process, deadline = t.cast("Rooted", self._process), self.pod["spec"].get("activeDeadlineSeconds")
        asked = killed = False
        late, why = 0.0, ""
        while process.poll() is None:
            now = time.monotonic()
            if self._gone.is_set() or self._lost.is_set():
                process.kill()
                break
            if deadline and self._begun and now > self._begun + deadline and not why:
                late, why = now, "DeadlineExceeded"
                self._over = True
            told = self._end_from or late
            if told:
                meta, spec = self.pod["metadata"], self.pod["spec"]
                grace = meta.get("deletionGracePeriodSeconds")
                end = told + (spec.get("terminationGracePeriodSeconds", 30) if grace is None else grace)
                if not asked:
                    asked = True
                    process.send(signal.SIGTERM)
                elif now > end and not killed:
                    killed = True
                    process.kill()
            ready = probe.ready() and not asked
            self._say({"phase": "Running"}, {"running": {"startedAt": begun}}, ready)
            time.sleep(TICK / 4)
        return why

    def _ended(self, end: dict[str, t.Any], why: str = "") -> dict[str, t.Any]:
        if self._gone.is_set() or (self._lost.is_set() and self._again):
            return end
        again = self.pod["spec"].get("restartPolicy") == "Always" and not self._lost.is_set() and self._end_from is None
        status: dict[str, t.Any] = {
            "phase": "Running" if again else "Succeeded" if end["exitCode"] == 0 and not why else "Failed"
        }
        if why:
            status.update(reason=why, message="Pod was active on the node longer than the specified deadline")
        if self._lost.is_set():
            status.update(phase="Failed", reason="NodeRebooted", message="the node was started again")
        self._say(status, {"terminated": end})
        return end

    def _await_deletion(self) -> None:
        """A Pod stays until it is told to go; then its object goes."""
        while not self._gone.wait(TICK / 2):
            if self._end_from is not None and not self.kubelet.apart:
                with contextlib.suppress(OSError):
                    self.kubelet.client.call(
                        "DELETE", self.path,
                        {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}},
                    )  # fmt: skip
                return

    # -- what it is made of ------------------------------------------------------------------------------------------------------------

    @property
    def _container(self) -> dict[str, t.Any]:
        spec = self.pod["spec"]
        assert len(spec["containers"]) == 1, "the stand-in runs one container a Pod"
        assert not spec.get("initContainers"), "the stand-in runs no initContainers"
        assert spec.get("hostNetwork"), "the stand-in has no network but this machine's: set hostNetwork"
        (container,) = spec["containers"]
        unknown = set(container) - _KNOWN - _IGNORED
        assert not unknown, f"the stand-in does not know {sorted(unknown)} of a container"
        return t.cast("dict[str, t.Any]", container)

    @property
    def _id(self) -> str:
        return f"standin://{self.uid}-{self._restarts}"

    def _made(self) -> tuple[list[str], dict[str, str], list[Mount]] | None:
        """(words, env, mounts). Tried again until there is all that it needs; None when it was told to end before."""
        told = ""
        failed = 0
        while not self._gone.is_set() and self._end_from is None:
            try:
                image = self._image(failed)
                mounts = self._mounts()
                env = self._env(image)
                return self._words(env), env, mounts
            except WaitError as exc:
                failed += 1
                waiting = (
                    {"reason": "ContainerCreating"} if exc.event else {"reason": exc.reason, "message": exc.message}
                )
                self._say({"phase": "Pending"}, {"waiting": waiting})
                if str(exc) != told:
                    told = str(exc)
                    self._event(exc.reason if exc.event else "Failed", exc.message)
                deadline = self.pod["spec"].get("activeDeadlineSeconds")
                self._begun = self._begun or time.monotonic()
                if deadline and time.monotonic() > self._begun + deadline:
                    said = "Pod was active on the node longer than the specified deadline"
                    self._say({"phase": "Failed", "reason": "DeadlineExceeded", "message": said}, {"waiting": waiting})
                    return None
                self._gone.wait(1.0)
        return None

    def _image(self, failed: int) -> Image:
        name, policy = self._container["image"], self._container["imagePullPolicy"]
        found = self.kubelet.images.get(name)
        if policy == "Never" and not (found and found.here):
            raise WaitError("ErrImageNeverPull", f'Container image "{name}" is not present with pull policy of Never')
        if found is None:
            if failed % 2:
                raise WaitError("ImagePullBackOff", f'Back-off pulling image "{name}"')
            raise WaitError(
                "ErrImagePull", f'rpc error: code = NotFound desc = failed to pull image "{name}": not found'
            )
        if not found.here:
            self.kubelet.images[name] = Image(found.path, found.env, True, found.bare)
        return found

    def _words(self, env: t.Mapping[str, str]) -> list[str]:
        container = self._container
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        assert container.get("command"), "an image of the stand-in has no entrypoint: give a command"
        return [expanded(word, env) for word in words]

    def _env(self, image: Image) -> dict[str, str]:
        found: dict[str, str] = {}
        for one in self._container.get("env") or ():
            given = one.get("valueFrom") or {}
            if "secretKeyRef" in given:
                value = self._keyed("secret", given["secretKeyRef"])
            elif "configMapKeyRef" in given:
                value = self._keyed("configmap", given["configMapKeyRef"])
            elif "fieldRef" in given:
                value = self._field(given["fieldRef"]["fieldPath"])
            else:
                assert not given, f"the stand-in does not know env from {sorted(given)}"
                value = expanded(one.get("value") or "", found)
            if value is not None:
                found[one["name"]] = value
        return {"PATH": image.search, "HOME": "/root", "HOSTNAME": self.kubelet.name, **image.env, **found}

    def _keyed(self, kind: str, ref: t.Mapping[str, t.Any]) -> str | None:
        data = self._data(kind, ref["name"])
        if data is None or ref["key"] not in data:
            if ref.get("optional"):
                return None
            what = (
                f'{kind} "{ref["name"]}" not found'
                if data is None
                else f"couldn't find key {ref['key']} in {kind} {self.namespace}/{ref['name']}"
            )
            raise WaitError("CreateContainerConfigError", what)
        return data[ref["key"]].decode()

    def _data(self, kind: str, name: str) -> dict[str, bytes] | None:
        found = self.kubelet.client.find(f"/api/v1/namespaces/{self.namespace}/{kind}s/{name}")
        if found is None:
            return None
        if kind == "secret":
            return {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}
        plain = {key: text.encode() for key, text in (found.get("data") or {}).items()}
        return {**plain, **{key: base64.b64decode(text) for key, text in (found.get("binaryData") or {}).items()}}

    def _field(self, path: str) -> str:
        meta, spec = self.pod["metadata"], self.pod["spec"]
        noted = re.fullmatch(r"metadata\.(annotations|labels)\['(.+)'\]", path)
        if noted:
            return str((meta.get(noted[1]) or {}).get(noted[2], ""))
        known = {
            "metadata.name": meta["name"], "metadata.namespace": meta["namespace"], "metadata.uid": meta["uid"],
            "spec.nodeName": spec["nodeName"], "status.hostIP": self.kubelet.address, "status.podIP": self.kubelet.address,
        }  # fmt: skip
        return str(known[path])

    def _mounts(self) -> list[Mount]:
        """Volumes as folders; those that are there stay as they are, as for a container that is started again."""
        volumes = {one["name"]: self._volume(one) for one in self.pod["spec"].get("volumes") or ()}
        found = []
        for one in self._container.get("volumeMounts") or ():
            source = volumes[one["name"]] / (one.get("subPath") or "")
            found.append(Mount(source, one["mountPath"], bool(one.get("readOnly"))))
        return found

    def _volume(self, volume: t.Mapping[str, t.Any]) -> Path:
        (kind,) = set(volume) - {"name"}
        given, folder = volume[kind], self.folder / "volumes" / volume["name"]
        if kind == "hostPath":
            path = Path(given["path"])
            if given.get("type") == "DirectoryOrCreate":
                path.mkdir(parents=True, exist_ok=True)
            ok = {"Directory": path.is_dir, "File": path.is_file}.get(given.get("type") or "", lambda: True)()
            if not ok or not path.exists():
                raise WaitError(
                    "FailedMount",
                    f'MountVolume.SetUp failed for volume "{volume["name"]}": hostPath type check failed: {path} is not a directory',
                    True,
                )
            return path
        if kind == "emptyDir":
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        if kind == "downwardAPI":
            files = {one["path"]: self._field(one["fieldRef"]["fieldPath"]).encode() for one in given["items"]}
        elif kind in ("configMap", "secret"):
            name = given["name"] if kind == "configMap" else given["secretName"]
            data = self._data(kind.lower(), name)
            if data is None and not given.get("optional"):
                raise WaitError(
                    "FailedMount",
                    f'MountVolume.SetUp failed for volume "{volume["name"]}": {kind.lower()} "{name}" not found',
                    True,
                )
            data = data or {}
            items = given.get("items")
            files = {one["path"]: data[one["key"]] for one in items} if items else data
        else:
            raise AssertionError(f"the stand-in has no volumes of kind {kind}")
        for path_, content in files.items():
            file = folder / path_
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_bytes(content)
                file.chmod(given.get("defaultMode") or 0o644)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    # -- what is told ------------------------------------------------------------------------------------------------------------------

    def _say(self, status: dict[str, t.Any], state: dict[str, t.Any], ready: bool = False) -> None:
        """Write the status, if it has changed and the API server is in reach; what could not be told is told by the next call."""
        container = self._container
        told = {
            **status,
            "hostIP": self.kubelet.address,
            "podIP": self.kubelet.address,
            "podIPs": [{"ip": self.kubelet.address}],
            "startTime": (self.pod.get("status") or {}).get("startTime") or _now(),
            "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "Ready", "status": str(ready)},
                {"type": "ContainersReady", "status": str(ready)},
                {"type": "PodScheduled", "status": "True"},
            ],
            "containerStatuses": [
                {
                    "name": container["name"], "state": state, "ready": ready, "restartCount": self._restarts, "lastState": self._last,
                    "image": container["image"], "imageID": "" if "waiting" in state else image_id(container["image"]),
                    "containerID": "" if "waiting" in state else self._id, "started": "running" in state,
                }
            ],
        }  # fmt: skip
        seen = json.dumps([status, state, ready, self._restarts], sort_keys=True)
        over = "terminated" in state or status["phase"] == "Failed"
        while seen != self._sent and not self._gone.is_set():
            if not self.kubelet.apart:
                try:
                    self.kubelet.client.patch(f"{self.path}/status", {"status": told})
                    self._sent = seen
                    return
                except urllib.error.HTTPError as exc:
                    if exc.code == 404:
                        return
                    print(f"{self.name}: {exc.code} {exc.read()[:500]!r}")
                except OSError:
                    pass
            if not over:
                return
            time.sleep(TICK)

    def _event(self, reason: str, message: str) -> None:
        body = {
            "metadata": {"generateName": f"{self.name}.", "namespace": self.namespace},
            "involvedObject": {"kind": "Pod", "namespace": self.namespace, "name": self.name, "uid": self.uid, "apiVersion": "v1"},
            "reason": reason, "message": message, "type": "Warning", "count": 1, "firstTimestamp": _now(), "lastTimestamp": _now(),
            "source": {"component": "kubelet", "host": self.kubelet.name},
        }  # fmt: skip
        with contextlib.suppress(OSError):
            self.kubelet.client.call("POST", f"/api/v1/namespaces/{self.namespace}/events", body)


class _Probe:
    """Whether a container is ready: asked when its period is over, in between as it was."""

    def __init__(self, given: t.Mapping[str, t.Any] | None, address: str) -> None:
        self._given, self._address = given, address
        self._ready, self._failed = not given, 0
        delay = float((given or {}).get("initialDelaySeconds") or 0)
        self._next = time.monotonic() + delay

    def ready(self) -> bool:
        if self._given and time.monotonic() >= self._next:
            self._next = time.monotonic() + float(self._given.get("periodSeconds") or 10)
            self._failed = 0 if self._ask() else self._failed + 1
            if not self._failed:
                self._ready = True
            elif self._failed >= (self._given.get("failureThreshold") or 3):
                self._ready = False
        return self._ready

    def _ask(self) -> bool:
        given = t.cast("t.Mapping[str, t.Any]", self._given)
        timeout = float(given.get("timeoutSeconds") or 1)
        try:
            if "tcpSocket" in given:
                ask = given["tcpSocket"]
                socket.create_connection((ask.get("host") or self._address, ask["port"]), timeout).close()
                return True
            ask = given["httpGet"]
            host = ask.get("host") or self._address
            url = f"{ask.get('scheme', 'HTTP').lower()}://{f'[{host}]' if ':' in host else host}:{ask['port']}{ask.get('path') or '/'}"
            with urllib.request.urlopen(url, timeout=timeout) as answer:
                return bool(200 <= answer.status < 400)
        except (OSError, ValueError):
            return False


def expanded(text: str, env: t.Mapping[str, str]) -> str:
    """$(NAME) by env, $$ as a dollar; a name that is not known stays as it is written."""
    return re.sub(
        r"\$(\$|\(([^)]*)\))",
        lambda found: "$" if found[1] == "$" else env.get(found[2], found[0]),
        text,
    )


def image_id(name: str) -> str:
    """The digest of an image, which its name decides."""
    return f"docker-pullable://{name.partition('@')[0].rpartition(':')[0] or name}@sha256:{uuid.uuid5(uuid.NAMESPACE_URL, name).hex * 2}"


def _inside(word: str, mounts: t.Sequence[Mount]) -> bool:
    return any(word.startswith(f"{mount.target}/") for mount in mounts)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- logs ------------------------------------------------------------------------------------------------------------------------------


def _serve(kubelet: Kubelet, folder: Path, address: str) -> http.server.ThreadingHTTPServer:
    """What an API server asks of a kubelet: the log of a container."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _mark, query = self.path.partition("?")
            words = path.strip("/").split("/")
            asked = dict(urllib.parse.parse_qsl(query))
            worker = kubelet.worker(words[1], words[2]) if words[0] == "containerLogs" and len(words) == 4 else None
            if kubelet.apart or worker is None:
                self.send_error(404, "no such container")
                return
            if not worker.log.exists():
                why = f'container "{words[3]}" in pod "{words[2]}" is waiting to start: ContainerCreating'
                self._send(400, why.encode())
                return
            if asked.get("follow") == "true":
                self._follow(worker)
            else:
                self._send(200, _read(worker.log, asked))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(body)

        def _follow(self, worker: Worker) -> None:
            """As long as the container runs; the end of the answer is the end of the connection."""
            self._send(200, b"")
            with worker.log.open("rb") as log:
                running = True
                while running:
                    running = worker.running
                    self.wfile.write(log.read())
                    self.wfile.flush()
                    time.sleep(TICK)

        def log_message(self, *_words: t.Any) -> None:
            pass

    folder.mkdir(parents=True, exist_ok=True)
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kubelet",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    made = http.server.ThreadingHTTPServer((address, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    made.socket = context.wrap_socket(made.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=made.serve_forever, args=(TICK,), name="kubelet-https", daemon=True).start()
    return made


def _read(log: Path, asked: t.Mapping[str, str]) -> bytes:
    text = log.read_bytes()
    if asked.get("tailLines"):
        lines = text.splitlines(keepends=True)
        text = b"".join(lines[max(0, len(lines) - int(asked["tailLines"])) :])
    return text[: int(asked["limitBytes"])] if asked.get("limitBytes") else text


# -- fixtures --------------------------------------------------------------------------------------------------------------------------


class Nodes(t.Protocol):
    """Makes a node that lasts as long as the test: Kubelet's words, but server and folder. Its name is one that no other test has."""

    def __call__(
        self,
        address: str = ...,
        images: t.Mapping[str, Image] | None = ...,
        labels: t.Mapping[str, str] | None = ...,
        allocatable: t.Mapping[str, str] | None = ...,
    ) -> Kubelet: ...


@pytest.fixture
def kube_nodes(api_server: Server, tmp_path: Path) -> t.Iterator[Nodes]:
    """Nodes with a stand-in for kubelet each."""
    made: list[Kubelet] = []

    def node(**words: t.Any) -> Kubelet:
        name = f"n-{uuid.uuid4().hex[:8]}"
        one = Kubelet(api_server, name, tmp_path / name, **words)
        made.append(one)
        return one.start()

    try:
        yield node
    finally:
        for one in reversed(made):
            one.stop()
