# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator reads: the files of a member under supervisor. Values survive a real shell."""

from __future__ import annotations

import configparser
import json
import os
import subprocess

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._runtimes import script, supervisor_conf
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError

NASTY = {
    "QUOTES": """it's "quoted" `tick`""",
    "DOLLAR": "$HOME ${PATH} $(id)",
    "PERCENT": "100%s %(here)s %%",
    "LINES": "one\ntwo\n\nthree\n",
    "SPACES": "  led and trailed  ",
    "BACKSLASH": "a\\b\\n",
    "EMPTY": "",
    "UNICODE": "grüß 🚀",
    "JSON": json.dumps({"a": ["b", {"c": "d'e"}]}),
    "SEMICOLON": "a ; b # c",
}


def test_environment_survives_the_shell(tmp_path):
    (tmp_path / "env").write_text(script.render_env(NASTY), encoding="utf-8")
    command = ["/bin/sh", "-c", f". {tmp_path}/env; exec env -0"]
    out = subprocess.run(command, capture_output=True, check=True, env={"PATH": os.environ["PATH"]}).stdout
    seen = dict(entry.split("=", 1) for entry in out.decode().split("\0") if "=" in entry)
    assert {k: seen[k] for k in NASTY} == NASTY


def test_environment_can_be_read_back():
    assert script.parse_env(script.render_env(NASTY)) == NASTY


def test_argv_survives_the_shell(tmp_path):
    argv = ["/bin/sh", "-c", 'printf "%s\\0" "$@"', "x", *NASTY.values()]
    (tmp_path / "env").write_text("")
    (tmp_path / "run").write_text(script.render_run("m", "g", str(tmp_path), argv), encoding="utf-8")
    out = subprocess.run(["/bin/sh", str(tmp_path / "run")], capture_output=True, check=True).stdout.decode()
    assert out.split("\0")[:-1] == list(NASTY.values())


@pytest.mark.parametrize("env", [{"A-B": "1"}, {"1A": "1"}, {"A B": "1"}, {"": "1"}, {"A": "x\0y"}])
def test_what_no_environment_holds_is_refused(env):
    with pytest.raises(HostError):
        script.render_env(env)


def test_the_script_holds_no_value_of_the_environment(tmp_path):
    text = script.render_run("g-prefill-0", "g", str(tmp_path), ["/opt/bin/vllm", "serve", "/models/a b"])
    assert text.startswith("#!/bin/sh\n# Member g-prefill-0 of group g")
    assert "exec ${1:+/usr/bin/env} \"$@\" /opt/bin/vllm \\\n    serve \\\n    '/models/a b'\n" in text
    assert "export" not in text


def conf(**changes):
    given = {
        "name": "g-decode-0",
        "directory": "/s/100%/x y",
        "log": "/s/100%/l",
        "restart": {},
        "grace": 30,
    }
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"))
    parser.read_string(supervisor_conf.render_member(**{**given, **changes}))
    return dict(parser["program:g-decode-0"])


@pytest.mark.parametrize(
    ("restart", "expected"),
    [
        (
            {"attempts": 3, "window": 300},
            {"autorestart": "unexpected", "startretries": "3", "startsecs": "300", "exitcodes": "0,78"},
        ),
        ({"attempts": 0, "window": 300}, {"autorestart": "false", "startretries": "0", "startsecs": "300"}),
        ({}, {"autorestart": "false", "startretries": "0"}),
    ],
)
def test_restart_rule(restart, expected):
    assert expected.items() <= conf(restart=restart).items()


def test_a_program_starts_only_when_told_and_stops_as_a_group():
    told = conf()
    assert (told["autostart"], told["stopasgroup"], told["killasgroup"], told["stopsignal"]) == (
        "false",
        "true",
        "true",
        "TERM",
    )
    assert told["stopwaitsecs"] == "30"
    assert (told["redirect_stderr"], told["stdout_logfile_maxbytes"], told["stdout_logfile_backups"]) == (
        "true",
        "50MB",
        "3",
    )


def test_percent_signs_are_no_expansions():
    told = conf()
    assert told["command"] == "/bin/sh '/s/100%%/x y/run'"
    assert told["stdout_logfile"] == "/s/100%%/l"


def test_a_long_path_gets_a_short_socket():
    short, long = "/var/lib/inferops-pd/supervisor", "/home/" + "x" * 90 + "/supervisor"
    assert supervisor_conf.socket_path(short, 0) == short + "/supervisord.sock"
    for uid in (0, 1000):
        path = supervisor_conf.socket_path(long, uid)
        assert len(path) + 8 < 108
        assert str(uid) in path
        assert path != supervisor_conf.socket_path(long + "2", uid)


def test_resolve_prefers_the_place_beside_the_executable(tmp_path):
    for folder in ("engine", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "vllm").write_text("#!/bin/sh\n")
        (tmp_path / folder / "vllm").chmod(0o755)
    path = str(tmp_path / "path")
    assert script.resolve(["vllm"], str(tmp_path / "engine" / "vllm"), path) == str(tmp_path / "engine" / "vllm")
    assert script.resolve(["vllm"], "vllm", path) == str(tmp_path / "path" / "vllm")
    assert script.resolve(["/bin/sh"], None, path) == "/bin/sh"
    with pytest.raises(HostError, match="other-router on PATH: it is not there"):
        script.resolve(["other-router"], None, path)
    with pytest.raises(HostError, match="/nowhere/vllm"):
        script.resolve(["/nowhere/vllm"], None, path)
    (tmp_path / "path" / "vllm").chmod(0o644)
    with pytest.raises(HostError, match="not executable"):
        script.resolve([str(tmp_path / "path" / "vllm")], None, path)
