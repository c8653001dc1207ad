# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a group on stand-ins: deploy, counts, membership by restart, secrets, locks, removal."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import typing as t
from pathlib import Path

import pytest
from integration import support_runtime
from integration.conftest import Life, alive, kill, start, told_once
from support import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.apart]
Make = t.Callable[..., Life]
ALL = {"g-prefill-0", "g-decode-0", "g-router-0"}
REAL_ROUTER = ROOT / ".build/demo/engine/bin/vllm-router"


def router_command(site: Life) -> list[str]:
    return Path(f"/proc/{site.pids()['g-router-0']}/cmdline").read_text().split("\0")


# -- from nothing to nothing ---------------------------------------------------------------------------------------------------------


@pytest.mark.floor
def test_check_deploy_again_remove(make_site: Make) -> None:
    site = make_site()
    check = site.play("deploy", "--check", "--diff").ok()
    assert "+ [start] create g-prefill-0 on node" in check.out
    assert check.changed > 0, "check mode tells the truth: a run would change something"
    assert site.untouched()

    run = site.play("deploy", "--diff").ok()
    assert f"Endpoint: http://127.0.0.1:{site.port} (model tiny)" in run.out
    before = site.pids()
    assert set(before) == ALL
    assert site.ask()[0] == 200

    again = site.play("deploy", "--diff").ok()
    assert again.changed == 0
    assert site.pids() == before

    assert site.play("remove", "--check", "--diff", pd_group="g").ok().changed > 0
    assert site.pids() == before
    site.play("remove", pd_group="g").ok()
    assert site.pids() == {}
    assert [p for p in site.state.rglob("*") if p.is_file() and "g" in p.relative_to(site.state).parts] == []
    assert support_runtime.supervisord_of(str(site.state)) is None
    assert site.play("remove", pd_group="g").ok().changed == 0
    assert "g: PENDING" in site.play("status").ok().out


@pytest.mark.parametrize("membership", ["dynamic", "restart"])
def test_the_real_router_before_stand_in_engines(make_site: Make, membership: str) -> None:
    if not REAL_ROUTER.exists():
        pytest.skip("no engine environment here: make demo-env")
    site = make_site(router={"executable": str(REAL_ROUTER), "membership": membership})
    site.play("deploy").ok()
    assert site.ask()[0] == 200
    site.play("scale", pd_group="g", pd_decode=2).ok()
    status = site.play("status").ok().out
    assert f"{membership} membership, 3 peers, confirmed" in status
    assert site.play("deploy").ok().changed == 0


# -- counts --------------------------------------------------------------------------------------------------------------------------


def test_a_count_set_by_scale_is_kept_and_said(make_site: Make) -> None:
    site = make_site()
    site.play("deploy").ok()
    first = site.pids()
    site.play("scale", "--check", "--diff", pd_group="g", pd_prefill=2).ok()
    assert site.pids() == first

    up = site.play("scale", pd_group="g", pd_prefill=2).ok()
    assert up.changed > 0
    grown = site.pids()
    assert {k: v for k, v in grown.items() if k != "g-prefill-1"} == first
    assert site.play("scale", pd_group="g", pd_prefill=2).ok().changed == 0
    assert site.pids() == grown

    kept = site.play("deploy").ok()
    assert kept.changed == 0
    assert site.pids() == grown
    said = " ".join(kept.out.split())
    assert "prefill: 2 replicas, the inventory says 1" in said
    assert "-e pd_allow_scale_down=true" in said
    assert "count_differs_from_inventory: prefill runs 2, the inventory says 1" in site.play("status").ok().out

    check = site.play("deploy", "--check", "--diff", pd_allow_scale_down="true").ok()
    assert "remove g-prefill-1" in check.out
    assert site.pids() == grown
    site.play("deploy", pd_allow_scale_down="true").ok()
    assert site.pids() == first
    assert not alive(grown["g-prefill-1"])
    assert "count_differs" not in site.play("status").ok().out
    assert site.ask()[0] == 200


def test_a_pending_edit_restarts_nothing_and_is_shown(make_site: Make) -> None:
    site = make_site()
    site.play("deploy").ok()
    before = site.pids()
    site.group["engine"]["args"] = ["--max-model-len=8192"]
    site.write()
    run = site.play("deploy", "--diff").ok()
    assert run.changed == 0
    assert "--max-model-len=4096 -> 8192" in run.out
    assert site.pids() == before
    site.play("restart", "--check", "--diff", pd_group="g").ok()
    assert site.pids() == before
    assert site.play("deploy", pd_fail_on_pending="true").refused().changed == 0
    assert "pending-no-growth" in site.play("scale", pd_group="g", pd_prefill=2).refused().out
    assert site.pids() == before
    site.play("restart", pd_group="all").ok()
    assert set(site.pids()) == ALL
    assert not set(site.pids().values()) & set(before.values())
    assert site.record()["generation"] == 2
    assert "pending" not in site.play("status").ok().out


def test_a_model_that_is_exchanged_under_the_group_waits_for_a_restart(
    make_site: Make, tmp_path: Path, model: Path
) -> None:
    mine = tmp_path / "model"
    shutil.copytree(model, mine)
    site = make_site()
    site.group["model"] = str(mine)
    site.write()
    site.play("deploy").ok()
    before = site.pids()
    was = (mine / "config.json").read_text()
    (mine / "config.json").write_text(was.replace("{", '{"other": 1, ', 1))

    refused = site.play("scale", pd_group="g", pd_prefill=2).refused()
    assert "would run another model fingerprint" in " ".join(refused.out.split())
    site.group["roles"]["prefill"]["replicas"] = 2
    site.write()
    run = site.play("deploy", "--diff").ok()
    assert "~ model fingerprint on node:" in run.out
    assert site.pids() == before
    assert "identity-moved" in site.play("deploy", pd_fail_on_pending="true").refused().out
    status = site.play("status").ok().out
    assert "pending configuration, applied by: ansible-playbook inferops.pd.restart -e pd_group=g" in status
    assert "model fingerprint on node:" in status

    (mine / "config.json").write_text(was)
    site.play("deploy").ok()
    assert set(site.pids()) == ALL | {"g-prefill-1"}
    assert "pending" not in site.play("status").ok().out


# -- membership: restart -------------------------------------------------------------------------------------------------------------


def test_membership_restart_replaces_the_router_with_its_peers(make_site: Make) -> None:
    site = make_site(router={"membership": "restart"})
    site.play("deploy").ok()
    first = site.pids()
    assert router_command(site).count("--prefill") == 1
    assert "--enable-igw" not in router_command(site)
    assert site.play("deploy").ok().changed == 0
    assert site.pids() == first
    assert "restart membership, 2 peers, confirmed" in site.play("status").ok().out

    site.play("scale", pd_group="g", pd_prefill=2).ok()
    grown = site.pids()
    assert grown["g-router-0"] != first["g-router-0"]
    assert {k: grown[k] for k in ("g-prefill-0", "g-decode-0")} == {k: first[k] for k in ("g-prefill-0", "g-decode-0")}
    assert router_command(site).count("--prefill") == 2
    assert "restart membership, 3 peers, confirmed" in site.play("status").ok().out
    assert site.play("deploy").ok().changed == 0
    assert site.pids() == grown

    site.play("scale", pd_group="g", pd_prefill=1).ok()
    assert router_command(site).count("--prefill") == 1
    assert set(site.pids()) == ALL
    assert site.ask()[0] == 200
    assert site.play("deploy").ok().changed == 0


def test_membership_restart_replaces_the_router_of_a_peer_that_was_started_again(make_site: Make) -> None:
    """At the same address, by its runtime: the router may hold what only the process before knew."""
    site = make_site(router={"membership": "restart"})
    site.play("deploy").ok()
    first = site.pids()
    kill(first["g-prefill-0"])
    support_runtime.wait_for(
        lambda: site.pids().get("g-prefill-0", first["g-prefill-0"]) != first["g-prefill-0"], 30, "its next start"
    )
    run = site.play("deploy", "--diff").ok()
    assert "started again: g-prefill-0" in run.out
    second = site.pids()
    assert second["g-router-0"] != first["g-router-0"]
    assert second["g-decode-0"] == first["g-decode-0"]
    assert site.ask()[0] == 200
    assert site.play("deploy").ok().changed == 0
    assert site.pids() == second


# -- secrets -------------------------------------------------------------------------------------------------------------------------


def test_a_secret_is_in_the_members_environment_and_nowhere_else(make_site: Make) -> None:
    secret = "hunter2-correct-horse"
    site = make_site()
    site.group["engine"]["secrets"] = {"HF_TOKEN": secret}
    site.write()
    outputs = [
        site.play("deploy", "-vvv", "--check", "--diff").ok().out,
        site.play("deploy", "-vvv", "--diff").ok().out,
    ]
    members = {k: v for k, v in site.pids().items() if "router" not in k}
    for pid in members.values():
        assert f"HF_TOKEN={secret}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert secret not in Path(f"/proc/{pid}/cmdline").read_text()
    outputs.append(site.play("status", "-vvv").ok().out)
    assert not [out for out in outputs if secret in out]
    holding = [p for p in site.state.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
    assert {p.name for p in holding} == {"env"}
    assert {p.stat().st_mode & 0o777 for p in holding} == {0o600}

    site.group["engine"]["secrets"]["HF_TOKEN"] = "another-value"
    site.write()
    assert site.play("deploy").ok().changed == 0, "a secret's value is in no revision"


# -- the lock ------------------------------------------------------------------------------------------------------------------------


def test_one_run_at_a_time_and_a_dead_one_holds_nothing(make_site: Make) -> None:
    site = make_site()
    site.env(STANDIN_LOAD="25")
    first = start(site, "inferops.pd.deploy")
    lock = support_runtime.wait_for(site.lock, 30, "the first run's lock")
    second = site.play("deploy").refused()
    assert lock["who"].endswith(f"pid {first.pid}")
    assert "Group g: nothing was changed on any host." in second.out
    told_once(second, f"{lock['who']} is changing it since")
    assert "g-prefill-0: ready" not in second.out, "another run's members are not waited for"
    assert second.changed == 0
    out, _err = first.communicate(timeout=120)
    assert first.returncode == 0, out
    assert site.lock() is None
    before = site.pids()
    assert set(before) == ALL

    third = start(site, "inferops.pd.restart", "-e", "pd_group=g")
    support_runtime.wait_for(
        lambda: site.pids() and not set(site.pids().values()) & set(before.values()), 60, "new members"
    )
    os.killpg(third.pid, signal.SIGKILL)
    third.communicate(timeout=30)
    assert site.lock()
    assert "locked by" in site.play("status").ok().out
    run = site.play("deploy").ok()
    assert site.lock() is None
    assert set(site.pids()) == ALL
    assert "Group g is running" in run.out


def test_a_lock_of_another_machine_is_respected_until_it_is_broken(make_site: Make) -> None:
    site = make_site()
    site.play("deploy").ok()
    site.lock_from_elsewhere()
    before = site.pids()
    run = site.play("restart", pd_group="g").refused()
    assert "ops@elsewhere pid 7 is changing it since" in " ".join(run.out.split())
    assert "pd_break_lock=true" in run.out
    assert site.pids() == before
    assert site.record()["endpoint"]["registered"]
    assert re.search(r"locked by ops@elsewhere pid 7 since 1970-", site.play("status").ok().out)
    site.play("restart", pd_group="g", pd_break_lock="true").ok()
    assert not set(site.pids().values()) & set(before.values())


def test_a_lock_of_an_earlier_version_is_honoured(make_site: Make) -> None:
    """It is a key of the record there, and has no nonce."""
    site = make_site()
    site.play("deploy").ok()
    file = site.state / "groups/g/record.json"
    held = {"who": "ops@elsewhere pid 7", "since": 1.0, "expires": 4e9, "process": {"pid": 7, "machine": "x"}}
    file.write_text(json.dumps({**site.record(), "lock": held}))
    before = site.pids()
    run = site.play("restart", pd_group="g").refused()
    told_once(run, "ops@elsewhere pid 7 is changing it since")
    assert "Group g: nothing was changed on any host." in run.out
    assert site.pids() == before
    assert site.record()["lock"] == held
    assert re.search(r"locked by ops@elsewhere pid 7 since 1970-", site.play("status").ok().out)
    site.play("scale", pd_group="g", pd_decode=2, pd_break_lock="true").ok()
    assert set(site.pids()) == {*before, "g-decode-1"}
    assert "lock" not in site.record()
    assert site.lock() is None
