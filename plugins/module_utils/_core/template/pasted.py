# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of a plan pasted back into a spec: whether what is written says what is derived, as far as the spec can tell.

What only a host can fill in is compared by its form; the plan then looks whether a member really got it (plan/preconditions.py)."""

from __future__ import annotations

import json
import re
import typing as t

from ..base import placeholders
from ..base.arguments import Option, read_json_object
from . import kv_compose

# What a derived value may look like where only a host can tell it. An address that no plan can give a member is none; a service may have a
# name for one.
LIKE = {
    "port": r"\d{1,5}",
    "address": r"(?!0\.0\.0\.0$|::$|\[::\]$)[0-9A-Fa-f.:\[\]]+",
    "service": r"(?!0\.0\.0\.0$|::$|\[::\]$)[0-9A-Za-z.:\[\]-]+",
    "other": r".*",
}


def _kind(name: str) -> str:
    if name in ("port", "kv_cache.port") or name.startswith("ports."):
        return "port"
    if name.startswith("kv_cache."):
        return "service"
    return "address" if name.endswith(("address", "bind")) else "other"


def _like(written: str, derived: str) -> bool:
    """Whether a text is what a derived one, with its placeholders filled in, may come to."""
    pattern, at = "", 0
    for match in placeholders.PLACEHOLDER.finditer(derived):
        pattern += re.escape(derived[at : match.start()]) + LIKE[_kind(match.group(1) or "")]
        at = match.end()
    return re.fullmatch(pattern + re.escape(derived[at:]), written) is not None


def same(written: Option, derived: Option) -> bool:
    """Whether a written option says what the derived one does."""
    if written.value == derived.value:
        return True
    if written.value is None or derived.value is None or "${" not in derived.value:
        return False
    return _like(written.value, derived.value)


def same_json(written: str, derived: str) -> bool:
    """The same of a JSON object, however it is written."""
    one, other = (kv_compose.read_with_placeholders(text) for text in (written, derived))
    return one is not None and other is not None and _same_value(one, other)


def _same_value(written: t.Any, derived: t.Any) -> bool:
    if isinstance(derived, dict):
        if not isinstance(written, dict) or written.keys() != derived.keys():
            return False
        return all(_same_value(written[key], value) for key, value in derived.items())
    if isinstance(derived, list):
        if not isinstance(written, list) or len(written) != len(derived):
            return False
        return all(_same_value(one, other) for one, other in zip(written, derived))
    if not isinstance(derived, str):
        return bool(written == derived)
    bare = kv_compose.bare_name(derived)
    if bare is None:
        return written == derived or (isinstance(written, str) and "${" in derived and _like(written, derived))
    if isinstance(written, str) and kv_compose.bare_name(written) is not None:
        return kv_compose.bare_name(written) == bare
    # In JSON a port is a number, and all that a host tells beside is text or a number.
    fits = (int,) if _kind(bare) == "port" else (int, str)
    return isinstance(written, fits) and not isinstance(written, bool) and _like(str(written), f"${{{bare}}}")


def meanings(option: Option, parts: bool = False) -> set[str]:
    """An option of a command line as texts to compare: the flag with its value, JSON in one form. With `parts` also the first of composed
    connectors, which is the mode's own: its line pasted back says what is derived, too."""
    found = read_json_object(option.value or "")
    if found is None:
        return {f"{option.name}={option.value}" if option.value is not None else option.name}
    forms = [found]
    if parts and found.get("kv_connector") == kv_compose.MULTI:
        first = kv_compose.first_of(found)
        forms += [first, {**first, "engine_id": found.get("engine_id")}]
    return {f"{option.name}={json.dumps(form, sort_keys=True)}" for form in forms}
