# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A released version of the collection, so that a test can form groups with it and go on with this one."""

from __future__ import annotations

import tarfile
from pathlib import Path

HERE = Path(__file__).parent
VERSIONS = sorted(file.name.partition(".")[0] for file in HERE.glob("*.tar.xz"))


def collections(version: str, folder: Path) -> Path:
    """Lay it below `folder`, once: what ANSIBLE_COLLECTIONS_PATH has to say for a run of it."""
    tree = folder / f"collections-{version}"
    place = tree / "ansible_collections" / "inferops" / "pd"
    if not place.exists():
        made = place.with_name("pd.new")
        made.mkdir(parents=True)
        with tarfile.open(HERE / f"{version}.tar.xz") as archive:
            archive.extractall(made, filter="data")
        made.rename(place)
    return tree
