"""What clients see of a change, measured and printed: failed requests of a scale under load, the outage of a restart. See run.sh.

REQUESTS=10000 RATE=80 tests/bench/run.sh life"""

from __future__ import annotations

import json
import os
import threading
import time
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

from integration.conftest import STANDIN, Life, spec
from integration.test_playbooks_hosts import interface
from load import Load
from ports import free_block
from standin.engine import text_for
from support import ROOT

REQUESTS = int(os.environ.get("REQUESTS", "10000"))
RATE = float(os.environ.get("RATE", "80"))
CHANGES = ((2, 2), (1, 1))
# Seconds that the engines of the restart take to load: the shorter, the more everything else weighs.
ENGINE_LOAD = 10.0
GOAL = 5.0
TICKS = os.sysconf("SC_CLK_TCK")
ROUTERS = {
    "stand-in": STANDIN / "vllm-router",
    "vllm-router": ROOT / ".build/demo/engine/bin/vllm-router",
    "sglang-router": ROOT / ".build/parsers/sglang-router/bin/python3",
}
Row = list[t.Any]


def right(prompt: str, text: str) -> bool:
    return text == " ".join(text_for(prompt, 4))


# -- scale -----------------------------------------------------------------------------------------------------------------------------


def scaled(folder: Path, model: Path, router: str) -> Row:
    """1P1D to 2P2D and back under load, again and again until all requests are sent."""
    low = free_block(40)
    changes: dict[str, t.Any] = {"router": {"executable": str(ROUTERS[router])}}
    if router == "sglang-router":
        changes |= {"mode": "sglang-mooncake"}
        changes["engine"] = {"executable": str(STANDIN / "sglang"), "args": ["--context-length=4096"]}
    limits = {"start": 120, "drain": 60, "stop": 5}
    hosts = {"node": {"pd_port_range": f"{low + 1}-{low + 39}"}}
    site = Life(folder / f"scale-{router}", hosts, {"g": spec(model, low, limits=limits, **changes)})
    site.env(STANDIN_DELAY="0.1")
    proof = "never" if router == "sglang-router" else "changed"
    runs = 0
    try:
        site.play("deploy", pd_proof=proof).ok()
        with Load(f"http://127.0.0.1:{low}", rate=RATE, senders=64, right=right) as load:
            while not load.reached(REQUESTS) or runs % len(CHANGES):
                prefill, decode = CHANGES[runs % len(CHANGES)]
                site.play("scale", pd_group="g", pd_prefill=prefill, pd_decode=decode, pd_proof=proof).ok()
                runs += 1
    finally:
        site.clean()
    report = load.report
    for why, times in report.reasons().items():
        print(f"  {router}: {times} x {why}", flush=True)
    return [
        router, runs, report.sent, len(report.bad), f"{report.latency(0.5) * 1000:.0f} ms",
        f"{report.latency(0.99) * 1000:.0f} ms", f"{report.gap()[0]:.2f} s", report.late,
    ]  # fmt: skip


def scales(folder: Path, model: Path) -> tuple[str, list[str], list[Row]]:
    rows = [scaled(folder, model, name) for name, path in ROUTERS.items() if path.exists()]
    head = ["router", "scale runs", "requests", "failed", "p50", "p99", "longest gap", "sent late"]
    title = f"scale 1P1D <-> 2P2D of a dynamic group under {RATE:.0f} requests/s, each 0.2 s of stand-in engines (goal: 0 failed)"
    return title, head, rows


# -- restart ---------------------------------------------------------------------------------------------------------------------------


class Starts:
    """Watches when each engine of a site answers its health path again, from outside."""

    def __init__(self, site: Life) -> None:
        labels = (json.loads(path.read_text()) for s in site.states for path in s.glob("groups/g/members/*/label.json"))
        self.urls = {label["member"]: label["url"] for label in labels if label["role"] != "router"}
        self.site, self.seen = site, {name: [] for name in self.urls}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._watch, args=(name,)) for name in self.urls]

    def __enter__(self) -> Starts:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: t.Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def _watch(self, name: str) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not self._stop.wait(0.05):
            try:
                with opener.open(f"{self.urls[name]}/health", timeout=1):
                    self.seen[name].append(time.monotonic())
            except OSError:
                continue

    def times(self) -> dict[str, tuple[float, float]]:
        """(started, first healthy answer) of each engine that runs now, in time.monotonic()."""
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
        found = {}
        for name, pid in self.site.pids().items():
            if name in self.seen:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                begun = int(fields[19]) / TICKS - since_boot
                found[name] = (begun, next(at for at in self.seen[name] if at > begun))
        return found


def over_hosts(count: int, low: int, folder: Path, model: Path) -> tuple[Life, str]:
    """2P2D on one host, or over three that are this machine: each has an address, a range of ports and a state directory."""
    router: dict[str, t.Any] = {
        "executable": str(next(p for p in (ROUTERS["vllm-router"], ROUTERS["stand-in"]) if p.exists()))
    }
    roles = {"prefill": {"replicas": 2}, "decode": {"replicas": 2}, "router": router}
    if count == 1:
        hosts: dict[str, dict[str, t.Any]] = {"node": {"pd_port_range": f"{low + 1}-{low + 59}"}}
    else:
        hosts = {
            f"h{i}": {
                "pd_address": f"127.0.0.{i + 1}", "pd_kv_interface": interface(), "pd_state_dir": str(folder / f"state{i}"),
                "pd_port_range": f"{low + 20 * i - 19}-{low + 20 * i - 1}",
            } for i in range(1, count + 1)
        }  # fmt: skip
        roles["prefill"] |= {"hosts": "h1:h2", "gpus": 0}
        roles["decode"] |= {"hosts": "h2:h3", "gpus": 0}
        router["hosts"] = "h1"
    site = Life(folder / f"restart{count}", hosts, {"g": spec(model, low, **roles)})
    site.env(STANDIN_LOAD=str(ENGINE_LOAD))
    return site, f"http://127.0.0.{1 if count == 1 else 2}:{low}"


def restarted(count: int, folder: Path, model: Path) -> Row:
    """The outage as a client of the router's address has it: from the last right answer before it to the first one after it."""
    site, url = over_hosts(count, free_block(62), folder, model)
    try:
        site.play("deploy").ok()
        with Load(url, rate=20, senders=8, right=right) as load, Starts(site) as starts:
            began = time.monotonic()
            site.play("restart", pd_group="g").ok()
            took = time.monotonic() - began
        times = starts.times()
    finally:
        site.clean()
    gap, since = load.report.gap()
    slowest = max(ready - begun for begun, ready in times.values())
    stop = min(begun for begun, _ready in times.values()) - since
    back = since + gap - max(ready for _begun, ready in times.values())
    return [
        f"{count} host{'s' if count > 1 else ''}", f"{slowest:.2f} s", f"{gap:.2f} s", f"{gap - slowest:+.2f} s",
        f"{gap / slowest:.2f}", f"{stop:.2f} s", f"{back:.2f} s", f"{took:.1f} s",
    ]  # fmt: skip


def restarts(folder: Path, model: Path) -> tuple[str, list[str], list[Row]]:
    rows = [restarted(count, folder, model) for count in (1, 3) if count == 1 or interface()]
    head = [
        "2P2D on",
        "slowest start",
        "outage",
        "more",
        "outage/start",
        "down to start",
        "ready to answer",
        "whole run",
    ]
    title = f"restart of a whole group, engines load for {ENGINE_LOAD:.0f} s; the outage at the router (goal: at most {GOAL:.0f} s more)"
    return title, head, rows
