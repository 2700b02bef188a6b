"""The search space of a task: its sketches, and the plans that are lowered so far."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ansorpy.errors import LoweringError, RecordError, SpecError
from ansorpy.features import extract
from ansorpy.loopir.join import Ahead
from ansorpy.loopir.nodes import Program
from ansorpy.measure.unbound import Unbound, unbound
from ansorpy.plan.ahead import packs_of_row, raw_weights, sizes_ahead
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import ALL_PLANS, each_plan
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.replay import plan_from_text, plan_text
from ansorpy.search import Candidate
from ansorpy.search.strategy import SearchView
from ansorpy.sketch import Derivation, derive
from ansorpy.state.rule import Rule
from ansorpy.state.state import State
from ansorpy.state.steps import Reformulation, reformulations
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.uncollected import uncollected


class OwnSpace(Protocol):
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

    def open(self, space: "SearchSpace") -> None:
        """Add the plans of a task that are known before the search."""
        ...

    def propose(
        self, space: "SearchSpace", view: SearchView, count: int, rng: np.random.Generator
    ) -> list[Candidate]:
        """Return `count` candidates that are not seen; fewer if fewer are left."""
        ...

    def find(self, space: "SearchSpace", plan: str, row: tuple[int, ...]) -> Candidate | None:
        """Return the candidate of a plan, as text, and a row; None if the space has none."""
        ...


@dataclass(slots=True)
class SearchSpace:
    """The plans of a Dag on a target. A `Candidate` names a position of `plans`."""

    dag: Dag
    target: Target
    own: OwnSpace | None = None  # candidates of the user, in place of candidates of the rules
    sketches_of: Callable[[Dag, Target, tuple[Rule, ...]], Derivation] = derive
    plans: list[Plan] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # identity of every plan
    allowed: frozenset[Reformulation] = frozenset()  # reformulations that the rules may apply
    derivation: Derivation | None = None
    # By plan and the sizes that decide them (`packs`).
    _packs: dict[tuple[int, tuple[int, ...]], Mapping[Ahead, int]] = field(default_factory=dict)

    @property
    def sketches(self) -> tuple[State, ...]:
        """All sketches that the rules derive; () before `derive`."""
        return () if self.derivation is None else self.derivation.sketches

    @property
    def has_own(self) -> bool:
        """True if the candidates are not those that rules derive."""
        return self.own is not None or self.sketches_of is not derive

    @property
    def fixed(self) -> bool:
        """True if the user wrote the schedule: that kernel is delivered, even if it is slow."""
        return self.own is not None and self.own.single

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
        if self.own is not None:
            return
        self.derivation = self.sketches_of(self.dag, self.target, rules)
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
        if self.own is not None:
            self.own.open(self)
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
            raise SpecError(f"{self.dag.name!r}: none of its {count} sketches can be lowered")

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

    def program(self, candidate: Candidate) -> Program:
        """Return the program of a candidate.

        Raises:
            LoweringError: the row cannot become loops.
        """
        return bind(self.plans[candidate.plan], candidate.row, self.target)

    def packs(self, candidate: Candidate) -> Mapping[Ahead, int]:
        """Return the weights as a candidate reads them, with bytes; {} if it cannot be lowered."""
        plan = self.plans[candidate.plan]
        key = candidate.plan, tuple(sizes_ahead(plan, candidate.row).values())
        if key not in self._packs:
            self._packs[key] = {}
            with suppress(LoweringError):
                packs = packs_of_row(plan, candidate.row, self.target)
                self._packs[key] = {**raw_weights(self.dag, packs), **packs}
        return self._packs[key]

    def number_of(self, text: str) -> int | None:
        """Return the number of a plan, which is lowered if it is new; None if it cannot be."""
        if text in self.texts:
            return self.texts.index(text)
        try:
            plan = plan_from_text(self.dag, self.target, text)
        except RecordError:
            return None
        if not self.allowed.issuperset(reformulations(plan.state)):
            return None  # a plan of a request that allowed more
        return self.add_plan(plan, text)

    def features(self, number: int, own: Sequence[Candidate]) -> npt.NDArray[np.float32]:
        """Return the features of candidates of one plan, shape (n, stores, F)."""
        rows = np.array([c.row for c in own], np.int64)
        plan = self.plans[number]
        return extract(plan, rows.reshape(len(own), len(plan.sizes)), self.target)
