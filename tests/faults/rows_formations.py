# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Histories after which members of two formations, or of two groups, could serve together: hosts that are lost and return, plans that
others overtake, ports that are given on, models that are exchanged, machines with two names."""

from __future__ import annotations

import copy
import getpass
import json
import shutil
import socket
import sys
import time
import typing as t

from faults.case import Case, Load, end
from faults.model import DEPLOY, KEPT, NEW, REMOVE, RESTART, STATUS, Fault, Play, lost, only, scale
from integration import support_runtime
from support import ROOT

ALL = only("prefill", "decode", "router")
OVERTAKEN = r"another run has changed its members since the plan was made"
# A member of the group's name that is none of it any more.
STRAY = r"(?i)g-decode-0.{0,200}\bstray|\bstray.{0,200}g-decode-0"
STRAY_ONE = STRAY.replace("decode-0", "decode-1")
# A router that may move has a port of its host's own range: on this machine two of one port would be in each other's way.
MOVING: dict[str, t.Any] = {"router": {"port": None}}
ONE_GPU_EACH: dict[str, t.Any] = {"pd_gpus": ["@gpu@"]}
ON_GPUS: dict[str, t.Any] = {"prefill": {"gpus": 1}, "decode": {"gpus": 1, "hosts": "h2:h3"}}


def nothing(case: Case) -> None:
    """The fault is in the spec, or in the play."""


def looked_at(case: Case) -> None:
    """Long enough for the client to ask every router several times."""
    time.sleep(3)


def silent(*hosts: str) -> t.Callable[[Case], None]:
    """Ansible does not reach them; what runs there serves on."""

    def do(case: Case) -> None:
        for host in hosts:
            case.down(host)

    return do


# -- plans that were overtaken ---------------------------------------------------------------------------------------------------------


def scaled_meanwhile(case: Case) -> None:
    """Another run adds a member, of the spec as it was, on a host that this run's plan has no part on."""
    case.edit()
    case.must(scale(decode=2))
    case.edit()
    assert case.pids([case.state_of("h3")]).keys() == {"g-decode-1"}


# -- hosts that are lost and return ----------------------------------------------------------------------------------------------------


def restarted_without_h3(case: Case) -> None:
    """h3 runs decode-1 and is stated lost. The group is formed anew on another spec, without it, and scaled down."""
    case.down("h3")
    case.edit()
    case.must(lost(RESTART, "h3"))
    case.must(lost(scale(decode=1), "h3"))
    case.group["roles"]["decode"]["replicas"] = 1
    case.write()


def h3_returns(case: Case) -> None:
    restarted_without_h3(case)
    case.said(r"(?i)tombstone", case.must(STATUS))
    case.reachable()
    case.said(STRAY_ONE, case.must(STATUS))


def gone_from_h3(case: Case) -> None:
    assert not case.pids([case.state_of("h3")]), "what the lost host had still runs"


def removed_at_once(case: Case) -> None:
    """One removal takes the strays with it."""
    case.reachable()
    case.must(REMOVE)
    assert case.left() == [], "the removal left something"


def formed_anew_without_h2(case: Case) -> None:
    """h2 is lost, the group is removed, and formed again on h3: its generation is 1 again. Then h2 comes back, with a record that was
    written more often than the new one."""
    case.must(scale(decode=2))
    case.must(scale(decode=1))
    case.down("h2")
    case.must(lost(REMOVE, "h2"))
    case.must(lost(DEPLOY, "h2"))
    case.keep["new"] = case.pids([case.state_of("h1"), case.state_of("h3")])
    assert set(case.keep["new"]) == ALL
    case.reachable()


def new_ones_kept(case: Case) -> None:
    assert case.pids([case.state_of("h1"), case.state_of("h3")]) == case.keep["new"], "the new members were touched"
    assert not case.pids([case.state_of("h2")]), "what the lost host had still runs"


def h3_dies(case: Case) -> None:
    """The host is off: nothing of it runs, and nobody answers."""
    support_runtime.clean_up(str(case.state_of("h3")))
    case.down("h3")


def h1_is_cut_off(case: Case) -> None:
    """h1 with prefill and router is silent, and h3 may have them now."""
    (label,) = case.labels("g-decode-0")
    case.keep["url"] = label["url"]
    for role in ("prefill", "router"):
        case.group["roles"][role]["hosts"] = "h1:h3"
    case.write()
    case.down("h1")


def not_its_old_address(case: Case) -> None:
    (label,) = case.labels("g-decode-0")
    assert label["url"] != case.keep["url"], "an address of the older formation was given to the newer one"
    looked_at(case)


def more_hosts(case: Case) -> None:
    """h1 and h2 do not answer, and the patterns name h3 and h4 as well."""
    silent("h1", "h2")(case)
    for role, hosts in (("prefill", "h1:h3"), ("decode", "h2:h4"), ("router", "h1:h3")):
        case.group["roles"][role]["hosts"] = hosts
    case.write()


def out_of_service(case: Case) -> None:
    """The inventory says that h3 is away, and it is."""
    h3_dies(case)
    case.hosts["h3"]["pd_out_of_service"] = True
    case.write()


def in_service(case: Case) -> None:
    del case.hosts["h3"]["pd_out_of_service"]
    case.write()


def fence(case: Case) -> None:
    """A fence that turns the power off: its command says so, and does it."""
    script = case.folder / "fence.py"
    script.write_text(f"""
import sys
sys.path[:0] = [{str(ROOT / "tests")!r}]
from integration.support_runtime import clean_up
with open({str(case.folder / "fenced")!r}, "a") as told:
    told.write(sys.argv[1] + "\\n")
clean_up({str(case.state_of("h3"))!r})
""")
    case.variables = {"pd_fence_command": [sys.executable, str(script), "${host}"]}
    case.write()
    case.down("h3")


def fence_fails(case: Case) -> None:
    case.variables = {"pd_fence_command": ["sh", "-c", "echo no such outlet >&2; exit 3"]}
    case.write()
    case.down("h3")


def no_fence(case: Case) -> None:
    case.variables = {}
    case.write()


def fenced_once(case: Case) -> None:
    told = case.folder / "fenced"
    assert told.exists(), "the fence did not run"
    assert told.read_text().split() == ["h3"], "the fence was to run once, for h3"
    gone_from_h3(case)


# -- what is given on while it is named ------------------------------------------------------------------------------------------------


def other_group_wants_the_port(case: Case) -> None:
    """A change is pending, and the record does not know what ran, as before it kept that: decode-1 goes, the router keeps it on its command
    line; another group is deployed beside it."""
    for state in case.states:
        file = state / "groups" / "g" / "record.json"
        kept = json.loads(file.read_text())
        kept.pop("applied")
        file.write_text(json.dumps(kept))
    (label,) = case.labels("g-decode-1")
    case.keep["port"] = label["port"]
    case.edit()
    case.group["roles"]["decode"]["replicas"] = 1
    case.write()
    # It may fail: the router goes on sending requests to where nobody is.
    case.do_play(scale(decode=1))
    other = copy.deepcopy(case.group)
    other["roles"]["router"]["port"] = case.port + 30
    case.groups["b"] = other
    case.write()


def holds(case: Case) -> list[dict[str, t.Any]]:
    file = case.states[0] / "groups" / "g" / "holds.json"
    return t.cast("list[dict[str, t.Any]]", json.loads(file.read_text())["holds"]) if file.exists() else []


def the_port_is_held(case: Case) -> None:
    looked_at(case)
    ports = {label["port"] for member in ("b-prefill-0", "b-decode-0") for label in case.labels(member)}
    assert case.keep["port"] not in ports, "a port that g's router still names was given to another group"
    held = holds(case)
    assert any(case.keep["port"] in hold["ports"] for hold in held), held


def nothing_is_held(case: Case) -> None:
    """After the restart nobody names the port any more."""
    case.must(RESTART)
    assert holds(case) == []


# -- what is exchanged under its path --------------------------------------------------------------------------------------------------


def exchange_and_kill(case: Case) -> None:
    """Other weights under the same path; then decode's process dies, and its runtime starts it again."""
    (case.model / "config.json").write_text('{"model_type": "standin", "torch_dtype": "float32", "v": 2}')
    (case.model / "model.safetensors").write_bytes(b"other weights")
    end(case.before["g-decode-0"])
    # Time for the runtime to start it, and for the client to be answered by it.
    time.sleep(8)


# -- names -----------------------------------------------------------------------------------------------------------------------------


def second_name(case: Case) -> None:
    """The machine is in the inventory twice, and two deploys of the unchanged spec follow."""
    case.hosts["alias"] = dict(case.hosts["node"])
    for role in case.group["roles"].values():
        role["hosts"] = "node:alias"
    case.write()
    case.do_play(DEPLOY)


def one_name(case: Case) -> None:
    del case.hosts["alias"]
    for role in case.group["roles"].values():
        role["hosts"] = "node"
    case.write()


# -- what is not known -----------------------------------------------------------------------------------------------------------------


def still_registered(case: Case) -> None:
    for record in case.records():
        assert record["endpoint"]["registered"], "what is not known became what is not registered"


def registered_without_h3(case: Case) -> None:
    (record,) = [json.loads((case.state_of("h1") / "groups/g/record.json").read_text())]
    assert record["endpoint"]["registered"], record
    gone = case.hosts["h3"]["pd_address"]
    assert not [url for url in case.peers(case.address) if f"//{gone}:" in url], "the lost host's peer is still named"


# -- state -----------------------------------------------------------------------------------------------------------------------------


def lose_state(case: Case) -> None:
    """Somebody cleans up /var/lib."""
    shutil.rmtree(case.states[0])


def empty(name: str) -> t.Callable[[Case], None]:
    """A file as a power loss leaves it, and another group of the host to deploy."""

    def do(case: Case) -> None:
        other = copy.deepcopy(case.group)
        other["roles"]["router"]["port"] = case.port + 30
        case.groups["b"] = other
        case.write()
        file = case.states[0] / "groups" / "g" / name
        case.keep["whole"] = (file, file.read_text())
        file.write_text("")

    return do


def restored(case: Case) -> None:
    file, text = case.keep["whole"]
    file.write_text(text)
    assert {"b-prefill-0", "b-decode-0", "b-router-0"} <= set(case.running())


# -- runs ------------------------------------------------------------------------------------------------------------------------------


def same_name_another_run(case: Case) -> None:
    """A run of another container has the lock: the same user, the same host name, the same pid. It lives."""
    run = case.runs[-1].process
    now = time.time()
    lock = {"run": "another", "who": who_of(run.pid), "since": now - 5, "expires": now + 300, "process": {}}
    for state in case.states:
        write_lock(state, lock)


def who_of(pid: int) -> str:
    return f"{getpass.getuser()}@{socket.gethostname()} pid {pid}"


def write_lock(state: t.Any, lock: dict[str, t.Any]) -> None:
    """As a run leaves it; of a record of an earlier version it is a key."""
    folder = state / "groups" / "g"
    record = json.loads((folder / "record.json").read_text())
    if record.get("schema") == 1:
        (folder / "record.json").write_text(json.dumps({**record, "lock": lock}))
    else:
        (folder / "lock.json").write_text(json.dumps(lock))


def its_lock_ends(case: Case) -> None:
    for state in case.states:
        (state / "groups" / "g" / "lock.json").unlink(missing_ok=True)


def traffic(case: Case) -> None:
    """Requests that are in prefill at any time, which takes two seconds for each."""
    load = case.keep["load"] = Load(case.url, 8)
    case.undo.append(load.end)
    time.sleep(5)


def all_answered(case: Case) -> None:
    time.sleep(3)
    load = case.keep["load"]
    load.end()
    assert set(load.statuses) == {200}, f"answers by status: {load.statuses}"
    assert load.statuses[200] > 20


ROWS = [
    Fault(
        "a-restart-that-was-overtaken-on-another-host",
        "overtaken",
        scaled_meanwhile,
        RESTART,
        at="before:lock",
        edit=True,
        topology="three",
        spec=ON_GPUS,
        host=ONE_GPU_EACH,
        told=(OVERTAKEN,),
        runs=ALL | {"g-decode-1"},
        needs=("nic",),
        heal=(RESTART, scale(decode=1)),
        in_selection=True,
    ),
    # -- hosts that are lost and return ------------------------------------------------------------------------------------------------
    Fault(
        "a-lost-host-returns-after-a-restart",
        "lost-returns",
        h3_returns,
        topology="three",
        spec={"decode": {"hosts": "h2:h3", "replicas": 2}},
        fails=False,
        told=(STRAY_ONE,),
        check=gone_from_h3,
        runs=ALL,
        needs=("nic",),
        in_selection=True,
    ),
    Fault(
        "a-lost-host-returns-and-the-group-is-removed",
        "lost-returns",
        h3_returns,
        STATUS,
        topology="three",
        spec={"decode": {"hosts": "h2:h3", "replicas": 2}},
        fails=False,
        told=(STRAY_ONE, r"h3"),
        lift=removed_at_once,
        needs=("nic",),
        heal=(DEPLOY,),
    ),
    Fault(
        "a-lost-host-returns-after-a-removal",
        "lost-returns",
        formed_anew_without_h2,
        topology="three",
        spec={"decode": {"hosts": "h2:h3"}},
        fails=False,
        told=(STRAY,),
        check=new_ones_kept,
        needs=("nic",),
    ),
    Fault(
        "a-lost-host-lives-on",
        "lost-lives",
        h1_is_cut_off,
        lost(RESTART, "h1"),
        edit=True,
        topology="three",
        spec=MOVING,
        fails=False,
        told=(r"(?i)h1.{0,300}trust|trust.{0,300}h1",),
        status=(r"(?i)tombstone.{0,100}h1|h1.{0,100}tombstone",),
        check=not_its_old_address,
        needs=("nic",),
        heal=(DEPLOY,),
        healed=(r"(?i)stray",),
        in_selection=True,
    ),
    Fault(
        "a-lost-host-is-fenced",
        "fenced",
        fence,
        lost(RESTART, "h3"),
        edit=True,
        topology="three",
        spec={"decode": {"hosts": "h2:h3", "replicas": 2}},
        fails=False,
        told=(r"(?i)fence",),
        check=fenced_once,
        lift=no_fence,
        needs=("nic",),
        heal=(DEPLOY,),
    ),
    Fault(
        "the-fence-of-a-lost-host-fails",
        "fenced",
        fence_fails,
        lost(RESTART, "h3"),
        edit=True,
        topology="three",
        spec={"decode": {"hosts": "h2:h3", "replicas": 2}},
        told=(r"(?i)fence.{0,300}no such outlet|no such outlet.{0,300}fence", r"h3"),
        runs=KEPT,
        lift=no_fence,
        needs=("nic",),
        heal=(RESTART,),
    ),
    Fault(
        "a-host-is-out-of-service",
        "out-of-service",
        out_of_service,
        RESTART,
        edit=True,
        topology="three",
        spec={"decode": {"hosts": "h2:h3", "replicas": 2}},
        fails=False,
        told=(r"(?i)h3.{0,100}out of service|out of service.{0,100}h3",),
        runs=ALL | {"g-decode-1"},
        lift=in_service,
        needs=("nic",),
        heal=(DEPLOY,),
    ),
    Fault(
        "nobody-who-answers-has-a-record",
        "silent-and-new",
        more_hosts,
        topology="four",
        spec=MOVING,
        told=(r"h1.{0,60}h2", r"no other host has a record of the group"),
        runs=KEPT,
        needs=("nic",),
        heal=(DEPLOY,),
        in_selection=True,
    ),
    # -- what is not known -------------------------------------------------------------------------------------------------------------
    Fault(
        "nothing-to-do-and-a-host-is-silent",
        "silent-and-nothing-to-do",
        silent("h2"),
        topology="two",
        fails=None,
        runs=KEPT,
        check=still_registered,
        needs=("nic",),
        heal=(STATUS,),
        healed=(r"g: RUNNING",),
    ),
    Fault(
        "nothing-to-do-and-a-host-is-dead",
        "silent-and-nothing-to-do",
        h3_dies,
        topology="three",
        spec={**ON_GPUS, "decode": {"gpus": 1, "hosts": "h2:h3", "replicas": 2}},
        host=ONE_GPU_EACH,
        fails=None,
        runs=ALL,
        check=still_registered,
        needs=("nic",),
        heal=(DEPLOY,),
    ),
    Fault(
        "nothing-to-do-and-a-host-is-lost",
        "silent-and-nothing-to-do",
        h3_dies,
        lost(DEPLOY, "h3"),
        topology="three",
        spec={**ON_GPUS, "decode": {"gpus": 1, "hosts": "h2:h3", "replicas": 2}},
        host=ONE_GPU_EACH,
        fails=None,
        told=(r"scale",),
        runs=ALL,
        check=registered_without_h3,
        needs=("nic",),
        heal=(DEPLOY,),
    ),
    # -- what is given on, or exchanged ------------------------------------------------------------------------------------------------
    Fault(
        "a-port-that-a-router-still-names",
        "held-port",
        other_group_wants_the_port,
        Play("deploy", {"pd_group": "b"}),
        spec={"router": {"membership": "restart"}, "decode": {"replicas": 2}},
        fails=False,
        check=the_port_is_held,
        lift=nothing_is_held,
        heal=(DEPLOY,),
    ),
    Fault(
        "the-model-is-exchanged-and-an-engine-dies",
        "exchanged",
        exchange_and_kill,
        STATUS,
        fails=False,
        told=(r"g-decode-0.{0,200}not started: .{0,200}model",),
        runs=only("prefill", "router"),
        heal=(RESTART,),
        in_selection=True,
    ),
    Fault(
        "an-engine-whose-version-cannot-be-read",
        "another-image",
        nothing,
        formed=False,
        spec={"engine": {"executable": str(ROOT / "tests" / "standin" / "vllm-wrapped")}},
        fails=False,
        told=(r"(?i)version.{0,200}(cannot be|could not be|unverified)|unverified.{0,200}version",),
    ),
    # -- machines and users ------------------------------------------------------------------------------------------------------------
    Fault(
        "one-machine-under-two-names",
        "two-names",
        second_name,
        told=(r"node.{0,200}alias|alias.{0,200}node", r"(?i)state folder|state_dir|same machine|one machine"),
        runs=KEPT,
        lift=one_name,
    ),
    Fault(
        "two-names-with-two-folders",
        "two-names",
        nothing,
        topology="two",
        fails=False,
        told=(r"(?i)h1.{0,120}h2.{0,120}machine|machine.{0,120}h1.{0,120}h2",),
        runs=KEPT,
        needs=("nic",),
    ),
    # -- the undo, and the drain -------------------------------------------------------------------------------------------------------
    Fault(
        "a-failed-scale-undoes-only-itself",
        "stop-on-failure",
        lambda case: case.cause.touch(),
        Play("scale", {"pd_group": "g", "pd_decode": "2", "pd_on_failure": "stop"}),
        spec={
            "router": {"membership": "restart"},
            "decode": {"extra_env": {"STANDIN_FAIL": "die_while:@cause@"}},
            "readiness": "all",
        },
        told=(r"g-decode-1 on node:",),
        runs=KEPT,
        check=still_registered,
        lift=lambda case: case.cause.unlink(),
        heal=(scale(decode=2), scale(decode=1)),
    ),
    Fault(
        "a-member-leaves-under-load",
        "leaves-under-load",
        traffic,
        scale(decode=1),
        spec={
            "prefill": {"extra_env": {"STANDIN_DELAY": "2"}},
            "decode": {"replicas": 2},
            "limits": {"start": 60, "drain": 20, "stop": 3},
        },
        fails=False,
        runs=ALL,
        lift=all_answered,
        heal=(Play("deploy", {"pd_allow_scale_down": "true"}), scale(decode=2)),
    ),
    # -- state -------------------------------------------------------------------------------------------------------------------------
    Fault("the-state-folder-is-lost", "state-lost", lose_state, fails=None, runs=ALL, heal=(DEPLOY,)),
    Fault(
        "an-empty-label-and-another-group",
        "state-damaged",
        empty("members/g-decode-0/label.json"),
        Play("deploy", {"pd_group": "b"}),
        fails=False,
        lift=restored,
        heal=(DEPLOY,),
    ),
    Fault(
        "an-empty-record-and-another-group",
        "state-damaged",
        empty("record.json"),
        Play("deploy", {"pd_group": "b"}),
        fails=False,
        lift=restored,
        heal=(DEPLOY,),
    ),
    # -- runs --------------------------------------------------------------------------------------------------------------------------
    Fault(
        "a-run-of-the-same-name-has-the-lock",
        "two-runs",
        same_name_another_run,
        RESTART,
        at="before:lock",
        edit=True,
        told=(r"is changing it since",),
        runs=KEPT,
        lift=its_lock_ends,
    ),
    Fault(
        "a-strategy-of-the-users-own-configuration",
        "own-play",
        nothing,
        Play("restart", {"pd_group": "g"}, environment={"ANSIBLE_STRATEGY": "free"}),
        edit=True,
        topology="two",
        fails=False,
        runs=NEW,
        needs=("nic",),
    ),
    Fault(
        "a-users-own-play-is-free",
        "own-play",
        nothing,
        Play("restart", {"pd_group": "g"}, keys={"strategy": "free"}),
        edit=True,
        topology="two",
        told=(r"(?i)strategy.{0,80}linear|linear.{0,80}strategy",),
        runs=KEPT,
        needs=("nic",),
        heal=(RESTART,),
    ),
    Fault(
        "a-users-own-play-is-in-batches",
        "own-play",
        nothing,
        Play("restart", {"pd_group": "g"}, keys={"serial": 1}),
        edit=True,
        topology="two",
        told=(r"(?i)serial|batch",),
        runs=KEPT,
        needs=("nic",),
        heal=(RESTART,),
    ),
]
