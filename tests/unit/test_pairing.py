"""What prefill and decode must agree on, told from the spec alone."""

from __future__ import annotations

import pytest
from builders import cases, check_findings, codes, judge, mode, only, spec, spec_of


@pytest.mark.parametrize("row", [*cases("pairing"), *cases("pairing_environment")])
def test_findings(row):
    check_findings(judge(spec_of(row)).findings.items, row["findings"])


WIDTHS = [(1, 1), (1, 4), (4, 1), (2, 4), (4, 2), (8, 8)]


@pytest.mark.parametrize(("prefill", "decode"), WIDTHS)
@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        ("decode_ge_prefill", lambda prefill, decode: decode >= prefill),
        ("prefill_ge_decode", lambda prefill, decode: prefill >= decode),
        ("any", lambda prefill, decode: True),
    ],
)
def test_the_direction_of_tensor_parallelism_is_the_modes(rule, fits, prefill, decode):
    own = mode("own", pairing={"tensor_parallel": rule})
    found = codes(judge(spec(mode="own", prefill={"gpus": prefill}, decode={"gpus": decode}), own).findings)
    assert found == ([] if fits(prefill, decode) else ["pairing-tensor-parallel"])


def test_any_width_goes_with_any_where_the_mode_has_no_rule():
    own = mode("own", pairing={"tensor_parallel": "any"})
    assert codes(judge(spec(mode="own", prefill={"gpus": 3}, decode={"gpus": 2}), own).findings) == []


def test_another_engine_version_is_a_warning_where_no_handshake_covers_it():
    own = mode("own", pairing={"tensor_parallel": "any"})
    raw = spec(mode="own", prefill={"version": "0.31.0"}, decode={"version": "0.32.0"})
    assert only(judge(raw, own).findings, "pairing-engine-version").severity == "warning"


def test_what_is_unverified_deploys_and_keeps_its_factor():
    found = judge(spec(decode={"args": []})).findings
    assert not found.fails("error")
    assert found.fails("unverified")
    assert found.to_plain()[0]["factor"] == "context length"
