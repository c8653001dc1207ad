# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run asks of its hosts does not grow with its groups: each host is looked at once, and goes through the same tasks."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import tally
from integration.conftest import Life, spec
from ports import free_block

pytestmark = [pytest.mark.integration]
HOSTS = ("h1", "h2", "h3", "h4")
# Ports of one host.
WIDTH = 25


@pytest.fixture
def formed(
    make_site: t.Callable[..., Life], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> t.Callable[[int], list[tally.Task]]:
    """The tasks of a run that forms so many groups, one on a host, each on another of the four."""

    def form(groups: int) -> list[tally.Task]:
        low = free_block(len(HOSTS) * WIDTH)
        hosts: dict[str, dict[str, t.Any]] = {}
        specs = {}
        for number, host in enumerate(HOSTS):
            port, state = low + number * WIDTH, tmp_path / f"state-{groups}-{host}"
            address = f"127.0.0.{number + 2}"
            hosts[host] = {
                "pd_address": address, "pd_state_dir": str(state), "pd_port_range": f"{port + 1}-{port + WIDTH - 1}",
            }  # fmt: skip
            if number < groups:
                roles = {role: {"hosts": host} for role in ("prefill", "decode", "router")}
                specs[f"g{number}"] = spec(model, port, **roles)
        file = tmp_path / f"tally-{groups}.json"
        for name, value in tally.environment(file).items():
            monkeypatch.setenv(name, value)
        make_site(hosts=hosts, groups=specs).play("deploy").ok()
        return tally.read(file)

    return form


def test_a_host_does_as_much_for_three_groups_as_for_one(formed: t.Callable[[int], list[tally.Task]]) -> None:
    one, three = formed(1), formed(3)
    looked = [host for task in three if task.action == "inferops.pd.host_facts" for host in task.hosts]
    assert sorted(looked) == list(HOSTS)
    # On the first host counts what runs once for all, too. Who has no part in the plan leaves the play, with a task of its own for it.
    assert tally.by_host(three)["h1"] == tally.by_host(one)["h1"]
    assert tally.by_host(three)["h2"] == tally.by_host(three)["h3"] <= tally.by_host(three)["h1"]
