"""The analytic model, corrected by what was measured of other tasks, as long as that helps."""

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

# What it says must hold for programs that it never saw: fewer, slower and stiffer than those that
# learn from a task itself. ADR-0066.
TREES: Final = 60
STIFF: Final = {
    "learning_rate": 0.1,
    "min_data_in_leaf": 20,
    "min_sum_hessian_in_leaf": 0.5,
    "lambda_l2": 1.0,
}
LARGEST: Final = 20.0  # a logarithm of a correction beyond which nothing is learned any more
LEAST_JUDGED: Final = 16  # candidates of a task; a first round of 8 says nothing
MOST_JUDGED: Final = 64  # by then the task has a model of its own
FOLDS: Final = 4  # parts of a lesson that are kept from it in turns, to see what it is worth
MARGIN: Final = 0.1  # of Kendall's tau: noise, and who chose the candidates looks worse on them


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well the measured candidates of a task were ranked, with the correction and without."""

    candidates: int
    kendall: float
    roofline: float

    @property
    def kept(self) -> bool:
        """Whether the correction ranks no worse than chance, and hardly worse than without it."""
        return self.kendall >= 0.0 and self.kendall >= self.roofline - MARGIN


class TransferModel:
    """score = 1 / sum over the stores of (cycles by the roofline * exp(f(features of the store))).

    f is trained once, on candidates of other tasks; loss w * (log cost + log score - c)^2 with
    w = best cost of the task / cost, and a c of its own for every task: what a unit of cycles
    takes cancels out, and failures teach nothing. It learns nothing from the tasks that it is
    asked about, but watches how it ranks them: where that is bad, the roofline answers from then
    on. Until `learn` was called it is the roofline.

    Source: ADR-0066.
    """

    def __init__(self, roofline: RooflineModel, seed: int = 0, threads: int = 1) -> None:
        self._roofline = roofline
        self._parameters = {**STIFF, "seed": seed, "num_threads": threads}
        self._trees: Trees | None = None
        self._seen: dict[str, list[Sample]] = {}
        self.judgements: dict[str, Judgement] = {}  # the last of every task
        self.promise: Judgement | None = None  # of the last lesson, of tasks that it was not shown

    @property
    def trained(self) -> bool:
        """Whether it knows of other tasks."""
        return self._trees is not None

    def learn(self, samples: Sequence[Sample]) -> None:
        """Learn from other tasks, in place of what was learned before.

        Nothing is learned of a lesson whose parts rank each other worse than the roofline does.
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
        """Return how well tasks are ranked by what the others teach, in the mean; None: unknown."""
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
        """Return who else should propose a share of the next round of a task; None for nobody.

        It is the roofline, as long as the task has measured nothing: what other tasks taught may
        mislead, and a first round that was all its own would be lost.
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
        """Judge itself on measured candidates of a task, the first MOST_JUDGED of them."""
        for sample in samples:
            seen = self._seen.setdefault(sample.task, [])
            if sum(len(each.costs_s) for each in seen) < MOST_JUDGED and sample.batch.size:
                seen.append(sample)
        for task in dict.fromkeys(sample.task for sample in samples):
            self._judge(task)

    def _judge(self, task: str) -> None:
        """Look again at a task, unless it was given up."""
        before, seen = self.judgements.get(task), self._seen[task]
        count = sum(len(sample.costs_s) for sample in seen)
        given_up = before is not None and not before.kept
        known = before is not None and before.candidates == count
        if self._trees is None or given_up or known or count < LEAST_JUDGED:
            return
        self.judgements[task] = self._judged(seen, self._trees)

    def _judged(self, seen: Sequence[Sample], trees: Trees) -> Judgement:
        """Return how trees rank the candidates of a task."""
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
        """Return rows (m, F), their cycles (m,) and the objective, of all that did not fail."""
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

    Per row, with c of the task at its best. The rows of a pack share the hessian w by what they
    contribute to the sum: exact where all of them move together, cautious where they do not.

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
