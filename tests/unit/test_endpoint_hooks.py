# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks of endpoints: what is written of them, what a run does about them and before what, and what a record says that is so."""

from __future__ import annotations

import json
import random
import typing as t
from dataclasses import replace

import pytest
from builders import Fleet, codes, judge, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.base.reader import Reader
from ansible_collections.inferops.pd.plugins.module_utils._core.course import orders
from ansible_collections.inferops.pd.plugins.module_utils._core.hooks import runtime_api, texts
from ansible_collections.inferops.pd.plugins.module_utils._core.hooks.hook import Act, Hook
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hooks import Wired
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.endpoint import read_hook

URL = "http://10.0.0.1:8000"
HAPROXY = Hook(
    "gateway",
    "haproxy",
    "gw",
    "/etc/haproxy/pd/llm.cfg",
    "llm",
    "/run/admin.sock",
    ("balance roundrobin",),
    reload=("reload",),
)
NGINX = Hook("edge", "nginx", "gw", "/etc/nginx/pd/${group}.conf", reload=("reload",))
FILE_SD = Hook("prometheus", "file_sd", "mon", "/etc/prometheus/pd/${group}.json")

# -- what is written -------------------------------------------------------------------------------------------------------------------

GOOD: dict[str, dict[str, t.Any]] = {
    "haproxy": {"kind": "haproxy", "hosts": "gw", "file": "/x", "backend": "llm", "reload": ["r"]},
    "nginx": {"kind": "nginx", "hosts": ["gw", "gw2"], "file": "/x/${group}.conf", "reload": ["r"], "check": ["c"]},
    "file_sd": {"kind": "file_sd", "hosts": "mon", "file": "/x/${group}.json", "labels": {"env": "prod", "tier": 1}},
    "tasks": {"kind": "tasks", "hosts": "localhost", "tasks": "/x.yml"},
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_hook_of_each_kind_is_read(kind: str) -> None:
    findings = Findings()
    hook = read_hook("one", GOOD[kind], Reader(findings))
    assert hook is not None
    assert not findings.items
    assert Hook.from_plain(json.loads(json.dumps(Act(hook, "in", "g", URL).to_plain()))["hook"]) == hook


BAD: dict[str, tuple[str, dict[str, t.Any], str, str]] = {
    "no kind": ("haproxy", {"kind": None}, "missing-value", "one.kind: missing"),
    "an unknown kind": ("haproxy", {"kind": "haprox"}, "bad-value", "'haprox' is not one of"),
    "no hosts": ("nginx", {"hosts": None}, "missing-value", "one.hosts: missing"),
    "no backend": ("haproxy", {"backend": None}, "missing-value", "one.backend: missing"),
    "no reload": ("nginx", {"reload": []}, "missing-value", "one.reload: missing"),
    "a command as text": ("nginx", {"reload": "systemctl reload nginx"}, "bad-value", "a command is a list of words"),
    "a key of another kind": ("file_sd", {"socket": "/x"}, "unknown-key", "one.socket: there is no such key"),
    "a file for all groups": ("nginx", {"file": "/x/all.conf"}, "bad-value", "every group would write the same file"),
    "a section for each group": ("haproxy", {"file": "/x/${group}.cfg"}, "bad-value", "a placeholder"),
    "another placeholder": ("nginx", {"file": "/x/${host}-${group}"}, "bad-value", "a placeholder"),
    "a relative file": ("haproxy", {"file": "llm.cfg"}, "bad-value", "one.file"),
    "a server of the user's own": (
        "haproxy",
        {"lines": ["server x 1.2.3.4:1"]},
        "bad-value",
        "`server` is none of them",
    ),
    "another section": ("haproxy", {"lines": ["frontend x"]}, "bad-value", "`frontend` is none of them"),
    "a bad label": ("file_sd", {"labels": {"a-b": "x"}}, "bad-value", "one.labels.a-b"),
    "a drain that is none": ("haproxy", {"drain": -1}, "bad-value", "one.drain"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_hook_is_said_with_its_place(case: str) -> None:
    kind, change, code, says = BAD[case]
    findings = Findings()
    assert read_hook("one", {**GOOD[kind], **change}, Reader(findings)) is None
    assert says in only(findings, code).message


def test_the_endpoint_of_a_group_has_a_weight_and_hooks_and_neither_is_in_its_revision() -> None:
    plain, hooked = judge(spec()), judge(spec(endpoint={"weight": 256, "hooks": ["gateway", "gateway", "own"]}))
    assert plain.template
    assert hooked.template
    assert hooked.group
    assert plain.template.revision == hooked.template.revision
    assert (hooked.group.endpoint.weight, hooked.group.endpoint.hooks) == (256, ("gateway", "own"))
    for bad in ({"weight": 257}, {"weight": -1}, {"hooks": {"gateway": 1}}, {"hoks": []}, {"hooks": [1]}):
        assert judge(spec(endpoint=bad)).findings.errors, bad


# -- what files say --------------------------------------------------------------------------------------------------------------------


def act(
    hook: Hook, event: t.Any = "in", group: str = "blue", weight: int = 100, gone: bool = False, url: str = URL
) -> Act:
    return Act(hook, event, group, url, "tiny", weight, gone)


def test_a_section_has_the_lines_of_the_user_and_a_server_a_group() -> None:
    both = texts.text_after(act(HAPROXY, group="green", weight=10), texts.text_after(act(HAPROXY), "backend llm\n"))
    assert both == (
        "# Written by inferops.pd for hook gateway: what stands here by hand is lost.\n"
        "backend llm\n"
        "    balance roundrobin\n"
        "    server blue 10.0.0.1:8000 weight 100\n"
        "    server green 10.0.0.1:8000 weight 10\n"
    )
    out = texts.text_after(act(HAPROXY, "out"), both)
    assert out
    assert "server blue 10.0.0.1:8000 weight 100 disabled\n" in out
    assert texts.same_lines(both, out)
    assert texts.text_after(act(HAPROXY, "out"), out) == out
    gone = texts.text_after(act(HAPROXY, "out", gone=True), out)
    assert gone
    assert "blue" not in gone
    assert "green" in gone
    assert not texts.same_lines(both, texts.text_after(act(replace(HAPROXY, lines=())), both))
    assert texts.text_after(act(HAPROXY, "out"), None) is None


def test_a_file_that_the_hook_has_left_goes_with_its_last_server() -> None:
    left = replace(HAPROXY, backend="")
    both = texts.text_after(act(HAPROXY, group="green"), texts.text_after(act(HAPROXY), None))
    one = texts.text_after(act(left, "out", gone=True), both)
    assert one == str(both).replace("    server blue 10.0.0.1:8000 weight 100\n", "")
    assert texts.text_after(act(left, "out", "green", gone=True), one) is None


def test_a_server_of_others_in_our_section_is_refused() -> None:
    for line in ("server mine 1.2.3.4:80 check", "server mine nowhere weight 3"):
        with pytest.raises(PdError, match=r"llm.cfg, line 2: this server is none of ours"):
            texts.text_after(act(HAPROXY), f"backend llm\n    {line}\n")


def test_an_address_of_ipv6_has_its_brackets() -> None:
    six = "http://[fd00::1]:8000"
    assert "server blue [fd00::1]:8000 weight 1\n" in str(texts.text_after(act(HAPROXY, weight=1, url=six), None))
    assert "server [fd00::1]:8000 weight=1;" in str(texts.text_after(act(NGINX, weight=1, url=six), None))
    assert "[fd00::1]:8000" in str(texts.text_after(act(FILE_SD, url=six), None))
    with pytest.raises(PdError, match="names no host and port"):
        texts.text_after(act(NGINX, url="http://host"), None)


def test_nginx_has_no_weight_of_zero() -> None:
    there = texts.text_after(act(NGINX), None)
    assert there
    assert there.endswith("\nserver 10.0.0.1:8000 weight=100;\n")
    down = texts.text_after(act(NGINX, "out"), there)
    assert down
    assert down.endswith("\nserver 10.0.0.1:8000 weight=100 down;\n")
    assert texts.text_after(act(NGINX, "out"), down) == down
    assert str(texts.text_after(act(NGINX, weight=0), None)).endswith("\nserver 10.0.0.1:8000 down;\n")
    assert texts.text_after(
        act(NGINX, "out", weight=0), texts.text_after(act(NGINX, weight=0), None)
    ) == texts.text_after(act(NGINX, weight=0), None)
    assert texts.text_after(act(NGINX, "out", gone=True), down) is None


def test_what_a_running_haproxy_says_of_servers() -> None:
    head = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_port\n"
    found = runtime_api.running(
        head + "3 llm 1 blue 10.0.0.1 2 4 100 100 8000\n3 llm 2 green 10.0.0.2 0 1 10 10 8000\n"
    )
    # That it was disabled in the file that it was started with is no maintenance.
    assert found["blue"].ready
    assert found["green"].in_maintenance
    assert runtime_api.as_wanted(act(HAPROXY), found)
    assert not runtime_api.as_wanted(act(HAPROXY, weight=9), found)
    assert runtime_api.as_wanted(act(HAPROXY, "out", "green"), found)
    assert not runtime_api.as_wanted(act(HAPROXY, "out"), found)
    assert runtime_api.as_wanted(act(HAPROXY, "out", "nobody"), found)
    with pytest.raises(PdError, match="Can't find backend"):
        runtime_api.running("Can't find backend.\n")


# -- what a run does -------------------------------------------------------------------------------------------------------------------


def wired(*hooks: tuple[Hook, str], **more: t.Any) -> Wired:
    """Hooks with the hosts that they are on, with commas."""
    return Wired({hook.name: (hook, tuple(hosts.split(","))) for hook, hosts in hooks}, **more)


BOTH = wired((HAPROXY, "gw1,gw2"), (FILE_SD, "mon"))


class Gated:
    """A group with hooks, and what its gateways send clients to."""

    def __init__(self) -> None:
        self.fleet = Fleet(h1={"gpus": 2}, h2={"gpus": 2})
        self.gateways: dict[str, dict[tuple[str, str], str]] = {}
        self.wired = BOTH
        self.bad: set[tuple[str, str]] = set()

    def raw(self, *hooks: str, **changes: t.Any) -> dict[str, t.Any]:
        weight = changes.pop("weight", 100)
        named = list(hooks) or ["gateway", "prometheus"]
        return spec(endpoint={"hooks": [one for one in named if one], "weight": weight}, **changes)

    def plan(self, raw: t.Any = None, action: str = "deploy", **more: t.Any) -> t.Any:
        return self.fleet.plan(raw or self.raw(), action, wired=more.pop("wired", self.wired), **more)

    def run(
        self, raw: t.Any = None, action: str = "deploy", how: t.Mapping[str, t.Any] | None = None, **more: t.Any
    ) -> bool:
        made = self.plan(raw, action, **more)
        assert not made.errors, made.findings.to_plain()

        def fails(host: str, hook: str) -> bool:
            return (host, hook) in self.bad

        return self.fleet.carry_out(made, gateways=self.gateways, hook_fails=fails, **(how or {}))

    @property
    def record(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", self.fleet.facts["h1"]["records"].get("demo") or {})

    @property
    def known(self) -> dict[str, list[str]]:
        """The hooks that send clients to the group, by host."""
        return {host: sorted(hook for hook, _group in found) for host, found in self.gateways.items() if found}

    @property
    def said(self) -> str:
        return "\n".join(self.fleet.said)


IN = {"gw1": ["gateway"], "gw2": ["gateway"], "mon": ["prometheus"]}


@pytest.fixture
def gated() -> Gated:
    made = Gated()
    assert made.run()
    return made


def test_who_serves_is_announced_and_then_registered(gated: Gated) -> None:
    endpoint = gated.record["endpoint"]
    assert gated.known == IN
    assert endpoint["registered"]
    assert {name: one["hosts"] for name, one in endpoint["hooks"].items()} == {
        "gateway": ["gw1", "gw2"],
        "prometheus": ["mon"],
    }
    assert all(one["digest"] and one["url"] == URL for one in endpoint["hooks"].values())
    again = gated.plan()
    assert not again.plan["steps"]
    assert not again.plan["changed"]
    assert "  hooks    gateway on gw1, gw2, prometheus on mon" in "\n".join(table_of(gated))


def table_of(gated: Gated) -> list[str]:
    from ansible_collections.inferops.pd.plugins.module_utils._core.report import status

    return status.table(gated.fleet.status(gated.raw()))


def test_status_says_which_hooks_differ_from_the_spec(gated: Gated) -> None:
    def marked(raw: t.Any) -> list[str]:
        return [one["why"] for one in gated.fleet.status(raw)["marks"] if one["mark"] == "hooks_differ"]

    assert marked(gated.raw()) == []
    (more,) = marked(gated.raw("gateway", "prometheus", "own"))
    assert more.startswith("own is not seen to have the endpoint")
    (less,) = marked(gated.raw("gateway"))
    assert less.startswith("prometheus may have the endpoint, and the spec does not name it")


def test_hosts_of_hooks_take_no_lock_and_keep_no_record(gated: Gated) -> None:
    made = gated.plan(action="restart").value
    assert set(made.through) == {"h1"}
    assert made.hook_hosts == ("gw1", "gw2", "mon")


EVACUATED = {"action": "evacuate", "evacuated": ["h1"]}


def moving() -> Gated:
    """All of it is on h1, and may be on h2 as well."""
    made = Gated()
    made.fleet.facts["h2"]["cordon"] = {"by": "ops", "since": 1.0, "why": ""}
    assert made.run(made.raw(**WIDE))
    made.fleet.facts["h2"]["cordon"] = None
    return made


WIDE = {role: {"hosts": "h1:h2"} for role in ("prefill", "decode", "router")}
MOVED = "http://10.0.0.2:8000"


def test_a_router_that_moves_is_announced_before_the_old_one_stops() -> None:
    """Clients always have one that serves: nothing is withdrawn."""
    gated = moving()
    made = gated.plan(gated.raw(**WIDE), **EVACUATED)
    phases = list(dict.fromkeys(phase for phase, _do, _member in made.steps()))
    assert phases == ["start", "router", "register", "announce", "retire", "endpoint"]
    assert gated.run(gated.raw(**WIDE), **EVACUATED)
    assert {url for found in gated.gateways.values() for url in found.values()} == {MOVED}
    record = gated.fleet.facts["h2"]["records"]["demo"]["endpoint"]
    assert (record["url"], record["registered"]) == (MOVED, True)
    assert all(one["url"] == MOVED and one["digest"] for one in record["hooks"].values())
    assert not gated.plan(gated.raw(**WIDE)).plan["changed"]


def test_a_hook_that_does_not_learn_where_a_router_has_moved_keeps_the_old_one() -> None:
    gated = moving()
    gated.bad = {("gw2", "gateway")}
    assert not gated.run(gated.raw(**WIDE), **EVACUATED)
    assert "its endpoint could not be given to gateway on gw2" in gated.said
    assert len(gated.fleet.facts["h1"]["members"]) == 3, "what gw2 sends requests to"
    gated.bad = set()
    assert gated.run(gated.raw(**WIDE), **EVACUATED)
    assert not gated.fleet.facts["h1"]["members"]
    assert {url for found in gated.gateways.values() for url in found.values()} == {MOVED}


# What has changed since, and the steps that follow: (phase, do, host).
CHANGES: dict[str, tuple[t.Callable[[Gated], tuple[t.Any, Wired]], list[tuple[str, str, str]]]] = {
    "nothing": (lambda g: (g.raw(), BOTH), []),
    "its weight": (
        lambda g: (g.raw(weight=1), BOTH),
        [("announce", "announce", host) for host in ("gw1", "gw2", "mon")],
    ),
    "what the hook says of it": (
        lambda g: (g.raw(), wired((replace(HAPROXY, lines=()), "gw1,gw2"), (FILE_SD, "mon"))),
        [("announce", "announce", "gw1"), ("announce", "announce", "gw2")],
    ),
    "how long it drains": (lambda g: (g.raw(), wired((replace(HAPROXY, drain=1), "gw1,gw2"), (FILE_SD, "mon"))), []),
    "a hook less": (lambda g: (g.raw("gateway"), BOTH), [("announce", "withdraw", "mon")]),
    "no hooks": (
        lambda g: (g.raw(""), BOTH),
        [("announce", "withdraw", "gw1"), ("announce", "withdraw", "gw2"), ("announce", "withdraw", "mon")],
    ),
    "a host of the hook less": (
        lambda g: (g.raw(), wired((HAPROXY, "gw1"), (FILE_SD, "mon"))),
        [("announce", "withdraw", "gw2"), ("announce", "announce", "gw1")],
    ),
    "a host more": (
        lambda g: (g.raw(), wired((HAPROXY, "gw1,gw2,gw3"), (FILE_SD, "mon"))),
        [("announce", "announce", "gw1"), ("announce", "announce", "gw2"), ("announce", "announce", "gw3")],
    ),
    "the file of a hook": (
        lambda g: (g.raw(), wired((HAPROXY, "gw1,gw2"), (replace(FILE_SD, file="/new/${group}.json"), "mon"))),
        [("announce", "withdraw", "mon"), ("announce", "announce", "mon")],
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_has_changed_is_told(gated: Gated, case: str) -> None:
    make, wanted = CHANGES[case]
    raw, hooks = make(gated)
    made = gated.plan(raw, wired=hooks)
    told = [(s["phase"], s["do"], s["host"]) for s in made.plan["steps"] if s["phase"] in ("withdraw", "announce")]
    assert told == wanted
    assert made.plan["changed"] == bool(wanted)
    assert not made.steps("create")
    assert not made.steps("remove")
    assert gated.run(raw, wired=hooks)
    assert gated.record["endpoint"]["registered"]
    after = gated.plan(raw, wired=hooks)
    assert (after.plan["steps"], after.plan["changed"]) == ([], False), after.text


def test_a_hook_that_is_dropped_forgets_the_group(gated: Gated) -> None:
    assert gated.run(gated.raw("gateway"))
    assert gated.known == {"gw1": ["gateway"], "gw2": ["gateway"]}
    assert set(gated.record["endpoint"]["hooks"]) == {"gateway"}
    assert (
        gated.run(gated.raw("")) and not gated.known and "hooks" not in gated.record["endpoint"]
    ) or not gated.record["endpoint"]["hooks"]


@pytest.mark.parametrize("action", ["restart", "remove"])
def test_clients_are_sent_elsewhere_before_anything_stops(gated: Gated, action: str) -> None:
    phases: list[str] = []
    made = gated.plan(action=action)
    first = next(at for at, step in enumerate(made.plan["steps"]) if step["do"] in ("remove", "deregister"))
    assert {s["host"] for s in made.plan["steps"][:first]} == {"gw1", "gw2", "mon"}
    assert gated.run(action=action, how={"before_phase": phases.append})
    assert phases.index("deregister") < phases.index("withdraw") < phases.index("drain") < phases.index("router_stop")
    assert gated.known == ({} if action == "remove" else IN)
    assert bool(gated.record) == (action == "restart")


def test_a_router_that_goes_elsewhere_is_withdrawn_and_announced_anew(gated: Gated) -> None:
    elsewhere = gated.raw(router={"hosts": "h2"})
    assert gated.plan(elsewhere, "restart").steps("withdraw")
    assert gated.run(elsewhere, "restart")
    url = "http://10.0.0.2:8000"
    assert set(gated.gateways["gw1"].values()) == {url}
    assert {one["url"] for one in gated.record["endpoint"]["hooks"].values()} == {url}


def test_a_router_that_nobody_can_ask_keeps_its_clients() -> None:
    gated = Gated()
    raw = gated.raw(router={"hosts": "h2"})
    assert gated.run(raw)
    gated.fleet.silent = {"h2"}
    made = gated.plan(raw)
    assert [s for s in made.steps() if s[0] in ("withdraw", "announce")] == []
    gated.fleet.carry_out(made, gateways=gated.gateways)
    assert gated.known == IN
    gated.fleet.silent = set()
    assert gated.run(raw)
    assert gated.known == IN


BROKEN: dict[str, t.Callable[[Gated], dict[str, t.Any]]] = {
    "fails": lambda g: g.bad.add(("gw2", "gateway")) or {},  # type: ignore[func-returns-value]
    "does not answer": lambda g: {"silent": lambda host: host == "gw2"},
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("action", ["restart", "remove"])
def test_a_hook_that_may_still_send_requests_keeps_everything_from_stopping(
    gated: Gated, action: str, how: str
) -> None:
    before = {m["label"]["member"]: m["process_id"] for m in gated.fleet.facts["h1"]["members"]}
    broken = BROKEN[how](gated)
    if "silent" in broken:
        made = gated.plan(action=action)
        ended = _carried(gated, made, broken["silent"])
    else:
        ended = gated.run(action=action)
    assert not ended
    assert "its endpoint could not be taken from gateway on gw2, so nothing was stopped." in gated.said
    assert "-e pd_skip_hooks=gateway" in gated.said
    assert {m["label"]["member"]: m["process_id"] for m in gated.fleet.facts["h1"]["members"]} == before
    assert not gated.fleet.facts["h1"]["locks"]
    # What other hooks had let go is theirs again, as it was told; the next run makes sure, and says so.
    assert not gated.record["endpoint"]["registered"]
    assert gated.known == IN
    assert set(gated.gateways["gw1"].values()) == {URL}
    gated.bad.clear()
    assert gated.run()
    assert gated.known == IN
    assert gated.record["endpoint"]["registered"]


def _carried(gated: Gated, made: t.Any, silent: t.Callable[[str], bool]) -> bool:
    import memory

    hosts = memory.Hosts(gated.fleet.facts, silent=silent, gateways=gated.gateways)
    done = memory.carry_out(made.plan, hosts)
    gated.fleet.said = hosts.said
    return done


def test_a_hook_that_does_not_take_it_leaves_the_group_partial_with_the_reason() -> None:
    gated = Gated()
    gated.bad.add(("mon", "prometheus"))
    assert not gated.run()
    assert "its endpoint could not be given to prometheus on mon" in gated.said
    noted = gated.record
    assert (noted["state"], noted["endpoint"]["registered"]) == ("partial", False)
    assert "the gateway is closed today" in noted["endpoint"]["why"]
    assert noted["endpoint"]["hooks"]["gateway"]["digest"]
    assert not noted["endpoint"]["hooks"]["prometheus"]["digest"]
    assert "prometheus on mon (NOT told)" in "\n".join(table_of(gated))
    gated.bad.clear()
    assert gated.run()
    assert gated.known == IN
    assert gated.record["endpoint"]["registered"]


def test_a_group_that_does_not_serve_is_taken_from_its_hooks(gated: Gated) -> None:
    gated.fleet.kill("demo-decode-0")
    assert not gated.run(how={"never_ready": ["demo-decode-0"]})
    assert not gated.known
    assert not gated.record["endpoint"]["registered"]
    # It may be known there under a name that is out of service: a removal takes it out for good.
    assert set(gated.record["endpoint"]["hooks"]) == {"gateway", "prometheus"}
    assert gated.run()
    assert gated.known == IN


@pytest.mark.parametrize("phase", ["deregister", "withdraw", "router_stop", "start", "announce", "endpoint"])
def test_a_run_that_dies_in_any_phase_is_made_up_for(gated: Gated, phase: str) -> None:
    def die(now: str) -> None:
        if now == phase:
            raise _DiedError

    with pytest.raises(_DiedError):
        gated.run(action="restart", how={"before_phase": die})
    for facts in gated.fleet.facts.values():
        facts["locks"] = {}
    holds(gated)
    gated.run(action="restart" if phase in ("router_stop",) else "deploy")
    assert gated.run()
    assert gated.known == IN
    assert gated.record["endpoint"]["registered"]


def holds(gated: Gated) -> None:
    """What the record calls registered, every hook sends clients to; and whom a hook knows, the record says it may."""
    endpoint = gated.record.get("endpoint") or {}
    noted = endpoint.get("hooks") or {}
    for name, one in noted.items():
        if endpoint["registered"] and one["digest"]:
            assert all((name, "demo") in gated.gateways.get(host, {}) for host in one["hosts"]), (noted, gated.gateways)
    for host, known in gated.gateways.items():
        for hook, _group in known:
            assert host in noted.get(hook, {"hosts": []})["hosts"], (host, hook, noted)


def test_engines_are_given_time_before_their_router_stops() -> None:
    import memory

    gated = Gated()
    gated.wired = wired((FILE_SD, "mon"))
    raw = gated.raw("prometheus", limits={"drain": 7})
    assert gated.run(raw)
    made = gated.plan(raw, "restart").value
    waited: list[tuple[str, float]] = []

    def drained(hooks: Wired) -> list[tuple[str, float]]:
        waited.clear()
        plan_ = gated.plan(raw, "restart", wired=hooks).value
        hosts = memory.Hosts(gated.fleet.facts, gateways=gated.gateways)
        wave = memory.Wave([plan_], hosts)
        for phase in ("lock", "deregister"):
            wave.phase(phase)
        parcel = wave.parcels("h1")["demo"]
        order = orders.order_of(parcel, "drain", wave.courses["demo"], False)
        if order is not None:
            work = hosts.work(order, {"run": plan_.run, "who": "test", "ttl": 300, "dead": ()})
            work.world = replace(
                work.world, drain=lambda label, limit, _up: waited.append((label["member"], limit)) or ""
            )
            assert work.run()["drained"] == {}
        wave.phase("unlock")
        for facts in gated.fleet.facts.values():
            facts["locks"] = {}
        return sorted(waited)

    assert made.hold >= 7
    assert drained(gated.wired) == [("demo-decode-0", 7.0), ("demo-prefill-0", 7.0)]
    # HAProxy has seen by itself that nothing runs.
    gated.wired = wired((HAPROXY, "gw1"))
    raw = gated.raw("gateway", limits={"drain": 7})
    gated.wired = wired((HAPROXY, "gw1"), (FILE_SD, "mon"))
    assert gated.run(raw)
    assert drained(gated.wired) == []


# -- what stands in the way ------------------------------------------------------------------------------------------------------------


def test_a_host_that_cannot_be_told_is_said_before_anything(gated: Gated) -> None:
    away = replace(BOTH, away={"gw2": "was left out of this run"})
    assert not gated.plan(wired=away).errors
    for made in (gated.plan(action="restart", wired=away), gated.plan(gated.raw(weight=3), wired=away)):
        found = only(made.findings, "endpoint-hook-away")
        assert found.message.startswith("hook gateway: gw2 was left out of this run")
        assert "-e pd_skip_hooks=gateway" in found.hint


def test_a_gateway_that_is_gone_for_good_stands_in_nobodys_way(gated: Gated) -> None:
    one = wired((HAPROXY, "gw1"), (FILE_SD, "mon"), gone=frozenset({"gw2"}), away={"gw2": "is not in the inventory"})
    made = gated.plan(wired=one)
    assert not made.errors
    assert "hook gateway has told gw2 of group demo" in only(made.findings, "endpoint-hook-host-gone").message
    assert gated.run(wired=one)
    assert gated.record["endpoint"]["hooks"]["gateway"]["hosts"] == ["gw1"]
    after = gated.plan(wired=one)
    assert (after.plan["steps"], after.codes.count("endpoint-hook-host-gone")) == ([], 0)
    assert gated.run(action="remove", wired=one)


def test_a_hook_that_the_inventory_has_no_more_is_said(gated: Gated) -> None:
    gone = wired((FILE_SD, "mon"))
    for made in (gated.plan(gated.raw("prometheus"), wired=gone), gated.plan(action="remove", wired=gone)):
        assert "is known by hook gateway on gw1, gw2" in only(made.findings, "endpoint-hook-gone").message
    skipped = replace(gone, skip=frozenset({"gateway"}))
    assert gated.run(action="remove", wired=skipped)
    assert gated.known == {"gw1": ["gateway"], "gw2": ["gateway"]}


def test_a_hook_that_is_skipped_is_told_by_the_next_run(gated: Gated) -> None:
    skipped = replace(BOTH, skip=frozenset({"gateway"}), away={"gw1": "was left out of this run"})
    made = gated.plan(action="restart", wired=skipped)
    assert codes(made.findings.errors) == []
    assert "stays as it is" in only(made.findings, "endpoint-hook-skipped").message
    assert gated.run(action="restart", wired=skipped)
    assert gated.record["endpoint"]["registered"]
    assert not gated.record["endpoint"]["hooks"]["gateway"]["digest"]
    assert [s[1] for s in gated.plan().steps() if s[0] == "announce"] == ["announce", "announce"]
    assert gated.run()
    assert gated.record["endpoint"]["hooks"]["gateway"]["digest"]


def test_a_host_out_of_service_is_not_asked_and_told_when_it_is_back(gated: Gated) -> None:
    out = replace(BOTH, out=frozenset({"gw2"}))
    gated.run(gated.raw(weight=3), wired=out)
    assert gated.record["endpoint"]["hooks"]["gateway"]["hosts"] == ["gw1"]
    assert ("announce", "announce", None) in gated.plan(gated.raw(weight=3)).steps()


# -- by chance -------------------------------------------------------------------------------------------------------------------------


class _DiedError(Exception):
    """A controller that is gone."""


def _dies_after(writes: int) -> t.Callable[[], None]:
    """What is asked before each write of a run whose controller dies once it has done so many."""
    left = iter(range(writes))

    def write() -> None:
        if next(left, None) is None:
            raise _DiedError

    return write


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_who_is_called_registered_is_known_by_its_hooks(seed: int) -> None:
    """Random runs, of which some die before any of their writes, and hooks that fail: after each, what the record says holds."""
    chance, gated = random.Random(seed), Gated()
    for _run in range(12):
        gated.bad = {
            (h, n) for h, n in (("gw1", "gateway"), ("gw2", "gateway"), ("mon", "prometheus")) if chance.random() < 0.15
        }
        write = _dies_after(chance.randrange(60) if chance.random() < 0.4 else 10_000)
        raw = gated.raw(*chance.choice([(), ("gateway",), ("prometheus",), ("",)]), weight=chance.choice([1, 100]))
        action = chance.choice(["deploy", "deploy", "restart", "remove"])
        if action != "deploy" and not gated.record:
            action = "deploy"
        try:
            ended = gated.run(raw, action, how={"before_write": write})
        except _DiedError:
            for facts in gated.fleet.facts.values():
                facts["locks"] = {}
        else:
            assert ended or gated.bad
        holds(gated)
    gated.bad = set()
    assert gated.run()
    assert gated.known == IN
