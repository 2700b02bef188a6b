"""The state of a search: scheduler, random numbers, stop criteria; a checkpoint has all of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ansorpy.cost.model import Sample
from ansorpy.events import Stopped, TimeSpent
from ansorpy.search.strategy import ResumableStrategy
from ansorpy.tuner.options.objective import Objective, weighted_latency_s
from ansorpy.tuner.rounds.scheduler import LARGE_ROUND, Settings, TaskScheduler
from ansorpy.tuner.rounds.share import Share, Turn
from ansorpy.tuner.tasks.checkpoint import Checkpoint, StoredSearch, set_state, state_of
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import TimeBudget

HELD: Final = 6  # one in 6 candidates waits for the next round (ADR-0039)
WINDOW: Final = 64  # trials over which a gain must show, at least
WINDOW_SHARE: Final = 0.25  # share of all trials so far that the window has, if that is more
FIRST_HELD: Final = 16  # deferred candidates of the first round of a large search


class StopCriteria:
    """The conditions on the weighted latency of all tasks under which a search ends.

    target_s     seconds at which the search ends as successful
    min_gain     the search ends if the last WINDOW_SHARE of the trials (at least WINDOW) lowered
                 the latency by a smaller share than this
    rest_s       weighted latency of the tasks that are answered already and not searched
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        target_s: float | None = None,
        min_gain: float | None = None,
        rest_s: float = 0.0,
    ) -> None:
        self._weights = weights
        self._target_s = target_s
        self._min_gain = min_gain
        self._rest_s = rest_s
        self.latencies: list[tuple[int, float]] = []  # trials, seconds; after every round

    def note(self, tasks: Sequence[Task]) -> None:
        """Add the weighted latency after a round."""
        latency_s = self.latency_s(tasks)
        if latency_s is not None:
            self.latencies.append((sum(task.history.trials for task in tasks), latency_s))

    def latency_s(self, tasks: Sequence[Task]) -> float | None:
        """Return the weighted sum of the best times; None if a task has none yet."""
        searched_s = weighted_latency_s(tasks, self._weights)
        return None if searched_s is None else self._rest_s + searched_s

    @property
    def reached(self) -> bool:
        """True if the latency is at most the target."""
        return bool(
            self._target_s is not None
            and self.latencies
            and self.latencies[-1][1] <= self._target_s
        )

    @property
    def stale(self) -> bool:
        """True if the last trials gained less than `min_gain`."""
        if self._min_gain is None or not self.latencies:
            return False
        trials, latency_s = self.latencies[-1]
        window = max(WINDOW, WINDOW_SHARE * trials)
        before = [old_s for at, old_s in self.latencies if at <= trials - window]
        return bool(before) and latency_s > before[-1] * (1.0 - self._min_gain)


class SearchState:
    """The moving parts of a search over `tasks`, which it reads but does not change."""

    def __init__(
        self,
        tasks: Sequence[Task],
        shares: Sequence[Share],
        settings: Settings,
        objective: Objective,
        seed: int,
        criteria: StopCriteria,
        budget: TimeBudget,
        clock: Callable[[], float],
    ) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.criteria = criteria
        self.budget = budget
        self.picking, self._dealing = np.random.default_rng(seed).spawn(2)
        self.scheduler = TaskScheduler(shares, settings, self._dealing, clock, objective)
        for task in tasks:
            known, least_s = task.history.known, task.history.least_cost_s
            if least_s is not None:
                untried = task.has_untried_algorithm
                self.scheduler.resume(task.name, known, least_s, warm_up=untried)

    def next_turn(self) -> Turn | None:
        """Return whose turn it is; None when the search is over."""
        if self._reached or self.criteria.stale:
            return None
        turn = self.scheduler.next_turn()
        if turn is None:
            return None
        trials = self.budget.fitting(turn.trials)
        if not self.tasks[turn.task.name].history.rounds:
            trials = self.budget.opening(turn.task.name, trials)
        return replace(turn, trials=trials) if trials else None

    @property
    def _reached(self) -> bool:
        return self.criteria.reached or self.scheduler.reached

    def deferred(self, turn: Turn) -> int:
        """Return how many candidates of a turn wait for the next one, on top of its trials.

        The second round of a large search opens most of the plans, which takes one core a second.
        """
        usual = turn.trials // HELD
        large = self.scheduler.round_trials >= LARGE_ROUND
        rounds = self.tasks[turn.task.name].history.rounds
        return max(usual, FIRST_HELD) if large and not rounds else usual

    def task_continues(self, turn: Turn) -> bool:
        """Return whether the task of a turn has the next one, too, as far as can be foretold."""
        alone = len(self.tasks) - len(self.scheduler.stopped) == 1
        left = self.scheduler.left(turn.task.name) > turn.trials
        return alone and left and self.budget.fitting(turn.trials + 1) > turn.trials

    def report(self, turn: Turn, trials: int, best_s: float, spent: TimeSpent) -> None:
        """Tell how a turn went; as `TaskScheduler.report`, with the time that it took."""
        self.budget.note_round(trials, spent, turn.task.name)
        if trials or not self.budget.late():
            self.scheduler.report(turn, trials, best_s)
        else:  # it was the time that ran out, not candidates
            self.scheduler.end(turn)
        self.criteria.note(tuple(self.tasks.values()))

    def stop_reason(self) -> Stopped:
        """Return why there is no next turn."""
        if self._reached:
            return "target"
        if self.criteria.stale:
            return "gain"
        if all(self.scheduler.left(name) <= 0 for name in self.tasks):
            return "trials"
        return "converged" if len(self.scheduler.stopped) == len(self.tasks) else "seconds"

    def checkpoint(self) -> Checkpoint:
        """Return all of it."""
        return Checkpoint(
            seconds=self.budget.spent_s,
            scheduler=self.scheduler.snapshot(),
            picking=state_of(self.picking),
            dealing=state_of(self._dealing),
            tasks={name: task.history.seconds for name, task in self.tasks.items()},
            latencies=tuple(self.criteria.latencies),
            held={name: task.pending_texts() for name, task in self.tasks.items()},
            searches={
                name: memory
                for name, task in self.tasks.items()
                if isinstance(task.strategy, ResumableStrategy)
                and (memory := task.strategy.state()) is not None
            },
        )

    def restore(self, stored: StoredSearch) -> list[Sample]:
        """Bring itself and the tasks to where an earlier attempt was.

        Returns:
            The samples for the cost model: first the samples of earlier tunings.
        """
        known = self.tasks.values()
        samples = [one for task in known for one in task.samples(list(task.history.costs_s))]
        for name, records in stored.rounds:
            task = self.tasks[name]
            samples += task.samples(task.replay_round(records))
        if stored.checkpoint is not None:
            self.scheduler.restore(stored.checkpoint.scheduler)
            set_state(self.picking, stored.checkpoint.picking)
            set_state(self._dealing, stored.checkpoint.dealing)
            self.criteria.latencies = [(int(n), float(s)) for n, s in stored.checkpoint.latencies]
            for name, seconds in stored.checkpoint.tasks.items():
                self.tasks[name].history.seconds = seconds
            for name, held in stored.checkpoint.held.items():
                self.tasks[name].restore_pending(held)
            for name, memory in stored.checkpoint.searches.items():
                strategy = self.tasks[name].strategy
                if isinstance(strategy, ResumableStrategy):
                    strategy.restore(memory)
        return samples
