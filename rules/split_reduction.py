"""SplitReduction: divide a long reduction with few results among blocks (split-k)."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.axis import AxisKind
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import Root
from ansorpy.state.steps import Reorder, Rfactor, Split
from ansorpy.state.transform import fuse_reduction
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class SplitReduction(Rule):
    """Reduce in two launches: blocks reduce parts, and a second launch combines their results.

    Condition   the stage reduces and needs no tiling; with S and R the points of the spatial and
                of the reduce axes: S <= `grain` * cores and R >= `least`
    Rewrite     (S, i)  ->  (S', i - 1); later rules are tried too. The reduce loops are fused and
                split in 2; the outer part is an axis of partial results, outside of all others
    Not handled a stage whose loops are split or attached; the split reduction of a matrix product
    Source      ours; as AddRfactor (Ansor, OSDI 2020, Table 1 row 6) with its outer part only, and
                split-k of cuBLAS and CUTLASS
    """

    grain: int = 16  # results per core from which their own blocks fill the device
    least: int = 4096  # elements of a reduction that are worth a second launch

    def explain(self, at: Cursor) -> Answer:
        """Compare the points of the spatial and the reduce axes."""
        facts, name = at.facts, at.name
        if not facts.reduces(name) or facts.serves(name) or facts.has_cache_write(name):
            return no(f"cannot split {name} among blocks: it reduces nothing, or serves another")
        if facts.divided(name) or at.stage.role is not None or at.stage.location != Root():
            return no(f"cannot split {name} among blocks: its loops are split, or attached")
        if facts.needs_tiling(name):
            return no(f"cannot split {name} among blocks: it is tiled")
        space, reduce = facts.points(name)
        most = self.grain * at.target.cores
        if space > most:
            return no(f"{name} has {space} spatial points > {most}: their blocks fill the device")
        if reduce < self.least:
            return no(f"{name} has {reduce} reduce points < {self.least}")
        return yes(f"{name} has {space} spatial points <= {most} and {reduce} reduce points")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        state, reduce = fuse_reduction(at.state, at.name)
        step = Rfactor(at.name, f"{reduce}.0")
        state = state.do(Split(at.name, reduce, parts=2), step)
        loops = state.stage(step.partial).loops
        spatial = [
            one.name for one in loops if one.kind is AxisKind.SPATIAL and one.name != step.loop
        ]
        if spatial:
            state = state.do(Reorder(step.partial, (step.loop, *spatial, f"{reduce}.1")))
        yield at.before(state)
