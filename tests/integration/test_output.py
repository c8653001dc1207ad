# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the screen says on three hosts, as a runner shows it that does not read our ansible.cfg: what had nothing to do is shown there."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from integration.conftest import Life, interface, spec
from ports import free_block
from support import Run

pytestmark = [pytest.mark.integration, pytest.mark.apart]
Make = t.Callable[..., Life]
# A Python that is too old for any module, and can be asked for its version all the same.
OLD = """#!/bin/sh
case "$*" in
    *pd-python*) echo "pd-python 3.8" ;;
    *) echo "SyntaxError: future feature annotations is not defined" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def three(make_site: Make, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    """Prefill and router on h1, a decode on each of h2 and h3."""
    nic = interface()
    if nic is None:
        pytest.skip("needs a default route")
    monkeypatch.setenv("ANSIBLE_DISPLAY_SKIPPED_HOSTS", "true")
    low = free_block(60)
    hosts = {
        f"h{n}": {
            "pd_kv_interface": nic,
            "pd_address": f"127.0.0.{n + 1}",
            "pd_port_range": f"{low + 1 + 19 * (n - 1)}-{low + 19 * n}",
            "pd_state_dir": str(tmp_path / f"h{n}"),
        }
        for n in (1, 2, 3)
    }
    decode = {"hosts": "h2,h3", "replicas": 2}
    site = make_site(hosts, {"g": spec(model, low, prefill={"hosts": "h1"}, decode=decode, router={"hosts": "h1"})})
    site.port = low
    return site


def lines(run: Run) -> list[str]:
    return [line for line in run.out.splitlines() if line.strip()]


def skipped(run: Run) -> list[str]:
    return [line for line in lines(run) if line.startswith("skipping:")]


def test_a_person_reads_what_is_done_and_nothing_that_is_not(three: Life) -> None:
    formed = three.play("deploy").ok()
    assert skipped(formed) == []
    again = three.play("deploy").ok()
    assert skipped(again) == []
    assert "nothing to change" in again.out
    assert "g: RUNNING   prefill 1/1, decode 2/2, router 1/1" in again.out
    assert len(lines(again)) <= 30, again.out
    assert three.play("deploy", "--diff").ok().out.count("+++ after") == 0

    three.group["engine"]["args"] = ["--max-model-len=2048"]
    three.write()
    restarted = three.play("restart", pd_group="g").ok()
    assert "~ decode args: --max-model-len=4096 -> 2048" in restarted.out
    assert skipped(restarted) == []
    # One host has something to do in a phase, and two have not: they are asked, and say so.
    scaled = three.play("scale", pd_group="g", pd_decode=1).ok()
    assert len(skipped(scaled)) <= 3
    assert skipped(three.play("preflight", pd_group="g").ok()) == []
    assert skipped(three.play("remove", pd_group="g").ok()) == []


def test_hosts_with_an_old_python_answer_and_are_told_together(three: Life, tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text(OLD)
    old.chmod(0o755)
    for name in ("h2", "h3"):
        three.hosts[name]["ansible_python_interpreter"] = str(old)
    three.write()
    told = rf"h2, h3 answer, but {re.escape(str(old))} is 3\.8; 3\.9 is needed"
    for book, more in (("deploy", {}), ("restart", {"pd_group": "g"}), ("preflight", {"pd_group": "g"})):
        run = three.play(book, **more).refused()
        said = " ".join(run.out.split())
        assert len(re.findall(told, said)) == 1, f"{book} does not say it once:\n{run.out[-4000:]}"
        assert "pd_lost_hosts" not in said, book
    shown = three.play("status").ok().out
    assert re.search(told, shown)
    assert "No answer from" not in shown
    assert three.untouched()


def test_preflight_fails_where_a_host_of_the_group_does_not_answer(three: Life) -> None:
    three.hosts["h3"] |= {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
        "ansible_ssh_common_args": "-o ConnectTimeout=2 -o BatchMode=yes",
    }
    three.write()
    said = " ".join(three.play("preflight", pd_group="g").refused().out.split())
    assert "ERROR host-unreachable [h3]: h3:" in said
    assert "ansible -m ping h3" in said
