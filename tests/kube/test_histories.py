# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Histories by chance: whatever happens to nodes, Pods, records and runs, and in whatever order, no router ever reaches members of two
formations. It is looked at all the time, at the processes themselves, also of nodes that nobody hears of."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
import typing as t
import urllib.request
from pathlib import Path

import pytest
from integration.conftest import start
from kube.server import Server
from kube.site import Cluster, cluster
from ports import free_block

from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import pod_state

pytestmark = pytest.mark.integration
STEPS = int(os.environ.get("PD_STEPS", "10"))
SEEDS = [int(one) for one in os.environ.get("PD_SEEDS", "1 2").split()]
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Watch:
    """Whom each router that runs reaches, by the processes of all nodes. `met` are the formations that one reached at a time."""

    def __init__(self, site: Cluster) -> None:
        self.site, self.wrong, self.looks = site, list[str](), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.1):
            self._look()

    def _look(self) -> None:
        workers = [one for kubelet in list(self.site.kubelets.values()) for one in kubelet.workers() if one.running]
        labels = [label for one in workers if (label := pod_state.label_of(one.pod))]
        formations: dict[str, set[str]] = {}
        for label in labels:
            if label["role"] != "router":
                formations.setdefault(str(label["url"]), set()).add(str(label["formation"]))
        for router in (label for label in labels if label["role"] == "router"):
            met = {one for url in self._registered(str(router["url"])) for one in formations.get(url, ())}
            self.looks += 1
            if len(met) > 1:
                self.wrong.append(f"{time.time():.1f} {router['member']} at {router['url']} reaches {sorted(met)}")

    @staticmethod
    def _registered(url: str) -> list[str]:
        try:
            with _DIRECT.open(f"{url}/workers", timeout=2) as answer:
                return [str(one["url"]) for one in json.load(answer)["workers"]]
        except (OSError, ValueError, KeyError):
            return []


class History:
    """What may happen, each as a step that says what it did."""

    def __init__(self, site: Cluster, seed: int) -> None:
        self.site, self.chance = site, random.Random(seed)
        self.apart: set[str] = set()
        self.load = 1

    def step(self) -> str:
        steps: dict[str, int] = {
            "deploy": 4, "restart": 2, "edited": 2, "killed": 4, "scaled": 2, "pod_deleted": 3, "node_apart": 2, "node_back": 3,
            "rebooted": 1, "lost": 1, "cordoned": 1, "record_deleted": 1, "removed": 1,
        }  # fmt: skip
        name = self.chance.choices(list(steps), list(steps.values()))[0]
        return f"{name}: {getattr(self, name)()}"

    def _node(self) -> str:
        return self.chance.choice(sorted(self.site.kubelets))

    def _play(self, name: str, **extra: t.Any) -> str:
        run = self.site.play(name, pd_proof="never", **extra)
        assert "Traceback" not in run.out, run.out
        why = [line.strip() for line in run.out.splitlines() if line.startswith(("- ", "[ERROR]"))]
        return "done" if run.rc == 0 else f"refused or failed: {' | '.join(why[:3])}"

    def deploy(self) -> str:
        return self._play("deploy")

    def restart(self) -> str:
        return self._play("restart", pd_group="g")

    def edited(self) -> str:
        self.load += 1
        self.site.env(STANDIN_LOAD=f"0.{self.load}")
        return f"load 0.{self.load}"

    def killed(self) -> str:
        """A run that dies in the middle: with all that it has started here, as on a machine that loses its power."""
        name = self.chance.choice(["deploy", "restart", "scale"])
        more = {"deploy": [], "restart": ["-e", "pd_group=g"], "scale": ["-e", "pd_group=g", "-e", "pd_decode=2"]}[name]
        begun = start(self.site, f"inferops.pd.{name}", *more)
        after = self.chance.uniform(2, 12)
        time.sleep(after)
        os.killpg(begun.pid, signal.SIGKILL)
        begun.communicate()
        return f"{name} after {after:.1f} s"

    def scaled(self) -> str:
        count = self.chance.choice([1, 2])
        return f"{count} decodes, " + self._play("scale", pd_group="g", pd_decode=count, pd_allow_scale_down="true")

    def pod_deleted(self) -> str:
        pods = sorted(self.site.pods)
        if not pods:
            return "there is none"
        name = self.chance.choice(pods)
        self.site.api.delete(self.site.namespace.path("pods", name), gracePeriodSeconds=self.chance.choice([1, 3]))
        return name

    def node_apart(self) -> str:
        name = self._node()
        self.apart.add(name)
        self.site.kubelets[name].part()
        return name

    def node_back(self) -> str:
        for name in sorted(self.apart):
            self.site.kubelets[name].back()
        told = ", ".join(sorted(self.apart)) or "none was away"
        self.apart.clear()
        return told

    def rebooted(self) -> str:
        name = self._node()
        self.site.kubelets[name].reboot(self.chance.choice([True, False]))
        return name

    def lost(self) -> str:
        """Stated of a node that is away, which is not off for all that: its members run on there."""
        if not self.apart:
            return "none is away"
        name = self.chance.choice(sorted(self.apart))
        return f"{name}, " + self._play("deploy", pd_lost_hosts=f"k1/{name}")

    def cordoned(self) -> str:
        name, shut = self._node(), self.chance.choice([True, None])
        self.site.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": shut}})
        return f"{name} {bool(shut)}"

    def record_deleted(self) -> str:
        name = self.chance.choice(["pd-g", "pd.g"])
        self.site.api.delete(self.site.namespace.path("configmaps", name))
        return name

    def removed(self) -> str:
        return self._play("remove", pd_group="g")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_router_ever_reaches_two_formations(tmp_path: Path, model: Path, api_server: Server, seed: int) -> None:
    site = cluster(tmp_path / "site", api_server, model, free_block(40), nodes=3)
    for role in ("prefill", "decode"):
        site.group["roles"][role]["nodes"] = list(site.kubelets)
    site.group["limits"] = {"start": 20, "drain": 1, "stop": 2}
    site.write()
    history, told = History(site, seed), list[str]()
    try:
        with Watch(site) as watch:
            for _step in range(STEPS):
                told.append(history.step())
                print(told[-1], flush=True)
                assert watch.wrong == [], "\n".join([*told, *watch.wrong])
            told.append(f"in the end: {history.node_back()}")
            for name in site.kubelets:
                site.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
            site.play("deploy", pd_break_lock="true")
            last = site.play("restart", pd_group="g", pd_break_lock="true")
            assert last.rc == 0, "\n".join([*told, last.out[-3000:]])
            assert watch.wrong == [], "\n".join([*told, *watch.wrong])
            assert watch.looks > STEPS
        assert site.ask()[0] == 200
    finally:
        site.stop()
