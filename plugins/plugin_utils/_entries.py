# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads of the inventory: pd_groups or pd_caches, and every variable whose name begins with it and an underscore, merged."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.values import blank
from ..module_utils._core.facts.stands import name_of
from ..module_utils._core.spec.selector import labels_of
from ..module_utils._core.spec.workload import Kind

Plain = t.Callable[[t.Any], t.Any]


class Entries(t.Mapping[str, t.Any]):
    """The entries of a kind by name, in the inventory's order; a group's is found by any of its stands. One is templated when it is asked
    for, and once: the others stay as they are written, their secrets too. Raises PdError for a variable that is no dictionary, and for an
    entry twice."""

    def __init__(self, kind: Kind, variables: t.Mapping[str, t.Any], plain: Plain) -> None:
        """`variables` as the play has them, not templated; `plain` templates a value."""
        self._plain = plain
        self._raw: dict[str, t.Any] = {}
        self._made: dict[str, t.Any] = {}
        origin: dict[str, str] = {}
        for variable in sorted(v for v in variables if v == kind.entries or v.startswith(f"{kind.entries}_")):
            raw = variables[variable]
            # A dictionary that an expression makes can only be made whole.
            found, done = (raw, False) if isinstance(raw, t.Mapping) else (plain(raw), True)
            if blank(found) or found == {}:
                continue
            if not isinstance(found, t.Mapping):
                raise PdError(f"{variable} is not a dictionary of {kind.noun}s by name. Write {variable}: {kind.form}.")
            for name, entry in ((str(key), one) for key, one in found.items()):
                if name in origin:
                    raise PdError(
                        f"{kind.title} {name!r} is defined twice: in {origin[name]} and in {variable}. Keep one."
                    )
                origin[name], self._raw[name] = variable, entry
                if done:
                    self._made[name] = entry

    def __getitem__(self, name: str) -> t.Any:
        name = name_of(name)
        if name not in self._made:
            self._made[name] = self._plain(self._raw[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name_of(name) in self._raw

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def labels(self) -> dict[str, dict[str, str]]:
        """The labels of each; nothing else of an entry is templated for it."""
        return {name: labels_of(self._labels_of(name)) for name in self._raw}

    def _labels_of(self, name: str) -> t.Any:
        raw = self._raw[name]
        if name in self._made or not isinstance(raw, t.Mapping):
            return self[name]
        return {"labels": self._plain(raw.get("labels"))}
