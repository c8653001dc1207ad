# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group in containers, and its rows."""

from __future__ import annotations

import typing as t
from pathlib import Path

from docker_engine import IMAGE, Engine
from faults.case import SECRET, Case
from faults.model import Fault
from integration.conftest import STANDIN, interface, spec
from ports import free_block


class DockerCase(Case):
    """Its members are containers of engines that the test started."""

    engines: t.Sequence[Engine]

    @property
    def engine(self) -> Engine:
        """The first host's."""
        return self.engines[0]

    def running(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for engine in self.engines:
            names = engine.names() if engine.answers() else []
            states = ((name, engine.inspect(name)["State"]) for name in names if name.startswith("g-"))
            found.update({name: state["Pid"] for name, state in states if state["Running"]})
        return found

    def labels(self, member: str) -> list[dict[str, t.Any]]:
        """The labels of its containers, as Docker shows them."""
        return [e.inspect(member)["Config"]["Labels"] for e in self.engines if member in e.names()]

    def left(self) -> list[str]:
        return [*(f"container {name}" for engine in self.engines for name in engine.names()), *super().left()]

    def clean(self) -> None:
        super().clean()
        for engine in self.engines:
            names = engine.names()
            if names:
                engine.docker("rm", "-f", *names)


def make(engine: Engine, model: Path, folder: Path, fault: Fault) -> DockerCase:
    low = free_block(30)
    group = in_containers(model, low, fault)
    host: dict[str, t.Any] = {
        "pd_port_range": f"{low + 1}-{low + 29}",
        "pd_docker_host": engine.url,
        "ansible_connection": "faulty",
    }
    made = DockerCase(folder, {"node": host}, {"g": group})
    made.port, made.engines = low, [engine]
    return made


def in_containers(model: Path, port: int, fault: Fault) -> dict[str, t.Any]:
    """The spec of a case."""
    mounts = [f"{STANDIN}:/standin:ro"]
    changes = {key: dict(value) for key, value in fault.spec.items()}
    own = changes.pop("engine", {})
    made = spec(
        model,
        port,
        runtime="docker",
        engine={
            "image": IMAGE,
            "executable": "/standin/vllm",
            "mounts": mounts,
            "secrets": {"HF_TOKEN": SECRET},
            **own,
        },
        **changes,
    )
    made["roles"]["router"] |= {"executable": "/standin/vllm-router", "mounts": mounts}
    return made


def make_two(engines: t.Sequence[Engine], model: Path, folder: Path, fault: Fault) -> DockerCase:
    """Prefill and router on h1, decode on h2, each host with an engine of its own."""
    low = free_block(50)
    hosts: dict[str, dict[str, t.Any]] = {
        f"h{number}": {
            "pd_kv_interface": interface(),
            "ansible_connection": "faulty",
            "pd_address": f"127.0.0.{number + 1}",
            "pd_port_range": f"{low + 1 + 24 * (number - 1)}-{low + 24 * number}",
            "pd_state_dir": str(folder / f"h{number}"),
            "pd_docker_host": engine.url,
        }
        for number, engine in enumerate(engines, 1)
    }
    group = in_containers(model, low, fault)
    for role, host in (("prefill", "h1"), ("decode", "h2"), ("router", "h1")):
        group["roles"][role]["hosts"] = host
    made = DockerCase(folder, hosts, {"g": group})
    made.port, made.engines = low, engines
    return made
