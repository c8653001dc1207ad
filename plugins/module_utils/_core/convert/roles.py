# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which launch is whose: prefill, decode or router, by what its own command line says, else by its name, else by the text it stands in; and
the mode that does what these command lines do."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..base.arguments import Arguments, read_json_object
from ..base.errors import PdError
from ..recipes.mode import Mode
from .found import FOREIGN_ROUTER, SGLANG, VLLM
from .launch import Launch, Note

ENGINES = (VLLM, SGLANG)
ROLES = ("prefill", "decode", "router")
_OF_KV_ROLE = {"kv_producer": "prefill", "kv_consumer": "decode"}
_KV_FLAG = ("kv-transfer-config",)
_SGLANG_MODE, _SGLANG_BACKEND = ("disaggregation-mode",), "disaggregation-transfer-backend"
# What SGLang takes where its flag is not written.
_SGLANG_DEFAULT = "mooncake"
_ASCEND = re.compile(r"ascend|HCCL_|ASCEND_", re.I)
WANTED = (
    "vllm serve, python -m vllm.entrypoints.openai.api_server, python -m sglang.launch_server, alone or in a script, a docker run line,"
    " a compose file or a systemd unit"
)


@dataclass
class Roles:
    """The launch of each role; how many of a role the text starts; and what was noted on the way."""

    launch: dict[str, Launch] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)


def connector_of(launch: Launch) -> dict[str, t.Any] | None:
    """The KV connector that a launch of vLLM writes, JSON or dotted; None where it has none that can be read."""
    arguments = Arguments(launch.words)
    written = read_json_object(arguments.value(_KV_FLAG) or "")
    dotted = {
        o.name.partition(".")[2].replace("-", "_"): o.value
        for o in arguments.options
        if o.name.startswith("kv-transfer-config.")
    }
    return {**(written or {}), **dotted} or None


def role_of(launch: Launch) -> str | None:
    """What a launch says of itself."""
    if launch.program not in ENGINES:
        return "router"
    arguments = Arguments(launch.words)
    mode = arguments.value(_SGLANG_MODE)
    if mode in ("prefill", "decode"):
        return mode
    # What a script makes by a function of its own is no JSON, and may say it all the same.
    words = re.findall("kv_producer|kv_consumer", arguments.value(_KV_FLAG) or "")
    told = str((connector_of(launch) or {}).get("kv_role") or (words[0] if len(set(words)) == 1 else ""))
    if told in _OF_KV_ROLE:
        return _OF_KV_ROLE[told]
    named = [role for role in ROLES[:2] if re.search(role, launch.label, re.I)]
    return named[0] if len(named) == 1 else None


def assign(texts: t.Mapping[str, t.Sequence[Launch]], notes: t.Iterable[Note] = ()) -> Roles:
    """The roles of all launches. `texts` has those of each text: of prefill, decode, router, or of all of them ("all"); `notes` are what
    has been noted before."""
    roles = Roles(notes=list(notes))
    mine: dict[str, list[Launch]] = {role: [] for role in ROLES}
    open_ones: list[Launch] = []
    for origin in (*ROLES, "all"):
        for launch in texts.get(origin, ()):
            told = role_of(launch)
            role = told or (origin if origin in ROLES[:2] else None)
            if role is None:
                open_ones.append(launch)
            elif origin in ROLES[:2] and role in ROLES[:2] and role != origin:
                why = f"the text is {origin}'s, and this command says that it is {role}'s: it is left out"
                roles.notes.append(Note(origin, launch.line, launch.program, "decide", why))
            else:
                mine[role].append(launch)
    for role in ROLES[:2]:
        if not mine[role] and open_ones:
            mine[role].append(open_ones.pop(0))
            why = f"no flag says whose it is: taken as {role}, in the order of the text"
            roles.notes.append(Note(role, mine[role][0].line, mine[role][0].program, "decide", why))
    for role in ROLES:
        if mine[role]:
            roles.launch[role], roles.count[role] = mine[role][0], len(mine[role])
    _check(roles, texts)
    return roles


def _check(roles: Roles, texts: t.Mapping[str, t.Sequence[Launch]]) -> None:
    missing = [role for role in ROLES[:2] if role not in roles.launch]
    if missing:
        found = [launch for launches in texts.values() for launch in launches if launch.program in ENGINES]
        where = (
            "nothing that starts an engine"
            if not found
            else f"{len(found)} command{'s' if len(found) > 1 else ''} of engines"
        )
        raise PdError(
            f"There is no command of {' and none of '.join(missing)}: {where} was found. What is read: {WANTED}."
        )
    programs = {roles.launch[role].program for role in ROLES[:2]}
    if len(programs) > 1:
        raise PdError(
            f"prefill starts {roles.launch['prefill'].program} and decode {roles.launch['decode'].program}: a mode has one engine. Write"
            " the spec by hand, with mode custom."
        )


# -- the mode ----------------------------------------------------------------------------------------------------------------------------


def mode_of(roles: Roles, modes: t.Mapping[str, Mode], wanted: str | None) -> Mode:
    """The mode that does what the command lines do, or the one that is `wanted`; what does not fit is noted."""
    if wanted:
        if wanted not in modes:
            raise PdError(f"There is no mode {wanted!r}. Modes: {', '.join(sorted(modes))}.")
        return modes[wanted]
    program = roles.launch["prefill"].program
    of_engine = {name: mode for name, mode in modes.items() if mode.backend == program}
    words = _transports(roles) or _in_text(roles, of_engine.values())
    for mode in of_engine.values():
        if words & _names(mode):
            return mode
    # Whose accelerators they are, the text may say by its variables.
    vendor = (
        "ascend"
        if _ASCEND.search(" ".join((*roles.launch["prefill"].words, *(v.name for v in roles.launch["prefill"].env))))
        else "nvidia"
    )
    chosen = next((m for m in of_engine.values() if m.preferred and vendor in m.vendors), None) or next(
        iter(of_engine.values()), None
    )
    if chosen is None:
        raise PdError(f"No mode is for {program}. Modes: {', '.join(sorted(modes))}.")
    told = (
        f"no mode moves the KV cache by {', '.join(sorted(words))}"
        if words
        else "no line says how the KV cache is moved"
    )
    roles.notes.append(Note("", 0, "mode", "decide", f"{told}: {chosen.name} is {chosen.summary}"))
    return chosen


def _in_text(roles: Roles, modes: t.Iterable[Mode]) -> set[str]:
    """Connectors of modes that the text names somewhere, where no command line can be read to name one."""
    text = "\n".join(roles.launch[role].text for role in ROLES[:2])
    return {
        name for mode in modes for name in _names(mode) if mode.connector and re.search(rf"\b{re.escape(name)}\b", text)
    }


def _transports(roles: Roles) -> set[str]:
    """What the launches of engines name as what moves the KV cache."""
    found: set[str] = set()
    for role in ROLES[:2]:
        launch = roles.launch[role]
        if launch.program == SGLANG:
            written = Arguments(launch.words).value([_SGLANG_BACKEND])
            found |= {written} if written else set()
            continue
        connector = connector_of(launch) or {}
        extra = connector.get("kv_connector_extra_config")
        children = extra.get("connectors") if isinstance(extra, dict) else None
        for one in [c for c in children or () if isinstance(c, dict)] or [connector]:
            name = str(one.get("kv_connector") or "")
            # The same word in its own package, and in vLLM's.
            ascend = name == "MooncakeConnector" and "vllm_ascend" in str(one.get("kv_connector_module_path"))
            found |= {f"{name}V1" if ascend else name} if name else set()
    if not found and roles.launch["prefill"].program == SGLANG:
        found = {_SGLANG_DEFAULT}
    return found


def _names(mode: Mode) -> set[str]:
    """By which names a mode's transport goes: its connectors, or the value of SGLang's flag."""
    names = set(mode.connector.names) | set(mode.connector.variants.values()) if mode.connector else set()
    words = [word for given in mode.role_arguments.values() for word in given]
    return names | {word.partition("=")[2] for word in words if word.startswith(f"--{_SGLANG_BACKEND}=")}


def is_of_mode(launch: Launch, mode: Mode) -> bool:
    """Whether a router is the mode's own."""
    return mode.router is not None and launch.program != FOREIGN_ROUTER and launch.program == mode.router.dialect
