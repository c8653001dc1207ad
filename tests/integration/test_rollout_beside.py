# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group that is formed anew beside what serves, by the real playbook, with a real HAProxy before it and clients that ask all the time."""

from __future__ import annotations

import os
import signal
import threading
import time
import typing as t
from pathlib import Path

import pytest
from integration import gateways, support_runtime
from integration.conftest import Life, ask, start
from integration.gateways import HAProxy
from ports import free_block

pytestmark = [pytest.mark.integration, pytest.mark.apart]


class Clients:
    """20 requests a second through the gateway, each on its own, while the block runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.statuses: list[int] = []
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Clients:
        self._clock = threading.Thread(target=self._ask_on)
        self._clock.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._clock.join()
        for one in self._threads:
            one.join()

    def _ask_on(self) -> None:
        while not self._ended.wait(0.05):
            one = threading.Thread(target=lambda: self.statuses.append(ask(self.url, "once upon a time")[0]))
            one.start()
            self._threads.append(one)

    @property
    def failed(self) -> list[int]:
        return [status for status in self.statuses if status != 200]


class Fleet(t.NamedTuple):
    """A group on one host behind a gateway, and the rollout `longer` of it. Its gate says no while there is a file `refused`."""

    site: Life
    gateway: HAProxy

    def rollout(self, **changes: t.Any) -> None:
        gate = self.site.folder / "gate"
        gate.write_text(f'#!/bin/sh\necho "$1 at $2"; test ! -e {self.refused}\n')
        gate.chmod(0o755)
        made = {
            "groups": "all",
            "waves": [{"percent": 100}],
            "gate": {"command": [str(gate), "{{ group }}", "{{ endpoint }}"]},
            "strategy": "beside",
            **changes,
        }
        self.site.variables = {**self.site.variables, "pd_rollouts": {"longer": made}}
        self.site.write()

    @property
    def refused(self) -> Path:
        return self.site.folder / "refused"

    def edit(self, length: int) -> None:
        self.site.group["engine"]["args"] = [f"--max-model-len={length}"]
        self.site.write()

    def stands(self) -> dict[str, str]:
        """The length of a context that each stand of the group runs with, by its record."""
        found = {}
        for stand in ("g", "g_2"):
            try:
                record = self.site.record(stand)
            except FileNotFoundError:
                continue
            argv = record["templates"]["roles"]["decode"]["argv"]
            found[stand] = next(word.partition("=")[2] for word in argv if word.startswith("--max-model-len"))
        return found

    def runs(self) -> set[str]:
        """The stands that have members."""
        return {name.rsplit("-", 2)[0] for name in self.site.pids()}

    def note(self, stand: str) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", self.site.record(stand).get("rollout") or {})

    def asked(self) -> int:
        return ask(self.gateway.url, "once upon a time")[0]


@pytest.fixture
def fleet(make_site: t.Callable[..., Life], tmp_path: Path) -> t.Iterator[Fleet]:
    gateways.need()
    gateway = HAProxy()
    gateway.start()
    low = free_block(50)
    hosts = {
        "node": {"pd_port_range": f"{low}-{low + 49}", "pd_gpus": []},
        "gw": {"pd_state_dir": str(tmp_path / "gw")},
    }
    site = make_site(hosts, None)
    # Two routers live for a while: each has a port of its own.
    site.group["roles"]["router"].pop("port")
    site.group["endpoint"] = {"hooks": ["gateway"]}
    site.variables = {"pd_endpoint_hooks": {"gateway": gateway.hook()}}
    site.write()
    fleet = Fleet(site, gateway)
    site.play("deploy").ok()
    try:
        yield fleet
    finally:
        gateway.end()


def test_clients_are_served_all_the_time_there_and_back(fleet: Fleet) -> None:
    site = fleet.site
    fleet.rollout()
    fleet.edit(8192)
    told = site.play("rollout", "--check").ok().out
    assert "formed beside what serves" in told
    assert fleet.stands() == {"g": "4096"}
    with Clients(fleet.gateway.url) as clients:
        site.play("rollout").ok()
        time.sleep(0.5)
    assert len(clients.statuses) > 20
    assert clients.failed == []
    assert fleet.stands() == {"g_2": "8192"}
    assert fleet.runs() == {"g_2"}
    assert fleet.note("g_2")["state"] == "passed"
    told = site.play("status").ok().out
    assert "g: RUNNING" in told
    assert "g_2-decode-0" in told
    # All that is known of a group is found under its name.
    before = site.pids()
    assert "changed=0" in site.play("deploy", pd_group="g").ok().out
    assert site.pids() == before
    fleet.edit(2048)
    with Clients(fleet.gateway.url) as clients:
        site.play("rollout").ok()
        time.sleep(0.5)
    assert clients.failed == []
    assert fleet.stands() == {"g": "2048"}
    assert fleet.runs() == {"g"}
    site.play("remove", pd_group="g").ok()
    assert fleet.stands() == {}
    assert fleet.runs() == set()


@pytest.mark.faults
def test_what_cannot_be_formed_beside_itself_is_told_before_anything(fleet: Fleet) -> None:
    site = fleet.site
    router = site.group["roles"]["router"]
    router["port"] = int(site.record()["endpoint"]["url"].rpartition(":")[2])
    site.group["endpoint"] = {"hooks": []}
    fleet.rollout()
    fleet.edit(8192)
    told = " ".join(site.play("rollout", "--check").refused().out.split())
    assert "rollout-beside-room" in told
    assert f"roles.router.port: {router['port']} on node is taken by" in told
    assert "rollout-beside-hooks" in told
    assert fleet.runs() == {"g"}


@pytest.mark.faults
def test_what_fails_in_its_soak_gives_the_endpoint_back_to_what_still_stands(fleet: Fleet) -> None:
    site = fleet.site
    fleet.rollout(waves=[{"percent": 100, "soak": 3600}])
    fleet.edit(8192)
    with Clients(fleet.gateway.url) as clients:
        site.play("rollout").ok()
    assert clients.failed == []
    assert fleet.stands() == {"g": "4096", "g_2": "8192"}
    assert fleet.note("g_2")["state"] == "soaking"
    told = " ".join(site.play("status").ok().out.split())
    assert (
        "stands_twice: g_2 is the group, and g stands beside it until rollout longer is done with it (it is soaking)"
        in told
    )
    before = site.pids()
    assert "group-stands-twice" in site.play("deploy", pd_group="g").refused().out
    assert "group-stands-twice" in site.play("restart", pd_group="g").refused().out
    assert site.pids() == before
    # It lives, and does not answer any more.
    os.kill(before["g_2-decode-0"], signal.SIGSTOP)
    assert "returned" in site.play("rollout").refused().out
    assert fleet.stands() == {"g": "4096"}
    assert fleet.runs() == {"g"}
    assert {name: pid for name, pid in before.items() if name.startswith("g-")} == site.pids(), "nothing was started"
    assert fleet.asked() == 200
    assert fleet.note("g")["state"] == "returned"
    assert "group-held" in site.play("restart", pd_group="g").refused().out


@pytest.mark.faults
def test_a_run_that_is_killed_before_it_hands_over_is_given_up_or_gone_on_with(fleet: Fleet) -> None:
    site = fleet.site
    fleet.rollout()
    fleet.edit(8192)
    mark, gate = site.folder / "reached", site.folder / "gate"
    gate.write_text(f"#!/bin/sh\ntouch {mark}\nsleep 600\n")
    with Clients(fleet.gateway.url) as clients:
        process = start(site, "inferops.pd.rollout")
        support_runtime.wait_for(mark.exists, 300, "the gate")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        assert fleet.runs() == {"g", "g_2"}
        told = " ".join(site.play("status").ok().out.split())
        assert "g is the group, and g_2 stands beside it until rollout longer is done with it (it is changing)" in told
        gate.write_text("#!/bin/sh\nexit 0\n")
        site.play("rollout", pd_rollout_abort="true").refused()
        assert fleet.stands() == {"g": "4096"}
        assert fleet.runs() == {"g"}
        site.play("rollout", pd_rollout_resume="true").ok()
        assert fleet.stands() == {"g_2": "8192"}
        assert fleet.runs() == {"g_2"}
    assert clients.failed == []
