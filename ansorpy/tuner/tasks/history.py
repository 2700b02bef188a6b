"""The history of a task: measured candidates, failures, trials, seconds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
import numpy.typing as npt

from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.records import Record
from ansorpy.search import Candidate

FloatArray = npt.NDArray[np.float64]


@dataclass(slots=True)
class History:
    """The outcomes that a task has seen, of this tuning and of earlier ones."""

    costs_s: dict[Candidate, float] = field(default_factory=dict)  # rank; inf for a failure
    # As measured: inf for a failure and for an estimate, which is no time.
    times_s: dict[Candidate, float] = field(default_factory=dict)
    raced: tuple[float, float] | None = None  # the fastest trial at the last race; its race time
    failures: Counter[str] = field(default_factory=Counter)
    kinds: dict[Candidate, str] = field(default_factory=dict)  # kind of failure, if it failed
    examples: dict[str, str] = field(default_factory=dict)  # the first message of every kind
    trials: int = 0  # trials of this tuning
    known: int = 0  # trials of earlier tunings
    rounds: int = 0
    seconds: float = 0.0

    @property
    def best_s(self) -> float | None:
        """The measured time of the best so far in seconds, None if no trial survived.

        The time of a race replaces the times of trials before it. Estimates are no times.
        """
        trial_s = self.trial_s
        if self.raced is not None and (trial_s is None or trial_s >= self.raced[0]):
            return self.raced[1]
        return trial_s

    @property
    def trial_s(self) -> float | None:
        """The time of the fastest trial in seconds, None if none survived."""
        trial_s = min(self.times_s.values(), default=inf)
        return trial_s if trial_s < inf else None

    @property
    def least_cost_s(self) -> float | None:
        """The cost that leads the ranking, None if no trial survived."""
        least_s = min(self.costs_s.values(), default=inf)
        return least_s if least_s < inf else None

    def ranked(self) -> list[Candidate]:
        """Return the candidates that survived, the least cost first."""
        return _ordered(self.costs_s)

    def fastest(self) -> list[Candidate]:
        """Return the candidates that survived, in the order of their measured times."""
        return _ordered(self.times_s)

    def learn(self, chosen: Sequence[Candidate], outcomes: Sequence[Outcome]) -> list[Failed]:
        """Store the outcomes of a round; return its failures."""
        failed = []
        for candidate, outcome in zip(chosen, outcomes, strict=True):
            self._take(candidate, outcome)
            if isinstance(outcome, Failed):
                failed.append(outcome)
        self.trials += len(chosen)
        self.rounds += 1
        self.note(failed)
        return failed

    def discard(self, candidate: Candidate, failed: Failed) -> None:
        """Discard a candidate that passed its trial, but failed as a final kernel."""
        self._take(candidate, failed)
        self.note([failed])

    def note_race(self, best_s: float) -> None:
        """Store the time of the best candidate in a race."""
        self.raced = min(self.times_s.values(), default=inf), best_s

    def know(self, candidate: Candidate, outcome: Outcome) -> None:
        """Store the outcome of a trial of an earlier tuning."""
        self._take(candidate, outcome)
        self.known += 1

    def add(self, *parts: "History") -> None:
        """Count the trials, the seconds and the failures of parts of the task, too."""
        for part in parts:
            self.trials += part.trials
            self.known += part.known
            self.seconds += part.seconds
            self.failures += part.failures
            self.examples = {**part.examples, **self.examples}

    def _take(self, candidate: Candidate, outcome: Outcome) -> None:
        self.costs_s[candidate] = cost_of(outcome)
        self.times_s[candidate] = outcome.best_s if isinstance(outcome, Measured) else inf
        self.kinds.pop(candidate, None)
        if isinstance(outcome, Failed):
            self.kinds[candidate] = outcome.kind

    def note(self, failed: Sequence[Failed]) -> None:
        """Count failures by kind."""
        for failure in failed:
            self.failures[failure.kind] += 1
            self.examples.setdefault(failure.kind, failure.message)


def _ordered(seconds: Mapping[Candidate, float]) -> list[Candidate]:
    alive = [(value, candidate) for candidate, value in seconds.items() if value < inf]
    return [candidate for _, candidate in sorted(alive)]


def cost_of(outcome: Outcome) -> float:
    """Return the cost that ranks an outcome, infinite for a failure."""
    return inf if isinstance(outcome, Failed) else outcome.cost_s


def costs_of(outcomes: Sequence[Outcome]) -> FloatArray:
    """Return the costs that rank outcomes, shape (n,), infinite for failures."""
    return np.array([cost_of(outcome) for outcome in outcomes])


def failures_of(records: Sequence[Record]) -> list[Failed]:
    """Return the trials that failed."""
    return [r.outcome for r in records if isinstance(r.outcome, Failed)]
