# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How histories are walked: the same ones each time, or with `PD_WALKS=20000` other and more of them, of `PD_STEPS` steps. `PD_SHRINK=0`
tells the first that fails as it was met, and looks for no shorter one."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

WALKS = int(os.environ.get("PD_WALKS", "0"))
SHRINK = os.environ.get("PD_SHRINK", "1") == "1"


def walked(walks: int, steps: int) -> settings:
    """The settings of a machine that takes so many walks of so many steps where nobody says otherwise."""
    return settings(
        max_examples=WALKS or walks,
        stateful_step_count=int(os.environ.get("PD_STEPS", str(steps))),
        deadline=None,
        database=None,
        derandomize=not WALKS,
        suppress_health_check=list(HealthCheck),
        phases=tuple(phase for phase in Phase if SHRINK or phase != Phase.shrink),
        report_multiple_bugs=False,
    )
