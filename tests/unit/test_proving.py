# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of several groups: side by side, each with its own keys and its own failure."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.asked import Asked
from ansible_collections.inferops.pd.plugins.module_utils._host import proving
from ansible_collections.inferops.pd.plugins.modules.group_proof import workloads_of

Plain = dict[str, t.Any]


def workload(group: str, **given: t.Any) -> Plain:
    plan = {"group": group, "members": [], "endpoint": {"served_model_name": group}}
    return {"group": group, "plan": plan, **given}


class Proofs:
    """Stands in for Proof: what each was made with, and what its run does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: dict[str, tuple[t.Any, ...]] = {}
        self.does: dict[str, t.Callable[[], t.Any]] = {}
        monkeypatch.setattr(proving, "Proof", self)

    def __call__(self, asked: Asked, *given: t.Any) -> t.Any:
        self.made[asked.group] = given
        proofs = self

        class Made:
            def run(self) -> Plain:
                proofs.does.get(asked.group, lambda: None)()
                return {"good": asked.group != "bad", "why": "", "pairs": [], "table": [], "msg": asked.group}

        return Made()


@pytest.fixture(name="proofs")
def fixture_proofs(monkeypatch: pytest.MonkeyPatch) -> Proofs:
    return Proofs(monkeypatch)


def test_they_run_side_by_side(proofs: Proofs) -> None:
    """Each waits until all have begun: one after the other they never would."""
    names = [f"g{n}" for n in range(proving.SIDE_BY_SIDE)]
    met = threading.Barrier(len(names))
    proofs.does = dict.fromkeys(names, lambda: met.wait(20))
    found = proving.prove_all([workload(name) for name in names], {})
    assert list(found) == names
    assert all(one["good"] and not one["failed"] for one in found.values())


def test_one_that_is_not_good_or_falls_over_takes_nothing_from_the_others(proofs: Proofs) -> None:
    def fall() -> None:
        raise KeyError("usage\x1b[2J")

    def refuse() -> None:
        raise PdError("The plan is of another kind.")

    def busy() -> None:
        raise OSError(24, "Too many open files")

    proofs.does = {"fell": fall, "refused": refuse, "busy": busy}
    names = ["a", "bad", "fell", "refused", "busy", "z"]
    found = proving.prove_all([workload(name) for name in names], {})
    assert [name for name in names if found[name]["good"]] == ["a", "z"]
    assert [name for name in names if found[name]["failed"]] == ["bad", "fell", "refused", "busy"]
    assert found["fell"]["msg"] == "Proving group fell fell over: KeyError: 'usage\\x1b[2J'"
    assert found["refused"]["why"] == "Proving group refused: The plan is of another kind."
    assert found["busy"]["msg"] == "Proving group busy: Too many open files"
    assert {one["group"] for one in found.values()} == set(names)


def test_each_has_its_own_keys_members_and_limits(proofs: Proofs) -> None:
    keys = {"a": {"prefill": ["ka"]}, "b": {"prefill": ["kb"]}}
    params = {"timeout": 60.0, "limit": 600.0, "max_pairs": 64}
    asked = [workload("a"), workload("b", limit=30, formations={"m": "f"}), workload("c")]
    proving.prove_all(workloads_of({**params, "workloads": asked}), keys, "mine")
    made = proofs.made
    assert made["a"] == (60.0, 600.0, 64, {"router": ["mine"], "prefill": ["mine", "ka"], "decode": ["mine"]}, None)
    assert made["b"][:3] == (60.0, 30.0, 64)
    assert made["b"][3]["prefill"] == ["mine", "kb"]
    assert made["b"][4] == {"m": "f"}
    assert made["c"][3]["prefill"] == ["mine"]


def test_what_is_no_plan_is_said_of_its_own_workload() -> None:
    found = proving.prove_all([{"group": "g", "plan": {"group": "g"}}], {})
    assert found["g"]["failed"]
    assert "The plan cannot be read" in found["g"]["msg"]


@pytest.mark.parametrize("workloads", [[{"plan": {}}], [workload("a"), workload("a")]])
def test_each_is_named_once(workloads: list[Plain]) -> None:
    with pytest.raises(PdError, match="Reading option workloads: it names"):
        proving.prove_all(workloads, {})


def test_none_at_all() -> None:
    assert proving.prove_all([], {}) == {}
