# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Maintenance of a host: it is emptied while clients ask, and given back. The hosts are this machine three times, with an address, a range
of ports and a state directory each."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from integration import support_runtime
from integration.conftest import Life, ask, interface, spec
from load import Load
from ports import free_block
from standin.engine import text_for

pytestmark = [pytest.mark.integration, pytest.mark.apart]
Make = t.Callable[..., Life]
PORTS = 24
HOSTS = ("h1", "h2", "h3")
ADDRESSES = {host: f"127.0.0.{number}" for number, host in enumerate(HOSTS, 2)}


def three_hosts(make_site: Make, tmp_path: Path, model: Path, **changes: t.Any) -> Life:
    """The router on h1, two prefills and two decodes on h2 and h3."""
    nic = interface()
    if nic is None:
        pytest.skip("needs a default route")
    low = free_block(3 * PORTS + 1)
    hosts = {
        host: {
            "pd_kv_interface": nic,
            "pd_address": ADDRESSES[host],
            "pd_port_range": f"{low + 1 + number * PORTS}-{low + (number + 1) * PORTS}",
            "pd_state_dir": str(tmp_path / host),
        }
        for number, host in enumerate(HOSTS)
    }
    engines = {"hosts": "h2:h3", "gpus": 0, "replicas": 2}
    roles: dict[str, t.Any] = {"prefill": dict(engines), "decode": dict(engines), "router": {"hosts": "h1"}}
    for name, change in changes.items():
        roles[name] = {**roles[name], **change}
    site = make_site(hosts, {"g": spec(model, low, limits={"start": 60, "drain": 20, "stop": 5}, **roles)})
    site.port = low
    return site


def right(prompt: str, text: str) -> bool:
    return text == " ".join(text_for(prompt, 4))


def on(site: Life, host: str) -> set[str]:
    return set(site.pids([site.states[HOSTS.index(host)]]))


def endpoint(site: Life, host: str) -> str:
    """Where the group is, by the record of a host."""
    found = site.record(state=site.states[HOSTS.index(host)])["endpoint"]
    assert found["registered"]
    return str(found["url"])


def left(site: Life, host: str) -> list[str]:
    """The files that the collection keeps on a host."""
    root = site.states[HOSTS.index(host)]
    return sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())


def test_a_host_is_emptied_while_clients_ask(make_site: Make, tmp_path: Path, model: Path) -> None:
    site = three_hosts(make_site, tmp_path, model)
    site.play("deploy").ok()
    before = site.pids()
    there, stays = on(site, "h2"), on(site, "h3")
    assert len(there) == len(stays) == 2, before

    check = site.play("evacuate", "--check", "--diff", pd_host="h2").ok()
    for member in there:
        assert f"- [retire] remove {member} on h2: h2 is evacuated" in check.out
        assert f"on h3: in the place of {member}, whose host h2 is evacuated" in check.out
    assert "h2 would be empty" in check.out
    assert site.pids() == before
    assert "cordon.json" not in left(site, "h2")
    other = site.play("evacuate", pd_host="h2", pd_plan_digest="0" * 64).refused()
    assert "plan-not-approved" in other.out
    assert "cordon.json" not in left(site, "h2"), "what was not approved leaves no mark"

    with Load(f"http://{ADDRESSES['h1']}:{site.port}", rate=20, senders=20, right=right) as load:
        support_runtime.wait_for(lambda: load.reached(40), 60, "clients are served")
        run = site.play("evacuate", pd_host="h2", pd_why="driver-update").ok()
        seen = load.report.sent
        support_runtime.wait_for(lambda: load.reached(seen + 20), 60, "clients are served after it")
    assert not load.report.bad, load.report.told()
    assert "h2 is empty, and may be switched off" in run.out
    assert on(site, "h2") == set()
    assert stays < on(site, "h3")
    assert len(on(site, "h3")) == 4
    assert {name: pid for name, pid in site.pids().items() if name in before} == {
        name: pid for name, pid in before.items() if name not in there
    }, "those that stayed were not touched"
    mark = json.loads((site.states[1] / "cordon.json").read_text())
    assert mark["why"] == "driver-update"
    assert mark["by"]
    assert not [one for one in left(site, "h2") if one.startswith("groups/")], "it is in no record, and has none"
    assert {m["host"] for m in site.record()["members"]} == {"h1", "h3"}

    again = site.play("evacuate", pd_host="h2").ok()
    assert again.changed == 0
    assert site.play("deploy").ok().changed == 0
    status = " ".join(site.play("status").ok().out.split())
    assert "g: RUNNING" in status
    assert "h2 is cordoned by" in status
    assert "(driver-update) since" in status

    # What comes does not come there.
    scaled = site.play("scale", pd_group="g", pd_decode=3).ok()
    assert "h2 is cordoned by" in " ".join(scaled.out.split())
    assert on(site, "h2") == set()

    returned = site.play("evacuate", pd_host="h2", pd_return="true").ok()
    assert "h2 takes members again: deploys and scales may seat there: g (prefill, decode)" in " ".join(
        returned.out.split()
    )
    assert not left(site, "h2")
    assert site.play("evacuate", pd_host="h2", pd_return="true").ok().changed == 0
    site.play("scale", pd_group="g", pd_decode=4).ok()
    assert on(site, "h2"), "the emptiest host comes first again"


def test_the_router_moves_and_the_last_of_a_role_is_not_missed(make_site: Make, tmp_path: Path, model: Path) -> None:
    """One prefill, one decode and the router are on the host; others come first, and serve at the router's new address."""
    everywhere = {"hosts": "h1:h2"}
    site = three_hosts(
        make_site,
        tmp_path,
        model,
        prefill={**everywhere, "replicas": 1},
        decode={**everywhere, "replicas": 1},
        router=everywhere,
    )
    site.hosts["h2"]["pd_cordoned"] = True
    # The hosts are one machine: a port of the router's own could not be on both at once.
    del site.group["roles"]["router"]["port"]
    site.write()
    site.play("deploy").ok()
    assert len(on(site, "h1")) == 3
    before = endpoint(site, "h1")
    refused = site.play("evacuate", pd_host="h1").refused()
    said = " ".join(refused.out.split())
    assert "h1 is not empty" in said
    assert "h2: cordoned by the inventory (pd_cordoned)" in said
    assert len(on(site, "h1")) == 3
    assert ask(before, "hello")[0] == 200

    del site.hosts["h2"]["pd_cordoned"]
    site.write()
    run = site.play("evacuate", pd_host="h1").ok()
    said = " ".join(run.out.split())
    after = endpoint(site, "h2")
    assert f"the router moves from h1 to h2: its address is {after} instead of {before}" in said
    assert on(site, "h1") == set()
    assert len(on(site, "h2")) == 3
    assert ask(after, "hello")[0] == 200


def test_what_cannot_be_meant_is_refused(make_site: Make, tmp_path: Path, model: Path) -> None:
    site = three_hosts(make_site, tmp_path, model)
    nothing = " ".join(site.play("evacuate").refused().out.split())
    assert "Say which host: -e pd_host=NAME" in nothing
    unknown = " ".join(site.play("evacuate", pd_host="h22").refused().out.split())
    assert "pd_host: 'h22' matches no host of the inventory. Did you mean" in unknown
    limited = " ".join(site.play("evacuate", "--limit", "h1", pd_host="h2").refused().out.split())
    assert "h2 is not one of the hosts of this run. Run without --limit" in limited
    assert site.untouched()
