"""AlwaysInline: a stage that costs nothing to recompute has no loops of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.steps import ComputeInline
from ansorpy.te.analysis import Answer


@dataclass(frozen=True, slots=True)
class AlwaysInline:
    """Substitute a stage into its consumers.

    Condition   a compute stage, not an output, without reduction, and
                strictly inlineable (or `everything`)
    Rewrite     (S, i)  ->  (S', i - 1), stage i inlined; no later rule is tried
    Not handled moving a stage that is not strictly inlineable: its place is a choice of
                the plan
    Source      Ansor, OSDI 2020, Table 1 row 2; TVM v0.19 RuleAlwaysInline.
    """

    everything: bool

    def condition(self, at: Cursor) -> Verdict:
        """Apply alone where the stage is inlined wherever it occurs."""
        return Verdict.APPLY_ALONE if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Say what is, or is not, inlineable."""
        return at.facts.always_inlined(at.name, self.everything)

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        yield at.before(at.state.do(ComputeInline(at.name)))
