"""Winograd: compute a convolution by transforms around a matrix product, in blocks of tiles."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansorpy.expr.expr import Call, walk
from ansorpy.rewrites.winograd import Convolution, known, recognise
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import State
from ansorpy.state.steps import (
    Annotate,
    ComputeAt,
    ComputeInline,
    FollowSplit,
    Reorder,
    Split,
)
from ansorpy.state.steps import Winograd as Reformulate
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute

PLACES = 64  # positions of a transformed window: one register tile holds them


@dataclass(frozen=True, slots=True)
class Winograd(Rule):
    """Compute a convolution by F(outputs, taps) in every sliding dimension.

    Condition   the stage is a convolution whose window slides by 1, or a dilated one, divided by
                the remainders of its positions (rewrites.winograd.recognise); its loops are not
                split; there are transforms for its taps, of at most 64 positions; every sliding
                dimension has at least `outputs` elements
    Rewrite     (S, i)  ->  (S', i - 1); later rules are tried too. The nest stands in `host`: the
                one consumer that takes the stage element by element (the stage is inlined then),
                or else the stage itself (of a dilated one: the remainders, which are batches
                too). For sliding axes y x, filters f, channels c, batch n:
                host       n.0 y.0 x.0 f.0 | n.1 y.1 x.1 f.1 | y.2 = x.2 = outputs, f.2 = lanes
                output..   at f.1 of the host
                products   at f.0 of the host: places f.0 n.0 y.0 x.0 | c | n.1 y.1 x.1 f.1
                data..     at x.0 of the host: n y x c.0 | places, c.1 = lanes
                weights..  f.0 | places, f.1 = lanes: ahead of time if they are constant
                window     n y x.0 c.0 | x.1 = c.1 = lanes: a transpose in registers
    Not handled the convolutions that `recognise` refuses
    Source      Lavin and Gray, CVPR 2016, section 4; the blocks keep data, weights and products
                of one block within the second cache, as in Jia, Zlateski, Durand and Li,
                Optimizing N-dimensional, Winograd-based convolution for manycore CPUs, PPoPP 2018.
    """

    outputs: int

    def explain(self, at: Cursor) -> Answer:
        """Name the sliding axes, or the obstacle."""
        conv, why = recognise(at.stage.node)
        if conv is None:
            return why
        if at.facts.divided(at.name):
            return no(f"cannot transform {at.name}: its loops are already split")
        if at.facts.has_cache_write(at.name):
            return no(f"cannot transform {at.name}: it is a cache-write stage")
        extents = {axis.name: axis.extent for axis in conv.node.axes}
        refused, size = f"cannot transform {at.name}", self.outputs
        for slide in conv.slides:
            if not known(self.outputs, slide.taps):
                return no(f"{refused}: no transforms F({size}, {slide.taps}) exist")
            if extents[slide.axis] < self.outputs:
                return no(f"{refused}: {slide.axis} is shorter than a tile of {size}")
        places = prod(self.outputs + slide.taps - 1 for slide in conv.slides)
        if places > PLACES:
            return no(f"{refused}: a window has {places} positions, more than {PLACES}")
        return yes(f"{why.why}; F({self.outputs}, taps) has {places} products a tile")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        conv, _ = recognise(at.stage.node)
        assert conv is not None  # as `explain` found
        host = at.facts.fusible_consumer(at.name).name
        if host is not None and at.facts.reduces(host):
            host = None
        state = at.state.do(Reformulate(at.name, self.outputs))
        if host is not None:
            state = state.do(ComputeInline(at.name))
        place = host or at.name if conv.whole is None else conv.node.name
        nest = _Nest(conv, self.outputs, place, at.target.lanes(conv.node.dtype))
        state = nest.host_tiles(state)
        state = nest.products(state)
        state = nest.data(state)
        state = nest.weights(state, at.target.lanes("float64"))
        state = nest.window(state, _free_source(at, conv))
        yield at.before(state)


def _free_source(at: Cursor, conv: Convolution) -> str | None:
    """Return the source of the data if it may be computed inside the window, else None."""
    name = conv.data.tensor
    node = at.state.stage(name).node
    if not isinstance(node, Compute) or node.combiner is not None or name in at.state.dag.outputs:
        return None
    if at.facts.consumers(name) != (at.name,) or at.facts.divided(name):
        return None
    dear = any(isinstance(part, Call) for body in node.body for part in walk(body))
    return None if dear else name


class _Nest:
    """Loop nests of the stages, whose loops have the names of the convolution's axes."""

    def __init__(self, conv: Convolution, outputs: int, host: str, lanes: int) -> None:
        self.conv, self.outputs, self.host, self.lanes = conv, outputs, host, lanes
        self.name = conv.node.name
        self.extents = {axis.name: axis.extent for axis in conv.node.axes}
        self.dims = len(conv.slides)
        self.long = tuple(name for name in conv.batch if self.extents[name] > 1)
        self.channel, self.filter = conv.depth[-1], conv.filters[-1]

    def host_tiles(self, state: State) -> State:
        """Tile the host stage, and attach the output transforms."""
        host, conv = self.host, self.conv
        own = {
            a.name: loop.name
            for a, loop in zip(conv.node.axes, state.stage(host).loops, strict=True)
        }
        rows, batch = [own[s.axis] for s in conv.slides], [own[name] for name in self.long]
        last = own[self.filter]
        for loop in rows:
            state = state.do(Split(host, loop, 3, (0, self.outputs)))
        for loop in batch:  # a last part of 1 keeps the middle part from being unrolled
            state = state.do(Split(host, loop, 3, (0, 1)))
        state = state.do(Split(host, last, 3, (0, self.lanes)))
        blocks, tiles, inner = (
            tuple(f"{loop}.{level}" for loop in (*batch, *rows)) for level in range(3)
        )
        short = tuple(own[name] for name in conv.batch if name not in self.long)
        others = tuple(own[name] for name in conv.filters[:-1])
        order = (*short, *blocks, *others, f"{last}.0", *tiles, f"{last}.1", *inner, f"{last}.2")
        state = state.do(Reorder(host, order), Annotate(host, f"{last}.2", "vectorize"))
        self.block, self.columns, self.vectors = blocks[-1], f"{last}.0", f"{last}.1"
        for number in range(self.dims - 1):
            state = self._output(state, f"{self.name}.output{number}", last)
        return state

    def _output(self, state: State, name: str, last: str) -> State:
        loops = [loop.name for loop in state.stage(name).loops]
        state = state.do(FollowSplit(name, self.filter, self.host, last, 2))
        return self._written_out(state, name, loops, self.filter, 3).do(
            ComputeAt(name, self.host, self.vectors)
        )

    def products(self, state: State) -> State:
        """Tile the matrix products."""
        name = f"{self.name}.products"
        loops = [loop.name for loop in state.stage(name).loops]
        conv, places = self.conv, loops[: self.dims]
        tiles = loops[self.dims + len(conv.batch) : 2 * self.dims + len(conv.batch)]
        split = (*self.long, *tiles)
        for loop in (*split, self.filter):
            state = state.do(Split(name, loop, 2))
        whole = [loop for loop in loops if loop not in (*split, self.filter, *conv.depth)]
        assert whole[: self.dims] == places
        order = (
            *whole, f"{self.filter}.0", *(f"{loop}.0" for loop in split), *conv.depth,
            *(f"{loop}.1" for loop in split), f"{self.filter}.1",
        )  # fmt: skip
        return state.do(
            Reorder(name, order),
            Annotate(name, f"{self.filter}.1", "vectorize"),
            ComputeAt(name, self.host, self.columns),
        )

    def data(self, state: State) -> State:
        """Unroll the transforms of the data, with vectors along the channels."""
        final = f"{self.name}.data{self.dims - 1}"
        loops = [loop.name for loop in state.stage(final).loops]
        state = state.do(Split(final, self.channel, 2, (self.lanes,)))
        state = self._written_out(state, final, loops, self.channel, 2)
        for number in range(self.dims - 1):
            name = f"{self.name}.data{number}"
            loops = [loop.name for loop in state.stage(name).loops]
            state = state.do(FollowSplit(name, self.channel, final, self.channel, 1))
            state = self._written_out(state, name, loops, self.channel, 2)
            state = state.do(ComputeAt(name, final, f"{self.channel}.0"))
        return state.do(ComputeAt(final, self.host, self.block))

    def weights(self, state: State, lanes: int) -> State:
        """Unroll the transforms of the weights, with vectors along the filters."""
        final = f"{self.name}.weights{self.dims - 1}"
        loops = [loop.name for loop in state.stage(final).loops]
        state = state.do(Split(final, self.filter, 2, (lanes,)))
        state = self._written_out(state, final, loops, self.filter, 2)
        for number in range(self.dims - 1):
            name = f"{self.name}.weights{number}"
            loops = [loop.name for loop in state.stage(name).loops]
            state = state.do(FollowSplit(name, self.filter, final, self.filter, 1))
            state = self._written_out(state, name, loops, self.filter, 2)
            state = state.do(ComputeAt(name, final, f"{self.filter}.0"))
        return state

    def window(self, state: State, source: str | None) -> State:
        """Transpose the data in squares of registers, padding included."""
        name, row = f"{self.name}.window", self.conv.slides[-1].axis
        if source is not None:
            state = state.do(ComputeInline(source))
        loops = [loop.name for loop in state.stage(name).loops]
        for loop in (row, self.channel):
            state = state.do(Split(name, loop, 2, (self.lanes,)))
        outer = [f"{loop}.0" if loop in (row, self.channel) else loop for loop in loops]
        order = (*outer, f"{row}.1", f"{self.channel}.1")
        return state.do(Reorder(name, order), Annotate(name, f"{self.channel}.1", "vectorize"))

    def _written_out(
        self, state: State, name: str, loops: list[str], lane: str, parts: int
    ) -> State:
        """Unroll the leading loops, one per sliding dimension; only the lanes are inside them."""
        places, rest = loops[: self.dims], loops[self.dims :]
        outer = [
            part
            for loop in rest
            for part in ([f"{lane}.{q}" for q in range(parts - 1)] if loop == lane else [loop])
        ]
        # The lane axis goes last: earlier transforms are computed at its loop.
        outer.sort(key=lambda part: part.startswith(f"{lane}."))
        state = state.do(*(Annotate(name, place, "unroll") for place in places))
        final = f"{lane}.{parts - 1}"
        state = state.do(Reorder(name, (*outer, *places, final)))
        return state.do(Annotate(name, final, "vectorize"))
