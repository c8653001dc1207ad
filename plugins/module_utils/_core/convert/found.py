# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What starts an engine or a router, found in the words of a command: `vllm serve`, `python -m sglang.launch_server`,
`docker run IMAGE ...`, `bash -c "..."` around any of them."""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass, replace

from ..base.arguments import is_flag
from . import container
from .launch import Launch, Note, Variable, secret_name, secret_value
from .script import Statement, statements

VLLM, SGLANG = "vLLM", "SGLang"
# Routers that are no recipe's: their port is all that is taken.
FOREIGN_ROUTER = "another router"
_SHELLS = re.compile(r"(\S*/)?(ba|da|z)?sh")
_PYTHON = re.compile(r"(\S*/)?python[\d.]*|uv|pypy\d*")
_CONTAINERS = re.compile(r"(\S*/)?(docker|podman|nerdctl)")
# Python modules, and scripts by the end of their name, that are the process itself.
_MODULES: tuple[tuple[str, str], ...] = (
    (r"vllm\.entrypoints\.openai\.api_server|vllm\.entrypoints\.api_server|dynamo\.vllm", VLLM),
    (r"vllm\.entrypoints\.cli\.main", VLLM),
    (r"sglang\.launch_server|sglang\.srt\.entrypoints\.\w+|dynamo\.sglang", SGLANG),
    (r"sglang_router\.launch_router|sglang_router", "sglang-router"),
    (r"vllm_router\.launch_router|vllm_router", "vllm-router"),
    (r"sglang\.srt\.disaggregation\.\w+|sgl_pdlb\.\w+|dynamo\.frontend|vllm_router\.app", FOREIGN_ROUTER),
)
_SCRIPTS: tuple[tuple[str, str], ...] = (
    (r"\S*api_server\.py", VLLM),
    (r"\S*launch_server\.py", SGLANG),
    (r"\S*(proxy|load_balanc|router|lb)\w*\.py", FOREIGN_ROUTER),
)
_PROGRAMS: tuple[tuple[str, str], ...] = (
    (r"(\S*/)?vllm-router", "vllm-router"),
    (r"(\S*/)?(sglang-router|smg|sgl-router)", "sglang-router"),
    (r"(\S*/)?(pd-sidecar|routing-sidecar|litellm|mini_lb)", FOREIGN_ROUTER),
)
# A shell in a shell in a container: deeper is no line that a person wrote.
_DEEPEST = 3
# Images that start an engine by themselves, by their name.
_IMAGES: tuple[tuple[str, str], ...] = ((r".*vllm.*", VLLM),)


@dataclass(frozen=True)
class _Found:
    program: str
    executable: str
    words: tuple[str, ...]
    # Words in front of it that are no variables: numactl, nohup.
    before: tuple[str, ...]


def of_script(text: str) -> list[Launch]:
    """The launches of a script, or of command lines, in their order."""
    return [one for statement in statements(text) for one in _of_statement(statement, text)]


def of_container(made: container.Container, text: str, line: int = 0, label: str = "", depth: int = 0) -> list[Launch]:
    """What a container starts: its command, or what its image starts by itself with these words."""
    words = list(made.command)
    inner = _of_words(words, {}, text, line, depth)
    if not inner:
        program = next((name for form, name in _IMAGES if re.fullmatch(form, (made.image or "").lower())), "")
        if not program or (words and not is_flag(words[0]) and program != VLLM):
            return []
        inner = [Launch(program, tuple(words), line=line, text=text)]
    return [
        replace(
            one,
            words=_filled(one.words, made.env),
            env=(*made.env, *one.env),
            image=made.image,
            mounts=made.mounts,
            devices=made.devices,
            gpus=made.gpus if made.gpus is not None else one.gpus,
            label=label or one.label,
        ).noted(
            *(
                replace(note, line=one.line_of(note.what) if note.what.startswith("--") else note.line)
                for note in made.notes
            )
        )
        for one in inner
    ]


def _filled(words: t.Sequence[str], env: t.Sequence[Variable]) -> tuple[str, ...]:
    """Words with a container's own variables in them: `$(NAME)` as Kubernetes has it, `$NAME` as a shell in it would. Secrets stay out."""
    values = {v.name: v.value for v in env if v.value and not secret_name(v.name)}
    form = re.compile(r"\$\((\w+)\)|\$\{(\w+)\}|\$(\w+)")
    return tuple(form.sub(lambda m: values.get(m[1] or m[2] or m[3]) or m[0], word) for word in words)


def _of_statement(statement: Statement, text: str, depth: int = 0) -> list[Launch]:
    launches = _of_words(list(statement.words), statement.env, text, statement.line, depth)
    # What a script exports and writes into its lines itself is the script's own.
    exported = (
        []
        if not launches
        else [
            Variable(name, value, at)
            for name, (value, at) in statement.exported.items()
            if name not in _referenced(text)
        ]
    )
    return [replace(one, env=(*exported, *one.env)) for one in launches]


@functools.lru_cache(maxsize=8)
def _referenced(text: str) -> frozenset[str]:
    """The variables that a text names."""
    return frozenset(re.findall(r"\$\{?([A-Za-z_]\w*)", text))


def _of_words(words: list[str], env: t.Mapping[str, str], text: str, line: int, depth: int = 0) -> list[Launch]:
    if depth > _DEEPEST:
        return []
    own = [Variable(name, value, line) for name, value in env.items()]
    for number, word in enumerate(words):
        rest = words[number + 1 :]
        if _SHELLS.fullmatch(word):
            script = next((rest[n + 1] for n, w in enumerate(rest[:-1]) if re.fullmatch(r"-\w*c", w)), None)
            if script is not None:
                inner = [one for s in statements(script, env) for one in _of_statement(s, text, depth + 1)]
                return [replace(one, line=line, env=(*own, *one.env)) for one in inner]
        if _CONTAINERS.fullmatch(word) and "run" in rest[:3]:
            return of_container(container.of_run(rest[rest.index("run") + 1 :], line), text, line, depth=depth + 1)
        if re.fullmatch(r"[A-Za-z_]\w*=.*", word, re.S) and "env" in words[:number]:
            name, _equals, value = word.partition("=")
            own.append(Variable(name, value, line))
    found = _program(words)
    if found is None:
        # What ssh, tmux and the like are given to run stands in one word.
        lines = [word for word in words if " " in word and _ENGINE_LINE.search(word)]
        return [
            replace(one, line=line)
            for word in lines
            for s in statements(word)
            for one in _of_statement(s, text, depth + 1)
        ]
    kept = tuple(word for word in found.words if not _GIVEN.fullmatch(word))
    made = Launch(found.program, kept, found.executable, tuple(own), line=line, text=text)
    if len(kept) < len(found.words):
        made = made.noted(
            Note("", line, "$@", "decide", "what the script is given is not known: write what it adds under args")
        )
    wrapper = next((word for word in found.before if _WRAPPERS.fullmatch(word)), None)
    return [made.noted(Note("", line, wrapper, "dropped", "the recipe begins the command line")) if wrapper else made]


_ENGINE_LINE = re.compile(r"\bvllm serve\b|\bsglang\.launch_server\b|\bvllm\.entrypoints\b")
# What a script hands on of its own arguments, or of a list that it does not set.
_GIVEN = re.compile(r"\$[@*]|\$\{([@*](:\d+)?|[A-Za-z_]\w*\[[@*]\])\}")
# Programs that start another one, and what they are for is told.
_WRAPPERS = re.compile(
    r"(\S*/)?(numactl|taskset|stdbuf|timeout|ionice|nice|chrt|mpirun|mpiexec|srun|torchrun|nsys|ray|perf|strace)"
)


def _program(words: t.Sequence[str]) -> _Found | None:
    for number, word in enumerate(words):
        rest, before = tuple(words[number + 1 :]), tuple(words[:number])
        if re.fullmatch(r"(\S*/)?vllm", word) and rest[:1] == ("serve",):
            return _Found(VLLM, word if "/" in word else "", rest[1:], before)
        if re.fullmatch(r"(\S*/)?sglang", word) and rest[:1] == ("serve",):
            return _Found(SGLANG, "", rest[1:], before)
        for form, program in _PROGRAMS:
            if re.fullmatch(form, word):
                return _Found(program, word if "/" in word else "", rest, before)
        if not _PYTHON.fullmatch(word):
            continue
        # `-m MODULE`, or a script, behind flags of Python itself.
        for at, one in enumerate(rest):
            named = rest[at + 1] if one == "-m" and at + 1 < len(rest) else None
            table = _MODULES if named else _SCRIPTS
            inner = next((name for form, name in table if re.fullmatch(form, named or one)), None)
            if inner:
                behind = rest[at + 2 if named else at + 1 :]
                behind = behind[1:] if behind[:1] == ("serve",) else behind
                executable = word if "/" in word and inner == SGLANG else ""
                return _Found(inner, executable, behind, before)
            if named or not (is_flag(one) or one == "run"):
                break
    return None


# -- what starts nothing of a group ------------------------------------------------------------------------------------------------------

_CONTROL = re.compile(
    r"\[{1,2}|fi|done|esac|for|while|until|if|elif|case|function|return|exit|set|shift|trap|wait|sleep|echo|printf|local|read|true|false|:|\}|\)|cd|"
    r"kill|pkill|mkdir|touch|tee|cat|disown|ulimit|\]{1,2}|test|break|continue|unset|shopt|let|eval|pushd|popd|[A-Za-z_]\w*\+?=.*",
    re.S,
)
_SOURCES = ("source", ".")


def left_out(text: str) -> list[Note]:
    """A note for each command of a script that starts neither engine nor router, by its program: once, and without its words."""
    notes: dict[str, Note] = {}
    for statement in statements(text):
        word = statement.words[0]
        if (
            _of_statement(statement, text)
            or _CONTROL.fullmatch(word)
            or not re.fullmatch(r"[\w./+-]{1,40}", word)
            or secret_value(word)
        ):
            continue
        if is_flag(word):
            why = "no command begins with a flag: a comment, or a missing backslash, ends the line above it, and a shell would leave it out"
            note = Note("", statement.line, word.partition("=")[0], "decide", why)
        elif word in _SOURCES:
            note = Note(
                "", statement.line, word, "decide", "another file, which is not read: what it sets is not known here"
            )
        else:
            note = Note("", statement.line, word, "dropped", "it starts neither an engine nor a router")
        notes.setdefault(word, note)
    return list(notes.values())
