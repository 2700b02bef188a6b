"""Feature group 6: what a core is asked for: vector steps, loads, chains, bytes past its caches.

Ours, not Ansor's: the 164 count iterations and bytes of a loop nest; these count what the
register tile makes of them, with tails as long as they are (ADR-0036).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from ansorpy.expr.expr import (
    Binary,
    Call,
    Expr,
    variables,
    walk,
)
from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.integers import combines_integers, integers
from ansorpy.features.occupancy import Caches
from ansorpy.features.region import Footprint
from ansorpy.features.traffic import Traffic
from ansorpy.features.walk import EnclosingLoop, StoreStatement
from ansorpy.loopir.nodes import LoopKind
from ansorpy.target import Target

NAMES: Final = (
    "core.timed", "core.work", "core.steps", "core.tiles", "core.chains", "core.registers",
    "core.loads", "core.split_loads", "core.broadcasts", "core.gathers",
    "core.moves", "core.transposes", "core.horizontal",
    "core.functions", "core.divides", "core.integers", "core.index_divides",
    "core.past_l1_bytes", "core.past_l2_bytes", "core.past_l2_waits", "core.past_l2_stretches",
    "core.past_l3_bytes",
)  # fmt: skip
_ROOTS: Final = frozenset(("sqrt", "rsqrt"))  # one instruction, about as long as a division
_FREE: Final = frozenset(("neg", "not", "abs", "floor", "ceil"))
_HELD: Final = 32  # vectors: more accumulators than this stay in memory
_WORTH: Final = 4  # as many vectors are transposed at once rather than gathered
_WRITTEN_OUT: Final = (LoopKind.UNROLL, LoopKind.VECTOR, LoopKind.GROUP)
_BLOCK: Final = 16  # rows, lanes and groups of an instruction on matrices
_MATRIX_BYTES: Final = 1024  # of a whole one
_MATRIX_SUMS: Final = 4  # that accumulate at a time
_MATRIX_LOADS: Final = 8  # vectors whose loads take as long as that of a matrix
_MATRIX_MOVES: Final = 3  # vectors whose moves take as long as that of a matrix


def features(caches: Caches, position: int, target: Target) -> list[ColumnValue]:
    """Return the features of the statement at `position`, in the order of NAMES.

    timed        1, or 0 in a phase that is done ahead
    work, steps  iterations, one by one and as vectors, tails at their true length
    tiles        register tiles that are run
    chains       independent accumulators; without a reduction the vectors of the tile
    registers    vectors that are live at once
    loads, broadcasts, gathers    vectors read, by how their lanes lie in memory
    split_loads  those of the loads that may straddle two cache lines
    moves        vectors stored, and accumulators read before
    transposes   those of them whose lanes do not lie side by side in memory, not in `moves`; and
                 vectors read so
    horizontal   vectors whose lanes are combined with each other
    functions, divides            vectors of exp and its like, of divisions and roots; what does
                 not change in the innermost loops is computed outside of them
    integers, index_divides   vectors of integers and conditions, and of divided places in buffers,
                 what is equal all through a tile once
    past_l1_bytes, past_l2_bytes, past_l3_bytes
                 whole lines that come from beyond the cache, in warm calls
    past_l2_waits  how often the walk through them begins anew, where no prefetcher follows
    past_l2_stretches  stretches of memory without a gap that are read from there

    Of an instruction on matrices every row is a step, and every product a tile.
    """
    grouped = any(x.kind is LoopKind.GROUP for x in caches.found.made.statements[position].loops)
    made = _Matrices if grouped else _Core
    return made(caches, position, target).features()


@dataclass(frozen=True, eq=False)
class _Count:
    """Executions of a group of loops that share axes: one by one, as vectors, as tiles."""

    work: ColumnValue
    steps: ColumnValue
    tiles: ColumnValue


class _Core:
    def __init__(self, caches: Caches, position: int, target: Target) -> None:
        self.caches = caches
        self.found = found = caches.found
        self.builder: ColumnBuilder = found.made.builder
        self.target = target
        self.statement: StoreStatement = found.made.statements[position]
        self.footprints: Sequence[Footprint] = found.footprints[position]
        widest = max(access.element_bytes for access in self.statement.accesses)
        self.lanes = max(1, target.vector_bits // 8 // widest)
        # What one instruction sums is one step: it has no loop, and its elements lie together.
        self.loops = loops = [x for x in self.statement.loops if x.kind is not LoopKind.DOT]
        self.summed = [x for x in self.statement.loops if x.kind is LoopKind.DOT]
        first = len(loops)
        while first > 0 and loops[first - 1].kind in _WRITTEN_OUT:
            first -= 1
        self.outer, self.tile = loops[:first], loops[first:]

    def features(self) -> list[ColumnValue]:
        count = self._counted()
        vectors = self._product(self.tile)
        share = count.steps / vectors  # of a tile, for each of its vectors
        traffic = Traffic(self.caches, self.statement, self.footprints)
        near, far = (
            self._asked_for(each, share)
            for each in (traffic.past(self.caches.first), traffic.far())
        )
        return [
            self.builder.const(not self.statement.ahead),
            count.work, *self._issued(count, vectors, share),
            near, far, traffic.waits(), traffic.stretches(),
            self.builder.where(self.found.whole_bytes <= self.target.l3_bytes, 0, far),
        ]  # fmt: skip

    def _asked_for(self, past: ColumnValue, _share: ColumnValue) -> ColumnValue:
        """Return the bytes from beyond a cache where every iteration asks for its own."""
        return past

    def _issued(self, count: _Count, vectors: ColumnValue, share: ColumnValue) -> list[ColumnValue]:
        """Return the features from `steps` to `index_divides`."""
        kept = self._product([loop for loop in self.tile if self._written.moves(loop)])
        *reads, turned = self._reads(share)
        moved, transposed = self._moves(count.steps, kept, share * kept)
        functions, divides = self._heavy(count.steps)
        return [
            count.steps, count.tiles,
            kept if self._combines else vectors,
            kept + self._operands(),
            *reads,
            moved, transposed + turned,
            count.steps if self._across_lanes else self.builder.const(0),
            functions, divides, *self._integers(count.steps),
        ]  # fmt: skip

    @property
    def _written(self) -> Footprint:
        return self.footprints[0]

    @property
    def _combines(self) -> bool:
        return self.statement.store.combiner is not None

    @property
    def _vector(self) -> EnclosingLoop | None:
        return next((loop for loop in self.tile if loop.kind is LoopKind.VECTOR), None)

    @property
    def _across_lanes(self) -> bool:
        lane = self._vector
        return self._combines and lane is not None and not self._written.moves(lane)

    def _extent(self, loop: EnclosingLoop, extent: ColumnValue | None = None) -> ColumnValue:
        """Return the extent of a loop, in vectors where it is the lanes'."""
        extent = loop.extent if extent is None else extent
        return extent.ceildiv(self.lanes) if loop.kind is LoopKind.VECTOR else extent

    def _product(self, loops: Sequence[EnclosingLoop]) -> ColumnValue:
        return reduce(ColumnValue.__mul__, map(self._extent, loops), self.builder.const(1))

    def _counted(self) -> _Count:
        """Return how often the statement runs, tails at their true length."""
        zero, one = self.builder.const(0), self.builder.const(1)
        values = self.found.made.zeroed(self.loops)
        last: dict[str, ColumnValue] = {}
        for loop in self.loops:
            extent = self.builder.of(loop.length, {**values, **self._minus_one(last)})
            last[loop.var] = extent.at_least(1)
        answer = _Count(one, one, one)
        for group in _groups(self.loops):
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

    def _minus_one(self, last: dict[str, ColumnValue]) -> dict[str, ColumnValue]:
        return {var: value - 1 for var, value in last.items()}

    def _operands(self) -> ColumnValue:
        """Return how many vectors are loaded for one step through the tile, and a broadcast."""
        lane = self._vector
        if lane is None:
            return self.builder.const(2)
        moved = any(each.access.reads and each.moves(lane) for each in self.footprints[1:])
        return self._extent(lane) + 1 if moved else self.builder.const(1)

    def _reads(
        self, share: ColumnValue
    ) -> tuple[ColumnValue, ColumnValue, ColumnValue, ColumnValue, ColumnValue]:
        """Return vectors loaded, those of them that are split, broadcast, gathered, transposed.

        Every other element comes from two vectors and a shuffle; lanes far apart are transposed
        where the tile walks along memory (`codegen.simd.strided`).
        """
        zero = self.builder.const(0)
        loads, splits, broadcasts, gathers, turned = zero, zero, zero, zero, zero
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
                near = self._near(footprint, lane)
                count = self.builder.where(near, count * self._slid(footprint, lane), count)
                far = self.builder.where(near, 0, count)
                other = self._lanes_apart(footprint, lane).same(2)
                loads = loads + self.builder.where(
                    near, count, self.builder.where(other, far * 3, 0)
                )
                far = self.builder.where(other, 0, far)
                rows = self._along(footprint, lane)
                turned = turned + self.builder.where(rows, far, 0)
                gathers = gathers + self.builder.where(rows, 0, far)
                split = self.builder.where(self._aligned(footprint, lane), 0, count)
                splits = splits + self.builder.where(near, split, 0)
        return loads, splits, broadcasts, gathers, turned

    def _near(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return whether the lanes of an access lie side by side."""
        return self._lanes_apart(footprint, lane).same(1)

    def _lanes_apart(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return how far apart lanes lie, in elements or in what one instruction sums of them."""
        together = [loop for loop in self.summed if footprint.moves(loop)]
        return footprint.step(lane) / self._product(together)

    def _along(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return whether an unrolled loop of the tile walks along memory far enough."""
        answer = self.builder.const(0)
        for loop in self.tile:
            if loop is not lane and footprint.moves(loop):
                near = footprint.step(loop).same(1)
                enough = self.builder.apply("and", near, loop.extent > _WORTH - 1)
                answer = self.builder.apply("or", answer, enough)
        return answer

    def _slid(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return the share of its vectors that is loaded by a tile that sums a window by itself.

        Its rows slide over the window (`loopir.passes.slide`): of r * p vectors r + p - 1 differ.
        """
        one = self.builder.const(1)
        window = self._window()
        if not window or not self._written.moves(lane):
            return one
        fits = self._written_out(window)
        share = one
        for row in self.tile:
            if row is lane:
                continue
            if not footprint.moves(row):  # what it reads would have to wait for the next row
                fits = self.builder.apply("and", fits, row.extent <= 1)
                continue
            for point in filter(footprint.moves, window):
                differ = (row.extent + point.extent - 1) / (row.extent * point.extent)
                same = footprint.step(row).same(footprint.step(point))
                share = share * self.builder.where(same, differ, 1)
        return one if share.is_constant else self.builder.where(fits, share, 1)

    def _written_out(self, window: Sequence[EnclosingLoop]) -> ColumnValue:
        """Return whether the tile and the loops around it are written out together."""
        return self._product(self.tile) * self._product(window) <= self.statement.unroll

    def _window(self) -> list[EnclosingLoop]:
        """Return the innermost loops around the tile that the target does not move with."""
        found: list[EnclosingLoop] = []
        for loop in reversed(self.outer):
            if not self._combines or self._written.moves(loop) or loop.kind is not LoopKind.SERIAL:
                break
            found.append(loop)
        return found

    def _aligned(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return whether every loop moves the vectors of an access by whole vectors."""
        answer = self.builder.const(1)
        for loop in self.loops:
            if loop is lane or not footprint.moves(loop):
                continue
            step = footprint.step(loop)
            whole = step.floordiv(self.lanes) * self.lanes
            fits = self.builder.apply("or", step.same(whole), loop.extent <= 1)
            answer = self.builder.apply("and", answer, fits)
        return answer

    def _heavy(self, steps: ColumnValue) -> tuple[ColumnValue, ColumnValue]:
        """Return vectors of functions, and of divisions and roots."""
        functions, divides = self.builder.const(0), self.builder.const(0)
        for value in self.statement.store.values:
            for part in walk(value):
                kind = _weight(part)
                if kind == "function":
                    functions = functions + self._hoisted(part, steps)
                elif kind == "divide":
                    divides = divides + self._hoisted(part, steps)
        return functions, divides

    def _integers(self, steps: ColumnValue) -> tuple[ColumnValue, ColumnValue]:
        """Return vectors of integers and conditions that are computed, and of divided indices.

        What a condition is about are places: only its comparisons are counted, not the sums in it.
        """
        plain, divided = self.builder.const(0), self.builder.const(0)
        store = self.statement.store
        if combines_integers(store):
            plain = plain + steps
        if store.combiner in ("argmax", "argmin"):
            plain = plain + steps
        for part, divides in integers(store):
            if divides:
                divided = divided + self._distinct(part, steps)
            else:
                plain = plain + self._distinct(part, steps)
        return plain, divided

    def _distinct(self, expr: Expr, steps: ColumnValue) -> ColumnValue:
        """Return how often an expression is computed where a tile computes equal ones once."""
        needed = variables(expr)
        window = self._window()
        times, innermost, one = steps, True, self.builder.const(1)
        for loop in reversed(self.loops):
            innermost = innermost and loop.var not in needed
            if innermost or (loop in self.tile and loop.var not in needed):
                times = times / self._extent(loop)
            elif loop in window and loop.var not in needed:
                times = times / self.builder.where(self._written_out(window), loop.extent, one)
        return times.at_least(1)

    def _hoisted(self, expr: Expr, steps: ColumnValue) -> ColumnValue:
        """Return how often an expression is computed that stands in no loop it does not need."""
        needed = variables(expr)
        times = steps
        for loop in reversed(self.loops):
            if loop.var in needed:
                break
            times = times / self._extent(loop)
        return times.at_least(1)

    def _moves(
        self, steps: ColumnValue, kept: ColumnValue, stored: ColumnValue
    ) -> tuple[ColumnValue, ColumnValue]:
        """Return vectors stored, and read before where they accumulate; and those across lines.

        A tile that the registers hold stays there while the loops around it do not move it.
        Vectors whose lanes do not lie side by side are transposed in registers.
        """
        moved = self._moved(steps, kept, stored)
        lane, zero = self._vector, self.builder.const(0)
        if lane is None or not self._written.moves(lane):
            return moved, zero
        near = self._near(self._written, lane)
        return self.builder.where(near, moved, 0), self.builder.where(near, 0, moved)

    def _moved(self, steps: ColumnValue, kept: ColumnValue, stored: ColumnValue) -> ColumnValue:
        if not self._combines:
            return steps
        held, still = self.builder.const(1), self.builder.const(1)
        for loop in reversed(self.outer):
            if self._written.moves(loop):
                still = self.builder.where(loop.extent > 1, 0, still)
            else:
                held = self.builder.where(still, held * loop.extent, held)
        held = self.builder.where(kept > _HELD, 1, held)
        return stored * 2 / held


class _Matrices(_Core):
    """A statement that one instruction on matrices sums (`loopir.passes.dot`)."""

    def _issued(self, count: _Count, vectors: ColumnValue, share: ColumnValue) -> list[ColumnValue]:
        zero = self.builder.const(0)
        sums, products, loaded = self._products(share)
        return [
            products * _BLOCK, products, sums.at_most(_MATRIX_SUMS), sums,
            loaded * _MATRIX_LOADS, zero, zero, zero,
            share * sums * _MATRIX_MOVES * self._moved_twice(), zero,
            zero, zero, zero, zero, zero,
        ]  # fmt: skip

    def _asked_for(self, past: ColumnValue, share: ColumnValue) -> ColumnValue:
        """Return at most what is loaded, and sums that are read and written back."""
        sums, _, loaded = self._products(share)
        return past.at_most((loaded + share * sums * 2) * _MATRIX_BYTES)

    def _moved_twice(self) -> ColumnValue:
        """Return 2, or 1 where a tile has its sums from the beginning: nothing is read before."""
        answer = self.builder.const(1)
        for loop in self.outer:
            if not self._written.moves(loop):
                answer = self.builder.where(loop.extent > 1, 2, answer)
        return answer

    def _products(self, share: ColumnValue) -> tuple[ColumnValue, ColumnValue, ColumnValue]:
        """Return the sums of a tile, and the products and matrices loaded of all `share` tiles."""
        rows, columns, groups = self._blocks()
        products = share * rows * columns * groups
        loaded = products * (self._shared(rows) + self._shared(columns))
        return rows * columns, products, loaded

    def _shared(self, blocks: ColumnValue) -> ColumnValue:
        """Return how many matrices of the other operand are loaded for one product."""
        return self.builder.const(1) / blocks.at_most(2)

    def _blocks(self) -> tuple[ColumnValue, ColumnValue, ColumnValue]:
        """Return the blocks of rows, of lanes and of groups of a tile."""
        one = self.builder.const(1)
        rows = [loop for loop in self.tile if loop.kind is LoopKind.UNROLL]
        lane = self._vector
        wide = [x for x in self.footprints[1:] if lane is not None and x.moves(lane)]
        apart = [loop for loop in rows if not any(each.moves(loop) for each in wide)]
        whole = self._product(rows)
        blocks = whole
        for loop in apart:  # the instruction takes its rows along that with the fewest blocks
            blocks = blocks.at_most(whole / loop.extent * loop.extent.ceildiv(_BLOCK))
        *others, group = [loop for loop in self.tile if loop.kind is LoopKind.GROUP]
        groups = self._product(others) * group.extent.ceildiv(_BLOCK)
        return blocks, one if lane is None else lane.extent.ceildiv(_BLOCK), groups


def _groups(loops: Sequence[EnclosingLoop]) -> list[list[EnclosingLoop]]:
    """Return the loops by the axes that they share: the extent of one mentions the other."""
    groups: list[list[EnclosingLoop]] = []
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
