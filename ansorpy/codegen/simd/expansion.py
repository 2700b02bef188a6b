"""One tile operation, written out as LLVM code."""

import itertools
import math
from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.simd.kinds import (
    COMPUTED,
    FLOATS,
    I32,
    I64,
    LARGEST,
    LEAST,
    POINTER,
    computed,
    constant,
    power_of_two,
    vector,
    width,
)
from ansorpy.codegen.simd.matrices import Matrices
from ansorpy.codegen.simd.memory import LINE_BYTES
from ansorpy.codegen.simd.tile import SimdTile
from ansorpy.codegen.simd.transpose import transpose
from ansorpy.codegen.simd.values import Index, Point

AHEAD: Final = 4  # vectors computed before the first store: loads do not wait for stores


class Expansion(Matrices):
    """Writes the code of one tile operation; `values` are its arguments by name.

    Memory is an address (int64) or a pointer, a register tile a list of registers; the lists of
    `tile.results` hold the new registers after `run`.
    """

    def __init__(
        self,
        tile: SimdTile,
        builder: Any,
        values: dict[str, Any],
        shared: dict[Any, Any] | None = None,
        hoisted: Any = None,
    ) -> None:
        super().__init__(tile, builder, values, shared, hoisted)
        self.totals: dict[Any, list[Any]] = {}
        self.due: list[tuple[Point, list[Any], Any]] = []  # computed, not yet stored
        if tile.hints.reload:
            self.hide_addresses()
        if tile.hints.in_order:
            self.keep_order()
        self.inside = bool(tile.lanes) and tile.lane not in self.kept  # reduces along the lanes
        summed = [(name, n) for name, n in tile.dims if name not in self.kept]
        self.summed = [] if self.stepwise else summed
        self.dtypes = [computed(tile.of(target).dtype) for target in tile.targets]
        own = any(self.written & value.reads for value in tile.values)
        # True if a vector may be computed before earlier vectors are stored.
        self.waits = bool(tile.lanes) and not own

    def hide_addresses(self) -> None:
        """Hide addresses from LLVM, which would keep elements for other tiles in registers."""
        for name, value in self.values.items():
            if name in self.tile.operands and not isinstance(value, list | Index):
                self.values[name] = self.hidden(value, "r")

    def keep_order(self) -> None:
        """Hide whole registers of AVX-512 that are assigned.

        LLVM keeps the order of loads and of instructions with side effects, and it computes a
        hidden value first. An empty statement alone would leave multiply-adds free to sink.
        """
        for name in self.tile.results:
            self.values[name] = [
                self.hidden(one, "v") if self.fixes(one.type) else one for one in self.values[name]
            ]

    def hidden(self, value: Any, register: str) -> Any:
        """Return a value of which LLVM knows nothing, in a register of a class."""
        kind = ir.FunctionType(value.type, [value.type])
        return self.b.asm(kind, "", f"={register},0", [value], side_effect=True)

    def run(self) -> dict[str, Any]:
        """Emit everything and return the values, register tiles updated."""
        if not self.tile.hints.non_temporal:
            self.unless_masked()
            return self.values
        whole = self.on_a_line(self.tile.targets[0].args[0])
        for streaming, cond in ((True, whole), (False, self.b.not_(whole))):
            self.streaming = streaming
            with self.when(cond):
                self.unless_masked()
        return self.values

    def on_a_line(self, name: str) -> Any:
        """Return an i1: whether a buffer begins at a cache line."""
        base: Any = self.values[name]
        base = self.b.ptrtoint(base, I64) if base.type == POINTER else base
        within = self.b.and_(base, ir.Constant(I64, LINE_BYTES - 1))
        return self.b.icmp_signed("==", within, ir.Constant(I64, 0))

    def unless_masked(self) -> None:
        """Emit the tile inside a branch: no code runs if the mask holds at no point."""
        some: Any = True
        if self.tile.mask is not None and not self.stepwise:
            # A tile without a point must not even load the elements that all points share.
            some = self.eval(self.tile.mask, dict.fromkeys(sorted(self.tile.variables), (0,)))
        if some is True:
            self.body()
        elif some is not False:
            with self.when(some.ir):
                self.body()

    def body(self) -> None:
        """Emit the statement for every point of the dims."""
        if self.tile.matrix is not None:
            self.multiply(*self.tile.matrix)
            return
        rows = self.transposed_dim()
        dims = [(name, n) for name, n in self.tile.dims if name != rows]
        for numbers in itertools.product(*(range(n) for _, n in dims)):
            point: Point = {name: (k,) for (name, _), k in zip(dims, numbers, strict=True)}
            if self.n:
                point[self.tile.lane] = tuple(range(self.n))
            if rows:
                self.transposed(point, rows)
            elif self.n or self.tile.mask is None:
                self.step(point)
            else:
                self.guarded_step(point)
        self.store_due()

    def guarded_step(self, point: Point) -> None:
        """Emit one scalar statement inside a branch on the mask."""
        cond = self.eval(self.tile.mask, point)
        if cond is True:
            self.step(point)
        elif cond is not False:
            with self.when(cond.ir):
                self.step(point)

    def step(self, point: Point) -> None:
        """Emit the statement at one point."""
        tile = self.tile
        guard = self.allowed((), point, None)
        if tile.combiner:
            self.combine_at(point, guard)
        elif guard is not False:
            pairs = zip(tile.values, self.dtypes, strict=True)
            new = [self.typed(value, dtype, point) for value, dtype in pairs]
            self.due.append((point, new, guard))
            if len(self.due) == AHEAD or not self.waits:
                self.store_due()

    def store_due(self) -> None:
        """Store the computed vectors.

        A load waits for an earlier store to the same offset of another page, because processors
        compare 12 bits of an address first. So the loads of several vectors precede their stores.
        """
        for point, new, guard in self.due:
            self.put(point, new, guard)
        self.due.clear()

    def combine_at(self, point: Point, guard: Any) -> None:
        """Combine at one point; the target is read before the first and written after the last."""
        tile = self.tile
        first = last = not self.summed
        key: Any = None
        if self.summed:
            first = all(point[k] == (0,) for k, _ in self.summed)
            last = all(point[k] == (n - 1,) for k, n in self.summed)
            key = tuple(at for name, at in point.items() if name in self.kept)
        if first:
            self.totals[key] = self.identity() if self.inside else self.fetch(point)
        new = old = self.totals[key]
        if guard is not False:
            new = self.accumulate(old, point)
        if guard is not False and guard is not True:
            new = [self.b.select(guard, x, y) for x, y in zip(new, old, strict=True)]
        self.totals[key] = new
        if last:
            if self.inside:
                new = self.combine(tile.combiner, self.dtypes, self.fetch(point), self.across(new))
            self.put(point, new, None)

    def accumulate(self, old: list[Any], point: Point) -> list[Any]:
        """Return `old` combined with the values at a point; a product is added by fma."""
        tile, (node, *_) = self.tile, self.tile.values
        if tile.dot is not None:
            return [self.dot(tile.dot, node, old[0], point)]
        lanes = width(old[0])
        if tile.combiner == "sum" and node.op == "*" and self.dtypes[0] in FLOATS:
            a, b = (
                self.splat(self.typed(part, self.dtypes[0], point), lanes) for part in node.args
            )
            return [self.fma(a, b, old[0])]
        new = [
            self.splat(self.typed(value, dtype, point), lanes)
            for value, dtype in zip(tile.values, self.dtypes, strict=True)
        ]
        return self.combine(tile.combiner, self.dtypes, old, new)

    def identity(self) -> list[Any]:
        """Return the identity of the combiner, in all lanes."""
        op, dtype = self.tile.combiner, self.dtypes[0]
        floats, largest = dtype in FLOATS, op in ("max", "argmax")
        if op in ("sum", "prod"):
            start: float = 0 if op == "sum" else 1
        elif floats:
            start = -math.inf if largest else math.inf
        else:
            start = (LEAST if largest else LARGEST)[dtype]
        numbers = [start] + [LARGEST[extra] for extra in self.dtypes[1:]]
        kinds = [COMPUTED[dtype] for dtype in self.dtypes]
        if self.n:
            kinds = [vector(kind, self.n) for kind in kinds]
        return [constant(kind, number) for kind, number in zip(kinds, numbers, strict=True)]

    def across(self, parts: list[Any]) -> list[Any]:
        """Return the combination of all lanes, by halving while their number is even."""
        lanes = width(parts[0])
        while lanes % 2 == 0:
            lanes //= 2
            halves = [
                [self.shuffle(v, v, list(range(k, k + lanes))) for v in parts] for k in (0, lanes)
            ]
            parts = self.combine(self.tile.combiner, self.dtypes, *halves)
        one = [
            [self.b.extract_element(v, ir.Constant(I32, k)) for v in parts] for k in range(lanes)
        ]
        result = one[0]
        for other in one[1:]:
            result = self.combine(self.tile.combiner, self.dtypes, result, other)
        return result

    def fetch(self, point: Point) -> list[Any]:
        """Return the values of the targets."""
        wide = self.n if self.tile.lane in self.kept else 0
        found = [self.load(target, point, ()) for target in self.tile.targets]
        return [self.splat(value, wide) for _, value in found]

    def put(self, point: Point, new: list[Any], guard: Any) -> None:
        """Write the targets where `guard` holds; None: at all points that the tile covers."""
        lanes = self.n if self.tile.lane in self.kept else 0
        for target, value in zip(self.tile.targets, new, strict=True):
            if lanes or not width(value):
                self.write(target, point, self.splat(value, lanes), guard)
            elif guard is True:  # no combiner: the last lane overwrites the others
                last = self.b.extract_element(value, ir.Constant(I32, self.n - 1))
                self.write(target, point, last, guard)
            else:
                raise ValueError(
                    "cannot store lanes to one element if the mask decides which is last"
                )

    def transposed_dim(self) -> str:
        """Return the dim along which to store after an in-register transpose, or ""."""
        tile, (target, *_) = self.tile, self.tile.targets
        whole = len(target.uses) == len(tile.variables) and tile.of(target).shape is None
        if not whole or self.n not in (4, 8, 16) or len(tile.targets) > 1:
            return ""
        if tile.slope(target.args[1], tile.lane) in (None, 1, -1):
            return ""
        near = [name for name, n in tile.dims if n > 1 and tile.slope(target.args[1], name) == 1]
        return near[0] if near else ""

    def transposed(self, point: Point, rows: str) -> None:
        """Emit all of dim `rows` at a point, in blocks of as many rows as there are lanes."""
        extent = dict(self.tile.dims)[rows]
        for base in range(0, extent, self.n):
            count = min(self.n, extent - base)
            vectors = [
                self.splat(
                    self.typed(self.tile.values[0], self.dtypes[0], {**point, rows: (base + k,)}),
                    self.n,
                )
                for k in range(count)
            ]
            empty = ir.Constant(vectors[0].type, ir.Undefined)
            rest = [empty] * (self.n - count)
            columns = transpose(self, vectors + rest, whole=not rest)
            wide = power_of_two(count)
            place = tuple(range(base, base + wide))
            for k, column in enumerate(columns):
                part = column if wide == self.n else self.shuffle(column, column, list(range(wide)))
                self.save_column({**point, rows: place, self.tile.lane: (k,)}, part, count)

    def save_column(self, point: Point, column: Any, count: int) -> None:
        """Store the first `count` lanes of a vector that lies along memory."""
        (target,), (dtype,) = self.tile.targets, self.dtypes
        guard, name, stored = self.allowed((), point, None), target.args[0], self.tile.of(target)
        guard = self.shortened(guard, count, width(column))
        if guard is False:
            return
        index = self.index(target.args[1], point)
        if self.tile.combiner:
            old = self.fetch_vector(name, stored.dtype, index, guard)
            (column,) = self.combine(self.tile.combiner, [dtype], [old], [column])
        self.save(name, stored.dtype, index, self.stored(column, stored.dtype), guard)
