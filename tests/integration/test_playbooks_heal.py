# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the record keeps of a group is what comes again: healed while a change is pending, and returned to after it was applied."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from integration import support_runtime
from integration.conftest import Life, kill

pytestmark = [pytest.mark.integration, pytest.mark.apart]
Make = t.Callable[..., Life]
# Of the mode: once, and three times again.
STARTS = 4
ALL = {"g-prefill-0", "g-decode-0", "g-router-0"}


def command(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def length(site: Life, member: str) -> str:
    """The length of a context that a process was really started with."""
    return next(word for word in command(site.pids()[member]) if word.startswith("--max-model-len="))


def end(site: Life, member: str) -> None:
    """Kill a member as often as its runtime starts it again."""
    for _start in range(STARTS):
        kill(support_runtime.wait_for(lambda: site.pids().get(member), 30, f"a start of {member}"))


def edit(site: Life, args: list[str]) -> None:
    site.group["engine"]["args"] = args
    site.write()


def test_a_pending_group_is_healed_returned_and_held(make_site: Make) -> None:
    site = make_site()
    site.play("deploy").ok()
    first, revision = site.pids(), site.record()["revision"]
    assert site.record()["applied"]["proven"]["generation"] == 1
    quiet = site.play("heal").ok()
    assert (quiet.changed, site.pids()) == (0, first)
    assert "WARNING" not in quiet.out

    # An edit waits, a member dies: it comes back as it was, and nothing else is touched.
    edit(site, ["--max-model-len=8192"])
    end(site, "g-decode-0")
    check = site.play("heal", "--check", "--diff").ok()
    assert "! [start] replace g-decode-0 on node" in check.out
    assert "g-decode-0" not in site.pids()
    healed = site.play("heal", pd_group="g").ok()
    assert healed.changed > 0
    now = site.pids()
    assert set(now) == ALL
    assert {name for name in ALL if now[name] != first[name]} == {"g-decode-0"}
    assert length(site, "g-decode-0") == "--max-model-len=4096"
    assert (site.record()["revision"], site.record()["generation"]) == (revision, 1)
    assert site.ask()[0] == 200
    assert site.play("heal").ok().changed == 0
    assert "--max-model-len=4096 -> 8192" in site.play("deploy", "--diff").ok().out

    # Another run is at it: the next one heals it.
    end(site, "g-decode-0")
    theirs = site.lock_from_elsewhere()
    skipped = site.play("heal").ok()
    assert "Group g: not healed now, another run is at it." in skipped.out
    assert site.lock() == theirs
    site.play("heal", pd_fail_on_locked="true").refused()
    site.play("heal", pd_break_lock="true").ok()
    assert set(site.pids()) == ALL

    _returns(site, revision)


def _returns(site: Life, revision: str) -> None:
    site.play("restart", pd_group="g").ok()
    assert length(site, "g-prefill-0") == "--max-model-len=8192"
    assert site.record()["previous"]["revision"] == revision
    # The spec may be what is wrong.
    edit(site, ["--max-model-len=8192", "--port=1"])
    site.play("restart", pd_group="g").refused()
    seen = site.play("restart", "--check", "--diff", pd_group="g", pd_to="previous").ok()
    assert "--max-model-len=8192 -> 4096" in seen.out
    site.play("restart", pd_group="g", pd_to="previous").ok()
    assert {length(site, name) for name in ("g-prefill-0", "g-decode-0")} == {"--max-model-len=4096"}
    assert site.record()["held"]["revision"] == revision
    assert site.ask()[0] == 200

    edit(site, ["--max-model-len=8192"])
    held = site.pids()
    assert "group-held" in site.play("restart", pd_group="g").refused().out
    assert site.play("deploy").ok().changed == 0
    assert site.pids() == held
    assert "held: at revision" in site.play("status").ok().out
    assert "There is no group" in site.play("restart", pd_group="g", pd_release="h").refused().out
    site.play("restart", pd_group="g", pd_release="g").ok()
    assert length(site, "g-decode-0") == "--max-model-len=8192"
    assert "held" not in site.record()


def test_nothing_is_formed_anew_and_no_secret_is_kept(make_site: Make) -> None:
    site = make_site(engine={"secrets": {"MY_TOKEN": "hunter-two"}})
    assert "it is not deployed" in " ".join(site.play("heal").ok().out.split())
    assert site.untouched()
    site.play("deploy").ok()
    end(site, "g-prefill-0")
    site.play("heal").ok()
    environment = Path(f"/proc/{site.pids()['g-prefill-0']}/environ").read_bytes()
    assert b"MY_TOKEN=hunter-two" in environment
    assert "hunter-two" not in json.dumps(site.record())
    for name in ALL:
        end(site, name)
    run = site.play("heal").ok()
    assert run.changed == 0
    assert "nothing of it runs" in " ".join(run.out.split())
    assert site.pids() == {}
