# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of a rollout's run, beside those of the runs that it makes (run_folder.py): what is known of its groups, the turn that is
taken, and what hosts said in it. What outlives the run is in the records of the groups.

state.json                 the rollout as it is written, this run, and its groups as they were seen last
turn.json                  the turn, with the notes that are written in it
measured/TURN/HOST.json    the counters of members on a host
noted/TURN/HOST.json       what became of the notes there"""

from __future__ import annotations

import os
import tempfile
import typing as t

from ansible import constants

from ..module_utils._core.base.errors import PdError
from ._files import file_of, name_of, read_json, write_json

Plain = dict[str, t.Any]


class RolloutFolder:
    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def create(cls, state: t.Mapping[str, t.Any]) -> RolloutFolder:
        folder = cls(tempfile.mkdtemp(prefix="pd-rollout-", dir=vars(constants)["DEFAULT_LOCAL_TMP"]))
        folder.write_state(state)
        return folder

    def state(self) -> Plain:
        found = self._read("state.json")
        if not isinstance(found, dict):
            raise PdError(
                f"There is no rollout in {self.path}. It is what rollout_plan returned as `rollout`, and lives as long as its"
                " ansible-playbook."
            )
        return found

    def write_state(self, state: t.Mapping[str, t.Any]) -> None:
        write_json(dict(state), self.path, "state.json")

    def turn(self) -> Plain:
        return t.cast("Plain", self._read("turn.json") or {})

    def write_turn(self, turn: t.Mapping[str, t.Any]) -> None:
        write_json(dict(turn), self.path, "turn.json")

    def say(self, what: str, turn: int, host: str, said: t.Mapping[str, t.Any]) -> None:
        """Keep what a host said of each group: `what` is measured or noted."""
        write_json(dict(said), self.path, what, str(turn), file_of(host))

    def said(self, what: str, turn: int) -> dict[str, Plain]:
        """The same of all hosts."""
        folder = os.path.join(self.path, what, str(turn))
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return {name_of(file): self._read(what, str(turn), file) or {} for file in files}

    def _read(self, *place: str) -> t.Any:
        return read_json(self.path, *place)
