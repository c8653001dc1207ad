"""Which images one name stands for."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.facts import images

A, B = {"id": "sha256:aaaa", "digest": "sha256:1111"}, {"id": "sha256:bbbb", "digest": "sha256:2222"}


@pytest.mark.parametrize(
    ("found", "count"),
    [
        ([A, A], 1),
        ([A, B], 2),
        ([A, B, A], 2),
        # One that was loaded from a file has no digest, one that is not there yet has no id.
        ([A, {"id": A["id"], "digest": None}], 1),
        ([A, {"id": None, "digest": A["digest"]}], 1),
        ([A, {"id": B["id"], "digest": None}], 2),
        # An index has one digest and an image for each architecture.
        ([A, {"id": "sha256:cccc", "digest": A["digest"]}], 1),
        # Nothing that could be compared.
        ([{"id": A["id"], "digest": None}, {"id": None, "digest": B["digest"]}], 1),
        ([{}, {}], 0),
        ([A, {}], 1),
    ],
)
def test_images_of_one_name(found, count):
    assert len(images.kinds([(f"h{number}", image) for number, image in enumerate(found, 1)])) == count


def test_they_are_told_with_their_hosts():
    told = images.listed(images.kinds([("h2", A), ("h1", A), ("h3", B)]))
    assert told == "sha256:1111 on h1, h2; sha256:2222 on h3"
