# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""A model's directory on this host: whether it is there, its config, and a fingerprint that is the same for the same model."""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

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


def facts(path: str) -> dict[str, t.Any]:
    """{exists, fingerprint, config, weights, why} of a local directory."""
    if not os.path.isabs(path):
        return _missing("it is no local path; a model must be a directory on every host")
    if not os.path.isdir(path):
        return _missing("it is not there" if not os.path.exists(path) else "it is no directory")
    try:
        names = sorted(os.listdir(path))
        config = _config(path)
        weights = [(n, os.path.getsize(os.path.join(path, n))) for n in names if n.endswith(_WEIGHTS)]
        fingerprint = _fingerprint(path, names, weights)
    except OSError as exc:
        return _missing(f"it cannot be read ({exc.strerror})")
    return {
        "exists": True,
        "fingerprint": fingerprint,
        "config": config,
        "weights": {"files": len(weights), "bytes": sum(size for _name, size in weights)},
        "why": "" if config is not None else "it has no config.json that can be read",
    }


def _missing(why: str) -> dict[str, t.Any]:
    return {"exists": False, "fingerprint": None, "config": None, "weights": None, "why": why}


def _config(path: str) -> dict[str, t.Any] | None:
    try:
        with open(os.path.join(path, "config.json"), encoding="utf-8") as stream:
            config = json.load(stream)
    except (FileNotFoundError, ValueError):
        return None
    return config if isinstance(config, dict) else None


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
