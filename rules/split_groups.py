"""SplitGroups: turn a grouped reduction into a batch of dense reductions."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.grouped_conv import find_group
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Rule
from ansorpy.te.analysis import Answer, no


@dataclass(frozen=True, slots=True)
class SplitGroups(Rule):
    """Give the groups of a grouped convolution an axis of their own.

    Condition   the loops of the stage are not split; it is a reduction that reads an operand by
                f // size, with f a spatial axis and size a divisor of its extent
    Rewrite     (S, i)  ->  (S', i); no later rule is tried. The stage becomes
                "<stage>_groups" over f_group, f, and a copy under the old name; the plan drops
                the copy if it can store to the final position
    Not handled two such axes in one stage; a start value; argmax
    Source      ours
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the grouped axis, or the obstacle."""
        if at.facts.divided(at.name):
            return no(f"cannot split groups of {at.name}: its loops are already split")
        return find_group(at.stage.node)[1]

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, at the new reduction; the copy after it stays as it is."""
        state = at.state.do(steps.SplitGroups(at.name))
        yield at.moved(state, at.index)
