"""One round of a task: propose, measure, learn.

To propose takes one core. The last of a round are held until the next: they are built on another
core while that one is proposed, which then knows nothing of them (ADR-0079). Where the task is sure
of another round, that begins when the last of this one are timed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ansorpy.codegen.kernel import Kernel
from ansorpy.cost.model import CostModel, Costs, ForTask, Sample
from ansorpy.cost.quality import assess
from ansorpy.events import TimeSpent
from ansorpy.measure.draft import Draft
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
    then: Sequence[Kernel] | None = None,
) -> Round:
    """Propose, measure `count` candidates (fewer where fewer are left), learn from them.

    What was held in the round before is measured first, and of what is proposed the last ones are
    held for the round after.

    Args:
        late: once it says so, what is not measured yet is as if it had not been proposed.
        doubt: another model, which proposes half of them.
        held: how many; none are unless given.
        then: where the pool measures what is held next, what it builds after that.
    """
    begin_s = clock()
    pool.begin([task.draft(candidate) for candidate in task.held])
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
    later: list[Draft | Kernel] = []
    if then is not None:
        later += [*map(task.draft, task.held), *then]
    chosen, outcomes = measure(task, chosen[:count], pool, late, later)
    measured_s = clock()
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
    then: Sequence[Draft | Kernel] = (),
) -> tuple[list[Candidate], list[Outcome]]:
    """Return candidates and their outcomes, without those that it was too late for."""
    drafts = [task.draft(candidate) for candidate in chosen]
    found = pool.measure(drafts, task.least_cost_s, late, then) if drafts else []
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
