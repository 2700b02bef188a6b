"""The interface of a derivation rule (Ansor, OSDI 2020, section 4.1 and Table 1)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import final

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
    """The paper's sigma = (S, i): a state, and the current stage of the derivation."""

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
        """Queries to the state, whose answers are cached for all rules."""
        return StateFacts(self.state)

    def moved(self, state: State, index: int) -> "Cursor":
        """Return the cursor on another state and stage; an index below 0 ends the derivation."""
        return Cursor(state, index, self.target)

    def before(self, state: State) -> "Cursor":
        """Return the cursor on the stage before the current one, in `state`.

        `state` must have no new stage at or before the current one.
        """
        return self.moved(state, self.index - 1)


class Rule(ABC):
    """A condition and a rewrite; both are pure: no clock, no file, no random number.

    A rule defines `explain` and `rewrite`, and `excludes_later` if no later rule of the set is to
    be tried at the same stage. The verdict follows from them.
    """

    __slots__ = ()

    @abstractmethod
    def explain(self, at: Cursor) -> Answer:
        """Return if the rule applies at a cursor, and the reason; cheap, and never raises."""

    @abstractmethod
    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield every successor; called only if `explain` holds at the cursor."""

    def excludes_later(self, at: Cursor) -> bool:
        """Return if no later rule is tried at a cursor at which the rule applies."""
        return False

    @final
    def condition(self, at: Cursor) -> Verdict:
        """Return the verdict of the rule at a cursor."""
        if not self.explain(at):
            return Verdict.SKIP
        return Verdict.APPLY_ALONE if self.excludes_later(at) else Verdict.APPLY


def name_of(rule: Rule) -> str:
    """Return the name of a rule: its class name."""
    return type(rule).__name__
