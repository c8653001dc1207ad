# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter renewal_round: one round of a plan in which members that serve are started anew, as a plan of its own."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.plan.value import Plan


def renewal_round(plan: t.Mapping[str, t.Any], number: int) -> dict[str, t.Any]:
    """The plan of round `number`, from 0."""
    try:
        return Plan.from_plain(plan).round(int(number)).to_plain()
    except PdError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"renewal_round": renewal_round}
