"""A fence command: what is read of it, what is filled in, and how it ends."""

from __future__ import annotations

import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Lost
from ansible_collections.inferops.pd.plugins.plugin_utils import _fence
from ansible_collections.inferops.pd.plugins.plugin_utils._command import LINE, Ended
from ansible_collections.inferops.pd.plugins.plugin_utils._fence import Command, command_for

LOST = {"host": "h2", "machine": "0123abcd", "address": "10.0.0.2", "members": ["g-prefill-0"]}
VARIABLES = {"bmc": "10.9.0.2", "port": 623, "user": "${host}", "rack": {"a": 1}, "none": None}


def made(argv: list[str], lost: dict[str, t.Any] | None = None, env: dict[str, str] | None = None) -> Command:
    return command_for(
        argv,
        Lost.from_plain(lost or LOST),
        "g",
        lambda host, name: VARIABLES.get(name) if host == "h2" else None,
        env or {},
    )


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, "", []])
def test_an_empty_answer_is_no_command(nothing: t.Any) -> None:
    assert _fence.read_command(nothing) == []


def test_text_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(PdError, match=r"Write it as a list, a word an entry: \['ipmitool', '-H', 'a b', 'off'\]"):
        _fence.read_command("ipmitool -H 'a b' off")
    with pytest.raises(PdError, match="no shell reads it"):
        _fence.read_command("an 'unfinished quote")


@pytest.mark.parametrize("bad", [{"a": 1}, [None], ["a", ["b"]], ["a", True], ["", "b"], [" "], ["a\0b"]])
def test_what_is_no_list_of_words_is_refused(bad: t.Any) -> None:
    with pytest.raises(PdError, match="The fence command"):
        _fence.read_command(bad)


def test_numbers_are_words() -> None:
    assert _fence.read_command(["fence", 5, 1.5]) == ["fence", "5", "1.5"]


@pytest.mark.parametrize("bad", [{"A": None}, {"A": True}, {"A": ["x"]}, {"A=B": "x"}, {"": "x"}, {"A": "s3cret\0"}])
def test_what_is_no_environment_is_refused_without_its_values(bad: dict[str, t.Any]) -> None:
    with pytest.raises(PdError, match="environment") as told:
        _fence.read_environment(bad)
    assert "s3cret" not in str(told.value)


# -- filling in -------------------------------------------------------------------------------------------------------


def test_every_placeholder_is_filled_in() -> None:
    found = made(
        ["f", "--host=${host}", "${address}", "${machine}@${group}", "${vars.bmc}:${vars.port}", "$HOME", "$${host}"]
    )
    assert found.argv == ["f", "--host=h2", "10.0.0.2", "0123abcd@g", "10.9.0.2:623", "$HOME", "${host}"]
    assert "10.9.0.2" not in found.shown
    assert "${vars.bmc}:${vars.port}" in found.shown
    assert "--host=h2" in found.shown


def test_what_is_filled_in_is_not_read_again() -> None:
    assert made(["f", "${vars.user}", "; reboot"]).argv == ["f", "${host}", "; reboot"]


@pytest.mark.parametrize(
    "word", ["${hots}", "${}", "${vars.}", "${vars.a-b}", "${vars.a.b}", "${ host }", "${member.id}"]
)
def test_an_unknown_placeholder_is_an_error(word: str) -> None:
    with pytest.raises(PdError, match=r"is not known\. There are \$\{host\}"):
        made(["f", word])


@pytest.mark.parametrize("word", ["${vars.rack}", "${vars.none}", "${vars.no_such}"])
def test_a_variable_that_is_no_text_has_no_value(word: str) -> None:
    with pytest.raises(PdError, match=r"has no value: variable \w+ of h2 is no text\. Nothing was run"):
        made(["f", word])


def test_what_is_not_known_of_a_host_is_an_error_only_where_it_is_asked_for() -> None:
    lost = {"host": "h3", "machine": None, "address": None, "members": ["m"]}
    assert made(["f", "${host}"], lost).argv == ["f", "h3"]
    with pytest.raises(PdError, match="the machine of h3 is not known"):
        made(["f", "${machine}"], lost)


def test_a_secret_of_the_environment_is_refused_in_the_argv() -> None:
    with pytest.raises(PdError, match="entry 2 has the value of PASSWORD in it") as told:
        made(["f", "-P", "pw=hunter2!"], env={"PASSWORD": "hunter2!"})
    assert "hunter2!" not in str(told.value)


# -- running ----------------------------------------------------------------------------------------------------------


def run(code: str, seconds: float = 20, env: dict[str, str] | None = None, values: tuple[str, ...] = ()) -> Ended:
    return _fence.run(Command("h2", [sys.executable, "-c", code], "shown", values), env or {}, seconds)


def test_its_end_is_told() -> None:
    assert run("print('one'); print('two')") == Ended("", ("one", "two"))
    assert run("import sys; print('no route', file=sys.stderr); sys.exit(7)") == Ended("ended with 7", ("no route",))
    assert run("import os; os.kill(os.getpid(), 9)") == Ended("was killed by signal 9")
    assert _fence.run(Command("h2", ["/no/such"], "", ()), {}, 5) == Ended("cannot be run: No such file or directory")


def test_it_has_no_input_and_its_own_environment() -> None:
    assert run("import os, sys; print(repr(sys.stdin.read()), os.environ['A'])", env={"A": "b"}).line == "'' b"


def test_its_last_line_is_printable_bounded_and_without_secrets() -> None:
    told = run("print('x' * 9000); print('\\x1b[31m' + 'y' * 500); print(); print(' ')").line
    assert told == "y" * (LINE - 1) + "…"
    secret = "print('the key hunter2! and a long\\nbreak!! were refused')"
    assert "hunter2!" not in run(secret, values=("hunter2!", "hunter")).line
    assert run(secret, values=("a long\nbreak!!", "hunter2!")).line == "the key ******** and ******** were refused"
    assert run("import sys; sys.stdout.buffer.write(b'\\xff\\xfe end')").line.endswith("end")


def test_at_its_deadline_it_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    child = f"import time, pathlib; time.sleep(2); pathlib.Path({str(mark)!r}).touch()"
    starts = f"subprocess.Popen([sys.executable, '-c', {child!r}])"
    code = f"import subprocess, sys, time; print('waiting', flush=True); {starts}; time.sleep(60)"
    begun = time.monotonic()
    assert run(code, seconds=1) == Ended("did not end within 1 s, and was killed", ("waiting",))
    assert time.monotonic() - begun < 3
    time.sleep(2)
    assert not mark.exists()


def test_what_it_leaves_behind_is_not_waited_for() -> None:
    begun = time.monotonic()
    assert run("import subprocess; subprocess.Popen(['sleep', '5']); print('done')") == Ended("", ("done",))
    assert time.monotonic() - begun < 4
