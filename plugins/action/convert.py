# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of convert: command lines that people have, as the spec of a group. It asks no host."""

from __future__ import annotations

import copy
import hashlib
import os
import re
import tempfile
import typing as t
from dataclasses import replace

import yaml

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import as_text
from ..module_utils._core.convert import roles, spec
from ..module_utils._core.convert.launch import Launch, Note
from ..plugin_utils._action import PdAction
from ..plugin_utils._batch import check_variables
from ..plugin_utils._pasted import launches_of
from ..plugin_utils._plain import to_plain

TEXTS = (*roles.ROLES, "all")
_WIDTH = 140
_BY = "# Written by inferops.pd.convert"
_WORDS = {"taken": "taken", "recipe": "done already", "dropped": "left out", "decide": "TO DECIDE"}


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str", "required": True},
        **{text: {"type": "str"} for text in TEXTS},
        "src": {"type": "dict", "default": {}, "options": {text: {"type": "str"} for text in TEXTS}},
        "hosts": {"type": "dict", "default": {}, "options": {role: {"type": "str"} for role in roles.ROLES}},
        "mode": {"type": "str"},
        "dest": {"type": "str"},
        "force": {"type": "bool", "default": False},
        "show": {"type": "bool", "default": False},
        "modes_path": {"type": "list", "elements": "path", "default": []},
    }

    def act(self) -> dict[str, t.Any]:
        check_variables(self._task, self.variable)
        found, notes = self._launches()
        catalogue = self.catalogue()
        made = spec.convert(roles.assign(found, notes), catalogue.modes, catalogue.engine, self.args["mode"] or None)
        self._fill_hosts(made.spec)
        notes = [note for note in made.notes if not (note.what == "hosts" and self._hosts().get(note.role))]
        name = str(self.args["name"])
        findings = self.verdict(name, _probe(made.spec)).findings
        text = written(name, made.spec, notes)
        before, changed = self._write(text) if self.args["dest"] else ("", False)
        result = {
            "changed": changed,
            "spec": made.spec,
            "yaml": text,
            "notes": [note.to_plain() for note in notes],
            "findings": findings.to_plain(),
            "valid": not findings.errors,
        }
        if self.args["show"]:
            self._display.display(told(name, notes, result, self.args["dest"] or "", self._task.check_mode))
        if self.args["dest"]:
            place = os.path.abspath(os.path.expanduser(self.args["dest"]))
            result |= {
                "dest": place,
                "diff": {"before": before, "after": text, "before_header": place, "after_header": place},
            }
        return result

    def _launches(self) -> tuple[dict[str, list[Launch]], list[Note]]:
        """The launches of each text, and what was noted of the rest of it."""
        found: dict[str, list[Launch]] = {}
        notes: list[Note] = []
        for what in TEXTS:
            text, path = self.args[what], (self.args["src"] or {}).get(what)
            if text and path:
                raise PdError(f"{what} is given as text and as src.{what}. Keep one.")
            text = _read(path, what) if path else to_plain(text)
            if text and text.strip():
                found[what], more = launches_of(text, what)
                notes += [replace(note, role=what if what in roles.ROLES else "") for note in more]
        if not found:
            raise PdError(
                "There is nothing to convert. Give prefill and decode (and router), or all, as text, or as files under src."
                f" What is read: {roles.WANTED}."
            )
        return found, notes

    def _hosts(self) -> dict[str, str]:
        return {role: pattern for role, pattern in (to_plain(self.args["hosts"]) or {}).items() if pattern}

    def _fill_hosts(self, made: dict[str, t.Any]) -> None:
        for role, pattern in self._hosts().items():
            made["roles"][role]["hosts"] = pattern

    def _write(self, text: str) -> tuple[str, bool]:
        """(what the file had, whether it is another one now). A file that is not this action's, or was edited since, stays."""
        path = os.path.abspath(os.path.expanduser(self.args["dest"]))
        if not os.path.isdir(os.path.dirname(path)):
            raise PdError(
                f"dest: there is no folder {os.path.dirname(path)}. Make it first: mkdir -p {os.path.dirname(path)}"
            )
        before = _read(path, "dest") if os.path.lexists(path) else ""
        if before == text:
            return before, False
        if before and not untouched(before) and not self.args["force"]:
            raise PdError(
                f"dest: {path} is there, and was not written by convert, or was edited since. Give another file, or force: true"
                " (-e pd_convert_force=true) to have it replaced."
            )
        if not self._task.check_mode:
            _replace(path, text)
        return before, True


def _read(path: str, what: str) -> str:
    """A file of the controller, whole."""
    path = os.path.abspath(os.path.expanduser(path))
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except OSError as exc:
        raise PdError(f"{what}: {path} cannot be read: {exc.strerror}.") from exc
    except UnicodeDecodeError as exc:
        raise PdError(f"{what}: {path} is no text.") from exc


def _replace(path: str, text: str) -> None:
    """Write a file so that it is the old one or the new one at any moment, with the rights that it had."""
    folder = os.path.dirname(path)
    try:
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
        handle, made = tempfile.mkstemp(dir=folder, prefix=".pd-convert-")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(made, mode)
        os.replace(made, path)
    except OSError as exc:
        raise PdError(f"dest: {path} cannot be written: {exc.strerror}.") from exc


# -- what is written and told --------------------------------------------------------------------------------------------------------------


def written(name: str, made: t.Mapping[str, t.Any], notes: t.Iterable[Note]) -> str:
    """The file: the group in a variable of its own, which is merged with pd_groups; what a person must decide above it; and a digest by
    which an edit is seen."""
    variable = "pd_groups_" + re.sub(r"\W", "_", name)
    body = yaml.safe_dump({variable: {name: made}}, sort_keys=False, width=_WIDTH, allow_unicode=True)
    decide = [f"#   {note.role or 'group'}: {note.what}: {note.why}" for note in notes if note.outcome == "decide"]
    head = ["# To decide, and then to delete from here:", *dict.fromkeys(decide)] if decide else []
    rest = "\n".join([*head, "---", body])
    return f"{_BY} ({_digest(rest)}). Edit it: it is not written again without force.\n{rest}"


def untouched(text: str) -> bool:
    """Whether a file is as convert has written it."""
    first, _end, rest = text.partition("\n")
    return first.startswith(f"{_BY} ({_digest(rest)})")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _probe(made: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The spec as the inventory will have it, secrets evaluated: validate is to judge all of it."""
    found = copy.deepcopy(dict(made))
    for place in (found.get("engine") or {}, *found["roles"].values()):
        if place.get("secrets"):
            place["secrets"] = dict.fromkeys(place["secrets"], "evaluated")
    return found


def told(name: str, notes: t.Sequence[Note], result: t.Mapping[str, t.Any], dest: str, check: bool) -> str:
    """The notes as a table, line by line, then the spec, or where it was written, and what validate says of it."""
    rows = [(note.role or "-", str(note.line or "-"), note.what, _WORDS[note.outcome], note.why) for note in notes]
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    table = ["  ".join([*(row[c].ljust(widths[c]) for c in range(4)), row[4]]).rstrip() for row in rows]
    decide = sum(note.outcome == "decide" for note in notes)
    fate = "would be written" if result["changed"] and check else "written" if result["changed"] else "is as it was"
    ends = [
        f"{name}: {dest} {fate}." if dest else result["yaml"],
        f"{decide} to decide. inferops.pd.validate "
        + ("finds no error." if result["valid"] else "refuses it as it is:"),
    ]
    findings = as_text(result["findings"])
    return "\n".join([*table, "", *ends, *([findings] if findings else [])])
