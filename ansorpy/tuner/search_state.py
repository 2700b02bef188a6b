"""Where a search stands: whose turn it is, the random numbers, the goal; all of it can be kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ansorpy.cost.model import Sample
from ansorpy.events import Stopped, TimeSpent
from ansorpy.tuner.checkpoint import Checkpoint, Kept, set_state, state_of
from ansorpy.tuner.goal import Goal
from ansorpy.tuner.scheduler import LARGE_ROUND, Settings, TaskScheduler
from ansorpy.tuner.share import Task as Share
from ansorpy.tuner.share import Turn
from ansorpy.tuner.task import Task
from ansorpy.tuner.time_budget import Pace

HELD: Final = 6  # one of so many candidates waits for the next round (ADR-0079)
FIRST_HELD: Final = 16  # of a large search, in its first round


class Standing:
    """The moving parts of a search over `tasks`, which it reads but does not change."""

    def __init__(
        self,
        tasks: Sequence[Task],
        settings: Settings,
        weights: Mapping[str, float],
        seed: int,
        goal: Goal,
        pace: Pace,
        clock: Callable[[], float],
    ) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.goal = goal
        self.pace = pace
        self._trials = settings.trials
        self.picking, self._dealing = np.random.default_rng(seed).spawn(2)
        shares = [Share(t.name, weights.get(t.name, 1.0), t.flop) for t in tasks]
        self.scheduler = TaskScheduler(shares, settings, self._dealing, clock)
        for task in tasks:
            if task.least_cost_s is not None:
                self.scheduler.resume(task.name, task.known, task.least_cost_s)

    def next_turn(self) -> Turn | None:
        """Return whose turn it is; None when the search is over."""
        if self.goal.reached or self.goal.stale:
            return None
        turn = self.scheduler.next_turn()
        trials = 0 if turn is None else self.pace.fitting(turn.trials)
        return None if turn is None or not trials else replace(turn, trials=trials)

    def held(self, turn: Turn) -> int:
        """Return how many candidates of a turn wait for the next one, on top of its trials.

        The second round of a large search opens most of the plans, which takes one core a second.
        """
        usual = turn.trials // HELD
        large = self.scheduler.round_trials >= LARGE_ROUND
        return max(usual, FIRST_HELD) if large and not self.tasks[turn.task.name].rounds else usual

    def goes_on(self, turn: Turn) -> bool:
        """Return whether the task of a turn has the next one, too, as far as can be foretold."""
        alone = len(self.tasks) - len(self.scheduler.stopped) == 1
        left = self._trials - self.scheduler.trials > turn.trials
        return alone and left and self.pace.fitting(turn.trials + 1) > turn.trials

    def report(self, turn: Turn, trials: int, best_s: float, spent: TimeSpent) -> None:
        """Tell how a turn went; as `TaskScheduler.report`, with the time that it took."""
        self.pace.saw_round(trials, spent)
        if trials or not self.pace.late():  # else it was the time that ran out, not candidates
            self.scheduler.report(turn, trials, best_s)
        self.goal.note(tuple(self.tasks.values()))

    def why_over(self) -> Stopped:
        """Return why there is no next turn."""
        if self.goal.reached:
            return "target"
        if self.goal.stale:
            return "gain"
        if self.scheduler.trials >= self._trials:
            return "trials"
        return "converged" if len(self.scheduler.stopped) == len(self.tasks) else "seconds"

    def checkpoint(self) -> Checkpoint:
        """Return all of it."""
        return Checkpoint(
            seconds=self.pace.spent_s,
            scheduler=self.scheduler.snapshot(),
            picking=state_of(self.picking),
            dealing=state_of(self._dealing),
            tasks={name: task.seconds for name, task in self.tasks.items()},
            latencies=tuple(self.goal.latencies),
            held={name: task.held_texts() for name, task in self.tasks.items()},
        )

    def go_on(self, kept: Kept) -> list[Sample]:
        """Bring itself and the tasks to where an earlier attempt was.

        Returns:
            What the cost model has to know by then: first what earlier tunings measured.
        """
        known = self.tasks.values()
        samples = [one for task in known for one in task.samples(list(task.costs_s))]
        for name, records in kept.rounds:
            task = self.tasks[name]
            samples += task.samples(task.relive(records))
        if kept.checkpoint is not None:
            self.scheduler.restore(kept.checkpoint.scheduler)
            set_state(self.picking, kept.checkpoint.picking)
            set_state(self._dealing, kept.checkpoint.dealing)
            self.goal.latencies = [(int(n), float(s)) for n, s in kept.checkpoint.latencies]
            for name, seconds in kept.checkpoint.tasks.items():
                self.tasks[name].seconds = seconds
            for name, held in kept.checkpoint.held.items():
                self.tasks[name].hold_again(held)
        return samples
