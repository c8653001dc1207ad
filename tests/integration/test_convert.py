# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook convert, as a user runs it: files in, a file out that validate accepts, twice the same, and no secret anywhere."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from support import Run, playbook_command, run

pytestmark = [pytest.mark.integration, pytest.mark.floor]
SECRET = "hf_abcdefghijkl"
LINE = (
    "HF_TOKEN={secret} vllm serve /models/m --port 1 --max-model-len {length} "
    """--kv-transfer-config '{{"kv_connector":"NixlConnector","kv_role":"{role}"}}'\n"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "group_vars" / "all").mkdir(parents=True)
    hosts = {
        "prefill_nodes": {"hosts": {"a": {}}},
        "decode_nodes": {"hosts": {"b": {}}},
        "router_nodes": {"hosts": {"a": {}}},
    }
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts}}))
    for name, role in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        (tmp_path / f"{name}.sh").write_text(LINE.format(secret=SECRET, length=4096, role=role))
    return tmp_path


def play(folder: Path, book: str, *args: str, **extra: t.Any) -> Run:
    given = [word for name, value in extra.items() for word in ("-e", f"{name}={value}")]
    return run([playbook_command(), "-i", str(folder / "hosts.yml"), f"inferops.pd.{book}", *args, *given], 120)


def convert(folder: Path, *args: str, **extra: t.Any) -> Run:
    files = {f"pd_convert_{role}": folder / f"{role}.sh" for role in ("prefill", "decode")}
    return play(
        folder,
        "convert",
        *args,
        **{"pd_group": "q-3", "pd_convert_dest": folder / "group_vars/all/q.yml", **files, **extra},
    )


def test_a_file_is_written_once_and_validate_accepts_it(folder: Path) -> None:
    dest = folder / "group_vars/all/q.yml"
    checked = convert(folder, "--check", "--diff").ok()
    assert checked.changed == 1
    assert "+pd_groups_q_3:" in checked.out
    assert not dest.exists()
    first = convert(folder, "-v").ok()
    assert first.changed == 1
    assert "TO DECIDE" in first.out
    assert convert(folder).ok().changed == 0
    assert SECRET not in dest.read_text() + first.out + checked.out
    play(folder, "validate", "-e", "vault_hf_token=x", pd_group="q-3").ok()
    # Another text is another file; one that was edited stays.
    (folder / "prefill.sh").write_text(LINE.format(secret=SECRET, length=8192, role="kv_producer"))
    changed = convert(folder).ok()
    assert changed.changed == 1
    assert "pairing-context-length" in changed.out
    dest.write_text(dest.read_text() + "# mine\n")
    assert "edited since" in " ".join(convert(folder).refused().out.split())
    assert dest.read_text().endswith("# mine\n")
    assert convert(folder, pd_convert_force="true").ok().changed == 1


def test_what_cannot_be_read_is_one_sentence(folder: Path) -> None:
    def said(**extra: t.Any) -> str:
        # The oldest Ansible prints a message as YAML has it, with quotes doubled.
        return " ".join(convert(folder, **extra).refused().out.split()).replace("''", "'")

    assert "none.sh cannot be read" in said(pd_convert_prefill=folder / "none.sh")
    assert "There is no command of prefill" in said(pd_convert_prefill=folder / "hosts.yml")
    assert "there is no folder" in said(pd_convert_dest=folder / "none/q.yml")
    assert "There is no mode 'x'" in said(pd_convert_mode="x")
    assert "Did you mean pd_convert_prefill?" in said(pd_convert_prefil="x")
