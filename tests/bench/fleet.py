"""The core's part of group_plan for N synthetic hosts of 8 members each, in a process of its own: prints seconds of CPU and peak memory.

fleet.py HOSTS [GROUPS [all]]: the members are of so many groups (1), planned one after the other as a run of them is, each on its share of
the hosts, or with `all` each on any of them.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import typing as t

import builders

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.record import Reader
from ansible_collections.inferops.pd.plugins.module_utils._core.plan import plan
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hosts import Hosts
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.reserved import NOTHING
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reality, Request

MEMBERS = 8


def facts_of(number: int) -> dict[str, t.Any]:
    kv = {"names": ["eth1"], "address": f"11.{number // 250}.{number % 250}.1", "rdma_devices": []}
    address = f"10.{number // 250}.{number % 250}.1"
    return builders.host_facts(number + 1, gpus=MEMBERS, address=address, kv_interface=kv)


def main(count: int, groups: int, everywhere: bool) -> None:
    names = [f"h{number}" for number in range(count)]
    raw = {name: facts_of(number) for number, name in enumerate(names)}
    each = count // groups
    half = each * MEMBERS // 2
    verdicts = []
    for number in range(groups):
        mine = names[number * each : (number + 1) * each]
        role = {"hosts": "all", "replicas": half}
        spec = builders.spec(prefill=role, decode=role, router={"hosts": mine[0]})
        anywhere = names if everywhere else mine
        patterns = {"prefill": anywhere, "decode": anywhere, "router": [mine[0]]}
        verdicts.append((builders.judge(spec, name=f"g{number}" if groups > 1 else "demo"), patterns))
    before, base = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reader = Reader()
    hosts = Hosts({name: read_host(name, facts, reader) for name, facts in raw.items()})
    made: list[t.Any] = []
    reserved = NOTHING
    for verdict, patterns in verdicts:
        assert verdict.group
        assert verdict.template
        reality = Reality(hosts, builders.RUN, reserved=reserved)
        findings = Findings()
        one = plan.make(Request(verdict.group, verdict.template, patterns, "deploy", reality), findings)
        assert not findings.errors, [f.message for f in findings.errors]
        reserved = reserved.beside(one)
        # As the action returns it.
        made.append(one.to_plain())
    spent = time.process_time() - before
    members = sum(len(one["members"]) - 1 for one in made)
    told = {"hosts": count, "groups": groups, "members": members, "cpu": spent}
    print(json.dumps({**told, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "base": base / 1024}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3:] == ["all"])
