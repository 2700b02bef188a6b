"""Quality of the cost model: rank correlation of scores with measured times, per round."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorpy.cost.model import Costs, Scores

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality of the scores of one round.

    Correlations are in [-1, 1], or 0 if undefined; recall and peak are in [0, 1].
    """

    candidates: int
    kendall: float
    spearman: float
    top_k_recall: float
    peak: float  # a-peak@k
    k: int


def assess(scores: Scores, costs_s: Costs, k: int = 8) -> Quality:
    """Compare predicted scores with measured costs (inf: failed), both of shape (n,)."""
    truth = throughputs(costs_s)
    return Quality(
        candidates=len(scores),
        kendall=kendall(scores, truth),
        spearman=spearman(scores, truth),
        top_k_recall=top_k_recall(scores, truth, k),
        peak=average_peak(scores, truth, k),
        k=k,
    )


def throughputs(costs_s: Costs) -> FloatArray:
    """Return best / cost in (0, 1], or 0 for failures: the order that scores should reproduce."""
    valid = np.isfinite(costs_s)
    best = float(costs_s[valid].min()) if valid.any() else 1.0
    return np.where(valid, best / costs_s, 0.0)


def kendall(a: FloatArray, b: FloatArray) -> float:
    """Return Kendall's tau-b: concordant minus discordant pairs, corrected for ties."""
    upper = np.triu_indices(len(a), 1)
    x = np.sign(a[:, None] - a[None, :])[upper]
    y = np.sign(b[:, None] - b[None, :])[upper]
    scale = np.sqrt(float((x != 0).sum()) * float((y != 0).sum()))
    return float((x * y).sum() / scale) if scale else 0.0


def spearman(a: FloatArray, b: FloatArray) -> float:
    """Return the correlation of the ranks; equal values share their mean rank."""
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean() if len(x) else x, y - y.mean() if len(y) else y
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y / scale) if scale else 0.0


def top_k_recall(scores: FloatArray, truth: FloatArray, k: int) -> float:
    """Return the share of the k best candidates that are among the k best predicted ones."""
    k = min(k, len(scores))
    if k == 0:
        return 0.0
    return len(np.intersect1d(_best(scores, k), _best(truth, k))) / k


def average_peak(scores: FloatArray, truth: FloatArray, k: int) -> float:
    """Return a-peak@k: the mean running maximum of the truth along the k best predicted.

    Relative to the best candidate; 1 if the best predicted candidate is the best one.
    Source: TVM, MetaSchedule and auto-scheduler training report ("a-peak@32").
    """
    top = float(truth.max(initial=0.0))
    k = min(k, len(scores))
    if k == 0 or top <= 0.0:
        return 0.0
    return float(np.maximum.accumulate(truth[_best(scores, k)]).mean() / top)


def _best(values: FloatArray, k: int) -> npt.NDArray[np.intp]:
    return np.argsort(-values, kind="stable")[:k]


def _ranks(values: FloatArray) -> FloatArray:
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: FloatArray = last - (counts - 1) / 2.0
    return mean[group]
