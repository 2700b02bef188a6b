"""AlwaysInline: inline a stage that costs nothing to recompute."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import ComputeInline
from ansorpy.te.analysis import Answer


@dataclass(frozen=True, slots=True)
class AlwaysInline(Rule):
    """Substitute a stage into its consumers.

    Condition   a compute stage without reduction that is not an output, and that is strictly
                inlineable (or `everything`)
    Rewrite     (S, i)  ->  (S', i - 1), stage i inlined; no later rule is tried
    Not handled the place of a stage that is not strictly inlineable: a choice of the plan
    Source      Ansor, OSDI 2020, Table 1 row 2; TVM v0.19 RuleAlwaysInline.
    """

    everything: bool

    def explain(self, at: Cursor) -> Answer:
        """Say if the stage is inlineable."""
        return at.facts.always_inlined(at.name, self.everything)

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        yield at.before(at.state.do(ComputeInline(at.name)))
