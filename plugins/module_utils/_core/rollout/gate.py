# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate: whether a group does as well after its change as it must, by what was counted before it stopped and in its soak. The two
intervals are of different lengths, and so only ratios and times are compared."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.printable import printable
from ..base.words import about, counted, names
from ..proof.measured import Measured
from .spec import Gate

State = t.Literal["passed", "failed", "not judged"]
_MOST = 4
_LONGEST = 400


@dataclass(frozen=True)
class Verdict:
    """What follows for the group, and why; of one that passed, what was measured."""

    state: State
    why: str


def verdict(gate: Gate, before: Measured | None, after: Measured) -> Verdict:
    """`before` is what was measured before the group stopped (None: nothing), `after` what was in its soak. What cannot be compared is not
    judged, which passes only with min_requests 0, and is said then, too."""
    if not gate.counts:
        return Verdict("passed", "")
    before = before or Measured()
    bad = [*_restarted(after), *_errors(gate, before, after), *_first_token(gate, before, after)]
    if bad:
        return Verdict("failed", "; ".join(bad))
    open_ = _not_judged(gate, before, after)
    if open_ and gate.min_requests:
        return Verdict("not judged", "; ".join(open_))
    told = _told(before, after)
    return Verdict(
        "passed", "; ".join([*([f"not judged: {', '.join(open_)}"] if open_ else []), *([told] if told else [])])
    )


# -- what fails ------------------------------------------------------------------------------------------------------------------------


def _restarted(after: Measured) -> list[str]:
    """A process that did not live through the soak: its counters are another one's."""
    if not after.restarted:
        return []
    return [f"{about(after.restarted, 'was', _MOST)} started again in the soak: the counters began anew"]


def _errors(gate: Gate, before: Measured, after: Measured) -> list[str]:
    """More failed than may, even if all that are missing to min_requests were good."""
    if gate.errors is None or after.errors is None or after.requests is None:
        return []
    of = max(after.requests, float(gate.min_requests), 1.0)
    if after.errors <= gate.errors * of:
        return []
    was = "" if before.error_ratio is None else f", {_percent(before.error_ratio)} before"
    told = f"{after.errors:g} of {counted(round(after.requests), 'request')} failed"
    ratio = "" if after.error_ratio is None else f" ({_percent(after.error_ratio)}{was})"
    return [f"{told}{ratio}, and at most {_percent(gate.errors)} may"]


def _first_token(gate: Gate, before: Measured, after: Measured) -> list[str]:
    if gate.ttft_p95 is None or not before.ttft_p95 or after.ttft_p95 is None or _too_few(gate, after):
        return []
    times = after.ttft_p95 / before.ttft_p95
    if times <= gate.ttft_p95:
        return []
    told = f"the first token took {_seconds(after.ttft_p95)} (p95), {times:.2g} times the {_seconds(before.ttft_p95)} before"
    return [f"{told}; at most {gate.ttft_p95:g} times is allowed"]


# -- what cannot be told ---------------------------------------------------------------------------------------------------------------


def _not_judged(gate: Gate, before: Measured, after: Measured) -> list[str]:
    """Why it cannot be told whether the group does well; the first reason is enough of those that follow from each other."""
    found = []
    if after.requests is None:
        found.append(f"requests were not counted{_why_not(after)}")
    elif _too_few(gate, after):
        found.append(f"{after.requests:g} of at least {counted(gate.min_requests, 'request')} in its soak")
    elif not after.requests:
        found.append("no request in its soak")
    if found:
        return found
    if gate.errors is not None and after.errors is None:
        found.append(f"failed requests were not counted{_why_not(after)}")
    if gate.ttft_p95 is not None and after.ttft_p95 is None:
        found.append(f"times to the first token were not counted{_why_not(after)}")
    elif gate.ttft_p95 is not None and not before.ttft_p95:
        found.append(
            f"nothing was counted before it stopped that its first tokens could be compared with{_why_not(before)}"
        )
    return found


def _too_few(gate: Gate, after: Measured) -> bool:
    return after.requests is None or after.requests < gate.min_requests


def _why_not(measured: Measured) -> str:
    """Metrics are told by the names under which they were looked for."""
    told = [f"there is no metric {printable(names(measured.missing, _MOST), _LONGEST)}"] if measured.missing else []
    told += [printable(measured.why, _LONGEST)] if measured.why else []
    return f" ({'; '.join(told)})" if told else ""


# -- how it is told --------------------------------------------------------------------------------------------------------------------


def _told(before: Measured, after: Measured) -> str:
    told = [counted(round(after.requests), "request")] if after.requests is not None else []
    if after.error_ratio is not None:
        told.append(f"{_percent(after.error_ratio)} failed")
    if after.ttft_p95 is not None:
        was = f" ({_seconds(before.ttft_p95)} before)" if before.ttft_p95 else ""
        told.append(f"first token within {_seconds(after.ttft_p95)}{was}")
    return ", ".join(told) + (f" ({printable(after.why, _LONGEST)})" if after.why else "")


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.3g} percent"


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
