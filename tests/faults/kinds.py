# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kinds of faults mean to a user: the table of docs/failures.md, which a test makes anew from here."""

from __future__ import annotations

from faults.model import Kind

AGAIN = "run the same playbook again"

KINDS: dict[str, Kind] = {
    # -- hosts
    "unreachable": Kind(
        "a host does not answer",
        "`h2 did not answer and may still run g-decode-0`, or Ansible's UNREACHABLE in the task that met it",
        "before anything has stopped: all. Later: what has not stopped yet, or has started already. No part of a new formation serves",
        f"bring the host back, then {AGAIN}; or fence it and state it: `-e pd_lost_hosts=h2`",
    ),
    "cut": Kind(
        "the connection breaks in the middle of a phase",
        "the same as above; the phase may have done its work there",
        "what the host did before it was cut; its members are looked at again by the next run",
        AGAIN,
    ),
    "limit": Kind(
        "`--limit` leaves out a host of the group",
        "`a restart of a part of the group is refused`, and which host with which members",
        "all, as before",
        "run without `--limit`",
    ),
    "host-removed": Kind(
        "a host with members is no longer in the inventory",
        "the host and its members, which the record names; a restart is refused",
        "all, as before",
        "put the host back and remove or move its members by a run; or fence it: `-e pd_lost_hosts=h2`",
    ),
    "pattern-changed": Kind(
        "a host with members is no longer in its role's pattern",
        "a warning, `outside-pattern`: the member stays where it is",
        "all, until a restart; then the new ones",
        "nothing, or `restart`, which forms the group on the hosts that are named",
    ),
    "host-booted": Kind(
        "a host is booted, or loses its power",
        "`status`: the member is down, and `the host booted at ...`",
        "the others. Under no runtime does a member start by itself at a boot: alone it would not know its peers",
        "`deploy`, which starts what is down; of a group that has lost all of its hosts, too",
    ),
    "clock-skew": Kind(
        "the clocks of hosts differ, or a lock is of another time",
        "nothing",
        "as without it: times are compared on the host that wrote them only",
        "nothing",
    ),
    "silent-and-new": Kind(
        "no host that answers knows the group, and one of its patterns does not answer",
        "that a first forming is refused, and which hosts nobody looked at: they may run the group",
        "all, as before",
        f"bring the hosts back, then {AGAIN}; or fence them and state it: `-e pd_lost_hosts=h1,h2`; or, for one that is away:"
        " `pd_out_of_service: true` in the inventory",
    ),
    "silent-and-nothing-to-do": Kind(
        "a host does not answer, and there is nothing else to do",
        "the host, and what it may still run",
        "all, and the endpoint stays registered: what is not known is not taken for bad. Of a host that is stated lost, the peer leaves"
        " the router",
        "nothing; where too few GPUs are left for its members: `scale` to what there is",
    ),
    "lost-returns": Kind(
        "a host that was stated lost comes back, with members of then",
        "`status`: a tombstone until the host is seen, then its members as strays. The run that sees them stops them, and says so",
        "the group of now; nothing of then is registered or adopted",
        "`deploy`: it stops the strays and clears the tombstone. `remove` takes them along",
    ),
    "lost-lives": Kind(
        "a host that was stated lost lives on, with its members and its router",
        "the plan: what is taken on trust; `status`: the tombstone",
        "the group of now, on addresses that the group of then never had. The old router has no decode that it could reach, and answers"
        " nobody",
        "fence the host, or bring it back and `deploy`. Next time: `pd_fence_command`",
    ),
    "fenced": Kind(
        "a host is stated lost, and `pd_fence_command` says how to make it so",
        "the plan: which hosts are fenced; where the command fails: its last line, and the run ends before anything has stopped",
        "the group of now; after a failed fence all, as before",
        f"after a failed fence: mend the command, or fence the host by hand; then {AGAIN}",
    ),
    "out-of-service": Kind(
        "the inventory says that a host is away (`pd_out_of_service`)",
        "each plan names it: it is not asked, and gets nothing",
        "the group on the other hosts",
        "when it is back: take the line away, then `deploy`. What it still runs of then is a stray",
    ),
    "two-names": Kind(
        "one machine is in the inventory under two names",
        "with one state folder: an error that names both. With a folder for each: both names, once",
        "with one state folder: all, as before. With two: what is asked for; GPUs, ports and members count for both",
        f"take one name out of the inventory, or give each a `pd_state_dir` and a `pd_port_range`; then {AGAIN}",
    ),
    "hidden": Kind(
        "a run without become, on hosts where the group is another user's",
        "the host is unknown: `run with become`",
        "all, as before",
        "run with `become: true`, or as the user whose group it is",
    ),
    "disk-full": Kind(
        "the disk of the state directory is full",
        "`No space left on device`, with the file",
        "what ran before",
        f"make room, then {AGAIN}",
    ),
    # -- members
    "engine-dies-at-load": Kind(
        "an engine dies while it loads",
        "the member, its host, the line of its log that says why, what to do about it, and `What runs is kept: ...`",
        "the healthy engines of this run; no router, the endpoint is not registered",
        f"mend the cause, then {AGAIN} (after a restart: `deploy` is enough)",
    ),
    "engine-dies-at-first-request": Kind(
        "an engine dies at its first request",
        "the proof fails and names the member; the endpoint is not registered",
        "the others",
        f"mend the cause, then {AGAIN}",
    ),
    "engine-dies-under-traffic": Kind(
        "an engine dies while the group serves",
        "`status` shows the member down and why, or how often its runtime has started it again; `deploy` says that it is replaced"
        " when it stays down",
        "the others; with dynamic membership the router goes on with the peers that are left",
        "`deploy`: it replaces what is down, and nothing else",
    ),
    "exchanged": Kind(
        "the model or the engine is exchanged under its path, and a member dies",
        "`status` shows the member down, and `not started:` with what has changed since it was made",
        "the others; the member does not start on the new files",
        "`restart`: it forms the group on what is there now; or bring the old files back and `deploy`",
    ),
    "another-image": Kind(
        "one tag is another image on each host, or an engine does not tell its version",
        "the hosts with both digests: refused; what cannot be read: a finding of severity `unverified`",
        "what ran before",
        "name the image by its digest, or fetch it anew on each host. An engine behind a wrapper: name the engine's own command as"
        " `engine.executable`",
    ),
    "leaves-under-load": Kind(
        "a member is taken away while requests that it may get are still in prefill",
        "nothing",
        "the others; every request is answered, within `limits.drain`",
        "nothing",
    ),
    "stop-on-failure": Kind(
        "a scale fails under `pd_on_failure=stop`",
        "why, and what was stopped again",
        "what ran before, the router included: only what this run has started is stopped",
        f"mend the cause, then {AGAIN}",
    ),
    "ignores-sigterm": Kind(
        "a member does not end when it is told to",
        "nothing more than the time that `limits.stop` gives it",
        "it is killed after `limits.stop`, with all its processes",
        "nothing",
    ),
    "container-removed": Kind(
        "a container was removed by hand",
        "`status`: its container is gone",
        "the others",
        "`deploy`",
    ),
    "stranger": Kind(
        "a container that is none of ours has a member's name",
        "its name and that it is not the collection's",
        "the stranger, untouched, and what ran before",
        f"remove or rename it, then {AGAIN}",
    ),
    "docker-stops": Kind(
        "the Docker daemon stops",
        "`systemctl start docker`, and which host is unknown for it",
        "nothing is changed; containers go on or not, as the daemon is set",
        f"start it, then {AGAIN}",
    ),
    # -- routers
    "router-dies": Kind(
        "the router dies",
        "`status` shows it down; or, started again by its runtime and empty, `router_forgot_peers`; no answer at the endpoint",
        "the engines",
        "`deploy`: a new router gets the same peers, or the empty one is told them again",
    ),
    "port-taken": Kind(
        "the router's port is taken by a stranger",
        "the port and the process that has it",
        "the stranger, and the engines where they had started",
        f"end it or choose another port, then {AGAIN}",
    ),
    "held-port": Kind(
        "a member goes, and a router that may not be replaced has it on its command line; another group wants its port",
        "the change that is pending; `status`: the port is held",
        "both groups; the other one gets another port",
        "`restart` of the first group replaces its router, and frees the port",
    ),
    "registry-fails": Kind(
        "the router's registry answers 500, or not at all",
        "the router's answer, the member that could not be told, and where the router's log is",
        "all; a member that was to leave has not been stopped",
        f"see the router's log; {AGAIN}",
    ),
    "peer-admitted-late": Kind(
        "the router admits a peer late",
        "nothing: the registry is read back until it is there",
        "all",
        "nothing",
    ),
    "peer-never-admitted": Kind(
        "the router says yes to a peer and never has it",
        "`did not admit`, with the peer's URL; the endpoint is not registered",
        "all",
        "another version of the router; then `restart`",
    ),
    "ghost": Kind(
        "the registry has a peer that is none of the group's",
        "its URL, and that it was removed",
        "all",
        "nothing: the run that sees it removes it",
    ),
    # -- runs
    "ctrl-c": Kind(
        "Ctrl-C",
        "`User interrupted execution`",
        "what the phase had done; nothing new starts",
        AGAIN,
    ),
    "kill-9": Kind(
        "ansible-playbook is killed, alone or with the modules that work for it",
        "nothing; `status` shows the lock of the dead run",
        "what the phase had done; a module on a host ends its phase by itself",
        f"{AGAIN}: the lock of a run that died on this machine holds nobody up. From another machine: `-e pd_break_lock=true`",
    ),
    "two-runs": Kind(
        "two runs change one group at a time",
        "the second: `... is changing it since ...`, who and when",
        "what the first does",
        "wait for the first, then run again",
    ),
    "own-play": Kind(
        "a play of the user's own runs the roles in batches (`serial`), or with another strategy",
        "the first task: that a batch is not the group, or that the strategy must be `linear`. A strategy of ansible.cfg has no effect",
        "all, as before",
        "a play over all hosts of the group, without `serial`, with `strategy: linear`",
    ),
    "overtaken": Kind(
        "a run is overtaken by another between its plan and its first change",
        "`another run has changed its members since the plan was made`",
        "what the other run made",
        AGAIN,
    ),
    "same-gpus": Kind(
        "two new groups are planned for the same GPUs",
        "the second: `GPU 0 is held by member ...`, or that it does not fit",
        "the first group",
        "run again: the plan takes what is free then, or says that nothing is",
    ),
    # -- versions
    "earlier-version": Kind(
        "the group was formed by an earlier version of the collection",
        "the first `deploy`, `scale` or `restart`: that its members are taken over",
        "all, untouched; a member that comes later is of the same formation",
        "nothing",
    ),
    # -- hands
    "label-edited": Kind(
        "a member's label was edited by hand",
        "another revision or generation: a pending configuration. Another address: the member is down",
        "all",
        "`restart`",
    ),
    "state-damaged": Kind(
        "a label or a record is empty or damaged",
        "the file, that it is damaged, and where in it; that member, or that group on that host, is unknown",
        "all, as before; other groups of the host are deployed and changed as ever",
        f"restore the file, or remove the member by hand; then {AGAIN}",
    ),
    "state-lost": Kind(
        "a host's state folder is lost, and its members run on",
        "the members, found by what their processes carry, as strays",
        "the group that is formed then; what ran without a label is stopped first",
        "`deploy`",
    ),
}

BEGIN, END = "<!-- from tests/faults/kinds.py: begin -->", "<!-- from tests/faults/kinds.py: end -->"


def table() -> str:
    """The table of docs/failures.md."""
    rows = ["| what happens | what you see | what runs | what to do |", "|---|---|---|---|"]
    rows += [f"| {kind.happens} | {kind.seen} | {kind.runs} | {kind.do} |" for kind in KINDS.values()]
    return "\n".join(rows)
