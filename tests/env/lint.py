"""Runs the linters, each as one counted test: `lint.py` for all, `lint.py mypy docs` for some.

The collection is linted as copies in trees of the shape ansible_collections/inferops/pd, since ansible-test
refuses any other; ruff, mypy and yamllint read the clone itself.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

CLONE = Path(__file__).resolve().parents[2]
TREES = CLONE / ".build/lint"
CACHE = Path(os.environ.get("PD_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "inferops-pd"))
# ansible-test keeps environments under $HOME/.ansible/test: given a home of ours, it leaves the user's alone.
SANITY_HOME = CACHE.expanduser() / "ansible-test"
MODULE_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
DEADLINE = 900


@dataclass(frozen=True)
class Check:
    name: str
    argv: list[str]
    copied: bool = False  # it reads a copy of its own: what it writes there, no other check sees
    only: str = ""  # the lines of its output that say something

    @property
    def tree(self) -> Path:
        return TREES / self.name

    @property
    def cwd(self) -> Path:
        return self.tree / "ansible_collections/inferops/pd" if self.copied else CLONE


SANITY = ["ansible-test", "sanity", "--color", "no"]
TOLD = r"^(ERROR|FATAL|Running sanity)"
# The slowest first. ansible-test does one thing at a time and is slower than all others together: its pylint is half of it, so it is a
# check of its own, and the rest is whatever else there is.
CHECKS = [
    Check("sanity", [*SANITY, "--skip-test", "pylint"], copied=True, only=TOLD),
    Check("sanity-pylint", [*SANITY, "--test", "pylint"], copied=True, only=TOLD),
    Check("ansible-lint", ["ansible-lint", "--offline", "--nocolor"], copied=True),
    Check("docs", ["antsibull-docs", "lint-collection-docs", "--plugin-docs", "."], copied=True),
    Check("mypy", ["mypy"]),
    Check("changelog", ["antsibull-changelog", "lint"], copied=True),
    Check("yamllint", ["yamllint", "--strict", "."]),
    Check("ruff-check", ["ruff", "check", "--output-format", "concise", "."]),
    Check("ruff-format", ["ruff", "format", "--check", "."]),
]


@dataclass(frozen=True)
class Outcome:
    check: Check
    good: bool
    output: str
    seconds: float


def tracked() -> list[str]:
    """Every file that git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CLONE, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    # Neither deleted since, nor a repository within this one.
    return [name for name in filter(None, listed.split("\0")) if (CLONE / name).is_file()]


def copy_collection(copy: Path, names: list[str]) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CLONE / name, copy / name, follow_symlinks=False)
    # Without a repository of its own the copy would be taken for ignored files of the clone's.
    subprocess.run(["git", "init", "--quiet", str(copy)], check=True)


def prepare_sanity() -> None:
    """Gives ansible-test a home where pip is bootstrapped from Python itself, not from a download."""
    import ansible_test

    source = Path(ansible_test.__path__[0], "_internal/python_requirements.py").read_text()
    cache = SANITY_HOME / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in set(re.findall(r"\bpip\W{1,6}(\d+(?:\.\d+)+)", source)):
        stub = cache / f"get_pip_{version.replace('.', '_')}.py"
        shutil.copyfile(CLONE / "tests/env/get_pip.py", stub)
    # The user's pip settings, a mirror say, still count.
    for name in (".config/pip", ".pip"):
        link, target = SANITY_HOME / name, Path.home() / name
        if target.exists() and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)


def module_python_dirs() -> list[str]:
    """Where the Pythons really are that modules are compiled and imported on."""
    dirs = []
    for version in MODULE_PYTHONS:
        found = subprocess.run(
            [str(CLONE / "tests/env/python.sh"), "--quiet", version],
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode == 0:
            dirs.append(str(Path(found.stdout.strip()).parent))
    return dirs


def environment(check: Check) -> dict[str, str]:
    tools, rest = str(Path(sys.executable).parent), os.environ["PATH"]
    own = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(check.tree), "NO_COLOR": "1"}
    if check.argv[0] != "ansible-test":
        return {**own, "PATH": ":".join([tools, rest])}
    # After the linters' own Python, before pyenv's shims, which ansible-test cannot start.
    return {**own, "HOME": str(SANITY_HOME), "PATH": ":".join([tools, *module_python_dirs(), rest])}


def run(check: Check) -> Outcome:
    env = environment(check)
    began = time.monotonic()
    try:
        done = subprocess.run(
            check.argv, cwd=check.cwd, env=env, text=True, check=False, timeout=DEADLINE,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        good, output = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as late:
        good, output = False, f"{late.output or ''}\nnot done within {DEADLINE} s"
    lines = [line for line in output.splitlines() if re.search(check.only, line)]
    outcome = Outcome(check, good, "\n".join(lines), time.monotonic() - began)
    print(f"{'ok    ' if good else 'FAILED'} {check.name} ({outcome.seconds:.0f} s)", flush=True)
    return outcome


def write_junit(outcomes: list[Outcome], path: Path) -> None:
    failures = sum(not outcome.good for outcome in outcomes)
    suite = ElementTree.Element("testsuite", name="lint", tests=str(len(outcomes)), failures=str(failures))
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite, "testcase", classname="lint", name=outcome.check.name, time=f"{outcome.seconds:.1f}"
        )
        if not outcome.good:
            ElementTree.SubElement(case, "failure", message=f"{outcome.check.name} found something")
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path)


def main() -> int:
    wanted = sys.argv[1:] or [check.name for check in CHECKS]
    unknown = set(wanted) - {check.name for check in CHECKS}
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(check.name for check in CHECKS)}")
        return 2
    checks = [check for check in CHECKS if check.name in wanted]
    TREES.mkdir(parents=True, exist_ok=True)
    with (TREES / "lock").open("w") as lock:
        # A second run would pull the copies from under the first.
        fcntl.flock(lock, fcntl.LOCK_EX)
        names = tracked()
        for check in checks:
            if check.copied:
                copy_collection(check.cwd, names)
        if any(check.argv[0] == "ansible-test" for check in checks):
            prepare_sanity()
        with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 2)) as pool:
            outcomes = list(pool.map(run, checks))
    bad = [outcome for outcome in outcomes if not outcome.good]
    for outcome in bad:
        print(f"\n---- {outcome.check.name}: {' '.join(outcome.check.argv)}\n{outcome.output}")
    if wanted == [check.name for check in CHECKS]:
        write_junit(outcomes, CLONE / ".build/junit/lint.xml")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
