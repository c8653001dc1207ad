# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group of systemd units on two hosts of the lab, over real ssh."""

from __future__ import annotations

import json
import shutil
import subprocess
import typing as t
from pathlib import Path

import yaml
from faults.case import SECRET, Case, Disturbed
from faults.model import Fault
from integration.conftest import spec
from lab.fixture import Lab
from support import ROOT

PORT = 8000
STATE = "/var/lib/inferops-pd"


class LabHosts(Disturbed):
    """Hosts of their own, which a test can cut off."""

    lab: Lab

    def write(self) -> None:
        hosts = {name: {**self.lab.inventory["hosts"][name], **here} for name, here in self.hosts.items()}
        own = {"pd_groups": self.groups, "pd_port_range": "25000-25063"}
        common = {**self.lab.inventory["vars"], **self.variables, **own}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": common}}))

    def locks(self) -> list[Path]:
        look = f"find {STATE}/groups/*/lock.json -size +5c 2>/dev/null; true"
        return [Path(f"{host}:{line}") for host in self.hosts for line in self.lab.ssh(host, look).splitlines()]

    def running(self) -> dict[str, int]:
        asked = "systemctl show --property=Id,MainPID 'inferops-pd-*' --state=active"
        found = {}
        for host in self.hosts:
            # One that is cut off tells nothing.
            for block in filter(None, self.lab.ssh(host, asked, check=False).split("\n\n")):
                told = dict(line.split("=", 1) for line in block.splitlines() if line)
                found[told["Id"][len("inferops-pd-") : -len(".service")]] = int(told["MainPID"])
        return found

    def left(self) -> list[str]:
        look = (
            f"ls -d /etc/systemd/system/inferops-pd-* 2>/dev/null; find {STATE} 2>/dev/null;"
            " grep -lzs INFEROPS_PD_MEMBER= /proc/[0-9]*/environ; true"
        )
        return [f"{host}: {line}" for host in self.hosts for line in self.lab.ssh(host, look).splitlines()]

    def modules(self, host: str) -> set[int]:
        """The modules that run on the host now."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self.lab.network(host)], capture_output=True, text=True, timeout=20, check=False
        )
        found = set()
        for pid in listed.stdout.split():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"python" in words[0] and (len(words) < 3 or b"AnsiballZ" in b" ".join(words)):
                found.add(int(pid))
        return found

    def cut_off(self, host: str) -> None:
        """ssh to the host breaks, and is refused from then on: in its own network, so that nothing of this machine is touched."""
        self.undo.append(self.reachable)
        rule = ["-p", "tcp", "--dport", "22", "-j", "REJECT", "--reject-with", "tcp-reset"]
        self._there(host, "iptables", "-I", "INPUT", *rule)

    def reachable(self) -> None:
        super().reachable()
        for host in self.hosts:
            rule = ["-p", "tcp", "--dport", "22", "-j", "REJECT", "--reject-with", "tcp-reset"]
            while self._there(host, "iptables", "-D", "INPUT", *rule) == 0:
                continue

    def _there(self, host: str, *words: str) -> int:
        command = ["ip", "netns", "exec", self.lab.network(host), *words]
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode

    def clean(self) -> None:
        super().clean()
        for host in self.hosts:
            self.lab.ssh(
                host,
                "for u in $(ls /etc/systemd/system | grep ^inferops-pd-); do systemctl stop $u; rm -f /etc/systemd/system/$u; done;"
                f" systemctl reset-failed; systemctl daemon-reload; rm -rf {STATE}",
            )


class LabCase(LabHosts, Case):
    @property
    def address(self) -> str:
        return self.lab.address("h1")

    @property
    def addresses(self) -> list[str]:
        return [self.lab.address(host) for host in self.hosts]

    def records(self) -> list[dict[str, t.Any]]:
        return [json.loads(self.lab.ssh(host, f"cat {STATE}/groups/g/record.json")) for host in self.hosts]


def share(lab: Lab) -> None:
    """Engine, router and model as far as hosts are asked about them, where every host sees them."""
    shutil.copytree(ROOT / "tests" / "standin", lab.share / "standin", dirs_exist_ok=True)
    model = lab.share / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text('{"model_type": "standin", "torch_dtype": "float32"}')


def lab_spec(port: int, **changes: t.Any) -> dict[str, t.Any]:
    """A 1P1D group of what hosts of the lab have."""
    group = spec(Path("/srv/lab/model"), port, runtime="systemd", **changes)
    group["engine"] |= {"executable": "/srv/lab/standin/vllm", "secrets": {"HF_TOKEN": SECRET}}
    group["engine"]["env"] = {
        "STANDIN_PYTHON": "/usr/bin/python3",
        "STANDIN_LOAD": "0.1",
        **group["engine"].get("env", {}),
    }
    group["roles"]["router"]["executable"] = "/srv/lab/standin/vllm-router"
    return group


def make(lab: Lab, folder: Path, fault: Fault) -> LabCase:
    share(lab)
    group = lab_spec(PORT, **{key: dict(value) for key, value in fault.spec.items()})
    for role, host in (("prefill", "h1"), ("decode", "h2"), ("router", "h1")):
        group["roles"][role]["hosts"] = host
    made = LabCase.__new__(LabCase)
    made.lab = lab
    made.__init__(folder, {"h1": {}, "h2": {}}, {"g": group})  # type: ignore[misc]
    made.port = PORT
    return made
