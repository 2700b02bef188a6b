"""InlineTranspose: leave a transpose to the packing of its readers."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import ComputeInline
from ansorpy.te.analysis import Answer, no, permutes, yes


@dataclass(frozen=True, slots=True)
class InlineTranspose(Rule):
    """Substitute a transpose into the reductions that read it.

    Condition   the stage copies a tensor with its axes in another order, is not an output and
                serves no instruction; all its readers need tiling
    Rewrite     (S, i)  ->  (S', i - 1), stage i inlined; no later rule is tried. A reader that
                packs the operand takes it from the original tensor: one copy in place of two
    Not handled a copy of a part of a tensor; a reader that needs no tiling
    Source      ours; BLAS takes transposed operands as they are for the same reason
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the readers, or the obstacle."""
        name = at.name
        if not permutes(at.stage.node):
            return no(f"cannot inline {name}: it is not a transpose")
        if name in at.state.dag.outputs or at.facts.serves(name) or at.facts.divided(name):
            return no(
                f"cannot inline {name}: it is an output, serves an instruction, or is already split"
            )
        readers = at.facts.consumers(name)
        plain = [reader for reader in readers if not at.facts.needs_tiling(reader)]
        if plain:
            return no(f"cannot inline {name}: its reader {plain[0]} needs no tiling")
        return yes(f"{name} is a transpose that the packing of {', '.join(readers)} can do")

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        yield at.before(at.state.do(ComputeInline(at.name)))
