# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of runtimes as one nested value, {runtime: {option: value}}: made of host variables, carried to the host, and read there."""

from __future__ import annotations

import typing as t

from ..base.errors import PdError
from .table import ON_HOSTS, RUNTIMES
from .traits import Option

NAME = "runtime_options"
# What somebody leaves empty counts as left out.
_NOTHING = (None, "")

Options = dict[str, dict[str, t.Optional[str]]]


def of_variables(
    value: t.Callable[[str], object], given: t.Mapping[str, t.Any] | None = None
) -> dict[str, dict[str, object]]:
    """The nested value of one host: each option as `given` says it, else as the host's variable does. What is left out is not in it."""
    found = {
        name: dict(options) if isinstance(options, t.Mapping) else options for name, options in (given or {}).items()
    }
    for one in RUNTIMES:
        its = found.setdefault(one.name, {})
        for option in one.options if isinstance(its, dict) else ():
            if its.get(option.name) in _NOTHING:
                its[option.name] = value(option.variable)
            if its[option.name] in _NOTHING:
                del its[option.name]
    return {name: options for name, options in found.items() if options}


def read(given: t.Mapping[str, t.Any] | None) -> Options:
    """Every option of every runtime, with its default where it is left out. PdError for what is none, or cannot be one."""
    written = given or {}
    _known(NAME, written, ON_HOSTS)
    found: Options = {}
    for one in (one for one in RUNTIMES if one.name in ON_HOSTS):
        where, its = f"{NAME}.{one.name}", written.get(one.name) or {}
        if not isinstance(its, t.Mapping):
            raise PdError(f"{where}: {its!r} is no dictionary of options by name.")
        _known(where, its, [option.name for option in one.options])
        found[one.name] = {option.name: _value(where, option, its.get(option.name)) for option in one.options}
    return found


def _known(where: str, written: t.Mapping[str, t.Any], names: t.Sequence[str]) -> None:
    for name in written:
        if name not in names:
            raise PdError(f"{where}: there is no {name!r}. There is {', '.join(names) or 'nothing'}.")


def _value(where: str, option: Option, value: object) -> str | None:
    if value in _NOTHING:
        return option.default
    if isinstance(value, (t.Mapping, list, tuple, bool)):
        raise PdError(f"{where}.{option.name} (host variable {option.variable}): {value!r} is no text.")
    text = str(value)
    if option.choices and text not in option.choices:
        raise PdError(
            f"{where}.{option.name} (host variable {option.variable}): {text!r} is none of {', '.join(option.choices)}."
        )
    return text
