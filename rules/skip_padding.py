"""SkipPadding: tile a convolution so that products with its padding are left out."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.padding import Padding, find_padding
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import State
from ansorpy.state.transform import Lengths, Tiled, follow, tile
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Axis


@dataclass(frozen=True, slots=True)
class SkipPadding(Rule):
    """Leave out the products with the zeros of padding, whose positions are known.

    Condition   the stage needs tiling and its loops are not split; it is a sum of products with
                a tensor that one producer pads with zeros, a producer that is not an output and
                has no other reader; at least `share` of the products meet padding; some spatial
                axis f does not move the padded operand
    Rewrite     (S, i)  ->  (S', i - 1); later rules are tried too. The padded stage is removed,
                the sum takes its terms under a condition. The stage is tiled by `structure`,
                with the lanes along f. Of the last axis that decides the condition, x, the
                innermost tile has all elements, or an even cut of at most `tile`; if it has all,
                it also has as many rows of the axis before as make up `tile` positions, and 1 of
                any other axis. `strided` replaces `tile` if neighbouring positions are not
                adjacent in memory, as in NHWC: fewer cache lines are read side by side, and
                several vectors along f share an element. An axis of which the tile has more
                than 1 is split once, so that its first and last tiles can have code of their
                own; taps stay whole. A consumer that takes the stage element by element computes
                it at `level` of its tiles
    Not handled a padding value other than zero; a padded stage with other readers
    Source      ours; oneDNN's direct convolutions for CPUs have cases for borders like that.
    """

    structure: str
    level: int
    share: float
    tile: int
    strided: int

    def explain(self, at: Cursor) -> Answer:
        """Say how many products are left out, or name the obstacle."""
        padding, _, why = self._find(at)
        if padding is None:
            return why
        if padding.share < self.share:
            return no(
                f"cannot skip the padding of {at.name}: {why.why}, below {self.share:.4g} of all"
            )
        if not padding.others:
            return no(f"cannot skip the padding of {at.name}: every axis moves the padded operand")
        return yes(why.why)

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        padding, padded, _ = self._find(at)
        assert padding is not None  # as `explain` found
        state = at.state.do(steps.SkipPadding(at.name, padded))
        parts, inner = (self.structure.lower().count(kind) for kind in "sr")
        mark = steps.Annotate(at.name, f"{padding.others[-1].name}.{parts - 1}", "vectorize")
        host = at.facts.fusible_consumer(at.name).name
        lengths = _lengths(padding, self.strided if padding.strided else self.tile, parts)
        lengths |= {tap.name: (*[0] * (inner - 2), tap.extent) for tap in padding.taps}
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
            return (
                None,
                "",
                no(f"cannot skip the padding of {at.name}: its loops are already split"),
            )
        reuse = at.facts.needs_tiling(at.name)
        if not reuse:
            return None, "", reuse
        for name in at.facts.own_producers(at.name):
            found, why = find_padding(at.state.stage(name).node, at.stage.node)
            if found is not None:
                return found, name, why
        return (
            None,
            "",
            no(f"cannot skip the padding of {at.name}: it reads no tensor padded with zeros"),
        )


def _lengths(padding: Padding, most: int, parts: int) -> dict[str, Lengths]:
    """Return the lengths of the inner parts of the axes that decide the condition."""
    answer: dict[str, Lengths] = {}
    for *phases, axis in reversed(padding.dimensions):
        length = _even_cut(axis.extent, most)
        if length > 1:  # the other axes of its condition are split once, too
            answer |= {phase.name: _once(phase, 1, parts) for phase in phases}
            answer[axis.name] = _once(axis, length, parts)
        else:
            answer |= {each.name: (*[0] * (parts - 2), 1) for each in (*phases, axis)}
        most = max(1, most // length) if length == axis.extent else 1
    return answer


def _even_cut(extent: int, most: int) -> int:
    """Return the length of the fewest equal parts of at most `most` elements."""
    return -(-extent // -(-extent // most))


def _once(axis: Axis, length: int, parts: int) -> Lengths:
    return (*[1] * (parts - 3), -(-axis.extent // length), length)
