"""Checks and times of kernels at the sizes that calls decide."""

from collections.abc import Callable

import numpy as np
import pytest

from ansorpy.codegen.loader import Loaded, build, load
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import SIZES, Program
from ansorpy.measure.host import local_target
from ansorpy.measure.timing.each_size import EachSize
from ansorpy.measure.timing.sampling import SamplingOptions, sample
from ansorpy.measure.timing.workplace import Workplace
from ansorpy.measure.verify.cases import Case, make_cases, timed_cases
from ansorpy.measure.verify.check import verify
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag
from ansorpy.te.dims import at_sizes, timed_sizes

DOUBLED = parse("def f(float(3, N in 1..20) X) -> (Y) { Y(i,j) = X(i,j) * 2 }")[0]
ROWS = parse(
    "def f(float(M in 2..40, 8) A, const float(8, 5) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
)[0]


def program_of(dag: Dag) -> Program:
    plan = naive(dag, local_target(1))
    return bind(plan, plan.smallest_row, local_target(1))


def loaded(program: Program) -> Loaded:
    return load(build(program, local_target(1)))


def test_kernels_are_timed_at_the_ends_and_between() -> None:
    assert timed_sizes(ROWS) == tuple({"M": m} for m in (2, 11, 21, 30, 40))
    cases = make_cases(ROWS, 0)
    assert [case.sizes for case in timed_cases(cases)] == [(2,), (11,), (21,), (30,), (40,)]
    assert {case.sizes for case in cases} >= {(2,), (40,)}
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert case.inputs["A"].shape == (*case.sizes, 8)
        assert case.expected[0].value.shape == (*case.sizes, 5)
    (static,) = parse("def f(float(4) X) -> (Y) { Y(i) = X(i) }")
    assert timed_sizes(static) == ({},)
    assert [case.name for case in timed_cases(make_cases(static, 0))] == ["random"]


def test_timed_and_checked_sizes_are_multiples_of_the_step() -> None:
    (dag,) = parse("def f(float(L in 12..90 step 6) X) -> (Y) { Y(i) = X(i) }")
    assert timed_sizes(dag) == tuple({"L": size} for size in (12, 30, 48, 66, 90))
    sizes = [size for case in make_cases(dag, 0) for size in case.sizes]
    assert {12, 90} < set(sizes)
    assert all(size % 6 == 0 for size in sizes)


def test_weighted_sizes_are_timed_and_both_ends_are_checked() -> None:
    (dag,) = parse("def f(float(L in 1..90 @ 2..4: 3 + 60: 1) X) -> (Y) { Y(i) = X(i) }")
    cases = make_cases(dag, 0)
    assert [case.sizes for case in timed_cases(cases)] == [(2,), (3,), (4,), (60,)]
    assert [case.weight for case in timed_cases(cases)] == pytest.approx([0.25] * 4)
    for end in ((1,), (90,)):
        assert {"random", "edge"} <= {c.name.split(" (")[0] for c in cases if c.sizes == end}
    assert len({case.name for case in cases}) == len(cases)


def test_a_weighted_sample_has_calls_by_weight() -> None:
    now, counts = [0.0], [0, 0]

    def call(which: int, seconds: float) -> Callable[[], None]:
        def run() -> None:
            counts[which] += 1
            now[0] += seconds

        return run

    each = EachSize([call(0, 1e-6), call(1, 1e-3)], [9.0, 1.0])
    seconds, _ = sample(each, 100, SamplingOptions(), lambda: now[0], lambda: 0)
    assert seconds == pytest.approx(0.9 * 1e-6 + 0.1 * 1e-3)
    assert counts == [180, 20]
    sample(each, 1, SamplingOptions(), lambda: now[0], lambda: 0)
    assert counts == [182, 21]


def test_operations_are_the_mean_of_the_timed_sizes() -> None:
    counts = [flop_count(at_sizes(ROWS, sizes)) for sizes in timed_sizes(ROWS)]
    assert (
        flop_count(ROWS) == sum(counts) // len(counts) == 2 * 8 * 5 * (2 + 11 + 21 + 30 + 40) // 5
    )


@pytest.mark.parametrize("dag", [DOUBLED, ROWS], ids=["columns", "rows"])
def test_a_kernel_passes_at_each_size(dag: Dag) -> None:
    program = program_of(dag)
    assert verify(loaded(program), program.buffers, make_cases(dag, 0), {}) is None


def test_a_kernel_that_writes_beyond_the_sizes_is_refused() -> None:
    # The program of the largest size: it has no sizes, and writes all columns.
    program = program_of(at_sizes(DOUBLED, {"N": 20}))
    failed = verify(loaded(program), program.buffers, make_cases(DOUBLED, 0), {})
    assert failed is not None
    assert failed.kind == "out-of-bounds"
    assert "wrote beyond the sizes of Y" in failed.message


def test_a_kernel_that_sums_beyond_the_sizes_is_refused() -> None:
    (dag,) = parse("def f(float(3, N in 1..20) X) -> (Y) { Y(i) +=! X(i,j) }")
    program = program_of(at_sizes(dag, {"N": 20}))
    failed = verify(loaded(program), program.buffers, make_cases(dag, 0), {})
    assert failed is not None
    assert failed.kind == "wrong"


def test_a_timed_call_runs_at_each_size_and_tells_the_mean() -> None:
    program = program_of(ROWS)
    built = build(program, local_target(1))
    place = Workplace(make_cases(ROWS, 0), {})
    bound = place.bind_timed(load(built), built)
    assert isinstance(bound.call, EachSize)
    assert len(bound.call.calls) == 5
    bound.memory.array("C").fill(np.nan)
    bound.call()
    found = bound.memory.array("C")
    last: Case = timed_cases(place.cases)[-1]
    np.testing.assert_allclose(found, last.expected[0].value, rtol=1e-4, atol=1e-4)
    assert bound.memory.array(SIZES).tolist() == [2]

    ticks = iter((0.0, 30.0))
    seconds, _ = sample(bound.call, 2, SamplingOptions(), lambda: next(ticks), lambda: 0)
    assert seconds == 30.0 / (2 * 5)
