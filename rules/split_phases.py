"""SplitPhases: leave out the products with the zeros of a transposed convolution."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.transposed_conv import find_walks
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Rule
from ansorpy.te.analysis import Answer, no


@dataclass(frozen=True, slots=True)
class SplitPhases(Rule):
    """Split a sum over zero-spread data into one dense sum per phase of the stride.

    Condition   the loops of the stage are not split; it is a sum with a factor that one producer
                spreads with zeros, a producer that is not an output and has no other reader:
                `select((i - first) % s == 0 and ..., X[(i - first) // s], 0)` read at i = h + r
    Rewrite     (S, i)  ->  (S', i); no later rule is tried. "<spread>_dense" holds
                the data without the zeros, "<stage>_phases" the sums, one phase per remainder of
                h, and the stage is a copy of them; the plan drops the copy if it can store to
                the final position
    Not handled zeros that are not literals; h or r with a factor; more than 16 phases
    Source      ours; known for deconvolution as sub-pixel convolution (Shi et al., 2016,
                arXiv:1609.07009)
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the zero-spread operand, or the obstacle."""
        return self._find(at)[1]

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, at the new reduction; the copy after it stays as it is."""
        state = at.state.do(steps.SplitPhases(at.name, self._find(at)[0]))
        yield at.moved(state, at.index)

    def _find(self, at: Cursor) -> tuple[str, Answer]:
        if at.facts.divided(at.name):
            return "", no(f"cannot split phases of {at.name}: its loops are already split")
        for name in at.facts.own_producers(at.name):
            walks, why = find_walks(at.state.stage(name).node, at.stage.node)
            if walks:
                return name, why
        return "", no(f"cannot split phases of {at.name}: it reads no tensor spread with zeros")
