"""The time budget of a tuning: trials that fit into a round, the end, intermediate deliveries.

The end of a tuning, racing the finalists and writing the kernels, takes seconds too: they are set
aside. How long anything takes is a guess until it was seen.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from ansorpy.events import TimeSpent

FINISH_S: Final = 6.0  # to race and write the kernel of one task: 4 to 10 seen on small machines
TRIAL_S: Final = 0.2
ROUND_S: Final = 1.0  # to propose candidates and learn from them
MARGIN: Final = 1.1  # ratio of the reserve for the end to its expected time
MOST: Final = 0.5  # share of the seconds that is set aside at most
FIRST_TRIALS: Final = 4  # minimum trials of round 0, even if it is late, to have a kernel
HURRIED_S: Final = 20.0  # for a task: below it there is no time for all plans or many finalists
DELIVERY_SHARE: Final = 0.1  # share of the time for intermediate deliveries
OPENING_S: Final = 2.0  # seconds of checks and timing in the first round of a job
OPENING_TRIALS: Final = 2  # the fewest of that round: one cannot be ranked
LIBRARY_S: Final = 0.5  # to build, check and write a library: 0.2 to 1 seen


class TimeBudget:
    """The clock of one tuning.

    Args:
        seconds: for all of it; None: no limit.
        begin_s: when it began, by `clock`.
        tasks: how many there are to finish.
        finish_s: expected time of the end of one task.
    """

    def __init__(
        self,
        seconds: float | None,
        begin_s: float,
        tasks: int,
        clock: Callable[[], float],
        finish_s: float = FINISH_S,
    ) -> None:
        self._seconds = seconds
        self._begin_s = begin_s
        self._tasks = tasks
        self._clock = clock
        self._round_s, self._trial_s = ROUND_S, TRIAL_S
        self._rounds = 0
        self._answers = 0
        self._expected_s: dict[str, float] = {}  # seconds of one trial, by task
        self._delivered_s = begin_s  # when a kernel was last delivered
        self._library_s, self._offered_s = LIBRARY_S, begin_s  # likewise of libraries
        self.finish_s = finish_s

    @property
    def spent_s(self) -> float:
        """The time that the tuning has taken so far."""
        return self._clock() - self._begin_s

    @property
    def search_left_s(self) -> float:
        """The time left before the end has to begin."""
        if self._seconds is None:
            return inf
        reserve_s = min(MARGIN * self._tasks * self.finish_s, MOST * self._seconds)
        return self._seconds - reserve_s - self.spent_s

    @property
    def left_s(self) -> float:
        """The time left of the whole budget."""
        return inf if self._seconds is None else self._seconds - self.spent_s

    @property
    def hurried(self) -> bool:
        """True if there is time for promising plans and one finalist only."""
        return self._seconds is not None and self._seconds < self._tasks * HURRIED_S

    @property
    def _safe(self) -> bool:
        """True if a kernel could be delivered if the search ended now."""
        return self._rounds > 0 or self._answers >= self._tasks

    def fitting(self, trials: int) -> int:
        """Return how many of so many trials may still be measured; 0: the search is over."""
        left_s = self.search_left_s
        if left_s == inf:
            return trials
        count = int((left_s - self._round_s) / self._trial_s)
        return min(trials, max(count, 0 if self._safe else FIRST_TRIALS))

    def opening(self, task: str, trials: int) -> int:
        """Return how many of so many trials the first round of a task has.

        People wait for its end: kernels that take long to check and to time are few.
        """
        trial_s = self._expected_s.get(task, 0.0)
        return min(trials, max(OPENING_TRIALS, int(OPENING_S / trial_s))) if trial_s else trials

    def late(self) -> bool:
        """Return whether no further candidate may be measured.

        The first round is not cut where there would be nothing to deliver without it.
        """
        return self._safe and self.search_left_s <= 0

    def note_answer(self, task: str, trial_s: float = 0.0) -> None:
        """Take in that a task has its first answer.

        Args:
            trial_s: seconds of its checks and its timing, if the first round is to be short.
        """
        self._answers += 1
        self._expected_s[task] = trial_s

    def note_round(self, trials: int, spent: TimeSpent) -> None:
        """Take in how long a round took."""
        self._rounds += 1
        self._round_s = spent.propose_s + spent.train_s
        if trials:
            seen_s = spent.measure_s / trials
            # The first guess is forgotten at once, later rounds are averaged.
            self._trial_s = seen_s if self._rounds == 1 else (self._trial_s + seen_s) / 2

    def note_finish(self, seconds: float) -> None:
        """Take in how long it took to race and write a kernel."""
        self.finish_s = seconds
        self._delivered_s = self._clock()

    def note_library(self, seconds: float) -> None:
        """Take in how long it took to build, check and write a library on the way."""
        self._library_s, self._offered_s = seconds, self._clock()

    def library_is_due(self) -> bool:
        """Return whether a library on the way is worth its time, and there is time after it."""
        pause_s = self._library_s / DELIVERY_SHARE
        return self._clock() - self._offered_s >= pause_s and self.search_left_s >= pause_s

    def delivery_is_due(self) -> bool:
        """Return whether a kernel on the way is worth its time, and there is time after it."""
        pause_s = self.finish_s / DELIVERY_SHARE
        return self._clock() - self._delivered_s >= pause_s and self.search_left_s >= pause_s
