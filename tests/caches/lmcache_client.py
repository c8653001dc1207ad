# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of an LMCache server, run by LMCache's own Python: does what a vLLM worker without a GPU does.

`lmcache_client.py URL store|read|ping` prints what came of it in one line."""

from __future__ import annotations

import pickle
import sys

import torch
from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey, RegisterEngineDrivenContextPayload
from lmcache.v1.multiprocess.transport.factory import RequestClientFactory

WORKER = 7
LAYERS, HIDDEN = 2, 8


def main(url: str, what: str) -> str:
    client = RequestClientFactory.create(url)

    def call(future):
        return future.result(timeout=30)

    if what == "ping":
        return f"ping {call(client.ping(WORKER))}"
    size = call(client.get_chunk_size())
    layout = RegisterEngineDrivenContextPayload(WORKER, "m", 1, 16, LAYERS, HIDDEN, "float32", False)
    call(client.register_kv_cache_engine_driven_context(layout))
    blocks = torch.arange(2 * LAYERS * size * HIDDEN, dtype=torch.float32).reshape(2, LAYERS, size, HIDDEN)
    key = IPCCacheServerKey("m", 1, 0, tuple(range(size)), 0, size, request_id=what, num_kv_readers=1)
    if what == "store":
        call(client.prepare_store(key, WORKER))
        return f"stored {call(client.commit_store(key, WORKER, pickle.dumps([blocks])))}"
    call(client.lookup(key, 1))
    hits = call(client.wait_prefetch_status(what, 10.0))
    found = call(client.prepare_retrieve(key, WORKER)) if hits else None
    equal = bool(found and found.success) and all(torch.equal(got, blocks) for got in pickle.loads(found.data))
    return f"hits {hits} equal {equal}"


if __name__ == "__main__":
    # The last line is the answer, whatever the library logs.
    print(main(*sys.argv[1:3]), flush=True)
