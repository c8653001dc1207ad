# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan made in one run and carried out in another, by the real playbooks: the same plan goes on, another one touches nothing."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
from integration.conftest import Life, spec, told_once
from ports import free_block
from support import Run

pytestmark = [pytest.mark.integration, pytest.mark.apart]
Make = t.Callable[..., Life]


def stats(run: Run) -> dict[str, t.Any]:
    """What a run tells those that follow it, as AWX keeps it; with ANSIBLE_SHOW_CUSTOM_STATS."""
    (told,) = re.findall(r"^\s*RUN: (\{.*\})\s*$", run.out, re.M)
    return t.cast("dict[str, t.Any]", json.loads(told))


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_SHOW_CUSTOM_STATS", "1")
    monkeypatch.setenv("ANSIBLE_CALLBACK_RESULT_FORMAT", "json")


def plan(site: Life, file: Path, playbook: str = "deploy", **extra: t.Any) -> str:
    """The digest of the plan of a check run, which has changed nothing and has written it to a file."""
    run = site.play(playbook, "--check", pd_plan_out=file, **extra).ok()
    digest = str(json.loads(file.read_text())["digest"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"-e pd_plan_digest={digest}" in run.out
    assert stats(run)["pd_plan_digest"] == digest
    return digest


@pytest.mark.floor
def test_what_was_approved_is_carried_out_once(make_site: Make, tmp_path: Path) -> None:
    site = make_site(engine={"env": {"STANDIN_LOAD": "0.1", "PRIVATE": "v4lue"}, "secrets": {"TOKEN": "s3cr3t"}})
    file = tmp_path / "plan.json"
    digest = plan(site, file)
    assert site.untouched()
    assert "s3cr3t" not in file.read_text()

    done = site.play("deploy", pd_plan_digest=digest).ok()
    assert f"This is the plan that was approved: {digest}" in done.out
    assert set(site.pids()) == {"g-prefill-0", "g-decode-0", "g-router-0"}
    told = stats(done)
    assert told["pd_plan_digest"] == "any", "it is spent: what follows in the same workflow is not held to it"
    assert told["pd_plan_summary"]["digest"] == digest
    assert told["pd_plan_summary"]["workloads"]["g"]["created"] == 3
    assert told["pd_plan_seats"]["g-router-0"] == {"host": "node", "gpus": [], "port": site.port}
    assert "v4lue" not in json.dumps(told)

    # There is nothing to do any more, and that is another plan.
    before = site.pids()
    again = site.play("deploy", pd_plan_digest=digest, pd_plan_file=file).refused()
    told_once(again, r"ERROR plan-not-approved: Approved was the plan")
    assert re.search(r"^  -member g-prefill-0|^  -\[start\] create g-prefill-0 on node", again.out, re.M)
    nothing = plan(site, file)
    assert nothing != digest
    assert f"-e pd_plan_digest={nothing}" in again.out
    assert site.play("deploy", pd_plan_file=file).ok().changed == 0
    # Approved was that nothing is done.
    site.env(ADDED="1")
    told_once(site.play("deploy", pd_plan_digest=nothing).refused(), "ERROR plan-not-approved")
    assert site.pids() == before
    assert site.lock() is None


def test_a_restart_and_a_removal_are_approved_too(make_site: Make, tmp_path: Path) -> None:
    site = make_site()
    site.play("deploy").ok()
    before = site.pids()
    restart = plan(site, tmp_path / "plan", "restart", pd_group="g")
    site.play("restart", pd_group="g", pd_plan_digest=restart).ok()
    after = site.pids()
    assert all(after[name] != before[name] for name in before)
    told_once(site.play("restart", pd_group="g", pd_plan_digest=restart).refused(), "ERROR plan-not-approved")
    assert site.pids() == after
    removal = plan(site, tmp_path / "plan", "remove", pd_group="g")
    assert removal != restart
    site.play("remove", pd_group="g", pd_plan_digest=removal).ok()
    assert site.pids() == {}


def test_a_group_that_has_changed_meanwhile_keeps_all_of_the_run_from_its_start(
    make_site: Make, model: Path, tmp_path: Path
) -> None:
    low = free_block(60)
    ranges = {"n1": f"{low + 4}-{low + 31}", "n2": f"{low + 32}-{low + 59}"}
    hosts = {name: {"pd_port_range": ports, "pd_state_dir": str(tmp_path / name)} for name, ports in ranges.items()}
    groups = {
        name: spec(model, low + at, prefill={"hosts": where}, decode={"hosts": where}, router={"hosts": where})
        for at, (name, where) in enumerate((("a", "n1"), ("b", "n2"), ("c", "n1")))
    }
    site = make_site(hosts, groups)
    file = tmp_path / "plan.json"
    digest = plan(site, file)
    digests = json.dumps(stats(site.play("deploy", "--check").ok())["pd_plan_digests"])
    # The inventory in another order, as a source may give it, and another number of forks: the same plan.
    site.hosts = dict(reversed(list(site.hosts.items())))
    site.write()
    site.play("deploy", "--check", "-f", "1", pd_plan_digest=digest).ok()

    # Somebody deploys one of them meanwhile.
    site.play("deploy", pd_group="b").ok()
    before = site.pids()
    refused = site.play(
        "deploy", "-e", json.dumps({"pd_plan_digests": json.loads(digests)}), pd_plan_digest=digest
    ).refused()
    told_once(refused, "ERROR plan-not-approved: Approved was the plan")
    assert "b changed. Nothing was done, and nothing locked" in " ".join(refused.out.split())
    shown = site.play("deploy", pd_plan_file=file).refused()
    assert re.search(r"^b:$", shown.out, re.M)
    assert site.pids() == before
    assert site.lock("a") is None
    assert not any((state / "groups" / "a").exists() for state in site.states)
    site.play("deploy", pd_plan_digest=plan(site, file)).ok()
    assert {name[0] for name in site.pids()} == {"a", "b", "c"}


def test_what_is_no_digest_and_no_file_is_told_before_any_host_is_asked(make_site: Make, tmp_path: Path) -> None:
    site = make_site()
    for given, says in (
        ({"pd_plan_digest": "abc"}, "pd_plan_digest: 'abc' is no digest of a plan"),
        ({"pd_plan_digest": ""}, "pd_plan_digest: '' is no digest of a plan"),
        ({"pd_plan_file": tmp_path / "none"}, "none cannot be read"),
        ({"pd_plan_out": tmp_path / "none" / "plan"}, "there is no folder"),
    ):
        run = site.play("deploy", **given).refused()
        assert says in run.out
        assert "Observe" not in run.out
    assert site.untouched()
