# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plans of a run at a glance."""

from __future__ import annotations

import typing as t

from builders import Fleet, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.plan import overview
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan

ROOM = {"gpus": 8}


def fleet() -> Fleet:
    return Fleet(h1=ROOM, h2=ROOM, h3=ROOM, h4=ROOM)


def group(port: int = 8000, replicas: int = 1, **changes: t.Any) -> dict[str, t.Any]:
    """Prefill and router on h1, decode on h2."""
    decode = {"hosts": "h2", "replicas": replicas}
    return spec(decode=decode, router={"port": port, "membership": "dynamic"}, **changes)


def cells(lines: t.Sequence[str]) -> list[list[str]]:
    """Each line of a table as its cells: two spaces or more are between them."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_what_becomes_of_members_routers_and_hosts():
    site = fleet()
    site.apply(site.plan(group(8001, 2), name="less"))
    site.apply(site.plan(group(8002), name="again"))
    site.apply(site.plan(group(8003), name="gone"))
    site.apply(site.plan(group(8004), name="old"))
    site.apply(site.plan(group(8005), name="same"))
    site.kill("gone-prefill-0")
    plans = [
        site.plan(group(8000), name="new").value,
        site.plan(group(8001, 1), name="less", allow_scale_down=True).value,
        site.plan(group(8002), "restart", "again").value,
        site.plan(group(8003), name="gone").value,
        site.plan(group(8004, engine={"args": ["--max-model-len=1024"]}), name="old").value,
        site.plan(group(8005), name="same").value,
        site.plan(None, "remove", "again").value,
    ]
    lines = overview.table(plans)
    assert cells(lines[:-1]) == [
        ["workload", "action", "created", "replaced", "removed", "kept", "router", "pending", "hosts"],
        ["new", "deploy", "2", "-", "-", "-", "created", "-", "h1, h2"],
        ["less", "deploy", "-", "-", "1", "2", "kept, +0 -1", "-", "h1, h2"],
        ["again", "restart", "-", "2", "-", "-", "replaced", "-", "h1, h2"],
        ["gone", "deploy", "-", "1", "-", "1", "kept, +1 -1", "-", "h1, h2"],
        ["old", "deploy", "-", "-", "-", "2", "kept", "yes", "h1, h2"],
        ["again", "remove", "-", "-", "2", "-", "removed", "-", "h1, h2"],
    ]
    assert lines[-1] == "nothing to change in 1 workload: same"
    # A column begins where its head does.
    at = lines[0].index("created")
    assert {line[at] for line in lines[1:-1]} == {"2", "-"}
    assert {line[at - 1] for line in lines[:-1]} == {" "}


def test_several_waves_are_numbered_and_one_is_not():
    site = fleet()
    one = site.plan(group(8000), name="one").value
    two = site.plan(group(8001), name="two").value
    assert cells(overview.table([one, two], [["one", "two"]]))[0][:2] == ["workload", "action"]
    numbered = cells(overview.table([one, two], [["two"], ["one"]]))
    assert [row[:2] for row in numbered] == [["workload", "wave"], ["one", "2"], ["two", "1"]]


def test_many_hosts_are_not_all_named():
    site = fleet()
    made = site.plan(spec(decode={"hosts": "h1:h2:h3:h4", "replicas": 4, "gpus": 7})).value
    assert len(made.hosts) == 4
    assert overview.table([made])[1].endswith("  h1, h2, h3 and 1 more")


def quiet(count: int) -> list[Plan]:
    site = fleet()
    site.apply(site.plan(group(), name="g"))
    made = site.plan(group(), name="g").value
    return [made] * count


def test_those_with_nothing_to_do_are_one_line_where_they_are_many():
    new = fleet().plan(group(), name="new").value
    few, many = overview.summaries([new, *quiet(3)]), overview.summaries([new, *quiet(12)])
    assert few[0].startswith("plan for new (deploy, revision ")
    assert [line.partition("(")[0] for line in few[1:]] == ["plan for g "] * 3
    assert many == [few[0], "nothing to change in 12 workloads: g, g, g, g, g, g, g, g and 4 more"]
    assert overview.table(quiet(2)) == ["nothing to change in 2 workloads: g, g"]
    assert (overview.table([]), overview.summaries([])) == ([], [])
