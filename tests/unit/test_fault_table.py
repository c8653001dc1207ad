"""The table of faults is whole: every row has its kind, every kind its rows, and the documentation says the same."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from builders import ROOT
from faults import kinds, points
from faults.table import ROWS

DOC = Path(ROOT) / "docs" / "failures.md"


def test_rows_have_names_of_their_own():
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


def test_every_kind_has_a_row_and_every_row_its_kind():
    assert {row.kind for row in ROWS} == set(kinds.KINDS)


def test_every_point_is_one_that_a_run_comes_to():
    for row in ROWS:
        when, _colon, phase = row.at.partition(":")
        assert not row.at or (when in ("before", "during", "after") and phase in points.PHASES), row.name


@pytest.mark.parametrize("phase", points.PHASES)
def test_every_phase_is_the_name_of_a_task(phase):
    told = "\n".join(path.read_text() for path in Path(ROOT, "roles").glob("*/tasks/*.yml"))
    for name in points.PHASES[phase]:
        assert re.search(rf'- name: "?{re.escape(name)}', told), name


def test_the_documentation_has_the_table():
    """UPDATE_DOCS=1 writes it."""
    text = DOC.read_text()
    found = re.search(f"{kinds.BEGIN}\n(.*)\n{kinds.END}", text, re.S)
    assert found, "no table between the marks"
    if os.environ.get("UPDATE_DOCS"):
        DOC.write_text(text.replace(found.group(1), kinds.table()))
        return
    assert found.group(1) == kinds.table(), "run it with UPDATE_DOCS=1"
