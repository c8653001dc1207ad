"""A play that does not take its hosts together is refused, whatever it is that parts them."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.plugin_utils import _batch
from ansible_collections.inferops.pd.plugins.plugin_utils._batch import check_batch


class Play:
    def __init__(self, strategy: str | None) -> None:
        self.strategy = strategy


class Task:
    def __init__(self, strategy: str | None = "linear") -> None:
        self.strategy = strategy

    def get_play(self) -> Play:
        return Play(self.strategy)


def hosts(living: t.Sequence[str], batch: t.Sequence[str]) -> dict[str, t.Any]:
    return {
        "ansible_play_hosts": list(living),
        "ansible_play_batch": list(batch),
        "ansible_play_hosts_all": ["h9", *living],
    }


@pytest.mark.parametrize("strategy", ["linear", "ansible.builtin.linear", "debug", "mitogen_linear", None])
def test_hosts_that_go_together_are_fine(strategy: str | None) -> None:
    check_batch(Task(strategy), hosts(["h1", "h2"], ["h2", "h1"]))


@pytest.mark.parametrize(
    "strategy", ["free", "host_pinned", "ansible.builtin.free", "mitogen_free", "my.own.nonlinear"]
)
def test_a_strategy_without_barriers_is_refused(strategy: str) -> None:
    with pytest.raises(PdError, match=f"strategy is {strategy}: .* Write strategy: linear in the play"):
        check_batch(Task(strategy), hosts(["h1"], ["h1"]))


def test_serial_is_refused() -> None:
    names = [f"h{n}" for n in range(9)]
    with pytest.raises(
        PdError, match=r"2 of 9 hosts are in this one, without h2, h3, h4, h5, h6 and 2 more\. .* Remove serial"
    ):
        check_batch(Task(), hosts(names, names[:2]))


def test_a_host_that_failed_before_is_in_no_batch() -> None:
    """h9 is of the play, and has failed in a task before ours."""
    check_batch(Task(), hosts(["h1", "h2"], ["h1", "h2"]))


# -- which Ansible -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.15.13", "2.9.27", "2.15.0"])
def test_an_ansible_that_is_too_old_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batch, "__version__", version)
    with pytest.raises(
        PdError, match=rf"^This is ansible-core {version}, and the collection needs 2\.16\.0 or newer\."
    ):
        check_batch(Task(), hosts(["h1"], ["h1"]))


@pytest.mark.parametrize("version", ["2.16.0", "2.16.0rc1", "2.21.5", "3.0.0", "2.22.0.dev0"])
def test_any_other_is_fine(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batch, "__version__", version)
    check_batch(Task(), hosts(["h1"], ["h1"]))


def test_the_oldest_is_the_one_that_is_promised() -> None:
    promised = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"]
    assert promised == _batch.OLDEST
