# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's own play, an ansible.cfg that says free, and --limit: what parts the hosts of a group is refused before any host is asked."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from support import ROOT, Run, Site, playbook_command, run

pytestmark = [pytest.mark.integration, pytest.mark.floor]
SPEC = {
    "mode": "vllm-nixl",
    "model": "/m",
    "engine": {"args": ["--max-model-len=4096"], "executable": "/opt/vllm"},
    "runtime": "systemd",
    "roles": {
        "prefill": {"hosts": "h1", "gpus": 1},
        "decode": {"hosts": "h2", "gpus": 1},
        "router": {"hosts": "h1", "port": 8000, "executable": "/opt/router"},
    },
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, {f"h{n}": {} for n in range(1, 4)}, {"g": SPEC})


def play(site: Site, *args: str, **keys: t.Any) -> Run:
    book = site.folder / "own.yml"
    tasks = [{"name": "Validate", "inferops.pd.group_validate": {}, "run_once": True}]
    book.write_text(yaml.safe_dump([{"name": "Own", "hosts": "all", "gather_facts": False, **keys, "tasks": tasks}]))
    return run([playbook_command(), "-i", str(site.folder / "hosts.yml"), str(book), *args], 120)


def said(done: Run) -> str:
    return " ".join(done.refused().out.split())


@pytest.mark.parametrize("serial", [1, "50%", [1, 2]])
def test_serial_is_refused(site: Site, serial: t.Any) -> None:
    assert "Remove serial from the play" in said(play(site, serial=serial, any_errors_fatal=True))


@pytest.mark.parametrize("strategy", ["free", "host_pinned", "ansible.builtin.free"])
def test_a_strategy_without_barriers_is_refused(site: Site, strategy: str) -> None:
    assert f"strategy is {strategy}" in said(play(site, strategy=strategy))


@pytest.mark.parametrize("keys", [{}, {"serial": "100%"}, {"strategy": "linear"}, {"order": "reverse_sorted"}])
def test_a_play_that_takes_all_of_its_hosts_is_not(site: Site, keys: dict[str, t.Any]) -> None:
    play(site, **keys).ok()


def test_a_limit_is_no_batch(site: Site) -> None:
    play(site, "--limit", "h1,h2").ok()


def test_a_setting_of_the_user_does_not_reach_our_playbooks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_STRATEGY", "free")
    site.play("validate").ok()
    assert "strategy is free" in said(play(site))


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "playbooks").glob("*.yml")))
def test_every_playbook_pins_the_strategy(name: str) -> None:
    text = (ROOT / "playbooks" / name).read_text()
    assert all(one["strategy"] == "linear" for one in yaml.safe_load(text))
    assert re.search(r"# .*barrier.*\n  strategy: linear", text)
