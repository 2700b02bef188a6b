"""AddRfactor: make a reduction parallel, or vectorisable, by partial results."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.steps import Reorder, Rfactor, Split
from ansorpy.state.transform import fuse_reduction
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class AddRfactor:
    """Reduce in two stages; the first keeps one part of the reduction as an axis.

    Condition   not a cache-write stage, and with S and R the points of the spatial and the
                reduce axes: where tiling is needed, S <= R and S <= `grain` * cores;
                elsewhere R > 1 and R > cores
    Rewrite     (S, i)  ->  (S', i - 1), (S'', i - 1); later rules are tried too. The reduce
                loops are fused and split in 2; S' keeps the outer part (parallel), S'' the
                inner part, moved innermost (vector lanes)
    Not handled a stage whose loops are already divided, or that serves an instruction
    Source      Ansor, OSDI 2020, Table 1 row 6; TVM v0.19 RuleAddRfactor.
    """

    grain: int = 16  # spatial points per core that make a reduction parallel enough

    def condition(self, at: Cursor) -> Verdict:
        """Apply, beside the others, where there is too little parallel work without it."""
        return Verdict.APPLY if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Compare the points of the spatial and the reduce axes."""
        facts, name, cores = at.facts, at.name, at.target.cores
        if not facts.reduces(name):
            return no(f"{name} reduces nothing")
        if facts.has_cache_write(name) or facts.serves(name):
            return no(f"{name} is a cache-write stage, or serves an instruction")
        if facts.divided(name):
            return no(f"the loops of {name} are already divided")
        space, reduce = facts.points(name)
        if facts.needs_tiling(name):
            limit = self.grain * cores
            if space > reduce:
                return no(f"{name} has {space} spatial > {reduce} reduce points")
            if space > limit:
                return no(f"{name} has {space} spatial points > {self.grain} * {cores} cores")
            return yes(f"{name} has {space} spatial points <= {reduce} reduce ones and {limit}")
        if reduce > max(1, cores):
            return yes(f"{name} has {reduce} reduce points > {cores} cores")
        return no(f"{name} has {reduce} reduce points <= max(1, {cores} cores)")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the state that keeps the outer part, then the one that keeps the inner part."""
        fused, reduce = fuse_reduction(at.state, at.name)
        split = fused.do(Split(at.name, reduce, parts=2))
        yield at.before(split.do(Rfactor(at.name, f"{reduce}.0")))
        step = Rfactor(at.name, f"{reduce}.1")
        inner = split.do(step)
        names = [loop.name for loop in inner.stage(step.partial).loops if loop.name != step.loop]
        yield at.before(inner.do(Reorder(step.partial, (*names, step.loop))))
