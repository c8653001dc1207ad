# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user writes beside what the plan gives: GPUs, ports, addresses, devices. Either it is used as it is, or it is refused with what to
write. Before anything is placed that is told which no placement can make right, and the rest of the members as the plan has them."""

from __future__ import annotations

from ..base.finding import Findings
from ..base.mounts import Mounts
from ..runtimes.table import traits_of
from ..spec.known import Known
from ..spec.spec import Group
from ..template.template import GroupTemplate
from . import port_clashes, resource_addresses, resource_cards, resource_ports
from .stands_for import Placed, place_of


def check(group: Group, template: GroupTemplate, known: Known, findings: Findings) -> None:
    resource_cards.check(group, template, known, findings)
    resource_ports.check(group, template, known, findings)
    resource_addresses.check(group, template, known, findings)
    _check_mounts(group, template, findings)
    _check_served_name(group, template, findings)


def _check_served_name(group: Group, template: GroupTemplate, findings: Findings) -> None:
    """The name by which the proof and clients ask, where the user's own command says it: a recipe's is the group's, and owned."""
    for name, engine in template.engines.items():
        option = engine.arguments(template.roles[name].argv).last(engine.names("served_model_name"))
        written = option.value if option else None
        if option and written and "${" not in written and group.served_model_name not in written.split():
            findings.warning(
                "served-name-differs",
                f"{group.roles[name].args_place}: {option.text}: clients, and the proof of the group, ask for {group.served_model_name!r}.",
                f"Write served_model_name: {written.split()[0]} at the group, or {option.flag}=${{served_model_name}}.",
                [name],
            )


def _check_mounts(group: Group, template: GroupTemplate, findings: Findings) -> None:
    """The folder in which a container finds what the collection brings: its start script, its secrets and its files."""
    traits = traits_of(group.runtime)
    for name, role in template.roles.items() if traits.containers else ():
        for target in Mounts(role.mounts).within(traits.files):
            findings.error(
                "owned-mount",
                f"{place_of(group.roles[name], 'mounts')}: {target} is not yours to mount: {traits.files} holds what the collection"
                " starts members with.",
                "Mount it elsewhere.",
                [name],
            )


def check_members(placed: Placed, findings: Findings) -> None:
    resource_cards.check_members(placed, findings)
    port_clashes.check_members(placed, findings)
    resource_addresses.check_members(placed, findings)
