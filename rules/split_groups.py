"""SplitGroups: a batch of dense reductions in place of one that divides an axis."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.grouped_conv import find_group
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Verdict
from ansorpy.te.analysis import Answer, no


@dataclass(frozen=True, slots=True)
class SplitGroups:
    """Give the groups of a grouped convolution an axis of their own.

    Condition   the loops of the stage are whole; it is a reduction that reads an operand by
                f // size, with f a spatial axis and size a divisor of its extent
    Rewrite     (S, i)  ->  (S', i); no later rule is tried. The stage becomes
                "<stage>_groups" over f_group, f, and a copy under the old name; the copy is not
                made where the plan can store straight to its place
    Not handled two axes divided in one stage; a start value; argmax
    Source      ours
    """

    def condition(self, at: Cursor) -> Verdict:
        """Apply alone: the divided form has nothing that this one lacks."""
        return Verdict.APPLY_ALONE if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Say which axis is divided, or what stands in the way."""
        if at.facts.divided(at.name):
            return no(f"the loops of {at.name} are already divided")
        return find_group(at.stage.node)[1]

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, at the new reduction; the copy after it stays as it is."""
        state = at.state.do(steps.SplitGroups(at.name))
        yield at.moved(state, at.index)
