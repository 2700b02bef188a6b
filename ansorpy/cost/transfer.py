"""The analytic cost model, corrected by measurements of other tasks while they improve it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.cost.gbm import FAILURE_WEIGHT, IntArray, Objective, grow
from ansorpy.cost.model import Batch, CostModel, Sample, Scores
from ansorpy.cost.quality import kendall, throughputs
from ansorpy.cost.roofline import RooflineModel
from ansorpy.cost.trees import Trees

FloatArray = npt.NDArray[np.float64]

# The trees must generalise to unseen tasks: fewer boosting rounds, a lower learning rate and
# stronger regularisation than in the model that learns from the task itself (ADR-0066).
TREES: Final = 60
STIFF: Final = {
    "learning_rate": 0.1,
    "min_data_in_leaf": 20,
    "min_sum_hessian_in_leaf": 0.5,
    "lambda_l2": 1.0,
}
LARGEST: Final = 20.0  # largest logarithm of a correction; exp of it does not overflow
LEAST_JUDGED: Final = 16  # candidates of a task for a judgement; a first round of 8 is too few
MOST_JUDGED: Final = 64  # candidates after which the task has a model of its own
FOLDS: Final = 4  # folds of the cross-validation over tasks
# Kendall's tau by which the correction may fall behind: noise, and the bias that a model ranks the
# candidates it chose itself worse than others.
MARGIN: Final = 0.1


@dataclass(frozen=True, slots=True)
class Judgement:
    """Kendall's tau on measured candidates of a task, with the correction and without it."""

    candidates: int
    kendall: float
    roofline: float

    @property
    def kept(self) -> bool:
        """True if the correction ranks no worse than chance, and hardly worse than the roofline."""
        return self.kendall >= 0.0 and self.kendall >= self.roofline - MARGIN


class TransferModel:
    """score = 1 / sum over the stores of (cycles by the roofline * exp(f(features of the store))).

    f is trained once, on candidates of other tasks; loss w * (log cost + log score - c)^2 with
    w = best cost of the task / cost, and one c per task, so that the duration of a cycle cancels
    out; failures are left out. The model does not learn from the tasks that it scores, but
    judges its ranking of them: after a bad judgement, the roofline gives the scores of the task.
    Before `learn` is called, the roofline gives all scores.

    Source: ADR-0066.
    """

    def __init__(self, roofline: RooflineModel, seed: int = 0, threads: int = 1) -> None:
        self._roofline = roofline
        self._parameters = {**STIFF, "seed": seed, "num_threads": threads}
        self._trees: Trees | None = None
        self._seen: dict[str, list[Sample]] = {}
        self.judgements: dict[str, Judgement] = {}  # the latest judgement of every task
        self.promise: Judgement | None = None  # the cross-validation of the training set

    @property
    def trained(self) -> bool:
        """True if the correction was trained on other tasks."""
        return self._trees is not None

    def learn(self, samples: Sequence[Sample]) -> None:
        """Train the correction on other tasks, in place of an earlier training.

        The training set is dropped if its cross-validation ranks worse than the roofline.
        """
        self.promise = self._promised(samples)
        good = self.promise is None or self.promise.kendall >= self.promise.roofline
        trees = self._grown(samples) if good else None
        if not good or trees is not None:
            self._trees = trees
            self.judgements.clear()
            for task in self._seen:
                self._judge(task)

    def _grown(self, samples: Sequence[Sample]) -> Trees | None:
        rows, cycles, objective = self._lesson(samples)
        return grow(rows, objective, self._parameters, TREES) if len(cycles) else None

    def _promised(self, samples: Sequence[Sample]) -> Judgement | None:
        """Return the mean judgement of a cross-validation over tasks; None if no task is large."""
        by_task: dict[str, list[Sample]] = {}
        for sample in samples:
            by_task.setdefault(sample.task, []).append(sample)
        judged = [
            name
            for name, own in by_task.items()
            if sum(len(one.costs_s) for one in own) >= LEAST_JUDGED
        ]
        found: list[Judgement] = []
        for number in range(min(FOLDS, len(judged))):
            fold = judged[number::FOLDS]
            trees = self._grown([one for one in samples if one.task not in fold])
            if trees is not None:
                found += [self._judged(by_task[name], trees) for name in fold]
        if not found:
            return None
        count = sum(one.candidates for one in found)
        ours, plain = (fmean(getattr(o, of) for o in found) for of in ("kendall", "roofline"))
        return Judgement(count, ours, plain)

    def doubt(self, task: str) -> CostModel | None:
        """Return the model that proposes a share of the next round of a task, or None.

        It is the roofline until candidates of the task were measured: the correction may mislead,
        and a first round of its proposals alone would then be lost.
        """
        return self._roofline if self.trained and task not in self._seen else None

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return one array of scores per batch."""
        judged = self.judgements.get(task)
        given_up = judged is not None and not judged.kept
        if self._trees is None or given_up or not any(batch.size for batch in batches):
            return self._roofline.predict(batches, task)
        return self._corrected(batches, self._trees)

    def update(self, samples: Sequence[Sample]) -> None:
        """Judge the correction on the first MOST_JUDGED measured candidates of every task."""
        for sample in samples:
            seen = self._seen.setdefault(sample.task, [])
            if sum(len(each.costs_s) for each in seen) < MOST_JUDGED and sample.batch.size:
                seen.append(sample)
        for task in dict.fromkeys(sample.task for sample in samples):
            self._judge(task)

    def _judge(self, task: str) -> None:
        """Judge the correction on a task again, unless the task was given up."""
        before, seen = self.judgements.get(task), self._seen[task]
        count = sum(len(sample.costs_s) for sample in seen)
        given_up = before is not None and not before.kept
        known = before is not None and before.candidates == count
        if self._trees is None or given_up or known or count < LEAST_JUDGED:
            return
        self.judgements[task] = self._judged(seen, self._trees)

    def _judged(self, seen: Sequence[Sample], trees: Trees) -> Judgement:
        """Return the judgement of trees on the candidates of a task."""
        batches = [sample.batch for sample in seen]
        truth = throughputs(np.concatenate([sample.costs_s for sample in seen]))
        ours = kendall(np.concatenate(self._corrected(batches, trees)), truth)
        plain = kendall(np.concatenate(self._roofline.predict(batches)), truth)
        return Judgement(len(truth), ours, plain)

    def _corrected(self, batches: Sequence[Batch], trees: Trees) -> list[Scores]:
        rows = np.concatenate([batch.reshape(-1, batch.shape[2]) for batch in batches])
        cycles = self._roofline.cycles(rows[:, None, :])[:, 0] * _factor(trees.predict(rows))
        ends = np.cumsum([batch.shape[0] * batch.shape[1] for batch in batches])
        parts = np.split(cycles, ends[:-1])
        return [
            1.0 / part.reshape(batch.shape[:2]).sum(axis=1)
            for part, batch in zip(parts, batches, strict=True)
        ]

    def _lesson(self, samples: Sequence[Sample]) -> tuple[Batch, FloatArray, Objective]:
        """Return rows (m, F), their cycles (m,) and the objective, without failures."""
        names = list(dict.fromkeys(sample.task for sample in samples))
        best_s = dict.fromkeys(names, np.inf)
        for sample in samples:
            best_s[sample.task] = min(best_s[sample.task], sample.costs_s.min(initial=np.inf))
        width = samples[0].batch.shape[2] if samples else 0
        rows, lengths, tasks = [np.zeros((0, width), np.float32)], [], []
        costs, bests = [np.zeros(0)], [np.zeros(0)]
        for sample in samples:
            alive = np.isfinite(sample.costs_s) & bool(sample.batch.shape[1])
            count = int(alive.sum())
            rows.append(sample.batch[alive].reshape(-1, width))
            lengths += [sample.batch.shape[1]] * count
            tasks += [names.index(sample.task)] * count
            costs.append(sample.costs_s[alive])
            bests.append(np.full(count, best_s[sample.task]))
        features, costs_s = np.concatenate(rows), np.concatenate(costs)
        cycles = self._roofline.cycles(features[:, None, :])[:, 0] if len(features) else np.zeros(0)
        packs = np.repeat(np.arange(len(lengths)), np.array(lengths, np.int64))
        weights: FloatArray = np.maximum(np.concatenate(bests) / costs_s, FAILURE_WEIGHT)
        numbers = np.array(tasks, np.int64)
        return features, cycles, log_sum_objective(cycles, packs, numbers, costs_s, weights)


def log_sum_objective(
    cycles: FloatArray,
    packs: IntArray,
    tasks: IntArray,
    costs_s: FloatArray,
    weights: FloatArray,
) -> Objective:
    """Return gradient and hessian of w * (log sum over the pack (cycles * exp f) - log cost - c)^2.

    Per row, with the optimal c of the task. The rows of a pack share the hessian w in proportion
    to their part of the sum, which is exact if all rows move together, and cautious otherwise.

    Args:
        cycles, packs: per row, shape (m,).
        tasks, costs_s, weights: per pack.
    """
    logs = np.log(costs_s)

    def objective(values: Any, data: object) -> tuple[FloatArray, FloatArray]:
        parts = cycles * _factor(values)
        sums = np.bincount(packs, weights=parts, minlength=len(logs))
        missed = np.log(sums) - logs
        total = np.bincount(tasks, weights=weights)
        mean = np.bincount(tasks, weights=weights * missed) / np.maximum(total, 1e-30)
        share = parts / sums[packs]
        return (weights * (missed - mean[tasks]))[packs] * share, weights[packs] * share

    return objective


def _factor(logs: FloatArray) -> FloatArray:
    answer: FloatArray = np.exp(np.clip(logs, -LARGEST, LARGEST))
    return answer
