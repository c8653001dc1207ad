# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: faulty
short_description: A local connection that a test can cut
version_added: 0.1.0
description:
  - For the fault suite. With a file C(down-HOST) in E(PD_FAULTS) the host does not answer.
  - With C(cut-HOST), which holds the name of a phase, the module of that phase does its work there, its answer is lost, and the host does
    not answer from then on.
  - With C(fall-HOST) the module of that phase is killed before it does anything, every time, and the host goes on answering.
  - With C(skew-HOST) the host's clock is off by so many seconds, as far as modules see it.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - connection_pipelining
options:
  host:
    description: The host's name.
    vars:
      - name: inventory_hostname
"""

import os
import threading
import time
import typing as t
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local
from faults import points

SKEW = Path(__file__).resolve().parents[2] / "skew"


class Connection(Local):
    transport = "faulty"
    has_pipelining = True

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        folder, host = points.place(), str(self.get_option("host"))
        if folder is None:
            return super().exec_command(cmd, in_data, sudoable)
        self._answer(folder, host)
        is_module = in_data is not None or "AnsiballZ" in cmd
        phase = points.phase_of(os.environ.get(points.TASK, ""))
        skew = folder / f"skew-{host}"
        if skew.exists():
            cmd = f"PD_SKEW={skew.read_text()} PYTHONPATH={SKEW} {cmd}"
        if not is_module:
            return super().exec_command(cmd, in_data, sudoable)
        if self._meets(folder / f"fall-{host}", phase):
            return 137, b"", b"Killed"
        lost = self._meets(folder / f"cut-{host}", phase)
        if points.is_point("during", phase):
            done = self._beside(lambda: super(Connection, self).exec_command(cmd, in_data, sudoable))
        else:
            done = super().exec_command(cmd, in_data, sudoable)
        if lost:
            (folder / f"down-{host}").touch()
            raise AnsibleConnectionFailure(
                f"Failed to connect to the host via ssh: Shared connection to {host} closed."
            )
        self._answer(folder, host)
        return done

    @staticmethod
    def _meets(file: Path, phase: str) -> bool:
        return file.exists() and file.read_text() == phase

    def _answer(self, folder: Path, host: str) -> None:
        if (folder / f"down-{host}").exists():
            why = f"ssh: connect to host {host} port 22: Connection timed out"
            raise AnsibleConnectionFailure(f"Failed to connect to the host via ssh: {why}")

    def _beside(self, call: t.Callable[[], tuple[int, bytes, bytes]]) -> tuple[int, bytes, bytes]:
        """Run the module, and say that it runs once it does."""
        done: list[tuple[int, bytes, bytes]] = []
        thread = threading.Thread(target=lambda: done.append(call()), daemon=True)
        thread.start()
        while thread.is_alive() and not _children():
            time.sleep(0.01)
        points.reach()
        thread.join()
        return done[0]


def _children() -> bool:
    return any(children.read_text().split() for children in Path("/proc/self/task").glob("*/children"))
