# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key that engines ask for, and what is before them shows: in a text each end has its own, in a spec both have one variable of the
vault. Keys are compared here, and come out in nothing."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..work import key
from .launch import Launch, Note
from .part import Part, vault

# Where an engine that knows no variable reads its key from, unless the text names a file.
KEY_FILE = "/etc/inferops-pd/engine.yml"


def variable_of(engine: Engine) -> str:
    """The secret of a spec that tells an engine's key: the engine's own, or the one that the collection reads in its place."""
    return engine.key_env[0] if engine.key_env else "SGLANG_API_KEY"


def settle(
    made: t.Mapping[str, Part], router: Launch | None, mode: Mode, engine: Engine
) -> tuple[dict[str, str], list[Note]]:
    """The secrets of the router, by variable and with the vault's, and what is to be said. `router` is the text's, where it is the mode's
    own. A part whose engine reads its key from a file alone gets that file."""
    asked = {role: part for role, part in made.items() if part.key is not None}
    notes: list[Note] = []
    if not engine.key_env:
        for part in asked.values():
            _by_file(part, engine)
    if len(asked) == 1:
        (role,), (other,) = asked, set(made) - set(asked)
        why = f"{role} asks for a key, and {other} serves everybody: write {variable_of(engine)} under engine.secrets, for both"
        notes.append(Note("", 0, "key", "decide", why))
    elif len({part.key for part in asked.values()}) > 1:
        why = (
            "prefill and decode ask for different keys, and a router shows both the same one: the spec has one for both. Choose it,"
            f" and put it into {vault(variable_of(engine))}"
        )
        notes.append(Note("", 0, "key", "decide", why))
    secrets, more = _of_router(asked, router, mode, engine)
    return secrets, [*notes, *more]


def _by_file(part: Part, engine: Engine) -> None:
    """An engine that reads no variable: its key in the file of its flags, and as a secret that the collection reads."""
    variable, flag = variable_of(engine), engine.config_flags[0]
    if variable not in part.secrets:
        part.secrets.append(variable)
    file = next((entry.partition("=")[2] for name, entry in part.args if name in engine.config_flags), "")
    if not file:
        file = KEY_FILE
        part.args.append((flag, f"--{flag}={file}"))
        if part.launch.image:
            part.launch = replace(part.launch, mounts=(*part.launch.mounts, f"{file}:{file}:ro"))
    why = (
        f"a command line is seen by everybody on the host, and {engine.backend} reads no variable: write `api-key: ` and the key"
        f" into {file} (--{flag}), of mode 0600, on each host, and the key into {vault(variable)}: by secrets.{variable} the"
        " collection has it"
    )
    part.note(part.key_flag, "decide", why)


class _Own(t.NamedTuple):
    """What the text gives the router: the key itself, empty where it has none, the flag or variable, and its line."""

    value: str
    what: str
    line: int


def _own(router: Launch | None, variable: str | None) -> _Own:
    flag = f"--{key.FLAG}"
    none = _Own("", "key", 0)
    if router is None:
        return none
    written = " ".join(key.of_flag(router.words))
    if written:
        return _Own(written, flag, router.line_of(flag))
    return next((_Own(v.value or f"${v.name}", v.name, v.line) for v in router.env if v.name == variable), none)


def _of_router(
    asked: t.Mapping[str, Part], router: Launch | None, mode: Mode, engine: Engine
) -> tuple[dict[str, str], list[Note]]:
    recipe = mode.router.key if mode.router else None
    own = _own(router, recipe.variable if recipe else None)
    if recipe is None or not (asked or own.value):
        return {}, []
    same = own.value in ("", *(part.key for part in asked.values()))
    if recipe.variable is None:
        return {}, [_handed_on(own, bool(asked), same)]
    from_vault = vault(variable_of(engine) if asked else recipe.variable)
    told = f"secrets: {recipe.variable}, out of {from_vault}" + (
        ": the engines are shown what they ask for" if asked else ""
    )
    notes = [Note("router", own.line, own.what if own.value else recipe.variable, "taken", told)]
    if asked and not same:
        why = f"it is not what the engines ask for: {from_vault} is one key for both ends"
        notes.append(Note("router", own.line, own.what, "decide", why))
    why = "the router asks clients for no key: put a proxy that does before it, and name that in endpoint.external_url (docs/spec.md)"
    return {recipe.variable: f"{{{{ {from_vault} }}}}"}, [*notes, Note("router", 0, "endpoint", "decide", why)]


def _handed_on(own: _Own, asked: bool, same: bool) -> Note:
    """Of a router that shows the engines what clients show: its own key would stand on its command line, and does nothing more."""
    if asked and same:
        return Note(
            "router", own.line, own.what, "recipe", "it hands on the key that clients show, and the engines ask for it"
        )
    why = (
        "the engines ask for another one"
        if asked
        else "the engines ask for none, and everybody on the host would see it"
    )
    way_out = "give the engines the key that clients are to show (docs/spec.md)"
    return Note("router", own.line, own.what, "decide", f"{why}: it is left out; {way_out}")
