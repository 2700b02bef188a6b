"""Delivery at the end of a search only: no kernel leaves it on the way."""

from collections.abc import Iterator

from ansorpy.cost.model import CostModel
from ansorpy.events import BaselineTimed, Delivered, Event, FirstAnswer, TaskDone, TaskResult
from ansorpy.search import Candidate
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.race import first_answer
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import Answer
from ansorpy.tuner.tasks.twins import twin_result


class DeliveriesAtTheEnd:
    """Deliveries of kernels for a GPU until the search ends: none."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._chosen: dict[str, list[Candidate]] = {}

    def open_pool(self, task: Task) -> None:
        """Start the processes of a task."""
        self._pools.of(task)

    def answer_kind(self) -> Answer:
        """Return that a choice of the model is remembered in any case: that takes no time."""
        return "one"

    @property
    def ends_with_answer(self) -> bool:
        """False: a race or a check follows."""
        return False

    def untuned_answer(self, task: Task) -> Iterator[FirstAnswer]:
        """Deliver nothing yet."""
        yield from ()

    def choose_answer(self, task: Task, model: CostModel, seed: int, kind: Answer) -> None:
        """Remember the choice of the model for a tuning without trials."""
        self._chosen[task.name] = first_answer.choose(task, model, seed)

    def first_answer(self, task: Task) -> Iterator[FirstAnswer]:
        """Deliver nothing yet."""
        yield from ()

    def baseline(self, task: Task) -> Iterator[BaselineTimed]:
        """Time nothing: without a first answer there is no speed-up to tell."""
        yield from ()

    def prepare_race(self, task: Task) -> None:
        """Do nothing: kernels are built as kernels of trials are."""

    def intermediate(self, task: Task) -> Iterator[Delivered]:
        """Deliver nothing on the way: checking a kernel takes longer than a round."""
        yield from ()

    def _leaders(self, task: Task) -> list[Candidate]:
        """Return the best candidates; without trials, the choices of the model."""
        return task.history.ranked() or self._chosen.get(task.name, [])

    def _told(self, task: Task, result: TaskResult) -> Iterator[Event]:
        """Yield the result of a task, and the result of each twin."""
        yield TaskDone(result)
        for twin in task.identity.twins:
            yield TaskDone(twin_result(result, task, twin))
