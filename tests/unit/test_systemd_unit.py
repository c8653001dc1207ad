# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members as units: what is written, and what `systemctl show` of systemd 252 says of them (recorded)."""

from __future__ import annotations

import time

import planned
import pytest

from ansible_collections.inferops.pd.plugins.module_utils._runtimes import systemd, systemd_unit
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.folder import Folder
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

# Of eight units in eight states, and of one that there is not.
SHOWN = """\
MainPID=405
Result=success
ExecMainStartTimestampMonotonic=5014699810
ExecMainCode=0
ExecMainStatus=0
ControlGroup=/system.slice/inferops-pd-g-prefill-0.service
Id=inferops-pd-g-prefill-0.service
LoadState=loaded
ActiveState=active
SubState=running

MainPID=0
Result=exit-code
ExecMainStartTimestampMonotonic=5072008262
ExecMainCode=1
ExecMainStatus=3
ControlGroup=
Id=inferops-pd-g-prefill-1.service
LoadState=loaded
ActiveState=failed
SubState=failed

MainPID=0
Result=exit-code
ExecMainStartTimestampMonotonic=5071626323
ExecMainCode=1
ExecMainStatus=3
ControlGroup=
Id=inferops-pd-g-prefill-2.service
LoadState=loaded
ActiveState=activating
SubState=auto-restart

MainPID=0
Result=signal
ExecMainStartTimestampMonotonic=5071627669
ExecMainCode=2
ExecMainStatus=9
ControlGroup=
Id=inferops-pd-g-prefill-3.service
LoadState=loaded
ActiveState=failed
SubState=failed

MainPID=0
Result=success
ExecMainStartTimestampMonotonic=0
ExecMainCode=0
ExecMainStatus=0
ControlGroup=
Id=inferops-pd-g-prefill-4.service
LoadState=loaded
ActiveState=inactive
SubState=dead

MainPID=1592
Result=success
ExecMainStartTimestampMonotonic=5071641191
ExecMainCode=0
ExecMainStatus=0
ControlGroup=/system.slice/inferops-pd-g-prefill-7.service
Id=inferops-pd-g-prefill-7.service
LoadState=loaded
ActiveState=deactivating
SubState=stop-sigterm

MainPID=0
Result=success
ExecMainStartTimestampMonotonic=0
ExecMainCode=0
ExecMainStatus=0
ControlGroup=
Id=inferops-pd-g-decode-9.service
LoadState=not-found
ActiveState=inactive
SubState=dead
"""
UNITS = systemd_unit.parse_show(SHOWN)


def unit(name):
    return UNITS[systemd_unit.unit_name(name)]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("g-prefill-0", "running"),
        ("g-prefill-1", "exited"),
        ("g-prefill-2", "restarting"),
        ("g-prefill-3", "exited"),
        ("g-prefill-4", "exited"),
        ("g-prefill-7", "running"),
        ("g-decode-9", "missing"),
    ],
)
def test_the_state_of_a_member(name, state):
    assert systemd.state_of(unit(name)) == state


def test_a_unit_that_was_not_told_of_is_missing():
    assert systemd.state_of({}) == "missing"


NOW = time.time()


@pytest.mark.parametrize(
    ("name", "started", "attempts", "told"),
    [
        ("g-prefill-1", [NOW] * 3, 2, (3, "exited with status 3, started 3 times; systemd gave it up")),
        ("g-prefill-1", [NOW], 0, (3, "exited with status 3")),
        ("g-prefill-2", [NOW], 3, (3, "exited with status 3; systemd starts it again")),
        ("g-prefill-3", [NOW], 0, (None, "was ended by SIGKILL (out of memory? see dmesg)")),
        (
            "g-prefill-4",
            [NOW],
            3,
            (None, "it ended without an error: it was stopped by hand (systemctl stop), or exited with status 0"),
        ),
        ("g-prefill-4", [1000.0], 3, (None, "it has not been started since the host booted")),
        ("g-decode-9", [], 0, (None, "systemd does not know it: its unit file is gone")),
    ],
)
def test_why_a_member_does_not_run(name, started, attempts, told):
    assert systemd.ended(unit(name), started, attempts) == told


def test_a_kill_for_memory_is_told():
    told = {**unit("g-prefill-3"), "Result": "oom-kill"}
    assert systemd.ended(told, [NOW], 0) == (None, "was ended for memory, the kernel's or its limit's")


def test_when_a_member_was_started():
    (since,) = {systemd.since_of({"ExecMainStartTimestampMonotonic": str(int(time.monotonic() * 1e6) - 5_000_000)})}
    assert abs(since - (time.time() - 5)) < 0.1
    assert systemd.since_of(unit("g-prefill-4")) is None


# -- what is written -----------------------------------------------------------------------------------------------------------------

MEMBER = {
    "id": "g-prefill-0",
    "restart": {"attempts": 3, "window": 300},
    "stop": {"grace": 45, "drain": 5},
    "parts": [{}],
}


def render(raw, *place, **how):
    made = planned.member(raw)
    return systemd_unit.render(made, made.leader, *place, **how)


def lines(member=None, **how):
    text = render(member or MEMBER, "g", "/s/groups/g/members/g-prefill-0", "/s", **{"user": False, **how})
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_unit_of_a_member():
    assert lines() == [
        "[Unit]",
        "Description=Member g-prefill-0 of the prefill/decode group g",
        "After=network-online.target",
        "StartLimitIntervalSec=1200",
        "StartLimitBurst=4",
        "[Service]",
        "Type=simple",
        "ExecStart=/bin/sh /s/groups/g/members/g-prefill-0/run",
        "WorkingDirectory=/s/groups/g/members/g-prefill-0",
        "Restart=on-failure",
        "RestartPreventExitStatus=78",
        "RestartSec=1",
        "KillMode=control-group",
        "TimeoutStopSec=45",
        "StandardOutput=journal",
        "StandardError=inherit",
        "SyslogIdentifier=inferops-pd-g-prefill-0",
        "UMask=0077",
        "LimitMEMLOCK=infinity",
        "LimitNOFILE=1048576",
        "TasksMax=infinity",
        "NoNewPrivileges=yes",
        "ProtectSystem=full",
        "ProtectControlGroups=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelTunables=yes",
        "LockPersonality=yes",
        "RestrictSUIDSGID=yes",
        "[X-Inferops-pd]",
        "Group=g",
        "Member=g-prefill-0",
        "State=/s",
    ]


def test_nothing_starts_at_boot_and_nothing_closes_devices():
    text = "\n".join(lines())
    assert "[Install]" not in text
    for setting in (
        "PrivateDevices",
        "DevicePolicy",
        "DeviceAllow",
        "ProtectClock",
        "PrivateTmp",
        "PrivateIPC",
        "MemoryDenyWriteExecute",
    ):
        assert setting not in text


def test_without_restarts_there_is_no_limit_either():
    told = lines({**MEMBER, "restart": {"attempts": 0, "window": 300}})
    assert {"Restart=no", "StartLimitIntervalSec=0"} <= set(told)


def test_units_of_a_user_have_what_a_user_may_set():
    told = lines(user=True, log="/s/member.log")
    assert not [line for line in told if line.startswith(("Protect", "NoNew", "Restrict"))]
    assert "StandardOutput=append:/s/member.log" in told


def test_the_routers_limits():
    told = lines({**MEMBER, "role": "router", "parts": [{"limits": {"cpu": "1.5", "memory": "2GiB"}}]})
    assert {"CPUQuota=150%", "MemoryMax=2147483648"} <= set(told)


@pytest.mark.parametrize(
    ("text", "amount"), [("512MB", 512_000_000), ("1.5 GiB", 1610612736), ("1024", 1024), ("1K", 1000)]
)
def test_amounts_of_memory(text, amount):
    assert f"MemoryMax={amount}" in lines({**MEMBER, "parts": [{"limits": {"memory": text}}]})


def test_percent_signs_are_no_specifiers():
    assert systemd_unit.escape("/a%n") == "/a%%n"


def test_whose_a_unit_is():
    text = render(MEMBER, "g", "/s/m", "/s", False)
    assert systemd_unit.belongs_to(text) == "/s"
    assert systemd_unit.belongs_to("[Service]\nExecStart=/bin/true\nState=/s\n") is None


def test_locked_memory():
    head = "Limit                     Soft Limit           Hard Limit           Units     \n"
    assert (
        systemd_unit.memlock(head + "Max locked memory         8388608              8388608              bytes     \n")
        == 8388608
    )
    assert (
        systemd_unit.memlock(head + "Max locked memory         unlimited            unlimited            bytes     \n")
        is None
    )
    assert systemd_unit.memlock("") is None


# -- the member's directory ------------------------------------------------------------------------------------------------------------


LABEL = {"group": "g", "member": "g-prefill-0", "role": "prefill", "index": 0}


@pytest.fixture
def folder(tmp_path):
    state = State(str(tmp_path / "state"))
    state.write_label(LABEL)
    return Folder(state, "g", "g-prefill-0")


def test_environment_and_script(folder):
    odd = 'it\'s "q"\n100% $HOME %h\n'
    folder.write(
        planned.part({"argv": ["/bin/sh", "-c", "true"], "env": {"ODD": odd}, "secrets": ["TOKEN"]}),
        LABEL,
        {"TOKEN": "hunter2-secret"},
    )
    assert folder.masked(["the token is hunter2-secret"], {"secrets": ["TOKEN"]}) == ["the token is ********"]
    with open(f"{folder.path}/run", encoding="utf-8") as stream:
        script = stream.read()
    assert "hunter2" not in script
    assert script.endswith('exec ${1:+/usr/bin/env} "$@" /bin/sh \\\n    -c \\\n    true\n')


def test_a_missing_secret_and_a_path_elsewhere_are_refused(folder):
    with pytest.raises(HostError, match="no value was given for its secrets TOKEN"):
        folder.write(planned.part({"argv": ["/bin/sh"], "secrets": ["TOKEN"]}), LABEL, {})
    for path in ("/etc/passwd", "../../x"):
        with pytest.raises(HostError, match="in its own directory"):
            folder.write(planned.part({"argv": ["/bin/sh"], "files": [{"path": path, "content": ""}]}), LABEL, {})


def test_starts(folder):
    assert folder.starts() == []
    with open(f"{folder.path}/starts", "w", encoding="ascii") as stream:
        stream.write("1700000000 17\nhalf\n1700000009 18\n")
    assert folder.starts() == [(17, 1700000000.0, None, None), (18, 1700000009.0, None, None)]


BOOT = "6f9c1f0e-7f4d-4b0a-9d0f-2f7d5a6f0a11"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"1700000000 17 {BOOT} 4711", (17, 1700000000.0, BOOT, 4711)),
        ("1700000000 17 - -", (17, 1700000000.0, None, None)),
        (f"1700000000 17 {BOOT} -", (17, 1700000000.0, None, None)),
        ("1700000000 ²", None),
        ("² 17", None),
        (f"1700000000 17 {BOOT} ²", None),
        ("1" * 400 + " 17", None),
        ("1700000000 " + "9" * 5000, None),
        (f"1700000000 17 {BOOT} {'9' * 5000}", None),
        ("-5 -9", None),
        ("1700000000 17 x y z", None),
        ("1700000000 17 \udcff \x00", None),
    ],
)
def test_a_line_of_starts(folder, line, told):
    with open(f"{folder.path}/starts", "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(f"{line}\n")
    assert [tuple(start) for start in folder.starts()] == ([told] if told else [])


def test_scopes(folder):
    with pytest.raises(HostError, match="neither system nor user"):
        systemd.Systemd(folder.state, "both")
    assert systemd.Systemd(folder.state).units_dir == "/etc/systemd/system"
    assert systemd.Systemd(folder.state, "user").units_dir.endswith("/.config/systemd/user")
