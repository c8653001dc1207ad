# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as users write them: the same text means the same thing wherever it stands."""

from __future__ import annotations

import pytest
from builders import catalogue, codes, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base import address, values
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.tombstone import Place
from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.cache_recipe import Option as OfService
from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.provider import Option as OfProvider
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import validate
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.cache_service import parse
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.known import Known
from ansible_collections.inferops.pd.plugins.plugin_utils._caches import load_recipes

RECIPES = load_recipes()
PLACES = {
    "store.example:50051": ("store.example", 50051),
    "lm_cache.local:5555": ("lm_cache.local", 5555),
    " [fd00::9]:1 ": ("fd00::9", 1),
    "10.0.0.9": None,
    "10.0.0.9:0": None,
    ":50051": None,
    "fd00::9:1": None,
    "a b:1": None,
    "h:70000": None,
}


@pytest.mark.parametrize("text", PLACES)
def test_an_address_is_read_alike_in_every_place_that_takes_one(text):
    """In pd_caches, in a group's kv_cache, and in a URL."""
    wanted = PLACES[text]
    assert address.split(text) == wanted
    service = parse({"store": {"provider": "lmcache", "address": text}}, RECIPES, Findings()).get("store")
    assert (service and (service.given_host, service.given_port)) == wanted
    raw = spec(mode="vllm-nixl", kv_cache={"provider": "lmcache", "service": text.strip()})
    verdict = validate.validate("demo", raw, catalogue(), Known(caches={}))
    use = verdict.template.uses["prefill"].service if verdict.template else None
    assert ((use.given_host, use.given_port) if use and use.given_host else None) == wanted
    assert bool(codes(verdict.findings.errors)) == (wanted is None)
    place = Place("m", "decode", 0, "h1", "r", f"http://{text.strip()}/x", None, {}, ())
    assert place.names == ({"h1"} | ({wanted[0]} if wanted else set()))
    if wanted:
        assert address.split(address.join(*wanted)) == wanted


SWITCHES = {"yes": True, "TRUE": True, " on ": True, "1": True, 1: True, "no": False, "Off": False, "0": False}


@pytest.mark.parametrize("written", [*SWITCHES, "perhaps", "", 2, [], {}])
def test_a_switch_is_read_alike_in_every_place_that_takes_one(written):
    """In an option of a cache service, in one of a mode's provider, and in a host variable (pd_out_of_service)."""
    wanted = SWITCHES.get(written) if isinstance(written, (str, int)) else None
    assert values.boolean(written) is wanted
    assert OfProvider("x", "boolean").value(written) is wanted
    entry = {"provider": "lmcache", "hosts": "h1", "runtime": "systemd"}
    entry["options"] = {"size": 1, "isolated_ipc": written}
    findings = Findings()
    service = parse({"store": entry}, RECIPES, findings)["store"]
    assert isinstance(RECIPES["lmcache"].options["isolated_ipc"], OfService)
    assert service.options["isolated_ipc"] is (wanted or False)
    assert codes(findings) == (["bad-value"] if wanted is None else [])


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("integer", " 8 ", 8),
        ("integer", "-8", -8),
        ("integer", True, None),
        ("integer", "8.0", None),
        ("number", "0.5", 0.5),
        ("number", float("nan"), None),
        ("number", "8", 8),
        ("number", False, None),
        ("text", 8, "8"),
        ("text", "", ""),
        ("text", True, None),
        ("size", "1KiB", 1024),
        ("size", "8", None),
    ],
)
def test_every_kind_of_value_has_one_reader(kind, written, read):
    assert values.READERS[kind](written) == read
