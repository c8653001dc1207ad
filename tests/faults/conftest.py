# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups that rows disturb, by topology."""

from __future__ import annotations

import json
import os
import shutil
import typing as t
from pathlib import Path

import pytest
from docker_engine import Engine, fixture_engine
from faults import case_docker, case_lab
from faults.case import SECRET, Case
from faults.model import Fault
from integration.conftest import interface, spec
from lab.fixture import Lab
from ports import free_block

# What a row needs beyond Python, and how one sees that it is not there.
NEEDS: dict[str, t.Callable[[], str]] = {
    "root": lambda: "" if os.geteuid() == 0 else "needs root",
    "nic": lambda: "" if interface() else "needs a default route",
}
ROLES_OF_TWO: dict[str, dict[str, t.Any]] = {
    "prefill": {"hosts": "h1"},
    "decode": {"hosts": "h2"},
    "router": {"hosts": "h1"},
}


def group(model: Path, low: int, changes: t.Mapping[str, t.Any], cause: Path) -> dict[str, t.Any]:
    """The spec of a case. @cause@ in it is the file that fails something as long as it is there."""
    made = spec(model, low, **json.loads(json.dumps(changes).replace("@cause@", str(cause))))
    made["engine"]["secrets"] = {"HF_TOKEN": SECRET}
    # One that is told to stop ends at once; what does not is killed soon, so that rows are quick.
    made["engine"]["env"].setdefault("STANDIN_LOAD", "0.1")
    return made


def own_copy(model: Path, folder: Path) -> Path:
    """A model that a row may exchange under its path."""
    copy = folder / "model"
    shutil.copytree(model, copy, dirs_exist_ok=True)
    return copy


def gpu_of(low: int, number: int) -> str:
    """A GPU of the case that begins at port `low`: another case on this machine at the same time has others."""
    return f"GPU-{os.getpid()}-{low}-{number}"


def one(model: Path, folder: Path, fault: Fault) -> Case:
    low = free_block(31)
    host = {"pd_port_range": f"{low + 1}-{low + 29}", "ansible_connection": "faulty", **fault.host}
    made = Case(folder, {"node": host}, {"g": group(own_copy(model, folder), low, fault.spec, folder / "cause")})
    made.port = low
    return made


def several(count: int) -> t.Callable[[Path, Path, Fault], Case]:
    """So many hosts, each with an address, ports and a state folder of its own on this machine."""

    def make(model: Path, folder: Path, fault: Fault) -> Case:
        low = free_block(2 + 24 * count)
        hosts = {}
        for number in range(1, count + 1):
            own = json.dumps(dict(fault.host)).replace("@host@", f"h{number}").replace("@gpu@", gpu_of(low, number))
            hosts[f"h{number}"] = {
                "pd_kv_interface": interface(),
                "ansible_connection": "faulty",
                "pd_address": f"127.0.0.{number + 1}",
                "pd_port_range": f"{low + 1 + 24 * (number - 1)}-{low + 24 * number}",
                "pd_state_dir": str(folder / f"h{number}"),
                **json.loads(own),
            }
        roles = {role: {**own, **fault.spec.get(role, {})} for role, own in ROLES_OF_TWO.items()}
        changes = {**fault.spec, **roles}
        made = Case(folder, hosts, {"g": group(own_copy(model, folder), low, changes, folder / "cause")})
        made.port = low
        return made

    return make


def gpus(model: Path, folder: Path, fault: Fault) -> Case:
    """Groups g and b, which want both GPUs of one host."""
    made = one(model, folder, fault)
    made.hosts["node"]["pd_gpus"] = [gpu_of(made.port, 0), gpu_of(made.port, 1)]
    for name, port in (("g", made.port), ("b", made.port + 30)):
        parts = {"prefill": {"gpus": 1}, "decode": {"gpus": 1}}
        made.groups[name] = group(folder / "model", port, parts, folder / "cause")
    made.write()
    return made


# Of rows that can share a group, how many one worker does one after the other: it deploys and removes the group once for them.
SHARED = 3
HOSTS = {"one": 1, "gpus": 1, "two": 2, "three": 3, "four": 4}


def _fault(item: pytest.Item) -> Fault | None:
    found = getattr(item, "callspec", None) and t.cast("t.Any", item).callspec.params.get("fault")
    return found if isinstance(found, Fault) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rows with the most hosts first, as they take longest; those that can share a group beside each other, on one worker."""

    def rank(item: pytest.Item) -> tuple[int, str]:
        fault = _fault(item)
        return (-HOSTS.get(fault.topology, 9), fault.site()) if fault else (-10, "")

    items.sort(key=rank)
    together: dict[str, list[str]] = {}
    for item in items:
        fault = _fault(item)
        if fault and fault.site() and not item.get_closest_marker("xdist_group"):
            names = together.setdefault(fault.site(), [])
            if len(names) % SHARED == 0:
                names[:] = [fault.name]
            else:
                names.append(fault.name)
            item.add_marker(pytest.mark.xdist_group(names[0]))


docker_engine = pytest.fixture(scope="session")(fixture_engine)


@pytest.fixture
def docker_case(docker_engine: Engine, model: Path, tmp_path: Path) -> t.Callable[[Fault], Case]:
    pytest.importorskip("docker.api.client", reason="the Python library docker is not installed")
    return lambda fault: case_docker.make(docker_engine, model, tmp_path / "site", fault)


@pytest.fixture(scope="session")
def second_docker_engine(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Engine]:
    yield from fixture_engine(tmp_path_factory)


@pytest.fixture
def dockers_case(
    docker_engine: Engine, second_docker_engine: Engine, model: Path, tmp_path: Path
) -> t.Callable[[Fault], Case]:
    pytest.importorskip("docker.api.client", reason="the Python library docker is not installed")
    return lambda fault: case_docker.make_two([docker_engine, second_docker_engine], model, tmp_path / "site", fault)


@pytest.fixture
def lab_case(lab: Lab, tmp_path: Path) -> t.Callable[[Fault], Case]:
    return lambda fault: case_lab.make(lab, tmp_path / "site", fault)


class Sites:
    """A group that a row has healed is there for the next row of the same site: half of a row's time is deploying and removing."""

    # What the next row of this worker wants, and what there is.
    next = ""
    left: Case | None = None


@pytest.fixture(scope="session")
def sites(request: pytest.FixtureRequest) -> t.Iterator[type[Sites]]:
    yield Sites
    if Sites.left:
        Sites.left.clean()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    fault = getattr(nextitem, "callspec", None) and t.cast("t.Any", nextitem).callspec.params.get("fault")
    Sites.next = fault.site() if fault else "nothing"


@pytest.fixture
def make_case(
    model: Path, tmp_path: Path, request: pytest.FixtureRequest, sites: type[Sites]
) -> t.Iterator[t.Callable[[Fault], Case]]:
    made: list[Case] = []

    def build(fault: Fault) -> Case:
        builders: dict[str, t.Callable[[Path, Path, Fault], Case]] = {"one": one, "gpus": gpus}
        builders |= {name: several(count) for name, count in (("two", 2), ("three", 3), ("four", 4))}
        if fault.topology in builders:
            return builders[fault.topology](model, tmp_path / "site", fault)
        return t.cast("Case", request.getfixturevalue(f"{fault.topology}_case")(fault))

    def make(fault: Fault) -> Case:
        for need in fault.needs:
            why = NEEDS[need]() if need in NEEDS else ""
            if why:
                pytest.skip(why)
        left, sites.left = sites.left, None
        case = left if left and left.fault.site() == fault.site() else build(fault)
        made.append(case)
        case.prepare(fault)
        if left and left is not case:
            left.clean()
        return case

    yield make
    for case in made:
        if case is not sites.left:
            case.clean()
