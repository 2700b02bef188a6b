"""Skip: leave the stage as it is."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Verdict
from ansorpy.te.analysis import Answer, yes


@dataclass(frozen=True, slots=True)
class Skip:
    """Move on to the producer.

    Condition   always, as the last rule of a set; so a reduction that may be factored may also
                be left alone (ADR-0002)
    Rewrite     (S, i)  ->  (S, i - 1)
    Source      TVM v0.19 RuleSkipStage; Ansor, OSDI 2020, Table 1 row 1 is narrower.
    """

    def condition(self, at: Cursor) -> Verdict:
        """Always apply."""
        return Verdict.APPLY

    def explain(self, at: Cursor) -> Answer:
        """Say so."""
        return yes(f"{at.name} may always be left as it is")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the same state, one stage on."""
        yield at.before(at.state)
