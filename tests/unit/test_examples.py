# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory to copy is sound, and makes the group that the guide shows."""

from __future__ import annotations

import os

import yaml
from builders import ROOT, Fleet, codes, judge

EXAMPLE = os.path.join(ROOT, "examples", "three-hosts")


def read(name):
    with open(os.path.join(EXAMPLE, name), encoding="utf-8") as handle:
        text = handle.read()
    return yaml.safe_load(text.replace("{{ vllm_path }}", "/opt/vllm"))


def plan():
    inventory, raw = read("hosts.yml")["all"], read("group_vars/all/pd.yml")["pd_groups"]["qwen3-32b"]
    groups = {name: list(group["hosts"]) for name, group in inventory["children"].items()}
    facts = {
        "gpus": 8,
        "models": {raw["model"]: {"exists": True, "fingerprint": "f", "config": None}},
        "executables": {f"/opt/vllm/bin/{name}": {"exists": True, "version": None} for name in ("vllm", "vllm-router")},
    }
    fleet = Fleet(name="qwen3-32b", **{host: facts for hosts in groups.values() for host in hosts})
    patterns = {role: groups[f"{role}_nodes"] for role in ("prefill", "decode", "router")}
    return raw, fleet.plan(raw, patterns=patterns)


def test_the_spec_has_no_findings_but_what_nobody_has_looked_at():
    raw = read("group_vars/all/pd.yml")["pd_groups"]["qwen3-32b"]
    found = judge(raw, name="qwen3-32b").findings
    assert [f.code for f in found.items if f.severity == "error"] == []


def test_the_plan_puts_members_where_the_guide_says():
    _raw, made = plan()
    assert [f for f in made.findings.items if f.severity == "error"] == [], codes(made.findings)
    assert {m["id"]: m["parts"][0]["host"] for m in [*made.plan["members"], made.plan["router"]["member"]]} == {
        "qwen3-32b-prefill-0": "gpu-1",
        "qwen3-32b-prefill-1": "gpu-1",
        "qwen3-32b-decode-0": "gpu-2",
        "qwen3-32b-router-0": "front-1",
    }
    assert made.plan["endpoint"]["url"].endswith(":8000")
