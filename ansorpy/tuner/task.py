"""The state of one task during a tuning: its plans, what was measured, what failed."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf

import numpy as np
import numpy.typing as npt

from ansorpy.cost.model import Sample
from ansorpy.errors import RecordError, SpecError
from ansorpy.features import extract
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.unbound import Unbound, unbound
from ansorpy.plan.choices import ALL_PLANS, all_plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.records import Record, task_key
from ansorpy.replay import plan_from_text, plan_text
from ansorpy.search import Candidate
from ansorpy.sketch import Derivation, derive
from ansorpy.state.rule import Rule
from ansorpy.state.state import State
from ansorpy.state.steps import Winograd, reformulations
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count, workload_key
from ansorpy.te.dag import Dag
from ansorpy.tuner.trust import is_trusted, versions
from ansorpy.uncollected import uncollected

FloatArray = npt.NDArray[np.float64]


@dataclass(slots=True)
class Task:
    """One workload on one target. Positions of `plans` are what a `Candidate` names."""

    dag: Dag
    target: Target
    rules: str  # name and version of the rule set
    key: str
    workload: str
    flop: int
    plans: list[Plan] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # identity of every plan
    costs_s: dict[Candidate, float] = field(default_factory=dict)  # rank; inf for a failure
    times_s: dict[Candidate, float] = field(default_factory=dict)  # as measured; likewise
    raced: tuple[float, float] | None = None  # the fastest trial at the last race; its race time
    failures: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # the first message of every kind
    trials: int = 0  # of this tuning
    known: int = 0  # of earlier ones
    rounds: int = 0
    seconds: float = 0.0
    allowed: frozenset[Winograd] = frozenset()  # what the rules may reformulate
    sketches: tuple[State, ...] = ()  # all that the rules derive
    first: Candidate | None = None  # delivered before any trial, and so measured first
    held: list[Candidate] = field(default_factory=list)  # chosen, measured in the next round
    twins: tuple[Dag, ...] = ()  # equal Dags of other names, which get the same kernel

    @staticmethod
    def of(dag: Dag, target: Target, rules: str) -> "Task":
        """Return a task about which nothing is known yet."""
        workload = workload_key(dag)
        return Task(dag, target, rules, task_key(workload, target), workload, flop_count(dag))

    @property
    def name(self) -> str:
        """The name of the Dag."""
        return self.dag.name

    @property
    def best_s(self) -> float | None:
        """The measured time of the best so far in seconds, None if no trial survived.

        The time of a race replaces those of the trials before it.
        """
        best_s = min(self.times_s.values(), default=inf)
        if self.raced is not None and best_s >= self.raced[0]:
            return self.raced[1]
        return best_s if best_s < inf else None

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

    @uncollected()
    def explore(self, rules: tuple[Rule, ...], limit: int = ALL_PLANS) -> Derivation:
        """Derive the sketches and open their plans: the search space, or a promising part of it.

        Args:
            limit: about how many plans; those of an earlier call keep their numbers.

        Raises:
            SpecError: no sketch, too many, or none that can be lowered.
        """
        derivation = derive(self.dag, self.target, rules)
        self.sketches = derivation.sketches
        self.allowed = frozenset(s for state in derivation.sketches for s in reformulations(state))
        for plan in all_plans(derivation.sketches, self.target, limit):
            text = plan_text(plan)
            if text in self.texts or len(sample(plan, 1, np.random.default_rng(0))):
                self.add_plan(plan, text)  # else its sizes leave no row
        if not self.plans:
            count = len(derivation.sketches)
            raise SpecError(f"{self.name!r}: none of its {count} sketches can be lowered")
        return derivation

    def add_plan(self, plan: Plan, text: str) -> int:
        """Return the number of a plan, which is new unless its text is known."""
        if text not in self.texts:
            self.texts.append(text)
            self.plans.append(plan)
        return self.texts.index(text)

    def unbound(self, candidate: Candidate) -> Unbound:
        """Return what a builder makes the loops of a candidate from."""
        return unbound(self.plans[candidate.plan], candidate.row)

    def recall(self, records: Sequence[Record]) -> None:
        """Take over the trusted trials of earlier tunings; those of unknown plans are left out."""
        for record in filter(is_trusted, records):
            number = self._recalled_plan(record)
            if number is None or len(record.row) != len(self.plans[number].sizes):
                continue
            self._take(Candidate(number, record.row), record.outcome)
            self.known += 1

    def relive(self, records: Sequence[Record]) -> list[Candidate]:
        """Take in a stored round of this tuning as if it had just been measured.

        A trial of a plan that this version cannot make still counts as one.
        """
        numbers = [self._recalled_plan(record) for record in records]
        known = [(n, r) for n, r in zip(numbers, records, strict=True) if n is not None]
        chosen = [Candidate(number, record.row) for number, record in known]
        self.learn(chosen, [record.outcome for _, record in known])
        self.trials += len(records) - len(known)
        return chosen

    def held_texts(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (plan, row) of what is held, to be kept."""
        return [(self.texts[candidate.plan], candidate.row) for candidate in self.held]

    def hold_again(self, kept: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Hold what was held before an interruption; what this version cannot make is left out."""
        found = ((self._number_of(text), tuple(row)) for text, row in kept)
        self.held = [Candidate(number, row) for number, row in found if number is not None]

    def _recalled_plan(self, record: Record) -> int | None:
        return None if record.race is not None else self._number_of(record.plan)

    def _number_of(self, text: str) -> int | None:
        if text in self.texts:
            return self.texts.index(text)
        try:
            plan = plan_from_text(self.dag, self.target, text)
        except RecordError:
            return None
        if not self.allowed.issuperset(reformulations(plan.state)):
            return None  # of a request that allowed more
        return self.add_plan(plan, text)

    def learn(self, chosen: Sequence[Candidate], outcomes: Sequence[Outcome]) -> list[Failed]:
        """Take in a round; return its failures."""
        failed = []
        for candidate, outcome in zip(chosen, outcomes, strict=True):
            self._take(candidate, outcome)
            if isinstance(outcome, Failed):
                failed.append(outcome)
        self.trials += len(chosen)
        self.rounds += 1
        self.note(failed)
        return failed

    def lose(self, candidate: Candidate, failed: Failed) -> None:
        """Take back a candidate that passed its trial, but not what is asked of a final kernel."""
        self._take(candidate, failed)
        self.note([failed])

    def saw_race(self, best_s: float) -> None:
        """Note the time that the best so far took in a race."""
        self.raced = min(self.times_s.values(), default=inf), best_s

    def _take(self, candidate: Candidate, outcome: Outcome) -> None:
        self.costs_s[candidate] = cost_of(outcome)
        self.times_s[candidate] = outcome.best_s if isinstance(outcome, Measured) else inf

    def note(self, failed: Sequence[Failed]) -> None:
        """Count failures by kind."""
        for failure in failed:
            self.failures[failure.kind] += 1
            self.examples.setdefault(failure.kind, failure.message)

    def samples(self, candidates: Sequence[Candidate]) -> Iterator[Sample]:
        """Yield what a cost model learns from measured candidates, plan by plan."""
        for number in sorted({candidate.plan for candidate in candidates}):
            own = [c for c in candidates if c.plan == number]
            costs = np.array([self.costs_s[c] for c in own])
            yield Sample(self.key, self.features(number, own), costs)

    def features(self, number: int, own: Sequence[Candidate]) -> npt.NDArray[np.float32]:
        """Return the features of candidates of one plan, shape (n, stores, F)."""
        rows = np.array([c.row for c in own], np.int64)
        plan = self.plans[number]
        return extract(plan, rows.reshape(len(own), len(plan.sizes)), self.target)

    def records(
        self,
        chosen: Sequence[Candidate],
        outcomes: Sequence[Outcome],
        clock: Callable[[], float] = time.time,
    ) -> tuple[Record, ...]:
        """Return what a round leaves behind."""
        now_s, made_with = clock(), versions()
        return tuple(
            Record(
                key=self.key,
                workload=self.workload,
                rules=self.rules,
                plan=self.texts[candidate.plan],
                row=candidate.row,
                outcome=outcome,
                versions=made_with,
                created_s=now_s,
            )
            for candidate, outcome in zip(chosen, outcomes, strict=True)
        )


def _ordered(seconds: Mapping[Candidate, float]) -> list[Candidate]:
    alive = [(value, candidate) for candidate, value in seconds.items() if value < inf]
    return [candidate for _, candidate in sorted(alive)]


def cost_of(outcome: Outcome) -> float:
    """Return the cost that ranks an outcome, infinite for a failure."""
    return outcome.cost_s if isinstance(outcome, Measured) else inf


def costs_of(outcomes: Sequence[Outcome]) -> FloatArray:
    """Return the costs that rank outcomes, shape (n,), infinite for failures."""
    return np.array([cost_of(outcome) for outcome in outcomes])


def rules_name(kind: str, rules: tuple[Rule, ...]) -> str:
    """Return name and version of a rule set: the version is a digest of rules and parameters."""
    return f"{kind}@{sha256(repr(rules).encode()).hexdigest()[:12]}"


def failures_of(records: Sequence[Record]) -> list[Failed]:
    """Return the trials that failed."""
    return [r.outcome for r in records if isinstance(r.outcome, Failed)]
