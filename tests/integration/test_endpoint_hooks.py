# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks of endpoints before a real HAProxy and a real nginx: requests go by weights, what runs ends, and the files say what is so."""

from __future__ import annotations

import json
import threading
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
from integration import gateways
from integration.gateways import Endpoint, Gateway, HAProxy, Nginx, get

from ansible_collections.inferops.pd.plugins.module_utils._core.hooks.hook import Act, Hook
from ansible_collections.inferops.pd.plugins.module_utils._host.endpoint_hooks import carry_out

pytestmark = pytest.mark.integration


@pytest.fixture
def ends() -> t.Iterator[t.Callable[[t.Any], t.Any]]:
    """Ends, after the test, what it was given."""
    made: list[t.Any] = []

    def keep(one: t.Any) -> t.Any:
        made.append(one)
        return one

    yield keep
    for one in reversed(made):
        one.end()


@pytest.fixture
def endpoints(ends: t.Callable[[t.Any], t.Any]) -> tuple[Endpoint, Endpoint]:
    return ends(Endpoint("blue")), ends(Endpoint("green"))


def gateway(kind: type[Gateway], ends: t.Callable[[t.Any], t.Any]) -> t.Any:
    gateways.need()
    made = ends(kind())
    made.start()
    return made


def hook(made: t.Any, **changes: t.Any) -> Hook:
    return Hook.from_plain({"name": "gateway", **made.hook(**changes)})


def told(
    one: Hook, *acts: tuple[str, Endpoint, int] | tuple[str, Endpoint, int, bool], check: bool = False
) -> dict[str, t.Any]:
    """What becomes of the acts (event, endpoint, weight, gone) of one hook; all must go well."""
    made = [Act(one, t.cast("t.Any", a[0]), a[1].name, a[1].url, "tiny", a[2], bool(a[3:] and a[3])) for a in acts]
    results, diffs = carry_out(made, check)
    assert all(result["ok"] for result in results.values()), results
    return {"changed": any(r["changed"] for r in results.values()), "diffs": diffs}


# -- haproxy -------------------------------------------------------------------------------------------------------------------------


def test_haproxy_sends_requests_by_weights_and_reloads_for_a_new_server_alone(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    made, (blue, green) = gateway(HAProxy, ends), endpoints
    assert made.asked(1) == {"503": 1}
    assert told(hook(made), ("in", blue, 30), ("in", green, 10))["changed"]
    assert (made.asked(40), made.reloads) == ({"blue": 30, "green": 10}, 1)
    # A weight is told at run time, and what says the same changes nothing.
    assert told(hook(made), ("in", green, 30))["changed"]
    assert not told(hook(made), ("in", green, 30))["changed"]
    assert (made.asked(40), made.reloads) == ({"blue": 20, "green": 20}, 1)
    # A weight of none keeps it in the backend, without requests.
    told(hook(made), ("in", green, 0))
    assert (made.asked(8), made.reloads) == ({"blue": 8}, 1)


def test_haproxy_lets_end_what_runs_and_stays_so_when_it_is_started_again(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    made, (blue, green) = gateway(HAProxy, ends), endpoints
    told(hook(made), ("in", blue, 100), ("in", green, 1))
    answers: list[tuple[int, str]] = []
    client = threading.Thread(target=lambda: answers.append(get(f"{made.url}/slow")))
    client.start()
    assert blue.slow.wait(10)
    out = threading.Thread(target=lambda: told(hook(made), ("out", blue, 100)))
    out.start()
    # It waits for the request that runs, and sends no new one there.
    out.join(2)
    assert out.is_alive()
    assert made.asked(5) == {"green": 5}
    blue.go.set()
    out.join(20)
    client.join(20)
    assert answers == [(200, "blue")]
    assert not out.is_alive()
    assert "disabled" in made.file.read_text()
    made.stop()
    made.start()
    assert made.asked(5) == {"green": 5}
    # Back where another port answers for it, without a reload; and out for good.
    moved = ends(Endpoint("blue"))
    before = made.reloads
    told(hook(made), ("in", moved, 100))
    assert (made.asked(101)["blue"], made.reloads) == (100, before)
    told(hook(made), ("out", moved, 100, True))
    assert made.asked(5) == {"green": 5}
    assert "blue" not in made.file.read_text()
    # The section outlives its last server: a frontend names it.
    told(hook(made), ("out", green, 1, True))
    assert "backend llm" in made.file.read_text()
    assert made.asked(1) == {"503": 1}


def test_haproxy_gives_up_waiting_and_says_so(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    made, (blue, _green) = gateway(HAProxy, ends), endpoints
    short = hook(made, drain=1)
    told(short, ("in", blue, 100))
    client = threading.Thread(target=lambda: get(f"{made.url}/slow"))
    client.start()
    assert blue.slow.wait(10)
    results, _diffs = carry_out([Act(short, "out", "blue", blue.url)])
    assert results["blue"]["ok"]
    assert results["blue"]["warnings"] == ["1 sessions of group blue still ran in backend llm after its drain."]
    blue.go.set()
    client.join(20)


def test_what_the_check_refuses_is_put_back(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    made, (blue, green) = gateway(HAProxy, ends), endpoints
    told(hook(made), ("in", blue, 100))
    before = made.file.read_text()
    results, _diffs = carry_out([Act(hook(made, lines=["balance nonsense"]), "in", "green", green.url)])
    assert not results["green"]["ok"]
    assert "its check refuses the new" in results["green"]["msg"]
    assert made.file.read_text() == before
    assert made.asked(3) == {"blue": 3}


def test_lines_of_the_section_are_reloaded_and_a_check_run_writes_nothing(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    made, (blue, _green) = gateway(HAProxy, ends), endpoints
    seen = told(hook(made), ("in", blue, 100), check=True)
    assert seen["changed"]
    assert "server blue" in seen["diffs"][0]["after"]
    assert "server" not in made.file.read_text()
    assert made.reloads == 0
    assert [p.name for p in made.pd.iterdir()] == ["llm.cfg"]
    told(hook(made), ("in", blue, 100))
    marked = hook(made, lines=["balance roundrobin", "http-response set-header X-Gateway ours"])
    before = made.reloads
    assert told(marked, ("in", blue, 100))["changed"]
    assert made.reloads == before + 1


def test_a_server_that_was_set_by_hand_is_as_its_file_says_again(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    from ansible_collections.inferops.pd.plugins.module_utils._host.haproxy import HAProxy as Api

    made, (blue, green) = gateway(HAProxy, ends), endpoints
    told(hook(made), ("in", blue, 100), ("in", green, 100))
    Api(str(made.socket), "llm").ask("set server llm/blue state maint")
    assert made.asked(4) == {"green": 4}
    assert told(hook(made), ("in", blue, 100))["changed"]
    assert made.asked(4) == {"blue": 2, "green": 2}


def test_a_section_moves_to_another_file_with_its_groups(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    made, both = gateway(HAProxy, ends), endpoints
    one = hook(made)
    told(one, *(("in", each, 100) for each in both))
    moved = replace(one, file=str(made.pd / "moved.cfg"))
    acts = []
    for each in both:
        acts.append(Act(replace(one, backend=""), "out", each.name, each.url, gone=True))
        acts.append(Act(moved, "in", each.name, each.url, "tiny", 100))
    results, _diffs = carry_out(acts)
    assert all(result["ok"] for result in results.values()), results
    assert set(made.asked(8)) == {"blue", "green"}
    assert sorted(file.name for file in made.pd.glob("*.cfg")) == ["moved.cfg"]


def test_many_runs_at_once_lose_no_server(ends: t.Callable[[t.Any], t.Any]) -> None:
    made = gateway(HAProxy, ends)
    groups = [ends(Endpoint(f"g{number}")) for number in range(8)]
    threads = [threading.Thread(target=told, args=(hook(made), ("in", one, 100))) for one in groups]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert made.asked(80) == {f"g{number}": 10 for number in range(8)}


def test_without_a_socket_it_is_reloaded(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    made, (blue, green) = gateway(HAProxy, ends), endpoints
    blind = hook(made, socket="")
    told(blind, ("in", blue, 100), ("in", green, 100))
    from integration import support_runtime

    support_runtime.wait_for(lambda: made.asked(4) == {"blue": 2, "green": 2}, 10, "both to be asked")
    told(blind, ("out", blue, 100))
    support_runtime.wait_for(lambda: made.asked(4) == {"green": 4}, 10, "blue to be left alone")


# -- nginx ---------------------------------------------------------------------------------------------------------------------------


def test_nginx_sends_requests_by_weights_and_lets_end_what_runs(
    ends: t.Callable[[t.Any], t.Any], endpoints: tuple[Endpoint, Endpoint]
) -> None:
    from integration import support_runtime

    made, (blue, green) = gateway(Nginx, ends), endpoints
    assert made.asked(1) == {"502": 1}
    assert told(hook(made), ("in", blue, 3), ("in", green, 1))["changed"]
    support_runtime.wait_for(lambda: made.asked(8) == {"blue": 6, "green": 2}, 10, "requests by weights")
    answers: list[tuple[int, str]] = []
    client = threading.Thread(target=lambda: answers.append(get(f"{made.url}/slow")))
    client.start()
    support_runtime.wait_for(lambda: blue.slow.is_set() or green.slow.is_set(), 10, "a request that runs")
    busy, other = (blue, green) if blue.slow.is_set() else (green, blue)
    told(hook(made), ("out", busy, 3))
    support_runtime.wait_for(lambda: made.asked(4) == {other.name: 4}, 10, f"{busy.name} to be left alone")
    busy.go.set()
    client.join(20)
    assert answers == [(200, busy.name)]
    # One file a group, which goes with it.
    file = made.pd / "llm.d" / f"{busy.name}.conf"
    assert " down;" in file.read_text()
    told(hook(made), ("out", busy, 3, True))
    assert not file.exists()


# -- file_sd -------------------------------------------------------------------------------------------------------------------------


def test_file_sd_has_the_endpoint_while_it_serves(tmp_path: Path, endpoints: tuple[Endpoint, Endpoint]) -> None:
    blue, _green = endpoints
    one = Hook.from_plain(
        {"name": "prometheus", "kind": "file_sd", "file": f"{tmp_path}/sd/${{group}}.json", "labels": {"env": "prod"}}
    )
    assert told(one, ("in", blue, 100))["changed"]
    assert not told(one, ("in", blue, 100))["changed"]
    file = tmp_path / "sd" / "blue.json"
    assert json.loads(file.read_text()) == [
        {
            "targets": [blue.url.partition("://")[2]],
            "labels": {"pd_group": "blue", "pd_model": "tiny", "pd_weight": "100", "env": "prod"},
        }
    ]
    assert oct(file.stat().st_mode & 0o777) == "0o644"
    told(one, ("out", blue, 100))
    assert json.loads(file.read_text()) == []
    told(replace(one), ("out", blue, 100, True))
    assert not file.exists()
