# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play in memory: actions of the controller run here on an inventory h1 to h9, without Ansible beneath them."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

from builders import host_facts, spec

from ansible_collections.inferops.pd.plugins.plugin_utils._action import PdAction

Vars = dict[str, t.Any]


class Templar:
    """Notes what it was given; there are no expressions here."""

    def __init__(self) -> None:
        self.given: list[t.Any] = []

    def template(self, raw: t.Any) -> t.Any:
        self.given.append(raw)
        return raw


class Counted(dict[str, t.Any]):
    """Host variables, and how often somebody asked for those of a host: Ansible merges them anew each time."""

    asked = 0

    def __getitem__(self, host: str) -> t.Any:
        self.asked += 1
        return super().__getitem__(host)


PLAY = SimpleNamespace(strategy="linear")
TASK = SimpleNamespace(
    args={}, check_mode=False, diff=False, async_val=0, get_play=lambda: PLAY, get_variable_manager=lambda: None
)


def group(*hosts: str, **changes: t.Any) -> Vars:
    """A group on these hosts: the prefill on the first, the decode on the last."""
    one = {"hosts": hosts[0]}
    return spec(prefill=one, decode={"hosts": hosts[-1]}, router=one, **changes)


def service(*hosts: str, **changes: t.Any) -> Vars:
    return {"provider": "lmcache", "hosts": ",".join(hosts), "runtime": "supervisor", "options": {"size": 1}, **changes}


USING = {"kv_cache": {"provider": "lmcache", "service": "store"}}
# h9 is in no spec.
FLEET: Vars = {
    "pd_groups": {
        "a": group("h1", "h2", labels={"site": "fra"}),
        "b": group("h3", "h3", labels={"site": "ams"}),
        "c": group("h4", "h4", **USING),
        "torn": {"mode": "vllm-nixl"},
    },
    "pd_caches": {"store": service("h5"), "theirs": {"provider": "lmcache", "address": "10.9.9.9:5555"}},
}


def action(
    of: type[PdAction],
    variables: Vars,
    said: t.Mapping[str, t.Any] | None = None,
    groups: t.Mapping[str, t.Sequence[str]] | None = None,
    **args: t.Any,
) -> t.Any:
    """An action in a play over h1 to h9, or over the hosts of these groups of an inventory, of which each host of `said` has registered
    what it says."""
    several = {"all": [f"h{n}" for n in range(1, 10)]} if groups is None else groups
    hosts = list(dict.fromkeys(host for its in several.values() for host in its))
    hostvars = Counted({host: {"pd_facts": (said or {}).get(host)} for host in hosts})
    made = of(TASK, None, None, None, Templar(), None)
    made.args = {**{name: one.get("default") for name, one in of.ARGUMENTS.items()}, **args}
    made.task_vars = {
        "groups": {"all": hosts, **several},
        "ansible_play_hosts_all": hosts,
        "ansible_play_hosts": hosts,
        "ansible_play_batch": hosts,
        "hostvars": hostvars,
        **variables,
    }
    made._display = SimpleNamespace(display=lambda *_a, **_k: None)
    return made


def facts(number: int, *records: Vars, **changes: t.Any) -> Vars:
    told = host_facts(number, records={one["group"]: one for one in records}, **changes)
    return {"ansible_facts": {"pd_host": told}}


def record(name: str, *hosts: str, graves: t.Sequence[str] = ()) -> Vars:
    members = [
        {
            "id": f"{name}-decode-{n}",
            "role": "decode",
            "index": n,
            "revision": "r",
            "url": None,
            "host": host,
            "gpus": [],
        }
        for n, host in enumerate(hosts)
    ]
    tombstones = [{"host": host, "members": [f"{name}-decode-7"], "when": 1.0} for host in graves]
    return {"schema": 1, "group": name, "generation": 1, "members": members, "tombstones": tombstones}
