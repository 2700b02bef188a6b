"""One task during a tuning: its identity, search space, history, and queue."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ansorpy.cost.model import Sample
from ansorpy.measure.outcome import Outcome
from ansorpy.records import Record
from ansorpy.search import Candidate
from ansorpy.search.strategy import Evolution, SearchStrategy
from ansorpy.state.steps import reformulations
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.te.dims import Dim, dims_of
from ansorpy.tuner.tasks.history import History, cost_of
from ansorpy.tuner.tasks.identity import Identity
from ansorpy.tuner.tasks.ranges import JoinedSpace
from ansorpy.tuner.tasks.search_space import SearchSpace
from ansorpy.tuner.tasks.trial_queue import TrialQueue
from ansorpy.tuner.tasks.trust import is_trusted, versions


@dataclass(slots=True)
class Task:
    """One workload on one target, by owner of its fields.

    identity   never changes
    space      grows while sketches are derived and plans are lowered
    history    grows after each trial
    queue      changes before and after each round
    strategy   proposes candidates of the space once the queue is empty
    parts      tasks for the ranges of a dim, which are searched in place of this one (`ranges`)
    """

    identity: Identity
    space: SearchSpace
    history: History = field(default_factory=History)
    queue: TrialQueue = field(default_factory=TrialQueue)
    strategy: SearchStrategy = field(default_factory=Evolution)
    parts: tuple["Task", ...] = ()

    @staticmethod
    def of(
        dag: Dag, target: Target, rules: str, estimated: bool = False, copies: int = 1
    ) -> "Task":
        """Return a task whose sketches the rules derive, without plans and trials."""
        identity = Identity(dag, target, rules, estimated=estimated, copies=copies)
        return Task(identity, SearchSpace(dag, target))

    @property
    def dag(self) -> Dag:
        """The Dag."""
        return self.identity.dag

    @property
    def name(self) -> str:
        """The name of the Dag."""
        return self.identity.dag.name

    @property
    def target(self) -> Target:
        """The target."""
        return self.identity.target

    @property
    def key(self) -> str:
        """The key of the records."""
        return self.identity.key

    @property
    def searched(self) -> tuple["Task", ...]:
        """The tasks that are searched for this one: its parts, or itself."""
        return self.parts or (self,)

    @property
    def best_s(self) -> float | None:
        """The time of the best so far in seconds, None if no trial survived."""
        return self.history.best_s

    @property
    def expects_calls(self) -> bool:
        """True if the task has parts, and a distribution tells the share of calls of each."""
        return isinstance(self.space.own, JoinedSpace) and bool(self.space.own.calls)

    def weights_of_parts(self) -> dict[str, float]:
        """Return the weight of the time of each part in the time of the task, by name.

        The weighted sum is the expected time of a call; without a distribution of the sizes of
        calls, the weights make equal shares of the operations of the task.
        """
        if isinstance(self.space.own, JoinedSpace) and self.space.own.calls:
            names = [part.name for part in self.parts]
            return dict(zip(names, self.space.own.calls, strict=True))
        return {p.name: self.identity.flop / max(1, p.identity.flop) for p in self.parts}

    @property
    def ranges(self) -> tuple[Dim, ...]:
        """The ranges of sizes that have kernels of their own; of one kernel, its dims."""
        own = self.space.own
        return own.ranges if isinstance(own, JoinedSpace) else dims_of(self.dag)

    def times_of_ranges(self) -> Iterator[tuple[str, float | None]]:
        """Yield the ranges of sizes of the parts with the best times of their trials in seconds."""
        if self.parts:
            for sizes, part in zip(self.ranges, self.parts, strict=True):
                yield sizes.range_text, part.history.trial_s

    @property
    def has_answer(self) -> bool:
        """True if a trial survived or a first answer was delivered."""
        return self.history.least_cost_s is not None or self.queue.first is not None

    @property
    def has_untried_algorithm(self) -> bool:
        """True if the search space has reformulations, as Winograd, and no trial used one."""
        tried = {one.plan for one in self.history.costs_s}
        used = {step for number in tried for step in reformulations(self.space.plans[number].state)}
        return bool(self.space.allowed) and used.isdisjoint(self.space.allowed)

    def outcome_on_record(self, candidate: Candidate) -> Outcome | None:
        """Return the outcome that takes the place of a trial of a candidate; None without one."""
        return self.queue.recorded.get((self.space.texts[candidate.plan], candidate.row))

    def load_records(
        self, records: Sequence[Record], late: Callable[[], bool] | None = None
    ) -> None:
        """Load the trusted trials of earlier tunings; a trial of an unknown plan is left out.

        Args:
            late: once it returns True, trials of plans that are not yet lowered are left out; the
                slowest trials come last.
        """
        for record in sorted(records, key=lambda one: cost_of(one.outcome)):
            if not is_trusted(record, self.dag):
                continue
            if late is not None and record.plan not in self.space.texts and late():
                continue
            number = self._plan_of(record)
            if number is None or len(record.row) != len(self.space.plans[number].sizes):
                continue
            self.history.know(Candidate(number, record.row), record.outcome)

    def replay_round(self, records: Sequence[Record]) -> list[Candidate]:
        """Learn a stored round of this tuning as if it had just been measured.

        A trial of a plan that this version cannot lower still counts as a trial.
        """
        numbers = [self._plan_of(record) for record in records]
        known = [(n, r) for n, r in zip(numbers, records, strict=True) if n is not None]
        chosen = [Candidate(number, record.row) for number, record in known]
        self.history.learn(chosen, [record.outcome for _, record in known])
        self.history.trials += len(records) - len(known)
        return chosen

    def hold(self, text: str, row: tuple[int, ...]) -> None:
        """Defer a candidate to the next round, ahead of others, unless its outcome is known.

        A candidate of a plan that the task cannot have is left out.
        """
        number = self.space.number_of(text)
        if number is None:
            return
        candidate = Candidate(number, row)
        if candidate not in self.history.costs_s:
            self.queue.defer(candidate)

    def pending_texts(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (plan, row) of the deferred candidates, for a checkpoint."""
        return [(self.space.texts[candidate.plan], candidate.row) for candidate in self.queue.held]

    def restore_pending(self, kept: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Defer the candidates of a checkpoint again, if this version can lower their plans."""
        found = ((self.space.number_of(text), tuple(row)) for text, row in kept)
        self.queue.held = [Candidate(number, row) for number, row in found if number is not None]

    def _plan_of(self, record: Record) -> int | None:
        return None if record.race is not None else self.space.number_of(record.plan)

    def samples(self, candidates: Sequence[Candidate]) -> Iterator[Sample]:
        """Yield the samples for the cost model from measured candidates, plan by plan."""
        for number in sorted({candidate.plan for candidate in candidates}):
            own = [c for c in candidates if c.plan == number]
            costs = np.array([self.history.costs_s[c] for c in own])
            yield Sample(self.key, self.space.features(number, own), costs)

    def records(
        self,
        chosen: Sequence[Candidate],
        outcomes: Sequence[Outcome],
        clock: Callable[[], float] = time.time,
    ) -> tuple[Record, ...]:
        """Return the records of a round."""
        now_s, made_with = clock(), versions(self.dag, self.identity.estimated)
        shared = self.identity.carried
        return tuple(
            Record(
                key=self.key,
                workload=self.identity.workload,
                rules=self.identity.rules,
                plan=self.space.texts[candidate.plan],
                row=candidate.row,
                outcome=outcome,
                versions=made_with,
                created_s=now_s,
                parts=self.identity.parts,
                **shared,
            )
            for candidate, outcome in zip(chosen, outcomes, strict=True)
        )
