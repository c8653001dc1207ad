"""Fixtures of all stages."""

from __future__ import annotations

pytest_plugins = ["lab.fixture"]
