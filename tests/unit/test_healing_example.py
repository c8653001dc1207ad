"""examples/healing: units that systemd takes, and a rulebook that asks for what the playbook takes."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from builders import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.spec.variables import unknown

EXAMPLE = Path(ROOT) / "examples" / "healing"


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read(EXAMPLE / name)
    return found


def test_the_timer_runs_the_playbook() -> None:
    service, timer = unit("pd-heal.service"), unit("pd-heal.timer")
    assert service["Service"]["ExecStart"].split()[-1] == "inferops.pd.heal"
    assert (Path(ROOT) / "playbooks" / "heal.yml").exists()
    assert service["Service"]["Type"] == "oneshot"
    # After the end of the last run: a run that takes long is not met by the next one.
    assert timer["Timer"]["OnUnitInactiveSec"] == "5min"
    assert "Unit" not in timer["Timer"], "it starts the service of its own name"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for name in ("pd-heal.service", "pd-heal.timer"):
        text = (EXAMPLE / name).read_text()
        # What is the user's to set, and not on this machine.
        text = text.replace("/opt/ansible/bin/ansible-playbook", "/bin/true")
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in ("pd-heal.service", "pd-heal.timer")]
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    mine = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "pd-heal" in line]
    assert (done.returncode, mine) == (0, []), done.stderr


def test_the_rulebook_heals_the_group_of_the_alert() -> None:
    (ruleset,) = yaml.safe_load((EXAMPLE / "heal.rulebook.yml").read_text())
    (source,), (rule,) = ruleset["sources"], ruleset["rules"]
    run = rule["action"]["run_playbook"]
    assert run["name"] == "inferops.pd.heal"
    assert unknown(run["extra_vars"]) == []
    label = "event.payload.commonLabels.pd_group"
    assert run["extra_vars"]["pd_group"] == f"{{{{ {label} }}}}"
    assert f"{label} is defined" in rule["condition"]
    assert rule["throttle"]["group_by_attributes"] == [label]
    # What Alertmanager is told is where the rulebook listens, and not everybody can reach that.
    alertmanager = yaml.safe_load((EXAMPLE / "alertmanager.yml").read_text())
    (hook,) = next(one["webhook_configs"] for one in alertmanager["receivers"] if one["name"] == "heal")
    webhook = source["eda.builtin.webhook"]
    assert hook["url"].startswith(f"http://{webhook['host']}:{webhook['port']}/")
    assert webhook["host"] == "127.0.0.1"
    assert "PD_HEAL_TOKEN" in webhook["token"]
    (route,) = alertmanager["route"]["routes"]
    assert route["group_by"] == ["pd_group"]


def test_the_readme_names_the_files_that_there_are() -> None:
    text = (EXAMPLE / "README.md").read_text()
    for name in os.listdir(EXAMPLE):
        assert name in text or name == "README.md"
