"""Layouts with dims, against the addresses of all elements at every size."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from ansorpy.bundle.layout import is_within, layout, renaming, rows_of
from ansorpy.te.dims import Dim
from tests.bundle.sized import at

B, L = Dim("B", 1, 3), Dim("L", 2, 3)
SIZES = [{"B": b, "L": n} for b in range(1, 4) for n in range(2, 4)]
EXTENTS = (1, 2, 3, 6, B, L)


def places(shape: Sequence[int], sizes: dict[str, int]) -> list[int]:
    """Return the places of the elements of a call in memory, in order."""
    whole = np.arange(np.prod([int(one) for one in shape], dtype=int)).reshape(
        tuple(map(int, shape))
    )
    found: list[int] = whole[tuple(map(slice, at(tuple(shape), sizes)))].reshape(-1).tolist()
    return found


def shapes(rank: int) -> list[tuple[int, ...]]:
    return [shape for n in range(rank + 1) for shape in product(EXTENTS, repeat=n)]


def test_equal_layouts_have_equal_places_at_every_size() -> None:
    found: dict[tuple[int, ...], list[list[int]]] = {}
    for shape in shapes(3):
        told = [places(shape, sizes) for sizes in SIZES]
        assert found.setdefault(layout(shape), told) == told, shape
    ways = [str(one) for one in found.values()]
    assert len(set(ways)) == len(ways)  # other layouts have other places


def test_a_part_lies_in_its_whole_at_every_size() -> None:
    rng, held = np.random.default_rng(0), 0
    small, large = shapes(2), shapes(3)
    for _ in range(20_000):
        part, whole = small[rng.integers(len(small))], large[rng.integers(len(large))]
        begin = int(rng.integers(0, 12))
        if is_within(part, whole, begin):
            held += 1
            for sizes in SIZES:
                inner = {begin + place for place in places(part, sizes)}
                assert inner <= {*places(whole, sizes)}, (part, whole, begin, sizes)
    assert held > 500


@pytest.mark.parametrize(
    ("part", "whole", "begin", "fits"),
    [
        ((L, 8), (2, L, 8), 24, True),  # a part of a join along the first axis
        ((L, 8), (2, L, 8), 8, False),
        ((2, L, 8), (4, L, 8), 24, True),
        ((2, L, 8), (4, L, 8), 72, False),
        ((8,), (B, 16), 8, True),  # a half of the first row
        ((8,), (B, 16), 16, False),  # the second row may not exist
        ((L, 8), (B, L, 8), 0, True),
        ((B, 8), (B, 16), 0, False),  # rows of the part are not next to each other
        ((B, 16), (L, 16), 0, False),
    ],
)
def test_a_part_is_recognised(
    part: tuple[int, ...], whole: tuple[int, ...], begin: int, fits: bool
) -> None:
    assert is_within(part, whole, begin) is fits


def test_dims_of_a_kernel_take_the_names_of_a_value() -> None:
    n, t = Dim("n", 1, 3), Dim("t", 1, 3)
    assert renaming((n, t, 8), (B, 1, L, 2, 4)) == {"n": B, "t": L}
    assert renaming((n, n), (B, L)) is None  # the kernel wants two equal sizes
    assert renaming((n, 8), (3, 8)) is None
    assert renaming((3, 8), (B, 8)) is None  # it would read rows that do not exist
    assert renaming((Dim("n", 2, 3), 8), (B, 8)) is None  # it does not take one row
    assert renaming((Dim("n", 1, 4), 8), (B, 8)) is None  # it has other strides
    assert renaming((8, 8), (64,)) == {}
    stepped = Dim("S", 2, 8, 2)
    assert renaming((Dim("n", 1, 8), 4), (stepped, 4)) == {"n": stepped}
    assert renaming((Dim("n", 4, 8, 4), 4), (stepped, 4)) is None  # it does not take 2 or 6


def test_rows_are_counted_by_the_first_long_axis() -> None:
    assert rows_of((1, L, 4)) == L
    assert rows_of((2, L)) is None
    assert rows_of((1,)) is None
