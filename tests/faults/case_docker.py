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
from integration.conftest import STANDIN, free_block, spec


class DockerCase(Case):
    """Its members are containers of an engine that the test started."""

    engine: Engine

    def running(self) -> dict[str, int]:
        if not self.engine.answers():
            return {}
        found = (self.engine.inspect(name) for name in self.engine.names() if name.startswith("g-"))
        return {one["Name"].lstrip("/"): one["State"]["Pid"] for one in found if one["State"]["Running"]}

    def left(self) -> list[str]:
        return [*(f"container {name}" for name in self.engine.names()), *super().left()]

    def clean(self) -> None:
        super().clean()
        names = self.engine.names()
        if names:
            self.engine.docker("rm", "-f", *names)


def make(engine: Engine, model: Path, folder: Path, fault: Fault) -> DockerCase:
    low = free_block(30)
    mounts = [f"{STANDIN}:/standin:ro"]
    group = spec(
        model,
        low,
        runtime="docker",
        engine={"image": IMAGE, "executable": "/standin/vllm", "mounts": mounts, "secrets": {"HF_TOKEN": SECRET}},
        router={"executable": "/standin/vllm-router", "mounts": mounts},
        **{key: dict(value) for key, value in fault.spec.items()},
    )
    host: dict[str, t.Any] = {
        "pd_port_range": f"{low + 1}-{low + 29}",
        "pd_docker_host": engine.url,
        "ansible_connection": "faulty",
    }
    made = DockerCase(folder, {"node": host}, {"g": group})
    made.port, made.engine = low, engine
    return made
