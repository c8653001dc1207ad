# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lost hosts are fenced on the controller by a user's own command: in a real play, on hosts that do not answer."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from support import Run, playbook_command, run

pytestmark = [pytest.mark.integration, pytest.mark.floor]
SECRET = "hunter2-of-the-bmc"
FENCE = """
import json, os, pathlib, sys
with open(sys.argv[1], "a") as stream:
    stream.write(json.dumps([sys.argv[2:], os.environ.get("BMC_PASSWORD"), sys.stdin.read()]) + "\\n")
print("bmc says", os.environ.get("BMC_PASSWORD"))
sys.exit(4 if sys.argv[2] == os.environ.get("FAIL_FOR") else 0)
"""


class Play:
    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        (folder / "fence.py").write_text(FENCE)
        hosts = {
            "h1": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
            **{f"h{n}": {"ansible_host": "192.0.2.1", "bmc": f"10.9.0.{n}", "bmc_user": "u-{{ bmc }}"} for n in (2, 3)},
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))

    @property
    def argv(self) -> list[str]:
        return [sys.executable, str(self.folder / "fence.py"), str(self.log)]

    def run(self, *args: str, lost: tuple[str, ...] = ("h2", "h3"), **options: t.Any) -> Run:
        fence = [
            {"host": h, "machine": f"id-{h}", "address": f"10.0.0.{h[1:]}", "members": ["g-prefill-0"]} for h in lost
        ]
        given = {"command": [*self.argv, "${host}", "${vars.bmc}", "${vars.bmc_user}", "${machine}"], **options}
        task = {
            "name": "Fence",
            "inferops.pd.group_fence": {"plan": {"group": "g", "fence": fence}, **given},
            "run_once": True,
        }
        book = self.folder / "play.yml"
        tasks = [task]
        book.write_text(yaml.safe_dump([{"name": "P", "hosts": "h1", "gather_facts": False, "tasks": tasks}]))
        return run([playbook_command(), "-i", str(self.folder / "hosts.yml"), str(book), *args], 120)

    def ran(self) -> list[t.Any]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def test_each_lost_host_is_fenced_once_and_no_secret_is_told(play: Play) -> None:
    done = play.run("-vvv", "--diff", env={"BMC_PASSWORD": SECRET}).ok()
    assert play.ran() == [
        [["h2", "10.9.0.2", "u-10.9.0.2", "id-h2"], SECRET, ""],
        [["h3", "10.9.0.3", "u-10.9.0.3", "id-h3"], SECRET, ""],
    ]
    assert SECRET not in done.out
    assert "10.9.0.2" not in done.out, "what host variables hold may be a secret"
    assert "Fenced: h2, h3" in done.out
    assert "h3 | fencing it: " in done.out
    assert done.recap["h1"]["changed"] == 1
    assert "h2" not in done.recap, "nobody asks a host that is lost"


def test_check_mode_says_what_it_would_run_and_runs_nothing(play: Play) -> None:
    done = play.run("--check", env={"BMC_PASSWORD": SECRET}).ok()
    assert play.ran() == []
    assert f"h2 | would be fenced: {play.argv[0]} " in done.out
    assert "'${vars.bmc}'" in done.out
    assert SECRET not in done.out
    assert done.recap["h1"]["changed"] == 1


@pytest.mark.parametrize("given", [{"command": None}, {"command": ""}, {"command": []}, {"lost": ()}])
def test_without_a_command_or_a_lost_host_it_is_skipped(play: Play, given: dict[str, t.Any]) -> None:
    done = play.run(**given).ok()
    assert (done.recap["h1"]["skipped"], done.recap["h1"]["changed"]) == (1, 0)
    assert play.ran() == []


def test_one_that_fails_ends_the_run(play: Play) -> None:
    done = play.run("-vvv", env={"BMC_PASSWORD": SECRET, "FAIL_FOR": "h3"}).refused()
    said = " ".join(done.out.split())
    assert "Fencing h3: the command " in said
    assert "ended with 4. Its last line: bmc says ********" in said
    assert "Fenced before it: h2." in said
    assert "nothing of the group has been stopped" in said
    assert SECRET not in done.out


def test_one_that_hangs_ends_at_its_deadline(play: Play) -> None:
    done = play.run(command=["sleep", "60"], timeout=1).refused()
    assert "did not end within 1 s, and was killed" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("ipmitool -H ${address} off", "Write it as a list, a word an entry: ['ipmitool', '-H', '${address}', 'off']"),
        (["f", "${hots}"], "${hots} is not known"),
        (["f", "${vars.ilo}"], "variable ilo of h2 is no text"),
        (["f", SECRET], "has the value of BMC_PASSWORD in it"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused_and_nothing_is_run(play: Play, command: t.Any, told: str) -> None:
    done = play.run(command=command, env={"BMC_PASSWORD": SECRET}).refused()
    # The oldest Ansible prints a message as YAML has it, with quotes doubled.
    assert told in " ".join(done.out.split()).replace("''", "'")
    assert play.ran() == []
