"""The seconds of the tuning of a model: first answers, cuts, checks, the search, the bundle.

Source: docs/adr/0043-time-budgets.md.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from ansorpy.tuner.tasks.time_budget import MARGIN, UNTUNED_S

WRITE_S: Final = 3.0  # to link a bundle, to write it, and to start the process that checks it
EXIT_S: Final = 0.5  # to end the measuring processes and this one
ORACLE_SHARE: Final = 0.1  # share of the seconds for an oracle's answers about hard inputs
CUTS_SHARE: Final = 0.5  # share of the time left for the first answers of pieces
ANSWER_S: Final = 1.2  # to open a task in a hurry and to answer it: 0.7 seen
SEARCHED_S: Final = 6.0  # to open a task, to measure its first round and to write its library


class ModelBudget:
    """The clock of the tuning of a model.

    Args:
        seconds: for all of it; None: no limit.
        begin_s: when it began, by `clock`.
        race_s: seconds of a race of the whole bundle after the last one is written.
    """

    def __init__(
        self,
        seconds: float | None,
        begin_s: float,
        clock: Callable[[], float],
        race_s: float = 0.0,
    ) -> None:
        self._seconds, self._begin_s, self._clock = seconds, begin_s, clock
        self._race_s = race_s
        self._written_s: float | None = None  # seconds of the newest bundle with its check

    @property
    def limited(self) -> bool:
        """True if there is a limit."""
        return self._seconds is not None

    @property
    def spent_s(self) -> float:
        """The age of the tuning."""
        return self._clock() - self._begin_s

    @property
    def left_s(self) -> float:
        """The time left of all, infinite without a limit."""
        return inf if self._seconds is None else self._seconds - self.spent_s

    @property
    def tuning_left_s(self) -> float:
        """The time left before the bundle has to be written, checked and raced."""
        written_s = WRITE_S if self._written_s is None else self._written_s
        return self.left_s - MARGIN * written_s - self._race_s - EXIT_S

    @property
    def check_left_s(self) -> float:
        """The time left for calls of the bundle that is checked next, before its race."""
        return self.left_s - WRITE_S - self._race_s - EXIT_S

    def raised_to_least(self, tasks: int) -> float | None:
        """Return the least seconds of a bundle if the request has fewer, else None.

        They count from then on: the time so far, an untuned kernel of each task, and the bundle.
        """
        least_s = self.spent_s + MARGIN * (tasks * UNTUNED_S + WRITE_S) + self._race_s + EXIT_S
        if self._seconds is None or least_s <= self._seconds:
            return None
        self._seconds = least_s
        return least_s

    def oracle_s(self, most_s: float) -> float:
        """Return the seconds of an oracle for hard inputs, at most `most_s`."""
        return most_s if self._seconds is None else min(most_s, ORACLE_SHARE * self._seconds)

    def answers_s(self) -> float | None:
        """Return the seconds of the first answers of all tasks."""
        return _limit(self.tuning_left_s)

    def late_answers_s(self) -> float | None:
        """Return the seconds of answers in place of untuned kernels, and in place of a race."""
        return _limit(self.tuning_left_s + self._race_s)

    def answered(self) -> int:
        """Return how many tasks have time for an answer in place of an untuned kernel."""
        left_s = self.tuning_left_s + self._race_s
        return 0 if left_s == inf else max(0, int(left_s / ANSWER_S))

    def cuts_s(self) -> float | None:
        """Return the seconds of the first answers of pieces; a search has the others."""
        return _limit(CUTS_SHARE * self.tuning_left_s)

    def searched(self, tasks: int) -> int:
        """Return how many of `tasks` tasks there is time to search."""
        left_s = self.tuning_left_s
        return tasks if left_s == inf else min(tasks, max(0, int(left_s / SEARCHED_S)))

    def search_s(self) -> float | None:
        """Return the seconds of the search."""
        return _limit(self.tuning_left_s)

    def note_written(self, seconds: float) -> None:
        """Take in how long it took to write a bundle and to check it."""
        self._written_s = seconds


def _limit(left_s: float) -> float | None:
    """Return the seconds of a request that begins now; a request has more than none."""
    return None if left_s == inf else max(left_s, 0.1)
