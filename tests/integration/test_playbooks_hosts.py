# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups over two hosts, hosts that do not answer, and two groups in one inventory. The hosts are this machine twice, with an address, a
range of ports and a state directory each."""

from __future__ import annotations

import re
import socket
import typing as t
from pathlib import Path

import pytest
from integration.conftest import Life, ask, interface, kill, spec
from ports import free_block
from released import unpack
from support import Run

pytestmark = [pytest.mark.integration, pytest.mark.apart]
Make = t.Callable[..., Life]


def two_hosts(make_site: Make, tmp_path: Path, model: Path, **changes: t.Any) -> Life:
    """Prefill and router on h1, decode on h2."""
    nic = interface()
    if nic is None:
        pytest.skip("needs a default route")
    low = free_block(50)
    common = {"pd_kv_interface": nic}
    hosts = {
        "h1": {**common, "pd_address": "127.0.0.2", "pd_port_range": f"{low + 1}-{low + 24}", "pd_state_dir": str(tmp_path / "h1")},
        "h2": {**common, "pd_address": "127.0.0.3", "pd_port_range": f"{low + 25}-{low + 49}", "pd_state_dir": str(tmp_path / "h2")},
    }  # fmt: skip
    roles = {"prefill": {"hosts": "h1", "gpus": 0}, "decode": {"hosts": "h2", "gpus": 0}, "router": {"hosts": "h1"}}
    for name, change in changes.items():
        roles[name] = {**roles[name], **change}
    site = make_site(hosts, {"g": spec(model, low, **roles)})
    site.port = low
    return site


def lose(site: Life, host: str) -> None:
    """That host does not answer any more: ssh to a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    site.hosts[host] |= {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": closed,
        "ansible_ssh_common_args": "-o ConnectTimeout=2 -o BatchMode=yes",
    }
    site.write()


def find(site: Life, host: str) -> None:
    """It answers again."""
    for key in [k for k in site.hosts[host] if k.startswith("ansible_")]:
        del site.hosts[host][key]
    site.write()


def test_a_group_over_two_hosts_is_never_changed_by_halves(make_site: Make, tmp_path: Path, model: Path) -> None:
    site = two_hosts(make_site, tmp_path, model)
    check = site.play("deploy", "--check", "--diff").ok()
    assert "create g-decode-0 on h2" in check.out
    assert site.untouched()
    site.play("deploy").ok()
    before = site.pids()
    assert set(before) == {"g-prefill-0", "g-decode-0", "g-router-0"}
    assert ask(f"http://127.0.0.2:{site.port}", "hello")[0] == 200
    records = [site.record(state=state) for state in site.states]
    assert records[0] == {**records[1], "updated": records[0]["updated"]}
    again = site.play("deploy").ok()
    assert again.changed == 0
    status = site.play("status").ok().out
    assert "g: RUNNING" in status
    assert "pairing_remote" in status

    # A part of the group is left out, by --limit or because a host does not answer: nothing stops.
    limited = site.play("restart", "--limit", "h1", pd_group="g").refused()
    assert "a restart of a part of the group is refused" in " ".join(limited.out.split())
    assert "does-not-fit" not in limited.out, "a host that was left out is no host that is too small"
    assert site.pids() == before
    lose(site, "h2")
    for book in ("restart", "remove"):
        run = site.play(book, pd_group="g").refused()
        said = " ".join(run.out.split())
        assert f"h2 did not answer and may still run g-decode-0: a {book} of a part of the group is refused" in said
        assert "-e pd_lost_hosts=h2" in said
        assert site.pids() == before
        assert site.record()["endpoint"]["registered"]

    # Unknown is not lost: what is down stays down, and is said.
    kill(before["g-prefill-0"])
    shown = site.play("status").ok().out
    assert "g-decode-0   decode   h2    unknown" in shown
    find(site, "h2")


def test_a_run_that_is_refused_on_the_first_host_changes_nothing_anywhere(
    make_site: Make, tmp_path: Path, model: Path
) -> None:
    """The lock is taken there before any other host is touched."""
    site = two_hosts(make_site, tmp_path, model)
    site.play("deploy").ok()
    before, there = site.pids(), site.record(state=site.states[1])
    site.lock_from_elsewhere()
    for book, more in (("scale", {"pd_decode": 2}), ("restart", {}), ("remove", {})):
        run = site.play(book, pd_group="g", **more).refused()
        said = " ".join(run.out.split())
        assert "ops@elsewhere pid 7 is changing it since" in said, book
        assert "-e pd_break_lock=true" in said
        assert site.pids() == before, book
        assert site.record(state=site.states[1]) == there, book
        assert site.lock(state=site.states[1]) is None, book
    site.play("scale", pd_group="g", pd_decode=2, pd_break_lock="true").ok()
    assert set(site.pids()) == {*before, "g-decode-1"}
    assert not any(site.lock(state=state) for state in site.states)


def test_a_lost_host_is_replaced_when_it_is_stated_and_swept_when_it_is_back(
    make_site: Make, tmp_path: Path, model: Path
) -> None:
    site = two_hosts(make_site, tmp_path, model, decode={"hosts": "h1,h2", "replicas": 2})
    site.play("deploy").ok()
    before = site.pids()
    there = {k: v for k, v in site.pids([tmp_path / "h2"]).items() if "decode" in k}
    assert len(there) == 1
    (lost,) = there
    (stays,) = {"g-decode-0", "g-decode-1"} - set(there)
    lose(site, "h2")
    kill(before[stays])

    unknown = site.play("deploy")
    said = " ".join(unknown.out.split())
    assert f"h2 did not answer and may still run {lost}: nothing of the group is replaced or restarted" in said
    assert set(site.pids([tmp_path / "h1"])) <= {"g-prefill-0", "g-router-0", stays}

    site.play("deploy", "--check", "--diff", pd_lost_hosts="h2").ok()
    run = site.play("deploy", pd_lost_hosts="h2").ok()
    assert "Group g is running" in run.out
    here = site.pids([tmp_path / "h1"])
    assert set(here) == set(before)
    assert here["g-prefill-0"] == before["g-prefill-0"]
    assert ask(f"http://127.0.0.2:{site.port}", "hello")[0] == 200

    find(site, "h2")
    back = site.play("deploy").ok()
    assert site.pids([tmp_path / "h2"]) == {}, back.out
    assert site.pids([tmp_path / "h1"]) == here
    assert site.play("deploy").ok().changed == 0
    site.play("remove", pd_group="g").ok()
    assert site.pids() == {}


_DONE = re.compile(r"^(?:ok|changed|fatal|failed): \[(\w+)\]", re.M)
_CALL = re.compile(r"^Using module file \S*/inferops/pd/plugins/modules/(\w+)\.py", re.M)


class Cost(t.NamedTuple):
    """What a run asked of its hosts: tasks by host, and module calls in all. How often a wait looks is the engines' matter."""

    tasks: dict[str, int]
    calls: int

    @classmethod
    def of(cls, run: Run) -> Cost:
        done = _DONE.findall(run.ok().out)
        return cls(
            {host: done.count(host) for host in sorted(set(done))},
            len([c for c in _CALL.findall(run.out) if c != "members_wait"]),
        )


def costs(site: Life) -> dict[str, Cost]:
    runs = {
        "form": site.play("deploy", "-vvv"),
        "again": site.play("deploy", "-vvv"),
        "restart": site.play("restart", "-vvv", pd_group="g"),
    }
    return {what: Cost.of(run) for what, run in runs.items()}


def test_what_a_run_costs_beside_the_version_before_formations(
    make_site: Make, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that changes nothing takes no task and no call more; one that changes something takes the lock first, one call a host."""
    now = costs(two_hosts(make_site, tmp_path / "now", model))
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(unpack.collections("22a08ae", tmp_path)))
    before = costs(two_hosts(make_site, tmp_path / "before", model))
    assert now["again"] == before["again"]
    # One look a host, and the plan.
    assert now["again"].calls == 2
    for what in before:
        assert now[what].calls <= before[what].calls + 2, (what, now[what], before[what])
        assert now[what].tasks.keys() == before[what].tasks.keys()
        # What the controller does by itself stands on the first host: the verdict that all have said yes, what is to be written of the
        # groups, and what failed in the end.
        more = {host: count - before[what].tasks[host] for host, count in now[what].tasks.items()}
        assert more["h1"] <= 4, (what, more)
        assert more["h2"] <= 1, (what, more)


def ports_of(out: str) -> dict[str, set[str]]:
    """The --port arguments in a shown plan, by group."""
    found: dict[str, set[str]] = {}
    for group, text in re.findall(r"^group (\w+):(.*?)(?=^group |\Z)", out, re.M | re.S):
        found[group] = set(re.findall(r"--port=(\d+)", text))
    return found


def test_two_groups_in_one_run(make_site: Make, model: Path) -> None:
    low = free_block(40)
    node = {"pd_port_range": f"{low + 2}-{low + 39}"}
    site = make_site({"node": node}, {"a": spec(model, low), "b": spec(model, low + 1)})
    check = site.play("deploy", "--check", "--diff").ok()
    ports = ports_of(check.out)
    assert set(ports) == {"a", "b"}
    assert len(ports["a"]) == len(ports["b"]) == 3
    assert not ports["a"] & ports["b"], "two groups planned in one check run get the ports that a real run gives them"
    assert site.untouched()

    site.play("deploy").ok()
    before = site.pids()
    assert len(before) == 6
    assert site.ask(port=low)[0] == site.ask(port=low + 1)[0] == 200
    assert site.play("deploy").ok().changed == 0
    status = site.play("status").ok().out
    assert "a: RUNNING" in status
    assert "b: RUNNING" in status

    # Restarted one after the other: none follows one that failed, and the others are named.
    site.lock_from_elsewhere("a")
    run = site.play("restart", pd_group="all").refused()
    assert "1 of 2 failed: a. Not touched: b." in " ".join(run.out.split())
    assert site.pids() == before
    (site.states[0] / "groups/a/lock.json").unlink()

    assert site.play("remove", "--check", pd_group="all").ok().changed > 0
    assert site.pids() == before
    site.play("remove", pd_group="a").ok()
    assert site.pids() == {k: v for k, v in before.items() if k.startswith("b-")}
    assert site.ask(port=low + 1)[0] == 200

    # A group that has left the inventory is still known by its members.
    del site.groups["b"]
    site.write()
    orphan = site.play("status").ok().out
    assert "not_in_inventory" in orphan
    site.play("remove", pd_group="b").ok()
    assert site.pids() == {}
