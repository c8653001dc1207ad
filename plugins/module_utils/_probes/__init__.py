# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes: looking at members from outside, and at the host: HTTP, metrics, logs, ports, processes, interfaces. A probe changes nothing."""

from __future__ import annotations
