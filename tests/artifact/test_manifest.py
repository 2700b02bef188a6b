"""Entries of manifests: written in the order of their types, and checked by them."""

from math import inf
from typing import Any

import pytest

from ansorpy.artifact.manifest import BoundEntry, InputEntry, check_fields, entry
from ansorpy.errors import PackageError
from ansorpy.te.dag import Placeholder

GOOD = entry(InputEntry, Placeholder("A", (2, 3)), span=(0, 9))


def test_an_entry_has_the_fields_of_its_type_in_their_order() -> None:
    told = {"name": "A", "dtype": "float32", "shape": [2, 3], "constant": False, "span": [0, 9]}
    assert list(GOOD.items()) == list(told.items())
    assert "span" not in entry(InputEntry, Placeholder("A", (2, 3)))
    with pytest.raises(AttributeError, match="constant"):
        entry(InputEntry, name="A", shape=(), dtype="bool")


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float31"}, {"dtype": []}, {"shape": [-1]}, {"shape": [True]}, {"constant": 1},
        {"span": [0]}, {"span": [0, float("nan")]}, {"span": [0, 10**400]},
    ],
)  # fmt: skip
def test_an_entry_of_another_type_is_refused(change: dict[str, Any]) -> None:
    bound = {**GOOD, "shape": [], "value": inf}
    check_fields({"a": GOOD, "b": bound}, {"a": InputEntry, "b": BoundEntry}, "p")
    with pytest.raises(PackageError, match=r"p: its manifest has no usable at\.last"):
        check_fields({"at": {"last": [GOOD | change]}}, {"at.last": list[InputEntry]}, "p")
