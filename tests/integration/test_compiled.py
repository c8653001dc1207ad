# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests' environments keep of compiled sources (tests/env/pd_compiled.py) is never another source's."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.floor]
FOLDER = Path(sys.prefix, "compiled")


def said(folder: Path, name: str, source: str) -> str:
    """What a module prints that is imported out of a zip file, as Ansible's modules are, by a new process."""
    archive = folder / f"{name}.zip"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("thing.py", source)
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); import thing; print(thing.where())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def source(answer: int) -> str:
    # Of this run alone: nothing of it has been kept.
    return f"# {os.getpid()}\nMARK = {answer}\ndef where():\n    return MARK, where.__code__.co_filename\n"


def test_a_source_is_compiled_once_and_each_time_names_its_own_file(tmp_path: Path) -> None:
    before = set(FOLDER.iterdir()) if FOLDER.exists() else set()
    assert said(tmp_path, "one", source(1)) == f"(1, '{tmp_path}/one.zip/thing.py')\n"
    kept = set(FOLDER.iterdir()) - before
    assert kept, "the environment does not keep what it compiled: make env-tools env-floor"
    assert said(tmp_path, "two", source(1)) == f"(1, '{tmp_path}/two.zip/thing.py')\n"
    assert said(tmp_path, "one", source(2)) == f"(2, '{tmp_path}/one.zip/thing.py')\n"
    for file in kept:
        if file.exists() and b"MARK" in file.read_bytes():
            file.write_bytes(b"cut")
    assert said(tmp_path, "three", source(1)) == f"(1, '{tmp_path}/three.zip/thing.py')\n"


def test_an_error_is_shown_with_its_line(tmp_path: Path) -> None:
    broken = f"# {os.getpid()} broken\ndef where():\n    raise ValueError('so')\n"
    for name in ("one", "two"):
        shown = said(tmp_path, name, broken)
        assert f'File "{tmp_path}/{name}.zip/thing.py", line 3, in where' in shown
        assert "ValueError: so" in shown


def test_a_folder_that_cannot_be_written_is_no_error() -> None:
    code = (
        "import pd_compiled, zipimport; pd_compiled.FOLDER = '/proc/nowhere';"
        "print(eval(zipimport.compile('6 * 7', 'x', 'eval', 0, True)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "42\n", done.stderr
