"""Tiling: give a stage with data reuse a nest of tiles."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.transform import tile
from ansorpy.te.analysis import Answer, no


@dataclass(frozen=True, slots=True)
class Tiling(Rule):
    """Tile every axis and interleave the levels as `structure` says.

    Condition   the stage needs tiling
    Rewrite     (S, i)  ->  (S', i - 1); no later rule is tried. One band of loops per letter:
                "SSRSRS" turns i, j, k into i.0 j.0 | i.1 j.1 | k.0 | i.2 j.2 | k.1 | i.3 j.3;
                an axis named in `no_split_inner` stays whole in the innermost band
    Not handled a stage whose loops are already split
    Source      Ansor, OSDI 2020, Table 1 row 3; TVM v0.19 RuleMultiLevelTiling.
    """

    structure: str

    def explain(self, at: Cursor) -> Answer:
        """Name the reused operands and the axes of reuse."""
        if at.facts.divided(at.name):
            return no(f"cannot tile {at.name}: its loops are already split")
        return at.facts.needs_tiling(at.name)

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one tiled successor."""
        yield at.before(tile(at.state, at.name, self.structure).state)
