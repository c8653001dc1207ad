# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All rows."""

from __future__ import annotations

from faults import rows_docker, rows_formations, rows_hosts, rows_lab, rows_members, rows_released, rows_runs

ROWS = [
    *rows_members.ROWS,
    *rows_hosts.ROWS,
    *rows_runs.ROWS,
    *rows_formations.ROWS,
    *rows_released.ROWS,
    *rows_docker.ROWS,
    *rows_lab.ROWS,
]
