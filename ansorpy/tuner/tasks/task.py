"""The state of one task during a tuning: plans, measured candidates, failures."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ansorpy.cost.model import ForTask, Sample
from ansorpy.errors import RecordError, SpecError
from ansorpy.features import extract
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.timing.cold_weights import has_cold_weights
from ansorpy.measure.unbound import Unbound, unbound
from ansorpy.plan.choices import ALL_PLANS, each_plan
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.records import Carried, Record, carried, task_key
from ansorpy.replay import plan_from_text, plan_text
from ansorpy.search import Candidate
from ansorpy.search.strategy import Evolution, SearchStrategy
from ansorpy.sketch import Derivation, derive
from ansorpy.state.rule import Rule
from ansorpy.state.state import State
from ansorpy.state.steps import Reformulation, reformulations
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count, workload_key
from ansorpy.te.dag import Dag
from ansorpy.tuner.rule_sets.files import identity
from ansorpy.tuner.tasks.trust import is_trusted, versions
from ansorpy.uncollected import uncollected

FloatArray = npt.NDArray[np.float64]


class Space(Protocol):
    """The candidates of a task that a user describes (`tuner.parts.spaces`)."""

    @property
    def name(self) -> str:
        """The name of the space and a digest, as of a rule set in records."""
        ...

    @property
    def single(self) -> bool:
        """True if there is one candidate, which is delivered in any case."""
        ...

    @property
    def loops(self) -> str:
        """The loop nest of the only candidate as text; "" if there are several."""
        ...

    def open(self, task: "Task") -> None:
        """Add the plans of a task that are known before the search."""
        ...

    def propose(
        self,
        task: "Task",
        ranker: ForTask,
        taken: Collection[Candidate],
        count: int,
        rng: np.random.Generator,
    ) -> list[Candidate]:
        """Return `count` candidates neither measured nor taken; fewer if fewer are left."""
        ...

    def find(self, task: "Task", plan: str, row: tuple[int, ...]) -> Candidate | None:
        """Return the candidate of a plan, as text, and a row; None if the space has none."""
        ...


@dataclass(slots=True)
class Task:
    """One workload on one target. A `Candidate` names a position of `plans`."""

    dag: Dag
    target: Target
    rules: str  # name and version of the rule set
    key: str
    workload: str
    flop: int
    plans: list[Plan] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # identity of every plan
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
    allowed: frozenset[Reformulation] = frozenset()  # reformulations that the rules may apply
    sketches: tuple[State, ...] = ()  # all that the rules derive
    derivation: Derivation | None = None  # has all sketches
    first: Candidate | None = None  # the delivered first answer, which is measured first
    held: list[Candidate] = field(default_factory=list)  # deferred to the next round
    twins: tuple[Dag, ...] = ()  # equal Dags of other names, which get the same kernel
    cold_bytes: int = 0  # size of all copies of the weights that timed calls go round; 0: hot
    estimated: bool = False  # trials are estimates of an analytic model (ADR-0143)
    measured_by: str = ""  # measuring back end of another package (ADR-0156); "": ours
    wire: Carried | None = None  # see `carried`; made for the first record
    space: Space | None = None  # the user's own candidates, in place of those of the rules
    strategy: SearchStrategy = field(default_factory=Evolution)
    sketches_of: Callable[[Dag, Target, tuple[Rule, ...]], Derivation] = derive
    parts: tuple[tuple[str, str, str], ...] = ()  # as records name them
    # Outcomes that take the place of trials, by (plan as text, row); ADR-0030.
    recorded: Mapping[tuple[str, tuple[int, ...]], Outcome] = field(default_factory=dict)

    @staticmethod
    def of(
        dag: Dag,
        target: Target,
        rules: str,
        cold_bytes: int = 0,
        estimated: bool = False,
        measured_by: str = "",
        copies: int = 1,
    ) -> "Task":
        """Return a task without plans and trials.

        Args:
            cold_bytes: as of the field, if the task has weights enough.
            estimated, measured_by: as of the fields.
            copies: kernels that run at once in every trial.
        """
        cold_bytes = cold_bytes if has_cold_weights(dag) else 0
        workload, flop = workload_key(dag), flop_count(dag)
        key = task_key(workload, target, cold_bytes, estimated, measured_by, copies)
        return Task(
            dag, target, rules, key, workload, flop, cold_bytes=cold_bytes, estimated=estimated,
            measured_by=measured_by,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """The name of the Dag."""
        return self.dag.name

    @property
    def best_s(self) -> float | None:
        """The measured time of the best so far in seconds, None if no trial survived.

        The time of a race replaces those of the trials before it. Estimates are no times.
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
    def has_own_space(self) -> bool:
        """True if the candidates are not those that rules derive."""
        return self.space is not None or self.sketches_of is not derive

    @property
    def fixed(self) -> bool:
        """True if the user wrote the schedule: that kernel is delivered, even if it is slow."""
        return self.space is not None and self.space.single

    @property
    def has_answer(self) -> bool:
        """True if a trial survived or a first answer was delivered."""
        return self.least_cost_s is not None or self.first is not None

    @property
    def least_cost_s(self) -> float | None:
        """The cost that leads the ranking, None if no trial survived."""
        least_s = min(self.costs_s.values(), default=inf)
        return least_s if least_s < inf else None

    @property
    def has_untried_algorithm(self) -> bool:
        """True if the search space has reformulations, as Winograd, and no trial used one."""
        tried = {one.plan for one in self.costs_s}
        used = {step for number in tried for step in reformulations(self.plans[number].state)}
        return bool(self.allowed) and used.isdisjoint(self.allowed)

    def ranked(self) -> list[Candidate]:
        """Return the candidates that survived, the least cost first."""
        return _ordered(self.costs_s)

    def fastest(self) -> list[Candidate]:
        """Return the candidates that survived, in the order of their measured times."""
        return _ordered(self.times_s)

    def explore(self, rules: tuple[Rule, ...], limit: int = ALL_PLANS) -> None:
        """Derive the sketches and lower about `limit` of their plans."""
        self.derive(rules)
        self.lower(limit)

    @uncollected()
    def derive(self, rules: tuple[Rule, ...]) -> None:
        """Derive the sketches.

        Raises:
            SpecError: there is no sketch, or there are too many.
            PluginError: a space generator of another package raised, or returned something else.
        """
        if self.space is not None:
            return
        self.derivation = self.sketches_of(self.dag, self.target, rules)
        self.sketches = self.derivation.sketches
        self.allowed = frozenset(one for state in self.sketches for one in reformulations(state))

    @uncollected()
    def lower(self, limit: int = ALL_PLANS, late: Callable[[], bool] | None = None) -> None:
        """Open the choices of the sketches and lower each plan: the search space, or a part of it.

        Args:
            limit: about how many plans; plans of an earlier call keep their numbers.
            late: once it returns True, no plan is lowered beside the plans of earlier calls. If
                given, features of each plan, which take longest, are recorded here: a round, which
                records them otherwise, reads no clock.

        Raises:
            SpecError: no sketch can be lowered.
        """
        if self.space is not None:
            self.space.open(self)
            return
        over = late if late is not None and self.plans else lambda: False
        for plan in each_plan(self.sketches, self.target, limit, over):
            text = plan_text(plan)
            if text in self.texts:
                continue
            rows = sample(plan, 1, np.random.default_rng(0))
            if not len(rows):
                continue  # its sizes leave no row
            if late is not None:
                if over():
                    break
                extract(plan, rows, self.target)
            self.add_plan(plan, text)
        if not self.plans:
            count = len(self.sketches)
            raise SpecError(f"{self.name!r}: none of its {count} sketches can be lowered")

    def add_plan(self, plan: Plan, text: str) -> int:
        """Return the number of a plan, which is new unless its text is known."""
        if text not in self.texts:
            self.texts.append(text)
            self.plans.append(plan)
        return self.texts.index(text)

    def rules_of(self, state: State) -> tuple[str, ...]:
        """Return the rules that made a sketch; () for a state that is no sketch of the task."""
        return () if self.derivation is None else self.derivation.applied.get(state.steps, ())

    def unbound(self, candidate: Candidate) -> Unbound:
        """Return a candidate for a builder, which binds it to a program."""
        return unbound(self.plans[candidate.plan], candidate.row)

    def outcome_on_record(self, candidate: Candidate) -> Outcome | None:
        """Return the outcome that takes the place of a trial of a candidate; None without one."""
        return self.recorded.get((self.texts[candidate.plan], candidate.row))

    def load_records(
        self, records: Sequence[Record], late: Callable[[], bool] | None = None
    ) -> None:
        """Load the trusted trials of earlier tunings; a trial of an unknown plan is left out.

        Args:
            late: once it returns True, trials of plans that are not yet lowered are left out, those
                of the slowest.
        """
        for record in sorted(records, key=lambda one: cost_of(one.outcome)):
            if not is_trusted(record, self.dag):
                continue
            if late is not None and record.plan not in self.texts and late():
                continue
            number = self._plan_of(record)
            if number is None or len(record.row) != len(self.plans[number].sizes):
                continue
            self._take(Candidate(number, record.row), record.outcome)
            self.known += 1

    def replay_round(self, records: Sequence[Record]) -> list[Candidate]:
        """Learn a stored round of this tuning as if it had just been measured.

        A trial of a plan that this version cannot lower still counts as a trial.
        """
        numbers = [self._plan_of(record) for record in records]
        known = [(n, r) for n, r in zip(numbers, records, strict=True) if n is not None]
        chosen = [Candidate(number, record.row) for number, record in known]
        self.learn(chosen, [record.outcome for _, record in known])
        self.trials += len(records) - len(known)
        return chosen

    def hold(self, text: str, row: tuple[int, ...]) -> None:
        """Defer a candidate to the next round, ahead of others, unless its outcome is known.

        A candidate of a plan that the task cannot have is left out.
        """
        number = self._number_of(text)
        if number is None:
            return
        candidate = Candidate(number, row)
        if candidate not in self.costs_s:
            self.held = [candidate, *(one for one in self.held if one != candidate)]

    def pending_texts(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (plan, row) of the deferred candidates, for a checkpoint."""
        return [(self.texts[candidate.plan], candidate.row) for candidate in self.held]

    def restore_pending(self, kept: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Defer the candidates of a checkpoint again, if this version can lower their plans."""
        found = ((self._number_of(text), tuple(row)) for text, row in kept)
        self.held = [Candidate(number, row) for number, row in found if number is not None]

    def _plan_of(self, record: Record) -> int | None:
        return None if record.race is not None else self._number_of(record.plan)

    def _number_of(self, text: str) -> int | None:
        if text in self.texts:
            return self.texts.index(text)
        try:
            plan = plan_from_text(self.dag, self.target, text)
        except RecordError:
            return None
        if not self.allowed.issuperset(reformulations(plan.state)):
            return None  # a plan of a request that allowed more
        return self.add_plan(plan, text)

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

    @property
    def carried(self) -> Carried:
        """The Dag and its structure, as the records of the task carry them."""
        if self.wire is None:
            self.wire = carried(self.dag)
        return self.wire

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

    def samples(self, candidates: Sequence[Candidate]) -> Iterator[Sample]:
        """Yield the samples for the cost model from measured candidates, plan by plan."""
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
        """Return the records of a round."""
        now_s, made_with = clock(), versions(self.dag, self.estimated)
        shared = self.carried
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
                parts=self.parts,
                **shared,
            )
            for candidate, outcome in zip(chosen, outcomes, strict=True)
        )


def _ordered(seconds: Mapping[Candidate, float]) -> list[Candidate]:
    alive = [(value, candidate) for candidate, value in seconds.items() if value < inf]
    return [candidate for _, candidate in sorted(alive)]


def cost_of(outcome: Outcome) -> float:
    """Return the cost that ranks an outcome, infinite for a failure."""
    return inf if isinstance(outcome, Failed) else outcome.cost_s


def costs_of(outcomes: Sequence[Outcome]) -> FloatArray:
    """Return the costs that rank outcomes, shape (n,), infinite for failures."""
    return np.array([cost_of(outcome) for outcome in outcomes])


def rules_name(kind: str, rules: tuple[Rule, ...]) -> str:
    """Return name and version of a rule set.

    The version is a digest of rules, parameters, and the files that rules are from.
    """
    texts = ", ".join(map(identity, rules)) + ("," if len(rules) == 1 else "")
    return f"{kind}@{sha256(f'({texts})'.encode()).hexdigest()[:12]}"


def failures_of(records: Sequence[Record]) -> list[Failed]:
    """Return the trials that failed."""
    return [r.outcome for r in records if isinstance(r.outcome, Failed)]
