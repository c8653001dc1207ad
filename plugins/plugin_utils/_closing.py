# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run: what failed of it, told once."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.words import names
from ..module_utils._core.course.course import Course
from .run_folder import Index, RunFolder

Show = t.Callable[[str], None]


def courses_of(folder: RunFolder) -> dict[str, Course]:
    """How far each workload of the run has come."""
    return {name: one for at in range(len(folder.index().waves)) for name, one in folder.courses(at).items()}


def close(folder: RunFolder, show: Show) -> dict[str, t.Any]:
    """The result of the whole run; what failed is shown to a person, each in full."""
    index, courses = folder.index(), courses_of(folder)
    bad = {name: one for name, one in courses.items() if one.failed}
    if not bad and not index.refused:
        return {"good": True}
    return {**_told(index, bad, len(courses) + len(index.refused), show), "failed": True}


def _told(index: Index, bad: t.Mapping[str, Course], count: int, show: Show) -> dict[str, t.Any]:
    """One workload that failed is told as such. Of several, each in full, one below the other."""
    refused = index.refused
    if count == 1 and bad:
        (course,) = bad.values()
        head, _line, rest = course.told.partition("\n")
        show(rest)
        return {**course.short, "msg": head}
    touched = {name: one for name, one in bad.items() if not one.short.get("untouched")}
    left = [name for name in bad if name not in touched]
    blocks = [one.told for one in touched.values()]
    blocks += [f"{text}" for text in refused.values()]
    blocks += [bad[name].told for name in left]
    show("\n\n".join(blocks))
    failed = [*touched, *refused]
    msg = f"{len(failed)} of {count} failed: {names(failed)}." + (f" Not touched: {names(left)}." if left else "")
    told = {name: dict(one.short) for name, one in bad.items()} | {
        name: {"good": False, "refused": True} for name in refused
    }
    return {
        "good": False,
        "msg": f"{msg} The others are as wanted." if len(bad) + len(refused) < count else msg,
        "workloads": told,
    }
