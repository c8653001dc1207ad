# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every row of the table, carried out. docs/contributing-faults.md says how to add one."""

from __future__ import annotations

import typing as t

import pytest
from faults.case import Case
from faults.conftest import Sites
from faults.model import Fault
from faults.runner import carry_out
from faults.table import ROWS


def parameter(fault: Fault) -> t.Any:
    marks = [pytest.mark.faults, pytest.mark.apart]
    if fault.in_selection:
        marks.append(pytest.mark.telling)
    if fault.known:
        marks.append(pytest.mark.xfail(reason=fault.known, strict=True))
    if fault.topology in ("docker", "dockers", "lab"):
        # One engine, one lab: not made anew for each row.
        marks.append(pytest.mark.xdist_group(fault.topology.rstrip("s")))
    return pytest.param(fault, id=fault.name, marks=marks)


@pytest.mark.parametrize("fault", [parameter(fault) for fault in ROWS])
def test_fault(fault: Fault, make_case: t.Callable[[Fault], Case], sites: Sites) -> None:
    case = make_case(fault)
    if carry_out(fault, case, leave=fault.site() != "" and sites.next == fault.site()):
        sites.left = case
