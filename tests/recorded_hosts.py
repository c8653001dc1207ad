# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as they were recorded (tests/unit/recorded): their interfaces, without having such a host."""

from __future__ import annotations

import typing as t
from pathlib import Path

from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._probes import links, network

RECORDED = ROOT / "tests" / "unit" / "recorded"


def lay_out(name: str, folder: Path) -> str:
    """The recorded part of /sys as files below `folder`."""
    for line in (RECORDED / name / "sys.txt").read_text().splitlines():
        for mark in (" = ", " -> "):
            path, found, value = line.partition(mark)
            if not found:
                continue
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if mark == " = ":
                (folder / path).write_text(value + "\n")
            else:
                (folder / value).mkdir(parents=True, exist_ok=True)
                (folder / path).symlink_to(folder / value)
            break
        else:
            (folder / line).mkdir(parents=True, exist_ok=True)
    return str(folder)


def text(name: str, file: str) -> str:
    return (RECORDED / name / file).read_text()


def interfaces(name: str, folder: Path, monkeypatch: t.Any) -> list[network.Interface]:
    """What the probes make of a recorded host."""
    # A driver tells its name to a call, which cannot be recorded as a file.
    monkeypatch.setattr(links, "driver", lambda _name: "")
    sys = lay_out(name, folder)
    found = links.parse_addr(text(name, "addr.json"))
    routes = [*links.parse_route(text(name, "route.json")), *links.parse_route(text(name, "route6.json"))]
    for link in found:
        links.add_sys(link, sys)
        link.default_route = link.name in routes
    return network.judge(found, sys)
