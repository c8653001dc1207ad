# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runtimes: their table, their options on the way from a variable to a driver, batches, and that nobody else goes by their names."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import re
import typing as t
from pathlib import Path

import planned
import pytest
import yaml
from builders import ROOT, codes, judge, spec

from ansible_collections.inferops.pd.plugins.doc_fragments.runtime import ModuleDocFragment
from ansible_collections.inferops.pd.plugins.filter.runtime_traits import FilterModule
from ansible_collections.inferops.pd.plugins.module_utils import _runtimes
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import checks_runtime
from ansible_collections.inferops.pd.plugins.module_utils._core.runtimes import options, table
from ansible_collections.inferops.pd.plugins.module_utils._core.runtimes.accepts import Accepts, Bounds, UnfitError
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.cache_service import parse
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.batch import one_by_one
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.protocol import Created, Wanted
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State
from ansible_collections.inferops.pd.plugins.plugin_utils._caches import load_recipes

PLUGINS = Path(ROOT) / "plugins"
# Where a runtime's name may stand: its row, and its driver.
OWN = ("module_utils/_core/runtimes/table.py", "module_utils/_runtimes/", "module_utils/_kube/")
# What plays do is written in YAML; a spec of a scenario or an example names the runtime that it wants.
PLAYS = ("roles", "playbooks")
SAMPLE_PLAY = """
# docker in a remark
- name: Fetch
  when: plan.runtime == 'docker'  # docker again
- name: Fetch
  when: plan.runtime in ["systemd", other]
- name: Ask
  a: "{{ pd_docker_host }}"
"""


# -- names -------------------------------------------------------------------------------------------------------------------------


def named_in_python(text: str) -> list[tuple[int, str]]:
    """(line, name) of every text that is just a runtime's name: what a comparison, a key or a default would need."""
    found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return [
        (node.lineno, str(node.value)) for node in found if isinstance(node.value, str) and node.value in table.NAMES
    ]


def named_in_yaml(text: str) -> list[tuple[int, str]]:
    """(line, name) of every runtime's name that stands as a word outside of remarks."""
    word = re.compile(rf"\b({'|'.join(table.NAMES)})\b")
    lines = ((number, re.sub(r"(^|\s)#.*", "", line)) for number, line in enumerate(text.splitlines(), 1))
    return [(number, match[1]) for number, line in lines for match in word.finditer(line)]


def test_no_code_goes_by_a_runtimes_name():
    files = {str(path.relative_to(PLUGINS)): path for path in PLUGINS.rglob("*.py")}
    strangers = {name: path for name, path in files.items() if not name.startswith(OWN)}
    assert len(strangers) > 100, "the scan looks somewhere else"
    assert len(files) > len(strangers) + 20, "the scan looks nowhere but at strangers"
    bad = [
        f"{name}:{line}: {what}" for name, path in strangers.items() for line, what in named_in_python(path.read_text())
    ]
    assert bad == [], "ask for a trait (_core/runtimes/traits.py)"


def test_no_play_goes_by_a_runtimes_name():
    files = [path for folder in PLAYS for path in (Path(ROOT) / folder).rglob("*.yml") if "meta" not in path.parts]
    assert len(files) > 40, "the scan looks somewhere else"
    bad = [f"{path}:{line}: {what}" for path in files for line, what in named_in_yaml(path.read_text())]
    assert bad == [], "ask for a trait: (plan.runtime | inferops.pd.runtime_traits).images"


def test_the_scans_see_names():
    row = (PLUGINS / OWN[0]).read_text()
    assert {name for _line, name in named_in_python(row)} == set(table.NAMES)
    assert named_in_python("x = 1\nif a.runtime != 'docker' or a.runtime in ('systemd',): pass\n") == [
        (2, "docker"), (2, "systemd"),
    ]  # fmt: skip
    assert named_in_python('"""Runtime docker."""\nx = f"docker logs {y}"') == []
    assert named_in_yaml(SAMPLE_PLAY) == [(4, "docker"), (6, "systemd")]


# -- the table ---------------------------------------------------------------------------------------------------------------------


def test_every_runtime_has_a_driver_that_takes_its_options(tmp_path):
    """Of a host: a cluster is reached by what the inventory says of it."""
    assert set(_runtimes.DRIVERS) == set(table.ON_HOSTS)
    for one in (one for one in table.RUNTIMES if one.name in table.ON_HOSTS):
        made = _runtimes.driver(one.name, State(str(tmp_path)))
        assert made.name == one.name
        taken = [name for name in inspect.signature(type(made)).parameters if name != "state"]
        assert taken == [option.name for option in one.options]


def test_names_and_variables_are_of_one_alone():
    assert len(set(table.NAMES)) == len(table.NAMES)
    assert len(set(table.variables())) == len(list(table.variables()))
    assert table.UNNOTED in table.NAMES


def test_what_the_planner_takes_for_granted():
    """No plan asks for these yet: it chooses ports and places, and members are at their host's address."""
    for one in table.RUNTIMES:
        assert (one.traits.ports, one.traits.places, one.traits.address) == ("plan", "plan", "host"), one.name
        assert one.traits.gpus in (("count",) if one.traits.pods else ("variable", "devices")), one.name
        assert one.traits.images == (one.traits.program == "image"), one.name


def test_an_unknown_runtime(tmp_path):
    with pytest.raises(PdError, match=r"no runtime 'dcoker'.*docker, systemd, supervisor"):
        table.traits_of("dcoker")
    with pytest.raises(HostError, match="there are only docker, systemd, supervisor here"):
        _runtimes.driver("dcoker", State(str(tmp_path)))


def test_traits_for_plays():
    told = FilterModule().filters()["runtime_traits"]
    assert [told(name)["images"] for name in table.NAMES] == [True, False, False, True]
    with pytest.raises(Exception, match="no runtime 'x'"):
        told("x")


# -- options -----------------------------------------------------------------------------------------------------------------------

DEFAULTS = {"docker": {"host": None}, "systemd": {"scope": "system"}, "supervisor": {"supervisord": None}}


@pytest.mark.parametrize(
    ("variables", "given", "made"),
    [
        ({}, None, {}),
        ({"pd_docker_host": "", "pd_scope": None}, {}, {}),
        ({"pd_docker_host": "unix:///s", "pd_scope": "user"}, None, {"docker": {"host": "unix:///s"}, "systemd": {"scope": "user"}}),
        ({"pd_scope": "user"}, {"systemd": {"scope": "system"}}, {"systemd": {"scope": "system"}}),
        # What is none is left for who reads it to say so.
        ({}, {"systemd": {"scop": "user"}, "x": 1}, {"systemd": {"scop": "user"}, "x": 1}),
        ({"pd_scope": "user"}, {"systemd": "user"}, {"systemd": "user"}),
    ],
)  # fmt: skip
def test_options_of_variables(variables, given, made):
    assert options.of_variables(variables.get, given) == made


@pytest.mark.parametrize(
    "given", [None, {}, {"docker": {}}, {"docker": None}, {"docker": {"host": ""}, "systemd": {"scope": None}}]
)
def test_what_is_left_out_has_its_default(given):
    assert options.read(given) == DEFAULTS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dcoker": {}}, r"runtime_options: there is no 'dcoker'\. There is docker, systemd, supervisor"),
        ({"docker": {"url": "x"}}, r"runtime_options\.docker: there is no 'url'\. There is host"),
        ({"docker": "unix:///s"}, r"runtime_options\.docker: 'unix:///s' is no dictionary"),
        (
            {"docker": {"host": ["x"]}},
            r"runtime_options\.docker\.host \(host variable pd_docker_host\): \['x'\] is no text",
        ),
        ({"systemd": {"scope": "both"}}, r"systemd\.scope \(host variable pd_scope\): 'both' is none of system, user"),
    ],
)
def test_options_that_are_none(given, said):
    with pytest.raises(PdError, match=said):
        options.read(given)


def test_a_driver_gets_its_own_options_and_paths_are_the_hosts(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ops")
    monkeypatch.setenv("PLACE", "bin")
    given = {"docker": {"host": "unix:///run/podman.sock"}, "supervisor": {"supervisord": "~/$PLACE/supervisord"}}
    state = State(str(tmp_path))
    assert (
        "pd_supervisord is /home/ops/bin/supervisord" in _runtimes.driver("supervisor", state, given).available()["why"]
    )
    assert "/run/podman.sock" in _runtimes.driver("docker", state, given).facts([])["available"]["why"]


def test_the_documentation_of_modules_is_the_table():
    _what, *told = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"][options.NAME]["description"]
    assert told == [
        f"C({one.name}.{option.name}), the host variable C({option.variable}): {' '.join(option.description)}"
        for one in table.RUNTIMES
        for option in one.options
    ]


def test_no_module_repeats_options_of_runtimes():
    names = {option.name for one in table.RUNTIMES for option in one.options} | {
        v.removeprefix("pd_") for v in table.variables()
    }
    for folder in ("modules", "action"):
        for path in (PLUGINS / folder).glob("*.py"):
            keys = {key.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Dict) for key in node.keys
                    if isinstance(key, ast.Constant)}  # fmt: skip
            assert not keys & (names - {"host"}), os.path.relpath(path, ROOT)


# -- batches -----------------------------------------------------------------------------------------------------------------------


def test_a_batch_goes_on_after_one_that_fails():
    order: list[str] = []

    def admit(wanted: Wanted) -> dict[str, t.Any]:
        order.append(f"may {wanted.member.id}")
        if wanted.member.id == "b":
            raise PdError("its port is taken")
        return {"member": wanted.member.id}

    def create_one(wanted: Wanted, label: dict[str, t.Any]) -> list[str]:
        name = wanted.member.id
        assert label == {"member": name}
        order.append(f"make {name} {wanted.secrets.get('KEY')}")
        if name == "c":
            raise HostError("Creating member c", "no room")
        return [f"{name} is warned of"]

    batch = [planned.wanted({"id": name}, {"KEY": name.upper()}) for name in "abcd"]
    assert one_by_one(batch, admit, create_one) == [
        Created("a", ["a is warned of"]),
        Created("b", (), "its port is taken"),
        Created("c", (), "Creating member c: no room."),
        Created("d", ["d is warned of"]),
    ]
    # Each is admitted right before it is made: what the one before it took is seen.
    assert order == ["may a", "make a A", "may b", "may c", "make c C", "may d", "make d D"]


def test_what_is_no_error_of_ours_ends_the_batch():
    def create_one(_wanted: Wanted, _label: t.Any) -> list[str]:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        one_by_one([planned.wanted({"id": "a"})], lambda _wanted: {}, create_one)


# -- what a runtime accepts ---------------------------------------------------------------------------------------------


def test_a_runtime_brings_its_own_rules(monkeypatch):
    """As a row: nobody else knows what it refuses."""

    def image(text):
        if text != "good":
            raise UnfitError("is not good", "Write good.")

    least = Bounds(10, 20, "it is slow below", "it is dear above")
    row = dataclasses.replace(table.runtime_of("systemd"), accepts=Accepts(cpu=least, image=image))
    monkeypatch.setitem(table._BY_NAME, "systemd", row)
    given = {"image": "bad", "mounts": ["relative"]}
    found = judge(spec(runtime="systemd", engine=given, router={"resources": {"cpu": 5, "memory": "1B"}})).findings
    assert [(f.message, f.hint) for f in found.items if f.code == "runtime-refuses"] == [
        ("pd_groups.demo.engine.image: 'bad' is not good.", "Write good."),
        ("pd_groups.demo.roles.router.resources.cpu: 5 is too little: it is slow below.", "Write 10 at least."),
    ]
    assert (
        codes(judge(spec(runtime="systemd", engine={"image": "good"}, router={"resources": {"cpu": 20}})).findings)
        == []
    )


def test_a_cache_service_is_judged_by_its_runtime_as_well():
    findings = Findings()
    entry = {
        "provider": "mooncake",
        "hosts": "h1",
        "runtime": "docker",
        "image": "Not One",
        "mounts": [False],
        "resources": {"cpu": 0.001},
    }
    service = parse({"store": entry}, load_recipes(), findings)["store"]
    checks_runtime.check_service(service, findings)
    places = [f.message.partition(": ")[0] for f in findings.items if f.code == "runtime-refuses"]
    assert places == ["pd_caches.store.image", "pd_caches.store.mounts[0]", "pd_caches.store.resources.cpu"]
