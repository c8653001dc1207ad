# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that is not ours: nothing that a terminal obeys is shown, whichever way it comes in. ENTRIES is the list of the ways."""

from __future__ import annotations

import json
import sys
import tempfile

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings, as_text
from ansible_collections.inferops.pd.plugins.module_utils._core.base.printable import fit, printable
from ansible_collections.inferops.pd.plugins.module_utils._core.proof import evidence
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.completion import Completion
from ansible_collections.inferops.pd.plugins.module_utils._core.report.verdict import reason
from ansible_collections.inferops.pd.plugins.module_utils._host import proof
from ansible_collections.inferops.pd.plugins.module_utils._probes import (
    command,
    executables,
    gpus,
    http,
    logs,
    ports,
    processes,
    space,
)
from ansible_collections.inferops.pd.plugins.module_utils._routers import protocol
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.docker_api import CallError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.plugin_utils import _command

HOSTILE = "a\x1b[2J\x1b]0;owned\x07b\x9b31mc\u202ed\u2028e\x85f\x07g\x00h\ud800i\u200bj"
CODES = set(HOSTILE) - set("abcdefghij[]2J0;owned31m")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("  two\t words \n", "two words"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jx\x9d0;t\x9cy", "xy"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1bcreset", "reset"),
        ("\x1b[" + "9" * 100 + "m", "9" * 100 + "m"),
        ("\u202eright to left\u202c", "\ufffdright to left\ufffd"),
        ("zero\u200bwidth\ufeff", "zero\ufffdwidth\ufffd"),
        ("\ud800 surrogate", "\ufffd surrogate"),
        ("a\u2028b\x85c\x0bd", "a b c d"),
        ("naïve 模型 🙂", "naïve 模型 🙂"),
        (b"bytes \xff\x1b[m", "bytes \ufffd"),
        (None, "None"),
        (7, "7"),
        ("", ""),
    ],
)
def test_one_line_that_can_be_shown(text, shown):
    assert printable(text) == shown


def test_a_long_text_is_cut_and_not_in_silence():
    assert printable("x" * 1000, 10) == "x" * 9 + "…"
    assert len(printable("\x1b]0;" + "x" * 10_000_000)) <= 300
    assert printable("x" * 10, 10) == "x" * 10


def test_a_line_of_a_log_keeps_its_spaces_and_its_length():
    assert fit("  at   0x1\tin main") == "  at   0x1 in main"
    assert fit("x" * 5000) == "x" * 5000


# -- the ways in -------------------------------------------------------------------------------------------------------------------------


def _process_file(tmp_path, name, content):
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "stat").write_text("7 (x) S 1 " + "0 " * 30)
    (folder / name).write_bytes(content)
    return str(tmp_path)


def _listener(tmp_path):
    root = _process_file(tmp_path, "cmdline", HOSTILE.encode("utf-8", "surrogatepass").replace(b"\0", b"") + b"\0-x\0")
    return [processes.command_line(7, root), ports._command(7, root)]


def _comm(tmp_path):
    root = _process_file(tmp_path, "cmdline", b"")
    (tmp_path / "7" / "stat").write_bytes(b"7 (\x1b[2Jcat\xe2\x80\xae) S 1 " + b"0 " * 30)
    return processes.read(7, root).command


def _body(tmp_path):
    said = http.Answer("GET http://h/", 500, json.dumps({"error": {"message": HOSTILE}}).encode(), 0.0)
    plain = http.Answer("GET http://h/", 500, HOSTILE.encode("utf-8", "surrogatepass"), 0.0)
    return [said.excerpt(), said.refusal, plain.excerpt(), plain.refusal]


def _registry(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        body = json.dumps([{"id": HOSTILE}]).encode()
        patch.setattr(protocol, "request", lambda *_a, **_k: http.Answer("GET http://h/", 200, body, 0.0))
        with pytest.raises(protocol.RegistryError) as said:
            protocol.read("http://h", 1.0)
    return str(said.value)


def _answer(tmp_path):
    read = Completion.read({"choices": [{"text": HOSTILE}], "usage": {"prompt_tokens": 3}})
    like = evidence.likeness(evidence.Generated("x", ("x",), ({"x": 0.0},)), read.generated, True).why
    odd = evidence.Generated(HOSTILE, (HOSTILE,))
    far = evidence.likeness(evidence.Generated("x", ("x",), ({"x": 0.0},)), odd, False).why
    return [proof._request("long", "p", read)["answer"], like, far]


def _log(tmp_path):
    path = tmp_path / "log"
    path.write_bytes((HOSTILE + "\n").encode("utf-8", "surrogatepass"))
    return [*logs.tail(str(path)).lines, *logs.clean(HOSTILE)]


def _program(tmp_path):
    script = "import sys; sys.stderr.buffer.write({!r}); sys.exit(3)".format(HOSTILE.encode("utf-8", "surrogatepass"))
    return command.run([sys.executable, "-c", script]).error


def _gpu_tool(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        said = command.Said(f"0, GPU-1, {HOSTILE.replace(chr(0x2028), '').replace(chr(0x85), '')}, 100\n", "")
        patch.setattr(gpus.command, "run", lambda *_a, **_k: said)
        models = [gpu["model"] for gpu in gpus.find(None)[0]]
    assert models
    return [*models, space._program(HOSTILE)]


def _version(tmp_path):
    folder = tmp_path / "x-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(b"Name: x\x1b[2J\nVersion: 1\xc2\x9b2J\n")
    return list(executables._metadata(str(folder)))


def _daemon(tmp_path):
    return [str(HostError("Doing", HOSTILE, "Mend it.")), str(CallError("Creating container x", 500, HOSTILE))]


def _finding(tmp_path):
    findings = Findings()
    findings.error("x", f"one {HOSTILE}\ntwo", HOSTILE)
    return as_text(findings.to_plain()).split("\n")


def _host_result(tmp_path):
    return reason({"failed": True, "msg": HOSTILE})


def _fence(tmp_path):
    with tempfile.TemporaryFile() as output:
        output.write(HOSTILE.encode("utf-8", "surrogatepass"))
        return _command._last_lines(output, [])[-1]


ENTRIES = {
    "the command line of whoever listens": _listener,
    "the name of a process": _comm,
    "an HTTP body": _body,
    "a worker in a router's list": _registry,
    "what a model answers": _answer,
    "a log": _log,
    "what a program says when it fails": _program,
    "a driver's tool, of GPUs and of who is on them": _gpu_tool,
    "the metadata of a distribution": _version,
    "what a daemon says: docker, systemd, supervisor": _daemon,
    "a finding": _finding,
    "the result of a host": _host_result,
    "what a fence says": _fence,
}


@pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)
def test_nothing_that_a_terminal_obeys_comes_in(enter, tmp_path):
    shown = enter(tmp_path)
    for text in [shown] if isinstance(shown, str) else shown:
        assert text
        assert not [c for c in text if c in CODES or not c.isprintable()], ascii(text)
        text.encode()
