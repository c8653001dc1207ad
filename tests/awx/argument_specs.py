# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes argument_specs.json: what the modules of awx.awx take, as these say it themselves when they are started.

    git -C AWX archive HEAD awx_collection | tar -x -C DIR
    .build/venv/tools/bin/python tests/awx/argument_specs.py DIR/awx_collection COMMIT

`make test` holds the objects of role awx against it; AWX itself is not needed for that.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import tempfile
import typing as t
from pathlib import Path

TABLE = Path(__file__).with_name("argument_specs.json")
PACKAGE = "ansible_collections.awx.awx.plugins"
MODULES = (
    "credential", "credential_type", "execution_environment", "inventory", "inventory_source", "job_template", "organization", "project",
    "role", "schedule", "workflow_job_template",
)  # fmt: skip


class StartedError(Exception):
    pass


def taken(module: str) -> dict[str, t.Any]:
    """The argument spec that a module gives to its base, with what all of them have."""
    loaded = importlib.import_module(f"{PACKAGE}.modules.{module}")
    given: dict[str, t.Any] = {}

    def start(argument_spec: dict[str, t.Any], **_more: t.Any) -> None:
        given.update(argument_spec)
        raise StartedError

    base = loaded.ControllerAPIModule
    loaded.ControllerAPIModule = start
    with contextlib.suppress(StartedError):
        loaded.main()
    return {**base.AUTH_ARGSPEC, **given}


def plain(spec: dict[str, t.Any]) -> dict[str, t.Any]:
    """Without what reads the environment of a machine."""
    return {
        name: {key: value for key, value in one.items() if key != "fallback"}
        for name, one in sorted(spec.items())
    }  # fmt: skip


def main(collection: str, commit: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        namespace = Path(folder) / "ansible_collections" / "awx"
        namespace.mkdir(parents=True)
        (namespace / "awx").symlink_to(Path(collection).resolve())
        sys.path.insert(0, folder)
        made = {"commit": commit, "modules": {name: plain(taken(name)) for name in MODULES}}
    TABLE.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
