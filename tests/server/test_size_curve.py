"""The curve of times over sizes: places, lines and ticks."""

from collections.abc import Sequence

import pytest

from ansorpy.server.schemas.job import SizeReply
from ansorpy.server.web.curve import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from ansorpy.server.web.size_curve import size_curve


def replies(sizes: Sequence[int], ends: Sequence[int], numpy: bool = True) -> list[SizeReply]:
    """Return a time of 1 us per size, of NumPy 4 us per size; a range ends at each end."""
    found = []
    for size in sizes:
        end = min(end for end in ends if size <= end)
        low = max((one + 1 for one in ends if one < size), default=sizes[0])
        beside = 4e-6 * size if numpy else None
        found.append(
            SizeReply(
                sizes={"M": size}, kernel_for=f"M in {low}..{end}", best_s=1e-6 * size,
                numpy_s=beside,
            )
        )  # fmt: skip
    return found


def test_each_range_and_numpy_are_a_line_within_the_picture() -> None:
    curve = size_curve(replies([1, 2, 4, 8, 9, 64, 512], [1, 8, 512]))
    assert curve is not None
    assert (curve.dim, curve.scale) == ("M", "logarithmic")
    assert [(line.name, line.kind, len(line.dots)) for line in curve.lines] == [
        ("kernel for M in 1..1", "kernel-0", 1),
        ("kernel for M in 2..8", "kernel-1", 3),
        ("kernel for M in 9..512", "kernel-0", 3),
        ("NumPy", "numpy", 7),
    ]
    dots = [dot for line in curve.lines for dot in line.dots]
    assert all(LEFT <= dot.x <= WIDTH - RIGHT and TOP <= dot.y <= HEIGHT - BOTTOM for dot in dots)
    numpy = curve.lines[-1].dots
    assert (numpy[0].x, numpy[-1].x) == pytest.approx((LEFT, WIDTH - RIGHT))
    # Doubled sizes take doubled times: equal steps on both axes.
    assert numpy[1].x - numpy[0].x == pytest.approx(numpy[2].x - numpy[1].x)
    assert numpy[0].y - numpy[1].y == pytest.approx(numpy[1].y - numpy[2].y)
    assert numpy[0].text == "M = 1: 4.00 µs"
    assert curve.lines[0].points == f"{LEFT:.1f},{curve.lines[0].dots[0].y:.1f}"


def test_ticks_are_round_few_and_apart() -> None:
    curve = size_curve(replies([1, 2, 8, 9, 64, 65, 288, 512], [1, 8, 64, 512]))
    assert curve is not None
    assert [tick.label for tick in curve.sizes] == ["1", "2", "8", "64", "512"]
    assert [tick.label for tick in curve.times] == ["1.00 µs", "10.0 µs", "100 µs", "1.00 ms"]
    near = size_curve(replies([8, 16, 32, 40], [40], numpy=False))
    assert near is not None
    assert near.scale == "linear"
    assert [line.name for line in near.lines] == ["kernel for M in 8..40"]
    assert [tick.label for tick in near.sizes] == ["8", "40"]
    assert [tick.label for tick in near.times] == ["10.0 µs", "20.0 µs", "30.0 µs", "40.0 µs"]


def test_equal_times_and_one_size_are_no_error() -> None:
    flat = [one.model_copy(update={"best_s": 1e-6}) for one in replies([1, 2], [2], numpy=False)]
    assert size_curve(flat) is not None
    assert size_curve(replies([1], [1])) is None
    assert size_curve([]) is None
