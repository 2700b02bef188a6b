"""Kernels that compute a convolution another way: their checks, and that these see mistakes."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ansorpy.artifact import make_test
from ansorpy.codegen.loader import build, load
from ansorpy.codegen.numba_source import emit
from ansorpy.expr.expr import Const, Expr, transform
from ansorpy.loopir.nodes import For, Program, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Measured
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.verify.cases import Case, make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.oracle.error_bounds import SAFETY
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU, WINOGRAD2, WINOGRAD4
from ansorpy.sketch import derive
from ansorpy.state.state import State
from ansorpy.state.steps import RoundOperands, reformulations
from ansorpy.state.steps import meaning as meaning_of
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d, matmul

TARGET = local_target(1)
SETS = {2: WINOGRAD2, 4: WINOGRAD4}


def deep(channels: int) -> Dag:
    return conv2d(1, channels, 9, 9, 16, 3, Window(padding=1))


@cache
def program_of(channels: int, outputs: int, target: Target = TARGET) -> Program:
    dag = deep(channels)
    for sketch in derive(dag, target, (*SETS[outputs], *CPU)).sketches:
        if reformulations(sketch):
            plan = plans(sketch, target)[0]
            row = [int(x) for x in sample(plan, 1, np.random.default_rng(1))[0]]
            return bind(plan, row, target)
    raise LookupError(outputs)


@cache
def cases_of(channels: int, outputs: int) -> tuple[Case, ...]:
    meaning = program_of(channels, outputs).meaning
    assert meaning is not None
    return reformulated(make_cases(deep(channels), 0), meaning)


def test_values_stay_those_of_the_convolution_and_every_case_has_a_bound() -> None:
    plain, meaning = make_cases(deep(64), 0), program_of(64, 4).meaning
    assert meaning is not None
    for old, new in zip(plain, reformulated(plain, meaning), strict=True):
        assert old.inputs is new.inputs
        for a, b in zip(old.expected, new.expected, strict=True):
            assert a.value is b.value
            assert b.bound is not None


def test_a_bound_covers_a_sum_that_may_overflow_by_claiming_nothing() -> None:
    (case, *_) = make_cases(deep(64), 0)
    huge = {name: array * np.float32(3e37) for name, array in case.inputs.items()}
    meaning = program_of(64, 4).meaning
    assert meaning is not None
    (found,) = reformulated([replace(case, inputs=huge)], meaning)
    bound = found.expected[0].bound
    assert bound is not None
    assert np.isinf(bound).all()


def passes(program: Program, cases: tuple[Case, ...]) -> bool:
    built = build(program, TARGET)
    return verify(load(built), built.buffers, cases, {}) is None


def rounded(n: int, m: int, k: int) -> tuple[Dag, Dag]:
    """Return a product of float32, and its meaning with operands in tf32."""
    dag = matmul(n, m, k)
    return dag, meaning_of(State.naive(dag).do(RoundOperands("C", "tf32")))


def test_operands_in_tf32_have_the_bound_of_eleven_bits() -> None:
    dag, meaning = rounded(6, 5, 64)
    plain = make_cases(dag, 0)
    for old, new in zip(plain, reformulated(plain, meaning), strict=True):
        (a, b), (expected,) = (old.inputs[name].astype(np.float64) for name in "AB"), new.expected
        assert expected.value is old.expected[0].value
        if old.name == "small-integer":
            assert new is old, "whole numbers up to 2048 are kept"
            continue
        assert expected.bound is not None
        size = np.abs(a) @ np.abs(b)
        known = np.isfinite(expected.bound) & (size > 1e-30)
        share = expected.bound[known] / size[known] / SAFETY
        assert (share >= 2 * 2.0**-11).all()
        assert (share <= 2 * 2.0**-11 + 2.0**-22 + 70 * 2.0**-24).all()


@pytest.mark.parametrize("bits", [11, 8])
def test_the_bound_holds_for_operands_of_eleven_bits_and_not_of_eight(bits: int) -> None:
    dag, meaning = rounded(16, 16, 1)
    (case, *_) = reformulated(make_cases(dag, 0), meaning)
    (expected,), lost = case.expected, np.uint32(24 - bits)
    assert expected.bound is not None
    near = [
        ((case.inputs[name].view(np.uint32) + np.uint32(1 << (23 - bits))) >> lost << lost).view(
            "f4"
        )
        for name in "AB"
    ]
    apart = np.abs(near[0].astype(np.float64) @ near[1] - expected.value)
    assert (apart > expected.bound).any() == (bits == 8)
    assert apart.max() > 0


Change = Callable[[Stmt], Stmt]


def shorter(stmt: Stmt) -> Stmt:
    """Leave out the last channel of the products."""
    if isinstance(stmt, For) and stmt.var == "conv.products:rc":
        assert isinstance(stmt.extent, Const)
        return replace(stmt, extent=Const(int(stmt.extent.value) - 1))
    return stmt


def blunter(stmt: Stmt) -> Stmt:
    """Multiply by 0.1 % too much where the outputs are transformed."""
    if not isinstance(stmt, Tile) or not stmt.store.buffers[0].startswith("conv.output"):
        return stmt

    def change(part: Expr) -> Expr | None:
        if isinstance(part, Const) and isinstance(part.value, float) and part.value != 0:
            return replace(part, value=part.value * 1.001)
        return None

    values = tuple(transform(value, change) for value in stmt.store.values)
    return replace(stmt, store=replace(stmt.store, values=values))


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize("channels", [64, 512])
def test_the_checks_see_a_lost_channel(channels: int, outputs: int) -> None:
    program, cases = program_of(channels, outputs), cases_of(channels, outputs)
    assert passes(program, cases)
    broken = map_phases(program, lambda body: map_stmt(body, shorter))
    assert broken != program
    assert not passes(broken, cases)


@pytest.mark.slow
def test_the_checks_see_a_factor_that_is_a_little_off() -> None:
    program = program_of(64, 4)
    broken = map_phases(program, lambda body: map_stmt(body, blunter))
    assert broken != program
    assert not passes(broken, cases_of(64, 4))


@pytest.mark.slow
def test_a_reformulated_kernel_is_measured_and_raced_with_the_error_that_was_seen() -> None:
    dag, program = deep(64), program_of(64, 4)
    settings = MeasureSettings(race_processes=1, race_visits=2)
    with LocalPool(dag, TARGET, settings) as pool:
        (outcome,) = pool.measure([program])
        assert isinstance(outcome, Measured), outcome
        found = pool.race({"fast": emit(program, TARGET)}, numpy=False)
    race = found["fast"]
    assert isinstance(race, PairedTimes), race
    (limit,) = make_test(dag, program.meaning).tolerances
    (seen,) = race.errors
    assert 1e-7 < seen < limit


def test_the_self_test_of_a_product_in_tf32_asks_for_equality_and_has_the_bound() -> None:
    dag, meaning = rounded(8, 8, 64)
    plain, test = make_test(dag), make_test(dag, meaning)
    assert test.magnitude == plain.magnitude > 0
    assert 100 < test.tolerances[0] / plain.tolerances[0] < 10000


def test_the_self_test_of_a_reformulated_kernel_does_not_ask_for_equality() -> None:
    dag = deep(64)
    assert make_test(dag).magnitude > 0
    assert make_test(dag, program_of(64, 4).meaning).magnitude == 0
