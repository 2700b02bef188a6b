"""TilingWithFusion: tile a stage, and compute it inside the tiles of its consumer."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import ComputeAt
from ansorpy.state.transform import follow, tile
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class TilingWithFusion(Rule):
    """Tile as `structure` says; the consumer takes the same tiles and hosts the stage.

    Condition   the stage needs tiling, and its one consumer takes it element by element; not
                both of them reduce, and the consumer is not a `.shared` copy
    Rewrite     (S, i)  ->  one (S', i - 1) per level L of `levels` whose letter is S: the
                consumer follows the splits L deep, the stage is computed at loop
                L * (number of followed axes) - 1 of the consumer. Later rules are tried too,
                unless `alone` or the stage is a cache-write stage
    Not handled a consumer whose loops are already split: two producers cannot both determine
                its tiles; a stage all of whose spatial axes are in `no_split_inner`
    Source      Ansor, OSDI 2020, Table 1 row 4; TVM v0.19 RuleMultiLevelTilingWithFusion.
    """

    structure: str
    levels: tuple[int, ...]
    alone: bool

    def explain(self, at: Cursor) -> Answer:
        """Name the reused operands and the consumer, or the reason against every consumer."""
        reuse = at.facts.needs_tiling(at.name)
        if not reuse:
            return reuse
        consumer = at.facts.fusible_consumer(at.name)
        if consumer.name is None:
            return no(f"cannot fuse {at.name}: {consumer.why}")
        if at.facts.divided(at.name):
            return no(f"cannot fuse {at.name}: its loops are already split")
        if not tile(at.state, at.name, self.structure).axes:
            return no(f"cannot fuse {at.name}: all its spatial axes stay whole")
        return yes(f"{reuse.why}, and {consumer.why}")

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: if the rule was made so, or at a cache-write stage."""
        return self.alone or at.facts.has_cache_write(at.name)

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield one successor per level."""
        host = at.facts.fusible_consumer(at.name).name
        assert host is not None  # as `explain` found
        tiled = tile(at.state, at.name, self.structure)
        for level in self.levels:
            if self.structure[level - 1] not in "SsTt":
                continue
            state = follow(tiled, host, level)
            loop = state.stage(host).loops[level * len(tiled.axes) - 1].name
            yield at.before(state.do(ComputeAt(at.name, host, loop)))
