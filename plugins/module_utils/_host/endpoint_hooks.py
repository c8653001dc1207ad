# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks of endpoints on their own host: files that are checked and written whole, under a lock that all runs share, and what is told to the
program that reads them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
import typing as t
from dataclasses import dataclass, field

from .._core.base.errors import PdError
from .._core.base.printable import printable
from .._core.hooks.hook import Act, Hook
from .._core.hooks.texts import same_lines, text_after
from .._probes import command
from .haproxy import HAProxy

# Seconds for another run to end with the files of a hook, and for a command of the user's.
LOCKED, COMMAND = 60.0, 60.0
_MODE = 0o644
_LONGEST = 600
Result = dict[str, t.Any]


@dataclass
class Told:
    """What became of the acts of one hook: `failed` says why none of them is seen to be done; `diffs` are those of its files."""

    changed: bool = False
    failed: str = ""
    # By group, where not all of them failed.
    groups: dict[str, str] = field(default_factory=dict)
    diffs: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def carry_out(acts: t.Sequence[Act], check: bool = False) -> tuple[dict[str, Result], list[dict[str, str]]]:
    """(the result of each group by its name, the differences of files). The acts of a hook are one change of its files, one check and one
    reload. A hook that fails takes nothing from the others."""
    results: dict[str, Result] = {a.group: {"ok": True, "changed": False, "hooks": {}, "warnings": []} for a in acts}
    diffs: list[dict[str, str]] = []
    for name in dict.fromkeys(act.hook.name for act in acts):
        mine = [act for act in acts if act.hook.name == name]
        told = _one_hook(mine, check)
        diffs += told.diffs
        for act in mine:
            why = told.failed or told.groups.get(act.group, "")
            result = results[act.group]
            result["hooks"][name] = {"ok": not why, "changed": told.changed, **({"msg": why} if why else {})}
            result["changed"] = result["changed"] or told.changed
            result["warnings"] += told.warnings
            if why:
                msg = "; ".join(filter(None, [result.get("msg"), f"hook {name}: {why}"]))
                result |= {"ok": False, "failed": True, "msg": msg}
    return results, diffs


def _one_hook(acts: t.Sequence[Act], check: bool) -> Told:
    told = Told()
    try:
        with _locked(acts, check):
            files = _files(acts)
            changed = {path: texts for path, texts in files.items() if texts[0] != texts[1]}
            told.diffs = [_diff(path, *texts) for path, texts in changed.items()]
            told.changed = bool(changed)
            if not check and changed:
                _replace(changed, acts[-1].hook, told)
        if not check:
            _tell(acts, changed, told)
    except (PdError, OSError) as exc:
        told.failed = printable(exc, _LONGEST)
    return told


def _files(acts: t.Iterable[Act]) -> dict[str, tuple[str | None, str | None]]:
    """(the text that there is, the text that is to be) of each file, None for no file."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for act in acts:
        before, now = found.get(act.path) or (_read(act.path),) * 2
        found[act.path] = before, text_after(act, now)
    return found


def _diff(path: str, before: str | None, after: str | None) -> dict[str, str]:
    return {"before_header": path, "after_header": path, "before": before or "", "after": after or ""}


# -- files -----------------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked(acts: t.Sequence[Act], check: bool) -> t.Iterator[None]:
    """Hold the files of a hook: other groups, and other runs, change the same ones. The lock is beside them, where nothing reads it."""
    folders = sorted({os.path.dirname(act.path) for act in acts})
    with contextlib.ExitStack() as stack:
        for folder in folders if not check else ():
            os.makedirs(folder, exist_ok=True)
            handle = stack.enter_context(open(os.path.join(folder, ".inferops-pd.lock"), "a", encoding="utf-8"))
            _wait_for(handle, folder)
        yield


def _wait_for(handle: t.IO[str], folder: str) -> None:
    deadline = time.monotonic() + LOCKED
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise PdError(
                    f"Another run has the files in {folder} for {LOCKED:g} s. Run again once it has ended."
                ) from None
            time.sleep(0.1)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as exc:
        raise PdError(f"{path} is no text: it is none of ours. Move it away.") from exc


def _replace(changed: t.Mapping[str, tuple[str | None, str | None]], hook: Hook, told: Told) -> None:
    """Write them, and have the user's command check all that is loaded. What it refuses is put back: it must not be there when the program
    is started the next time."""
    for path, (_before, after) in changed.items():
        _write(path, after)
    if not hook.check:
        return
    why = _run(hook.check)
    if why:
        for path, (before, _after) in changed.items():
            _write(path, before)
        told.changed = False
        raise PdError(f"its check refuses the new {', '.join(changed)}, so what was there is there again: {why}")


def _write(path: str, text: str | None) -> None:
    """Whole or not at all, with the mode and owner of what it replaces."""
    if text is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    handle, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        mode = _MODE
        with contextlib.suppress(FileNotFoundError):
            was = os.stat(path)
            mode = stat.S_IMODE(was.st_mode)
            if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(temporary, was.st_uid, was.st_gid)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


# -- what reads them -------------------------------------------------------------------------------------------------------------------


def _run(argv: t.Sequence[str]) -> str:
    """Why a command of the user's failed, empty when it did not."""
    said = command.run(argv, COMMAND)
    if said is None:
        return f"there is no command {argv[0]} on this host"
    return printable(said.error, _LONGEST)


def _tell(acts: t.Sequence[Act], changed: t.Mapping[str, tuple[str | None, str | None]], told: Told) -> None:
    """Have what reads the files know: over its runtime API as far as that goes, else by a reload."""
    hook = acts[-1].hook
    if not hook.reload:
        return None
    if not (hook.kind == "haproxy" and hook.socket):
        # Also where the file says so already: nobody can see whether it was reloaded since.
        return _reload(hook)
    # Of a group that leaves one file for another only where it is now: the process has one server of it.
    acts = list({act.group: act for act in acts}.values())
    live = HAProxy(hook.socket, hook.backend)
    only_servers = all(same_lines(before, after) for before, after in changed.values())
    left = live.tell(acts, told.warnings)
    told.changed = told.changed or live.changed
    if left or not only_servers:
        _reload(hook)
        told.changed = True
        told.groups |= live.wait_for(acts)
    return None


def _reload(hook: Hook) -> None:
    why = _run(hook.reload)
    if why:
        raise PdError(f"its file is written, and it could not be reloaded: {why}")
