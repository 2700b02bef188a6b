"""AddRfactor: make a reduction parallel or vectorizable by partial results."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import Reorder, Rfactor, Split
from ansorpy.state.transform import fuse_reduction
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class AddRfactor(Rule):
    """Reduce in two stages; the first stage keeps a part of the reduction as an axis.

    Condition   not a cache-write stage, and with S and R the points of the spatial and of the
                reduce axes: S <= R and S <= `grain` * cores if the stage needs tiling;
                otherwise R > 1 and R > cores
    Rewrite     (S, i)  ->  (S', i - 1), (S'', i - 1); later rules are tried too. The reduce
                loops are fused and split in 2; S' keeps the outer part (parallel), S'' the
                inner part, moved innermost (vector lanes)
    Not handled a stage whose loops are already split, or that serves an instruction
    Source      Ansor, OSDI 2020, Table 1 row 6; TVM v0.19 RuleAddRfactor.
    """

    grain: int = 16  # spatial points per core that make a reduction parallel enough

    def explain(self, at: Cursor) -> Answer:
        """Compare the points of the spatial and the reduce axes."""
        facts, name, cores = at.facts, at.name, at.target.cores
        if not facts.reduces(name):
            return no(f"cannot factor {name}: it reduces nothing")
        if facts.has_cache_write(name) or facts.serves(name):
            return no(f"cannot factor {name}: it is a cache-write stage, or serves an instruction")
        if facts.divided(name):
            return no(f"cannot factor {name}: its loops are already split")
        space, reduce = facts.points(name)
        if facts.needs_tiling(name):
            limit = self.grain * cores
            if space > reduce:
                return no(f"{name} has {space} spatial > {reduce} reduce points")
            if space > limit:
                return no(f"{name} has {space} spatial points > {self.grain} * {cores} cores")
            return yes(f"{name} has {space} spatial points <= {reduce} reduce points and {limit}")
        if reduce > max(1, cores):
            return yes(f"{name} has {reduce} reduce points > {cores} cores")
        return no(f"{name} has {reduce} reduce points <= max(1, {cores} cores)")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield two states: the first keeps the outer part, the second keeps the inner part."""
        fused, reduce = fuse_reduction(at.state, at.name)
        split = fused.do(Split(at.name, reduce, parts=2))
        yield at.before(split.do(Rfactor(at.name, f"{reduce}.0")))
        step = Rfactor(at.name, f"{reduce}.1")
        inner = split.do(step)
        names = [loop.name for loop in inner.stage(step.partial).loops if loop.name != step.loop]
        yield at.before(inner.do(Reorder(step.partial, (*names, step.loop))))
