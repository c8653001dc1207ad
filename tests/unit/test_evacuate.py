from __future__ import annotations

import pytest
from builders import Fleet, spec

HOSTS = {"h1": {"gpus": 4}, "h2": {"gpus": 4}, "h3": {"gpus": 4}}


def two_by_two(**changes):
    made = {
        "prefill": {"hosts": "h1:h2:h3", "replicas": 2, "gpus": 1},
        "decode": {"hosts": "h1:h2:h3", "replicas": 2, "gpus": 1},
        "router": {"hosts": "h1:h2:h3"},
    }
    for key, change in changes.items():
        made[key] = {**made[key], **change} if key in made else change
    return spec(**made)


def on(fleet, host):
    return sorted(m["label"]["member"] for m in fleet.facts[host]["members"])


def test_x():
    raw = two_by_two()
    fleet = Fleet(**HOSTS)
    fleet.deploy(raw)
    for h in HOSTS:
        print(h, on(fleet, h))
    for h in HOSTS:
        made = fleet.plan(raw, "evacuate", evacuated=[h])
        print(made.text)
        print(made.findings.to_plain())
        assert not made.errors
        assert fleet.carry_out(made), fleet.said
        for x in HOSTS:
            print(x, on(fleet, x), fleet.facts[x]["records"].keys())
        print(fleet.status(raw)["marks"], fleet.status(raw)["endpoint"], fleet.status(raw)["router"])
        again = fleet.plan(raw, "evacuate", evacuated=[h])
        assert not again.plan["changed"], again.text
        again = fleet.plan(raw)
        assert not again.plan["changed"], again.text
