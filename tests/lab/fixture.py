# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab for tests: `lab` is three hosts for a session, `LabSite` an inventory of them. A lab that is up already is used, and left."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from support import ROOT, Site

SCRIPT = ROOT / "tests" / "lab" / "lab.sh"
HOSTS = 3
# Another session on this machine may have the hosts.
PATIENCE = 1200


class Lab:
    """Hosts that are up: h1, h2, h3; of more, `grow` is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory = self._inventory()
        self.names = sorted(self.inventory["hosts"])[:HOSTS]

    def _inventory(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", yaml.safe_load((self.folder / "inventory.yml").read_text())["all"])

    def grow(self, hosts: int) -> None:
        """Have so many of them, until the lab goes down."""
        up = script("up", str(hosts))
        assert up.returncode == 0, f"{up.stdout}{up.stderr}"
        self.inventory = self._inventory()

    @property
    def share(self) -> Path:
        """A folder here that the hosts have as /srv/lab, read-only."""
        return self.folder / "share"

    def address(self, host: str) -> str:
        return str(self.inventory["hosts"][host]["ansible_host"])

    def data_address(self, host: str) -> str:
        return str(self.inventory["hosts"][host]["lab_data_address"])

    def network(self, host: str) -> str:
        """The name of the host's network namespace."""
        return f"pdlab{self.address(host).split('.')[1]}-{host}"

    def ssh(self, host: str, command: str, user: str = "root", check: bool = True, timeout: float = 60) -> str:
        """What a shell command on a host prints."""
        options = shlex.split(self.inventory["vars"]["ansible_ssh_common_args"])
        done = subprocess.run(
            [
                "ssh",
                "-n",
                *options,
                "-o",
                "BatchMode=yes",
                "-i",
                str(self.folder / "key"),
                f"{user}@{self.address(host)}",
                command,
            ],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert not check or done.returncode == 0, f"{host}: {command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def everywhere(self, command: str, **how: t.Any) -> dict[str, str]:
        return {host: self.ssh(host, command, **how) for host in self.names}

    def bytes_sent(self, host: str, interface: str) -> int:
        return int(self.ssh(host, f"cat /sys/class/net/{interface}/statistics/tx_bytes"))


class LabSite(Site):
    """An inventory of the lab, over ssh. `hosts` are variables by host, `variables` those of all; one that is None is left out."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        groups: dict[str, t.Any],
        hosts: dict[str, dict[str, t.Any]] | None = None,
        **variables: t.Any,
    ) -> None:
        self.lab, self.variables = lab, variables
        self.prefills = 1
        super().__init__(folder, hosts or {name: {} for name in lab.names}, groups)

    def write(self) -> None:
        hosts = {name: {**self.lab.inventory["hosts"][name], **own} for name, own in self.hosts.items()}
        common = {**self.lab.inventory["vars"], **self.variables, "pd_groups": self.groups}
        common = {key: value for key, value in common.items() if value is not None}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": common}}))


def script(*words: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *words], capture_output=True, text=True, timeout=timeout, check=False)


def folder() -> Path:
    """Where lab.sh has it, by the same rules."""
    cache = (
        os.environ.get("PD_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "inferops-pd"
    )
    return Path(os.environ.get("PD_LAB") or Path(cache) / f"lab-{os.environ.get('PD_LAB_NET') or 213}")


@pytest.fixture(scope="session")
def lab() -> t.Iterator[Lab]:
    """The hosts. Where there can be none, the tests are skipped and say why; where there can be, a lab that does not come up fails them."""
    able = script("check")
    if able.returncode:
        pytest.skip(f"no lab of hosts on this machine: {able.stdout.strip() or able.stderr.strip()}")
    place = folder()
    place.parent.mkdir(parents=True, exist_ok=True)
    # The file stays: two sessions that wait for one that is deleted would each lock another one.
    with (place.parent / f"{place.name}.session").open("w") as turn:
        _turn(turn)
        ours = not (place / "inventory.yml").exists()
        up = script("up", str(HOSTS))
        assert up.returncode == 0, f"{up.stdout}{up.stderr}"
        sockets = place / "ssh"
        sockets.mkdir(exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ANSIBLE_SSH_CONTROL_PATH_DIR", str(sockets))
            yield Lab(place)
        for socket in sockets.iterdir():
            # Connections that ansible-playbook keeps open for the next run.
            subprocess.run(
                ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "host"],
                capture_output=True,
                timeout=10,
                check=False,
            )
        if ours:
            down = script("down")
            assert down.returncode == 0, f"{down.stdout}{down.stderr}"


def _turn(turn: t.IO[str]) -> None:
    """Wait until no other session has the hosts."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            assert time.monotonic() < end, f"another session has had the hosts of the lab for {PATIENCE} s"
            time.sleep(1)
