"""One verdict for a group, from what its hosts said."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.report import verdict as verdicts


def reach(plan, results, *how, **more):
    """The verdict on a plan as a run has registered it."""
    return verdicts.reach(Plan.from_plain(plan), results, *how, **more)


HOSTS = {"prefill-0": "h1", "prefill-1": "h2", "decode-0": "h3", "router-0": "h1"}
GONE = {"unreachable": True, "msg": "ssh: connect to host h2 port 22: No route to host"}
STARTED = {"ok": True, "phase": "start", "failed_members": {}}


def plan(**changes: t.Any) -> dict[str, t.Any]:
    members = [{"id": n, "role": n.rpartition("-")[0], "parts": [{"host": h}]} for n, h in HOSTS.items()]
    hosts = {h: {"present": [], "absent": [], "create": []} for h in ("h1", "h2", "h3")}
    endpoint = {"url": "http://h1:8000", "served_model_name": "tiny"}
    return {
        "group": "g",
        "readiness": "any_per_role",
        "members": members,
        "hosts": hosts,
        "endpoint": endpoint,
        "unknown": [],
        **changes,
    }


def waited(**states: str) -> dict[str, t.Any]:
    """A host's result of members_wait, by member name with _ for -."""
    found = {}
    for name, state in states.items():
        failed = {
            "why": "its process has ended: ValueError: x",
            "advice": "Correct it.",
            "log": "/l/member.log",
            "outcome": state,
        }
        found[name.replace("_", "-")] = {"state": state, **(failed if state != "ready" else {})}
    return {"members": found, "not_ready": {}, "ready": []}


def results(**changes: t.Any) -> dict[str, list[dict[str, t.Any]]]:
    found = {
        "h1": [STARTED, waited(prefill_0="ready")],
        "h2": [STARTED, waited(prefill_1="ready")],
        "h3": [STARTED, waited(decode_0="ready")],
    }
    return {**found, **changes}


def test_all_ready() -> None:
    verdict = reach(plan(), results(), "start")
    assert (verdict.good, verdict.complete) == (True, True)
    assert verdict.to_plain()["ready_members"] == ["decode-0", "prefill-0", "prefill-1"]


@pytest.mark.parametrize(("readiness", "good"), [("any_per_role", True), ("all", False)])
@pytest.mark.parametrize(
    "bad",
    [
        [STARTED, waited(prefill_1="failed")],
        [STARTED, waited(prefill_1="loading")],
        [{**STARTED, "ok": False, "failed_members": {"prefill-1": "port 40001 is taken by python (pid 3)"}}, waited()],
        [GONE],
        [STARTED, GONE],
    ],
)
def test_one_member_short(readiness: str, good: bool, bad: list[dict[str, t.Any]]) -> None:
    verdict = reach(plan(), results(h2=bad), "start", readiness)
    assert (verdict.good, verdict.complete) == (good, False)
    assert list(verdict.failed) == ["prefill-1"]
    assert verdict.ready["prefill"] == ["prefill-0"]
    assert "prefill-1" in verdict.msg


def test_a_role_without_a_ready_member() -> None:
    verdict = reach(plan(), results(h3=[STARTED, waited(decode_0="failed")]), "start")
    assert not verdict.good
    assert "1 of 1" not in verdict.msg
    assert "0 of 1 decode ready" in verdict.msg
    assert "ValueError: x" in verdict.msg
    assert "log: /l/member.log on h3" in verdict.msg
    assert "What runs is kept: prefill-0, prefill-1." in verdict.msg
    assert "inferops.pd.deploy -e pd_group=g" in verdict.msg
    assert "stopped again" in reach(plan(), results(h3=[waited(decode_0="failed")]), "start", stops=True).msg


def test_a_host_without_any_result_did_not_answer() -> None:
    without = results()
    del without["h2"]
    verdict = reach(plan(), without, "start")
    assert verdict.unreachable == ["h2"]
    assert not verdict.complete
    assert "-e pd_lost_hosts=h2" in verdict.msg


def test_a_host_that_refuses_stops_the_run_whatever_runs_there() -> None:
    locked = {"failed": False, "ok": False, "msg": "Phase start of group g: Locking group g: alice is changing it."}
    verdict = reach(plan(), results(h1=[locked, waited(prefill_0="ready")]), "start")
    assert not verdict.good
    assert "alice is changing it" in verdict.msg


def test_members_on_hosts_that_the_plan_could_not_see_are_not_ready() -> None:
    verdict = reach(plan(unknown=["prefill-9"]), results(), "start", "all")
    assert not verdict.good
    assert "prefill-9" in verdict.failed


def test_members_that_only_were_not_waited_for_are_told_last() -> None:
    verdict = reach(plan(), results(h1=[waited(prefill_0="stopped")], h3=[waited(decode_0="failed")]), "start")
    assert verdict.msg.index("decode-0 on h3") < verdict.msg.index("prefill-0 on h1")


PROOF = {"good": True, "pairs": [], "table": ["1 of 1 pairs move the KV cache"], "msg": "..."}
ROUTER = {"ok": True, "phase": "router", "failed_members": {}, "waited": {"members": {"router-0": {"state": "ready"}}}}
WRITTEN = {"ok": True, "phase": "endpoint"}

DOUBTS = {
    "g-decode-0": {"meaning": "it did not arrive", "advice": "Restart.", "line": "transfer failed, ret: -1", "count": 2}
}


@pytest.mark.parametrize(
    ("more", "good", "words"),
    [
        ([ROUTER, PROOF, WRITTEN], True, "Endpoint: http://h1:8000 (model tiny)"),
        ([WRITTEN], True, "is running"),
        ([{**ROUTER, "ok": False, "msg": "g-router-0: no"}, WRITTEN], False, "h1: g-router-0: no"),
        (
            [{**ROUTER, "ok": False, "failed_members": {"router-0": "taken"}, "msg": "Phase router: taken"}],
            False,
            "taken",
        ),
        ([ROUTER, {**PROOF, "good": False}, WRITTEN], False, "1 of 1 pairs"),
        (
            [ROUTER, {**PROOF, "good": False}, {**WRITTEN, "doubts": DOUBTS}],
            False,
            "! g-decode-0 on h1: it did not arrive. Restart.",
        ),
        ([ROUTER, PROOF, {**WRITTEN, "doubts": DOUBTS}], True, "transfer failed, ret: -1"),
        ([ROUTER, {"failed": False, "exception": "Traceback", "msg": "MODULE FAILURE"}], False, "MODULE FAILURE"),
        ([ROUTER, PROOF, {"ok": False, "msg": "No space left on device"}], False, "No space left"),
    ],
)
def test_the_end(more: list[dict[str, t.Any]], good: bool, words: str) -> None:
    verdict = reach(plan(), results(h1=[STARTED, waited(prefill_0="ready"), *more]), "final")
    assert verdict.good == good
    assert words in verdict.msg


def test_a_shortfall_at_the_end_is_told_and_no_failure() -> None:
    verdict = reach(plan(), results(h2=[STARTED, waited(prefill_1="failed")]), "final")
    assert (verdict.good, verdict.complete) == (True, False)
    assert "short of members: 1 of 2 prefill, 1 of 1 decode ready" in verdict.msg


STOPPED = {"ok": True, "phase": "stop", "failed_members": {}}


def going(*hosts: str) -> dict[str, t.Any]:
    return plan(hosts={h: {"absent": [f"m-{h}"] if h in hosts else []} for h in ("h1", "h2")})


@pytest.mark.parametrize(
    ("told", "good", "words"),
    [
        ({"h1": [STOPPED], "h2": [STOPPED]}, True, "1 member is seen to have stopped"),
        ({"h1": [STOPPED]}, True, ""),  # nothing had to stop on h2
        ({"h2": [STOPPED]}, False, "h1 did not answer; it has m-h1"),
        ({"h1": [GONE], "h2": [STOPPED]}, False, "h1 did not answer"),
        (
            {"h1": [{**STOPPED, "ok": False, "failed_members": {"m-h1": "still there after SIGKILL"}}]},
            False,
            "still there after SIGKILL",
        ),
        ({"h1": [STOPPED], "h2": [{"ok": False, "msg": "Locking group g: alice"}]}, False, "alice"),
    ],
)
def test_stopping(told: dict[str, t.Any], good: bool, words: str) -> None:
    verdict = reach(going("h1"), told, "stop")
    assert verdict.good == good
    assert words in verdict.msg


def leaving() -> dict[str, t.Any]:
    """A restart of a router on h1 and an engine on h2; h3 has the record alone."""
    absent = {"h1": ["router-0"], "h2": ["decode-0"], "h3": []}
    steps = [
        {"phase": "router_stop", "do": "remove", "member": "router-0"},
        {"phase": "stop", "do": "remove", "member": "decode-0"},
    ]
    return plan(action="restart", steps=steps, hosts={h: {"absent": ids} for h, ids in absent.items()})


OUT = {"ok": True, "phase": "router_stop", "failed_members": {}}


@pytest.mark.parametrize(
    ("told", "good", "words"),
    [
        ({"h1": [OUT], "h2": [OUT], "h3": [OUT]}, True, "its router is out of service"),
        (
            {"h1": [{**OUT, "ok": False, "failed_members": {"router-0": "still there after SIGKILL"}}], "h2": [OUT]},
            False,
            "router-0 on h1: still there after SIGKILL",
        ),
        ({"h1": [OUT], "h2": [GONE], "h3": [OUT]}, False, "h2 did not answer; it has decode-0"),
        ({"h1": [OUT], "h2": [OUT], "h3": [{"ok": False, "msg": "disk full"}]}, False, "h3: disk full"),
    ],
)
def test_taking_the_router_out_of_service(told: dict[str, t.Any], good: bool, words: str) -> None:
    verdict = reach(leaving(), told, "router_stop")
    assert (verdict.good, words in verdict.msg) == (good, True), verdict.msg
    if not good:
        assert "no engine was stopped and nothing was started" in verdict.msg
        assert "run the same playbook again with -e pd_group=g" in verdict.msg


def test_a_restart_that_stopped_all_and_cannot_start_says_that_the_group_is_down() -> None:
    told = results(h3=[STARTED, waited(decode_0="failed")])
    verdict = reach(plan(action="restart"), told, "final")
    assert "The restart has stopped all that ran before, so the group is down." in verdict.msg
    assert "run inferops.pd.deploy -e pd_group=g again" in verdict.msg
    assert "so the group is down" not in reach(plan(action="deploy"), told, "final").msg


def test_a_restart_that_cannot_stop_all_says_so_and_what_to_run() -> None:
    told = {
        "h1": [STOPPED],
        "h2": [{**STOPPED, "ok": False, "failed_members": {"decode-0": "it hangs"}}],
        "h3": [STOPPED],
    }
    verdict = reach(leaving(), told, "stop")
    assert "The group is down: its router was stopped first." in verdict.msg
    assert "run the same playbook again with -e pd_group=g" in verdict.msg


def grown(**changes: t.Any) -> t.Any:
    """The verdict on a growth by prefill-1 that failed, where all are wanted."""
    router = {"member": {"id": "router-0", "role": "router", "parts": []}, "early": None, "step": "none"}
    made = plan(**{"readiness": "all", "action": "scale", "router": router, **changes})
    made["hosts"]["h2"]["create"] = ["prefill-1"]
    seen = {"h1": ["prefill-0"], "h2": [], "h3": ["decode-0"]}
    results = {
        host: [STARTED, {"members": {name: {"state": "ready"} for name in names}}] for host, names in seen.items()
    }
    results["h2"] = [
        STARTED,
        {"members": {"prefill-1": {"state": "failed", "why": "it ended"}}, "not_ready": ["prefill-1"]},
    ]
    return reach(made, results, "start")


def test_a_growth_that_is_undone_leaves_the_endpoint_as_it_was():
    found = grown()
    assert not found.good
    assert found.registered == "undone"
    assert grown(unknown=["decode-9"]).registered == "no"


def test_a_router_that_was_to_be_replaced_at_the_end_is_the_one_of_before():
    hosts = {h: {"present": [], "absent": [], "create": []} for h in ("h1", "h2", "h3")}
    hosts["h1"]["create"] = ["router-0"]
    router = {"member": {"id": "router-0", "role": "router", "parts": []}, "early": None, "step": "replace"}
    assert grown(hosts=hosts, router=router).registered == "undone"
    assert grown(hosts=hosts, router={**router, "early": ["router-0"]}).registered == "no"
    assert grown(hosts=hosts, router={**router, "step": "none"}).registered == "no"


# -- behind a proof that is not good ------------------------------------------------------------------------------------------

NOT_PROVEN = {
    "good": False,
    "why": "prefill-0 -> decode-0: 500",
    "table": ["0 of 1 pairs move the KV cache"],
    "pairs": [{"prefill": "prefill-0", "decode": "decode-0", "good": False, "why": "500"}],
}


def looked(name: str, **seen) -> dict:
    found = waited(**{name.replace("-", "_"): "ready"})
    found["members"][name].update(seen)
    return found


def test_the_logs_of_both_sides_are_told_below_a_proof_that_is_not_good():
    symptom = {"meaning": "a transfer failed", "line": "NIXL_ERR_REMOTE_DISCONNECT", "advice": "See preflight."}
    found = {
        "h1": [STARTED, looked("prefill-0", log_line="INFO: 200 OK", log="/l/p.log"), NOT_PROVEN],
        "h2": [STARTED, looked("prefill-1", log_line="of no pair")],
        "h3": [STARTED, looked("decode-0", symptom=symptom, log_line="x", log="/l/d.log")],
    }
    told = reach(plan(), found, "final").msg
    assert "  prefill-0 on h1: its log ends with: INFO: 200 OK (/l/p.log)" in told
    assert "  decode-0 on h3: its log says: a transfer failed: NIXL_ERR_REMOTE_DISCONNECT (/l/d.log)" in told
    assert "    See preflight." in told
    assert "of no pair" not in told


def test_no_log_is_told_of_a_proof_that_is_good():
    found = {
        "h1": [STARTED, looked("prefill-0", log_line="x"), {"good": True, "table": ["1 of 1"], "pairs": []}],
        "h2": [STARTED, looked("prefill-1", log_line="x")],
        "h3": [STARTED, looked("decode-0", log_line="x")],
    }
    assert "its log" not in reach(plan(), found, "final").msg
