# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the collection awx.awx, over a file instead of an AWX: its modules take what those of awx.awx take, and refuse what
AWX would for what an object stands on. `make` writes it into a folder of collections; `controller_host` is the file. A real AWX is in
tests/awx."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "awx" / "argument_specs.json"


def make(collections: Path) -> None:
    plugins = collections / "ansible_collections/awx/awx/plugins"
    for folder in ("modules", "module_utils"):
        (plugins / folder).mkdir(parents=True)
    client = (HERE / "client.py").read_text(encoding="utf-8")
    (plugins / "module_utils/controller_api.py").write_text(client, encoding="utf-8")
    module = (HERE / "module.py").read_text(encoding="utf-8")
    for kind, spec in json.loads(TABLE.read_text(encoding="utf-8"))["modules"].items():
        text = module.replace('KIND = ""', f"KIND = {kind!r}").replace("SPEC = {}", f"SPEC = {spec!r}")
        (plugins / "modules" / f"{kind}.py").write_text(text, encoding="utf-8")
