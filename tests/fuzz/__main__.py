"""make fuzz: throws inputs at every surface in turn until FUZZ_MINUTES are over. What fails is made as small as it goes, kept and told."""

from __future__ import annotations

import os
import random
import sys
import time
import traceback
import typing as t

from hypothesis import HealthCheck, Phase, given, seed, settings

from .surfaces import SURFACES, Surface
from .trial import attempt, keep, kept

# Inputs of one surface before the next has its turn.
BATCH = 100
PHASES = (Phase.generate, Phase.target, Phase.shrink)


def batch(surface: Surface, number: int) -> tuple[t.Any, Exception] | None:
    """The smallest input that failed, and how; None when none did."""
    last: list[t.Any] = [None]

    @seed(number)
    @settings(max_examples=BATCH, deadline=None, database=None, phases=PHASES, suppress_health_check=list(HealthCheck))
    @given(surface.inputs)
    def throw(value: t.Any) -> None:
        last[0] = value
        attempt(surface, value)

    try:
        throw()
    except Exception as exc:
        return last[0], exc
    return None


def old() -> int:
    """Try what failed once. Returns how many fail still."""
    failed = 0
    for name, one in kept().items():
        try:
            attempt(SURFACES[one["surface"]], one["input"])
        except Exception:
            failed += 1
            print(f"FAILS AGAIN: {name} ({one['why']})\n{traceback.format_exc()}", flush=True)
    return failed


def main() -> int:
    minutes = float(os.environ.get("FUZZ_MINUTES") or 10)
    wanted = [name for name in SURFACES if name in (sys.argv[1:] or SURFACES)]
    number = int(os.environ.get("FUZZ_SEED") or random.randrange(10**9))
    print(f"{minutes:g} minutes over {', '.join(wanted)}; FUZZ_SEED={number}", flush=True)
    end, failed, tried = time.monotonic() + 60 * minutes, old(), 0
    while wanted and time.monotonic() < end:
        for name in list(wanted):
            found = batch(SURFACES[name], number)
            number, tried = number + 1, tried + BATCH
            if found:
                failed += 1
                wanted.remove(name)  # it would find the same again
                value, exc = found
                path = keep(SURFACES[name], value, f"{type(exc).__name__}: {exc}"[:200])
                print(f"FAILED: {name}, kept in {path}", flush=True)
                traceback.print_exception(exc, limit=-6)
            if time.monotonic() > end:
                break
    print(f"{tried} inputs, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
