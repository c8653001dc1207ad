# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX is given: the example's project as a git repository, with this collection as its requirement, and the hosts of the tests.

Every test has groups of its own, on hosts of their own, so that none minds what the others do. The hosts are this machine, with an
address, a range of ports and a state folder each; the engines are stand-ins.
"""

from __future__ import annotations

import shutil
import subprocess
import typing as t
from pathlib import Path

import yaml
from integration.conftest import STANDIN, Life, ask, interface, spec
from ports import free_block
from support import ROOT

EXAMPLE = ROOT / "examples" / "awx"
WIDTH = 25
# A variable that the example's objects have a credential of.
SECRET = "vault_hf_token"
# Groups by name: the hosts of their prefill and decode members; the router is with the first.
GROUPS: dict[str, tuple[str, str]] = {
    "approved": ("approved-1", "approved-1"),
    "meanwhile": ("meanwhile-1", "meanwhile-1"),
    "denied": ("denied-1", "denied-1"),
    "canceled": ("canceled-1", "canceled-1"),
    "scheduled": ("scheduled-1", "scheduled-1"),
    # AWX deals hosts out by their names: these two are neighbors, of which two slices get one each.
    "sliced": ("sliced-1", "sliced-2"),
    "operated": ("operated-1", "operated-1"),
}


class Fleet(Life):
    """The groups of the table; `pids`, `record` and `lock` are asked by a group's name here."""

    def __init__(self, folder: Path, model: Path, states: Path) -> None:
        low = free_block(2 * len(GROUPS) * WIDTH)
        nic = interface()
        hosts: dict[str, dict[str, t.Any]] = {}
        groups: dict[str, t.Any] = {}
        self.routers: dict[str, str] = {}
        for name, (prefill, decode) in GROUPS.items():
            for host in dict.fromkeys((prefill, decode)):
                port = low + len(hosts) * WIDTH
                hosts[host] = {
                    "pd_address": f"127.0.1.{len(hosts) + 1}",
                    "pd_port_range": f"{port + 1}-{port + WIDTH - 1}",
                    "pd_state_dir": str(states / host),
                    # What spans hosts has its KV cache on a network; without one its groups are refused, as they are to be here.
                    **({"pd_kv_interface": nic} if nic and prefill != decode else {}),
                }
            at = hosts[prefill]["pd_address"], int(hosts[prefill]["pd_port_range"].partition("-")[0]) - 1
            self.routers[name] = f"http://{at[0]}:{at[1]}"
            roles = {"prefill": {"hosts": prefill}, "decode": {"hosts": decode}, "router": {"hosts": prefill}}
            # There has to be time to cancel in.
            load = (
                {"engine": {"executable": str(STANDIN / "vllm"), "env": {"STANDIN_LOAD": "12"}}}
                if name == "canceled"
                else {}
            )
            groups[name] = spec(model, at[1], **roles, **load)
        groups["approved"]["engine"]["secrets"] = {"HF_TOKEN": f"{{{{ {SECRET} }}}}"}
        super().__init__(folder, hosts, groups)

    @property
    def project(self) -> Path:
        """The git repository that the inventory is in."""
        return self.folder.parent

    def of(self, name: str) -> list[Path]:
        """The state folders of a group's hosts."""
        return [Path(self.hosts[host]["pd_state_dir"]) for host in dict.fromkeys(GROUPS[name])]

    def members(self, name: str) -> dict[str, int]:
        """The living members of a group, with their pids."""
        return self.pids(self.of(name))

    def serves(self, name: str) -> bool:
        return ask(self.routers[name], "once upon a time")[0] == 200

    def locks(self, name: str) -> list[t.Any]:
        return [lock for state in self.of(name) if (lock := self.lock(name, state))]


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def build(folder: Path) -> Path:
    """The archive of this collection, as it is in the clone."""
    done = subprocess.run(
        ["ansible-galaxy", "collection", "build", "--force", "--output-path", str(folder), str(ROOT)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = folder.glob("inferops-pd-*.tar.gz")
    return archive


def make(folder: Path, archive: Path, model: Path, states: Path) -> Fleet:
    """The project in `folder`, committed. What users write of it is replaced: hosts, groups, and where the collection is from."""
    shutil.copytree(EXAMPLE, folder)
    shutil.rmtree(folder / "inventory")
    fleet = Fleet(folder / "inventory", model, states)
    requirements = {"collections": [{"name": str(archive), "type": "file"}]}
    (folder / "collections" / "requirements.yml").write_text(yaml.safe_dump(requirements))
    git(folder, "init", "--quiet")
    commit(folder)
    return fleet


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "as the tests have it")
