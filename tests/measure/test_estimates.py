"""Candidates through the real builders to estimates, and finalists through the emulator."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Const, Expr, transform
from ansorpy.loopir.nodes import Program, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt
from ansorpy.measure.estimates import EstimatePool
from ansorpy.measure.outcome import Estimated, Failed
from ansorpy.measure.pool import RacePool
from ansorpy.target import cuda_target
from ansorpy.topi import workloads
from tests.fuzz.pairs import draw

TARGET: Final = cuda_target("sm_90")
DAG: Final = workloads.matmul(16, 32, 8)


@pytest.fixture(scope="module")
def pool() -> Iterator[EstimatePool]:
    with EstimatePool(DAG, TARGET) as opened:
        yield opened


def candidate(seed: int) -> Program:
    return draw(DAG, TARGET, np.random.default_rng(seed))[0]


def test_candidates_become_estimates(pool: EstimatePool) -> None:
    found = pool.measure([candidate(0), candidate(1)])
    assert all(isinstance(one, Estimated) for one in found)
    assert all(one.build_s > 0 for one in found if isinstance(one, Estimated))


def test_a_late_candidate_has_no_outcome(pool: EstimatePool) -> None:
    assert pool.measure([candidate(2)], late=lambda: True) == [None]


def test_a_finalist_is_right_under_the_emulator(pool: EstimatePool) -> None:
    assert pool.verify(candidate(0)) is None


def test_a_wrong_finalist_is_found(pool: EstimatePool) -> None:
    def squared(expr: Expr) -> Expr | None:
        twice = isinstance(expr, Binary) and expr.op == "mul" and "float" in expr.dtype
        return Binary("mul", Const(2.0, "float32"), expr) if twice else None

    def broken(program: Program) -> Program:
        def change(stmt: object) -> object:
            if not isinstance(stmt, Tile):
                return stmt
            values = tuple(transform(value, squared) for value in stmt.store.values)
            return replace(stmt, store=replace(stmt.store, values=values))

        return map_phases(program, lambda body: map_stmt(body, change))  # type: ignore[arg-type]

    wrong = broken(candidate(0))
    assert wrong != candidate(0)
    failed = pool.verify(wrong)
    assert isinstance(failed, Failed)
    assert failed.kind == "wrong"


def test_estimates_enter_no_race(pool: EstimatePool) -> None:
    assert not isinstance(pool, RacePool)
