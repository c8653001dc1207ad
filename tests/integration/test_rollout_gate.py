# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate of a rollout by the real playbook: what engines and routers have counted before a group stops and in its soak."""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from integration import rollouts
from integration.conftest import Life
from integration.rollouts import Rollouts
from integration.support_runtime import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.apart]
BEFORE = 12


@pytest.fixture
def site(make_site: t.Callable[..., Life], model: Path, tmp_path: Path) -> Rollouts:
    return rollouts.make(make_site, model, tmp_path)


def serve(site: Rollouts, name: str, times: int) -> None:
    for _number in range(times):
        assert site.asked(name) == 200


def gate(**more: t.Any) -> dict[str, t.Any]:
    return {
        "gate": {"errors": 0.01, "min_requests": 5, **more},
        "waves": [{"groups": ["g0"], "soak": 5}, {"percent": 100}],
    }


@pytest.mark.faults
def test_a_group_without_requests_is_not_judged_and_stops_the_rollout(site: Rollouts) -> None:
    serve(site, "g0", BEFORE)
    site.rollout(**gate(ttft_p95=1000))
    site.edit(8192)
    run = site.play("rollout")
    run.refused()
    note = site.noted("g0")["rollout"]
    assert note["state"] == "not judged", note
    assert "0 of at least 5 requests in its soak" in note["why"]
    # What clients had asked of it before, the deploy's own proof with it, by the counters of router and engines.
    assert note["before"]["requests"] >= BEFORE
    assert note["before"]["errors"] == 0
    assert note["before"]["ttft_p95"] > 0
    assert "missing" not in note["before"], note
    assert site.runs() == {"g0": "8192", "g1": "4096", "g2": "4096"}
    # The next one lets it soak anew. Without a least number it passes, and that is told.
    site.rollout(**gate(ttft_p95=1000, min_requests=0))
    site.play("rollout").ok()
    assert site.runs() == dict.fromkeys(site.groups, "8192")
    assert site.noted("g0")["rollout"]["why"].startswith("not judged: no request in its soak")


def test_requests_that_fail_in_the_soak_fail_the_group_and_hold_the_rest(site: Rollouts) -> None:
    serve(site, "g0", BEFORE)
    site.rollout(**{**gate(), "waves": [{"groups": ["g0"], "soak": 20}, {"percent": 100}]})
    site.edit(8192)

    def clients() -> None:
        """Some that are answered, and some whose prompt is longer than any context: the router counts these as failed."""
        wait_for(lambda: site.notes_now().get("g0") == "soaking", 120, "the soak")
        serve(site, "g0", 6)
        for _number in range(3):
            assert site.asked("g0", "word " * 20000) == 400

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(clients)
        run = site.play("rollout")
        asking.result()
    run.refused()
    note = site.noted("g0")["rollout"]
    assert note["state"] == "failed", note
    assert "3 of 9 requests failed (33.3 percent, 0 percent before), and at most 1 percent may" in note["why"]
    assert note["why"] in " ".join(run.out.split())
    assert site.notes() == {"g0": "failed", "g1": "held", "g2": "held"}
    assert site.runs() == {"g0": "8192", "g1": "4096", "g2": "4096"}
