"""The delivered candidate against the runner-up: choices, sizes and features that differ.

The score of the learned model is a sum: the scaled prior, and a contribution of every feature of
every store (TreeSHAP, which LightGBM computes). So is the difference of two scores.

Source: docs/adr/0163-reasons.md; Lundberg et al., Nature Machine Intelligence 2020.
"""

from math import inf
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.cost.gbm import GbmModel
from ansorpy.cost.model import CostModel
from ansorpy.events import Contrast, ScorePart, TaskResult
from ansorpy.features import NAMES
from ansorpy.features.extract import RAW
from ansorpy.search import Candidate
from ansorpy.tuner.reasons.suspects import sizes_of, structure_of
from ansorpy.tuner.tasks.task import Task

FEATURES: Final = 5  # features that are told, the largest shares first
TRAITS: Final = 6  # choices and sizes that are told of each of both
PRIOR: Final = "analytic model"
STORES: Final = "number of stores"

FloatArray = npt.NDArray[np.float64]


def contrast_of(task: Task, result: TaskResult, model: CostModel) -> Contrast | None:
    """Return the contrast of a result; None without a delivered candidate or a runner-up."""
    if result.candidate is None or result.candidate[0] not in task.space.texts:
        return None
    text, row = result.candidate
    winner = Candidate(task.space.texts.index(text), row)
    second = runner_up(task, winner)
    if second is None:
        return None
    own, other = (traits(task, one) for one in (winner, second))
    return Contrast(
        winner_s=_time(task, winner),
        runner_up_s=_time(task, second),
        only_winner=tuple(one for one in own if one not in other)[:TRAITS],
        only_runner_up=tuple(one for one in other if one not in own)[:TRAITS],
        differences=differences(task, winner, second, model),
    )


def runner_up(task: Task, winner: Candidate) -> Candidate | None:
    """Return the best other candidate by its cost; an equal cost means equal machine code."""
    costs_s = task.history.costs_s
    cost_s = costs_s.get(winner, inf)
    ranked = (o for o in task.history.ranked() if o != winner and costs_s[o] != cost_s)
    return next(ranked, None)


def traits(task: Task, candidate: Candidate) -> tuple[str, ...]:
    """Return the rules, the choices and the sizes of a candidate, as texts."""
    sizes = (f"{name} = {value}" for name, value in sizes_of(task, candidate).items())
    return (*structure_of(task, candidate), *sizes)


def differences(
    task: Task, winner: Candidate, second: Candidate, model: CostModel
) -> tuple[ScorePart, ...]:
    """Return the parts of the difference of both scores, the largest first.

    Told are the prior, the number of stores, and the features whose sums over the stores differ,
    FEATURES parts at most; () unless the model has learned.
    """
    if not isinstance(model, GbmModel) or not model.trained:
        return ()
    batches = [task.space.features(one.plan, [one]) for one in (winner, second)]
    parts = [model.parts(batch, task.key) for batch in batches]
    delta = parts[0] - parts[1]
    total = float(np.abs(delta).sum())
    if total == 0.0:
        return ()
    values = [_values(batch) for batch in batches]
    names = (*NAMES, STORES, PRIOR)
    found = [
        ScorePart(name, float(one), float(two), float(part), abs(float(part)) / total)
        for name, one, two, part in zip(names, *values, delta, strict=True)
        if part and (one != two or name == PRIOR)
    ]
    return tuple(sorted(found, key=lambda one: -one.share)[:FEATURES])


def _values(batch: npt.NDArray[np.float32]) -> FloatArray:
    """Return the features of one candidate summed over its stores, then their number; shape (F+2,).

    A feature log2(1 + x) counts as x. The value of the prior is not a feature: 0.
    """
    (rows,) = batch.astype(np.float64)
    raw = np.array([number in RAW for number in range(len(NAMES))])
    sums = np.where(raw, rows, np.exp2(rows) - 1.0).sum(axis=0)
    return np.concatenate([sums, [len(rows), 0.0]])


def _time(task: Task, candidate: Candidate) -> float | None:
    time_s = task.history.times_s.get(candidate, inf)
    return time_s if time_s < inf else None
