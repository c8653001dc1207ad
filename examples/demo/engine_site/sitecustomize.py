"""Three cures for engines that share a few CPU cores: put this folder on PYTHONPATH of each engine (demo and tests only).

They are about waits that a GPU server with cores to spare never notices, and that bring a machine with two to a halt:

- NIXL's Python API asks for a progress thread without any pause, so each engine burns a whole core even when idle. It
  gets a pause of a millisecond.
- vLLM's message queue between processes polls with os.sched_yield(). Where the cores are contended, a process that yields
  is not run again for seconds, up to half a minute. It sleeps a little instead.
- vLLM compiles a few small functions with torch.compile even under --enforce-eager: the first request that asks for
  logprobs waits 20 s for a C++ compiler, and fails where there is none. torch.compile is switched off, unless
  TORCH_COMPILE_DISABLE is already set.

No file of either package is changed; without this folder on PYTHONPATH they behave as always.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time

PROGRESS_PAUSE_US = 1000
YIELD_PAUSE_S = 0.0002


def pause_progress_thread(bindings):
    """Turn a progress thread's delay of 0 into PROGRESS_PAUSE_US, whoever sets it."""
    config = bindings.nixlAgentConfig
    delay = config.pthrDelay
    config.pthrDelay = property(delay.fget, lambda self, value: delay.fset(self, value or PROGRESS_PAUSE_US))


class NixlFinder:
    """Finds NIXL's bindings as Python does, and adjusts them as soon as they are loaded."""

    name = re.compile(r"nixl_cu\d+\._bindings")

    def __init__(self):
        self.searching = False

    def find_spec(self, name, path=None, target=None):
        if self.searching or not self.name.fullmatch(name):
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_adjust(module):
            execute(module)
            pause_progress_thread(module)

        spec.loader.exec_module = execute_and_adjust
        return spec


os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
os.sched_yield = lambda: time.sleep(YIELD_PAUSE_S)
sys.meta_path.insert(0, NixlFinder())
