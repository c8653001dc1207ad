# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a run has come with one workload. Many go through the phases of a wave together, and each fails alone: what is done about one of
them in a phase follows from its plan and its course, and from nothing of the others."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.plain import Plain, texts, to_plain


@dataclass(frozen=True)
class Ending:
    """What is written at the end. `registered` is whether the endpoint is (yes, no, or keep what was said), `why` it is not; `lift` whether
    the router is seen to name nobody that is gone; `proven` whether a proof was good; `undo` the ids that this run has created and that
    were taken back, None where nothing is taken back; `retired` whether those have stopped whose place others have taken."""

    registered: str = "no"
    state: str = "partial"
    why: str = ""
    lift: bool = False
    proven: bool = False
    undo: tuple[str, ...] | None = None
    retired: bool = False
    # What the record says of hooks; None for what it was given before they were told. And why they do not have the endpoint.
    hooks: Plain | None = None
    unhooked: str = ""

    @classmethod
    def from_plain(cls, raw: Plain) -> Ending:
        undo = raw.get("undo")
        return cls(
            raw.get("registered") or "no",
            raw.get("state") or "partial",
            raw.get("why") or "",
            bool(raw.get("lift")),
            bool(raw.get("proven")),
            None if undo is None else tuple(undo),
            bool(raw.get("retired")),
            raw.get("hooks"),
            raw.get("unhooked") or "",
        )


@dataclass(frozen=True)
class Course:
    """`over`: nothing more is done of it, but that what was locked is given back; `failed` whether that is a failure, and `told` what a
    person is told of it. `good` as the last verdict on its members has it, `ready` those that are, `formations` what the process at the
    port of each carries, `starts` which start of each a router is told of. `left`: others were ready, and did not wait for it; it is taken
    up in another pass. `refused` are hosts that did nothing at all. `unproven`: a proof was sent, and was not good. `undoes`: what this run
    started is stopped again. `waits` are members that are up and enter no router yet. `skipped`: another run is at it, and what was wanted
    can wait. `restores`: it ended before anything stopped, and hooks that have let it go have it again. `retires`: those that have come
    serve, and whose place they take may stop. `done`: it has been brought to its end in this wave. `since` is when it was locked, in
    seconds of the epoch, and `took` for how many seconds after that the whole of it came up."""

    name: str
    over: bool = False
    locked: bool = False
    failed: bool = False
    told: str = ""
    short: Plain = field(default_factory=dict)
    good: bool = True
    left: bool = False
    done: bool = False
    skipped: bool = False
    unproven: bool = False
    undoes: bool = False
    restores: bool = False
    retires: bool = False
    ready: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    registered: str = "no"
    formations: t.Mapping[str, t.Any] = field(default_factory=dict)
    starts: t.Mapping[str, Plain] = field(default_factory=dict)
    ending: Ending | None = None
    since: float = 0.0
    took: float | None = None

    @property
    def goes_on(self) -> bool:
        """Whether phases have orders for it."""
        return not (self.over or self.done)

    @property
    def serves(self) -> bool:
        """Whether its router may start, or be told of its members."""
        return self.goes_on and self.good and not self.left

    def ends(self, told: str, short: Plain | None = None) -> Course:
        """The same, at its end before its time."""
        return replace(self, over=True, failed=True, good=False, told=told, short=short or {})

    def skips(self, told: str) -> Course:
        """The same, at its end since another run is at the workload."""
        return replace(self, over=True, skipped=True, good=False, told=told, short={"good": False, "skipped": True})

    def to_plain(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", to_plain(self))

    @classmethod
    def from_plain(cls, raw: Plain) -> Course:
        flags = (
            "over",
            "locked",
            "failed",
            "good",
            "left",
            "done",
            "skipped",
            "unproven",
            "undoes",
            "restores",
            "retires",
        )
        ending = raw.get("ending")
        return cls(
            name=raw["name"],
            told=raw.get("told") or "",
            short=raw.get("short") or {},
            ready=texts(raw, "ready"),
            refused=texts(raw, "refused"),
            waits=texts(raw, "waits"),
            registered=raw.get("registered") or "no",
            formations=raw.get("formations") or {},
            starts=raw.get("starts") or {},
            ending=Ending.from_plain(ending) if ending else None,
            since=float(raw.get("since") or 0),
            took=raw.get("took"),
            **{flag: bool(raw.get(flag)) for flag in flags},
        )
