"""Where members go: by free GPUs and free ports, the same each time; one that runs never moves; what does not fit is told with numbers."""

from __future__ import annotations

import itertools
import re

from builders import Fleet, only, spec

TWO = {"gpus": 2}


def wide(prefill: int = 1, decode: int = 1, hosts: str = "h1:h2", **changes):
    """A group whose engine roles share `hosts`, the router beside them."""
    return spec(
        prefill={"hosts": hosts, "replicas": prefill, **changes.pop("prefill_", {})},
        decode={"hosts": hosts, "replicas": decode, **changes.pop("decode_", {})},
        **changes,
    )


def hosts_of(made) -> dict[str, str]:
    return {name: member["parts"][0]["host"] for name, member in made.members.items()}


def ports_of(made) -> list[tuple[str, int]]:
    """Every (host, port) that the plan takes."""
    taken = []
    for member in made.plan["members"]:
        part = member["parts"][0]
        taken.append((part["host"], part["port"]))
        for band in part["ports"].values():
            taken += [(part["host"], band["base"] + i) for i in range(band["count"])]
    return taken


def test_members_are_spread_over_the_hosts_with_most_free_gpus():
    made = Fleet(h1={"gpus": 2}, h2={"gpus": 4}).plan(wide(2, 2))
    assert hosts_of(made) == {
        "demo-prefill-0": "h2",
        "demo-prefill-1": "h2",
        "demo-decode-0": "h1",
        "demo-decode-1": "h2",
        "demo-router-0": "h1",
    }


def test_members_without_gpus_are_spread_by_number():
    made = Fleet(h1={}, h2={}).plan(wide(2, 2, prefill_={"gpus": 0}, decode_={"gpus": 0}))
    assert sorted(host for name, host in hosts_of(made).items() if "router" not in name) == ["h1", "h1", "h2", "h2"]


def test_placement_is_the_same_each_time_and_in_whatever_order_hosts_answer():
    facts = {"h1": TWO, "h2": TWO, "h3": TWO}
    plans = []
    for order in itertools.permutations(facts):
        fleet = Fleet(**facts)
        fleet.facts = {name: fleet.facts[name] for name in order}
        patterns = {role: ["h1", "h2", "h3"] for role in ("prefill", "decode", "router")}
        plans.append(fleet.plan(wide(3, 3, hosts="h1:h2:h3"), patterns=patterns).places())
    assert all(plan == plans[0] for plan in plans)


def test_no_port_and_no_gpu_is_given_twice():
    made = Fleet(h1={"gpus": 8}).plan(wide(3, 5, hosts="h1"))
    taken = ports_of(made)
    assert len(taken) == len(set(taken))
    gpus = [gpu for member in made.plan["members"] for gpu in member["parts"][0]["gpus"]]
    assert len(gpus) == len(set(gpus)) == 8


def test_a_band_is_contiguous_and_begins_after_what_is_in_the_way():
    fleet = Fleet(h1={"gpus": 8, "used": {40001: "nginx"}})
    part = fleet.plan(wide(hosts="h1", engine={"args": ["--data-parallel-size=3"]})).part("demo-prefill-0")
    assert part["ports"] == {"kv_side_channel": {"base": 40002, "count": 3}}
    assert part["port"] == 40000


def test_ports_are_taken_from_the_hosts_own_range():
    part = Fleet(h1={"gpus": 2, "ports": "50100-50120"}).plan(spec()).part("demo-decode-0")
    assert 50100 <= part["port"] <= 50120


def test_a_routers_port_is_its_own_and_may_be_outside_the_range():
    made = Fleet(h1=TWO).plan(spec())
    assert made.part("demo-router-0")["port"] == 8000
    assert made.plan["endpoint"]["url"] == "http://10.0.0.1:8000"


def test_a_router_without_a_port_gets_a_free_one():
    made = Fleet(h1=TWO).plan(spec(router={"port": ...}))
    assert 40000 <= made.part("demo-router-0")["port"] <= 40063


def test_a_routers_port_within_the_range_is_kept_for_it():
    made = Fleet(h1=TWO).plan(spec(router={"port": 40000}))
    assert made.errors == []
    taken = ports_of(made)
    assert len(taken) == len(set(taken))


def test_hosts_that_are_not_of_the_pattern_get_nothing():
    made = Fleet(h1={"gpus": 1}, h2={"gpus": 8}).plan(spec(prefill={"hosts": "h1"}, decode={"hosts": "h2"}))
    assert hosts_of(made) == {"demo-prefill-0": "h1", "demo-decode-0": "h2", "demo-router-0": "h1"}


# -- members that run -------------------------------------------------------------------------------------------------


def test_a_running_member_never_moves_even_to_a_better_host():
    fleet = Fleet(h1=TWO, h2={})
    before = fleet.deploy(wide(hosts="h1")).places()
    fleet.facts["h2"]["gpus"] = [{"id": f"NEW-{i}", "model": "H100", "vendor": "nvidia"} for i in range(8)]
    after = fleet.plan(wide(2, 2)).places()
    assert {name: after[name] for name in before} == before
    assert {after[name][0] for name in set(after) - set(before)} == {"h2"}


def test_a_running_member_keeps_its_place_when_its_host_leaves_the_pattern():
    fleet = Fleet(h1=TWO, h2=TWO)
    before = fleet.deploy(wide(hosts="h1")).places()
    made = fleet.plan(wide(hosts="h2"))
    assert made.places() == before
    assert made.steps() == []


def test_members_of_another_group_keep_their_ports_and_gpus():
    fleet = Fleet(h1={"gpus": 4})
    fleet.apply(fleet.plan(wide(hosts="h1"), name="one"))
    made = fleet.plan(wide(hosts="h1", router={"port": 8001}), name="two")
    assert made.errors == []
    theirs = {port for m in fleet.facts["h1"]["members"] for port in [m["label"]["port"]]}
    assert not theirs & {port for _host, port in ports_of(made)}
    assert made.part("two-prefill-0")["gpus"] == ["GPU-1-2"]


def test_groups_planned_in_one_run_see_each_others_reservations():
    fleet = Fleet(h1={"gpus": 4})
    one = fleet.plan(wide(hosts="h1"), name="one")
    two = fleet.plan(wide(hosts="h1", router={"port": 8001}), name="two", reserved=[one.plan])
    assert two.errors == []
    assert not set(ports_of(one)) & set(ports_of(two))
    gpus = [gpu for made in (one, two) for member in made.plan["members"] for gpu in member["parts"][0]["gpus"]]
    assert sorted(gpus) == ["GPU-1-0", "GPU-1-1", "GPU-1-2", "GPU-1-3"]


def test_groups_planned_in_one_run_cannot_have_the_same_router_port():
    fleet = Fleet(h1={"gpus": 4})
    one = fleet.plan(wide(hosts="h1"), name="one")
    two = fleet.plan(wide(hosts="h1"), name="two", reserved=[one.plan])
    found = only(two.findings, "port-taken")
    assert "8000 on h1" in found.message
    assert "one-router-0" in found.message


def test_a_router_port_that_another_groups_router_has_is_named():
    fleet = Fleet(h1={"gpus": 4})
    fleet.apply(fleet.plan(wide(hosts="h1"), name="one"))
    found = only(fleet.plan(wide(hosts="h1"), name="two").findings, "port-taken")
    assert "one-router-0" in found.message


def test_a_router_port_that_a_stranger_has_is_named():
    made = Fleet(h1={"gpus": 2, "used": {8000: "nginx"}}).plan(spec())
    found = only(made.findings, "port-taken")
    assert (found.severity, found.host) == ("error", "h1")
    assert "roles.router.port: 8000 on h1 is taken by nginx (pid 4000)" in found.message


def test_the_routers_own_port_is_not_in_its_way():
    fleet = Fleet(h1=TWO)
    fleet.deploy(spec())
    fleet.facts["h1"]["ports"]["used"] = [{"port": 8000, "command": "vllm-router", "pid": 7, "member": "demo-router-0"}]
    assert fleet.plan(spec()).errors == []
    assert fleet.plan(spec(), "restart").errors == []
    fleet.kill("demo-router-0")
    assert fleet.plan(spec()).errors == []


# -- what does not fit ------------------------------------------------------------------------------------------------


def test_too_few_gpus_are_told_host_by_host():
    made = Fleet(h1={"gpus": 1}, h2={"gpus": 2}).plan(wide(3, 1))
    assert made.errors == ["does-not-fit"]
    found = only(made.findings, "does-not-fit")
    assert "decode: 0 of 1 new members fit; each takes 1 GPU" in found.message
    assert "h1: 0 of 1 GPUs free" in found.message
    assert "h2: 0 of 2 GPUs free" in found.message


def test_too_few_ports_are_told_with_the_arithmetic():
    fleet = Fleet(h1={"gpus": 8, "ports": "40000-40005"})
    made = fleet.plan(wide(2, 2, hosts="h1", router={"port": 8000}))
    found = next(f for f in made.findings.errors if f.roles == ("decode",))
    assert found.code == "port-range-too-small"
    assert "1 of 2 new members fit; each takes 1 GPU and 2 ports (1 HTTP, 1 kv_side_channel)" in found.message
    assert "0 of 6 ports free in 40000-40005" in found.message


def advised(fleet: Fleet, raw) -> str:
    """The widest range that the findings advise."""
    found = [f for f in fleet.plan(raw).findings.errors if f.code == "port-range-too-small"]
    return max(re.findall(r"\d+-\d+", " ".join(f.hint for f in found)), key=lambda text: int(text.partition("-")[2]))


def test_the_range_that_is_advised_is_wide_enough():
    raw = wide(3, 3, hosts="h1", engine={"args": ["--data-parallel-size=2"]})
    small = {"gpus": 12, "ports": "40000-40009", "used": {40003: "nginx"}}
    assert "Taken by nginx (pid 4003)" in Fleet(h1=small).plan(raw).findings.errors[0].message
    assert Fleet(h1={**small, "ports": advised(Fleet(h1=small), raw)}).plan(raw).errors == []


def test_the_range_that_is_advised_is_wide_enough_where_no_run_of_ports_is():
    """Enough ports are free, but no eight in a row."""
    raw = wide(1, 1, hosts="h1", engine={"args": ["--data-parallel-size=8"]})
    small = {"gpus": 16, "ports": "40000-40031", "used": {40000 + i: "redis" for i in range(0, 32, 5)}}
    assert Fleet(h1={**small, "ports": advised(Fleet(h1=small), raw)}).plan(raw).errors == []


def test_the_range_that_is_advised_counts_what_each_of_several_hosts_can_take():
    hosts = {f"h{i}": {"gpus": 4, "ports": "40000-40003"} for i in range(1, 5)}
    raw = wide(8, 8, hosts="h1:h2:h3:h4", router={"hosts": "h1"})
    high = int(advised(Fleet(**hosts), raw).partition("-")[2])
    assert 40000 + 8 <= high <= 40000 + 16
    assert Fleet(**{n: {**f, "ports": f"40000-{high}"} for n, f in hosts.items()}).plan(raw).errors == []


def test_a_pattern_without_hosts():
    made = Fleet(h1=TWO).plan(spec(decode={"hosts": "h9"}))
    found = only(made.findings, "no-hosts")
    assert "'h9'" in found.message
    assert found.roles == ("decode",)


def test_hosts_that_do_not_answer_are_not_taken_for_a_narrow_port_range():
    fleet = Fleet(h1=TWO, h2=TWO)
    fleet.silent = {"h2"}
    fleet.silent = set()
    fleet.deploy(spec())
    fleet.silent = {"h2"}
    made = fleet.plan(spec(decode={"hosts": "h1:h2", "replicas": 2}))
    assert made.errors == ["does-not-fit"]
    assert "h2: no facts" in only(made.findings, "does-not-fit").message
