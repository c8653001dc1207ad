# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three groups, each on a host of its own, and rollouts over them by the real playbook."""

from __future__ import annotations

import typing as t
from pathlib import Path

from integration.conftest import Life, ask, spec
from ports import free_block

GROUPS = ("g0", "g1", "g2")
WIDTH = 25


class Rollouts(Life):
    """A group on each of three hosts, and a gate that says no to those that have a file in `refused`."""

    routers: dict[str, int]

    def rollout(self, **changes: t.Any) -> None:
        gate = self.folder / "gate"
        gate.write_text(f'#!/bin/sh\necho "$1 at $2"; test ! -e {self.refused}/$1\n')
        gate.chmod(0o755)
        self.refused.mkdir(exist_ok=True)
        made = {
            "groups": "team=chat",
            "waves": [{"groups": ["g0"]}, {"percent": 100}],
            "gate": {"command": [str(gate), "{{ group }}", "{{ endpoint }}"]},
            "on_failure": "hold",
            **changes,
        }
        self.variables = {"pd_rollouts": {"longer": {k: v for k, v in made.items() if v is not None}}}
        self.write()

    @property
    def refused(self) -> Path:
        return self.folder / "refused"

    def edit(self, length: int) -> None:
        for group in self.groups.values():
            group["engine"]["args"] = [f"--max-model-len={length}"]
        self.write()

    def runs(self) -> dict[str, str]:
        """The length of a context that each group runs with, by its record."""
        found = {}
        for name in GROUPS:
            argv = self.noted(name)["templates"]["roles"]["decode"]["argv"]
            found[name] = next(word.partition("=")[2] for word in argv if word.startswith("--max-model-len"))
        return found

    def noted(self, name: str) -> dict[str, t.Any]:
        return self.record(name, self.states[GROUPS.index(name)])

    def notes(self) -> dict[str, str]:
        return {name: self.noted(name)["rollout"]["state"] for name in GROUPS}

    def notes_now(self) -> dict[str, str]:
        """The same while a run writes them."""
        try:
            return self.notes()
        except (OSError, KeyError, ValueError):
            return {}

    def asked(self, name: str, prompt: str = "once upon a time") -> int:
        """The status of a request to a group's router."""
        at = self.hosts[f"h{GROUPS.index(name)}"]["pd_address"]
        return ask(f"http://{at}:{self.routers[name]}", prompt)[0]

    def serving(self) -> list[str]:
        """Whose router answers."""
        return [name for name in GROUPS if self.asked(name) == 200]


def make(make_site: t.Callable[..., Life], model: Path, folder: Path) -> Rollouts:
    """All three deployed. `folder` is for what hosts keep."""
    low = free_block(len(GROUPS) * WIDTH)
    hosts: dict[str, dict[str, t.Any]] = {}
    groups, routers = {}, {}
    for number, name in enumerate(GROUPS):
        host, port = f"h{number}", low + number * WIDTH
        hosts[host] = {
            "pd_address": f"127.0.0.{number + 2}",
            "pd_state_dir": str(folder / f"state-{host}"),
            "pd_port_range": f"{port + 1}-{port + WIDTH - 1}",
        }
        roles = {role: {"hosts": host} for role in ("prefill", "decode", "router")}
        groups[name] = spec(model, port, labels={"team": "chat"}, **roles)
        routers[name] = port
    made = make_site(hosts=hosts, groups=groups)
    made.__class__ = Rollouts
    rollouts = t.cast("Rollouts", made)
    rollouts.routers = routers
    rollouts.play("deploy").ok()
    return rollouts
