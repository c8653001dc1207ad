# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model's directory on this host: whether it is there, its config, a fingerprint that is the same for the same model, and a stamp of its
files that a shell can take as well."""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from . import model_links, small_file

# Read as a whole. Weights count by name and size: hashing them would take minutes, and a copy cut short has another size.
_READ = (
    "config.json",
    "generation_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "merges.txt",
    "vocab.json",
    "vocab.txt",
)
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz")
READ_LIMIT = 64 * 1024 * 1024
# Of config.json: the longest there are list a quantization for each of some thousand modules.
CONFIG_LIMIT = 16 * 1024 * 1024
CONFIG_DEPTH = 50
# All names of a directory are arguments of one command when a start script takes its stamp.
NAMES_LIMIT = 512 * 1024
# Where a path of a model is on this host; None when there is no way to it. In a container not every link leads somewhere.
Through = t.Callable[[str], t.Optional[str]]


def facts(path: str) -> dict[str, t.Any]:
    """{exists, fingerprint, config, weights, stamp, why} of a local directory. `weights.times` is the same as long as no file of weights
    has been written since: of the same names and sizes they may be another model's."""
    if not os.path.isabs(path):
        return _missing("it is no local path; a model must be a directory on every host")
    if not os.path.isdir(path):
        return _missing("it is not there" if not os.path.exists(path) else "it is no directory")
    try:
        names = sorted(os.listdir(path))
        config = _config(path)
        weights = [(n, os.path.getsize(os.path.join(path, n))) for n in names if n.endswith(_WEIGHTS)]
        fingerprint = _fingerprint(path, names, weights)
        stamped = stamp([path])
    except OSError as exc:
        return _missing(f"it cannot be read ({exc.strerror})")
    return {
        "exists": True,
        "fingerprint": fingerprint,
        "config": config,
        "weights": {
            "files": len(weights),
            "bytes": sum(size for _name, size in weights),
            "times": _times(path, weights),
        },
        "stamp": stamped,
        "why": "" if config is not None else "it has no config.json that can be read",
    }


def _missing(why: str) -> dict[str, t.Any]:
    return {"exists": False, "fingerprint": None, "config": None, "weights": None, "stamp": None, "why": why}


def stamp(paths: t.Sequence[str], through: Through | None = None) -> str | None:
    """A digest of what is at these paths: of a file its size and time, of a directory those of its entries, without dotfiles. None when one
    of them is not there.

    It is what _runtimes/guard.py has a shell say: `stat -L -c '%n %s %Y'` of both, names in bytes' order, through sha256sum. So it costs
    nothing to take before every start, and a file that was exchanged under its name gives another one."""
    digest = hashlib.sha256()
    for path in paths:
        place = _place(path, through)
        if place is None or not os.path.exists(place):
            return None
        lines = _entries(path, through) if os.path.isdir(place) else [_line(path, place)]
        if lines is None:
            return None
        digest.update(b"".join(lines))
    return digest.hexdigest()


def _entries(path: str, through: Through | None) -> list[bytes] | None:
    """A line for each entry of a directory. Links that lead nowhere have none, as stat has none for them."""
    try:
        names = sorted(name for name in os.listdir(os.fsencode(_place(path, through) or path)) if name[:1] != b".")
    except OSError:
        return None
    if sum(len(name) + 3 for name in names) > NAMES_LIMIT:
        return None
    places = ((name, _place(os.path.join(path, os.fsdecode(name)), through)) for name in names)
    return [_line(b"./" + name, place) for name, place in places if place is not None]


def _line(name: str | bytes, place: str) -> bytes:
    try:
        found = os.stat(place)
    except OSError:
        return b""
    return os.fsencode(name) + b" %d %d\n" % (found.st_size, found.st_mtime_ns // 10**9)


def _place(path: str, through: Through | None) -> str | None:
    return through(path) if through else path


def _config(path: str) -> dict[str, t.Any] | None:
    """It comes back in the facts: so it is a file of the model's own, and of the size and depth of one."""
    place = model_links.leads_to(os.path.join(path, "config.json"))
    content = small_file.read(place, CONFIG_LIMIT) if place else None
    try:
        config = json.loads((content or b"").decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) and _depth(config) <= CONFIG_DEPTH else None


def _depth(value: t.Any) -> int:
    """How deep lists and objects are nested in each other."""
    depth, layer = 0, [value]
    while layer:
        depth += 1
        layer = [
            item
            for one in layer
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, (dict, list))
        ]
    return depth


def _times(path: str, weights: t.Sequence[tuple[str, int]]) -> str | None:
    """Names, sizes and times of the weights, as one value; None without weights."""
    told = [f"{name} {size} {int(os.stat(os.path.join(path, name)).st_mtime)}" for name, size in weights]
    return hashlib.sha256("\n".join(told).encode("utf-8", "surrogateescape")).hexdigest()[:16] if told else None


def _fingerprint(path: str, names: t.Sequence[str], weights: t.Sequence[tuple[str, int]]) -> str:
    digest = hashlib.sha256()
    for name in names:
        read = name in _READ or "tokenizer" in name or name.endswith(".safetensors.index.json")
        file = os.path.join(path, name)
        if read and os.path.isfile(file) and os.path.getsize(file) <= READ_LIMIT:
            digest.update(f"{name}\0".encode("utf-8", "surrogateescape"))
            with open(file, "rb") as stream:
                digest.update(hashlib.sha256(stream.read()).digest())
    for name, size in weights:
        digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
