# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Creating members one after the other, for drivers whose host can do no better."""

from __future__ import annotations

import typing as t

from .._core.base.errors import PdError
from .protocol import Admit, Created, Wanted


def one_by_one(
    batch: t.Sequence[Wanted],
    admit: Admit,
    create_one: t.Callable[[Wanted, dict[str, t.Any]], list[str]],
) -> list[Created]:
    """What became of each, in the order of the batch. One that cannot be created does not keep the next from it. `create_one` returns
    warnings, and leaves nothing behind when it raises PdError."""
    done = []
    for wanted in batch:
        name = wanted.member.id
        try:
            done.append(Created(name, create_one(wanted, admit(wanted))))
        except PdError as exc:
            done.append(Created(name, error=str(exc)))
    return done
