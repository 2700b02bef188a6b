"""Selection of the candidates to measure: the best by score, and a share at random."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.plan.plan import Family, Plan
from ansorpy.population import enumerate_all, keys, sample, unique, unseen
from ansorpy.search.candidate import Candidate, KeyArray, Scored, keys_by_plan

IntArray = npt.NDArray[np.int64]

EPSILON: Final = 0.05  # share of random candidates, as in released Ansor: 3 of 64
LEAST_OF_FAMILY: Final = 3  # trials of a family before its scores alone decide
UNDERSAMPLED: Final = 0.25  # largest share of a batch for families with fewer trials
CROWDING: Final = 0.03  # penalty per candidate taken from the same plan, in best scores
_ROUNDS: Final = 4  # draws of random rows before a plan is enumerated


def eps_greedy(
    ranked: Sequence[Scored],
    plans: Sequence[Plan],
    seen: Collection[Candidate],
    n: int,
    rng: np.random.Generator,
    epsilon: float = EPSILON,
) -> list[Candidate]:
    """Return `n` unseen candidates: undersampled families, the best of `ranked`, random ones.

    A share `epsilon` is random, and so are the candidates that `ranked` is too short for. Fewer
    than `n` candidates are returned only if all plans together hold no more.
    """
    random = round(epsilon * n)
    unseen_ones = [scored for scored in ranked if scored.candidate not in seen]
    chosen = undersampled(unseen_ones, plans, seen, int(UNDERSAMPLED * n), rng)
    left = [scored for scored in unseen_ones if scored.candidate not in chosen]
    chosen += spread(left, n - random - len(chosen))
    taken = {*seen, *chosen}
    return [*chosen, *random_search(plans, taken, n - len(chosen), rng)]


def undersampled(
    ranked: Sequence[Scored],
    plans: Sequence[Plan],
    seen: Collection[Candidate],
    n: int,
    rng: np.random.Generator,
) -> list[Candidate]:
    """Return at most `n` candidates, one of each family with few trials, the fewest first.

    Otherwise a family (`Plan.family`) with wrongly low scores would never be measured, and the
    model never corrected: the optimism of a multi-armed bandit, applied once per arm.
    """
    trials = Counter(plans[candidate.plan].family for candidate in seen)
    arms: dict[Family, list[int]] = {}
    for number, plan in enumerate(plans):
        if trials[plan.family] < LEAST_OF_FAMILY:
            arms.setdefault(plan.family, []).append(number)
    chosen: list[Candidate] = []
    for family in sorted(arms, key=lambda family: trials[family])[: n if len(arms) > 1 else 0]:
        numbers = set(arms[family])
        best = next((s.candidate for s in ranked if s.candidate.plan in numbers), None)
        if best is None:
            few = [plans[number] for number in arms[family]]
            mine = {Candidate(arms[family].index(c.plan), c.row) for c in seen if c.plan in numbers}
            found = random_search(few, mine, 1, rng)
            best = Candidate(arms[family][found[0].plan], found[0].row) if found else None
        if best is not None:
            chosen.append(best)
    return chosen


def spread(ranked: Sequence[Scored], n: int) -> list[Candidate]:
    """Return the `n` best candidates, with a penalty for each one taken from the same plan.

    Near ties are thus spread over the plans: a batch of near copies teaches the model little,
    and is lost as a whole if the model misjudges their plan. A clearly better plan still gets
    the whole batch.
    """
    if not ranked:
        return []
    step = CROWDING * max(abs(scored.score) for scored in ranked)
    taken: Counter[int] = Counter()
    left = list(dict.fromkeys(ranked))
    chosen: list[Candidate] = []
    while left and len(chosen) < n:
        best = max(left, key=lambda s: s.score - step * taken[s.candidate.plan])
        left.remove(best)
        taken[best.candidate.plan] += 1
        chosen.append(best.candidate)
    return chosen


def random_search(
    plans: Sequence[Plan],
    seen: Collection[Candidate],
    n: int,
    rng: np.random.Generator,
    exact: bool = False,
) -> list[Candidate]:
    """Return `n` legal unseen candidates at random, spread as evenly over the plans as possible.

    The baseline for guided search. If sampling finds no new row of a small space, the space is
    enumerated and its unseen rows are returned in random order.
    """
    known = keys_by_plan(seen, len(plans))
    chosen: list[Candidate] = []
    open_plans = list(range(len(plans)))
    while len(chosen) < n and open_plans:
        order = rng.permutation(open_plans)
        shares = np.bincount(np.resize(order, n - len(chosen)), minlength=len(plans))
        for plan in order[: n - len(chosen)].tolist():
            rows = _fresh(plans[plan], known[plan], int(shares[plan]), rng, exact)
            if len(rows) < shares[plan]:
                open_plans.remove(plan)
            known[plan] = np.concatenate([known[plan], keys(rows)])
            chosen += [Candidate(plan, tuple(row)) for row in rows.tolist()]
    return [chosen[i] for i in rng.permutation(len(chosen)).tolist()]


def _fresh(plan: Plan, known: KeyArray, n: int, rng: np.random.Generator, exact: bool) -> IntArray:
    """Return up to `n` rows that are not known; fewer if no more were found."""
    fresh = np.zeros((0, len(plan.sizes)), np.int64)
    for draws in (2 * n, *[max(256, 16 * n)] * _ROUNDS):
        rows = sample(plan, draws, rng, exact)
        fresh = unique(np.concatenate([fresh, rows[unseen(rows, known)]]))
        if len(fresh) >= n:
            return fresh[:n]
    every = enumerate_all(plan)
    if every is None:
        return fresh
    left = every[unseen(every, np.concatenate([known, keys(fresh)]))]
    left = left[rng.permutation(len(left))]
    return np.concatenate([fresh, left])[:n]
