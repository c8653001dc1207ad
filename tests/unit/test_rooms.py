"""The rooms of _core and the folders beside it: who may import whom. This file is the list; what it does not allow is refused.

An import counts wherever it stands: at the top, inside a function, under TYPE_CHECKING. Ansible ships a host all of them,
and each is an arrow that a reader has to follow."""

from __future__ import annotations

import ast
import functools
import os
import typing as t

import pytest
from builders import ROOT

PLUGINS = os.path.join(ROOT, "plugins")
COLLECTION = "ansible_collections.inferops.pd.plugins."

# The rooms of _core, a line a floor, the lowest first. A room imports itself and the floors below its own: never its neighbours.
FLOORS: tuple[dict[str, str], ...] = (
    {"base": "what everything is written with: errors, findings, readers of values"},
    {
        "runtimes": "what runs members: the traits and the options of each runtime, as data",
        "model": "a model's config.json, and what its KV cache takes",
        "work": "what a host is told to do: members, their parts, slices of a plan",
        "facts": "what hosts say: labels, records, tombstones, observed hosts",
        "watch": "when a member is ready, what its log says",
        "proof": "what shows that the KV cache moved",
    },
    {
        "recipes": "what the files of pd_modes/ say: modes, providers, kinds of cache services; what an engine is asked",
        "hooks": "who is given the endpoint of a group: what each is asked, and what its files say",
        "cluster": "a Kubernetes cluster: its nodes as hosts, members as Pods",
    },
    {"spec": "what a user writes, read; and what is known beside it"},
    {"template": "what all members of a role have in common: command lines, files, connectors"},
    {"rules": "what a spec is refused for, or warned of"},
    {
        "plan": "what a run does, as a value",
        "rollout": "how a change goes through many groups, wave by wave",
    },
    {
        "report": "what a person is told: verdicts, states, marks",
        "preflight": "what is measured before, and what is made of it",
        "convert": "command lines that people have, as specs",
        "awx": "what there is to be in AWX: job templates, surveys, the workflow of a change, who may launch what",
    },
    {"course": "how a run goes: what a host is told in a phase, and what follows of what it said"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# All that _core imports beside itself: no I/O, no Ansible, nothing to install. `time` formats, `random` has a seed, `zoneinfo` reads what
# the machine knows of the world's clocks.
PURE = {
    "__future__", "contextlib", "csv", "dataclasses", "datetime", "difflib", "fnmatch", "functools", "hashlib", "heapq", "io",
    "ipaddress", "json", "math", "random", "re", "shlex", "time", "typing", "unicodedata", "zoneinfo",
}  # fmt: skip
# What a host is shipped of _core: everything else is the controller's.
HOST_ROOMS = {"base", "cluster", "facts", "hooks", "runtimes", "work", "watch", "proof"}

# The folders, as the table of docs/architecture.md has them: what each may import beside itself.
FOLDERS: dict[str, set[str]] = {
    "_core": set(),
    "_engines": {"_core"},
    "_probes": {"_core"},
    "_routers": {"_core"},
    "_runtimes": {"_core", "_probes"},
    "_host": {"_core", "_engines", "_probes", "_routers", "_runtimes"},
    "_errand": {"_core", "_host", "_probes", "_routers"},
    "_kube": {"_core", "_errand", "_host", "_probes", "_routers", "_runtimes"},
    "modules": {"_core", "_host", "_kube", "_probes", "_routers", "_runtimes"},
    # _probes: what the controller sees of its own machine. _routers: which registries there is an API for.
    "plugin_utils": {"_core", "_engines", "_probes", "_routers"},
    "action": {"_core", "plugin_utils"},
    "inventory": {"_core"},
    "doc_fragments": set(),
    "filter": {"_core"},
}
# Arrows that the table does not allow, each with why it is there today. One that is gone is taken out here.
EXCEPTIONS = {
    ("_routers/protocol", "_probes/http"): "a router's registry is asked over HTTP, by the client that probes have",
    ("_routers/protocol", "_probes/credentials"): "with the router's own key, where it asks for one",
    ("_routers/sglang_router", "_probes/credentials"): "what stands for a key in a message",
}


# -- the arrows that there are ------------------------------------------------------------------------------------------------------


@functools.cache
def modules() -> dict[str, str]:
    """Every file of plugins/, by its path without .py and without module_utils/: _core/plan/plan, action/members."""
    found = {}
    for folder, _folders, names in os.walk(PLUGINS):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                found[os.path.relpath(path, PLUGINS)[:-3].replace("module_utils/", "", 1)] = path
    return found


def _asked(node: ast.Import | ast.ImportFrom, path: str) -> list[tuple[str, ...]]:
    """What an import asks for, name by name, the likelier file first: x.y and then x of `from x import y`."""
    if isinstance(node, ast.Import):
        return [(alias.name,) for alias in node.names]
    start = node.module or ""
    if node.level:
        package = os.path.relpath(path, PLUGINS).split(os.sep)[: -node.level]
        start = COLLECTION + ".".join([*package, *([node.module] if node.module else [])])
    return [(f"{start}.{alias.name}", start) for alias in node.names]


def _file(asked: str) -> str | None:
    place = asked[len(COLLECTION) :].replace(".", "/").replace("module_utils/", "", 1)
    return next((one for one in (place, f"{place}/__init__") if one in modules()), None)


@functools.cache
def arrows() -> dict[str, tuple[set[str], set[str]]]:
    """(files of the collection, other packages) that each file imports."""
    found = {}
    for name, path in modules().items():
        with open(path, encoding="utf-8") as handle:
            tree = ast.parse(handle.read())
        own, others = set(), set()
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            for asked in _asked(node, path):
                if asked[0].startswith(COLLECTION):
                    own.add(next(one for one in map(_file, asked) if one))
                else:
                    others.add(asked[0].partition(".")[0])
        found[name] = own, others
    return found


def folder(name: str) -> str:
    return name.partition("/")[0]


def room(name: str) -> str:
    """The room of a file of _core; a file that is in none is in a room of its own name."""
    return name.split("/")[1]


def circles(names: t.Collection[str]) -> list[tuple[str, ...]]:
    """Files among `names` that import each other, however far around: each circle once, sorted."""
    reached = {name: _reached(name, set(names)) for name in names}
    return sorted({tuple(sorted({a, *(b for b in reached[a] if a in reached[b])})) for a in names if a in reached[a]})


def _reached(name: str, names: set[str], packages: bool = False) -> set[str]:
    """What a file imports and all that this does. `packages`: with the `__init__` of every folder above, as Ansible ships them."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        one = todo.pop()
        found = arrows()[one][0] & names
        if packages:
            parts = one.split("/")[:-1]
            found = found | ({"/".join([*parts[:n], "__init__"]) for n in range(1, len(parts) + 1)} & names)
        todo += found - seen
        seen |= found
    return seen


def core() -> list[str]:
    return [name for name in modules() if folder(name) == "_core" and name != "_core/__init__"]


# -- rooms -------------------------------------------------------------------------------------------------------------------------


def test_every_file_of_the_core_is_in_a_room_and_every_room_is_on_a_floor():
    assert sorted({room(name) for name in core()}) == sorted(FLOOR)
    assert not [name for name in core() if name.count("/") != 2], "a room is one folder deep"
    assert len(FLOOR) == sum(len(rooms) for rooms in FLOORS), "a room is on two floors"


@pytest.mark.parametrize("name", FLOOR)
def test_a_room_imports_itself_and_the_floors_below(name):
    bad = [
        f"{one} -> {other}"
        for one in core()
        if room(one) == name
        for other in sorted(arrows()[one][0])
        if folder(other) == "_core" and room(other) != name and FLOOR[room(other)] >= FLOOR[name]
    ]
    assert not bad, f"{name} is on floor {FLOOR[name]}"


def test_no_files_import_each_other():
    assert circles(list(modules())) == []


def test_the_core_is_pure():
    bad = {name: sorted(arrows()[name][1] - PURE) for name in core() if arrows()[name][1] - PURE}
    assert bad == {}, "what asks the world is not of the core"


def test_packages_of_the_core_are_empty():
    """Ansible ships a host the `__init__` of every folder that something is in, and all that this imports."""
    assert [name for name in core() if name.endswith("/__init__") and os.path.getsize(modules()[name])] == []


# -- folders -----------------------------------------------------------------------------------------------------------------------


def test_the_folders_import_what_their_table_says():
    assert {folder(name) for name in modules()} == set(FOLDERS)
    crossing = {
        (one, other)
        for one, (own, _others) in arrows().items()
        for other in own
        if folder(other) != folder(one) and folder(other) not in FOLDERS[folder(one)]
    }
    assert sorted(crossing - set(EXCEPTIONS)) == []
    assert sorted(set(EXCEPTIONS) - crossing) == [], "not needed any more"


def test_hosts_are_shipped_what_they_need_of_the_core_and_no_more():
    """Also of an engine: its symptoms, and nothing that reads its flags."""
    shipped = {one for name in modules() if folder(name) == "modules" for one in _reached(name, set(modules()), True)}
    shipped = {one for one in shipped if os.path.getsize(modules()[one])}
    assert {room(one) for one in shipped if folder(one) == "_core"} == HOST_ROOMS
    assert [one for one in shipped if folder(one) == "_engines" and not one.endswith("symptoms")] == []
    assert not {folder(one) for one in shipped} & {"action", "plugin_utils"}
