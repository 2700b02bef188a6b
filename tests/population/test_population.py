from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy.expr.expr import Binary, Const, Expr, Var
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import (
    crossover,
    enumerate_all,
    fit,
    keys,
    legal,
    migrate,
    mutate,
    sample,
    unique,
    unseen,
)  # fmt: skip
from ansorpy.population.factor import divisors, factorizations
from ansorpy.population.powers import block_columns
from ansorpy.rules import CPU, CUDA
from ansorpy.sketch import derive
from ansorpy.target import Target, cuda_target
from ansorpy.topi.workloads import matmul
from tests.features.hand import tiled_plan, toy_plan

SPACES = st.builds(
    toy_plan,
    st.tuples(st.integers(1, 600), st.sampled_from([1, 7, 14, 197, 1000, 1009])),
    st.integers(1, 3),
    st.sampled_from([1, 8, 16]),
)
SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("extent", "parts", "ways"),
    [
        (512, 3, 210), (512, 4, 700), (512, 2, 49), (512, 1, 7), (1024, 3, 266), (224, 3, 220),
        (1000, 3, 368), (56, 3, 80), (8, 3, 20), (7, 3, 4), (127, 1, 1),
    ],
)  # fmt: skip
def test_the_exact_tile_spaces_have_the_published_sizes(extent: int, parts: int, ways: int) -> None:
    lengths = factorizations(extent, parts)
    assert lengths.shape == (ways, parts)
    assert len(np.unique(lengths, axis=0)) == ways
    assert (extent % lengths.prod(axis=1) == 0).all()
    assert (lengths[:, -1] <= 64).all()


def test_divisors_of_a_highly_composite_number() -> None:
    assert divisors(60).tolist() == [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60]


def test_exact_sampling_is_uniform_over_the_factorisations() -> None:
    rows = sample(toy_plan((8,), 3), 20_000, np.random.default_rng(0), exact=True)
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(counts) == 20
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)  # five standard deviations


@settings(max_examples=40)
@given(plan=SPACES, seed=SEEDS, exact=st.booleans())
def test_every_sampled_and_mutated_row_is_legal(plan: Plan, seed: int, exact: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = sample(plan, 64, rng, exact)
    assert rows.shape == (64, len(plan.sizes))
    assert legal(plan, rows).all()
    children = mutate(plan, rows, rng, exact)
    assert legal(plan, children).all()
    assert legal(plan, crossover(plan, rows, children, rng)).all()


@pytest.mark.parametrize("exact", [False, True])
def test_conditions_of_the_plan_hold_for_all_rows(exact: bool) -> None:
    plan = tiled_plan()
    rng = np.random.default_rng(1)
    rows = sample(plan, 500, rng, exact)
    for _ in range(5):
        rows = mutate(plan, rows, rng, exact)
        assert legal(plan, rows).all()
        assert (rows[:, plan.column["C.i.3"]] * (rows[:, plan.column["C.j.3"]] // 16) <= 28).all()


@pytest.mark.parametrize("exact", [False, True])
def test_mutation_moves_almost_every_row_and_reaches_every_column(exact: bool) -> None:
    plan = tiled_plan()
    rng = np.random.default_rng(2)
    rows = sample(plan, 2000, rng, exact)
    changed = mutate(plan, rows, rng, exact) != rows
    assert changed.any(axis=1).mean() > 0.98
    assert changed.any(axis=0).all()


def test_exact_mutation_stays_exact_and_within_one_axis() -> None:
    plan = tiled_plan()
    rng = np.random.default_rng(3)
    rows = sample(plan, 500, rng, exact=True)
    children = mutate(plan, rows, rng, exact=True)
    assert (512 % children[:, :3].prod(axis=1) == 0).all()
    assert (512 % children[:, 3:6].prod(axis=1) == 0).all()
    touched = np.stack(
        [
            (children[:, a:b] != rows[:, a:b]).any(axis=1)
            for a, b in ((0, 3), (3, 6), (6, 7), (7, 8))
        ]
    )
    assert (touched.sum(axis=0) <= 1).all()


def test_the_same_seed_gives_the_same_rows() -> None:
    plan = tiled_plan()
    first, second = (
        mutate(plan, sample(plan, 100, rng), rng)
        for rng in (np.random.default_rng(4), np.random.default_rng(4))
    )
    assert (first == second).all()


def test_free_sampling_uses_sizes_that_do_not_divide() -> None:
    rows = sample(toy_plan((1009,), 2), 500, np.random.default_rng(5))
    assert (rows > 1).any(axis=1).mean() > 0.8


def test_legal_is_false_for_each_kind_of_wrong_row() -> None:
    plan = toy_plan((7,), 2, multiple_of=4)
    rows = np.array([[1, 4], [2, 4], [1, 8], [3, 4], [1, 5], [1, 0], [1, 12], [0, 4]])
    assert legal(plan, rows).tolist() == [True, True, True, False, False, False, False, False]


@settings(max_examples=30)
@given(plan=SPACES, seed=SEEDS)
def test_fit_brings_any_integers_into_range(plan: Plan, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(-5, 2000, (50, len(plan.sizes)))
    fitted = fit(plan, rows)
    assert legal(plan, fitted).all()
    assert (fit(plan, fitted) == fitted).all()


def test_sampling_finds_the_few_legal_rows_of_a_tight_plan() -> None:
    free = toy_plan((512, 512, 512), 2)
    product: Expr = Const(1)
    for size in free.sizes:
        product = Binary("mul", product, Var(size.name))
    rng = np.random.default_rng(8)
    tight = replace(free, conditions=(Binary("le", product, Const(40)),))
    rows = sample(tight, 200, rng)
    assert legal(tight, rows).all()
    assert len(unique(rows)) > 150
    none = replace(free, conditions=(Binary("le", product, Const(0)),))
    assert sample(none, 200, rng).shape == (0, 6)


def test_a_small_space_is_enumerated_and_a_large_one_is_not() -> None:
    rows = enumerate_all(toy_plan((4, 2)))
    assert rows is not None
    assert sorted(map(tuple, rows.tolist())) == [(a, b) for a in range(1, 5) for b in (1, 2)]
    assert enumerate_all(tiled_plan()) is None


def test_migrated_rows_keep_sizes_by_name_and_draw_missing_sizes() -> None:
    source, target = toy_plan((32, 64), 1), toy_plan((32, 64, 9), 2)
    rng = np.random.default_rng(6)
    rows = sample(source, 50, rng)
    moved = migrate(source, rows, target, rng)
    assert moved.shape == (50, 6)
    assert legal(target, moved).all()
    narrow = toy_plan((32,), 1)
    assert (migrate(source, rows, narrow, rng)[:, 0] == rows[:, 0]).all()


def test_unique_keeps_the_first_of_equal_rows_in_order() -> None:
    rows = np.array([[3, 1], [1, 2], [3, 1], [2, 1], [1, 2]])
    assert unique(rows).tolist() == [[3, 1], [1, 2], [2, 1]]
    assert unseen(rows, keys(rows[:1])).tolist() == [False, True, False, True, True]


def test_keys_tell_apart_permuted_and_shifted_rows() -> None:
    rng = np.random.default_rng(7)
    rows = np.unique(rng.integers(0, 40, (50_000, 6)), axis=0)
    assert len(np.unique(keys(rows))) == len(rows)


def test_many_random_rows_of_a_block_of_threads_have_powers_of_two_only() -> None:
    dag, gpu, cpu = matmul(1023, 1025, 1027), cuda_target("sm_90"), Target(cores=2)
    plan = plans(derive(dag, gpu, CUDA).sketches[-1], gpu)[0]
    rows = sample(plan, 200, np.random.default_rng(0))
    tiles = rows[:, list(block_columns(plan))]
    even = (tiles & (tiles - 1) == 0).all(axis=1).mean()
    assert tiles.shape[1] == 7
    assert 0.3 < even < 0.9
    assert block_columns(plans(derive(dag, cpu, CPU).sketches[0], cpu)[0]) == ()
