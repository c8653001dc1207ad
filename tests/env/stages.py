"""Runs the test stages named up to the first that fails, and ends with one line that counts all their tests.

With KEEP_GOING=1 the stages after a failed one run too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

CLONE = Path(__file__).resolve().parents[2]
JUNIT = CLONE / ".build/junit"


def count(report: Path) -> Counter[str]:
    tally: Counter[str] = Counter()
    if report.exists():
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            tally.update(failed=failed, skipped=skipped, passed=int(suite.get("tests", 0)) - failed - skipped)
    return tally


def run(stage: str) -> Counter[str]:
    report = JUNIT / f"{stage}.xml"
    report.unlink(missing_ok=True)
    print(f"\n==== {stage}", flush=True)
    began = time.monotonic()
    status = subprocess.run(["make", "--no-print-directory", f"test-{stage}"], cwd=CLONE, check=False).returncode
    tally = count(report)
    if status and not tally["failed"]:
        tally["failed"] = 1  # it fell over before, or after, its tests
    print(f"==== {stage}: {dict(tally)} in {time.monotonic() - began:.0f} s", flush=True)
    return tally


def main() -> int:
    total: Counter[str] = Counter()
    for position, stage in enumerate(sys.argv[1:]):
        total.update(run(stage))
        left = sys.argv[position + 2 :]
        if total["failed"] and left and not os.environ.get("KEEP_GOING"):
            print(f"\nnot run because of the failure: {', '.join(left)} (KEEP_GOING=1 runs them)")
            break
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"\n{total['passed']} passed, {total['failed']} failed{skipped}")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
