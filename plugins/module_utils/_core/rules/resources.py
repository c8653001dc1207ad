# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user writes beside what the plan gives: GPUs, ports, addresses, devices. Either it is used as it is, or it is refused with what to
write. Before anything is placed that is told which no placement can make right, and the rest of the members as the plan has them."""

from __future__ import annotations

from ..base.finding import Findings
from ..spec.known import Known
from ..spec.spec import Group
from ..template.template import GroupTemplate
from . import resource_addresses, resource_cards, resource_ports
from .stands_for import Placed


def check(group: Group, template: GroupTemplate, known: Known, findings: Findings) -> None:
    resource_cards.check(group, template, known, findings)
    resource_ports.check(group, template, known, findings)
    resource_addresses.check(group, template, known, findings)


def check_members(placed: Placed, findings: Findings) -> None:
    resource_cards.check_members(placed, findings)
    resource_ports.check_members(placed, findings)
    resource_addresses.check_members(placed, findings)
