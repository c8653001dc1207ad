"""The ports of tests: each test run of this machine, and each worker of it, has its own."""

from __future__ import annotations

import fcntl
import functools
import os
import socket
import tempfile
import typing as t
from pathlib import Path

# Below the kernel's range for clients, and apart from the ports of the demo and of the end-to-end tests.
LOWEST = 30100
HIGHEST = 32700
# What a process keeps from others: more than the sites of one module take, and so little that four test runs have room.
KEPT = 600
_BLOCKS: dict[str, int] = {}
_HELD: list[tuple[int, int]] = []


@functools.cache
def _ledger() -> t.IO[bytes]:
    """One file for all test runs of this machine, of which each keeps the bytes that stand for its ports locked. A port that is free now is
    another's a moment later; and a member of another site counts, with all ports that its label names, whoever tests there."""
    return (Path(tempfile.gettempdir()) / f"inferops-pd-test-ports.{os.getuid()}").open("ab")


def _keep(port: int, width: int) -> bool:
    try:
        fcntl.lockf(_ledger(), fcntl.LOCK_EX | fcntl.LOCK_NB, width, port)
    except OSError:
        return False
    _HELD.append((port, width))
    while sum(held for _port, held in _HELD) > KEPT:
        old, held = _HELD.pop(0)
        fcntl.lockf(_ledger(), fcntl.LOCK_UN, held, old)
    return True


def free_block(width: int) -> int:
    """The first of `width` free ports in a row that no other test run has, after those that this process got before."""
    port = _BLOCKS.get("next", LOWEST + os.getpid() * 37 % (HIGHEST - LOWEST))
    for _attempt in range(HIGHEST - LOWEST):
        if port + width > HIGHEST:
            port = LOWEST
        busy = next((p for p in range(port, port + width) if not _free(p)), None)
        if busy is not None:
            port = busy + 1
        elif _keep(port, width):
            _BLOCKS["next"] = port + width
            return port
        else:
            port += 1
    raise AssertionError(f"no {width} free ports in a row")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    low = free_block(count)
    return list(range(low, low + count))
