"""SplitPhases: leave out the products with the zeros that a transposed convolution spreads."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.transposed_conv import find_walks
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Verdict
from ansorpy.te.analysis import Answer, no


@dataclass(frozen=True, slots=True)
class SplitPhases:
    """Split a sum over zero-spread data into one dense sum per phase of the stride.

    Condition   the loops of the stage are whole; it is a sum with a factor that one producer,
                read by it alone and no output, spreads with zeros: `select((i - first) % s == 0
                and ..., X[(i - first) // s], 0)` read at i = h + r
    Rewrite     (S, i)  ->  (S', i); no later rule is tried. "<spread>_dense" holds
                the data without the zeros, "<stage>_phases" the sums, one phase per remainder of
                h, and the stage is a copy of them; the copy is not made where the plan can store
                straight to its place
    Not handled zeros that are no literal; h or r with a factor; more than 16 phases
    Source      ours; known for deconvolution as sub-pixel convolution (Shi et al., 2016,
                arXiv:1609.07009)
    """

    def condition(self, at: Cursor) -> Verdict:
        """Apply alone: the zeros are never worth their products."""
        return Verdict.APPLY_ALONE if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Say where the data is met, or what stands in the way."""
        return self._find(at)[1]

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, at the new reduction; the copy after it stays as it is."""
        state = at.state.do(steps.SplitPhases(at.name, self._find(at)[0]))
        yield at.moved(state, at.index)

    def _find(self, at: Cursor) -> tuple[str, Answer]:
        if at.facts.divided(at.name):
            return "", no(f"the loops of {at.name} are already divided")
        for name in at.facts.own_producers(at.name):
            walks, why = find_walks(at.state.stage(name).node, at.stage.node)
            if walks:
                return name, why
        return "", no(f"{at.name} reads nothing that is spread with zeros")
