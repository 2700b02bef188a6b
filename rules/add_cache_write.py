"""AddCacheWrite: give a tiled stage a consumer to be fused into."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import CacheWrite
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class AddCacheWrite(Rule):
    """Accumulate in a local tile, which a copy stage writes out.

    Condition   the stage needs tiling, and no consumer can host its tiles
    Rewrite     (S, i)  ->  (S', i): stage "C.local" stands at i, C after it. Later rules are
                tried too, unless `alone`
    Not handled a stage whose loops are already split
    Source      Ansor, OSDI 2020, Table 1 row 5; TVM v0.19 RuleAddCacheWrite.
    """

    alone: bool

    def explain(self, at: Cursor) -> Answer:
        """Name the reused operands, and the reason for which no consumer fits."""
        reuse = at.facts.needs_tiling(at.name)
        if not reuse:
            return reuse
        consumer = at.facts.fusible_consumer(at.name)
        if consumer.name is not None:
            return no(
                f"{at.name} needs no cache: it can be fused into {consumer.name}, {consumer.why}"
            )
        if at.facts.divided(at.name):
            return no(f"cannot cache {at.name}: its loops are already split")
        return yes(f"{reuse.why}, and {consumer.why}")

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: if the rule was made so."""
        return self.alone

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, which stands at the new stage."""
        yield at.moved(at.state.do(CacheWrite(at.name)), at.index)
