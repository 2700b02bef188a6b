"""Skip: leave a stage unchanged."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Rule
from ansorpy.te.analysis import Answer, yes


@dataclass(frozen=True, slots=True)
class Skip(Rule):
    """Move on to the producer.

    Condition   always, as the last rule of a set: a reduction that may be factored may also
                stay unchanged (ADR-0002)
    Rewrite     (S, i)  ->  (S, i - 1)
    Not handled nothing: the rule changes no state
    Source      TVM v0.19 RuleSkipStage; Ansor, OSDI 2020, Table 1 row 1 is narrower.
    """

    def explain(self, at: Cursor) -> Answer:
        """Hold always."""
        return yes(f"{at.name} may always be left as it is")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the same state, at the stage before."""
        yield at.before(at.state)
