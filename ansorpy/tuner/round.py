"""One round of a task: propose, measure, learn.

Proposing occupies one core. The last candidates of a round are held for the next one: they are
built on the other cores while that round is proposed, without knowledge of their outcomes
(ADR-0103). If the task certainly has the next round, this starts while the model learns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ansorpy.cost.model import CostModel, Costs, ForTask, Sample
from ansorpy.cost.quality import assess
from ansorpy.events import TimeSpent
from ansorpy.measure.outcome import Outcome
from ansorpy.measure.pool import MeasurePool
from ansorpy.search import Candidate, eps_greedy, evolve
from ansorpy.tuner.task import Task, costs_of
from ansorpy.uncollected import uncollected


@dataclass(frozen=True, slots=True)
class Round:
    """What one round gave."""

    chosen: tuple[Candidate, ...]
    outcomes: tuple[Outcome, ...]
    samples: tuple[Sample, ...]  # what the model learned from them
    quality: Mapping[str, float]
    spent: TimeSpent

    @property
    def least_cost_s(self) -> float:
        """The least cost of the round, infinite if no candidate survived."""
        return min(costs_of(self.outcomes), default=float("inf"))


def play(
    task: Task,
    count: int,
    model: CostModel,
    pool: MeasurePool,
    rng: np.random.Generator,
    clock: Callable[[], float],
    late: Callable[[], bool] = lambda: False,
    doubt: CostModel | None = None,
    held: int = 0,
    goes_on: bool = False,
) -> Round:
    """Propose, measure `count` candidates (fewer if fewer are left), learn from them.

    Candidates held in the round before are measured first; the last proposals are held for the next
    round.

    Args:
        late: once it is true, candidates that are not measured yet count as not proposed.
        doubt: another model, which proposes half of the candidates.
        held: number of candidates to hold.
        goes_on: the task has the next round, and no other task measures before it.
    """
    begin_s = clock()
    pool.prebuild([*map(task.unbound, task.held)])
    ranker = ForTask(model, task.key)
    chosen = list(task.held)
    if task.first is not None and task.first not in {*task.costs_s, *chosen}:
        chosen.append(task.first)
    judges = [ranker] if doubt is None else [ranker, ForTask(doubt, task.key)]
    wanted = count + held
    for left, judge in zip(range(len(judges), 0, -1), judges, strict=True):
        missing = max(0, wanted - len(chosen))
        chosen += propose(task, judge, chosen, -(-missing // left), rng)
    task.held = chosen[count:]
    proposed_s = clock()
    chosen, outcomes = measure(task, chosen[:count], pool, late)
    measured_s = clock()
    if goes_on and not late():
        pool.prebuild([*map(task.unbound, task.held)])
    quality = quality_of(task, chosen, costs_of(outcomes), ranker)
    task.learn(chosen, outcomes)
    samples = tuple(task.samples(chosen))
    model.update(samples)
    learned_s = clock()
    task.seconds += learned_s - begin_s
    spent = TimeSpent(proposed_s - begin_s, measured_s - proposed_s, learned_s - measured_s)
    return Round(tuple(chosen), tuple(outcomes), samples, quality, spent)


@uncollected()
def propose(
    task: Task, ranker: ForTask, taken: Sequence[Candidate], count: int, rng: np.random.Generator
) -> list[Candidate]:
    """Return `count` candidates neither measured nor taken; fewer where fewer are left."""
    if not count:
        return []
    seen = {*task.costs_s, *taken}
    found = evolve(task.plans, ranker, seen, rng, measured=task.ranked(), target=task.target)
    return eps_greedy(found, task.plans, seen, count, rng)


def measure(
    task: Task,
    chosen: Sequence[Candidate],
    pool: MeasurePool,
    late: Callable[[], bool] = lambda: False,
) -> tuple[list[Candidate], list[Outcome]]:
    """Return candidates and their outcomes, without those that were not measured in time."""
    unbound = [task.unbound(candidate) for candidate in chosen]
    found = pool.measure(unbound, task.least_cost_s, late) if unbound else []
    done = [(c, o) for c, o in zip(chosen, found, strict=True) if o is not None]
    return [candidate for candidate, _ in done], [outcome for _, outcome in done]


def quality_of(
    task: Task, chosen: Sequence[Candidate], costs_s: Costs, model: ForTask
) -> Mapping[str, float]:
    """Return how well the model foretold a round, before it learned from it."""
    if not chosen:
        return {}
    scores = np.zeros(len(chosen))
    numbers = sorted({candidate.plan for candidate in chosen})
    places = [[i for i, c in enumerate(chosen) if c.plan == number] for number in numbers]
    batches = [
        task.features(number, [chosen[i] for i in place])
        for number, place in zip(numbers, places, strict=True)
    ]
    for place, found in zip(places, model.predict(batches), strict=True):
        scores[place] = found
    return {name: float(value) for name, value in asdict(assess(scores, costs_s)).items()}
