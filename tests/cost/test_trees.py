from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from ansorpy.cost.trees import LEAVES, Trees


def booster(leaves: int, rows: np.ndarray, trees: int = 20) -> lgb.Booster:
    target = rows[:, 3] * rows[:, 1] - np.floor(rows[:, 0])
    settings = {
        "num_leaves": leaves, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 2,
        "objective": "regression", "deterministic": True,
    }  # fmt: skip
    return lgb.train(settings, lgb.Dataset(rows, target), trees)


@pytest.mark.parametrize("leaves", [2, 5, LEAVES])
def test_sums_of_trees_equal_lightgbm_to_the_bit(leaves: int) -> None:
    rng = np.random.default_rng(leaves)
    # Few distinct values: many rows lie exactly on a threshold or next to it.
    rows = np.round(rng.random((400, 6), np.float32) * 20, 1).astype(np.float32)
    model = booster(leaves, rows)
    ours = Trees.of(model.dump_model())
    near = np.concatenate([rows, np.nextafter(rows, np.float32(99)), np.nextafter(rows, -rows)])
    np.testing.assert_array_equal(ours.predict(near), model.predict(near))
    assert len(ours.predict(rows[:0])) == 0


def test_more_rows_than_a_chunk_have_the_same_sums() -> None:
    rng = np.random.default_rng(0)
    rows = rng.random((200, 6), np.float32)
    ours = Trees.of(booster(8, rows, 3).dump_model())
    many = np.tile(rows, (400, 1))
    np.testing.assert_array_equal(ours.predict(many), np.tile(ours.predict(rows), 400))


def test_trees_without_a_split_are_constants() -> None:
    dump: dict[str, Any] = {"tree_info": [{"tree_structure": {"leaf_value": 1.5}}] * 2}
    assert (Trees.of(dump).predict(np.zeros((3, 4), np.float32)) == 3).all()


def test_trees_with_too_many_leaves_or_other_splits_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="leaves, at most 8"):
        Trees.of(booster(31, rng.random((400, 6), np.float32)).dump_model())
    leaf = {"leaf_value": 0.0}
    odd = {"split_feature": 0, "threshold": 1.0, "decision_type": "==",
           "left_child": leaf, "right_child": leaf}  # fmt: skip
    with pytest.raises(ValueError, match="a split by '=='"):
        Trees.of({"tree_info": [{"tree_structure": odd}]})
