"""A host whose clock is off: Python's idea of the time of day, for modules of the fault suite."""

from __future__ import annotations

import os
import time

_now, _off = time.time, float(os.environ.get("PD_SKEW") or 0)
time.time = lambda: _now() + _off
