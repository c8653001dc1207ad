# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same spec and the same hosts make the same plan, byte by byte, whatever order the inventory has: AWX gives the hosts of a group in
none, and in another one in the next job. The actions run here on an inventory in memory, over hosts in memory."""

from __future__ import annotations

import copy
import json
import os
import random
import typing as t
from types import SimpleNamespace

import memory
import pytest
from ansible import constants
from builders import ROOT, Fleet, spec
from hypothesis import HealthCheck, configuration, given, settings
from hypothesis import strategies as st
from plays import action

from ansible_collections.inferops.pd.plugins.action import (
    group_info,
    group_plan,
    group_validate,
    hosts_evacuated,
    rollout_validate,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Run
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout import draw
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.standing import Standing
from ansible_collections.inferops.pd.plugins.plugin_utils._rollouts import rollout_of

configuration.set_hypothesis_home_dir(os.path.join(ROOT, ".build", "hypothesis"))
few = settings(max_examples=6, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
Vars = dict[str, t.Any]
HOSTS = [f"h{number}" for number in (1, 2, 3, 10, 11, 12)]
GROUPS = {"gpu": HOSTS, "a": HOSTS[:3], "b": HOSTS[3:], "edge": ["h2", "h10"]}


def demo(pattern: str, edge: str = "edge", **changes: t.Any) -> Vars:
    one = {"hosts": pattern, "gpus": 1}
    return spec(prefill={**one, "replicas": 2}, decode={**one, "replicas": 2}, router={"hosts": edge}, **changes)


SPECS = {
    "demo": demo("gpu"),
    # A subscript counts by names.
    "new": demo("b[0:1]:a[1]", labels={"site": "fra"}),
    "more": demo("a:&gpu:!h3", labels={"site": "ams"}),
}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[None]:
    before = vars(constants)["DEFAULT_LOCAL_TMP"]
    vars(constants)["DEFAULT_LOCAL_TMP"] = str(tmp_path_factory.mktemp("runs"))
    yield
    vars(constants)["DEFAULT_LOCAL_TMP"] = before


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """Six hosts; group demo serves, and a member of it has died."""
    made = Fleet(**{host: {"gpus": 4} for host in HOSTS})
    made.deploy(demo("h1:h2:h3:h10:h11:h12", edge="h2"))
    made.kill("demo-decode-1")
    return made


class Shuffled:
    """A run over the hosts of a fleet, in an order by chance."""

    def __init__(self, fleet: Fleet, chance: random.Random | None) -> None:
        self.chance = chance
        said = {h: {"ansible_facts": {"pd_host": memory.told(copy.deepcopy(fleet.facts[h]))}} for h in HOSTS}
        self.said = self.mixed(said)
        self.groups = self.mixed({name: self.mixed(hosts) for name, hosts in GROUPS.items()})
        rollouts = {"week": {"groups": "all", "waves": [{"percent": 40, "spread_by": "site"}, {"percent": 100}]}}
        self.variables = self.mixed({"pd_groups": SPECS, "pd_rollouts": rollouts, "pd_modes_path": ""})
        self.shown: list[str] = []

    def mixed(self, value: t.Any) -> t.Any:
        if self.chance is None:
            return value
        items = list(value.items()) if isinstance(value, dict) else list(value)
        self.chance.shuffle(items)
        return dict(items) if isinstance(value, dict) else items

    def made(self, of: t.Any, **args: t.Any) -> t.Any:
        one = action(of.ActionModule, self.variables, self.said, self.groups, **args)
        one._task = SimpleNamespace(**{**vars(one._task), "diff": True})
        one._display.display = lambda text, *_more, **_how: self.shown.append(text)
        one.new_run = lambda: Run("formation", "nonce", 1000.0, "test@here")
        return one

    def told(self, of: t.Any, **args: t.Any) -> str:
        """All that it answers and shows, in the order in which it does. Where the run's folder is, is chance."""
        answer = self.made(of, **args).act()
        return json.dumps([{key: one for key, one in answer.items() if key != "run"}, self.shown])


CASES: list[tuple[str, t.Any, Vars]] = [
    ("validate", group_validate, {}),
    ("status", group_info, {}),
    ("deploy", group_plan, {"workloads": [{"name": name} for name in SPECS]}),
    ("scale", group_plan, {"name": "demo", "action": "scale", "counts": {"prefill": "3", "decode": "1"}}),
    ("restart", group_plan, {"workloads": [{"name": "new"}, {"name": "demo"}], "action": "restart"}),
    ("heal", group_plan, {"name": "demo", "action": "heal"}),
    ("remove", group_plan, {"name": "demo", "action": "remove"}),
    ("evacuate", group_plan, {"name": "demo", "action": "evacuate", "evacuate": ["h1", "h2"]}),
    ("who is meant", hosts_evacuated, {"host": "edge,b[0]"}),
    ("a rollout", rollout_validate, {}),
]


@pytest.mark.parametrize(("of", "args"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@few
@given(chance=st.randoms(use_true_random=False))
def test_the_order_of_an_inventory_is_no_matter(fleet: Fleet, of: t.Any, args: Vars, chance: random.Random) -> None:
    assert Shuffled(fleet, chance).told(of, **args) == Shuffled(fleet, None).told(of, **args)


@few
@given(chance=st.randoms(use_true_random=False))
def test_who_is_in_which_wave_is_no_matter_of_order(fleet: Fleet, chance: random.Random) -> None:
    groups = {f"g{n}": Standing(labels={"site": "fra" if n % 3 else "ams"}) for n in range(12)}
    waves = []
    for run in (Shuffled(fleet, None), Shuffled(fleet, chance)):
        rollout = rollout_of(run.made(rollout_validate), "week")
        waves.append(json.dumps(draw.draw(rollout, run.mixed(groups))))
    assert waves[0] == waves[1]


def test_the_plans_do_something(fleet: Fleet) -> None:
    """That what is compared is there at all."""
    run = Shuffled(fleet, None)
    made = run.made(group_plan, workloads=[{"name": name} for name in SPECS]).act()
    assert made["workloads"]["new"] == {"changed": True, "pending": False, "members": 5}
    assert "demo-decode-1" in "\n".join(run.shown)
