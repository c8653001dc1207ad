"""The core's part of group_plan for N synthetic hosts of 8 members each, in a process of its own: prints seconds of CPU and peak memory.

fleet.py HOSTS
"""

from __future__ import annotations

import json
import resource
import sys
import time

import builders

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.plan import plan
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reality, Request

MEMBERS = 8


def main(count: int) -> None:
    names = [f"h{number}" for number in range(count)]
    raw = {
        name: builders.host_facts(
            number + 1,
            gpus=MEMBERS,
            address=f"10.{number // 250}.{number % 250}.1",
            kv_interface={"names": ["eth1"], "address": f"11.{number // 250}.{number % 250}.1", "rdma_devices": []},
        )
        for number, name in enumerate(names)
    }
    half = count * MEMBERS // 2
    spec = builders.spec(
        prefill={"hosts": "all", "replicas": half}, decode={"hosts": "all", "replicas": half}, router={"hosts": "h0"}
    )
    verdict = builders.judge(spec)
    assert verdict.group
    assert verdict.template
    before, base = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    hosts = {name: read_host(name, facts) for name, facts in raw.items()}
    patterns = {"prefill": names, "decode": names, "router": ["h0"]}
    request = Request(verdict.group, verdict.template, patterns, "deploy", Reality(hosts, builders.RUN))
    findings = Findings()
    # As the action returns it.
    made = plan.make(request, findings).to_plain()
    spent = time.process_time() - before
    assert not findings.errors, [f.message for f in findings.errors]
    told = {"hosts": count, "members": len(made["members"]) - 1, "cpu": spent}
    print(json.dumps({**told, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "base": base / 1024}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
