"""Which modes there are for an engine and the GPUs of a fleet, which one is preferred, and why not the others."""

from __future__ import annotations

import pytest
from builders import mode

from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.catalogue import describe
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import load_modes

NIXL = mode("nixl", vendors=["nvidia"], preferred=True)
MOONCAKE = mode("mooncake", vendors=["nvidia"], preferred=False)
ASCEND = mode("ascend", vendors=["ascend"], preferred=False)
SGLANG = mode("sglang", backend="SGLang", vendors=["nvidia"], preferred=True)
CUSTOM = mode("custom", backend=None, vendors=[], preferred=False)
MODES = {m.name: m for m in (NIXL, MOONCAKE, ASCEND, SGLANG, CUSTOM)}


@pytest.mark.parametrize(
    ("vendors", "vendor", "backend", "preferred", "code"),
    [
        (["nvidia"], None, "vLLM", "nixl", None),
        (["NVIDIA"], None, "vllm", "nixl", None),
        (["ascend"], None, "vLLM", "ascend", None),  # the only one
        (["nvidia"], None, "SGLang", "sglang", None),
        (["amd"], None, "vLLM", None, "no_built_in_recipe"),
        (["nvidia", "ascend"], None, "vLLM", None, "multiple_vendors"),
        (["nvidia", "ascend"], "ascend", "vLLM", "ascend", None),
        (["nvidia"], "amd", "vLLM", None, "vendor_not_in_fleet"),
        ([], None, "vLLM", None, "vendors_unknown"),
        ([], "nvidia", "vLLM", "nixl", None),
        (["nvidia"], None, None, None, "no_preferred_recipe"),
    ],
)
def test_the_preferred_mode_or_why_there_is_none(vendors, vendor, backend, preferred, code):
    found = describe(MODES, backend, vendors, vendor)
    assert found["preferred"] == preferred
    assert (found["why_none"] or {}).get("code") == code


def test_why_a_mode_is_not_available():
    rows = describe(MODES, "vLLM", ["nvidia"], None)["modes"]
    assert rows["sglang"]["code"] == "backend_mismatch"
    assert rows["sglang"]["reason"] == "it configures SGLang, not vLLM"
    assert rows["ascend"]["code"] == "vendor_mismatch"
    assert rows["ascend"]["reason"] == "it needs ascend GPUs, the hosts have nvidia"


@pytest.mark.parametrize("vendors", [["nvidia"], ["amd"], ["nvidia", "ascend"], []])
def test_a_mode_for_every_engine_and_vendor_is_always_available(vendors):
    assert describe(MODES, "vLLM", vendors, None)["modes"]["custom"]["available"] is True


def test_everything_is_available_where_no_vendor_is_known():
    rows = describe(MODES, None, [], None)["modes"]
    assert all(row["available"] for row in rows.values())


def test_the_built_in_modes_describe_themselves():
    found = describe(load_modes(), "vLLM", ["nvidia"], None)
    row = found["modes"]["vllm-nixl"]
    assert found["preferred"] == "vllm-nixl"
    assert (row["router"], row["membership"], row["tensor_parallel"]) == ("vllm-router", "dynamic", "decode_ge_prefill")
