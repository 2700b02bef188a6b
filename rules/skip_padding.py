"""SkipPadding: tile a convolution so that products with the padding are left out."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.padding import Padding, find_padding
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.state import State
from ansorpy.state.transform import Lengths, Tiled, follow, tile
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Axis


@dataclass(frozen=True, slots=True)
class SkipPadding:
    """Leave out the products with the zeros around a tensor: they are known by position.

    Condition   the stage needs tiling, its loops are whole; it is a sum of products with what one
                producer, read by it alone and no output, pads with zeros; at least `share` of the
                products meet them; some axis f does not move what is padded
    Rewrite     (S, i)  ->  (S', i - 1); later rules are tried too. The padded stage is gone, the
                sum takes its terms under a condition. It is tiled as `structure` says, lanes along
                f. Of the last axis that decides where zeros are, x, the innermost tile has all, or
                an even cut of at most `tile`; where it has all, also as many rows of the axis
                before as make up `tile` places; of any other 1. Where places lie apart in memory,
                as in NHWC, `strided` stands for `tile`: fewer lines of the cache are read side by
                side, and several vectors along f share an element. An axis of which the tile has
                more than 1 is divided once, so that its first and last tiles can have code of
                their own; taps stay together. With a consumer that takes the stage element by
                element, the stage is computed at `level` of the consumer's tiles
    Source      ours; oneDNN's direct convolutions for CPUs have cases for borders like that.
    """

    structure: str
    level: int
    share: float
    tile: int
    strided: int

    def condition(self, at: Cursor) -> Verdict:
        """Apply where it pays; the padded form is tried too."""
        return Verdict.APPLY if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Say how much is left out, or what stands in the way."""
        found, _, why = self._find(at)
        if found is None:
            return why
        if found.share < self.share:
            return no(f"{why.why}: too few")
        if not found.others:
            return no(f"every axis of {at.name} moves what is padded")
        return yes(why.why)

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        found, padded, _ = self._find(at)
        assert found is not None  # as the condition found
        state = at.state.do(steps.SkipPadding(at.name, padded))
        parts, inner = (self.structure.lower().count(kind) for kind in "sr")
        mark = steps.Annotate(at.name, f"{found.others[-1].name}.{parts - 1}", "vectorize")
        host = at.facts.fusible_consumer(at.name).name
        lengths = _lengths(found, self.strided if found.strided else self.tile, parts)
        lengths |= {tap.name: (*[0] * (inner - 2), tap.extent) for tap in found.taps}
        tiled = tile(state, at.name, self.structure, lengths)
        # The padded stage stood before this one.
        yield at.moved(self._hosted(tiled, host).do(mark), at.index - 2)

    def _hosted(self, tiled: Tiled, host: str | None) -> State:
        if host is None:
            return tiled.state
        state = follow(tiled, host, self.level)
        loop = state.stage(host).loops[self.level * len(tiled.axes) - 1].name
        return state.do(steps.ComputeAt(tiled.stage, host, loop))

    def _find(self, at: Cursor) -> tuple[Padding | None, str, Answer]:
        if at.facts.divided(at.name):
            return None, "", no(f"the loops of {at.name} are already divided")
        reuse = at.facts.needs_tiling(at.name)
        if not reuse:
            return None, "", reuse
        for name in at.facts.own_producers(at.name):
            found, why = find_padding(at.state.stage(name).node, at.stage.node)
            if found is not None:
                return found, name, why
        return None, "", no(f"{at.name} reads nothing that is padded with zeros")


def _lengths(found: Padding, most: int, parts: int) -> dict[str, Lengths]:
    """Return the lengths of the inner parts of the axes that decide."""
    answer: dict[str, Lengths] = {}
    for *phases, axis in reversed(found.dimensions):
        length = _even_cut(axis.extent, most)
        if length > 1:  # what stands beside it in a condition is divided once, too
            answer |= {phase.name: _once(phase, 1, parts) for phase in phases}
            answer[axis.name] = _once(axis, length, parts)
        else:
            answer |= {each.name: (*[0] * (parts - 2), 1) for each in (*phases, axis)}
        most = max(1, most // length) if length == axis.extent else 1
    return answer


def _even_cut(extent: int, most: int) -> int:
    """Return the length of the fewest equal parts that are at most so long."""
    return -(-extent // -(-extent // most))


def _once(axis: Axis, length: int, parts: int) -> Lengths:
    return (*[1] * (parts - 3), -(-axis.extent // length), length)
