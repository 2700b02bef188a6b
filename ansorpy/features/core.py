"""Feature group 6: the work of a core: vector steps, loads, chains, bytes beyond its caches.

Ours, not Ansor's. Ansor's 164 features count iterations and bytes of the loop nest; these count
the instructions and bytes of its register tiles, with tails at their true length (ADR-0008).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import (
    Binary,
    Call,
    Expr,
    Read,
    reads,
    variables,
    walk,
)
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.expr.gathers import index_reads
from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.integers import combines_integers, integers
from ansorpy.features.masks import Masks
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
_FREE: Final = frozenset(
    name for name, function in FUNCTIONS.items() if not function.roundoffs or name == "tf32"
)
_HELD: Final = 32  # vectors of accumulators that are kept in registers; more stay in memory
_APART: Final = 3  # loads that take as long as one of lanes two elements apart
_MASK_APART: Final = 4  # ... and as its mask, if that is not constant; measured ratio: 1.8 to 2.2
_WORTH: Final = 4  # vectors from which on a transpose is used in place of gathers
_WRITTEN_OUT: Final = (LoopKind.UNROLL, LoopKind.VECTOR, LoopKind.GROUP)
_LANE: Final = "float32"  # the dtype whose lanes give the bytes of a vector
_BLOCK: Final = 16  # rows, lanes and groups of a matrix instruction
_MATRIX_BYTES: Final = 1024  # bytes of a whole matrix register
_MATRIX_SUMS: Final = 4  # matrix registers that accumulate at a time
_MATRIX_LOADS: Final = 8  # vector loads that take as long as the load of a matrix register
_MATRIX_MOVES: Final = 3  # vector moves that take as long as the move of a matrix register


def features(caches: Caches, position: int, target: Target) -> list[ColumnValue]:
    """Return the features of the statement at `position`, in the order of NAMES.

    timed        1, or 0 in a phase that runs ahead of the timed calls
    work, steps  iterations as scalars and as vectors, tails at their true length
    tiles        executed register tiles
    chains       independent accumulators; without a reduction, the vectors of the tile
    registers    vectors that are live at a time
    loads, broadcasts, gathers    vectors read, by the memory layout of their lanes
    split_loads  loads that may straddle two cache lines
    moves        vectors stored, and accumulators read before
    transposes   vectors stored or read whose lanes are not adjacent in memory (not in `moves`)
    horizontal   vectors whose lanes are combined with each other
    functions, divides            vectors of exp and similar functions, of divisions and roots;
                 loop-invariant operations count once per hoisted execution
    integers, index_divides   vectors of integer and boolean operations, and of divisions in
                 buffer indices; operations that are equal all through a tile count once
    past_l1_bytes, past_l2_bytes, past_l3_bytes
                 bytes of whole lines from beyond the cache, in calls after the first
    past_l2_waits      starts of regions beyond L2 that no prefetcher anticipates
    past_l2_stretches  contiguous stretches of memory that are read from beyond L2

    For a matrix instruction, every row is a step and every product a tile.
    """
    grouped = any(
        x.kind is LoopKind.GROUP for x in caches.touched.stores.statements[position].loops
    )
    kind = _Matrices if grouped else _Core
    return kind(caches, position, target).features()


@dataclass(frozen=True, eq=False)
class _Count:
    """Executions of a group of loops that share axes: scalars, vectors, tiles."""

    work: ColumnValue
    steps: ColumnValue
    tiles: ColumnValue


class _Core:
    def __init__(self, caches: Caches, position: int, target: Target) -> None:
        self.caches = caches
        self.touched = touched = caches.touched
        self.builder: ColumnBuilder = touched.stores.builder
        self.target = target
        self.statement: StoreStatement = touched.stores.statements[position]
        self.footprints: Sequence[Footprint] = touched.footprints[position]
        # A dot-product instruction is one step: its loop is none, and its elements are adjacent.
        self.loops = loops = [x for x in self.statement.loops if x.kind is not LoopKind.DOT]
        self.summed = [x for x in self.statement.loops if x.kind is LoopKind.DOT]
        first = len(loops)
        while first > 0 and loops[first - 1].kind in _WRITTEN_OUT:
            first -= 1
        self.outer, self.tile = loops[:first], loops[first:]
        self.lanes = max(1, target.lanes(_LANE) * SIZE_BYTES[_LANE] // self._widest())
        self.last = self._last_extents()
        points = self._product(self.tile)
        self.masks = Masks(
            self.builder, self.statement, self._written, self.outer, self.last, points
        )

    def _widest(self) -> int:
        """Return the bytes of the widest element, without indices that all lanes share."""
        lane, store = self._vector, self.statement.store
        inner = frozenset[Read]().union(*map(index_reads, store.values))
        names = {*store.buffers}
        for read in (read for value in store.values for read in reads(value)):
            if read not in inner or (lane is not None and lane.var in variables(read)):
                names.add(read.tensor)
        return max(a.element_bytes for a in self.statement.accesses if a.buffer in names)

    def features(self) -> list[ColumnValue]:
        count = self._counted()
        vectors = self._product(self.tile)
        share = count.steps / vectors  # executions of each vector of the tile
        traffic = Traffic(self.caches, self.statement, self.footprints)
        near, far = (
            self._asked_for(each, share)
            for each in (traffic.past(self.caches.first), traffic.far())
        )
        return [
            self.builder.const(not self.statement.ahead),
            count.work, *self._issued(count, vectors, share),
            near, far, traffic.waits(), traffic.stretches(),
            self.builder.where(self.touched.whole_bytes <= self.target.l3_bytes, 0, far),
        ]  # fmt: skip

    def _asked_for(self, past: ColumnValue, _share: ColumnValue) -> ColumnValue:
        """Return the bytes from beyond a cache, for loads of single vectors."""
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
        """Return the extent of a loop, in vectors if it is the vectorized one."""
        extent = loop.extent if extent is None else extent
        return extent.ceildiv(self.lanes) if loop.kind is LoopKind.VECTOR else extent

    def _product(self, loops: Sequence[EnclosingLoop]) -> ColumnValue:
        return reduce(ColumnValue.__mul__, map(self._extent, loops), self.builder.const(1))

    def _last_extents(self) -> dict[str, ColumnValue]:
        """Return the extent of each loop in the last iteration of the loops around it."""
        values = self.touched.stores.zeroed(self.loops)
        last: dict[str, ColumnValue] = {}
        for loop in self.loops:
            extent = self.builder.of(loop.length, {**values, **self._minus_one(last)})
            last[loop.var] = extent.at_least(1)
        return last

    def _counted(self) -> _Count:
        """Return the executions of the statement, with tails at their true length."""
        zero, one = self.builder.const(0), self.builder.const(1)
        last = self.last
        answer = _Count(one, one, one)
        for group in _groups(self.loops):
            work, steps, tiles = zero, zero, zero
            inner, vectors, outside = one, one, one  # counts of one iteration of the outer loop
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
        """Return the number of vectors loaded for one step of the tile, plus a broadcast."""
        lane = self._vector
        if lane is None:
            return self.builder.const(2)
        moved = any(each.access.reads and each.moves(lane) for each in self.footprints[1:])
        return self._extent(lane) + 1 if moved else self.builder.const(1)

    def _reads(
        self, share: ColumnValue
    ) -> tuple[ColumnValue, ColumnValue, ColumnValue, ColumnValue, ColumnValue]:
        """Return the vectors loaded, split, broadcast, gathered and transposed.

        Lanes two elements apart take two loads and a shuffle, and shuffles of masks if these are
        not known; lanes further apart are transposed if an unrolled loop of the tile is contiguous
        (`codegen.simd.strided`).
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
                apart = far * (self.masks.masked() * _MASK_APART + _APART)
                loads = loads + self.builder.where(near, count, self.builder.where(other, apart, 0))
                far = self.builder.where(other, 0, far)
                rows = self._along(footprint, lane)
                turned = turned + self.builder.where(rows, far, 0)
                gathers = gathers + self.builder.where(rows, 0, far)
                split = self.builder.where(self._aligned(footprint, lane), 0, count)
                splits = splits + self.builder.where(near, split, 0)
        return loads, splits, broadcasts, gathers, turned

    def _near(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return 1 if the lanes of an access are adjacent in memory."""
        return self._lanes_apart(footprint, lane).same(1)

    def _lanes_apart(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return the distance of the lanes, in elements or in groups of a dot-product step."""
        together = [loop for loop in self.summed if footprint.moves(loop)]
        return footprint.step(lane) / self._product(together)

    def _along(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return 1 if an unrolled loop of the tile is contiguous and long enough to transpose."""
        answer = self.builder.const(0)
        for loop in self.tile:
            if loop is not lane and footprint.moves(loop):
                near = footprint.step(loop).same(1)
                enough = self.builder.apply("and", near, loop.extent > _WORTH - 1)
                answer = self.builder.apply("or", answer, enough)
        return answer

    def _slid(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return the share of the vectors that a tile loads if it reuses a sliding window.

        The rows slide over the window (`loopir.passes.reuse_window`): of r * p vectors, r + p - 1
        are different.
        """
        share = one = self.builder.const(1)
        if not self.masks.window or not self._written.moves(lane):
            return one
        fits = one
        for row in self.tile:
            if row is lane:
                continue
            if not footprint.moves(row):  # every row would read the window again
                fits = self.builder.apply("and", fits, row.extent <= 1)
                continue
            for point, inside in self.masks.window.items():
                if footprint.moves(point):
                    differ = (row.extent + point.extent - 1) / (row.extent * point.extent)
                    same = footprint.step(row).same(footprint.step(point))
                    same = self.builder.apply("and", same, inside)
                    share = share * self.builder.where(same, differ, 1)
        return one if share.is_constant else self.builder.where(fits, share, 1)

    def _aligned(self, footprint: Footprint, lane: EnclosingLoop) -> ColumnValue:
        """Return 1 if every loop moves the vectors of an access by whole vectors."""
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
        """Return the vectors of functions, and of divisions and roots."""
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
        """Return the vectors of integer and boolean operations, and of divisions in indices."""
        plain, divided = self.builder.const(0), self.builder.const(0)
        store = self.statement.store
        if combines_integers(store):
            plain = plain + steps
        if store.combiner in ("argmax", "argmin"):
            plain = plain + steps
        for part, divides in integers(store):
            times = self._distinct(part, steps)
            if divides:
                divided = divided + times
            else:
                plain = plain + self.builder.where(self.masks.folds(part), 0, times)
        return plain, divided

    def _distinct(self, expr: Expr, steps: ColumnValue) -> ColumnValue:
        """Return the executions of an expression; within a tile, equal values count once."""
        needed = variables(expr)
        times, innermost, one = steps, True, self.builder.const(1)
        for loop in reversed(self.loops):
            innermost = innermost and loop.var not in needed
            if innermost or (loop in self.tile and loop.var not in needed):
                times = times / self._extent(loop)
            elif loop not in self.tile and loop.var not in needed:
                times = times / self.builder.where(
                    self.masks.is_written_out(loop), loop.extent, one
                )
        return times.at_least(1)

    def _hoisted(self, expr: Expr, steps: ColumnValue) -> ColumnValue:
        """Return the executions of an expression that is hoisted out of invariant loops."""
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
        """Return the vectors stored, and read before if they accumulate; and those transposed.

        A tile that fits the registers stays there while the loops around it do not move it.
        Vectors whose lanes are not adjacent in memory are transposed in registers.
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
    """A statement that a matrix instruction sums (`loopir.passes.dot`)."""

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
        """Return the bytes from beyond a cache, at most all loads and moves of sums."""
        sums, _, loaded = self._products(share)
        return past.at_most((loaded + share * sums * 2) * _MATRIX_BYTES)

    def _moved_twice(self) -> ColumnValue:
        """Return 2 moves per sum (read and write), or 1 if every tile starts its sums itself."""
        answer = self.builder.const(1)
        for loop in self.outer:
            if not self._written.moves(loop):
                answer = self.builder.where(loop.extent > 1, 2, answer)
        return answer

    def _products(self, share: ColumnValue) -> tuple[ColumnValue, ColumnValue, ColumnValue]:
        """Return the sums of a tile, and the products and matrix loads of all `share` tiles."""
        rows, columns, groups = self._blocks()
        products = share * rows * columns * groups
        loaded = products * (self._shared(rows) + self._shared(columns))
        return rows * columns, products, loaded

    def _shared(self, blocks: ColumnValue) -> ColumnValue:
        """Return the number of loads of the other operand per product."""
        return self.builder.const(1) / blocks.at_most(2)

    def _blocks(self) -> tuple[ColumnValue, ColumnValue, ColumnValue]:
        """Return the numbers of blocks of rows, of lanes and of groups in a tile."""
        one = self.builder.const(1)
        rows = [loop for loop in self.tile if loop.kind is LoopKind.UNROLL]
        lane = self._vector
        wide = [x for x in self.footprints[1:] if lane is not None and x.moves(lane)]
        apart = [loop for loop in rows if not any(each.moves(loop) for each in wide)]
        whole = self._product(rows)
        blocks = whole
        for loop in apart:  # rows of the instruction run along the loop with the fewest blocks
            blocks = blocks.at_most(whole / loop.extent * loop.extent.ceildiv(_BLOCK))
        *others, group = [loop for loop in self.tile if loop.kind is LoopKind.GROUP]
        groups = self._product(others) * group.extent.ceildiv(_BLOCK)
        return blocks, one if lane is None else lane.extent.ceildiv(_BLOCK), groups


def _groups(loops: Sequence[EnclosingLoop]) -> list[list[EnclosingLoop]]:
    """Return the loops in groups: the extent of a loop depends on other loops of its group."""
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
        case Binary(op=op) if op in BINARY_FUNCTIONS:
            return "function"
        case Binary(op="div"):
            return "divide"
        case Call(fn=fn) if fn not in _FREE:
            return "divide" if fn in _ROOTS else "function"
        case _:
            return ""
