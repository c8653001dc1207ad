# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group and the cache service that it uses: the service is there first, or the run ends. The service is a small program under the kind
lmcache, whose flags it takes: the real server is tested in test_caches_real.py."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
from integration.conftest import Life
from ports import free_block

pytestmark = pytest.mark.integration

# Listens where it is told, answers its health path, and knows nothing of KV.
SERVER = """#!{python}
import http.server, os, socket, sys
given = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
if os.environ.get("BROKEN"):
    sys.exit("ValueError: no memory for the L1 cache")
main = socket.create_server((given["host"], int(given["port"])))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthcheck" else 404)
        self.end_headers()
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer((given["http-host"], int(given["http-port"])), Handler).serve_forever()
"""


class Site(Life):
    """A group `g` with a service `lm` on its one host."""

    def services(self, **changes: t.Any) -> None:
        entry = {
            "provider": "lmcache",
            "hosts": "node",
            "runtime": "supervisor",
            "executable": str(self.folder / "lmcache"),
            "options": {"size": 1},
            "limits": {"start": 60, "stop": 3},
            **changes,
        }
        self.variables = {"pd_caches": {"lm": entry}}
        self.write()

    def argv(self, member: str) -> list[str]:
        return Path(f"/proc/{self.pids()[member]}/cmdline").read_text().split("\0")

    def child(self, member: str) -> dict[str, t.Any]:
        """The cache's part of a member's connector, empty where it has none."""
        flag = "--kv-transfer-config="
        config = json.loads(next(w for w in self.argv(member) if w.startswith(flag))[len(flag) :])
        children = config.get("kv_connector_extra_config", {}).get("connectors", [])
        return next((c for c in children if c["kv_connector"] == "LMCacheMPConnector"), {})


@pytest.fixture
def site(make_site: t.Callable[..., Life]) -> Site:
    made = make_site(kv_cache={"provider": "lmcache", "service": "lm"})
    made.__class__ = Site
    server = made.folder / "lmcache"
    server.write_text(SERVER.format(python=sys.executable))
    server.chmod(0o755)
    t.cast("Site", made).services()
    return t.cast("Site", made)


def test_the_service_is_there_before_the_members_that_use_it(site: Site) -> None:
    check = site.play("deploy", "--check", "--diff").ok()
    assert "+ [start] create lm-cache-0 on node" in check.out
    assert "+ [start] create g-prefill-0 on node" in check.out
    assert "cache-not-injected" not in check.out, "the check run sees the service that a run would start"
    assert site.untouched()

    run = site.play("deploy").ok()
    assert run.out.index("Cache service lm is running") < run.out.index(
        "TASK [inferops.pd.engine : Start the engines of g]"
    )
    before = site.pids()
    assert set(before) == {"lm-cache-0", "g-prefill-0", "g-decode-0", "g-router-0"}
    port = site.record("lm")["members"][0]["port"]
    extra = site.child("g-prefill-0")["kv_connector_extra_config"]
    assert (extra["lmcache.mp.host"], extra["lmcache.mp.port"]) == ("tcp://127.0.0.1", port)
    assert site.child("g-decode-0") == {}
    assert site.play("deploy", "--diff").ok().changed == 0

    status = site.play("status").ok().out
    assert "g: RUNNING" in status
    assert "cache lm: RUNNING  lmcache, 1 of 1 instances ready, used by g" in status
    assert "lm: RUNNING" not in status.replace("cache lm: RUNNING", ""), "a service is no group"
    assert "g: RUNNING" in site.play("status", pd_group="g").ok().out

    _it_is_in_use(site)
    _a_restart_of_the_group_leaves_it_alone(site)


def test_services_are_approved_like_groups(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    site.play("caches", "--check", pd_plan_out=file).ok()
    digest = json.loads(file.read_text())["digest"]
    assert site.untouched()
    site.play("caches", pd_plan_digest=digest).ok()
    assert set(site.pids()) == {"lm-cache-0"}
    assert "plan-not-approved" in site.play("caches", pd_plan_digest=digest).refused().out
    site.play("caches_remove", "--check", pd_cache="lm", pd_plan_out=file).ok()
    assert "plan-not-approved" in site.play("caches", pd_plan_file=file).refused().out
    site.play("caches_remove", pd_cache="lm", pd_plan_file=file).ok()
    assert site.pids() == {}


def _it_is_in_use(site: Site) -> None:
    before = site.pids()
    refused = site.play("caches_remove", pd_cache="lm").refused()
    assert "cache-in-use" in refused.out
    assert "used by members of g that run" in refused.out
    assert "There is no group 'lm'" in site.play("remove", pd_group="lm").refused().out
    assert site.pids() == before


def _a_restart_of_the_group_leaves_it_alone(site: Site) -> None:
    before = site.pids()["lm-cache-0"]
    site.play("restart", pd_group="g").ok()
    assert site.pids()["lm-cache-0"] == before
    site.play("remove", pd_group="g").ok()
    assert set(site.pids()) == {"lm-cache-0"}
    site.play("caches_remove", pd_cache="lm").ok()
    assert site.pids() == {}


def test_a_service_that_does_not_answer_ends_the_run_before_the_group_is_touched(site: Site) -> None:
    site.services(env={"BROKEN": "1"})
    run = site.play("deploy").refused()
    assert "Cache service lm does not serve: 0 of 1 instances ready." in run.out
    assert "no memory for the L1 cache" in run.out, "with its own words"
    assert "Group g: nothing of it was touched, since it uses lm, which failed in this run." in run.out
    assert "TASK [inferops.pd.group : Lock g]" not in run.out
    assert not (site.state / "groups" / "g").exists()
    site.services()
    site.play("deploy").ok()
    assert site.ask()[0] == 200


def test_a_group_whose_service_is_refused_is_not_begun(site: Site) -> None:
    """Then the group's wave is the first one, and no service has failed in one before it."""
    site.services(executable=str(site.folder / "nowhere"))
    run = site.play("deploy").refused()
    assert "Group g: nothing of it was touched, since it uses lm, which failed in this run." in run.out
    assert "1 of 2 failed: lm. Not touched: g." in run.out
    assert site.pids() == {}


@pytest.fixture
def pair(tmp_path: Path) -> t.Iterator[Site]:
    """Two hosts with a service each, and no group."""
    low = free_block(20)
    hosts = {
        name: {"pd_port_range": f"{low + 10 * n}-{low + 10 * n + 9}", "pd_state_dir": str(tmp_path / f"state-{name}")}
        for n, name in enumerate(("h1", "h2"))
    }
    made = Site(tmp_path / "site", hosts, {})
    server = made.folder / "lmcache"
    server.write_text(SERVER.format(python=sys.executable))
    server.chmod(0o755)
    made.services(hosts="all")
    yield made
    made.clean()


def test_a_service_goes_through_the_phases_of_a_group(pair: Site) -> None:
    run = pair.play("caches", "--diff").ok()
    order = [
        "Lock lm",
        "Start the engines of lm",
        "Wait for the engines of lm",
        "Write the record of lm",
        "Tell the state of lm",
    ]
    places = [run.out.index(name) for name in order]
    assert places == sorted(places)
    before = pair.pids()
    assert set(before) == {"lm-cache-0", "lm-cache-1"}
    again = pair.play("caches", "--diff").ok()
    assert again.changed == 0
    assert max(counts["ok"] for counts in again.recap.values()) <= 5, "no more than before both kinds had one way"

    # The lock is a phase of its own: where one host does not give it, the other gets its own back, and nothing has changed.
    pair.lock_from_elsewhere("lm", pair.states[1])
    run = pair.play("caches", pd_cache="lm", pd_restart_caches="true").refused()
    assert "Cache service lm: nothing was changed on any host." in run.out
    assert "ops@elsewhere" in run.out
    assert pair.lock("lm", pair.states[0]) is None
    assert pair.pids() == before
    run = pair.play("caches", pd_cache="lm", pd_restart_caches="true", pd_break_lock="true").ok()
    assert "Cache service lm is running" in run.out
    assert pair.lock("lm", pair.states[1]) is None
    assert set(pair.pids()) == set(before)
    assert not set(pair.pids().values()) & set(before.values())


def test_a_failed_start_of_a_service_is_kept_or_stopped_as_a_groups_is(pair: Site) -> None:
    pair.services(hosts="h1")
    pair.play("caches").ok()
    before = pair.pids()
    pair.services(hosts="all", env={"BROKEN": "1"})
    run = pair.play("caches", pd_on_failure="stop").refused()
    assert "Cache service lm does not serve: 1 of 2 instances ready." in run.out
    assert "What this run started is stopped again (pd_on_failure is stop)" in run.out
    assert pair.pids() == before, "what served before stays"
    assert [m["id"] for m in pair.record("lm")["members"]] == ["lm-cache-0"]
    assert "holds" not in [path.stem for state in pair.states for path in state.rglob("*.json")]
    run = pair.play("caches").refused()
    assert "What runs is kept: lm-cache-0." in run.out
    assert pair.record("lm")["state"] == "partial"
    assert pair.lock("lm") is None
    assert "lm-cache-1" in pair.play("status").ok().out


def test_a_removal_takes_what_is_none_of_the_service_too(pair: Site) -> None:
    """Where the record knows an instance on another host than the one that it runs on."""
    pair.services(hosts="h1")
    pair.play("caches").ok()
    file = pair.states[0] / "groups/lm/record.json"
    record = json.loads(file.read_text())
    record["members"][0]["host"] = "h2"
    file.write_text(json.dumps(record))
    status = pair.play("status").ok().out
    assert "! stray: lm-cache-0 on h1 is none of the service" in status
    pair.play("caches_remove", pd_cache="lm").ok()
    assert pair.pids() == {}
    assert [p for state in pair.states for p in state.rglob("*") if p.is_file() and p.name != "id"] == []


def test_a_spec_of_a_service_that_is_wrong_refuses_its_groups(site: Site) -> None:
    site.services(options={"size": "much"})
    run = site.play("deploy").refused()
    assert "pd_caches.lm.options.size" in run.out
    assert site.untouched()
