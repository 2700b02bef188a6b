"""Plans whose meaning depends on a case that random candidates seldom reach.

Windows and axes by turns have whole blocks of filters or a rest; `make test-all` has both of
each.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest

from ansorpy import te
from ansorpy.errors import LoweringError
from ansorpy.loopir.interp import run
from ansorpy.loopir.printer import text
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.lower import lower
from ansorpy.plan.plan import Plan, StageChoice
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.state.state import Attached, Root, State
from ansorpy.state.steps import Annotate, Split
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from tests.night import night

TARGET = Target(cores=2)
WINDOWS = [(5, (3, 3)), (8, (1, 1)), (3, (2, 5)), (1, (3, 1))]  # channels, window
SIGNS = [(1, 1), (-1, 1), (1, -1), (-1, -1)]


def wrong(dag: Dag, plan: Plan, **sizes: int) -> str | None:
    """Interpret a plan with its smallest sizes, or the given ones (dots as underscores)."""
    row = [
        sizes.get(size.name.replace(".", "_"), size.values[0] if size.values else size.multiple_of)
        for size in plan.sizes
    ]
    return wrong_row(dag, plan, row)


def wrong_row(dag: Dag, plan: Plan, row: Sequence[int]) -> str | None:
    """Interpret a plan with a row of sizes."""
    program = bind(plan, row, TARGET)
    case = make_cases(dag, 0)[0]
    got = run(program, case.inputs)
    failed = compare_all(case, lambda name: got[name], program.by_name)
    return None if failed is None else failed.message


def packing(dag: Dag, tensor: str) -> Iterator[Plan]:
    """Yield one plan per sketch that packs an operand."""
    for sketch in derive(dag, TARGET, CPU).sketches:
        for plan in plans(sketch, TARGET):
            if any(tensor in choice.pack for _, choice in plan.choices):
                yield plan
                break


def test_a_packed_operand_is_not_read_beyond_its_shape() -> None:
    a, b = te.placeholder((4, 6), "A"), te.placeholder((6, 20), "B")
    k = te.reduce_axis((0, 6), "k")
    short = te.compute(
        (4, 32), lambda i, j: te.sum(a[i, k] * te.select(j < 20, b[k, j], 0.0), k), "C"
    )
    dag = te.dag(short)
    found = list(packing(dag, "B"))
    assert found
    assert [wrong(dag, plan) for plan in found] == [None] * len(found)


def test_the_index_of_an_argmax_is_packed_not_its_value() -> None:
    x, b = te.placeholder((4, 6, 3), "X", "int64"), te.placeholder((6, 16), "B", "int64")
    k, r = te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 3), "r")
    _, place = te.compute((4, 6), lambda i, k: te.argmax(x[i, k, r], r), "V")
    dag = te.dag(te.compute((4, 16), lambda i, j: te.sum(place[i, k] * b[k, j], k), "C"))
    found = list(packing(dag, "V"))
    assert found
    assert [wrong(dag, plan) for plan in found] == [None] * len(found)


@pytest.mark.parametrize(
    ("weights", "filters"),
    night(
        product(WINDOWS, (16, 21)),
        {(window, (21, 16)[k % 2]) for k, window in enumerate(WINDOWS)},
    ),
)
def test_weights_of_a_window_are_packed_by_squares_over_all_its_axes(
    weights: tuple[int, tuple[int, int]], filters: int
) -> None:
    channels, window = weights
    x = te.placeholder((channels, 6, 7), "X")
    w = te.placeholder((filters, channels, *window), "W")
    c, r, s = (te.reduce_axis((0, n), name) for n, name in zip(w.shape[1:], "crs", strict=True))
    dag = te.dag(
        te.compute(
            (filters, 7 - window[0], 8 - window[1]),
            lambda f, y, z: te.sum(x[c, y + r, z + s] * w[f, c, r, s], [c, r, s]), "C",
        )
    )  # fmt: skip
    rng = np.random.default_rng(0)
    found = list(packing(dag, "W"))
    rows = [sample(plan, 3, rng) for plan in found]
    assert sum(map(len, rows)) > 3
    for plan, each in zip(found, rows, strict=True):
        for row in each:
            assert wrong_row(dag, plan, row) is None
    long = channels * window[0] * window[1] >= 4
    for plan in found:
        across = any("W" in choice.pack and choice.lane == "f" for _, choice in plan.choices)
        assert ("pack:@along.1" in text(plan.program)) == (across and long)


@pytest.mark.parametrize(
    ("filters", "phases", "signs"),
    night(
        product((16, 21), (2, 3), SIGNS),
        {((16, 21)[k // 2], (2, 3)[k % 2], signs) for k, signs in enumerate(SIGNS)},
    ),
)
def test_axes_that_are_digits_of_an_index_are_packed_by_squares(
    filters: int, phases: int, signs: tuple[int, int]
) -> None:
    """W[c, f, 3 - 2 * r - q]: taps of a transposed convolution, phase by phase."""
    taps, channels = 2, 5
    x = te.placeholder((channels, 7), "X")
    w = te.placeholder((channels, filters, phases * taps), "W")
    c, r = te.reduce_axis((0, channels), "c"), te.reduce_axis((0, taps), "r")

    def tap(r: te.Scalar, q: te.Scalar) -> te.Scalar:
        fine = q if signs[0] > 0 else phases - 1 - q
        return fine + phases * (r if signs[1] > 0 else taps - 1 - r)

    dag = te.dag(
        te.compute(
            (filters, phases, 6),
            lambda f, q, y: te.sum(x[c, y + r] * w[c, f, tap(r, q)], [c, r]), "C",
        )
    )  # fmt: skip
    rng = np.random.default_rng(0)
    found = list(packing(dag, "W"))
    across = 0
    for plan in found:
        for row in sample(plan, 3, rng):
            assert wrong_row(dag, plan, row) is None
        lane = any("W" in choice.pack and choice.lane == "f" for _, choice in plan.choices)
        assert ("pack:@along.1" in text(plan.program)) == lane
        across += lane
    assert across


@pytest.mark.parametrize("name", ["tile", "block", "lane"])
def test_axes_may_be_called_as_the_loops_of_packing(name: str) -> None:
    a, b = te.placeholder((8, 2, 6), "A"), te.placeholder((2, 16, 6), "B")
    g, k = te.reduce_axis((0, 2), name), te.reduce_axis((0, 6), "k")
    dag = te.dag(te.compute((8, 16), lambda i, j: te.sum(a[i, g, k] * b[g, j, k], [g, k]), "C"))
    rng = np.random.default_rng(0)
    found = list(packing(dag, "B"))
    assert found
    for plan in found:
        for row in sample(plan, 3, rng):
            assert wrong_row(dag, plan, row) is None


@pytest.mark.parametrize("down", [False, True])
def test_a_diagonal_is_no_stretch_of_memory(down: bool) -> None:
    x, w = te.placeholder((5, 7), "X"), te.placeholder((16, 5, 5), "W")
    c = te.reduce_axis((0, 5), "c")
    last = 4 - c if down else c
    dag = te.dag(te.compute((16, 7), lambda f, y: te.sum(x[c, y] * w[f, c, last], c), "C"))
    found = list(packing(dag, "W"))
    assert found
    assert [wrong(dag, plan) for plan in found] == [None] * len(found)
    squares = [text(plan.program) for plan in found if "along.1" in text(plan.program)]
    assert squares
    assert all("min(16, (5 - " in each for each in squares)  # not the 25 places of two digits


@pytest.mark.parametrize("loop", ["i", "j", "l"])
def test_a_stage_covers_the_reads_of_a_consumer_that_computes_too_much(
    loop: str,
) -> None:
    x = te.placeholder((2, 40), "X")
    a = te.compute((2, 40), lambda i, j: te.exp(x[i, j]), "A")
    b = te.compute((2, 40), lambda i, j: te.exp(a[i, j] * 0.5), "B")
    dag = te.dag(te.compute((2, 8, 4), lambda i, j, l: b[i, j] + b[i, j * 2], "D"))  # noqa: E741
    # At j, the two reads of B have no common base: all of B is computed there.
    places = (("A", StageChoice(Attached("D", "i"))), ("B", StageChoice(Attached("D", loop))))
    assert wrong(dag, lower(State.naive(dag), places, TARGET)) is None


@pytest.mark.parametrize("extent", [9, 10, 11])
@pytest.mark.parametrize("step", [3, 4, 5, 8])
def test_a_written_out_loop_that_may_be_empty_reads_nothing_outside(extent: int, step: int) -> None:
    x = te.placeholder((extent,), "X")
    t = te.compute((extent,), lambda i: te.exp(x[i]), "T")
    dag = te.dag(te.compute((16,), lambda i: te.select(i + 1 < extent, t[i + 1], 0.0) * 2.0, "P"))
    state = State.naive(dag).do(Annotate("T", "i", "unroll"), Split("P", "i", 2))
    plan = lower(
        state, (("T", StageChoice(Attached("P", "i.0"))), ("P", StageChoice(Root()))), TARGET
    )
    assert wrong(dag, plan, P_i_1=step) is None


def test_a_start_value_is_not_computed_inside_the_reduction() -> None:
    a, s = te.placeholder((4, 6), "A"), te.placeholder((4,), "S")
    k = te.reduce_axis((0, 6), "k")
    t = te.compute((4,), lambda i: te.exp(s[i]), "T")
    dag = te.dag(te.compute((4,), lambda i: te.sum(a[i, k], k, init=t[i]), "C"))
    at = StageChoice(Attached("C", "k"))
    with pytest.raises(LoweringError, match="cannot compute 'T' inside 'C', which starts from it"):
        lower(State.naive(dag), (("T", at),), TARGET)
    outside = lower(State.naive(dag), (("T", StageChoice(Attached("C", "i"))),), TARGET)
    assert wrong(dag, outside) is None


def test_an_output_that_another_output_copies_has_a_buffer_of_its_own() -> None:
    x = te.placeholder((4, 6), "X")
    doubled = te.compute((4, 6), lambda i, j: x[i, j] * 2.0, "O")
    copy = te.compute((4, 6), lambda i, j: doubled[i, j], "P")
    dag = te.dag((doubled, copy))
    (sketch,) = derive(dag, TARGET, CPU).sketches
    found = list(plans(sketch, TARGET))
    assert [wrong(dag, plan) for plan in found] == [None] * len(found)
