# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that looks read and is not: whole command lines among the flags, what only a shell replaces.

No value is repeated here: any of them may hold a secret."""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ..base import braces
from ..base.arguments import is_flag, normal
from ..base.finding import Findings
from ..base.shell import expressions, instead, is_secret
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..spec.spec import Group, Role

# Programs that command lines begin with, behind variables and paths.
_PROGRAM = re.compile(
    r"(\S*/)?(vllm(-router)?|sglang|python[\d.]*|docker|podman|bash|sh|nohup|exec|sudo|numactl|uv|env|export)(\s|$)"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*(\s|$)")
_FLAG_INSIDE = re.compile(r"\s(--?[A-Za-z][\w.-]*)")


def check(group: Group, mode: Mode, engines: t.Mapping[str, Engine], findings: Findings) -> Group:
    """Where a role has a command of its own, its args may be a shell's.

    Returns the group with only the flags of each whole command line: they are judged with the others, and the rest is in no message."""
    roles = dict(group.roles)
    for role in group.roles.values():
        by_recipe = mode.router is not None if role.name == "router" else bool(mode.command)
        if role.command is None and by_recipe:
            kept = _check_lines(role, engines.get(role.name), findings)
            roles[role.name] = replace(role, args=tuple(kept.values()), entries=tuple(kept))
            _check_args_shell(role, findings)
        _check_env_shell(role, findings)
    return replace(group, roles=roles)


# -- whole command lines ---------------------------------------------------------------------------------------------------------------


def _check_lines(role: Role, engine: Engine | None, findings: Findings) -> dict[str, str]:
    """The entries of `args` by their places, whole command lines cut to their flags, and without what is no flag's."""
    kept = dict(zip(role.entries, role.args))
    flags = {normal(s) for spellings in engine.spellings.values() for s in spellings if len(s) > 2} if engine else set()
    before = ""
    for place, entry in zip(role.entries, role.args):
        text = entry.replace("\\\n", " ").strip()
        word = re.match(r"[A-Za-z][\w-]+(?=[= ])", text)
        if word and normal(word.group()) in flags:
            # What follows may be a secret.
            findings.error(
                "bad-value",
                f"{place}: {word.group()} has no dashes, and would be a value of the flag before it.",
                f"Did you mean --{word.group()}?",
                [role.name],
            )
        elif text and not is_flag(text) and not _is_value(text, before, engine):
            _tell(role, place, text, before, engine, findings)
            inside = _FLAG_INSIDE.search(text)
            if inside:
                kept[place] = text[inside.start() :]
            else:
                del kept[place]
        before = text or before
    return kept


def _is_value(text: str, before: str, engine: Engine | None) -> bool:
    """Whether an entry that is no flag is the value of the entry before it."""
    inside = _FLAG_INSIDE.search(text)
    behind_flag = bool(before) and not (is_flag(before) and "=" in before.split()[0] and " " not in before)
    behind_flag = behind_flag and not _is_switch(before, engine)
    if text[0] in "{[\"'" and behind_flag:
        return True
    return behind_flag and not inside


def _is_switch(before: str, engine: Engine | None) -> bool:
    """Whether an entry is a flag alone that its engine is known to give no value."""
    flag = engine.flags.flag(before) if engine and engine.flags and is_flag(before) and " " not in before else None
    return flag is not None and flag.takes == "none"


def _tell(role: Role, place: str, text: str, before: str, engine: Engine | None, findings: Findings) -> None:
    inside = _FLAG_INSIDE.search(text)
    line = bool(_PROGRAM.match(text) or _ASSIGNMENT.match(text) or inside)
    if not line and before:
        why = (
            f"{before} before it takes no value"
            if _is_switch(before, engine)
            else "the flag before it has its value already"
        )
        findings.error(
            "unread-value",
            f"{place}: it is no flag, and {why}.",
            "Remove it, or write it behind the flag that it belongs to.",
            [role.name],
        )
        return
    words = len(text[: inside.start()].split()) if inside else len(text.split())
    count = "its first word is" if words == 1 else f"its first {words} words are"
    findings.error(
        "pasted-command-line",
        f"{place}: {count} no flag: args are the flags alone, since the recipe begins the command line.",
        (f"Cut it before {inside.group(1)}. " if inside else "Remove it. ")
        + "The model is the group's model, variables go under env. inferops.pd.convert makes a spec of whole command lines.",
        [role.name],
    )


# -- what only a shell replaces --------------------------------------------------------------------------------------------------------


def _check_args_shell(role: Role, findings: Findings) -> None:
    flag = ""
    for place, entry in zip(role.entries, role.args):
        for word in entry.replace("\\\n", " ").split():
            flag = word.partition("=")[0] if is_flag(word) else flag
        if braces.of_template(flag) and braces.has(entry):
            continue  # a template itself, and no file's name
        # A placeholder of ours, or what is none, is told where it is filled in.
        found = [one for one in expressions(entry) if f"${{{one}}}" not in entry]
        for one in dict.fromkeys(found):
            secret = is_secret(flag.lstrip("-")) and f"${one}" != entry.strip().rpartition("=")[2].rpartition(" ")[2]
            findings.error(
                "shell-text",
                f"{place}: {'a part of it' if secret else _shown(one, entry)} is a shell's, and no shell reads args: the engine would get"
                " it as it is written.",
                instead(one),
                [role.name],
            )


def _check_env_shell(role: Role, findings: Findings) -> None:
    for name, value in role.env.items():
        for one in dict.fromkeys(expressions(value)):
            if f"${{{one}}}" in value:
                continue
            findings.warning(
                "shell-text",
                f"{role.env_place(name)}: {'a part of it' if is_secret(name) else _shown(one, value)} is a shell's, and no shell reads env:"
                " the variable gets it as it is written.",
                instead(one),
                [role.name],
            )


def _shown(expression: str, text: str) -> str:
    """It as it is written in the text."""
    forms = (f"$({expression})", f"`{expression}`", f"${{{expression}}}")
    return next((form for form in forms if form in text), f"${expression}")
