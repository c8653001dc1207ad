# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The library: routers and cache providers that modes share, each a file of its own. A mode names one, and may write keys of it anew.

`whole` puts what is named where it is named, so that all that reads a mode sees one complete recipe, as if it had been written there."""

from __future__ import annotations

import difflib
import typing as t
from dataclasses import dataclass, field

from ..base.errors import PdError

Raw = t.Mapping[str, t.Any]
# The key that names a file where other keys of it are written anew; without any, the name alone stands there.
USE = "use"


@dataclass(frozen=True)
class Library:
    """The content of the shared files by name, their names left out."""

    routers: t.Mapping[str, Raw] = field(default_factory=dict)
    providers: t.Mapping[str, Raw] = field(default_factory=dict)


def whole(raw: Raw, library: Library, source: str = "") -> dict[str, t.Any]:
    """A mode's content with every file that it names in its place. Raises PdError for a name that no file has."""
    made = dict(raw)
    if raw.get("router"):
        made["router"] = _router(raw["router"], library.routers, f"{source}: router")
    if raw.get("kv_cache_providers"):
        made["kv_cache_providers"] = {
            name: _provider(given, library.providers, f"{source}: kv_cache_providers.{name}")
            for name, given in raw["kv_cache_providers"].items()
        }
    return made


def _router(given: t.Any, files: t.Mapping[str, Raw], place: str) -> dict[str, t.Any]:
    """A key that the mode writes takes the file's place, but for two: `extra_arguments` stand before the file's arguments, and of a policy
    in `membership` what the mode leaves out is the file's."""
    own, shared = _named(given, files, place, "router")
    made = {**shared, **own}
    if "extra_arguments" in own:
        made["arguments"] = [*own["extra_arguments"], *(made.get("arguments") or ())]
    if own.get("membership") and shared.get("membership"):
        theirs = shared["membership"]
        made["membership"] = {
            key: value if key == "default" else {**(theirs.get(key) or {}), **(value or {})}
            for key, value in {"default": theirs["default"], **own["membership"]}.items()
        }
    made.pop("extra_arguments", None)
    # What a router is stands in its file for who reads it there.
    made.pop("summary", None)
    return made


def _provider(given: t.Any, files: t.Mapping[str, Raw], place: str) -> dict[str, t.Any]:
    own, shared = _named(given, files, place, "provider")
    return {**shared, **own}


def _named(
    given: t.Any, files: t.Mapping[str, Raw], place: str, what: str, seen: tuple[str, ...] = ()
) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """(what is written at the place itself, the file that it names; empty where it names none). A file may name another of its kind."""
    own = {USE: given} if isinstance(given, str) else dict(given)
    name = own.get(USE)
    written = {key: value for key, value in own.items() if key != USE}
    if name is None:
        return written, {}
    if name not in files:
        near = difflib.get_close_matches(name, files, 1, 0.5)
        told = f" Did you mean {near[0]!r}?" if near else f" Known are: {', '.join(sorted(files)) or 'none'}."
        raise PdError(f"{place}: there is no {what} {name!r}.{told}")
    if name in seen:
        raise PdError(f"{place}: the {what}s {', '.join(seen)} name each other.")
    below, base = _named(files[name], files, place, what, (*seen, name))
    return written, {**base, **below}
