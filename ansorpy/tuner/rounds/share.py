"""A task, its turn, and how far it has come."""

from dataclasses import dataclass, field
from math import floor, inf, log

_GOLDEN = 1.618  # width of a class of FLOP counts, as released


@dataclass(frozen=True, slots=True)
class Share:
    """One workload on one target.

    `weight` is how often it occurs; `tag` names the kind of workload: tasks of one kind and of
    about as many `flops` are expected to reach about the same FLOP/s. An empty tag: like none.
    """

    name: str
    weight: float = 1.0
    flops: int = 0
    tag: str = ""

    @property
    def group(self) -> tuple[str, int] | None:
        """The tasks that this one is compared with: kind and class of FLOP counts."""
        if not self.tag or self.flops < 1:
            return None
        return self.tag, floor(log(self.flops + 1, _GOLDEN))


@dataclass(frozen=True, slots=True)
class Turn:
    """Measure up to `trials` candidates of `task` next."""

    task: Share
    trials: int


@dataclass(slots=True)
class Progress:
    """The progress of one task; `trials` counts trials of this budget only."""

    task: Share
    group: tuple[str, int] | None
    trials: int = 0
    rounds: int = 0
    best_s: float = inf
    history_s: list[float] = field(default_factory=list)  # best after every round
    trials_since_gain: int = 0
    stopped: str = ""  # why it gets no more turns; empty while it does
    under_way: list[int] = field(default_factory=list)  # trials of turns that are not reported yet

    @property
    def alive(self) -> bool:
        """True if the task may still get turns."""
        return not self.stopped

    @property
    def given(self) -> int:
        """The trials of all turns, those under way included."""
        return self.trials + sum(self.under_way)

    @property
    def flops_per_s(self) -> float:
        """The rate of the best candidate, 0 without one."""
        return self.task.flops / self.best_s

    def add(self, trials: int, best_s: float) -> None:
        """Count a round whose best valid cost was `best_s`, inf where there was none."""
        gained = best_s < self.best_s
        self.trials_since_gain = 0 if gained else self.trials_since_gain + trials
        self.best_s = min(self.best_s, best_s)
        self.trials += trials
        self.rounds += 1
        self.history_s.append(self.best_s)
