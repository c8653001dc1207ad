# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written in pd_group, and which groups that is."""

from __future__ import annotations

import typing as t

import pytest
from builders import judge, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import selector
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.workload import CACHE, GROUP, Kind

KNOWN: dict[str, dict[str, str]] = {
    "qwen-a": {"engine": "vllm", "site": "fra"},
    "qwen-b": {"engine": "sglang", "site": "fra"},
    "kimi": {"engine": "vllm", "site": "ams", "tier": "1"},
    "bare": {},
}


def chosen(written: t.Any, others: t.Collection[str] | None = None, kind: Kind = GROUP) -> list[str]:
    found = selector.parse(written, "pd_group")
    assert found is not None
    return selector.choose(found, KNOWN, kind, others)


def refused(written: t.Any, others: t.Collection[str] | None = None, kind: Kind = GROUP) -> str:
    with pytest.raises(PdError) as error:
        chosen(written, others, kind)
    return str(error.value)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("kimi", ["kimi"]),
        (" kimi ", ["kimi"]),
        # In the order of the inventory, each once.
        ("kimi,qwen-a", ["qwen-a", "kimi"]),
        ("kimi, qwen-a,", ["qwen-a", "kimi"]),
        (["kimi", "qwen-a"], ["qwen-a", "kimi"]),
        (["kimi, bare", "qwen-*"], [*KNOWN]),
        ("qwen-*", ["qwen-a", "qwen-b"]),
        ("qwen-?,qwen-a", ["qwen-a", "qwen-b"]),
        ("qwen-[bc]", ["qwen-b"]),
        ("all", [*KNOWN]),
        ("kimi,all", [*KNOWN]),
        ("engine=vllm", ["qwen-a", "kimi"]),
        ("engine == vllm", ["qwen-a", "kimi"]),
        ("engine=vllm,site=fra", ["qwen-a"]),
        (["engine=vllm", "site!=fra"], ["kimi"]),
        # As Kubernetes has it: what has no such label has no such value.
        ("engine!=vllm", ["qwen-b", "bare"]),
        ("site in (fra,ams)", ["qwen-a", "qwen-b", "kimi"]),
        ("site in(fra, ams),engine=sglang", ["qwen-b"]),
        ("site notin (fra)", ["kimi", "bare"]),
        ("site not in (fra,ams)", ["bare"]),
    ],
)
def test_what_is_selected(written: t.Any, names: list[str]) -> None:
    assert chosen(written) == names


@pytest.mark.parametrize("written", [None, "", "  "])
def test_nothing_is_written(written: t.Any) -> None:
    assert selector.parse(written, "pd_group") is None


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ([], ["pd_group names nothing"]),
        (" , ", ["pd_group names nothing"]),
        ([{"mode": "secret"}], ["an entry of the list is no text"]),
        ([None], ["an entry of the list is no text"]),
        (["kimi", ["bare"]], ["an entry of the list is no text"]),
        # Any of several names, all of several labels: both at once would be neither.
        ("kimi,engine=vllm", ["'kimi' is a name", "'engine=vllm' is about a label"]),
        ("all,engine=vllm", ["'all' is a name"]),
        ("site in (fra", ["parenthesis"]),
        ("site) in (fra)", ["parenthesis"]),
        ("site in ()", ["'site in ()' says nothing of a label"]),
        ("site (fra)", ["'site (fra)' says nothing of a label"]),
        ("engine=", ["'engine=' says nothing of a label"]),
        ("=vllm", ["'=vllm' says nothing of a label"]),
        ("engine=a=b", ["'engine=a=b' says nothing of a label"]),
    ],
)
def test_what_is_no_selector(written: t.Any, says: list[str]) -> None:
    told = refused(written)
    assert all(word in told for word in says), told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("kimmi", ["There is no group 'kimmi' in pd_groups. Did you mean 'kimi'? Groups: bare, kimi, qwen-a, qwen-b."]),
        # One slip in a list is no smaller list.
        ("kimi,qwne-a", ["'qwne-a'", "Did you mean 'qwen-a'?"]),
        ("qwne-*", ["No group of pd_groups matches 'qwne-*'.", "Groups: bare, "]),
        ("engin=vllm", ["No group has a label 'engin'. Did you mean 'engine'?", "engine (sglang, vllm); site (ams, fra); tier (1)"]),
        # Without this a slip would select every group.
        ("engin!=vllm", ["No group has a label 'engin'."]),
        ("engine!=vlm", ["No group has engine=vlm. Did you mean 'vllm'?"]),
        ("site in (fra,asm)", ["No group has site=asm. Did you mean 'ams'?"]),
        ("engine=sglang,site=ams", ["No group has engine=sglang and site=ams."]),
    ],
)  # fmt: skip
def test_what_selects_nothing_is_told_with_what_there_is(written: str, says: list[str]) -> None:
    told = refused(written)
    assert all(word in told for word in says), told


def test_what_only_hosts_know_is_selected_by_its_name_alone() -> None:
    assert chosen("old-a,kimi", ["old-a", "old-b"]) == ["kimi", "old-a"]
    # Another inventory may deploy it on the same hosts.
    assert chosen("all", ["old-a"]) == [*KNOWN]
    assert chosen("engine!=vllm", ["old-a"]) == ["qwen-b", "bare"]
    told = refused("old-*", ["old-a", "old-b"])
    assert "No group of pd_groups matches 'old-*'. What only hosts know is selected by its name: old-a, old-b." in told
    assert "neither in pd_groups nor on the hosts. Did you mean 'old-a'?" in refused("old-c", ["old-a"])
    assert "neither in pd_groups nor on the hosts. Groups: bare, " in refused("old-c", [])


def test_cache_services_have_their_own_words() -> None:
    with pytest.raises(
        PdError, match=r"There is no cache service 'stoer' in pd_caches. Did you mean 'store'\? Services: store\."
    ):
        selector.choose(selector.Selector(("stoer",)), {"store": {}}, CACHE)
    with pytest.raises(PdError, match="Services: none; define pd_caches in group_vars"):
        selector.choose(selector.Selector(("store",)), {}, CACHE)


def test_many_groups_are_not_all_named() -> None:
    with pytest.raises(PdError, match="and 76 more"):
        selector.choose(selector.Selector(("x",)), {f"g{n}": {} for n in range(100)}, GROUP)


# -- labels --------------------------------------------------------------------------------------------------------------


def test_labels_are_read_as_the_spec_reads_them() -> None:
    written = {"tier": 1, "gold": True, "site": " fra ", 3: "no key", "none": None, "list": [1]}
    assert selector.labels_of({"labels": written}) == {"tier": "1", "gold": "true", "site": "fra"}
    for entry in (None, [], {}, {"labels": None}, {"labels": [1]}):
        assert selector.labels_of(entry) == {}


def test_labels_are_in_no_revision_and_in_no_record() -> None:
    plain, labelled = judge(spec()), judge(spec(labels={"engine": "vllm"}))
    assert labelled.group.labels == {"engine": "vllm"}
    assert labelled.template.revision == plain.template.revision
    assert labelled.group.to_plain() == plain.group.to_plain()
    assert "pd_groups.demo.labels.site" in only(judge(spec(labels={"site": {}})).findings, "bad-value").message
