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


def _of_router(
    asked: t.Mapping[str, Part], router: Launch | None, mode: Mode, engine: Engine
) -> tuple[dict[str, str], list[Note]]:
    recipe = mode.router.key if mode.router else None
    if recipe is None:
        return {}, []
    flag, own = f"--{key.FLAG}", " ".join(key.of_flag(router.words)) if router else ""
    line = router.line_of(flag) if router and own else 0
    for variable in router.env if router and not own else ():
        if variable.name == recipe.variable:
            flag, own, line = variable.name, variable.value or f"${variable.name}", variable.line
    same = not own or own in {part.key for part in asked.values()}
    from_vault = vault(variable_of(engine) if asked else recipe.variable or "")
    if recipe.variable is None:
        if not own:
            return {}, [
                Note("router", 0, "key", "recipe", "it hands on the key that clients show, and the engines ask for")
            ] if asked else []
        if asked and same:
            return {}, [
                Note(
                    "router", line, flag, "recipe", "the engines ask for it, and the router hands on what clients show"
                )
            ]
        why = (
            "the engines ask for another key"
            if asked
            else "the engines ask for none, and it would be seen by everybody on the host"
        )
        return {}, [
            Note(
                "router",
                line,
                flag,
                "decide",
                f"{why}: it is left out. Give the engines the key that clients are to show (docs/spec.md)",
            )
        ]
    if not (asked or own):
        return {}, []
    told = f"secrets: {recipe.variable}, out of {from_vault}" + (
        ", as the engines' own: that is what they are shown" if asked else ""
    )
    notes = [Note("router", line, flag if own else recipe.variable, "taken", told)]
    if not same and asked:
        notes.append(
            Note(
                "router", line, flag, "decide", f"it is not what the engines ask for: {from_vault} is one key for both"
            )
        )
    why = "the router asks clients for no key: put a proxy that does before it, and name that in endpoint.external_url (docs/spec.md)"
    return {recipe.variable: f"{{{{ {from_vault} }}}}"}, [*notes, Note("router", 0, "endpoint", "decide", why)]
