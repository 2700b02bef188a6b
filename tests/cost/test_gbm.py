from collections.abc import Callable, Sequence
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from ansorpy.cost.gbm import (
    FAILURE_WEIGHT,
    LEARNING_RATE,
    MIN_SAMPLES,
    GbmModel,
    labels,
    pack_sum_objective,
    training_set,
)
from ansorpy.cost.model import Batch, CostModel, Sample, Scores
from ansorpy.cost.quality import kendall, throughputs
from tests.cost.contract import CostModelContract


class Flat:
    """A prior that knows nothing."""

    def __init__(self, score: float = 1.0) -> None:
        self.score = score

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        return [np.full(len(batch), self.score) for batch in batches]

    def update(self, samples: Sequence[Sample]) -> None:
        """Nothing."""


class Truth(Flat):
    """A prior that knows the order, on a scale of its own."""

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        factor = 1e-6 if task == "a" else 1e3
        return [factor / (1 + batch[:, :, 3].sum(axis=1)).astype(np.float64) for batch in batches]


def model(seed: int = 0) -> GbmModel:
    return GbmModel(Flat(), seed=seed)


class TestGbmModel(CostModelContract):
    def make(self) -> CostModel:
        return model()


def candidates(n: int, stores: int, seed: int) -> tuple[Batch, Scores]:
    """Candidates whose cost is a sum over the stores, as in a real program."""
    rng = np.random.default_rng(seed)
    batch = rng.random((n, stores, 20), np.float32)
    batch[:, :, 0] = stores  # real features (loop counts) tell plans of a task apart as well
    work = 1 + 4 * batch[:, :, 3] + 8 * (batch[:, :, 5] > 0.5) * batch[:, :, 7]
    return batch, work.sum(axis=1).astype(np.float64) * 1e-4


def test_the_model_ranks_unseen_candidates() -> None:
    learner = model()
    for seed in range(4):
        learner.update([Sample("t", *candidates(64, 3, seed))])
    batch, costs = candidates(200, 3, 99)
    (scores,) = learner.predict([batch], "t")
    assert kendall(scores, throughputs(costs)) > 0.6
    # Scores are labels: best / cost of the task.
    assert abs(scores - costs.min() / costs).mean() < 0.1


def test_plans_with_different_store_counts_learn_together() -> None:
    learner = model()
    learner.update([Sample("t", *candidates(64, stores, stores)) for stores in (1, 2, 5)])
    for stores in (1, 2, 5):
        batch, costs = candidates(100, stores, 50 + stores)
        (scores,) = learner.predict([batch], "t")
        assert kendall(scores, throughputs(costs)) > 0.4


def test_the_prior_predicts_until_there_are_samples() -> None:
    learner = GbmModel(Flat(7.0))
    batch, costs = candidates(MIN_SAMPLES, 2, 0)
    learner.update([Sample("t", batch[1:], costs[1:])])
    before = learner.trained
    assert not before
    assert (learner.predict([batch])[0] == 7).all()
    learner.update([Sample("t", batch[:1], costs[:1])])
    assert learner.trained
    assert not (learner.predict([batch], "t")[0] == 7).any()


def test_a_correct_prior_improves_the_trained_ranking() -> None:
    few, costs = candidates(12, 2, 0)
    ranks = {}
    for name, prior in (("flat", Flat()), ("truth", Truth())):
        learner = GbmModel(prior)
        learner.update([Sample("a", few, costs)])
        batch, true_s = candidates(300, 2, 1)
        ranks[name] = kendall(learner.predict([batch], "a")[0], throughputs(true_s))
    assert ranks["truth"] > ranks["flat"] + 0.05


def test_every_task_has_its_own_scale_of_the_prior() -> None:
    learner = GbmModel(Truth())
    for task, seed in (("a", 0), ("b", 1)):
        learner.update([Sample(task, *candidates(40, 2, seed))])
    batch, costs = candidates(200, 2, 2)
    for task in ("a", "b", "never seen"):
        (scores,) = learner.predict([batch], task)
        assert np.isfinite(scores).all()
        assert kendall(scores, throughputs(costs)) > 0.4
        assert 0.2 < scores.max() < 2.0


def test_the_samples_determine_the_model() -> None:
    learner = model()
    for seed in range(2):
        learner.update([Sample("t", *candidates(20, 2, seed))])
    again = model()
    again.update(learner.samples)
    batch, _ = candidates(50, 2, 9)
    np.testing.assert_array_equal(learner.predict([batch])[0], again.predict([batch])[0])


def test_labels_are_relative_to_the_best_of_the_task_over_all_samples() -> None:
    zeros = np.zeros((2, 1, 4), np.float32)
    samples = [
        Sample("a", zeros, np.array([4.0, 2.0])),
        Sample("b", zeros, np.array([8e-3, np.inf])),
        Sample("a", zeros, np.array([1.0, 2.0])),
        Sample("c", zeros, np.array([np.inf, np.inf])),
    ]
    np.testing.assert_array_equal(labels(samples), [0.25, 0.5, 1, 0, 1, 0.5, 0, 0])


def test_training_rows_have_the_index_of_their_sample_and_its_throughput() -> None:
    samples = [
        Sample("a", np.zeros((2, 3, 4), np.float32), np.array([1.0, 2.0])),
        Sample("a", np.ones((1, 2, 4), np.float32), np.array([1.0])),
    ]
    rows, packs, targets = training_set(samples)
    assert rows.shape == (8, 4)
    assert packs.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert targets.tolist() == [1, 0.5, 1]


def test_gradient_and_hessian_are_weighted_by_the_target() -> None:
    packs, targets = np.array([0, 0, 1]), np.array([1.0, 0.0])
    objective = pack_sum_objective(packs, targets, np.maximum(targets, FAILURE_WEIGHT))
    grad, hess = objective(np.array([0.25, 0.5, 0.5]), lgb.Dataset(None))
    np.testing.assert_allclose(grad, [-0.25, -0.25, FAILURE_WEIGHT * 0.5])
    np.testing.assert_allclose(hess, [2, 2, FAILURE_WEIGHT])


def one_leaf(objective: Callable[..., Any], packs: np.ndarray) -> np.ndarray:
    """Boost packs whose rows are all alike, so that each pack falls into one leaf as a whole."""
    settings = {
        "objective": objective, "learning_rate": LEARNING_RATE, "num_leaves": 2,
        "min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1, "boost_from_average": False,
    }  # fmt: skip
    data = lgb.Dataset((packs % 2)[:, None].astype(float), params=settings)
    booster = lgb.train(settings, data, num_boost_round=100)
    values = np.asarray(booster.predict((packs % 2)[:, None].astype(float)))
    return np.bincount(packs, weights=values)


@pytest.mark.parametrize("rows", [2, 12, 40])
def test_long_programs_converge_with_our_hessian(rows: int) -> None:
    packs, targets = np.repeat(np.arange(40), rows), np.tile([1.0, 0.5], 20)
    sums = one_leaf(pack_sum_objective(packs, targets, targets), packs)
    np.testing.assert_allclose(sums, targets, atol=1e-3)


def test_long_programs_diverge_with_hessian_one() -> None:
    # The trap: 12 rows x rate 0.2 overshoots by 2.4, so the residual grows 1.4-fold a round.
    packs, targets = np.repeat(np.arange(40), 12), np.tile([1.0, 0.5], 20)
    ours = pack_sum_objective(packs, targets, targets)

    def naive(values: Any, data: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
        grad, hess = ours(values, data)
        return grad, hess / 12

    assert abs(one_leaf(naive, packs)).max() > 1e6


@pytest.mark.parametrize(
    ("shape", "costs"), [((2, 3), [1.0, 2.0]), ((2, 1, 3), [1.0]), ((1, 1, 3), [0.0])]
)
def test_a_sample_with_mismatched_shapes_is_refused(
    shape: tuple[int, ...], costs: list[float]
) -> None:
    with pytest.raises(ValueError, match="task 't'"):
        Sample("t", np.zeros(shape, np.float32), np.array(costs))
