"""Fixtures of all stages."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["kube.server", "kube.kubelet", "lab.fixture"]


# What takes longest begins first: whatever is short fills the gap at the end, where a worker would wait for the other. By measurement, the
# start of a file's name; what is not named here comes after.
LONGEST = (
    "test_lab_",
    "test_fleet",
    "test_life_of_a_group",
    "test_rollout",
    "test_evacuate",
    "test_approval",
    "test_playbooks_hosts",
    "test_playbooks_life",
    "test_playbooks_docker",
    "test_playbooks_failures",
    "test_caches_",
    "test_real_cache",
    "test_awx_role",
    "test_load",
    "test_preflight",
    "test_playbooks_",
    "test_docker_runtime",
    "test_supervisor_runtime",
    "test_histories",
)


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, start in enumerate(LONGEST) if item.path.name.startswith(start)), len(LONGEST))


def _group(item: pytest.Item) -> str | None:
    """The tests that one worker does, one after the other, by name; None for one that stands alone."""
    if "lab" in getattr(item, "fixturenames", ()):
        return "lab"  # there is one
    mark = item.get_closest_marker("xdist_group")
    if mark:
        return str(mark.args[0])
    # Others of a file may share what is slow to make, or go on where the one before has stopped.
    return None if item.get_closest_marker("apart") else item.path.stem


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where tests are spread over workers: what stays together, and what begins."""
    if not config.getoption("loadgroup", False):
        return
    items.sort(key=_rank)
    for item in items:
        group = _group(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Two workers that both want the lab would wait for each other, so one that has not heard of groups must not begin."""
    if session.config.getoption("loadgroup", False):
        deaf = [item.nodeid for item in session.items if _group(item) and not item.nodeid.endswith(f"@{_group(item)}")]
        if deaf:
            raise pytest.UsageError(f"this pytest-xdist does not heed xdist_group with this pytest: {deaf[:3]}")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's directory, as far as a host is asked about it."""
    folder = Path(tmp_path_factory.mktemp("model"))
    (folder / "config.json").write_text('{"model_type": "standin", "torch_dtype": "float32"}')
    return folder
