# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks of endpoints as a user has them: in runs of the playbooks, with a real HAProxy before a group of stand-ins."""

from __future__ import annotations

import json
import threading
import typing as t
from pathlib import Path

import pytest
import yaml
from integration import gateways
from integration.conftest import Life, ask, spec
from integration.gateways import HAProxy
from ports import free_block

pytestmark = pytest.mark.integration

OWN = """
- name: Note it
  ansible.builtin.shell: echo "$TOLD" >> {file}
  environment:
    TOLD: "{{{{ pd_endpoint.event }}}} {{{{ pd_endpoint.group }}}} {{{{ pd_endpoint.url }}}} {{{{ pd_endpoint.weight }}}}"
- name: Refuse
  ansible.builtin.fail:
    msg: the load balancer is closed today
  when: refuse is file
  vars:
    refuse: "{file}.refuse"
"""


class Fleet(t.NamedTuple):
    site: Life
    gateway: HAProxy
    own: Path
    sd: Path

    def through(self) -> tuple[int, str]:
        """One completion through the gateway."""
        return ask(self.gateway.url, "once upon a time")

    @property
    def hooks(self) -> dict[str, t.Any]:
        """What the record says of hooks."""
        return t.cast("dict[str, t.Any]", self.site.record()["endpoint"].get("hooks"))

    @property
    def events(self) -> list[str]:
        return [line.split()[0] for line in self.own.read_text().splitlines()]


@pytest.fixture
def fleet(make_site: t.Callable[..., Life], tmp_path: Path) -> t.Iterator[Fleet]:
    gateways.need()
    gateway = HAProxy()
    gateway.start()
    low = free_block(25)
    # Three names of one machine: each keeps its own.
    others = {name: {"pd_state_dir": str(tmp_path / name)} for name in ("gw", "desk")}
    site = make_site({"node": {"pd_port_range": f"{low + 1}-{low + 24}", "pd_gpus": []}, **others}, None)
    site.port = site.group["roles"]["router"]["port"]
    site.group["endpoint"] = {"weight": 50, "hooks": ["gateway", "prometheus", "own"]}
    own, sd = tmp_path / "own.txt", tmp_path / "sd"
    (site.folder / "own.yml").write_text(OWN.format(file=own))
    site.variables = {
        "pd_endpoint_hooks": {
            "gateway": gateway.hook(),
            "prometheus": {"kind": "file_sd", "hosts": "gw", "file": f"{sd}/${{group}}.json"},
            "own": {"kind": "tasks", "hosts": "desk", "tasks": "{{ inventory_dir }}/own.yml"},
        }
    }
    site.write()
    try:
        yield Fleet(site, gateway, own, sd)
    finally:
        gateway.end()


@pytest.mark.floor
def test_an_endpoint_is_given_and_taken_in_the_life_of_a_group(fleet: Fleet) -> None:
    site, gateway = fleet.site, fleet.gateway
    shown = site.play("deploy", "--check", "--diff").ok()
    assert f"+    server g 127.0.0.1:{site.port} weight 50" in shown.out
    assert "+ [announce] announce on gw: hook gateway: it is new to the group" in shown.out
    assert fleet.through()[0] == 503
    assert not fleet.own.exists()
    assert site.untouched()

    site.play("deploy").ok()
    assert fleet.through()[0] == 200
    assert "weight 50" in gateway.file.read_text()
    assert json.loads((fleet.sd / "g.json").read_text())[0]["labels"]["pd_group"] == "g"
    assert fleet.own.read_text() == f"in g http://127.0.0.1:{site.port} 50\n"
    assert set(fleet.hooks) == {"gateway", "prometheus", "own"}
    assert site.record()["endpoint"]["registered"]
    assert "hooks    gateway on gw, own on desk, prometheus on gw" in site.play("status").ok().out

    # Nothing new, nothing told.
    again = site.play("deploy").ok()
    assert (again.changed, fleet.events, gateway.reloads) == (0, ["in"], 1)

    # Another weight, and a hook less: the group runs on.
    pids = site.pids()
    site.group["endpoint"] = {"weight": 70, "hooks": ["gateway", "own"]}
    site.write()
    site.play("deploy").ok()
    assert "weight 70" in gateway.file.read_text()
    assert gateway.reloads == 1
    assert not (fleet.sd / "g.json").exists()
    assert set(fleet.hooks) == {"gateway", "own"}
    assert site.pids() == pids
    assert site.play("deploy").ok().changed == 0

    restarted = site.play("restart", pd_group="g").ok()
    assert restarted.out.index("Tell the hooks of g") < restarted.out.index("Stop the router")
    assert fleet.events == ["in", "in", "out", "in"]
    assert fleet.through()[0] == 200
    assert gateway.reloads == 1
    assert site.record()["endpoint"]["registered"]

    site.play("remove", pd_group="g").ok()
    assert fleet.through()[0] == 503
    assert fleet.events[-1] == "out"
    assert "server g" not in gateway.file.read_text()
    assert not list(site.states[0].glob("groups/*"))


def test_nothing_stops_while_a_hook_may_send_requests(fleet: Fleet) -> None:
    site = fleet.site
    site.play("deploy").ok()
    pids = site.pids()
    refuse = Path(f"{fleet.own}.refuse")
    refuse.touch()
    failed = site.play("restart", pd_group="g").refused()
    assert "its endpoint could not be taken from own on desk, so nothing was stopped." in failed.out
    assert "the load balancer is closed today" in failed.out
    assert "-e pd_skip_hooks=own" in failed.out
    assert site.pids() == pids
    assert site.lock() is None
    assert not site.record()["endpoint"]["registered"]
    assert "it is taken from gateway, prometheus, own" in site.play("status").ok().out
    # The other hooks had let it go, and have it again.
    assert fleet.through()[0] == 200
    # A deploy says so, and fails for that one.
    again = site.play("deploy").refused()
    assert "its endpoint could not be given to own on desk" in again.out
    assert fleet.through()[0] == 200
    assert site.record()["state"] == "partial"
    assert site.pids() == pids
    # Without it all goes on, and it is told later.
    site.play("restart", pd_group="g", pd_skip_hooks="own").ok()
    assert site.pids() != pids
    assert site.record()["endpoint"]["registered"]
    refuse.unlink()
    told = site.play("deploy").ok()
    assert told.changed > 0
    assert fleet.events[-1] == "in"
    assert fleet.hooks["own"]["digest"]
    assert site.play("deploy").ok().changed == 0


def test_a_hook_that_cannot_be_told_is_said_before_anything(fleet: Fleet) -> None:
    site = fleet.site
    left = site.play("deploy", "--limit", "node:desk").refused()
    assert "hook gateway: gw was left out of this run" in left.out
    assert site.untouched()
    assert "Did you mean 'gateway'?" in site.play("deploy", "--check", pd_skip_hooks="gatway").refused().out
    site.group["endpoint"]["hooks"] = ["gatewai"]
    site.write()
    assert "Did you mean 'gateway'?" in site.play("validate").refused().out
    hooks = yaml.safe_load((site.folder / "group_vars" / "all.yml").read_text())["pd_endpoint_hooks"]
    site.variables = {"pd_endpoint_hooks": {**hooks, "again": hooks["gateway"]}}
    site.group["endpoint"]["hooks"] = ["gateway"]
    site.write()
    assert "is the file of hook again as well" in site.play("validate").refused().out
    hooks["gateway"] |= {"hosts": "nobody", "sockte": "/x"}
    site.variables = {"pd_endpoint_hooks": hooks}
    site.group["endpoint"]["hooks"] = ["gateway"]
    site.write()
    refused = site.play("validate").refused()
    assert "pd_endpoint_hooks.gateway.sockte: there is no such key." in refused.out


def test_a_group_that_does_not_come_up_is_out_of_its_hooks(fleet: Fleet) -> None:
    site = fleet.site
    site.play("deploy").ok()
    site.env(STANDIN_FAIL="exit_at_load")
    site.play("restart", pd_group="g").refused()
    assert fleet.through()[0] == 503
    assert fleet.events[-1] == "out"
    assert fleet.hooks["gateway"]["digest"] == ""
    del site.group["engine"]["env"]["STANDIN_FAIL"]
    site.write()
    site.play("restart", pd_group="g").ok()
    assert fleet.through()[0] == 200
    assert site.record()["endpoint"]["registered"]


def test_clients_of_two_groups_behind_one_name_see_no_failure_while_one_restarts(
    make_site: t.Callable[..., Life], model: Path, tmp_path: Path
) -> None:
    gateways.need()
    gateway = HAProxy()
    gateway.start()
    low = free_block(50)
    endpoint = {"hooks": ["gateway"]}
    groups = {
        name: spec(model, low + at, endpoint=endpoint, engine={"env": {"STANDIN_LOAD": "0.1", "STANDIN_DELAY": "0.3"}})
        for at, name in enumerate(("g", "h"))
    }
    hosts = {"node": {"pd_port_range": f"{low + 2}-{low + 49}"}, "gw": {"pd_state_dir": str(tmp_path / "gw")}}
    site = make_site(hosts, groups)
    site.variables = {"pd_endpoint_hooks": {"gateway": gateway.hook()}}
    site.write()
    told: list[int] = []
    over = threading.Event()

    def client() -> None:
        while not over.is_set():
            told.append(ask(gateway.url, "once upon a time")[0])

    clients = [threading.Thread(target=client) for _client in range(3)]
    try:
        site.play("deploy").ok()
        assert (ask(gateway.url, "hello")[0], gateway.reloads) == (200, 1)
        for one in clients:
            one.start()
        before = site.pids()
        site.play("restart", pd_group="g").ok()
        after = site.pids()
        over.set()
        for one in clients:
            one.join(30)
        assert set(told) == {200}, {status: told.count(status) for status in set(told)}
        assert {name for name in before if before[name] != after[name]} == {n for n in before if n.startswith("g-")}
        assert gateway.reloads == 1
        gateway.stop()
        gateway.start()
        assert ask(gateway.url, "hello")[0] == 200
    finally:
        over.set()
        gateway.end()


def test_a_host_of_a_hook_that_is_gone_leaves_the_group_partial_and_unlocked(fleet: Fleet) -> None:
    site = fleet.site
    site.group["endpoint"]["hooks"] = []
    site.write()
    site.play("deploy").ok()
    pids = site.pids()
    site.group["endpoint"]["hooks"] = ["prometheus"]
    site.hosts["gw"] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": free_block(1)}
    site.write()
    # Whoever looks at all hosts sees it before anything.
    assert "hook prometheus: gw did not answer" in site.play("deploy").refused().out
    assert site.record()["endpoint"]["registered"]
    late = site.play("deploy", pd_group="g").refused()
    assert "its endpoint could not be given to prometheus on gw" in late.out
    assert site.record()["state"] == "partial"
    assert site.lock() is None
    assert (ask(f"http://127.0.0.1:{site.port}", "hello")[0], site.pids()) == (200, pids)
    # Nothing stops that could not be taken out, and without the hook all goes on.
    kept = site.play("restart", pd_group="g").refused()
    assert "could not be taken from prometheus on gw, so nothing was stopped." in kept.out
    assert site.pids() == pids
    site.play("deploy", pd_group="g", pd_skip_hooks="prometheus").ok()
    assert site.record()["endpoint"]["registered"]
