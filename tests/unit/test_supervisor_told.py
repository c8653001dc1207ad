# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a member whose end supervisord has seen."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._runtimes import guard
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.supervisor import Supervisor


@pytest.mark.parametrize(
    ("statename", "exitstatus", "attempts", "state"),
    [
        # Between the end of a process and its next start supervisord says for up to a second that it has exited.
        ("EXITED", -1, 3, "restarting"),
        ("EXITED", 1, 3, "restarting"),
        ("EXITED", -1, 0, "exited"),
        ("EXITED", 0, 3, "exited"),
        ("EXITED", guard.REFUSED, 3, "exited"),
        ("BACKOFF", 1, 3, "restarting"),
        ("BACKOFF", 1, 0, "exited"),
        ("FATAL", 1, 3, "exited"),
        ("STOPPED", -1, 3, "exited"),
    ],
)
def test_one_that_is_started_again_has_not_exited(tmp_path, statename, exitstatus, attempts, state):
    program = {"name": "m", "statename": statename, "pid": 0, "start": 1, "stop": 2, "exitstatus": exitstatus}
    driver = Supervisor(State(str(tmp_path)))
    label: dict[str, t.Any] = {"group": "g", "member": "m", "restart": attempts}
    live = driver._live(label, {"m": {**program, "spawnerr": ""}}, [])
    assert live["state"] == state
    assert live["why"].endswith("; supervisord starts it again") == (state == "restarting")
