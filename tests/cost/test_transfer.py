"""The analytic model corrected by other tasks: its training, and the guard that drops it."""

import numpy as np
import numpy.typing as npt
import pytest

from ansorpy.cost.gbm import GbmModel
from ansorpy.cost.model import Batch, CostModel, Sample
from ansorpy.cost.quality import kendall
from ansorpy.cost.roofline import RooflineModel
from ansorpy.cost.transfer import LEAST_JUDGED, MOST_JUDGED, TransferModel, log_sum_objective
from ansorpy.features import NAMES
from ansorpy.target import Target
from tests.cost.contract import CostModelContract

TARGET = Target()
TIMED, STEPS = NAMES.index("core.timed"), NAMES.index("core.steps")
WORK, SLOW = NAMES.index("float_mad"), NAMES.index("core.tiles")
FloatArray = npt.NDArray[np.float64]


def candidates(n: int, seed: int, stores: int = 2) -> Batch:
    rng = np.random.default_rng(seed)
    batch = np.zeros((n, stores, len(NAMES)), np.float32)
    batch[:, :, TIMED] = 1
    batch[:, :, STEPS] = rng.uniform(10, 14, (n, stores))
    batch[:, :, NAMES.index("outer_prod")] = batch[:, :, WORK] = batch[:, :, STEPS] + 2
    batch[:, :, SLOW] = rng.uniform(0, 8, (n, stores))
    return batch


def cost_s(batch: Batch) -> FloatArray:
    """Seconds by a machine on which many tiles are far slower than the roofline thinks."""
    cycles = RooflineModel(TARGET).cycles(batch)
    wrong = np.exp(0.5 * batch[:, :, SLOW].astype(np.float64))
    answer: FloatArray = 1e-9 * (cycles * wrong).sum(axis=1)
    return answer


def samples(count: int = 6, n: int = 48) -> list[Sample]:
    batches = [candidates(n, seed) for seed in range(count)]
    # Every task has a unit of its own, as clocks and operators have.
    return [Sample(f"t{i}", b, cost_s(b) * 10.0 ** (i % 3)) for i, b in enumerate(batches)]


def taught(found: list[Sample] | None = None) -> TransferModel:
    model = TransferModel(RooflineModel(TARGET))
    model.learn(samples() if found is None else found)
    return model


def tau(model: CostModel, batch: Batch, task: str = "new") -> float:
    (scores,) = model.predict([batch], task)
    return kendall(scores, 1.0 / cost_s(batch))


class TestUntaught(CostModelContract):
    def make(self) -> CostModel:
        return TransferModel(RooflineModel(TARGET))


class TestTaught(CostModelContract):
    def make(self) -> CostModel:
        return taught()


class TestBeneathTheTrees(CostModelContract):
    def make(self) -> CostModel:
        return GbmModel(taught())


def test_without_transfer_data_the_prior_is_the_roofline() -> None:
    batch = candidates(20, 99)
    (expected,) = RooflineModel(TARGET).predict([batch])
    for lesson in (
        [],
        [Sample("t", batch, np.full(20, np.inf))],
        [Sample("t", batch[:0], np.zeros(0))],
    ):
        model = taught(lesson)
        assert not model.trained
        (found,) = model.predict([batch])
        assert np.array_equal(found, expected)


def test_a_systematic_error_of_the_roofline_is_corrected_on_an_unseen_task() -> None:
    batch = candidates(100, 99)
    before, after = tau(RooflineModel(TARGET), batch), tau(taught(), batch)
    assert after > before + 0.2
    assert after > 0.8


def test_transfer_data_that_fails_on_held_out_tasks_is_not_learned() -> None:
    noise = [Sample(s.task, s.batch, np.random.default_rng(i).permutation(s.costs_s))
             for i, s in enumerate(samples())]  # fmt: skip
    rough = [Sample(s.task, s.batch, RooflineModel(TARGET).cycles(s.batch).sum(axis=1) * 1e-9)
             for s in samples()]  # fmt: skip
    misled = taught()
    learned = [misled.trained]
    for lesson in ([*noise[:3], *rough[3:]], samples()):  # each in place of the one before
        misled.learn(lesson)
        assert misled.promise is not None
        assert misled.trained is (misled.promise.kendall >= misled.promise.roofline)
        learned.append(misled.trained)
    assert learned == [True, False, True]


def test_transfer_data_of_one_task_is_learned_without_a_held_out_task() -> None:
    model = taught(samples(1))
    assert model.promise is None
    assert model.trained


def test_units_of_tasks_do_not_matter() -> None:
    batch = candidates(30, 99)
    one = taught().predict([batch])[0]
    scaled = [Sample(s.task, s.batch, s.costs_s * 1024.0) for s in samples()]
    assert np.allclose(taught(scaled).predict([batch])[0], one, rtol=1e-6)


def test_failures_are_no_transfer_data() -> None:
    failed = [Sample("t0", candidates(16, 50), np.full(16, np.inf)), *samples()]
    batch = candidates(30, 99)
    assert np.array_equal(taught(failed).predict([batch])[0], taught().predict([batch])[0])


def test_the_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(3)
    packs, tasks = np.array([0, 0, 1, 2, 2, 2, 3]), np.array([0, 0, 1, 1])
    cycles, values = rng.uniform(1, 9, 7), rng.normal(size=7)
    costs, weights = rng.uniform(1, 9, 4), rng.uniform(0.1, 1, 4)

    def loss(f: FloatArray) -> float:
        missed = np.log(np.bincount(packs, weights=cycles * np.exp(f))) - np.log(costs)
        mean = np.array(
            [np.average(missed[tasks == t], weights=weights[tasks == t]) for t in (0, 1)]
        )
        return float((weights * (missed - mean[tasks]) ** 2).sum() / 2)

    gradient, hessian = log_sum_objective(cycles, packs, tasks, costs, weights)(values, None)
    for row in range(7):
        step = np.zeros(7)
        step[row] = 1e-6
        slope = (loss(values + step) - loss(values - step)) / 2e-6
        assert gradient[row] == pytest.approx(slope, abs=1e-7)
    assert np.bincount(packs, weights=hessian) == pytest.approx(weights)


def test_a_correction_that_ranks_badly_is_dropped_for_that_task_alone() -> None:
    lesson = [Sample(s.task, s.batch, 1.0 / s.costs_s) for s in samples()]  # all upside down
    model, batch = taught(lesson), candidates(60, 99)
    assert tau(model, batch) < -0.2
    model.update([Sample("bad", batch[: LEAST_JUDGED - 1], cost_s(batch[: LEAST_JUDGED - 1]))])
    assert model.judgements == {}  # too few to say
    model.update([Sample("bad", batch[:16], cost_s(batch[:16]))])
    assert not model.judgements["bad"].kept
    assert model.judgements["bad"].kendall < 0 < model.judgements["bad"].roofline
    (expected,) = RooflineModel(TARGET).predict([batch])
    assert np.array_equal(model.predict([batch], "bad")[0], expected)
    assert tau(model, batch, "other") < -0.2  # nothing is known of how it does there
    model.update([Sample("bad", batch, 1.0 / cost_s(batch))])
    assert not model.judgements["bad"].kept  # once dropped, dropped


def test_a_correction_that_ranks_well_is_kept_and_watched_for_a_while() -> None:
    model, batch = taught(), candidates(200, 99)
    for start in range(0, 160, 16):
        part = batch[start : start + 16]
        model.update([Sample("good", part, cost_s(part))])
    assert model.judgements["good"].kept
    assert model.judgements["good"].candidates == MOST_JUDGED
    assert model.judgements["good"].kendall > model.judgements["good"].roofline


def test_the_roofline_counts_until_a_task_has_measurements() -> None:
    cold, warm, batch = TransferModel(RooflineModel(TARGET)), taught(), candidates(4, 99)
    assert cold.doubt("new") is None
    doubt = warm.doubt("new")
    assert doubt is not None
    (expected,) = RooflineModel(TARGET).predict([batch])
    assert np.array_equal(doubt.predict([batch], "new")[0], expected)
    warm.update([Sample("new", batch, cost_s(batch))])
    assert warm.doubt("new") is None
    assert warm.doubt("another") is not None


def test_candidates_measured_before_the_training_are_judged_too() -> None:
    model, batch = TransferModel(RooflineModel(TARGET)), candidates(16, 99)
    model.update([Sample("bad", batch, cost_s(batch))])
    model.learn([Sample(s.task, s.batch, 1.0 / s.costs_s) for s in samples()])
    assert not model.judgements["bad"].kept


def test_the_model_of_the_task_corrects_the_prior_until_it_is_dropped() -> None:
    batch = candidates(300, 99)
    lesson = [Sample(s.task, s.batch, 1.0 / s.costs_s) for s in samples()]
    warm, cold = GbmModel(taught(lesson)), GbmModel(RooflineModel(TARGET))
    for model in (warm, cold):
        model.update([Sample("bad", batch[:16], cost_s(batch[:16]))])
    found, expected = warm.predict([batch], "bad"), cold.predict([batch], "bad")
    assert np.array_equal(found[0], expected[0])  # as if it had never been warm
