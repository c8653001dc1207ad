# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a file that somebody else may have written: each is of its kind and within its bounds, or it is told where it is not."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import re
import typing as t

from .address import of_url
from .errors import PdError

PORTS = 65535
LONGEST = 8192
MOST = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")


class DamagedError(PdError):
    """A label, a record or another file of the state directory that cannot be believed. `why` is what is wrong, `where` the file."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"Reading {where}: it is damaged ({why}). Restore it, or remove the member or group by hand; then run again."
        )
        self.where, self.why = where, why


class Checked:
    """Reads the keys of one mapping. `where` names the file; what does not fit raises DamagedError."""

    def __init__(self, raw: t.Any, where: str, within: str = "") -> None:
        self.where, self.prefix = where, within
        if not isinstance(raw, t.Mapping):
            raise DamagedError(where, f"{within.rstrip('.') or 'it'} is no object")
        self.raw: t.Mapping[str, t.Any] = raw

    def bad(self, key: str, wanted: str) -> DamagedError:
        """The value itself is not repeated: nobody knows what it holds."""
        return DamagedError(self.where, f"{self.prefix}{key} is {wanted}")

    def text(self, key: str, required: bool = True, default: str = "") -> str:
        value = self.raw.get(key)
        if value is None and not required:
            return default
        if not isinstance(value, str) or len(value) > LONGEST:
            raise self.bad(key, "no text" if value is not None else "missing")
        return value

    def said(self, key: str) -> str:
        """A text of any length, which a file of ours may have; empty where it is not there."""
        value = self.raw.get(key)
        if value is not None and not isinstance(value, (str, int, float)):
            raise self.bad(key, "no text")
        return "" if value is None else str(value)

    def name(self, key: str) -> str:
        """A text that may become the name of a file."""
        value = self.text(key)
        if not _NAME.fullmatch(value):
            raise self.bad(key, "no name")
        return value

    def url(self, key: str) -> str | None:
        """The address of a member, which names its port, and may be missing."""
        value = self.text(key, required=False) or None
        place = of_url(value)
        with contextlib.suppress(ValueError):
            if value is None or (place and ("[" not in value or ipaddress.IPv6Address(place[0].partition("%")[0]))):
                return value
        raise self.bad(key, "no URL")

    def number(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self.raw.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.bad(key, f"no number from {low} to {high}" if value is not None else "missing")
        return value

    def maybe(self, key: str, low: int, high: int) -> int | None:
        """A number that may be missing."""
        return None if self.raw.get(key) is None else self.number(key, low, high)

    def moment(self, key: str) -> float:
        """Seconds of the epoch; 0 when it is not there."""
        value = self.raw.get(key)
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.bad(key, "no time")
        return float(value)

    def seconds(self, key: str) -> float | None:
        """How long something may take; None where it is not said."""
        value = self.raw.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise self.bad(key, "no number of seconds")
        return float(value)

    def within(self, key: str) -> Checked:
        """The object under a key, to be read in its turn; an empty one where it is not there."""
        return Checked(self.mapping(key), self.where, f"{self.prefix}{key}.")

    def mapping(self, key: str) -> t.Mapping[str, t.Any]:
        value = self.raw.get(key)
        if value is None:
            return {}
        if not isinstance(value, t.Mapping) or len(value) > MOST:
            raise self.bad(key, "no object")
        return value

    def items(self, key: str, most: int = MOST) -> t.Sequence[t.Any]:
        value = self.raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)) or len(value) > most:
            raise self.bad(key, f"no list of at most {most}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.items(key)
        if not all(isinstance(one, (str, int)) and not isinstance(one, bool) for one in found):
            raise self.bad(key, "no list of texts")
        return tuple(str(one) for one in found)

    def word(self, key: str) -> str:
        """A text, or a number in its place."""
        value = self.raw.get(key)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else self.text(key)

    def ports(self, key: str) -> tuple[int, ...]:
        """Port numbers, in their order."""
        found = self.items(key, PORTS)
        if not all(isinstance(p, int) and not isinstance(p, bool) and 0 < p <= PORTS for p in found):
            raise self.bad(key, "no list of ports")
        return tuple(found)

    def each(self, key: str) -> list[Checked]:
        """A list of objects, each to be read in its turn."""
        return [Checked(one, self.where, f"{self.prefix}{key}[{i}].") for i, one in enumerate(self.items(key, 100_000))]

    def bands(self, key: str = "ports") -> dict[str, dict[str, int]]:
        """Bands of ports by name, none of which goes beyond the last port."""
        found = {}
        for name in self.mapping(key):
            band = Checked(self.mapping(key)[name], self.where, f"{self.prefix}{key}.{name}.")
            base = band.number("base", 1, PORTS)
            found[str(name)] = {"base": base, "count": band.number("count", 0, PORTS - base + 1)}
        return found


def ports_of(port: int | None, bands: t.Mapping[str, t.Mapping[str, int]]) -> set[int]:
    """Every port that a member holds: its HTTP port and its bands."""
    held = {port} if port else set()
    for band in bands.values():
        held |= set(range(band["base"], band["base"] + band["count"]))
    return held
