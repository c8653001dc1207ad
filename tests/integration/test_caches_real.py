# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real LMCache server and a real Mooncake master, deployed by the playbooks, asked by their own clients, killed, restarted, removed.

No GPU: KV goes through the LMCache server's own path for workers without one, and through Mooncake's over TCP."""

from __future__ import annotations

import json
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
from docker_engine import IMAGE, Engine, fixture_engine
from integration import support_runtime
from integration.conftest import Life, alive, kill
from integration.support_runtime import wait_for
from ports import free_block
from support import ROOT

pytestmark = pytest.mark.integration
LMCACHE = ROOT / ".build/caches/lmcache"
MOONCAKE = ROOT / ".build/caches/mooncake"
CLIENTS = ROOT / "tests/caches"
SEGMENT = {"global_segment_size": "64MB", "local_buffer_size": "16MB", "protocol": "tcp"}
engine = pytest.fixture(scope="module")(fixture_engine)


def needs(folder: Path) -> Path:
    if not (folder / ".complete").exists():
        pytest.skip(f"{folder.name} is not installed here: tests/env/caches.sh (it needs a package index)")
    return folder.resolve()


class Caches(Life):
    """A site of cache services alone."""

    caches: dict[str, t.Any]

    def write(self) -> None:
        self.variables = {**self.variables, "pd_caches": getattr(self, "caches", {})}
        super().write()

    def set(self, name: str, **changes: t.Any) -> None:
        self.caches[name].update(changes)
        self.write()

    def listening(self) -> dict[int, str]:
        """The address on which each port of this site's members is listened on, whichever ports they are."""
        said = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
        pids = {f"pid={pid}," for pid in self.pids().values()}
        lines = [line for line in said.splitlines() if any(pid in line for pid in pids)]
        found = (re.search(r"\s(\S+):(\d+)\s", line) for line in lines)
        return {int(match[2]): match[1] for match in found if match}

    def status(self) -> str:
        return self.play("status").ok().out


@pytest.fixture
def site(tmp_path: Path) -> t.Iterator[Caches]:
    low = free_block(40)
    hosts = {
        name: {"pd_port_range": f"{low + 20 * n}-{low + 20 * n + 19}", "pd_state_dir": str(tmp_path / f"state-{name}")}
        for n, name in enumerate(("h1", "h2"))
    }
    made = Caches(tmp_path / "site", hosts, {})
    made.caches = {}
    yield made
    made.clean()


def master(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "provider": "mooncake",
        "hosts": "all",
        "runtime": "supervisor",
        "executable": str(needs(MOONCAKE) / "bin/mooncake_master"),
        "options": {**SEGMENT},
        "limits": {"start": 60, "stop": 5},
        **changes,
    }


def server(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "provider": "lmcache",
        "hosts": "all",
        "runtime": "supervisor",
        "executable": str(needs(LMCACHE) / "bin/lmcache"),
        "options": {"size": 0.25},
        "limits": {"start": 240, "stop": 10},
        **changes,
    }


class Store:
    """A Mooncake client that lives as long as the test wants."""

    def __init__(self, address: str) -> None:
        python = needs(MOONCAKE) / "bin/python"
        options = json.dumps({**SEGMENT, "metadata_server": "P2PHANDSHAKE"})
        self.process = subprocess.Popen(
            [str(python), str(CLIENTS / "mooncake_client.py"), address, options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.answer() == "setup 0"

    def answer(self) -> str:
        """Its next answer: the library logs to standard output, too."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(("setup ", "put ", "get ")):
                return line.strip()
        raise AssertionError("the client has ended")

    def do(self, what: str, key: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {key}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def stores() -> t.Iterator[t.Callable[[str], Store]]:
    made: list[Store] = []

    def make(address: str) -> Store:
        made.append(Store(address))
        return made[-1]

    yield make
    for store in made:
        store.end()


def lmcache(port: int, what: str) -> str:
    done = subprocess.run(
        [str(needs(LMCACHE) / "bin/python"), str(CLIENTS / "lmcache_client.py"), f"tcp://127.0.0.1:{port}", what],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def port_of(site: Caches, name: str) -> int:
    return next(m["port"] for m in site.record(name)["members"])


# -- Mooncake ----------------------------------------------------------------------------------------------------------


def test_a_mooncake_master_from_check_to_nothing(site: Caches, stores: t.Callable[[str], Store]) -> None:
    site.caches = {"store": master()}
    site.write()
    check = site.play("caches", "--check", "--diff").ok()
    assert "+ [start] create store-cache-0 on h1" in check.out
    assert "--rpc_address=127.0.0.1" in check.out
    assert check.changed > 0
    assert site.untouched()

    run = site.play("caches").ok()
    port = port_of(site, "store")
    assert f"Cache service store is running: h1 127.0.0.1:{port}." in run.out
    assert set(site.pids()) == {"store-cache-0"}, "exactly one, on the first of two hosts"
    assert set(site.listening().values()) == {"127.0.0.1"}, "never on every address without being asked"
    assert site.play("caches", "--diff").ok().changed == 0
    assert "cache store: RUNNING  mooncake, 1 of 1 instances ready, used by no group" in site.status()

    store = stores(f"127.0.0.1:{port}")
    assert store.do("put", "a") == "put 0"
    assert store.do("get", "a") == "get True"
    assert stores(f"127.0.0.1:{port}").do("get", "a") == "get True", (
        "another client reads it from the first one's segment"
    )

    _killed_it_comes_back(site, store, port)
    _an_edit_is_pending(site, port)

    gone = site.play("caches_remove", pd_cache="store").ok()
    assert gone.changed > 0
    assert site.pids() == {}
    assert site.listening() == {}
    assert [p for state in site.states for p in state.rglob("*") if p.is_file()] == []
    assert site.play("caches_remove", pd_cache="store").ok().changed == 0


def _killed_it_comes_back(site: Caches, store: Store, port: int) -> None:
    """By its runtime, at the same port; what it knew is lost, and its client mounts its segment again."""
    first = site.pids()["store-cache-0"]
    kill(first)
    wait_for(lambda: site.pids().get("store-cache-0") not in (None, first), 30, "another process")
    wait_for(lambda: port in site.listening(), 30, "the port")
    wait_for(lambda: store.do("put", "b") == "put 0", 60, "the client has found the new master")
    assert store.do("get", "b") == "get True"
    assert store.do("get", "a") == "get False"
    assert site.play("caches").ok().changed == 0, "a deploy has nothing to mend"
    assert "restarted 1x" in site.status()


def _an_edit_is_pending(site: Caches, port: int) -> None:
    before = site.pids()
    site.set("store", options={**SEGMENT, "client_ttl": 120})
    run = site.play("caches", "--diff").ok()
    said = " ".join(run.out.split())
    assert "nothing is restarted: cache args: --client_ttl=10 -> 120" in said
    assert site.pids() == before
    assert "pending, applied by: ansible-playbook inferops.pd.caches -e pd_cache=store" in site.status()

    assert "Say which cache service" in site.play("caches", pd_restart_caches="true").refused().out
    site.play("caches", pd_cache="store", pd_restart_caches="true").ok()
    after = site.pids()
    assert after != before
    assert "--client_ttl=120" in Path(f"/proc/{after['store-cache-0']}/cmdline").read_text()
    assert port in site.listening(), "its clients know it by this port"
    assert "pending" not in site.status()


def test_a_master_that_does_not_start_ends_the_run_with_its_own_words(site: Caches) -> None:
    site.caches = {"store": master(args=["--allocation_strategy=none", "--memory_allocator=nothing"])}
    site.write()
    run = site.play("caches").refused()
    assert "Cache service store does not serve: 0 of 1 instances ready." in run.out
    assert "store-cache-0 on h1" in run.out
    assert "run inferops.pd.caches -e pd_cache=store again" in run.out
    assert site.record("store")["state"] == "partial"
    site.set("store", args=[])
    site.play("caches").ok()
    assert site.record("store")["state"] == "running"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"executable": "/nowhere/mooncake_master"}, "executable-missing"),
        ({"options": {"client_tll": 3}}, "Did you mean 'client_ttl'?"),
        ({"hosts": "nobody"}, "has no host or group of that name"),
        ({"address": "10.0.0.9:50051"}, "both hosts and address"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(site: Caches, change: dict[str, t.Any], told: str) -> None:
    site.caches = {"store": {**master(), **change}}
    site.write()
    run = site.play("caches").refused()
    assert told in run.out
    assert site.untouched()


def test_names_are_asked_for_and_known(site: Caches) -> None:
    site.caches = {"store": {"provider": "mooncake", "address": "10.0.0.9:50051"}}
    site.write()
    assert "There is no cache service 'stoer' in pd_caches. Did you mean 'store'? Services: store." in (
        site.play("caches", pd_cache="stoer").refused().out
    )
    assert "Say which cache service" in site.play("caches_remove").refused().out
    assert "neither in pd_caches nor on the hosts" in site.play("caches_remove", pd_cache="stoer").refused().out
    assert site.play("caches").ok().changed == 0, "one that somebody else runs is nothing to deploy"
    assert "cache store: mooncake at 10.0.0.9:50051, run by somebody else" in site.status()


# -- LMCache -----------------------------------------------------------------------------------------------------------


def test_lmcache_servers_one_on_each_host(site: Caches) -> None:
    site.caches = {"lm": server(secrets={"LMCACHE_TOKEN": "hunter2-hunter2"})}
    site.write()
    run = site.play("caches", "--diff").ok()
    assert "hunter2" not in run.out
    assert set(site.pids()) == {"lm-cache-0", "lm-cache-1"}
    assert set(site.listening().values()) == {"127.0.0.1"}
    ports = {m["host"]: m["port"] for m in site.record("lm")["members"]}
    for host in ("h1", "h2"):
        assert lmcache(ports[host], "ping") == "ping True"
    assert lmcache(ports["h1"], "store") == "stored True"
    assert lmcache(ports["h1"], "read") == "hits 1 equal True"
    assert lmcache(ports["h2"], "read") == "hits 0 equal False", "each host has its own"
    assert site.play("caches").ok().changed == 0

    first = site.pids()
    kill(first["lm-cache-0"])
    wait_for(lambda: site.pids().get("lm-cache-0") not in (None, first["lm-cache-0"]), 30, "another process")
    site.play("caches").ok()
    assert lmcache(ports["h1"], "read") == "hits 0 equal False", "what it held is lost, and it serves"
    assert lmcache(ports["h1"], "store") == "stored True"
    assert site.pids()["lm-cache-1"] == first["lm-cache-1"]

    # A host leaves the pattern: its instance goes, the other stays.
    site.set("lm", hosts="h2")
    site.play("caches").ok()
    assert site.pids() == {"lm-cache-1": first["lm-cache-1"]}
    site.play("caches_remove", pd_cache="lm").ok()
    assert site.pids() == {}
    assert not alive(first["lm-cache-1"])


# -- containers --------------------------------------------------------------------------------------------------------


def test_a_master_in_a_container(tmp_path: Path, engine: Engine, stores: t.Callable[[str], Store]) -> None:
    low = free_block(25)
    venv = needs(MOONCAKE)
    binary = next(venv.glob("lib/python*/site-packages/mooncake/mooncake_master"))
    entry = master(
        runtime="docker",
        image=IMAGE,
        executable=str(binary),
        # The image has this machine's C library; the rest of what the program is linked with comes from here as well.
        mounts=[f"{venv}:{venv}:ro", "/usr/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:ro"],
        resources={"memory": "1GiB"},
    )
    host = {"pd_port_range": f"{low}-{low + 24}", "pd_docker_host": engine.url}
    site = Caches(tmp_path / "site", {"node": host}, {})
    site.caches = {"store": entry}
    site.write()
    try:
        site.play("caches").ok()
        assert len(engine.names()) == 1
        port = port_of(site, "store")
        store = stores(f"127.0.0.1:{port}")
        assert store.do("put", "a") == "put 0"
        assert store.do("get", "a") == "get True"
        assert site.play("caches").ok().changed == 0
        site.play("caches_remove", pd_cache="store").ok()
        assert engine.names() == []
    finally:
        names = engine.names()
        if names:
            engine.docker("rm", "-f", *names)
        support_runtime.clean_up(str(site.state))
