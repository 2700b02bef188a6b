"""Share a budget of trials and seconds among tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from ansorpy.errors import SpecError
from ansorpy.tuner.options.objective import Objective, WeightedSum
from ansorpy.tuner.rounds.share import Progress, Share, Turn

SMALL_BUDGET: Final = 256  # trials; up to here the model must learn early
FIRST_ROUND: Final = 8  # trials; few, so that the untrained model is corrected early
SMALL_ROUND: Final = 16
GROWN_ROUND: Final = 32  # trials later in a small budget, where the fixed cost of a round counts
GROWN_AT: Final = 64  # trials of a task
LARGE_ROUND: Final = 64  # Ansor's measures per round


@dataclass(frozen=True, slots=True)
class Settings:
    """The budget, and how it is shared.

    gradient      one round each, then always the task that promises to lower the objective most
    round-robin   the same number of trials for every task, to the trial
    """

    trials: int
    seconds: float | None = None
    strategy: Literal["gradient", "round-robin"] = "gradient"
    round_trials: int | None = None  # None: 16, then 32, up to 256 trials, else 64
    early_stop_trials: int | None = None  # trials without gain after which a task stops
    task_trials: int | None = None  # trials after which a task stops
    hopeless_rounds: int = 2  # rounds without a valid result after which a task stops
    alpha: float = 0.2  # share of the past in the prediction; with beta and window as released
    beta: float = 2.0  # how much slower than its kin a task is allowed to stay
    window: int = 3  # rounds that the past is averaged over


class TaskScheduler:
    """Deals out turns until the budget is spent or no task is left.

    >>> for turn in scheduler:
    ...     outcomes = measure(turn.task, turn.trials)
    ...     scheduler.report(turn, len(outcomes), best_s)

    Source: Ansor, OSDI 2020, section 6.2; similarity and dead tasks as released in TVM.
    """

    def __init__(
        self,
        tasks: Sequence[Share],
        settings: Settings,
        rng: np.random.Generator,
        clock: Callable[[], float],
        objective: Objective | None = None,
    ) -> None:
        _check(tasks, settings)
        self._settings = settings
        self._rng = rng
        self._clock = clock
        self._start = clock()
        self._objective = objective or WeightedSum((tuple(task.weight for task in tasks),))
        self._progress = [Progress(task, task.group) for task in tasks]
        self._by_name = {p.task.name: p for p in self._progress}
        usual = SMALL_ROUND if settings.trials <= SMALL_BUDGET else LARGE_ROUND
        self._share = settings.trials // len(tasks)
        self._round = min(settings.round_trials or usual, self._share)

    def __iter__(self) -> Iterator[Turn]:
        while (turn := self.next_turn()) is not None:
            yield turn

    @property
    def trials(self) -> int:
        """Trials reported so far."""
        return sum(p.trials for p in self._progress)

    @property
    def round_trials(self) -> int:
        """Trials of a usual round."""
        return self._round

    @property
    def allocation(self) -> Mapping[str, int]:
        """Trials reported so far by task name."""
        return {name: p.trials for name, p in self._by_name.items()}

    @property
    def stopped(self) -> Mapping[str, str]:
        """The reason for the end of each task that gets no more turns, by task name."""
        return {name: p.stopped for name, p in self._by_name.items() if p.stopped}

    @property
    def reached(self) -> bool:
        """True if the objective can fall no further, and every task has a result."""
        costs = np.array([p.best_s for p in self._progress])
        return bool(np.isfinite(costs).all()) and self._objective.reached(costs)

    @property
    def _left(self) -> int:
        return self._settings.trials - sum(p.given for p in self._progress)

    def left(self, name: str) -> int:
        """Return how many trials a task may still get."""
        limit = self._settings.task_trials
        return self._left if limit is None else min(self._left, limit - self._by_name[name].given)

    def begin(self, turn: Turn) -> None:
        """Count the trials of a turn as given; `report` tells later how it went."""
        self._by_name[turn.task.name].under_way.append(turn.trials)

    def resume(self, name: str, trials: int, best_s: float, warm_up: bool = False) -> None:
        """Add results of earlier runs, which cost no budget.

        Args:
            warm_up: give the task a first round before gradients decide, because the earlier trials
                tell nothing about a part of its search space.
        """
        if trials > 0 and isfinite(best_s):
            progress = self._by_name[name]
            progress.add(0, best_s)
            progress.rounds = 0 if warm_up else max(1, round(trials / self._round))

    def snapshot(self) -> Mapping[str, Any]:
        """Return all that the next turns depend on but the random numbers, as JSON."""
        fields = ("trials", "rounds", "trials_since_gain", "stopped")
        tasks = {
            name: {
                **{field: getattr(p, field) for field in fields},
                "history_s": [None if cost == inf else cost for cost in p.history_s],
                "grouped": p.group is not None,
            }
            for name, p in self._by_name.items()
        }
        return {"seconds": self._clock() - self._start, "tasks": tasks}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on where a scheduler of the same tasks stood."""
        self._start = self._clock() - snapshot["seconds"]
        for name, saved in snapshot["tasks"].items():
            p = self._by_name[name]
            p.trials, p.rounds = saved["trials"], saved["rounds"]
            p.trials_since_gain, p.stopped = saved["trials_since_gain"], saved["stopped"]
            p.history_s = [inf if cost is None else cost for cost in saved["history_s"]]
            p.best_s = min(p.history_s, default=inf)
            p.group = p.task.group if saved["grouped"] else None

    def next_turn(self) -> Turn | None:
        """Return whose turn it is; None when the budget is spent or no task is left.

        While turns are under way, tasks without one come first; none has more than two.
        """
        left = self._left
        seconds = self._settings.seconds
        late = seconds is not None and self._clock() - self._start >= seconds
        alive = [p for p in self._progress if p.alive]
        free = [p for p in alive if not p.under_way] or [p for p in alive if len(p.under_way) < 2]
        free = [p for p in free if self.left(p.task.name) > 0]
        if left <= 0 or late or not free:
            return None
        if self._settings.strategy == "round-robin":
            return self._equal_turn(alive, free, left)
        unknown = [p for p in free if p.best_s == inf or not p.rounds]
        # The fewest rounds first, so that one task that fails does not hold up the others.
        chosen = min(unknown, key=lambda p: p.rounds) if unknown else self._steepest(free)
        return Turn(chosen.task, min(self._size(chosen), self.left(chosen.task.name)))

    def _size(self, progress: Progress) -> int:
        """Return how many trials the next round of a task has: few at first, more in the end.

        Where seconds are counted rounds stay small: the last one ends when it ends. A shorter first
        round is followed by one with the rest of its trials.
        """
        is_first = not progress.rounds or 0 < progress.trials < FIRST_ROUND
        if self._settings.round_trials is None and is_first and not progress.under_way:
            return min(FIRST_ROUND - progress.trials, self._round)
        fixed = self._settings.round_trials is not None or self._settings.seconds is not None
        if fixed or progress.trials < GROWN_AT:
            return self._round
        return max(self._round, min(GROWN_ROUND, self._share))

    def end(self, turn: Turn) -> None:
        """Forget that a turn is under way, if it is."""
        under_way = self._by_name[turn.task.name].under_way
        if turn.trials in under_way:
            under_way.remove(turn.trials)

    def report(self, turn: Turn, trials: int, best_s: float = inf) -> None:
        """Tell how a turn went.

        Args:
            trials: how many candidates were measured; 0 where the space is used up.
            best_s: the best valid cost among them in seconds, inf where none was valid.
        """
        progress = self._by_name[turn.task.name]
        self.end(turn)
        progress.add(trials, best_s)
        limit = self._settings.early_stop_trials
        if trials == 0:
            progress.stopped = "no candidates left"
        elif self._is_hopeless(progress):
            progress.stopped = f"no valid candidate in {progress.trials} trials"
        elif limit is not None and progress.trials_since_gain >= limit:
            progress.stopped = f"no gain in {progress.trials_since_gain} trials"
        elif progress.trials == self._settings.task_trials:
            progress.stopped = f"{progress.trials} trials, the most of a task"
        self._leave_group(progress)

    def _is_hopeless(self, progress: Progress) -> bool:
        """Return whether a task had rounds enough for a valid result, and has none.

        The rounds that share the first trials are no more than one.
        """
        begun = progress.trials > min(FIRST_ROUND, self._round)
        enough = progress.rounds >= self._settings.hopeless_rounds
        return progress.best_s == inf and enough and begun

    def _equal_turn(
        self, alive: Sequence[Progress], free: Sequence[Progress], left: int
    ) -> Turn | None:
        """Give a turn to the free task with the fewest trials, sized so that all end up equal."""
        base, extra = divmod(left + sum(p.given for p in alive), len(alive))
        owed = [(base + (i < extra) - p.given, p) for i, p in enumerate(alive)]
        # The quotas sum to more than the trials, so some task is owed at least one.
        able = [(n, p) for n, p in owed if n > 0 and p in free]
        if not able:  # turns of those that are owed trials are under way
            return None
        trials, chosen = min(able, key=lambda pair: pair[1].given)
        # Rounds of even size: a last round of one trial would teach nothing.
        rounds = ceil(trials / self._round)
        return Turn(chosen.task, min(self.left(chosen.task.name), ceil(trials / rounds)))

    def _steepest(self, alive: Sequence[Progress]) -> Progress:
        """Return the task with the most negative gradient, a random one where all are equal."""
        slopes = self.gradients()[[p in alive for p in self._progress]]
        if slopes.max() == slopes.min():
            return alive[int(self._rng.integers(len(alive)))]
        return alive[int(slopes.argmin())]

    def gradients(self) -> npt.NDArray[np.float64]:
        """Return the expected change of the objective by one more round, one per task.

        chain rule: df/dg * (alpha * past slope + (1 - alpha) * expected slope)
        """
        costs = np.array([p.best_s if isfinite(p.best_s) else 0.0 for p in self._progress])
        slopes = np.array([self._slope(p) for p in self._progress])
        answer: npt.NDArray[np.float64] = self._objective.gradient(costs) * slopes
        return answer

    def _slope(self, p: Progress) -> float:
        if p.best_s == inf:
            return 0.0
        window, past = self._settings.window, p.history_s
        enough = len(past) > window and isfinite(past[-1 - window])
        backward = (past[-1] - past[-1 - window]) / window if enough else 0.0
        hoped = min(p.best_s - p.best_s / max(1, p.rounds), self._kin_cost(p))
        alpha = self._settings.alpha
        return alpha * backward + (1.0 - alpha) * (hoped - p.best_s)

    def _kin_cost(self, p: Progress) -> float:
        """Return beta times the cost at the FLOP/s of the best similar task; inf without kin."""
        rates = [q.flops_per_s for q in self._kin(p)]
        top = max((p.flops_per_s, *rates))
        return self._settings.beta * p.task.flops / top if rates and top > 0 else inf

    def _kin(self, p: Progress) -> list[Progress]:
        if p.group is None:
            return []
        return [q for q in self._progress if q is not p and q.group == p.group]

    def _leave_group(self, p: Progress) -> None:
        """Take a task out of its group that was tried more than its kin and stays slow."""
        kin = self._kin(p)
        if not kin or p.best_s == inf:
            return
        top = max(q.flops_per_s for q in kin)
        patience = 5 + max(q.rounds for q in kin)  # rounds; as released
        if p.flops_per_s < top / self._settings.beta and p.rounds > patience:
            p.group = None


def _check(tasks: Sequence[Share], settings: Settings) -> None:
    if not tasks:
        raise SpecError("no task to tune")
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"two tasks are called {name!r}")
    for task in tasks:
        if not (isfinite(task.weight) and task.weight > 0):
            raise SpecError(f"task {task.name!r}: weight {task.weight} must be above 0")
    if settings.trials < len(tasks):
        raise SpecError(f"{settings.trials} trials are too few for {len(tasks)} tasks")
    if settings.seconds is not None and not settings.seconds > 0:
        raise SpecError(f"a budget of {settings.seconds} seconds must be above 0")
    if settings.round_trials is not None and settings.round_trials < 1:
        raise SpecError(f"{settings.round_trials} trials per round must be at least 1")
