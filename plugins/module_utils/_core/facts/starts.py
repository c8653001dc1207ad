# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many members have been started at each place of a formation: in the record, and in the label of who may have met them there."""

from __future__ import annotations

import typing as t

from ..base.checked import PORTS, Checked

# By address and port.
Starts = t.Mapping[tuple[str, int], int]


def read(value: Checked, key: str) -> dict[tuple[str, int], int]:
    """As a record or a label keeps it, {address: {port: how many}}. Raises DamagedError."""
    found = {}
    hosts = value.within(key)
    for host in hosts.raw:
        ports = hosts.within(host)
        for port in ports.raw:
            if not (str(port).isascii() and str(port).isdigit() and 0 < int(port) <= PORTS):
                raise ports.bad(str(port)[:20], "no port")
            found[str(host), int(port)] = ports.number(port, 0, 10**9)
    return found


def plain(starts: Starts) -> dict[str, dict[str, int]]:
    """As it is kept."""
    found: dict[str, dict[str, int]] = {}
    for (host, port), count in sorted(starts.items()):
        found.setdefault(host, {})[str(port)] = count
    return found
