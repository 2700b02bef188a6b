"""What other tasks teach those of a tuning, and what these leave for later ones."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ansorpy.cost.model import Sample
from ansorpy.cost.roofline import RooflineModel
from ansorpy.cost.transfer import TransferModel
from ansorpy.events import Judged, Skipped, Warmed
from ansorpy.target import Target
from ansorpy.tuner.experience import Experience
from ansorpy.tuner.task import Task

NO_PROMISE: Final = (
    "other tasks rank each other worse than the analytic model ranks them (Kendall's tau {:.2f},"
    " {:.2f}): the search starts cold"
)


class Transfer:
    """Between the experience of a machine and the prior of a tuning's model.

    Args:
        experience: what is learned from and added to; None: nothing.
        warm: whether to learn from it.
    """

    def __init__(
        self, experience: Experience | None, target: Target, seed: int, warm: bool
    ) -> None:
        self.prior = TransferModel(RooflineModel(target), seed)
        self._experience, self._target, self._warm = experience, target, warm
        self._told: dict[str, bool] = {}

    def warm_up(
        self, tasks: Sequence[Task], clock: Callable[[], float] = time.monotonic
    ) -> Iterator[Warmed | Skipped]:
        """Let the prior learn from other tasks than these."""
        if self._experience is None or not self._warm:
            return
        begin_s = clock()
        lesson = self._experience.lesson(self._target, [task.key for task in tasks])
        self.prior.learn(lesson.samples)
        if lesson.skipped:
            yield Skipped(lesson.skipped)
        promise = self.prior.promise
        if promise is not None and not self.prior.trained:
            yield Skipped((NO_PROMISE.format(promise.kendall, promise.roofline),))
        if self.prior.trained:
            yield Warmed(lesson.candidates, lesson.tasks, clock() - begin_s)

    def after(self, task: Task, samples: Sequence[Sample]) -> Iterator[Judged | Skipped]:
        """Tell what a round, which was learned, says of the prior; keep it for later tunings."""
        found = self.prior.judgements.get(task.key)
        if found is not None and self._told.get(task.key) is not found.kept:
            self._told[task.key] = found.kept
            yield Judged(task.name, found.candidates, found.kendall, found.roofline, found.kept)
        if self._experience is not None:
            wrong = self._experience.keep(self._target, samples)
            if wrong:
                yield Skipped((wrong,))
