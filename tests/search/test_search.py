from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from ansorpy.features import extract
from ansorpy.plan.plan import Plan, StageChoice
from ansorpy.population import legal, sample
from ansorpy.search import Candidate, EvolutionSettings, Scored, eps_greedy, evolve, random_search
from ansorpy.search.siblings import moves
from ansorpy.state.state import Attached, Root
from ansorpy.target import Target
from tests.features.hand import golden_plan, tiled_plan, toy_plan

Batch = npt.NDArray[np.float32]


class NearTo:
    """A fake model: 1 at one set of features, falling with the distance from it."""

    def __init__(self, goal: Batch) -> None:
        self.goal = goal
        self.asked = 0

    def predict(self, batches: Sequence[Batch]) -> list[npt.NDArray[np.float64]]:
        self.asked += sum(map(len, batches))
        return [
            np.exp(-np.linalg.norm(b - self.goal, axis=2).mean(axis=1) / 4.0).astype(np.float64)
            for b in batches
        ]


class Flat:
    """A fake model without any opinion."""

    def __init__(self, score: float) -> None:
        self.score = score

    def predict(self, batches: Sequence[Batch]) -> list[npt.NDArray[np.float64]]:
        return [np.full(len(batch), self.score) for batch in batches]


def near_to_some_row(plan: Plan, seed: int) -> NearTo:
    row = sample(plan, 1, np.random.default_rng(seed))
    return NearTo(extract(plan, row, Target())[0])


SMALL = EvolutionSettings(population=200, iterations=10, keep=20)


def test_evolution_beats_random_search_with_four_times_the_budget() -> None:
    plan = tiled_plan()
    won, best = 0, []
    for seed in range(6):
        model = near_to_some_row(plan, 100 + seed)
        found = evolve([plan], model, (), np.random.default_rng(seed), SMALL)
        rows = sample(plan, 4 * model.asked, np.random.default_rng(seed))
        (random,) = model.predict([extract(plan, rows, Target())])
        won += found[0].score > random.max()
        best.append(found[0].score)
    assert won >= 5
    assert np.mean(best) > 0.8


def test_the_answer_is_ranked_unseen_legal_and_without_repeats() -> None:
    plan = tiled_plan()
    model = near_to_some_row(plan, 1)
    first = evolve([plan], model, (), np.random.default_rng(0), SMALL)
    assert len(first) == SMALL.keep
    assert [s.score for s in first] == sorted((s.score for s in first), reverse=True)
    assert len({s.candidate for s in first}) == SMALL.keep
    assert legal(plan, np.array([s.candidate.row for s in first])).all()
    seen = {s.candidate for s in first}
    again = evolve([plan], model, seen, np.random.default_rng(0), SMALL)
    assert not seen & {s.candidate for s in again}


def test_the_same_seed_gives_the_same_answer() -> None:
    plans = [tiled_plan(), golden_plan()]
    one, two = (evolve(plans, Flat(0.5), (), np.random.default_rng(7), SMALL) for _ in range(2))
    assert one == two


def test_measured_candidates_seed_the_population() -> None:
    plan = tiled_plan()
    row = sample(plan, 1, np.random.default_rng(5))
    model = NearTo(extract(plan, row, Target())[0])
    best = Candidate(0, tuple(row[0].tolist()))
    settings = replace(SMALL, iterations=1)
    with_seed = evolve([plan], model, {best}, np.random.default_rng(0), settings, [best])
    without = evolve([plan], model, {best}, np.random.default_rng(0), settings)
    assert with_seed[0].score > without[0].score


def test_no_plan_starves_though_the_model_likes_another() -> None:
    class OnlyFirst(Flat):
        def predict(self, batches: Sequence[Batch]) -> list[npt.NDArray[np.float64]]:
            assert all(len(batch) > 0 for batch in batches)
            self.last = [len(batch) for batch in batches]
            return [np.full(len(b), float(i == 0)) for i, b in enumerate(batches)]

    model = OnlyFirst(0)
    evolve([tiled_plan(), tiled_plan(256), tiled_plan(128)], model, (), np.random.default_rng(0))
    assert min(model.last) > 100
    assert model.last[0] > 2 * model.last[1]


def test_all_of_many_plans_are_scored_first_and_at_most_16_later() -> None:
    class Counting(Flat):
        def predict(self, batches: Sequence[Batch]) -> list[npt.NDArray[np.float64]]:
            self.alive.append(sum(len(batch) > 0 for batch in batches))
            return super().predict(batches)

        alive: list[int] = []  # noqa: RUF012

    plans = [tiled_plan(32 * i) for i in range(1, 41)]
    evolve(plans, Counting(1.0), (), np.random.default_rng(0))
    (first, *bred) = Counting.alive
    assert first == 40
    assert max(bred) <= 16
    Counting.alive.clear()
    row = tuple(sample(plans[7], 1, np.random.default_rng(0))[0].tolist())
    known = [Candidate(7, row)]
    found = evolve(plans, Counting(1.0), known, np.random.default_rng(0), measured=known)
    assert max(Counting.alive) <= 16
    assert len({scored.candidate.plan for scored in found}) >= 8


@pytest.mark.parametrize("score", [0.0, -1.0, 1.0])
def test_a_model_without_opinion_still_gets_candidates(score: float) -> None:
    assert len(evolve([tiled_plan()], Flat(score), (), np.random.default_rng(0), SMALL)) == 20


def test_tiny_spaces_are_searched_to_the_last_row_and_no_further() -> None:
    plans = [toy_plan((3,)), toy_plan((2, 2))]  # 3 and 4 rows
    rng = np.random.default_rng(0)
    every = random_search(plans, (), 100, rng)
    assert len(every) == len(set(every)) == 7
    assert random_search(plans, every, 5, rng) == []
    left = random_search(plans, every[:5], 5, rng)
    assert set(left) == set(every[5:])
    assert eps_greedy([], plans, every, 16, rng) == []


def test_a_tiny_space_evolves_to_all_of_its_rows() -> None:
    (extent,) = (golden_plan().sizes[0].extent,)
    assert extent == 512
    sizes = tuple(replace(size, extent=2) for size in golden_plan().sizes)
    plan = replace(golden_plan(), sizes=sizes)
    found = evolve([plan], Flat(1.0), (), np.random.default_rng(0), SMALL)
    assert {s.candidate.row for s in found} == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_random_search_spreads_over_the_plans() -> None:
    plans = [tiled_plan(512), tiled_plan(256), tiled_plan(128)]
    found = random_search(plans, (), 30, np.random.default_rng(0))
    assert np.bincount([c.plan for c in found]).tolist() == [10, 10, 10]
    assert len(set(found)) == 30


def test_eps_greedy_takes_61_of_the_best_and_3_at_random() -> None:
    plan = tiled_plan()
    rng = np.random.default_rng(0)
    ranked = [
        Scored(Candidate(0, tuple(row)), -float(i))
        for i, row in enumerate(sample(plan, 100, rng).tolist())
    ]
    chosen = eps_greedy(ranked, [plan], {ranked[0].candidate}, 64, rng)
    best = {s.candidate for s in ranked[1:62]}
    assert len(set(chosen)) == 64
    assert set(chosen[:61]) == best or len(best) < 61  # repeats in the ranking are taken once
    assert ranked[0].candidate not in chosen


def choice(loop: str | None, parallel: int = 1, lane: str | None = "j") -> StageChoice:
    return StageChoice(Root() if loop is None else Attached("D", loop), parallel, lane)


def test_siblings_are_one_choice_apart_and_share_the_weight_of_its_kind() -> None:
    base = tiled_plan()
    plans = [
        replace(base, choices=(("C", made),))
        for made in (choice(None), choice("i"), choice(None, 2), choice(None, 1, "i"), choice("j"))
    ]
    other = tiled_plan(256)
    (first, *_, alone) = moves([*plans, other])
    found = dict(zip(first.plans.tolist(), first.weights.tolist(), strict=True))
    assert found == pytest.approx({1: 0.025, 4: 0.025, 2: 0.01, 3: 0.02})
    assert alone.total == 0


def test_structural_moves_reach_a_sibling_that_the_population_left() -> None:
    base = tiled_plan()
    plans = [replace(base, choices=(("C", choice(None, n)),)) for n in (0, 1, 2)]
    settings = replace(SMALL, plan_floor=0.0, iterations=3)
    found = evolve(plans, Flat(1.0), (), np.random.default_rng(0), replace(settings, keep=400))
    assert {s.candidate.plan for s in found} == {0, 1, 2}


def test_crossover_is_an_option_and_keeps_rows_legal() -> None:
    plan = tiled_plan()
    settings = replace(SMALL, crossover=0.5)
    found = evolve([plan], near_to_some_row(plan, 3), (), np.random.default_rng(0), settings)
    assert legal(plan, np.array([s.candidate.row for s in found])).all()
