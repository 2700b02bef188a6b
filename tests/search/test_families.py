"""Families of plans that the model dislikes are measured all the same, a few times."""

from collections import Counter

import numpy as np

from ansorpy.plan.choices import all_plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.search import Candidate, Scored, eps_greedy
from ansorpy.search.pick import LEAST_OF_FAMILY
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.topi.workloads import matmul

TARGET = Target(cores=1)


def every_plan() -> tuple[Plan, ...]:
    return all_plans(derive(matmul(64, 48, 32), TARGET, CPU).sketches, TARGET)


def in_love_with(plans: tuple[Plan, ...], number: int) -> list[Scored]:
    rows = sample(plans[number], 200, np.random.default_rng(0)).tolist()
    return [Scored(Candidate(number, tuple(row)), 1.0 - at / 1e6) for at, row in enumerate(rows)]


def test_every_family_gets_its_trials_though_the_model_likes_one() -> None:
    plans = every_plan()
    families = {plan.family for plan in plans}
    assert 2 < len(families) <= 11  # 8 rounds have 32 places for them
    ranked, seen = in_love_with(plans, 0), set[Candidate]()
    rng = np.random.default_rng(1)
    for _ in range(8):
        chosen = eps_greedy(ranked, plans, seen, 16, rng, epsilon=0.0)
        assert len(chosen) == len(set(chosen)) == 16
        assert not seen & set(chosen)
        seen |= set(chosen)
    trials = Counter(plans[candidate.plan].family for candidate in seen)
    assert set(trials) == families
    assert min(trials.values()) == LEAST_OF_FAMILY
    assert trials[plans[0].family] == max(trials.values())


def test_a_single_family_gets_no_reserved_trials() -> None:
    plans = every_plan()
    mine = tuple(plan for plan in plans if plan.family == plans[0].family)
    ranked = in_love_with(mine, 0)
    chosen = eps_greedy(ranked, mine, (), 8, np.random.default_rng(0), epsilon=0.0)
    assert chosen[0] == ranked[0].candidate
