import numpy as np

from ansorpy.cost.importance import permutation_importance


def test_the_column_that_decides_the_number_is_the_most_important() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 16, (80, 3)).astype(np.float32)
    found = permutation_importance(rows, np.log2(1.0 + rows[:, 1]), np.random.default_rng(0))
    assert found.shares.argmax() == 1
    assert found.shares[1] > 0.5
    assert max(found.shares[0], found.shares[2]) < 0.1
    assert found.explained > 0.8


def test_trees_explain_nothing_of_noise() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 4, (64, 2)).astype(np.float32)
    found = permutation_importance(rows, rng.standard_normal(64), np.random.default_rng(0))
    assert found.explained < 0.2


def test_equal_seeds_give_equal_importances() -> None:
    rng = np.random.default_rng(3)
    rows, numbers = rng.random((32, 2), np.float32), rng.random(32)
    first, second = (
        permutation_importance(rows, numbers, np.random.default_rng(4)) for _ in range(2)
    )
    assert first.shares.tolist() == second.shares.tolist()
