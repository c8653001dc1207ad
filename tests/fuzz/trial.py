"""One input, thrown at its surface: it is answered or refused, the same way twice, soon, and without growing. What failed once is kept in
corpus/, one file each, and tried first."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import resource
import tempfile
import time
import typing as t

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError

from .inputs import Json
from .surfaces import Surface

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
# Of this process's own time, with room for a machine that does other things: what hangs takes many times as long.
SECONDS, SLACK = 0.5, 4
GROWTH = 64 * 2**20


def answer(surface: Surface, value: Json) -> str:
    """What the product makes of an input, as text; a refusal is an answer. Folders that were made for it have one name."""
    try:
        said = repr(surface.check(copy.deepcopy(value)))
    except PdError as exc:
        said = f"refused: {exc}"
    return re.sub(re.escape(tempfile.gettempdir()) + r"/\w+", "FOLDER", said)


def attempt(surface: Surface, value: Json, measured: bool = True) -> None:
    """Raises for what must not happen. `measured` is whether time and memory count."""
    before, started = _most_memory(), time.process_time()
    first = answer(surface, value)
    took, grown = time.process_time() - started, _most_memory() - before
    assert first == answer(surface, value), "answered differently the second time"
    if measured:
        assert took < SECONDS * SLACK, f"took {took:.1f} s"
        assert grown < GROWTH, f"took {grown / 2**20:.0f} MiB"


def _most_memory() -> int:
    """The most that this process has ever held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def keep(surface: Surface, value: Json, why: str) -> str:
    """Keep an input that failed. Returns its file."""
    text = json.dumps({"surface": surface.name, "why": why, "input": value}, indent=1)
    digest = hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
    path = os.path.join(CORPUS, f"{surface.name}-{digest}.json")
    with open(path, "w", encoding="ascii") as handle:
        handle.write(text + "\n")
    return path


def kept() -> dict[str, dict[str, t.Any]]:
    """What failed once, by file."""
    found = {}
    for name in sorted(os.listdir(CORPUS)):
        if name.endswith(".json"):
            with open(os.path.join(CORPUS, name), encoding="ascii") as handle:
                found[name] = json.load(handle)
    return found
