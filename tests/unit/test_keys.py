# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of keys, by their table, and that no value of a secret is in any finding, spec or template."""

from __future__ import annotations

import json

import pytest
from builders import GROUP, cases, catalogue, check_findings, spec_of

from ansible_collections.inferops.pd.plugins.module_utils._core.rules import validate
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.spec import secrets_of


@pytest.mark.parametrize("row", cases("rules_keys"))
def test_findings(row):
    for name in row["modes"]:
        raw = spec_of({**row, "group": {**row.get("group", {}), "mode": name}})
        verdict = validate.validate(GROUP, raw, catalogue())
        found = [f for f in verdict.findings.items if f.code not in ("unsupported", "connector-sizes")]
        check_findings(found, row["findings"])
        assert "hunter" not in "".join(f.message + f.hint for f in found if f.code != "secret-in-plain-sight")
        if "args" not in row.get("engine", {}):
            assert "hunter" not in json.dumps(verdict.group.to_plain())
            assert "hunter" not in repr(verdict)


ODD = [
    *(None, 1, [], {"roles": 1}, {"roles": []}, {"roles": {"prefill": 1}}, {"engine": []}),
    *({"engine": {"secrets": "a:b"}}, {"engine": {"secrets": [1]}}),
]


@pytest.mark.parametrize("raw", ODD, ids=repr)
def test_secrets_of_what_is_no_spec_are_none(raw):
    assert secrets_of(raw, "prefill") == {}
