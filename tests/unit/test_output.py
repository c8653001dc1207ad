# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads: counts and names in sentences, what several hosts say alike, and what a host that answers complains of."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import (
    Findings,
    as_text,
    in_short,
    of_several,
    sentences,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.base.words import about, by_number, counted, names
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import GPU_TOOLS
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reach
from ansible_collections.inferops.pd.plugins.module_utils._probes import gpus, processes
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import boot, gone
from ansible_collections.inferops.pd.plugins.plugin_utils._answers import complaint, last_line, version_in


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (counted(1, "replica"), "1 replica"),
        (counted(2, "replica"), "2 replicas"),
        (counted(0, "error"), "0 errors"),
        (counted(1, "process", "processes"), "1 process"),
        (counted(3, "process", "processes"), "3 processes"),
        (names(["h1", "h2"]), "h1, h2"),
        (names(["h1", "h2", "h3"], most=2), "h1, h2 and 1 more"),
        (by_number(["h1"], "was", "were"), "was"),
        (by_number(2, "was", "were"), "were"),
        (about(["h2"], "was left out of this run"), "h2 was left out of this run"),
        (about(["h2", "h3"], "was left out of this run"), "h2, h3 were left out of this run"),
        (about(["h2", "h3"], "is not in the inventory"), "h2, h3 are not in the inventory"),
        (about(["h2", "h3"], "did not answer"), "h2, h3 did not answer"),
        (about(["h2", "h3"], "answers, but"), "h2, h3 answer, but"),
        (gone.left_of(1), "1 process that it started is left"),
        (gone.left_of(2), "2 processes that it started are left"),
    ],
)
def test_counts_and_names_are_english(said: str, told: str) -> None:
    assert said == told


def test_hosts_that_were_left_out_are_several() -> None:
    reach = Reach({"h1", "h2", "h3"}, {"h1"})
    assert reach.of_hosts({"h2": [], "h3": []}) == "h2, h3 were left out of this run"
    assert reach.of_hosts({"h2": ["g-decode-0"]}) == "h2 was left out of this run and may still run g-decode-0"


def test_only_a_host_that_is_silent_may_be_gone_for_good() -> None:
    reach = Reach({"h1", "h2", "h3", "h4"}, {"h1", "h2", "h3"}, {"h2"}, {"h3": "answers, but its Python is old"})
    assert reach.maybe_gone(["h1", "h2", "h3", "h4", "h5"]) == ["h1", "h5"]
    assert reach.of_hosts({"h3": ()}) == "h3 answers, but its Python is old"


# -- findings of several hosts ---------------------------------------------------------------------------------------------------------


def found(*hosts: str, message: str = "{0}: the KV interface is not known.", hint: str = "") -> Findings:
    findings = Findings()
    for host in hosts:
        findings.warning("kv-interface", message.format(host), hint.format(host), [], host)
    return findings


@pytest.mark.parametrize(
    ("hosts", "message", "hint", "text"),
    [
        (["h1"], "{0}: not known.", "", "- WARNING kv-interface [h1]: h1: not known."),
        (["h1", "h2"], "{0}: not known.", "", "- WARNING kv-interface [h1, h2]: not known."),
        (["h1", "h10"], "{0} is full.", "", "- WARNING kv-interface [h1, h10]: h1, h10 are full."),
        (["h1", "h2"], "{0}: x.", "ansible -m ping {0}", "- WARNING kv-interface [h1, h2]: x.\n    ansible -m ping h1,h2"),
        (["h1", "h2"], "{0}: x.", "-e pd_lost_hosts={0}", "- WARNING kv-interface [h1, h2]: x.\n    -e pd_lost_hosts=h1,h2"),
        # What names its host in the middle of a sentence may mean another thing of each.
        (["h1", "h2"], "the disk of {0} is full.", "",
         "- WARNING kv-interface [h1]: the disk of h1 is full.\n- WARNING kv-interface [h2]: the disk of h2 is full."),
    ],
)  # fmt: skip
def test_what_several_hosts_say_alike_is_one_line(hosts: list[str], message: str, hint: str, text: str) -> None:
    assert as_text(found(*hosts, message=message, hint=hint).to_plain()) == text


def test_hosts_that_say_different_things_are_told_apart() -> None:
    findings = found("h1", "h2")
    findings.warning("kv-interface", "h3: there are two.", "", [], "h3")
    assert [one["hosts"] for one in of_several(findings.to_plain())] == [["h1", "h2"], ["h3"]]
    assert sentences(findings.to_plain()) == ["h1, h2: the KV interface is not known.", "h3: there are two."]


def test_a_failed_result_has_no_words_of_a_finding_that_were_told_above_it() -> None:
    (short,) = in_short(found("h1").to_plain())
    assert short == {"severity": "warning", "code": "kv-interface", "roles": [], "host": "h1"}


# -- hosts that answer, and are not what modules need ------------------------------------------------------------------------------------

OLD = {
    "msg": "MODULE FAILURE",
    "rc": 1,
    "module_stderr": "Traceback ...\nSyntaxError: future feature annotations is not defined\n",
}
SUDO = {"msg": "MODULE FAILURE", "rc": 1, "module_stderr": "sudo: a password is required\n"}
RAISED = {"msg": "Task failed: Premature end of stream.\n>>> Standard Error\nsudo: a password is required"}
NONE = {
    "msg": "The module interpreter was not found.",
    "rc": 127,
    "module_stderr": "/bin/sh: 1: /usr/bin/python9: not found",
}
VALUE = {"msg": "Looking at the host failed. pd_port_range: 'x' is no port range. Write it as 40000-40063."}
BROKEN = {"msg": "MODULE FAILURE", "module_stderr": "Traceback ...\n  File x\nOSError: [Errno 5] Input/output error\n"}


@pytest.mark.parametrize(
    ("result", "version", "said", "way_out"),
    [
        (OLD, (3, 6), "answers, but /usr/bin/python3 is 3.6; 3.9 is needed", "ansible_python_interpreter"),
        (OLD, (3, 8), "answers, but /usr/bin/python3 is 3.8; 3.9 is needed", "ansible_python_interpreter"),
        (OLD, (2, 7), "answers, but /usr/bin/python3 is 2.7; 3.9 is needed", "ansible_python_interpreter"),
        (SUDO, (3, 11), "answers, but becoming another user there fails: sudo: a password is required", "--ask-become-pass"),
        (RAISED, None, "answers, but becoming another user there fails: sudo: a password is required", "--ask-become-pass"),
        (NONE, None, "answers, but /usr/bin/python3 cannot be run: /bin/sh: 1: /usr/bin/python9: not found", "Install Python 3.9"),
        (VALUE, None, "answers, but pd_port_range: 'x' is no port range. Write it as 40000-40063", "host variable"),
        (BROKEN, (3, 11), "answers, but looking at it failed: OSError: [Errno 5] Input/output error", "-vvv"),
    ],
)  # fmt: skip
def test_what_a_host_complains_of(
    result: dict[str, t.Any], version: tuple[int, int] | None, said: str, way_out: str
) -> None:
    told = complaint(result, "/usr/bin/python3", version)
    assert told.said == said
    assert way_out in told.way_out
    assert "fenced" not in told.way_out


def test_a_version_is_found_among_what_a_login_shell_says() -> None:
    assert version_in("Welcome to h2!\npd-python 3.8\n") == (3, 8)
    assert version_in("python: command not found") is None
    assert last_line({}) == "it gave no reason"


# -- boots, drivers -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("started", "at", "since"),
    [
        # A clock that was set since makes no boot, nor does a unit that sees the boot of the machine below its container.
        (100.0, "now", False),
        (2000.0, "of the machine below", False),
        (100.0, "earlier", True),
        (100.0, None, True),
        (2000.0, None, False),
        (None, None, False),
    ],
)
def test_a_start_of_an_earlier_boot(
    monkeypatch: pytest.MonkeyPatch, started: float | None, at: str | None, since: bool
) -> None:
    monkeypatch.setattr(processes, "boot_time", lambda: 1000.0)
    monkeypatch.setattr(processes, "boot_id", lambda: "now")
    assert boot.since(started, at) == since
    assert boot.told().startswith("the host booted at 1970-01-01 ")


def test_the_drivers_tools_are_those_that_are_asked() -> None:
    assert {argv[0] for argv, _parse in gpus._TOOLS} == set(GPU_TOOLS)
