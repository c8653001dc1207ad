"""The life of a group as plans: who goes first, when a router is replaced, who drains, whose lock comes first."""

from __future__ import annotations

import pytest
from builders import Fleet, as_not_rendered, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.plan import router_step
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reach
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan, Start
from ansible_collections.inferops.pd.plugins.module_utils._core.report import status
from ansible_collections.inferops.pd.plugins.plugin_utils import locking

FOUR = {"gpus": 4}


def wide(prefill: int = 3, decode: int = 1, **changes):
    """Prefill on h1 to h3, decode on h2, the router on h4."""
    return spec(
        prefill={"hosts": "h1:h2:h3", "replicas": prefill},
        decode={"hosts": "h2", "replicas": decode},
        router={"hosts": "h4", **changes.pop("router_", {})},
        **changes,
    )


def deployed(raw=None) -> Fleet:
    made = Fleet(h1=FOUR, h2=FOUR, h3=FOUR, h4={})
    made.deploy(raw or wide())
    return made


# -- who goes first (3.7) ---------------------------------------------------------------------------------------------

# What is wrong with which prefill (0 on h1, 1 on h2 beside decode, 2 on h3), how many are wanted, who goes.
VICTIMS = {
    "without a decode beside it, the youngest": ([], 2, [2]),
    "without a decode beside it, both": ([], 1, [0, 2]),
    "an unhealthy one before a remote one": ([1], 2, [1]),
    "an unhealthy one, then a remote one": ([1], 1, [1, 2]),
    "an unhealthy remote one before an unhealthy one": ([0, 1], 2, [0]),
    "all unhealthy": ([0, 1, 2], 2, [2]),
}


@pytest.mark.parametrize("case", VICTIMS)
def test_the_worst_goes_first(case):
    sick, wanted, gone = VICTIMS[case]
    group = deployed()
    for index in sick:
        group.live(f"demo-prefill-{index}")["ready"] = False
    made = group.plan(wide(), "scale", counts={"prefill": wanted})
    assert made.who("remove") == [f"demo-prefill-{index}" for index in gone]


def test_a_dead_member_goes_before_any_that_lives():
    group = deployed()
    group.kill("demo-prefill-1")
    assert group.plan(wide(), "scale", counts={"prefill": 2}).who("remove") == ["demo-prefill-1"]


def test_a_decode_beside_a_prefill_that_leaves_in_the_same_run_is_not_near_one():
    raw = spec(
        prefill={"hosts": "h1:h2", "replicas": 2}, decode={"hosts": "h1:h2", "replicas": 2}, router={"hosts": "h4"}
    )
    group = deployed(raw)
    group.live("demo-prefill-0")["ready"] = False  # on h1
    made = group.plan(raw, "scale", counts={"prefill": 1, "decode": 1})
    assert made.who("remove") == ["demo-decode-0", "demo-prefill-0"]


# -- membership restart (3.6) -----------------------------------------------------------------------------------------

STATIC = {"router_": {"membership": "restart"}}


def static(prefill: int = 2, **changes):
    return wide(prefill, **STATIC, **changes)


def again(group: Fleet, member: str, ready: bool = True) -> None:
    """Its runtime has started it again at the same address."""
    group.live(member).update(restarts=1, pid=4711, since=2000.0, ready=ready)


def other_model(group: Fleet, host: str) -> None:
    """What would come there is left out of the plan."""
    group.facts[host]["models"] = {"/models/m": {"exists": True, "fingerprint": "new"}}


def comes_up(group: Fleet, member: str) -> None:
    """The deploy that started it found it not ready in the end, so the router does not have it."""
    peers = group.live("demo-router-0")["label"]["peers"]
    peers[:] = [p for p in peers if p["member"] != member]


# What happens, the spec then, and of the router: step, peers of an early replacement, a late one, held for all; a word of why.
ROWS = {
    "nothing": (lambda g: None, static(), "none", None, False, False, "its peers are the members"),
    "no snapshot, both roles": (
        lambda g: g.live("demo-router-0")["label"].pop("peers"),
        static(),
        "replace",
        None,
        True,
        False,
        "no snapshot",
    ),
    "no snapshot, one role": (
        lambda g: (g.live("demo-router-0")["label"].pop("peers"), g.kill("demo-decode-0"), other_model(g, "h2")),
        static(),
        "none",
        None,
        False,
        False,
        "one role",
    ),
    "a peer restarted at the same address": (
        lambda g: again(g, "demo-prefill-1"),
        static(),
        "replace",
        ["demo-decode-0", "demo-prefill-0", "demo-prefill-1"],
        False,
        False,
        "started again: demo-prefill-1",
    ),
    "a peer restarted and still loads": (
        lambda g: again(g, "demo-prefill-1", ready=False),
        static(),
        "replace",
        ["demo-decode-0", "demo-prefill-0"],
        True,
        True,
        "started again: demo-prefill-1",
    ),
    "a peer is down, its successor not up": (
        lambda g: g.kill("demo-prefill-1"),
        static(),
        "replace",
        ["demo-decode-0", "demo-prefill-0"],
        True,
        True,
        "gone or moved: demo-prefill-1",
    ),
    "the only peer of a role restarted and loads": (
        lambda g: again(g, "demo-decode-0", ready=False),
        static(),
        "replace",
        None,
        True,
        False,
        "started again: demo-decode-0",
    ),
    "an addition that is to be started": (
        lambda g: None,
        static(3),
        "replace",
        None,
        True,
        True,
        "new: demo-prefill-2",
    ),
    "an addition that is ready": (
        lambda g: comes_up(g, "demo-prefill-1"),
        static(),
        "replace",
        None,
        True,
        True,
        "new: demo-prefill-1",
    ),
    "a peer that answers slowly": (
        lambda g: g.live("demo-prefill-1").update(ready=False),
        static(),
        "none",
        None,
        False,
        False,
        "its peers are the members",
    ),
    "a change while the spec waits": (
        lambda g: again(g, "demo-prefill-1"),
        static(kv_lease=90),
        "replace",
        ["demo-decode-0", "demo-prefill-0", "demo-prefill-1"],
        False,
        False,
        "started again: demo-prefill-1",
    ),
    "a change while the spec waits, and nobody knows what ran": (
        lambda g: again(as_not_rendered(g), "demo-prefill-1"),
        static(kv_lease=90),
        "none",
        None,
        False,
        False,
        "pending",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_router_with_its_peers_on_its_command_line(row):
    change, wanted, step, early, late, hold, why = ROWS[row]
    group = deployed(static())
    change(group)
    router = group.plan(wanted).router
    assert (router["step"], router["early"], router["late"], router["hold"]) == (step, early, late, hold)
    assert why in router["why"]


def test_a_peer_that_leaves_is_off_the_command_line_before_it_stops():
    group = deployed(static())
    made = group.plan(static(), "scale", counts={"prefill": 1})
    assert made.steps()[:2] == [("leave", "replace", "demo-router-0"), ("stop", "remove", "demo-prefill-0")]
    assert (made.router["early"], made.router["late"]) == (["demo-decode-0", "demo-prefill-1"], False)


def test_a_pending_router_says_what_to_do():
    group = as_not_rendered(deployed(static()))
    again(group, "demo-prefill-1")
    found = only(group.plan(static(kv_lease=90)).findings, "router-not-replaced")
    assert "started again: demo-prefill-1" in found.message
    assert "inferops.pd.restart -e pd_group=demo" in found.hint


def test_additions_of_which_a_count_cannot_be_reached_leave_the_router_alone():
    """The host that would get the third has another model: it is left out, and the router waits for all that are wanted."""
    group = deployed(static())
    comes_up(group, "demo-prefill-1")
    for facts in group.facts.values():
        facts["gpus"] = facts["gpus"][:2]
    other_model(group, "h3")
    router = group.plan(static(3)).router
    assert router["step"] == "none"
    assert "all prefill members that are wanted" in router["why"]


def test_additions_that_are_not_all_ready_hold_the_router_back():
    plan = Plan.from_plain(deployed(static()).plan(static(3)).plan)
    every = ["demo-prefill-0", "demo-prefill-1", "demo-prefill-2", "demo-decode-0"]
    held = router_step.held_back(plan, [name for name in every if name != "demo-prefill-2"])
    assert "demo-router-0 keeps serving the peers that it has" in held
    assert "Not ready: demo-prefill-2" in held
    assert router_step.held_back(plan, every) == ""


def test_a_router_is_started_with_the_peers_that_are_ready_and_remembers_their_start():
    router = Plan.from_plain(deployed(static()).plan(static(), "restart").plan).router
    ready = ["demo-prefill-1", "demo-decode-0"]
    starts = {"demo-prefill-1": Start.seen({"restarts": 2, "pid": 7, "since": 5.0})}
    part = router_step.with_peers(router, ready, starts).leader
    assert part.argv.count("--prefill") == 1
    assert part.argv[-4:] == ("--prefill", "http://10.0.0.2:40001", "--decode", "http://10.0.0.2:40003")
    noted = {p["member"]: p for p in part.labels["peers"]}
    assert sorted(noted) == sorted(ready)
    assert (noted["demo-prefill-1"]["restarts"], noted["demo-prefill-1"]["pid"]) == (2, 7)


def test_a_snapshot_of_an_older_release_is_believed():
    group = deployed(static())
    for peer in group.live("demo-router-0")["label"]["peers"]:
        for key in ("restarts", "pid", "started"):
            peer.pop(key, None)
    assert group.plan(static()).plan["changed"] is False


# -- said before a member is removed ----------------------------------------------------------------------------------

BY_HAND = {"router_": {"command": ["/opt/router"]}}


@pytest.mark.parametrize("how", ["scale", "deploy"])
def test_a_removal_under_membership_restart_warns_of_the_outage(how):
    group = deployed(static())
    made = (
        group.plan(static(), "scale", counts={"prefill": 1})
        if how == "scale"
        else group.plan(static(1), allow_scale_down=True)
    )
    found = only(made.findings, "router-brief-outage")
    assert found.severity == "warning"
    assert "demo-prefill-0 will be removed, and demo-router-0 has its peers on its command line" in found.message


def test_a_removal_while_the_spec_waits_says_that_the_router_keeps_the_peer():
    made = as_not_rendered(deployed(static())).plan(static(kv_lease=90), "scale", counts={"prefill": 1})
    assert "is not replaced" in only(made.findings, "router-brief-outage").message


def test_a_removal_under_manual_membership_gives_the_peers_to_apply_first_and_after():
    raw = wide(2, **BY_HAND)
    made = deployed(raw).plan(raw, "scale", counts={"prefill": 1})
    found = only(made.findings, "router-peers-by-hand")
    assert "demo-prefill-0 will be removed" in found.message
    assert "prefill http://10.0.0.2:40001 (demo-prefill-1, kv_side_channel 40000)" in found.hint
    assert "demo-prefill-0" not in found.hint
    assert "before this run, yours to apply:" in made.text
    assert [p["member"] for p in made.router["first"]] == [p["member"] for p in made.router["peers"]]


@pytest.mark.parametrize("raw", [wide(2), static(), wide(2, **BY_HAND)], ids=["dynamic", "restart", "manual"])
def test_nothing_is_warned_of_where_nothing_is_removed(raw):
    made = deployed(raw).plan(raw, "scale", counts={"prefill": 3})
    assert not {"router-brief-outage", "router-peers-by-hand"} & set(made.codes)


# -- locks ------------------------------------------------------------------------------------------------------------


def test_the_lock_lives_as_long_as_the_longest_stop():
    """A host that has nothing to do waits for one whose member drains."""
    group = deployed(wide())
    group.live("demo-prefill-2")["label"]["stop"] = {"drain": 600, "grace": 45}
    assert group.plan(wide(), "scale", counts={"prefill": 2}).plan["hold"] == 645
    assert group.plan(wide()).plan["hold"] == 0
    assert group.plan(wide(), "remove").plan["hold"] == 645


def test_what_the_first_host_says_reaches_the_others(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(locking.constants), "DEFAULT_LOCAL_TMP", str(tmp_path))
    mine, other = locking.FirstLock("demo-1-lock-x"), locking.FirstLock("demo-1-lock-x")
    ticks = iter(range(100))
    assert locking.FirstLock("nobody", clock=lambda: float(next(ticks)), pause=0).wait(5) is None
    mine.write("")
    assert other.wait(5) == ""
    mine.write("ops@elsewhere is changing it")
    assert other.wait(5) == "ops@elsewhere is changing it"


# -- draining ---------------------------------------------------------------------------------------------------------


def draining(member: str = "demo-prefill-1", raw=None) -> Fleet:
    """A scale down was killed while that member drained: it has left the router, and runs."""
    group = deployed(raw)
    live = group.live(member)
    live["draining"] = True
    registered = group.live("demo-router-0")["registered"]
    registered[:] = [p for p in registered if p["url"] != live["label"]["url"]]
    for facts in group.facts.values():
        facts["records"]["demo"]["desired"]["prefill"] = 2
    return group


def test_a_member_that_drains_is_shown_and_does_not_count_as_ready():
    state = draining().status(wide(2))
    assert (state["roles"]["prefill"]["ready"], state["roles"]["prefill"]["draining"]) == (2, 1)
    assert [m["state"] for m in state["members"] if m["id"] == "demo-prefill-1"] == ["draining"]
    assert state["router"]["confirmed"] is True
    assert "prefill 2/2 (1 draining)" in status.table(state)[0]


def test_the_next_run_goes_on_removing_it():
    made = draining().plan(wide(2))
    assert made.who("remove") == ["demo-prefill-1"]
    assert made.who("create") == made.who("replace") == []
    assert made.router["add"] == []


def test_scaling_back_up_does_not_rescue_it():
    made = draining().plan(wide(3))
    assert made.who("remove") == ["demo-prefill-1"]
    assert made.who("create") == ["demo-prefill-3"]


def test_a_lower_count_takes_no_other_for_it():
    assert draining().plan(wide(), "scale", counts={"prefill": 2}).who("remove") == ["demo-prefill-1"]


def test_one_that_died_while_it_drained_is_not_replaced():
    group = draining()
    group.kill("demo-prefill-1")
    made = group.plan(wide(2))
    assert (made.who("remove"), made.who("replace")) == (["demo-prefill-1"], [])


def test_it_goes_while_the_spec_waits():
    made = draining().plan(wide(2, kv_lease=90))
    assert made.errors == []
    assert made.who("remove") == ["demo-prefill-1"]


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("h1", "did not answer"),
        ("h2", "was left out of this run"),
        ("h3", "is not in the inventory"),
    ],
)
def test_why_nothing_is_known_of_a_host_is_told_apart(host: str, said: str) -> None:
    reach = Reach(inventory={"h1", "h2"}, asked={"h1"})
    assert reach.why(host) == said
    assert reach.way_out(said)


def test_facts_given_by_hand_come_from_no_run() -> None:
    assert Reach().why("h9") == "did not answer"


@pytest.mark.parametrize(
    "edit",
    [
        {"runtime": "systemd"},
        {"served_model_name": "other"},
        {"mode": "vllm-mooncake"},
        {"router_": {"membership": "restart"}},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_a_pending_edit_of_whatever_kind_saves_nothing(edit) -> None:
    """Until the restart, what serves is asked, waited for and proved as it was started."""
    group = deployed(wide())
    before = group.plan(wide())
    made = group.plan(wide(**edit))
    assert (made.plan["pending"], made.plan["changed"], made.plan["steps"]) == (True, False, [])
    for key in ("runtime", "mode", "proof", "endpoint"):
        assert made.plan[key] == before.plan[key], key
    for key in ("policy", "dialect", "model"):
        assert made.plan["router"][key] == before.plan["router"][key], key


# -- states (3.1) ------------------------------------------------------------------------------------------------------------------------


def test_members_that_load_are_not_running_yet() -> None:
    group = deployed()
    for facts in group.facts.values():
        for member in facts["members"]:
            member["ready"] = False
    assert (group.status(wide())["state"], group.status(wide())["message"]) == ("pending", "no member is running yet")
    group.kill("demo-prefill-0")
    assert (group.status(wide())["state"], group.status(wide())["message"]) == ("error", "1/5 members failed")


def test_a_group_of_which_no_host_answers_is_not_said_to_be_absent() -> None:
    group = deployed()
    group.silent = set(group.facts)
    assert "h1, h2, h3, h4 did not answer" in group.status(wide())["message"]


def test_a_static_router_with_a_restarted_peer_is_partial_while_pending() -> None:
    raw = wide(router_={"membership": "restart"})
    group = deployed(raw)
    for facts in group.facts.values():
        for member in facts["members"]:
            if member["label"]["member"] == "demo-prefill-0":
                member |= {"restarts": 1, "pid": 4711}
    plain = group.status(raw)
    assert plain["state"] == "running"
    assert "router_peers_stale" in {m["mark"] for m in plain["marks"]}
    edited = group.status(wide(router_={"membership": "restart"}, engine={"args": ["--max-model-len=16384"]}))
    assert (edited["pending"], edited["state"]) == (True, "partial")


def test_of_two_with_peers_the_one_with_fewer_goes() -> None:
    raw = spec(
        prefill={"hosts": "h1:h2", "replicas": 2}, decode={"hosts": "h1:h2:h2", "replicas": 3}, router={"hosts": "h4"}
    )
    group = deployed(raw)
    near = {h: sum(1 for m in f["members"] if m["label"]["role"] == "decode") for h, f in group.facts.items()}
    made = group.plan(raw, "scale", counts={"prefill": 1})
    (gone,) = made.who("remove")
    host = next(h for h, f in group.facts.items() for m in f["members"] if m["label"]["member"] == gone)
    assert near[host] == min(near["h1"], near["h2"]) < max(near["h1"], near["h2"])


def test_more_ports_than_a_host_can_have_are_not_advised() -> None:
    made = Fleet(h1={"gpus": 0}).plan(spec(prefill={"replicas": 40000, "gpus": 0}, decode={"gpus": 0}))
    hints = {f.hint for f in made.findings.errors}
    assert hints == {"No host has that many ports: ask for fewer replicas, or add hosts to the pattern."}
