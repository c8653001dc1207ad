# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recipe writes: files that take nobody's place, and JSON that stays JSON whatever a name holds."""

from __future__ import annotations

import json

import pytest
from builders import judge, mode, nixl_mode, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base import placeholders
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError

ODD = 'a"b\\c\nd é'


@pytest.mark.parametrize(
    "path",
    [
        "label.json",
        "./run",
        "env",
        "starts",
        "member.log",
        "member.log.1",
        "guard/formation",
        "start",
        "draining",
        "files/x",
        ".new-1",
    ],
)
def test_a_file_of_a_mode_takes_no_place_of_the_collections(path: str) -> None:
    with pytest.raises(PdError, match=r"mine.yml: files\[0\].path: .* would take the place of the collection's own"):
        mode("mine", files=[{"path": path, "content": "x"}])


@pytest.mark.parametrize("path", ["/run/inferops-pd/env", "/run//inferops-pd/./x", "/run/inferops-pd"])
def test_nor_in_a_container(path: str) -> None:
    with pytest.raises(PdError, match="where the collection's own files are"):
        mode("mine", files=[{"path": path, "content": "x"}])


@pytest.mark.parametrize("path", ["", ".", "..", "../x", "a/../../x", "conf/"])
def test_a_path_is_one_of_a_file(path: str) -> None:
    with pytest.raises(PdError, match="is no path of a file"):
        mode("mine", files=[{"path": path, "content": "x"}])


def test_two_files_at_one_place() -> None:
    with pytest.raises(PdError, match=r"files\[1\].path: conf/x.json is that of .*files\[0\]"):
        mode(
            "mine",
            files=[
                {"path": "./conf/x.json", "content": "x"},
                {"path": "conf/x.json", "content": "y", "roles": ["decode"]},
            ],
        )
    each = [{"path": "x.json", "content": role, "roles": [role]} for role in ("prefill", "decode")]
    assert (
        len(
            mode(
                "mine", files=[*each, {"path": "environment", "content": "x"}, {"path": "/etc/x", "content": "x"}]
            ).files
        )
        == 4
    )


def test_a_providers_files_are_files_of_a_member() -> None:
    raw = nixl_mode()["kv_cache_providers"]
    name, one = next(iter(raw.items()))
    one = {**one, "prefill": {**one.get("prefill", {}), "files": [{"path": "run", "content": "x"}]}}
    with pytest.raises(PdError, match=rf"kv_cache_providers.{name}.prefill.files\[0\].path: run would take"):
        mode("mine", kv_cache_providers={**raw, name: one})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": "${served_model_name}"}', {"a": ODD}),
        ('--x={"a": "x-${served_model_name}", "b": [${port}, "${port}"]}', {"a": f"x-{ODD}", "b": [1, "1"]}),
        ('["${served_model_name}:${served_model_name:json}"]', None),
        (
            placeholders.from_json({"a": "${served_model_name}", "b": "x-${served_model_name}"}),
            {"a": ODD, "b": f"x-{ODD}"},
        ),
    ],
)
def test_a_name_within_json(text: str, told: object) -> None:
    filled = placeholders.fill(text, {"served_model_name": ODD, "port": 1})
    if told is not None:
        assert json.loads(filled.partition("=")[2] or filled) == told


@pytest.mark.parametrize(
    "text",
    ["x-${served_model_name}", "--name=${served_model_name}", "{${served_model_name}", "[${served_model_name}]x"],
)
def test_a_name_that_is_in_no_json_stays_as_it_is(text: str) -> None:
    assert ODD in placeholders.fill(text, {"served_model_name": ODD})


def test_what_is_filled_in_later_is_left_for_later() -> None:
    text = '{"a": "x-${served_model_name}-${member.id}"}'
    half = placeholders.fill(text, {"served_model_name": ODD}, partial=True)
    assert json.loads(placeholders.fill(half, {"member.id": 'm"'})) == {"a": f'x-{ODD}-m"'}


def test_a_served_name_with_a_quote_in_a_connector() -> None:
    raw = nixl_mode()
    connector = {**raw["connector"], "prefill": {**raw["connector"]["prefill"], "engine_id": "of-${served_model_name}"}}
    made = judge(spec(mode="mine", served_model_name='q"wen'), mode("mine", connector=connector))
    (word,) = [w for w in made.template.roles["prefill"].argv if w.startswith(connector["flag"])]
    assert json.loads(word.partition("=")[2])["engine_id"] == 'of-q"wen'
