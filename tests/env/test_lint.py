"""The linters, each a test: `make test-lint ARGS="-k mypy"` for one.

What reads the collection as Ansible does gets a copy of it in a tree of the shape ansible_collections/inferops/pd, since ansible-test
refuses any other; ruff, mypy and yamllint read the clone itself.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

CLONE = Path(__file__).resolve().parents[2]
TREES = CLONE / ".build/lint"
CACHE = Path(os.environ.get("PD_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "inferops-pd"))
# ansible-test keeps environments under $HOME/.ansible/test: given a home of ours, it leaves the user's alone.
SANITY_HOME = CACHE.expanduser() / "ansible-test"
MODULE_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
SANITY = "ansible-test sanity --color no"
# ansible-test does one thing at a time, and would be slower than all others together: its two longest tests are checks of their own. Of two
# workers each begins with one half of this list.
CHECKS = {
    "sanity-pylint": f"{SANITY} --test pylint",
    "sanity": f"{SANITY} --skip-test pylint --skip-test import",
    "docs": "antsibull-docs lint-collection-docs --plugin-docs .",
    "changelog": "antsibull-changelog lint",
    "yamllint": "yamllint --strict .",
    "sanity-import": f"{SANITY} --test import",
    "ansible-lint": "ansible-lint --offline --nocolor",
    "mypy": "mypy",
    "ruff-check": "ruff check --output-format concise .",
    "ruff-format": "ruff format --check .",
}
COPIED = ("ansible-test", "ansible-lint", "antsibull-docs", "antsibull-changelog")
# Of what ansible-test prints, the lines that say nothing: what it installs.
NOISE = re.compile(
    r"^(Collecting|Using cached|Downloading|Requirement already|Installing|Successfully|Looking in|Processing|Saved|  )"
)


def copy_collection(copy: Path) -> None:
    """Lays every file there that git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CLONE, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    shutil.rmtree(copy, ignore_errors=True)
    for name in filter(None, listed.split("\0")):
        if (CLONE / name).is_file():  # neither deleted since, nor a repository within this one
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
        command = [str(CLONE / "tests/env/python.sh"), "--quiet", version]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            dirs.append(str(Path(found.stdout.strip()).parent))
    return dirs


def sanity_environment() -> dict[str, str]:
    # After the linters' own Python, before pyenv's shims, which ansible-test cannot start.
    tools, rest = str(Path(sys.executable).parent), os.environ["PATH"]
    return {"HOME": str(SANITY_HOME), "PATH": ":".join([tools, *module_python_dirs(), rest])}


@pytest.fixture
def tree(request: pytest.FixtureRequest) -> t.Iterator[Path]:
    """A folder for one check, which no other run has at the same time: it would pull the copy from under this one."""
    made = TREES / getattr(request, "param", request.node.callspec.id)
    made.mkdir(parents=True, exist_ok=True)
    with (made / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield made


@pytest.mark.parametrize("command", CHECKS.values(), ids=CHECKS)
def test_lint(command: str, tree: Path) -> None:
    argv, cwd = command.split(), CLONE
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(tree), "NO_COLOR": "1"}
    # The clone's settings are for running the collection out of it.
    env.pop("ANSIBLE_CONFIG", None)
    if argv[0] in COPIED:
        cwd = tree / "ansible_collections/inferops/pd"
        copy_collection(cwd)
    if argv[0] == "ansible-test":
        with (TREES / "sanity.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            prepare_sanity()
        env |= sanity_environment()
    done = subprocess.run(
        argv, cwd=cwd, env=env, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if argv[0] != "ansible-test" or not NOISE.search(line)]
    if done.returncode:
        pytest.fail("\n".join([command, *lines]), pytrace=False)


@pytest.mark.parametrize("tree", ["galaxy-importer"], indirect=True)
def test_galaxy_takes_the_built_collection(tree: Path) -> None:
    """What Galaxy does with an archive that is published: it refuses one without a README for each role, for example."""
    made = subprocess.run([CLONE / "tests/env/venv.sh", "galaxy"], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.fail(f"tests/env/venv.sh galaxy\n{made.stdout}{made.stderr}", pytrace=False)
    copy, tools = tree / "ansible_collections/inferops/pd", CLONE / ".build/venv/galaxy/bin"
    copy_collection(copy)
    env = {name: value for name, value in os.environ.items() if name != "ANSIBLE_CONFIG"}
    env |= {"HOME": str(tree), "NO_COLOR": "1", "PATH": f"{tools}:{env['PATH']}"}
    for archive in tree.glob("*.tar.gz"):
        archive.unlink()
    build = [str(tools / "ansible-galaxy"), "collection", "build", "--output-path", str(tree)]
    subprocess.run(build, cwd=copy, env=env, check=True, capture_output=True)
    (archive,) = tree.glob("*.tar.gz")
    done = subprocess.run(
        [str(tools / "python"), "-m", "galaxy_importer.main", str(archive)],
        cwd=tree, env=env, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if not line.startswith("Loading ")]
    # An example imports our playbooks by their full names, as a user's project does; the importer lints an archive where
    # no collection is installed, and can find none of them. A name that is not one of ours stays a failure.
    ours = {
        f"WARNING: ERROR    Failed to find inferops.pd.{path.stem} playbook." for path in copy.glob("playbooks/*.yml")
    }
    if done.returncode or any(line.startswith(("ERROR", "WARNING")) and line not in ours for line in said):
        pytest.fail("\n".join(["galaxy-importer", *said]), pytrace=False)
