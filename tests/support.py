"""What tests share: running a playbook of the collection as a user does, and reading what the screen says."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
_RECAP = re.compile(r"^(?P<host>\S+)\s+: (?P<counts>ok=.*)$", re.M)


@dataclass
class Run:
    """One finished ansible-playbook: its exit status, what it printed, and the recap's numbers by host."""

    rc: int
    out: str

    @property
    def recap(self) -> dict[str, dict[str, int]]:
        return {
            m["host"]: {k: int(v) for k, v in (pair.split("=") for pair in m["counts"].split())}
            for m in _RECAP.finditer(self.out)
        }

    @property
    def changed(self) -> int:
        return sum(counts["changed"] for counts in self.recap.values())

    def ok(self) -> Run:
        """The run, which must have succeeded."""
        assert self.rc == 0, self.out[-6000:]
        return self

    def refused(self) -> Run:
        """The run, which must have failed with a message and without a traceback."""
        assert self.rc != 0, self.out[-6000:]
        assert "Traceback (most recent call last)" not in self.out, self.out[-6000:]
        return self


class Site:
    """An inventory in a folder of its own, with everything that its runs leave behind in there as well."""

    def __init__(self, folder: Path, hosts: dict[str, dict[str, t.Any]], groups: dict[str, t.Any]) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.hosts = hosts
        self.groups = groups
        self.write()

    def write(self) -> None:
        """Put the inventory on disk, as edited."""
        common = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "pd_address": "127.0.0.1",
            "pd_kv_interface": "lo",
            "pd_state_dir": str(self.state),
        }
        hosts = {name: {**common, **variables} for name, variables in self.hosts.items()}
        inventory = {"all": {"hosts": hosts, "vars": {"pd_groups": self.groups}}}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))

    def end_processes(self) -> None:
        """End whatever still runs of this inventory, so that a failed test leaves nothing behind."""
        mark = f"INFEROPS_PD_STATE={self.state}".encode()
        daemon = self.state / "supervisor" / "supervisord.pid"
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(daemon.read_text()), signal.SIGKILL)
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in environment.read_bytes().split(b"\0"):
                    os.kill(int(environment.parent.name), signal.SIGKILL)

    def play(self, name: str, *args: str, timeout: float = 420, **extra: t.Any) -> Run:
        """Run inferops.pd.NAME; keyword arguments are -e variables, as text, the way a person gives them."""
        command = [playbook_command(), "-i", str(self.folder / "hosts.yml"), f"inferops.pd.{name}", *args]
        for key, value in extra.items():
            command += ["-e", f"{key}={value}"]
        return run(command, timeout)


def playbook_command() -> str:
    beside = Path(sys.executable).with_name("ansible-playbook")
    return str(beside) if beside.exists() else str(shutil.which("ansible-playbook"))


def run(command: list[str], timeout: float) -> Run:
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
    }
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Run(done.returncode, done.stdout)
