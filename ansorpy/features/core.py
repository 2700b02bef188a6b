"""Feature group 6: what a core is asked for: vector steps, loads, chains, bytes past its caches.

Ours, not Ansor's: the 164 count iterations and bytes of a loop nest; these count what the
register tile makes of them, with tails as long as they are (ADR-0036).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from ansorpy.features.access import LINE_BYTES, Touched
from ansorpy.features.region import Footprint
from ansorpy.features.tape import Tape, Value
from ansorpy.features.walk import Loop, Statement
from ansorpy.loopir.nodes import LoopKind
from ansorpy.target import Target
from ansorpy.te.expr import Binary, Call, Expr, variables, walk

NAMES: Final = (
    "core.timed", "core.work", "core.steps", "core.tiles", "core.chains", "core.registers",
    "core.loads", "core.split_loads", "core.broadcasts", "core.gathers", "core.moves",
    "core.horizontal", "core.functions", "core.divides",
    "core.past_l1_bytes", "core.past_l2_bytes", "core.past_l2_waits",
)  # fmt: skip
_ROOTS: Final = frozenset(("sqrt", "rsqrt"))  # one instruction, about as long as a division
_FREE: Final = frozenset(("neg", "not", "abs", "floor", "ceil"))
_HELD: Final = 32  # vectors: more accumulators than this stay in memory
_STREAMS: Final = 16  # stretches of memory that are read side by side without waiting for each
_WINDOW_BYTES: Final = 4096  # what is on its way at once, whatever the order: about 64 lines
_WRITTEN_OUT: Final = (LoopKind.UNROLL, LoopKind.VECTOR)


def features(found: Touched, position: int, target: Target) -> list[Value]:
    """Return the features of the statement at `position`, in the order of NAMES.

    timed        1, or 0 in a phase that is done ahead
    work, steps  iterations, one by one and as vectors, tails at their true length
    tiles        register tiles that are run
    chains       independent accumulators; without a reduction the vectors of the tile
    registers    vectors that are live at once
    loads, broadcasts, gathers    vectors read, by how their lanes lie in memory
    split_loads  those of the loads that may straddle two cache lines
    moves        vectors stored, and accumulators read before
    horizontal   vectors whose lanes are combined with each other
    functions, divides            vectors of exp and its like, of divisions and roots; what does
                 not change in the innermost loops is computed outside of them
    past_l1_bytes, past_l2_bytes  whole lines that come from beyond the cache, in warm calls
    past_l2_waits  how often the walk through them begins anew, where no prefetcher follows
    """
    return _Core(found, position, target).features()


@dataclass(frozen=True, eq=False)
class _Count:
    """Executions of a group of loops that share axes: one by one, as vectors, as tiles."""

    work: Value
    steps: Value
    tiles: Value


class _Core:
    def __init__(self, found: Touched, position: int, target: Target) -> None:
        self.found = found
        self.tape: Tape = found.made.tape
        self.target = target
        self.statement: Statement = found.made.statements[position]
        self.footprints: Sequence[Footprint] = found.footprints[position]
        widest = max(access.element_bytes for access in self.statement.accesses)
        self.lanes = max(1, target.vector_bits // 8 // widest)
        loops = self.statement.loops
        first = len(loops)
        while first > 0 and loops[first - 1].kind in _WRITTEN_OUT:
            first -= 1
        self.outer, self.tile = loops[:first], loops[first:]

    def features(self) -> list[Value]:
        one = self.tape.const(1)
        count = self._counted()
        vectors = self._product(self.tile)
        share = count.steps / vectors  # of a tile, for each of its vectors
        kept = self._product([loop for loop in self.tile if self._written.moves(loop)])
        reads = self._reads(share)
        functions, divides = self._heavy(count.steps)
        return [
            self.tape.const(not self.statement.ahead),
            count.work, count.steps, count.tiles,
            kept if self._combines else vectors,
            kept + self._operands(),
            *reads,
            self._moves(count.steps, kept, share * kept),
            count.steps if self._across_lanes else one * 0,
            functions, divides,
            self._past(self.target.l1_bytes), self._past(self.target.l2_bytes), self._waits(),
        ]  # fmt: skip

    @property
    def _written(self) -> Footprint:
        return self.footprints[0]

    @property
    def _combines(self) -> bool:
        return self.statement.store.combiner is not None

    @property
    def _vector(self) -> Loop | None:
        return next((loop for loop in self.tile if loop.kind is LoopKind.VECTOR), None)

    @property
    def _across_lanes(self) -> bool:
        lane = self._vector
        return self._combines and lane is not None and not self._written.moves(lane)

    def _extent(self, loop: Loop, extent: Value | None = None) -> Value:
        """Return the extent of a loop, in vectors where it is the lanes'."""
        extent = loop.extent if extent is None else extent
        return extent.ceildiv(self.lanes) if loop.kind is LoopKind.VECTOR else extent

    def _product(self, loops: Sequence[Loop]) -> Value:
        return reduce(Value.__mul__, map(self._extent, loops), self.tape.const(1))

    def _counted(self) -> _Count:
        """Return how often the statement runs, tails at their true length."""
        zero, one = self.tape.const(0), self.tape.const(1)
        values = self.found.made.zeroed(self.statement.loops)
        last: dict[str, Value] = {}
        for loop in self.statement.loops:
            extent = self.tape.of(loop.length, {**values, **self._minus_one(last)})
            last[loop.var] = extent.at_least(1)
        answer = _Count(one, one, one)
        for group in _groups(self.statement.loops):
            work, steps, tiles = zero, zero, zero
            inner, vectors, outside = one, one, one  # what one iteration further out holds
            for loop in reversed(group):
                end = last[loop.var]
                innermost = loop is group[-1]
                tiled = loop in self.tile
                work = end if innermost else work + (end - 1) * inner
                steps = self._extent(loop, end) if innermost else steps + (end - 1) * vectors
                if innermost:
                    tiles = one if tiled else end
                elif not tiled:
                    tiles = tiles + (end - 1) * outside
                inner = inner * loop.extent
                vectors = vectors * self._extent(loop)
                outside = outside if tiled else outside * loop.extent
            answer = _Count(answer.work * work, answer.steps * steps, answer.tiles * tiles)
        return answer

    def _minus_one(self, last: dict[str, Value]) -> dict[str, Value]:
        return {var: value - 1 for var, value in last.items()}

    def _operands(self) -> Value:
        """Return how many vectors are loaded for one step through the tile, and a broadcast."""
        lane = self._vector
        if lane is None:
            return self.tape.const(2)
        moved = any(each.access.reads and each.moves(lane) for each in self.footprints[1:])
        return self._extent(lane) + 1 if moved else self.tape.const(1)

    def _reads(self, share: Value) -> tuple[Value, Value, Value, Value]:
        """Return vectors that are loaded, those of them that are split, broadcast, gathered."""
        zero = self.tape.const(0)
        loads, splits, broadcasts, gathers = zero, zero, zero, zero
        lane = self._vector
        for footprint in self.footprints:
            if not footprint.access.reads or footprint is self._written:
                continue
            moving = [loop for loop in self.tile if footprint.moves(loop)]
            count = share * self._product(moving) * len(footprint.access.indices)
            if lane is None:
                loads = loads + count
            elif not footprint.moves(lane):
                broadcasts = broadcasts + count
            else:
                near = footprint.step(lane).same(1)
                count = self.tape.where(near, count * self._slid(footprint, lane), count)
                loads = loads + self.tape.where(near, count, 0)
                gathers = gathers + self.tape.where(near, 0, count)
                split = self.tape.where(self._aligned(footprint, lane), 0, count)
                splits = splits + self.tape.where(near, split, 0)
        return loads, splits, broadcasts, gathers

    def _slid(self, footprint: Footprint, lane: Loop) -> Value:
        """Return the share of its vectors that is loaded by a tile that sums a window by itself.

        Its rows slide over the window (`loopir.passes.slide`): of r * p vectors r + p - 1 differ.
        """
        one = self.tape.const(1)
        window = self._window()
        if not window or not self._written.moves(lane):
            return one
        size = self._product(self.tile) * self._product(window)
        fits = size <= self.statement.unroll
        share = one
        for row in self.tile:
            if row is lane:
                continue
            if not footprint.moves(row):  # what it reads would have to wait for the next row
                fits = self.tape.apply("and", fits, row.extent <= 1)
                continue
            for point in filter(footprint.moves, window):
                differ = (row.extent + point.extent - 1) / (row.extent * point.extent)
                same = footprint.step(row).same(footprint.step(point))
                share = share * self.tape.where(same, differ, 1)
        return one if share.is_constant else self.tape.where(fits, share, 1)

    def _window(self) -> list[Loop]:
        """Return the innermost loops around the tile that the target does not move with."""
        found: list[Loop] = []
        for loop in reversed(self.outer):
            if not self._combines or self._written.moves(loop) or loop.kind is not LoopKind.SERIAL:
                break
            found.append(loop)
        return found

    def _aligned(self, footprint: Footprint, lane: Loop) -> Value:
        """Return whether every loop moves the vectors of an access by whole vectors."""
        answer = self.tape.const(1)
        for loop in self.statement.loops:
            if loop is lane or not footprint.moves(loop):
                continue
            step = footprint.step(loop)
            whole = step.floordiv(self.lanes) * self.lanes
            fits = self.tape.apply("or", step.same(whole), loop.extent <= 1)
            answer = self.tape.apply("and", answer, fits)
        return answer

    def _heavy(self, steps: Value) -> tuple[Value, Value]:
        """Return vectors of functions, and of divisions and roots."""
        functions, divides = self.tape.const(0), self.tape.const(0)
        for value in self.statement.store.values:
            for part in walk(value):
                kind = _weight(part)
                if kind == "function":
                    functions = functions + self._hoisted(part, steps)
                elif kind == "divide":
                    divides = divides + self._hoisted(part, steps)
        return functions, divides

    def _hoisted(self, expr: Expr, steps: Value) -> Value:
        """Return how often an expression is computed that stands in no loop it does not need."""
        needed = self.found.made.variables(expr)
        times = steps
        for loop in reversed(self.statement.loops):
            if loop.var in needed:
                break
            times = times / self._extent(loop)
        return times.at_least(1)

    def _moves(self, steps: Value, kept: Value, stored: Value) -> Value:
        """Return vectors stored, and read before where they accumulate.

        A tile that the registers hold stays there while the loops around it do not move it.
        """
        if not self._combines:
            return steps
        held, still = self.tape.const(1), self.tape.const(1)
        for loop in reversed(self.outer):
            if self._written.moves(loop):
                still = self.tape.where(loop.extent > 1, 0, still)
            else:
                held = self.tape.where(still, held * loop.extent, held)
        held = self.tape.where(kept > _HELD, 1, held)
        return stored * 2 / held

    def _past(self, capacity_bytes: int) -> Value:
        """Return the bytes that come from beyond a cache.

        From the inside out: while what all statements touch in one iteration of a loop fits, the
        loop fetches its footprint once; from there on every iteration fetches all again.
        """
        parts = (self._past_of(each, capacity_bytes) for each in self.footprints)
        return reduce(Value.__add__, parts, self.tape.const(0))

    def _past_of(self, footprint: Footprint, capacity_bytes: int) -> Value:
        size = footprint.access.element_bytes
        bytes_ = self._lines(footprint, len(self.statement.loops)) * size
        for depth in range(len(self.statement.loops) - 1, -1, -1):
            loop = self.statement.loops[depth]
            if loop.extent.equals(1):
                continue
            fits = self.found.per_iteration(loop) <= capacity_bytes
            whole = self._lines(footprint, depth) * size
            bytes_ = self.tape.where(fits, whole, bytes_ * loop.extent)
        bytes_ = bytes_ * 2 if footprint.access.writes else bytes_
        return self.tape.where(self.found.whole_bytes <= capacity_bytes, 0, bytes_)

    def _waits(self) -> Value:
        """Return how many regions are begun beyond the second cache.

        A region is what is walked, from the inside out, as long as it consists of few stretches
        of memory: rows side by side are one, the next strip of columns is another.
        """
        total = self.tape.const(0)
        for footprint in self.footprints:
            size = footprint.access.element_bytes
            whole = reduce(Value.__mul__, footprint.access.shape, self.tape.const(size))
            small = whole <= self.target.l2_bytes
            if small.equals(1):
                continue  # a smaller tensor soon lies in the cache
            region = (self._region(footprint) * size).at_least(_WINDOW_BYTES)
            waits = self._past_of(footprint, self.target.l2_bytes) / region
            total = total + self.tape.where(small, 0, waits)
        return total

    def _region(self, footprint: Footprint) -> Value:
        """Return the elements that are walked as at most 16 stretches of memory."""
        walked, still = self.tape.const(1), self.tape.const(1)
        for depth in range(len(self.statement.loops) - 1, -1, -1):
            if self.statement.loops[depth].extent.equals(1):
                continue
            elements, dims = footprint.elements[depth], footprint.dims[depth]
            run = dims[-1] if dims else self.tape.const(1)
            if len(dims) > 1:  # whole rows go on in the next one
                run = self.tape.where(footprint.access.shape[-1] <= run, run * dims[-2], run)
            still = self.tape.where(elements <= run * _STREAMS, still, 0)
            walked = self.tape.where(still, elements, walked)
        return walked

    def _lines(self, footprint: Footprint, depth: int) -> Value:
        """Return the elements of a footprint, and those that share a line with one of them."""
        run = footprint.dims[depth][-1] if footprint.dims[depth] else self.tape.const(1)
        in_line = LINE_BYTES // footprint.access.element_bytes
        limit = reduce(Value.__mul__, footprint.access.shape, self.tape.const(1))
        return (footprint.elements[depth] / run.at_most(in_line) * in_line).at_most(limit)


def _groups(loops: Sequence[Loop]) -> list[list[Loop]]:
    """Return the loops by the axes that they share: the extent of one mentions the other."""
    groups: list[list[Loop]] = []
    for loop in loops:
        mentioned = variables(loop.length)
        mine = [group for group in groups if any(each.var in mentioned for each in group)]
        groups = [group for group in groups if group not in mine]
        groups.append([*(each for group in mine for each in group), loop])
    order = {loop.var: i for i, loop in enumerate(loops)}
    return [sorted(group, key=lambda loop: order[loop.var]) for group in groups]


def _weight(part: Expr) -> str:
    """Return "function", "divide" or "" for the root of an expression."""
    match part:
        case Binary(op="pow"):
            return "function"
        case Binary(op="div"):
            return "divide"
        case Call(fn=fn) if fn not in _FREE:
            return "divide" if fn in _ROOTS else "function"
        case _:
            return ""
