"""Footprints and iteration counts against a program that is really walked."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from ansorpy.expr.evaluate import evaluate
from ansorpy.expr.expr import reads
from ansorpy.features import extract, named
from ansorpy.loopir.nodes import Alloc, For, Seq, Stmt, Store
from ansorpy.population import sample
from ansorpy.target import Target
from tests.features.hand import tiled_plan


def executions(stmt: Stmt, values: dict[str, int]) -> Iterator[tuple[Store, dict[str, int]]]:
    """Yield every execution of every store with the values of all variables."""
    match stmt:
        case Store():
            yield stmt, dict(values)
        case Seq(stmts=stmts):
            for part in stmts:
                yield from executions(part, values)
        case Alloc(body=body):
            yield from executions(body, values)
        case For(var=var, extent=extent, body=body):
            for i in range(evaluate(extent, values)):
                yield from executions(body, {**values, var: i})
        case _:
            raise AssertionError(stmt)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_and_unique_bytes_are_those_of_the_walked_program(seed: int) -> None:
    plan = tiled_plan(8, lanes=2)
    (row,) = sample(plan, 1, np.random.default_rng(seed), exact=True)
    values = {size.name: int(n) for size, n in zip(plan.sizes, row, strict=True)}
    runs: dict[int, int] = defaultdict(int)
    touched: dict[tuple[int, str], set[tuple[int, ...]]] = defaultdict(set)
    order: list[int] = []
    for store, now in executions(plan.program.phases[0].body, values):
        key = id(store)
        if key not in order:
            order.append(key)
        runs[key] += 1
        for read in (part for value in store.values for part in reads(value)):
            where = tuple(evaluate(index, now) for index in read.indices)
            touched[key, read.tensor].add(where)
    found = named(extract(plan, row[None, :], Target())[0])
    for key, store_features in zip(order, found, strict=True):
        assert 2 ** store_features["outer_prod"] - 1 == pytest.approx(runs[key], rel=1e-4)
    update = order[1]
    for slot, tensor in ((1, "A"), (2, "B")):
        unique = 2 ** found[1][f"B{slot}.unique_bytes"] - 1
        assert unique == pytest.approx(4 * len(touched[update, tensor]), rel=1e-4)
        assert 2 ** found[1][f"B{slot}.bytes"] - 1 == pytest.approx(4 * runs[update], rel=1e-4)
