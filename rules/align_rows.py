"""AlignRows: copy operands of a product to rows that threads of a GPU move 16 bytes at once."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.padded_rows import RaggedOperand, find_operands
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import Root
from ansorpy.te.analysis import Answer, no


@dataclass(frozen=True, slots=True)
class AlignRows(Rule):
    """Copy operands whose rows are no whole groups of 16 bytes to rows that are.

    Condition   the stage is a sum of one value, needs tiling, and its loops are not split; it
                reads an operand once, along rows of 64 to 65536 elements that are no multiple
                of 16 bytes, each element 64 times or more
    Rewrite     (S, i)  ->  (S', i + n); later rules are tried too. The n operands are read from
                "<operand>_rows", copies at root with zeros at the ends of rows, a row per block.
                Blocks of the product copy parts of rows asynchronously, 16 bytes at once
    Not handled rows that a window walks over, as of a convolution with the channels first
    Source      ours; as BLAS libraries pack matrices of odd sizes before they use tensor cores
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the operands, or the obstacle."""
        return self._find(at)[1]

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, at the same stage, behind the copies."""
        found, _ = self._find(at)
        copies = (steps.Annotate(one.name, one.copy.axes[-1].name, "thread") for one in found)
        state = at.state.do(steps.PadRows(at.name), *copies)
        yield at.moved(state, at.index + len(found))

    def _find(self, at: Cursor) -> tuple[tuple[RaggedOperand, ...], Answer]:
        name, stage = at.name, at.stage
        if at.facts.divided(name) or stage.role is not None or stage.location != Root():
            return (), no(f"cannot align rows for {name}: its loops are split, or attached")
        if at.facts.has_cache_write(name):
            return (), no(f"cannot align rows for {name}: it is a cache")
        reuse = at.facts.needs_tiling(name)
        if not reuse:
            return (), no(f"cannot align rows for {name}: {reuse.why}")
        return find_operands(stage.node, {one.name: one.node for one in at.state.stages})
