"""AddCacheWrite: give a tiled stage a consumer to be fused into."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.steps import CacheWrite
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class AddCacheWrite:
    """Accumulate in a local tile; a copy stage writes it out.

    Condition   the stage needs tiling, and has no consumer that its tiles could be fused into
    Rewrite     (S, i)  ->  (S', i): stage "C.local" stands at i, C after it. Later rules are
                tried too, unless `alone`
    Source      Ansor, OSDI 2020, Table 1 row 5; TVM v0.19 RuleAddCacheWrite.
    """

    alone: bool

    def condition(self, at: Cursor) -> Verdict:
        """Apply where a tiled stage lacks a consumer to host it."""
        if not self.explain(at):
            return Verdict.SKIP
        return Verdict.APPLY_ALONE if self.alone else Verdict.APPLY

    def explain(self, at: Cursor) -> Answer:
        """Say what is reused, and why no consumer fits."""
        reuse = at.facts.needs_tiling(at.name)
        if not reuse:
            return reuse
        consumer = at.facts.fusible_consumer(at.name)
        if consumer.name is not None:
            return no(f"{at.name} can be fused into {consumer.name}: {consumer.why}")
        if at.facts.divided(at.name):
            return no(f"the loops of {at.name} are already divided")
        return yes(f"{reuse.why}, and {consumer.why}")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, which stands at the new stage."""
        yield at.moved(at.state.do(CacheWrite(at.name)), at.index)
