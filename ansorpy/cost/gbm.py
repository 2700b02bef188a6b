"""The learned cost model: gradient-boosted trees whose outputs are summed over the stores."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.cost.model import Batch, CostModel, Sample, Scores
from ansorpy.cost.trees import LEAVES, Trees

if TYPE_CHECKING:
    import lightgbm as lgb

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Objective = Callable[[Any, Any], tuple[FloatArray, FloatArray]]

TREES: Final = 100  # boosting rounds; scoring time is proportional to their number
LEARNING_RATE: Final = 0.2  # the eta of released Ansor
FAILURE_WEIGHT: Final = 0.05  # smallest sample weight: failures and very slow candidates
MIN_SAMPLES: Final = 8  # measured candidates before the first training

_PARAMETERS: Final[Mapping[str, Any]] = {
    # Ansor has trees of depth 10; on 30 to 600 candidates 8 leaves rank clearly better than 31.
    "num_leaves": LEAVES,
    "feature_fraction": 0.5,
    "learning_rate": LEARNING_RATE,
    "boost_from_average": False,  # the trees must add up to the label from 0
    "min_data_in_leaf": 2,  # the default of 20 rows kills small jobs
    "min_sum_hessian_in_leaf": 1e-3,
    "lambda_l2": 1e-3,
    "max_bin": 63,
    "feature_pre_filter": False,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


class GbmModel:
    """score = scale * sqrt(prior score) + sum over the stores of f(features of the store).

    f is trained by LightGBM on the residual of the scaled prior and evaluated by `cost.trees`;
    the scale of a task is a least-squares fit. Label y = best cost of the task / cost, 0 for
    failures; loss w * (score - y)^2 with w = y (at least FAILURE_WEIGHT). Every update trains
    from scratch on all samples, because a new best cost changes every label. The prior alone
    gives the scores until MIN_SAMPLES candidates are known, one of which did not fail.

    Source: Ansor, OSDI 2020, section 5.2; the prior: ADR-0008.
    """

    def __init__(self, prior: CostModel, seed: int = 0, threads: int = 1) -> None:
        self._prior = prior
        self._parameters = {"seed": seed, "num_threads": threads}
        self._samples: list[Sample] = []
        self._scales: dict[str, float] = {}
        self._trees: Trees | None = None
        self._booster: lgb.Booster | None = None  # the origin of `_trees`

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples of the earlier updates: the whole state of the model."""
        return tuple(self._samples)

    @property
    def trained(self) -> bool:
        """True if the trees correct the prior."""
        return self._trees is not None

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return one array of scores per batch: estimates of best / cost."""
        if self._trees is None or not any(batch.size for batch in batches):
            return self._prior.predict(batches, task)
        prior = self._expected(batches, task)
        scale = self._scale(prior, task)
        rows = np.concatenate([batch.reshape(-1, batch.shape[2]) for batch in batches])
        values = self._trees.predict(rows)
        ends = np.cumsum([batch.shape[0] * batch.shape[1] for batch in batches])
        parts = np.split(values, ends[:-1])
        return [
            scale * expected + part.reshape(batch.shape[:2]).sum(axis=1)
            for part, batch, expected in zip(parts, batches, prior, strict=True)
        ]

    def _scale(self, prior: Sequence[FloatArray], task: str) -> float:
        """Return the scale of a task; of an unseen task, the score of the best candidate is 1."""
        scale = self._scales.get(task)
        return 1.0 / max(float(each.max(initial=0.0)) for each in prior) if scale is None else scale

    def parts(self, batch: Batch, task: str = "") -> FloatArray:
        """Return the parts of the score of one candidate, whose sum is the score.

        Args:
            batch: shape (1, stores, F).

        Returns:
            Shape (F + 2,): the contribution of each feature, summed over the stores; the mean of
            the trees, once per store; the scaled prior.

        Raises:
            ValueError: the model has not learned.
        """
        if self._booster is None:
            raise ValueError("cannot divide a score before the first training")
        prior = self._expected([batch], task)
        found = np.asarray(self._booster.predict(batch[0], pred_contrib=True, num_threads=1))
        scaled = self._scale(prior, task) * float(prior[0][0])
        return np.concatenate([found.sum(axis=0), [scaled]])

    def update(self, samples: Sequence[Sample]) -> None:
        """Add samples and train again on all samples."""
        self._prior.update(samples)
        self._samples += [sample for sample in samples if sample.batch.size]
        known = sum(len(sample.costs_s) for sample in self._samples)
        if known < MIN_SAMPLES or not any(np.isfinite(s.costs_s).any() for s in self._samples):
            return
        rows, packs, targets = training_set(self._samples)
        weights: FloatArray = np.maximum(targets, FAILURE_WEIGHT)
        missed = targets - self._explained(targets, weights)
        objective = pack_sum_objective(packs, missed, weights)
        self._booster = boosted(rows, objective, self._parameters)
        self._trees = Trees.of(self._booster.dump_model())

    def _expected(self, batches: Sequence[Batch], task: str) -> list[FloatArray]:
        """Return the square root of the prior's scores, whose order is better than their ratios."""
        return [np.sqrt(np.maximum(each, 0.0)) for each in self._prior.predict(batches, task)]

    def _explained(self, targets: FloatArray, weights: FloatArray) -> FloatArray:
        """Fit the scale of every task; return the scaled prior score of every candidate."""
        tasks = np.concatenate([np.full(len(s.costs_s), s.task, object) for s in self._samples])
        answer = np.zeros(len(targets))
        for task in dict.fromkeys(s.task for s in self._samples):
            mine = tasks == task
            own = [s.batch for s in self._samples if s.task == task]
            x, w = np.concatenate(self._expected(own, task)), weights[mine]
            size = float((w * x * x).sum())
            scale = float((w * x * targets[mine]).sum()) / size if size > 0 else 0.0
            self._scales[task] = scale
            answer[mine] = scale * x
        return answer


def grow(
    rows: npt.NDArray[np.float32],
    objective: Objective,
    parameters: Mapping[str, Any],
    trees: int = TREES,
) -> Trees:
    """Boost trees as `boosted`, and return them for fast evaluation."""
    return Trees.of(boosted(rows, objective, parameters, trees).dump_model())


def boosted(
    rows: npt.NDArray[np.float32],
    objective: Objective,
    parameters: Mapping[str, Any],
    trees: int = TREES,
) -> "lgb.Booster":
    """Boost trees on rows of shape (m, F); the objective gives gradient and hessian per row.

    Args:
        parameters: parameters of LightGBM, which override the common ones.
    """
    # Imported late: loading takes half a second, and the first answer does not need LightGBM.
    import lightgbm as lgb

    settings = {**_PARAMETERS, **parameters}
    data = lgb.Dataset(rows, params={**settings}, free_raw_data=True)
    return lgb.train({**settings, "objective": objective}, data, num_boost_round=trees)


def preload() -> None:
    """Load LightGBM ahead of the first training."""
    import lightgbm  # noqa: F401


def labels(samples: Sequence[Sample]) -> FloatArray:
    """Return best cost of the task / cost for every candidate, in order; 0 for failures."""
    best: dict[str, float] = {}
    for sample in samples:
        found = float(sample.costs_s.min(initial=np.inf))
        best[sample.task] = min(best.get(sample.task, np.inf), found)
    parts = []
    for sample in samples:
        answer = np.zeros(len(sample.costs_s))
        np.divide(best[sample.task], sample.costs_s, where=np.isfinite(sample.costs_s), out=answer)
        parts.append(answer)
    return np.concatenate(parts)


def training_set(samples: Sequence[Sample]) -> tuple[Batch, IntArray, FloatArray]:
    """Return rows (m, F), the pack (candidate) of every row (m,), and labels (packs,)."""
    rows = np.concatenate([s.batch.reshape(-1, s.batch.shape[2]) for s in samples])
    lengths = np.concatenate([np.full(s.batch.shape[0], s.batch.shape[1]) for s in samples])
    packs = np.repeat(np.arange(len(lengths)), lengths)
    return rows, packs, labels(samples)


def pack_sum_objective(packs: IntArray, targets: FloatArray, weights: FloatArray) -> Objective:
    """Return the gradient and hessian of w * (sum over the pack - target)^2 / 2 per row.

    The true hessian of a row is w, but the rows of a pack move together: if all n of them fall
    into one leaf, a step for hessian w moves their sum n times too far, and diverges for
    n >= 2 / learning rate. The hessian is therefore w * n.
    """
    lengths = np.bincount(packs, minlength=len(targets)).astype(np.float64)
    hessian = (weights * lengths)[packs]

    def objective(values: Any, data: "lgb.Dataset") -> tuple[FloatArray, FloatArray]:
        sums = np.bincount(packs, weights=values, minlength=len(targets))
        return (weights * (sums - targets))[packs], hessian

    return objective
