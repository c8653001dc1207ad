# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errands' code as one file that Python runs: what an errand imports of ours, found in the sources that this module came with. The
same sources make the same bytes, so that its digest is its name."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import io
import typing as t
import zipfile

from .._core.base import sizes
from .._core.base.errors import PdError
from .._core.cluster.errand_pod import CODE_FILE
from .._errand import run

# What a ConfigMap may hold.
LIMIT = 2**20
_ROOT = run.__name__.rpartition("._errand.")[0]
_NAME = "inferops_pd"
# Also an old Python reads this much, and says what is missing.
_FIRST = f"""import sys
if sys.version_info < (3, 9):
    sys.stderr.write("inferops.pd: errands need Python >= 3.9, and this image has %d.%d\\n" % sys.version_info[:2])
    sys.exit(69)
from {_NAME}._errand.run import main
sys.exit(main())
"""


class Code(t.NamedTuple):
    """A zip of Python, and the digest that names it."""

    body: bytes
    digest: str


@functools.lru_cache(maxsize=1)
def code() -> Code:
    """Raises PdError where it would be too large for an object."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, text in sorted({"__main__.py": _FIRST, **sources()}.items()):
            # A ZipInfo of its own: else the time of day would be in it.
            archive.writestr(zipfile.ZipInfo(path), text, zipfile.ZIP_DEFLATED, 9)
    body = made.getvalue()
    if len(body) > LIMIT:
        raise PdError(
            f"{CODE_FILE}: the code of errands is {sizes.told_size(len(body))}, and a ConfigMap holds {sizes.told_size(LIMIT)}."
        )
    return Code(body, hashlib.sha256(body).hexdigest()[:12])


def sources() -> dict[str, str]:
    """The text of every file that an errand imports, and of the packages that it is in, by its path in the zip."""
    found: dict[str, str] = {}
    todo = [run.__name__]
    while todo:
        name = todo.pop()
        path, text = _source(name)
        if path in found:
            continue
        found[path] = text
        todo += [name.rpartition(".")[0]] if name != _ROOT else []
        todo += _imported(name, text, path.endswith("/__init__.py"))
    # What stands beside the packages is Ansible's.
    found[f"{_NAME}/__init__.py"] = ""
    return found


def _source(name: str) -> tuple[str, str]:
    if name == _ROOT:
        return f"{_NAME}/__init__.py", ""
    spec = importlib.util.find_spec(name)
    loader = spec.loader if spec else None
    get = getattr(loader, "get_source", None)
    text = get(name) if get else None
    if spec is None or text is None:
        raise PdError(f"The code of errands: the source of {name} is not here.")
    path = _NAME + name[len(_ROOT) :].replace(".", "/")
    return (f"{path}/__init__.py" if spec.submodule_search_locations is not None else f"{path}.py"), text


def _imported(name: str, text: str, is_package: bool) -> list[str]:
    """The modules of ours that a file imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        above = name.split(".") if is_package else name.split(".")[:-1]
        start = ".".join([*above[: len(above) - node.level + 1], *([node.module] if node.module else [])])
        if not start.startswith(_ROOT):
            continue
        found.append(start)
        found += [f"{start}.{one.name}" for one in node.names if _is_module(f"{start}.{one.name}")]
    return found


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
