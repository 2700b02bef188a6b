"""TilingWithFusion: tile a stage, and compute it inside the tiles of its consumer."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.steps import ComputeAt
from ansorpy.state.transform import follow, tile
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class TilingWithFusion:
    """Tile as `structure` says; the consumer takes the same tiles and hosts the stage.

    Condition   the stage needs tiling, and its one consumer takes it element by element,
                not both reducing, the consumer no `.shared` copy
    Rewrite     (S, i)  ->  one (S', i - 1) per level L of `levels` whose letter is S: the
                consumer follows the splits L deep, the stage is computed at loop
                L * (number of followed axes) - 1 of the consumer. Later rules are tried too,
                unless `alone` or this is a cache-write stage
    Not handled a consumer whose loops are already divided (two producers cannot both lead its
                tiles); a stage all of whose spatial axes are in `no_split_inner`
    Source      Ansor, OSDI 2020, Table 1 row 4; TVM v0.19 RuleMultiLevelTilingWithFusion.
    """

    structure: str
    levels: tuple[int, ...]
    alone: bool

    def condition(self, at: Cursor) -> Verdict:
        """Apply where a tiled stage has a consumer to host it."""
        if not self.explain(at):
            return Verdict.SKIP
        alone = self.alone or at.facts.has_cache_write(at.name)
        return Verdict.APPLY_ALONE if alone else Verdict.APPLY

    def explain(self, at: Cursor) -> Answer:
        """Say what is reused, and which consumer fits or why none does."""
        reuse = at.facts.needs_tiling(at.name)
        if not reuse:
            return reuse
        consumer = at.facts.fusible_consumer(at.name)
        if consumer.name is None:
            return no(consumer.why)
        if at.facts.divided(at.name):
            return no(f"the loops of {at.name} are already divided")
        if not tile(at.state, at.name, self.structure).axes:
            return no(f"every spatial axis of {at.name} stays whole")
        return yes(f"{reuse.why}, and {consumer.why}")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield one successor per level."""
        host = at.facts.fusible_consumer(at.name).name
        assert host is not None  # as the condition found
        tiled = tile(at.state, at.name, self.structure)
        for level in self.levels:
            if self.structure[level - 1] not in "Ss":
                continue
            state = follow(tiled, host, level)
            loop = state.stage(host).loops[level * len(tiled.axes) - 1].name
            yield at.before(state.do(ComputeAt(at.name, host, loop)))
