# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain values: what reaches a plugin on the controller is tagged text and lazy dictionaries; the core gets what JSON has."""

from __future__ import annotations

import json
import re
import typing as t


def to_plain(value: t.Any) -> t.Any:
    """`value` as plain dictionaries, lists, text and numbers. Vault text becomes its plain text: keep such values out of results."""
    return json.loads(json.dumps(value, default=_other))


def sealed(values: t.Mapping[str, t.Any] | None) -> str | None:
    """Secrets as one text of JSON, which a module is given instead of a dictionary; None without any.

    Ansible takes each value of a hidden option out of all that a module returns. One of a dictionary may be a word of it, a "0" or a
    "prefill"; this text is in no result."""
    return json.dumps(values) if values else None


def _other(value: t.Any) -> t.Any:
    if isinstance(value, t.Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return str(value)


def names_list(value: t.Any) -> list[str]:
    """A list of names, given as a list or as text with commas, or with a line for each; so may be each entry of a list."""
    entries = [value] if isinstance(value, str) else value or ()
    return [part.strip() for one in entries for part in re.split(r"[,\n]", str(one)) if part.strip()]
