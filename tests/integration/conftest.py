"""Groups of stand-in engines and a stand-in router, deployed by the real playbooks: all that a user sees, without an engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from integration import support_runtime
from ports import free_block
from support import ROOT, Run, Site, playbook_command

STANDIN = ROOT / "tests" / "standin"
# The lock of a run on another machine.
HELD_ELSEWHERE: dict[str, t.Any] = {
    "run": "theirs", "who": "ops@elsewhere pid 7", "since": 1.0, "expires": 4e9, "process": {"pid": 7, "machine": "x"},
}  # fmt: skip


def spec(model: Path, port: int, **changes: t.Any) -> dict[str, t.Any]:
    """A 1P1D group on stand-ins. Changes of `prefill`, `decode`, `router` and `engine` are merged, all others replace a key."""
    parts: dict[str, dict[str, t.Any]] = {
        "engine": {
            "executable": str(STANDIN / "vllm"),
            "args": ["--max-model-len=4096"],
            "env": {"STANDIN_LOAD": "0.1"},
        },
        "prefill": {"hosts": "node", "gpus": 0},
        "decode": {"hosts": "node", "gpus": 0},
        "router": {"hosts": "node", "port": port, "executable": str(STANDIN / "vllm-router")},
    }
    for name, part in parts.items():
        part.update(changes.pop(name, {}))
    engine = parts.pop("engine")
    made: dict[str, t.Any] = {
        "mode": "vllm-nixl",
        "runtime": "supervisor",
        "model": str(model),
        "served_model_name": "tiny",
        "engine": engine,
        "roles": parts,
        "limits": {"start": 60, "drain": 2, "stop": 3},
    }
    made.update(changes)
    return made


class Life(Site):
    """A site with what tests ask of it: who runs, what is recorded, what answers."""

    port = 0
    # Variables of the inventory beside pd_groups.
    variables: t.Mapping[str, t.Any] = {}

    def write(self) -> None:
        super().write()
        file = self.folder / "group_vars" / "all.yml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump(dict(self.variables)))

    @property
    def group(self) -> dict[str, t.Any]:
        """The one group of this site."""
        (only,) = self.groups.values()
        return t.cast("dict[str, t.Any]", only)

    @property
    def states(self) -> list[Path]:
        """The state directories of all hosts."""
        return [Path(v.get("pd_state_dir", self.state)) for v in self.hosts.values()]

    def env(self, **variables: t.Any) -> None:
        """Set environment variables of the engines' stand-ins, and write the inventory."""
        self.group["engine"]["env"].update(variables)
        self.write()

    def pids(self, states: t.Sequence[Path] | None = None) -> dict[str, int]:
        """The pid of each living member, by what its state directory says."""
        found: dict[str, int] = {}
        for state in states or self.states:
            for starts in state.glob("groups/*/members/*/starts"):
                try:
                    pid = int(starts.read_text().splitlines()[-1].split()[1])
                except (OSError, IndexError):
                    continue  # it is being made, or removed
                if alive(pid):
                    found[starts.parent.name] = pid
        return found

    def record(self, group: str = "g", state: Path | None = None) -> dict[str, t.Any]:
        return t.cast(
            "dict[str, t.Any]", json.loads(((state or self.states[0]) / f"groups/{group}/record.json").read_text())
        )

    def lock(self, group: str = "g", state: Path | None = None) -> dict[str, t.Any] | None:
        """Who changes the group, by one of its hosts."""
        try:
            file = (state or self.states[0]) / f"groups/{group}/lock.json"
            return t.cast("dict[str, t.Any]", json.loads(file.read_text()))
        except (OSError, ValueError):
            return None

    def lock_from_elsewhere(self, group: str = "g", state: Path | None = None) -> dict[str, t.Any]:
        """Have a run on another machine hold a group's lock on one of its hosts."""
        ((state or self.states[0]) / f"groups/{group}/lock.json").write_text(json.dumps(HELD_ELSEWHERE))
        return HELD_ELSEWHERE

    def untouched(self) -> bool:
        """Whether no run has left anything on any host."""
        return not any(state.exists() for state in self.states)

    def ask(self, prompt: str = "once upon a time", port: int | None = None) -> tuple[int, str]:
        """One completion through the router: (status, text)."""
        return ask(f"http://127.0.0.1:{port or self.port}", prompt)

    def clean(self) -> None:
        for state in self.states:
            support_runtime.clean_up(str(state))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    support_runtime.wait_for(lambda: not alive(pid), 5, f"the end of {pid}")


def ask(url: str, prompt: str) -> tuple[int, str]:
    body = json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 4}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
            return answer.status, json.load(answer)["choices"][0]["text"]
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode(errors="replace")
    except OSError as exc:
        return 0, str(exc)


def start(site: Life, *words: str) -> subprocess.Popen[str]:
    """A run in the background, in a process group of its own."""
    command = [playbook_command(), "-i", str(site.folder / "hosts.yml"), *words]
    env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=env, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def told_once(run: Run, pattern: str) -> None:
    """A message is on screen, and once: a person who reads it twice looks for the difference."""
    # From ansible-core 2.19 on, a failed task's message stands above its result as well.
    told = run.out.partition("FAILED! =>")[0] if "[ERROR]" in run.out else run.out
    found = re.findall(pattern, " ".join(told.split()))
    assert len(found) == 1, f"{pattern!r} is there {len(found)} times:\n{run.out[-5000:]}"


def interface() -> str | None:
    """The network interface of the default route: a group that spans hosts cannot have its KV cache on lo."""
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    return next((route[0] for route in routes if route[1] == "00000000"), None)


@pytest.fixture(scope="module")
def make_site(tmp_path_factory: pytest.TempPathFactory, model: Path) -> t.Iterator[t.Callable[..., Life]]:
    """Sites with one host `node` and one group `g`, unless told otherwise; whatever runs of them is ended with the module."""
    made: list[Life] = []

    def make(
        hosts: dict[str, dict[str, t.Any]] | None = None, groups: dict[str, t.Any] | None = None, **changes: t.Any
    ) -> Life:
        low = free_block(25)
        if hosts is None:
            hosts = {"node": {"pd_port_range": f"{low + 1}-{low + 24}"}}
        folder = Path(tmp_path_factory.mktemp("site"))
        site = Life(folder, hosts, {"g": spec(model, low, **changes)} if groups is None else groups)
        site.port = low
        made.append(site)
        return site

    yield make
    for site in made:
        site.clean()


@pytest.fixture
def site(make_site: t.Callable[..., Life]) -> Life:
    return make_site()
