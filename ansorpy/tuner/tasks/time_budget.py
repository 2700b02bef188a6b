"""The time budget of a tuning: trials that fit into a round, the end, intermediate deliveries.

The end of a tuning, racing the finalists and writing the kernels, takes seconds too: the time that
it is expected to take is set aside, and no more. A duration is a guess until it was seen.

Source: docs/adr/0043-time-budgets.md.
"""

from collections.abc import Callable
from math import ceil, inf
from statistics import mean
from typing import Final, Literal

from ansorpy.events import TimeSpent

# How a task is answered before its first trial: the fastest of several choices of the cost model,
# one choice, or not at all: its untuned kernel is delivered.
Answer = Literal["several", "one", "none"]

START_S: Final = 1.5  # to start Python and to read a request; a busy machine takes longer
BUSY: Final = 3.0  # ratio of the least seconds on a busy machine to those on a calm one, at most
OPEN_S: Final = 1.0  # to open promising plans of a task and to choose among them
FINISH_S: Final = 6.0  # to race and write the kernel of one task: 4 to 10 seen on small machines
HURRIED_FINISH_S: Final = 4.0  # likewise with one finalist
SEVERAL_FINISH_S: Final = 11.0  # likewise on several threads: nothing goes on beside a timing
LATE_S: Final = 2.0  # to call and write a kernel after its race: then no further process races
SEVERAL_LATE_S: Final = 5.0  # likewise on several threads: numba takes 2 to 5 s for the call
TRIALS_PER_FINISH: Final = 4.0  # ratio of checks and timings at the end to a trial
MOST_SLOW: Final = 2.0  # ratio of the expected time of an end on a busy machine, at most
TRIAL_S: Final = 0.2
ROUND_S: Final = 1.0  # to propose candidates and learn from them
MARGIN: Final = 1.1  # ratio of the reserve for the end to its expected time
FIRST_TRIALS: Final = 4  # minimum trials of round 0, even if it is late, to have a kernel
HURRIED_S: Final = 20.0  # for a task: below it there is no time for all plans or many finalists
DELIVERY_SHARE: Final = 0.1  # share of the time for intermediate deliveries
OPENING_SHARE: Final = 0.15  # share of the time left for the search that the other plans may take
OPENING_S: Final = 2.0  # seconds of checks and timing in the first round of a job
OPENING_TRIALS: Final = 2  # the fewest of that round: one cannot be ranked
LIBRARY_S: Final = 0.5  # to build, check and write a library: 0.2 to 1 seen
UNTUNED_S: Final = 0.6  # likewise of an untuned kernel, which is slow when it is checked
LIBRARY_END_S: Final = 2.0  # to time the leaders of a task again and to write the library of one
# To open and to answer a task, until it was seen; "none" is an untuned kernel.
ANSWERS_S: Final = {"several": 2.5, "one": 2.0, "none": UNTUNED_S}
FEW_PLANS_S: Final = 1.2  # likewise one choice of few plans, if no search follows
DOUBT: Final = 1.5  # ratio of the time set aside for the very first answer to its expected time
RECENT: Final = 3  # answers whose mean time is expected of the next ones
TOLD_TRIALS: Final = 30  # trials whose seconds are told to a user whose seconds allow none
TOLD_STEP_S: Final = 5.0  # such seconds are told in multiples of this


class TimeBudget:
    """The clock of one tuning.

    Args:
        seconds: for all of it; None: no limit.
        begin_s: when it began, by `clock`.
        tasks: how many there are to finish.
        finish_s: expected time of the end of one task, if that is known.
        libraries: each task ends with a library, without a race.
        sure: a task can be delivered without a trial, so that the first round may be left out.
        threads: of the kernels.
    """

    def __init__(
        self,
        seconds: float | None,
        begin_s: float,
        tasks: int,
        clock: Callable[[], float],
        finish_s: float | None = None,
        libraries: bool = False,
        sure: bool = False,
        threads: int = 1,
    ) -> None:
        self.seconds = seconds
        self._begin_s = begin_s
        self._tasks = tasks
        self._clock = clock
        self._libraries, self._sure, self._threads = libraries, sure, threads
        self._round_s, self._trial_s = ROUND_S, TRIAL_S
        self._rounds = 0
        self._answers = 0
        self._tried: set[str] = set()  # tasks with trials
        self._ended = 0  # tasks that are delivered
        self._passed = 0  # tasks whose first answer is made or left out
        self._answers_s: dict[str, list[float]] = {}  # seconds of first answers, by their kind
        self._usual_answers_s = ANSWERS_S | ({"one": FEW_PLANS_S} if libraries else {})
        self._expected_s: dict[str, float] = {}  # seconds of one trial, by task
        self._delivered_s = begin_s  # when a kernel was last delivered
        self._library_s, self._offered_s = LIBRARY_S, begin_s  # likewise of libraries
        self._usual_s = usual_finish_s(threads, self.hurried)
        self.finish_s = finish_s or (UNTUNED_S if libraries else self._usual_s)
        self._finish_seen = finish_s is not None
        self._trials_s = 0.0  # longest checks and timing of a first answer

    @property
    def spent_s(self) -> float:
        """The time that the tuning has taken so far."""
        return self._clock() - self._begin_s

    @property
    def reserve_s(self) -> float:
        """The time that the end of the tasks is expected to take.

        A task that ends with a library needs none unless it had a trial.
        """
        left = self._tasks - self._ended
        if self._libraries:
            left = min(left, len(self._tried))
        return MARGIN * left * self.finish_s

    @property
    def search_left_s(self) -> float:
        """The time left before the end has to begin."""
        return self.left_s - self.reserve_s

    @property
    def left_s(self) -> float:
        """The time left of the whole budget."""
        return inf if self.seconds is None else self.seconds - self.spent_s

    @property
    def finish_left_s(self) -> float:
        """The time left for the end of one task: the others need theirs."""
        others = max(0, self._tasks - self._ended - 1)
        return self.left_s - MARGIN * others * self.finish_s

    @property
    def hurried(self) -> bool:
        """True if there is time for promising plans and one finalist only."""
        return self.seconds is not None and self.seconds < self._tasks * HURRIED_S

    @property
    def _safe(self) -> bool:
        """True if a kernel could be delivered if the search ended now."""
        return self._sure or self._rounds > 0 or self._answers >= self._tasks

    def fitting(self, trials: int) -> int:
        """Return how many of `trials` trials may still be measured; 0: the search is over."""
        left_s = self.search_left_s
        if left_s == inf:
            return trials
        if self._libraries and len(self._tried) < self._tasks:
            left_s -= MARGIN * self.finish_s  # end of a task with a first trial
        count = int((left_s - self._round_s) / self._trial_s)
        return min(trials, max(count, 0 if self._safe else FIRST_TRIALS))

    def opening(self, task: str, trials: int) -> int:
        """Return how many of `trials` trials the first round of a task has.

        People wait for its end: kernels that take long to check and to time are few.
        """
        trial_s = self._expected_s.get(task, 0.0)
        return min(trials, max(OPENING_TRIALS, int(OPENING_S / trial_s))) if trial_s else trials

    def late(self) -> bool:
        """Return whether no further candidate may be measured.

        The first round is not cut where there would be nothing to deliver without it.
        """
        return self._safe and self.search_left_s <= 0

    def opening_late(self) -> Callable[[], bool] | None:
        """Return a function that tells when the other plans of a task have taken their time.

        None without seconds.
        """
        if self.seconds is None:
            return None
        end_s = self._clock() + OPENING_SHARE * self.search_left_s
        return lambda: self._clock() >= end_s

    def finish_late(self) -> bool:
        """Return whether a race has to end with the process that runs."""
        return self.finish_left_s <= (LATE_S if self._threads == 1 else SEVERAL_LATE_S)

    def finish_tight(self) -> bool:
        """Return whether there is no time to time leaders again before a race."""
        return self.finish_left_s <= self.finish_s

    def answer(self) -> Answer:
        """Return how the next task is answered; tasks that take most time come first.

        Without a search, later tasks are left time for untuned kernels only; before a search, a
        task has an answer if all later ones can have one, and else the choice of the cost model.
        """
        if self.seconds is None:
            return "several"
        kinds: tuple[Answer, ...] = ("several", "one")
        left_s, later = self.search_left_s, self._tasks - self._passed - 1
        for kind in kinds:
            each_s = self._answer_s(kind)
            least_s = self._answer_s("none") if kind == "one" and self._libraries else each_s
            if left_s >= each_s + later * least_s:
                return kind
        return "none"

    def _answer_s(self, kind: Answer) -> float:
        """Return the expected seconds of an answer; a kind not seen is expected by other kinds."""
        usual_s = self._usual_answers_s
        recent = {one: mean(seen[-RECENT:]) for one, seen in self._answers_s.items()}
        if kind in recent:
            return MARGIN * recent[kind]
        tuned = [MARGIN * recent[one] / usual_s[one] for one in recent if one != "none"]
        return usual_s[kind] * max([1.0, *tuned] if tuned or kind == "none" else [DOUBT])

    def note_opened(self, kind: Answer, seconds: float) -> None:
        """Take in how long it took to open a task and to answer it, if it was answered."""
        self._passed += 1
        self._answers_s.setdefault(kind, []).append(seconds)
        if kind != "none":
            self._expect(seconds / self._usual_answers_s[kind])

    def note_answer(self, task: str, trial_s: float = 0.0, short: bool = True) -> None:
        """Take in that a task has its first answer.

        Args:
            trial_s: seconds of its checks and its timing.
            short: the first round is to be short if trials take long.
        """
        self._answers += 1
        self._expected_s[task] = trial_s if short else 0.0
        self._trials_s = max(self._trials_s, trial_s)
        self._expect(1.0)

    def _expect(self, slow: float) -> None:
        """Expect the end of a task, and rounds, by first answers, until one was seen.

        Args:
            slow: ratio of the time of an answer to that on a calm machine.
        """
        slow = min(max(1.0, slow), MOST_SLOW)
        if not self._rounds:
            self._round_s = max(self._round_s, slow * ROUND_S)
            self._trial_s = max(self._trial_s, slow * TRIAL_S)
        if not (self._finish_seen or self._libraries):
            usual_s = self._usual_s * slow
            self.finish_s = max(self.finish_s, usual_s + TRIALS_PER_FINISH * self._trials_s)

    def note_round(self, trials: int, spent: TimeSpent, task: str = "") -> None:
        """Take in how long a round of a task took."""
        self._rounds += 1
        self._tried.add(task)
        self._round_s = spent.propose_s + spent.train_s
        if trials:
            seen_s = spent.measure_s / trials
            # The first guess is forgotten at once, later rounds are averaged.
            self._trial_s = seen_s if self._rounds == 1 else (self._trial_s + seen_s) / 2

    def note_finish(self, seconds: float) -> None:
        """Take in how long it took to race and write a kernel."""
        self.finish_s, self._finish_seen = seconds, True
        self._delivered_s = self._clock()

    def note_end(self) -> None:
        """Take in that a task has its result."""
        self._ended += 1

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

    def told_s(self) -> float:
        """Return the seconds that would allow `TOLD_TRIALS` trials, before the end begins."""
        search_s = self._round_s + TOLD_TRIALS * self._trial_s
        return TOLD_STEP_S * ceil((self.spent_s + search_s + self.reserve_s) / TOLD_STEP_S)


def usual_finish_s(threads: int, hurried: bool) -> float:
    """Return the expected seconds of the end of a task on a calm machine."""
    if threads > 1:
        return SEVERAL_FINISH_S
    return HURRIED_FINISH_S if hurried else FINISH_S


def least_s(tasks: int, trials: int, start_s: float = START_S, threads: int = 1) -> float:
    """Return the least seconds of a tuning: its start, and a delivery of each task.

    Args:
        trials: 0: libraries are delivered, else raced kernels.
        start_s: seconds of the start of the command, which are more on a busy machine.
        threads: of the kernels.
    """
    slow = min(max(1.0, start_s / START_S), BUSY)
    each_s = OPEN_S + usual_finish_s(threads, hurried=True) if trials else UNTUNED_S
    return max(START_S, start_s) + slow * tasks * each_s
