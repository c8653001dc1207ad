"""The life of one real group, in order: what the README promises, seen from outside. Each test goes on from where the last one stopped."""

from __future__ import annotations

import copy
import json
import os
import signal
import threading
import time
import typing as t
import urllib.error
import urllib.request

import pytest
from support import Site

pytestmark = pytest.mark.e2e
ROUTER = "http://127.0.0.1:28190"


def ask(prompt: str, tokens: int = 8) -> tuple[int, str]:
    """One completion through the router: (status, text)."""
    body = json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0}).encode()
    request = urllib.request.Request(f"{ROUTER}/v1/completions", body, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, json.load(answer)["choices"][0]["text"]
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode(errors="replace")
    except OSError as exc:
        return 0, str(exc)


def pids(site: Site) -> dict[str, int]:
    """The pid of every member, by the table that a user reads."""
    out = site.play("status").ok().out
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("real-")]
    return {row[0]: int(row[4]) for row in rows if row[4].isdigit()}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Traffic:
    """A light constant load through the router, until stopped; `failed` are the answers that were not 200."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed: list[tuple[int, str]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_exc: t.Any) -> None:
        self._stop.set()
        self._thread.join(90)

    def _run(self) -> None:
        while not self._stop.is_set():
            status, text = ask(f"request {self.sent} " + "once upon a time " * 8, 4)
            self.sent += 1
            if status != 200:
                self.failed.append((status, text[:200]))
            time.sleep(0.1)


def test_check_tells_what_would_be_started_and_starts_nothing(site: Site) -> None:
    run = site.play("deploy", "--check", "--diff").ok()
    assert "+ [start] create real-prefill-0 on node" in run.out
    assert '"kv_connector":"NixlConnector"' in run.out
    assert not (site.state / "groups").exists()


def test_deploy_forms_a_group_that_answers_and_proves_it(site: Site) -> None:
    run = site.play("deploy").ok()
    assert run.changed > 0
    assert ask("the capital of France is")[0] == 200
    assert "1 of 1 pairs move the KV cache and answer right" in run.out
    status = site.play("status", pd_fail_unless_running="true").ok()
    assert "real: RUNNING" in status.out
    assert "prefill 1/1, decode 1/1, router 1/1" in status.out
    assert len(pids(site)) == 3


def test_a_second_deploy_changes_nothing(site: Site) -> None:
    before = pids(site)
    run = site.play("deploy").ok()
    assert run.changed == 0
    assert pids(site) == before


def test_secrets_and_records_are_for_the_owner_alone(site: Site) -> None:
    record = site.state / "groups/real/record.json"
    assert record.stat().st_mode & 0o777 == 0o600
    assert json.loads(record.read_text())["endpoint"] == {
        "url": ROUTER,
        "served_model_name": "tiny",
        "registered": True,
    }


def test_an_edit_is_pending_and_restarts_nothing(site: Site) -> None:
    before = pids(site)
    kept = copy.deepcopy(site.groups)
    site.groups["real"]["engine"]["args"][1] = "--max-num-seqs=8"
    site.write()
    run = site.play("deploy", "--diff").ok()
    assert "--max-num-seqs=4 -> 8" in run.out
    assert "inferops.pd.restart -e pd_group=real" in run.out
    assert run.changed == 0
    assert pids(site) == before
    assert "pending configuration" in site.play("status").ok().out
    refused = site.play("scale", pd_group="real", pd_prefill=2).refused()
    assert "pending-no-growth" in refused.out
    assert site.play("deploy", pd_fail_on_pending="true").refused()
    site.groups.clear()
    site.groups.update(kept)
    site.write()
    assert "pending" not in site.play("status").ok().out


def test_scaling_up_and_down_touches_nobody_else_and_fails_no_request(site: Site) -> None:
    before = pids(site)
    with Traffic() as traffic:
        site.play("scale", "--check", "--diff", pd_group="real", pd_prefill=2).ok()
        assert pids(site) == before
        up = site.play("scale", pd_group="real", pd_prefill=2).ok()
        assert up.changed > 0
        grown = pids(site)
        assert {k: v for k, v in grown.items() if k != "real-prefill-1"} == before
        assert "count_differs_from_inventory" in site.play("status").ok().out
        site.play("scale", pd_group="real", pd_prefill=1).ok()
    assert pids(site) == before
    assert not alive(grown["real-prefill-1"])
    assert traffic.failed == []
    assert traffic.sent > 20
    assert site.play("scale", pd_group="real", pd_prefill=1).ok().changed == 0


def test_a_killed_member_shows_and_is_healed(site: Site) -> None:
    before = pids(site)
    os.kill(before["real-prefill-0"], signal.SIGKILL)
    shown = site.play("status").ok().out
    assert "real: RUNNING" not in shown
    assert "prefill 0/1" in shown
    site.play("deploy").ok()
    after = pids(site)
    assert after["real-prefill-0"] != before["real-prefill-0"]
    assert after["real-decode-0"] == before["real-decode-0"]
    assert ask("after the repair " * 10)[0] == 200


def test_restart_replaces_every_member_on_the_new_spec(site: Site) -> None:
    before = pids(site)
    site.groups["real"]["engine"]["args"][1] = "--max-num-seqs=8"
    site.write()
    site.play("restart", "--check", "--diff", pd_group="real").ok()
    assert pids(site) == before
    run = site.play("restart", pd_group="real").ok()
    after = pids(site)
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert not any(alive(pid) for pid in before.values())
    assert run.changed > 0
    assert "pending" not in site.play("status").ok().out
    assert ask("after the restart " * 10)[0] == 200


def test_remove_leaves_nothing(site: Site) -> None:
    before = pids(site)
    site.play("remove", "--check", pd_group="real").ok()
    assert all(alive(pid) for pid in before.values())
    assert "pd_group" in site.play("remove").refused().out
    site.play("remove", pd_group="real").ok()
    assert not any(alive(pid) for pid in before.values())
    assert ask("anybody there?")[0] == 0
    left = [p for p in site.state.rglob("*") if p.is_file() and "real" in str(p.relative_to(site.state))]
    assert left == []
    assert site.play("remove", pd_group="real").ok().changed == 0
