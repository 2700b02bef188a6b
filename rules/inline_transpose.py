"""InlineTranspose: leave the order of axes to the packing of what reads them."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.expr.expr import Read, Var
from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.steps import ComputeInline
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute, Node


@dataclass(frozen=True, slots=True)
class InlineTranspose:
    """Substitute a transpose into the reductions that read it.

    Condition   the stage copies a tensor with its axes in another order, is no output and
                serves no instruction; everything that reads it needs tiling
    Rewrite     (S, i)  ->  (S', i - 1), stage i inlined; no later rule is tried. What packs the
                operand then takes it from where it lies: one copy in place of two
    Not handled a copy of a part, or one that is read by anything else
    Source      ours; BLAS takes transposed operands as they are for the same reason
    """

    def condition(self, at: Cursor) -> Verdict:
        """Apply alone: packing makes the same copy again."""
        return Verdict.APPLY_ALONE if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Name the readers, or what stands in the way."""
        name = at.name
        if not _transposes(at.stage.node):
            return no(f"{name} is no transpose")
        if name in at.state.dag.outputs or at.facts.serves(name) or at.facts.divided(name):
            return no(f"{name} is an output, serves an instruction, or has its loops")
        readers = at.facts.consumers(name)
        plain = [reader for reader in readers if not at.facts.needs_tiling(reader)]
        if plain:
            return no(f"{plain[0]} reads {name} and needs no tiling")
        return yes(f"{name} transposes for {', '.join(readers)}, which may pack")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        yield at.before(at.state.do(ComputeInline(at.name)))


def _transposes(node: Node) -> bool:
    if not isinstance(node, Compute) or node.combiner is not None or len(node.body) != 1:
        return False
    (read,) = node.body
    if not isinstance(read, Read):
        return False
    taken = [index.name for index in read.indices if isinstance(index, Var)]
    axes = [axis.name for axis in node.axes]
    return len(taken) == len(read.indices) and taken != axes and sorted(taken) == sorted(axes)
