# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An errand, from its order to its answer. It runs as the one process of a Pod, and says all that it has to say in its log."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import typing as t

from .._core.base.errors import PdError
from .._core.base.printable import printable
from .._core.cluster.errand_pod import KEPT, ORDER_FILE, SECRETS_FILE, TOLD
from . import answer, kinds


def main(told: str = TOLD, kept: str = KEPT) -> int:
    """`told` is the folder with the order, `kept` that of what came as a secret: an order that is too large for an annotation, and keys.
    What fails is told in the answer; the status is 0 once there is one."""
    order = _read(told, ORDER_FILE) or _read(kept, ORDER_FILE)
    secrets = _read(kept, SECRETS_FILE)
    if "token" not in order:
        sys.stderr.write(f"inferops.pd: this errand has no order: {told}\n")
        return 1
    said = done(order, secrets)
    _say(str(order["token"]), said)
    _see_off((said.get("result") or {}).get(kinds.GOES_ON))
    return 0


def done(order: t.Mapping[str, t.Any], secrets: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """{"result"} or, in a sentence, {"error"}. What this code itself does wrong is an error as well: its traceback could show a key."""
    try:
        return {"result": kinds.carry_out(str(order["kind"]), order.get("order") or {}, secrets)}
    except PdError as exc:
        return {"error": printable(exc)}
    except Exception as exc:  # noqa: BLE001 - told to whoever sent it, who sees nothing else of it
        at = exc.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        where = f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})" if at else ""
        return {"error": f"a fault in the errand's own code: {type(exc).__name__}{where}"}


def _see_off(pid: int | None) -> None:
    """Stay as long as a process that the errand has left: with the first process of a Pod all others end."""
    while pid:
        with contextlib.suppress(ChildProcessError):
            # Of the first process all are children whose parents are gone.
            os.waitpid(pid, 0)
            return
        try:
            os.kill(pid, 0)
        except OSError:
            return
        time.sleep(0.2)


def _read(folder: str, name: str) -> dict[str, t.Any]:
    with contextlib.suppress(OSError), open(os.path.join(folder, name), encoding="utf-8") as stream:
        text = stream.read()
        return dict(json.loads(text)) if text.strip() else {}
    return {}


def _say(token: str, said: t.Mapping[str, t.Any]) -> None:
    for line in answer.lines(token, said):
        # One write a line: others may write to the log as well.
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
