# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of a Mooncake Store, run by Mooncake's own Python, with the segment that a service's options describe.

Reads commands from standard input (`put KEY`, `get KEY`), so that one client can outlive its master, and answers each in a line."""

from __future__ import annotations

import json
import sys

from mooncake.store import MooncakeDistributedStore

VALUE = bytes(range(256)) * 64
UNITS = {"MB": 2**20, "GB": 2**30}


def size(text: str) -> int:
    return int(text[:-2]) * UNITS[text[-2:]]


def main(address: str, options: dict[str, str]) -> None:
    store = MooncakeDistributedStore()
    rc = store.setup(
        "127.0.0.1",
        options["metadata_server"],
        size(options["global_segment_size"]),
        size(options["local_buffer_size"]),
        options["protocol"],
        "",
        address,
    )
    print(f"setup {rc}", flush=True)
    for line in sys.stdin:
        what, key = line.split()
        if what == "put":
            print(f"put {store.put(key, VALUE)}", flush=True)
        else:
            print(f"get {store.get(key) == VALUE}", flush=True)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
