"""Every program is right for each size of its dims, and touches no element beyond them.

Inputs hold NaN beyond the sizes of a call; outputs must keep the poison that was there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from math import prod

import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Const, Expr
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import SIZES, If, Phase, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import stmt_children, walk_stmt
from ansorpy.loopir.verify import check
from ansorpy.measure.host import local_target
from ansorpy.measure.verify.inputs import Array
from ansorpy.oracle.reference import evaluate
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans, naive
from ansorpy.plan.params import VECTORS
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.te.dims import at_sizes, dims_of
from tests.codegen.running import run_all
from tests.night import night

SOFTMAX = "m(i) max=! {0}(i,j) e(i,j) = exp({0}(i,j) - m(i)) s(i) +=! e(i,j) P(i,j) = e(i,j) / s(i)"
TEXTS = {
    "rows": "float(M in 3..40, 33) A, const float(33, 20) B, float(20) b) -> (C)"
    " { T(i,j) +=! A(i,k) * B(k,j) C(i,j) = fmax(T(i,j) + b(j), 0) }",
    "rows by 8": "float(M in 8..48 step 8, 33) A, const float(33, 20) B) -> (C)"
    " { C(i,j) +=! A(i,k) * B(k,j) }",
    "columns by 8": "float(9, 17) A, float(17, N in 8..64 step 8) B) -> (C)"
    " { C(i,j) +=! A(i,k) * B(k,j) }",
    "softmax by 3": f"float(5, L in 3..36 step 3) A) -> (P) {{ {SOFTMAX.format('A')} }}",
    "columns": "float(9, 17) A, float(17, N in 1..50) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
    "sums": "float(9, K in 1..70) A, float(K, 20) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
    "three dims": "float(M in 1..9, K in 1..20) A, float(K, N in 1..30) B) -> (C)"
    " { C(i,j) +=! A(i,k) * B(k,j) }",
    "softmax": f"float(5, L in 1..37) A) -> (P) {{ {SOFTMAX.format('A')} }}",
    "attention": "float(L in 1..21, 8) Q, float(L, 8) K, float(L, 8) V) -> (O)"
    f" {{ S(i,j) +=! Q(i,k) * K(j,k) {SOFTMAX.format('S')} O(i,d) +=! P(i,j) * V(j,d) }}",
    "batch": "float(B in 1..5, 3, 10, 10) X, const float(8, 3, 3, 3) W) -> (Y)"
    " { Y(b,f,y,x) +=! X(b,c,y+r,x+s) * W(f,c,r,s) }",
    "leading": "float(N in 1..100, 7) X, float(7) b) -> (Y) { Y(i,j) = fmax(X(i,j) + b(j), 0) }",
    "middle": "float(3, N in 1..20, 10) X) -> (Y) { Y(i,j,k) = X(i,j,k) * 2 }",
    "box": "float(5, M in 2..8 step 2, N in 1..13) X) -> (Y) { Y() +=! X(i,j,k) + 1 }",
    "scalar": "float(N in 1..600) X) -> (Y) { Y() +=! X(j) * X(j) }",
    "argmax": "float(4, N in 1..60) X) -> (V, I) { (V, I)(i) = argmax(k, X(i,k)) }",
    "norm": "float(N in 1..30, 24) X, float(24) g) -> (Y) { s(i) +=! X(i,j) m(i) = s(i) / 24"
    " v(i) +=! (X(i,j) - m(i)) * (X(i,j) - m(i)) Y(i,j) = (X(i,j) - m(i)) * rsqrt(v(i) / 24) * g(j)"
    " }",
}  # fmt: skip
DAY = {"rows", "box", "rows by 8", "sums", "softmax"}
TARGET = Target(cores=2, vector_bits=256)


def padded(dag: Dag, name: str, array: Array) -> Array:
    """Return memory for the largest sizes, with an array at its start."""
    whole = np.full([int(n) for n in dag.node(name).shape], np.nan, array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole


def fault(dag: Dag, program: Program, sizes: Mapping[str, int], seed: int, native: bool) -> str:
    """Return the first difference from the reference at some sizes; "" if there is none."""
    small, rng = at_sizes(dag, sizes), np.random.default_rng(seed)
    given = {p.name: rng.uniform(-1, 1, p.shape).astype(np.float32) for p in small.placeholders}
    inputs = {name: padded(dag, name, array) for name, array in given.items()}
    if native:
        inputs[SIZES] = np.array([sizes[one.name] for one in program.dims], np.int64)
        outputs = [buffer for buffer in program.buffers if buffer.scope is Scope.OUTPUT]
        for buffer in outputs:
            poison = np.nan if buffer.dtype == "float32" else 77
            inputs[buffer.name] = np.full(buffer.extents, poison, buffer.dtype)
        arrays = run_all(program, inputs, source=False)
        got = {buffer.name: arrays[buffer.name] for buffer in outputs}
    else:
        counts = {one.var.name: sizes[one.name] // one.step for one in program.dims}
        got = run(program, inputs, counts)
    for (name, array), value in zip(got.items(), evaluate(small, given), strict=True):
        inside = tuple(map(slice, value.shape))
        if not np.allclose(array[inside], value, rtol=1e-4, atol=1e-5):
            return f"{name} is wrong at {sizes}"
        beyond = np.ones(array.shape, bool)
        beyond[inside] = False
        if array.dtype.kind == "f" and not np.isnan(array[beyond]).all():
            return f"{name} is written beyond {sizes}"
    return ""


@cache
def opened(name: str, target: Target, limit: int) -> tuple[Dag, tuple[Plan, ...]]:
    (dag,) = parse(f"def f({TEXTS[name]}")
    return dag, (naive(dag, target), *all_plans(derive(dag, target, CPU).sketches, target, limit))


def sizes_of(dag: Dag, rng: np.random.Generator) -> dict[str, int]:
    return {
        one.name: one.step
        * (*one.counts, int(rng.integers(one.counts[0], one.counts[1] + 1)))[rng.integers(3)]
        for one in dims_of(dag)
    }


@pytest.mark.parametrize("name", night(TEXTS, DAY))
def test_every_candidate_is_right_for_every_size(name: str) -> None:
    dag, found = opened(name, TARGET, 12)
    rng = np.random.default_rng(0)
    for plan in found:
        assert plan.unsized is not None
        check(plan.unsized, "symbolic", [size.name for size in plan.sizes])
        for row in sample(plan, 1, rng) if plan.sizes else [()]:
            program = bind(plan, row, TARGET)
            assert fault(dag, program, sizes_of(dag, rng), 0, native=False) == ""


@pytest.mark.parametrize("name", night(TEXTS, DAY))
def test_machine_code_is_right_for_every_size(name: str) -> None:
    target = local_target(2)
    dag, found = opened(name, target, 6)
    rng = np.random.default_rng(1)
    for plan in found:
        for row in sample(plan, 1, rng) if plan.sizes else [()]:
            program = bind(plan, row, target)
            for _ in range(3):
                assert fault(dag, program, sizes_of(dag, rng), 1, native=True) == ""


def tiles(phase: Phase) -> list[Tile]:
    return [one for one in walk_stmt(phase.body) if isinstance(one, Tile)]


def tiles_of(program: Program) -> int:
    return sum(len(tiles(phase)) for phase in program.phases)


def test_a_tile_that_divides_the_step_has_no_tail() -> None:
    _, found = opened("rows by 8", TARGET, 12)
    rng, seen = np.random.default_rng(0), 0
    for plan in found[1:]:
        rows = [size.group.endswith(".i") for size in plan.sizes]
        static = replace(plan, unsized=None)
        for row in sample(plan, 40, rng):
            if 8 % prod(row[rows]) == 0:
                seen += 1
                of_dim, of_number = bind(plan, row, TARGET), bind(static, row, TARGET)
                assert tiles_of(of_dim) == tiles_of(of_number)
    assert seen > 10


def decided(stmt: Stmt, denied: frozenset[tuple[Expr, int]] = frozenset()) -> Iterator[str]:
    """Yield the tests of dims that an outer test has decided: branches that are never taken."""
    match stmt:
        case If(cond=Binary(op="ge", a=a, b=Const(value=most)) as cond, then=then, other=other):
            if "~" in str(a):
                yield from (str(cond) for left, least in denied if left == a and least <= most)
                denied |= {(a, int(most))}
            yield from decided(then, denied)
            yield from () if other is None else decided(other, denied)
        case _:
            for part in stmt_children(stmt):
                yield from decided(part, denied)


def test_a_tail_is_no_whole_tile() -> None:
    _, found = opened("rows", TARGET, 12)
    rng = np.random.default_rng(0)
    for plan in (plan for plan in found if plan.sizes):
        for row in sample(plan, 3, rng):
            program = bind(plan, row, TARGET)
            assert [test for phase in program.phases for test in decided(phase.body)] == []


def test_the_tail_of_lanes_is_no_longer_than_a_whole_step() -> None:
    (dag,) = parse("def f(float(9, L in 1..400) X) -> (Y) { Y(j) +=! X(i,j) }")
    rng = np.random.default_rng(0)
    for plan in all_plans(derive(dag, TARGET, CPU).sketches, TARGET, 12):
        for row in sample(plan, 1, rng):
            for phase in bind(plan, row, TARGET).phases:
                widths = [prod(n for _, n in tile.spans) for tile in tiles(phase)]
                assert max(widths) <= 8 * max(VECTORS)


def test_features_and_limits_are_of_the_largest_sizes() -> None:
    target = Target(cores=2)
    dag, found = opened("rows", target, 6)
    (static,) = parse(f"def f({TEXTS['rows']}".replace("M in 3..40", "40"))
    for plan in found[1:]:
        assert plan.program.dims == ()
        assert not {one.var.name for one in dims_of(dag)} & {size.name for size in plan.sizes}
    twins = all_plans(derive(static, target, CPU).sketches, target)
    assert {(plan.sizes, plan.conditions, plan.program) for plan in found[1:]} <= {
        (plan.sizes, plan.conditions, plan.program) for plan in twins
    }
