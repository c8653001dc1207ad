# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is meant by pd_group, and which hosts are looked at for it: those of its spec, and those that its records point at."""

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
HOSTS = range(1, 7)


@pytest.fixture
def six(make_site: Make, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    """Six hosts: of group a the prefill and router on h1, the decode on h2; group b on h3; nothing on the others."""
    nic = interface()
    if nic is None:
        pytest.skip("needs a default route")
    monkeypatch.setenv("ANSIBLE_DISPLAY_SKIPPED_HOSTS", "true")
    low = free_block(62)
    hosts = {
        f"h{n}": {
            "pd_kv_interface": nic,
            "pd_address": f"127.0.0.{n + 1}",
            "pd_port_range": f"{low + 2 + 10 * (n - 1)}-{low + 1 + 10 * n}",
            "pd_state_dir": str(tmp_path / f"h{n}"),
        }
        for n in HOSTS
    }
    h1, h2, h3 = ({"hosts": f"h{n}"} for n in (1, 2, 3))
    groups = {
        "a": spec(model, low, prefill=h1, decode=h2, router=h1, labels={"engine": "vllm", "site": "fra"}),
        "b": spec(model, low + 1, prefill=h3, decode=h3, router=h3, labels={"engine": "vllm", "site": "ams"}),
    }
    return make_site(hosts, groups)


def looked(run: Run) -> list[str]:
    """The hosts that were looked at, one for each call of host_facts."""
    sections = re.split(r"^TASK ", run.out, flags=re.M)
    looks = [one for one in sections if one.startswith("[inferops.pd.group : Observe]")]
    return sorted(host for one in looks for host in re.findall(r"^ok: \[(\w+)\]$", one, re.M))


def hosts(*numbers: int) -> list[str]:
    return [f"h{n}" for n in numbers]


def test_who_is_looked_at(six: Life) -> None:
    six.play("deploy").ok()
    for written, numbers, told in (
        ("a", (1, 2), ("a: RUNNING",)),
        ("site=ams", (3,), ("b: RUNNING",)),
        ("[ab]", (1, 2, 3), ("a: RUNNING", "b: RUNNING")),
        ("", HOSTS, ("a: RUNNING", "b: RUNNING")),
    ):
        run = six.play("status", pd_group=written).ok()
        assert looked(run) == hosts(*numbers), run.out
        assert "skipping:" not in run.out
        assert "No answer from" not in run.out
        for group in "ab":
            assert (f"{group}: RUNNING" in run.out) == (f"{group}: RUNNING" in told), run.out
    # A deploy that finds its record looks at its own hosts, and has nothing to do there.
    run = six.play("deploy", pd_group="a").ok()
    assert looked(run) == hosts(1, 2), run.out
    assert run.changed == 0
    # A list is no text, and each host is looked at once for all groups.
    run = six.play("preflight", "-e", '{"pd_group": ["a", "b"]}')
    assert looked(run) == hosts(1, 2, 3), run.out

    # Edited: a's decode is to be on h4. Its record tells of h2; nothing tells of h5 and h6.
    six.groups["a"]["roles"]["decode"]["hosts"] = "h4"
    six.write()
    run = six.play("status", pd_group="a").ok()
    assert looked(run) == hosts(1, 2, 4), run.out
    assert "a: RUNNING   prefill 1/1, decode 1/1, router 1/1" in run.out

    # All of it is to be elsewhere: what is looked at first knows nothing of it, and so all are asked.
    for role in six.groups["a"]["roles"].values():
        role["hosts"] = "h5"
    six.write()
    run = six.play("status", pd_group="a").ok()
    assert looked(run) == hosts(*HOSTS), run.out
    assert "a: RUNNING   prefill 1/1, decode 1/1, router 1/1" in run.out

    # It has left the inventory, and is known by its name alone.
    del six.groups["a"]
    six.write()
    run = six.play("status", pd_group="a").ok()
    assert looked(run) == hosts(*HOSTS), run.out
    assert "not_in_inventory" in run.out
    said = " ".join(six.play("status", pd_group="a*").refused().out.split())
    assert "No group of pd_groups matches 'a*'." in said
    six.play("remove", pd_group="a").ok()
    six.play("remove", pd_group="all").ok()
    assert six.pids() == {}


def test_a_selector_that_is_none_is_told_and_nobody_is_asked(six: Life) -> None:
    for book, more, says in (
        ("status", {"pd_group": "engin=vllm"}, "No group has a label 'engin'. Did you mean 'engine'?"),
        ("deploy", {"pd_group": "a,site=fra"}, "'a' is a name, and 'site=fra' is about a label"),
        ("restart", {"pd_group": "c*"}, "No group of pd_groups matches 'c*'. Groups: a, b."),
        ("remove", {"pd_group": "site=fra,site=ams"}, "No group has site=fra and site=ams."),
        ("scale", {"pd_group": "engine=vllm", "pd_decode": 2}, "pd_group selects a, b. This playbook works on one group"),
    ):  # fmt: skip
        run = six.play(book, **more).refused()
        assert says in " ".join(run.out.split()), run.out
        assert looked(run) == []
    assert six.untouched()
