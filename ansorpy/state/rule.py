"""What a derivation rule is (Ansor, OSDI 2020, section 4.1 and Table 1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Protocol

from ansorpy.state.query import StateFacts
from ansorpy.state.state import Stage, State
from ansorpy.target import Target
from ansorpy.te.analysis import Answer


class Verdict(Enum):
    """Answer of a rule's condition."""

    SKIP = "skip"
    APPLY = "apply"
    APPLY_ALONE = "apply, and try no later rule here"


@dataclass(frozen=True)
class Cursor:
    """The paper's sigma = (S, i): a state, and the stage the derivation stands at."""

    state: State
    index: int
    target: Target

    @property
    def stage(self) -> Stage:
        """The stage under the cursor."""
        return self.state.stages[self.index]

    @property
    def name(self) -> str:
        """The name of the stage under the cursor."""
        return self.stage.name

    @cached_property
    def facts(self) -> StateFacts:
        """Answers about the state, worked out once for all rules."""
        return StateFacts(self.state)

    def moved(self, state: State, index: int) -> "Cursor":
        """Return the cursor on another state and stage; an index below 0 ends the derivation."""
        return Cursor(state, index, self.target)

    def before(self, state: State) -> "Cursor":
        """Return the cursor on the stage that comes before this one in `state`.

        To be used where `state` inserted no stage at or before this one.
        """
        return self.moved(state, self.index - 1)


class Rule(Protocol):
    """A condition and a rewrite; both pure, neither reads a clock, a file or a random number."""

    def condition(self, at: Cursor) -> Verdict:
        """Say whether the rule applies here; cheap, and never raises."""
        ...

    def explain(self, at: Cursor) -> Answer:
        """Say why: it holds exactly where `condition` does not say SKIP."""
        ...

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield every successor; called only where `condition` did not say SKIP."""
        ...


def name_of(rule: Rule) -> str:
    """Return the name a rule goes by: that of its class."""
    return type(rule).__name__
