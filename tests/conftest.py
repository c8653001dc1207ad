"""Fixtures of all stages."""

from __future__ import annotations

import pytest

pytest_plugins = ["lab.fixture"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """There is one lab: where tests are spread over workers by groups, those that use it stay together."""
    for item in items if config.pluginmanager.hasplugin("xdist") else ():
        if "lab" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("lab"))
