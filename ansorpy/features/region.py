"""The footprint of an access: the touched region of a buffer, symbolic in the sizes."""

from dataclasses import dataclass
from functools import partial, reduce
from math import gcd
from typing import Final

from ansorpy.expr.affine import affine_in
from ansorpy.expr.expr import Binary, Expr, Select, reads, variables
from ansorpy.expr.gathers import data_parts, without_data
from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.walk import BufferAccess, EnclosingLoop, ProgramStores, StoreStatement

LINE_BYTES: Final = 64
PAGE_BYTES: Final = 4096


@dataclass(frozen=True, eq=False)
class AccessIndex:
    """One dimension of an access: base + sum of coefficient * loop variable + spans of the rest.

    `rest` are sub-expressions that are not affine (divisions, clamps), of which only the range is
    known. An index that depends on data counts as 0 in the base, and as many different elements
    as it is computed times.
    """

    base: ColumnValue
    coefficients: dict[str, ColumnValue]
    rest: tuple[tuple[ColumnValue, Expr], ...]
    variables: frozenset[str]  # the loop variables that occur
    jumps: frozenset[str]  # those that occur where the index depends on data

    def moves_with(self, var: str) -> bool:
        """Return True if the loop variable occurs."""
        return var in self.variables


class Footprint:
    """The touched region of one access of one statement, for every number of fixed outer loops.

    `elements[d]` is the size of the region while the `d` outermost loops are fixed, and `dims[d]`
    its extent per dimension.
    """

    def __init__(
        self, stores: ProgramStores, statement: StoreStatement, access: BufferAccess
    ) -> None:
        self.access = access
        loops = statement.loops
        self.builder = stores.builder
        self._lines: dict[int, ColumnValue] = {}
        self._rows: dict[int, list[ColumnValue]] = {}
        self._places: dict[int, ColumnValue | None] = {}
        self._values = stores.zeroed(loops)
        names = frozenset(loop.var for loop in loops)
        self._indices = tuple(
            tuple(self._index(part, names) for part in index) for index in access.indices
        )
        parts = (part.variables for index in self._indices for part in index)
        self._moving = frozenset[str]().union(*parts)
        spans = [[self.builder.const(0)] * len(access.shape) for _ in access.indices]
        self.dims: list[tuple[ColumnValue, ...]] = [self._extents(spans)]
        for depth in range(len(loops) - 1, -1, -1):
            if not self.moves(loops[depth]):
                self.dims.append(self.dims[-1])
                continue
            for span, index in zip(spans, self._indices, strict=True):
                self._widen(span, index, loops, depth)
            self.dims.append(self._extents(spans))
        self.dims.reverse()
        one = self.builder.const(1)
        self.elements = [reduce(ColumnValue.__mul__, dims, one) for dims in self.dims]
        self._inner = list(range(len(self.dims)))  # the innermost depth with the same dims
        for depth in reversed(range(len(loops))):
            if self.dims[depth] is self.dims[depth + 1]:
                self._inner[depth] = self._inner[depth + 1]

    def lines(self, depth: int) -> ColumnValue:
        """Return the number of elements in all cache lines that are touched at a depth."""
        depth = self._inner[depth]
        if depth not in self._lines:
            in_line = LINE_BYTES // self.access.element_bytes
            limit = reduce(ColumnValue.__mul__, self.access.shape, self.builder.const(1))
            found = self.elements[depth] / self.run(depth).at_most(in_line) * in_line
            self._lines[depth] = found.at_most(limit)
        return self._lines[depth]

    def run(self, depth: int) -> ColumnValue:
        """Return the number of contiguous elements at a depth; whole rows continue in the next."""
        return reduce(ColumnValue.__mul__, self.in_a_row(depth), self.builder.const(1))

    def in_a_row(self, depth: int) -> list[ColumnValue]:
        """Return the factors of `run`, from the last dimension on; 1 beyond a partial row."""
        depth = self._inner[depth]
        if depth not in self._rows:
            factors, whole = [], self.builder.const(1)
            for extent, limit, index in zip(
                self.dims[depth][::-1],
                self.access.shape[::-1],
                self._indices[0][::-1],
                strict=True,
            ):
                if index.jumps:
                    break
                factors.append(self.builder.where(whole, extent, 1))
                whole = self.builder.where(whole, extent.same(limit), 0)
                if whole.equals(0):
                    break
            self._rows[depth] = factors
        return self._rows[depth]

    def places(self, depth: int) -> ColumnValue | None:
        """Return the number of places of a page at which lines begin; None if they are all.

        In any cache, the lines at one place of a page compete for the same sets.
        """
        depth = self._inner[depth]
        if depth not in self._places:
            self._places[depth] = self._counted_places(depth)
        return self._places[depth]

    def _counted_places(self, depth: int) -> ColumnValue | None:
        row, size = self.in_a_row(depth), self.access.element_bytes
        count, crowded = PAGE_BYTES // LINE_BYTES, False
        begun, apart, pitch = self.builder.const(1), self.builder.const(1), self.builder.const(size)
        for d in range(1, len(self.access.shape)):
            extent = self.dims[depth][-1 - d]
            pitch = pitch * self.access.shape[-d]
            if not pitch.is_constant:
                return None
            if d < len(row):  # the part of the dimension that is contiguous with the previous ones
                extent = extent / row[d]
            if extent.equals(1):
                continue
            places = PAGE_BYTES // gcd(int(pitch.constant), PAGE_BYTES)
            crowded |= places < count
            begun = begun * extent.at_most(places)
            apart = apart.at_least(self.builder.where(extent > 1, places, 1))
        if not crowded:
            return None
        lines = self.run(depth) * (size / LINE_BYTES) + (1 - 1 / LINE_BYTES)
        return (lines.unary("floor").at_least(1) * begun.at_most(apart)).at_most(count)

    def moves(self, loop: EnclosingLoop) -> bool:
        """Return True if the loop moves the address of some access."""
        return loop.var in self._moving

    def stride(self, loop: EnclosingLoop) -> ColumnValue:
        """Return the absolute stride of the loop in elements, of the first access."""
        answer = self.builder.const(0)
        step = self.builder.const(1)
        for part, extent in zip(self._indices[0][::-1], self.access.shape[::-1], strict=True):
            if loop.var in part.jumps:
                answer = answer + _jump(extent) * step
            else:
                answer = answer + self._coefficient(part, loop.var) * step
            step = step * extent
        return answer.unary("abs")

    def step(self, loop: EnclosingLoop) -> ColumnValue:
        """Return the move of the first access by the first iteration of the loop, in elements."""
        ahead = {**self._values, loop.var: self.builder.const(1)}
        answer, pitch = self.builder.const(0), self.builder.const(1)
        indices = zip(self.access.indices[0][::-1], self._indices[0][::-1], strict=True)
        for (part, index), extent in zip(indices, self.access.shape[::-1], strict=True):
            if loop.var in index.jumps:
                answer = answer + _jump(extent) * pitch
            elif loop.var in variables(part):
                part = without_data(part)
                moved = self.builder.of(part, ahead) - self.builder.of(part, self._values)
                answer = answer + moved * pitch
            pitch = pitch * extent
        return answer.unary("abs")

    def _index(self, expr: Expr, loops: frozenset[str]) -> AccessIndex:
        split = affine_in(expr, loops)
        of = partial(self.builder.of, variables=self._values)
        coefficients = {var: of(factor) for var, factor in split.coefficients.items()}
        rest = tuple((of(factor), part) for factor, part in split.rest)
        jumps = frozenset[str]().union(*map(variables, data_parts(expr))) & loops
        return AccessIndex(
            of(without_data(expr)), coefficients, rest, variables(expr) & loops, jumps
        )

    def _coefficient(self, index: AccessIndex, var: str) -> ColumnValue:
        """Return index(var = 1, others 0) - index(all 0), or 1 if a division makes that 0."""
        answer = index.coefficients.get(var, self.builder.const(0))
        one = {**self._values, var: self.builder.const(1)}
        for factor, part in index.rest:
            if var in variables(part):
                step = self.builder.of(part, one) - self.builder.of(part, self._values)
                answer = answer + factor * (self.builder.const(1) if step.equals(0) else step)
        return answer

    def _widen(
        self,
        span: list[ColumnValue],
        index: tuple[AccessIndex, ...],
        loops: tuple[EnclosingLoop, ...],
        depth: int,
    ) -> None:
        """Widen the span of every dimension by the loop at `depth`."""
        loop = loops[depth]
        for d, part in enumerate(index):
            if not part.moves_with(loop.var):
                continue
            if not part.rest:
                step = part.coefficients.get(loop.var, self.builder.const(0)).unary("abs")
                span[d] = span[d] + step * (loop.extent - 1)
                continue
            running = {each.var: each.extent - 1 for each in loops[depth:]}
            total = self.builder.const(0)
            for var, factor in part.coefficients.items():
                if var in running:
                    total = total + factor.unary("abs") * running[var]
            for factor, rest in part.rest:
                reach = _reach(self.builder, rest, running, self._values)
                total = total + factor.unary("abs") * reach
            span[d] = total

    def _extents(self, spans: list[list[ColumnValue]]) -> tuple[ColumnValue, ...]:
        """Return the hull of all accesses per dimension, at most the extent of the buffer."""
        answer = []
        for d, limit in enumerate(self.access.shape):
            bases = [index[d].base for index in self._indices]
            width = reduce(ColumnValue.at_least, (span[d] for span in spans))
            low, high = reduce(ColumnValue.at_most, bases), reduce(ColumnValue.at_least, bases)
            answer.append((width + (high - low) + 1).at_most(limit))
        return tuple(answer)


def _jump(extent: ColumnValue) -> ColumnValue:
    """Return the distance of two elements that data chooses along a dimension.

    It is more than 2, so that no such elements count as adjacent.
    """
    return extent.at_least(3)


def _reach(
    builder: ColumnBuilder,
    expr: Expr,
    running: dict[str, ColumnValue],
    values: dict[str, ColumnValue],
) -> ColumnValue:
    """Return an upper bound of (largest - smallest) value of `expr` while the loops run."""
    if not variables(expr) & running.keys():
        return builder.const(0)
    if reads(expr):
        times = (running[var] + 1 for var in sorted(variables(expr) & running.keys()))
        return reduce(ColumnValue.__mul__, times) - 1
    match expr:
        case Binary(op="add" | "sub", a=a, b=b):
            return _reach(builder, a, running, values) + _reach(builder, b, running, values)
        case Binary(op="min" | "max", a=a, b=b) | Select(then=a, other=b):
            return _reach(builder, a, running, values).at_least(_reach(builder, b, running, values))
        case Binary(op="mul", a=a, b=b) if not variables(b) & running.keys():
            return _reach(builder, a, running, values) * builder.of(b, values).unary("abs")
        case Binary(op="mul", a=a, b=b) if not variables(a) & running.keys():
            return _reach(builder, b, running, values) * builder.of(a, values).unary("abs")
        case Binary(op="floordiv", a=a, b=b) if not variables(b) & running.keys():
            return _reach(builder, a, running, values).ceildiv(builder.of(b, values))
        case Binary(op="mod", a=a, b=b) if not variables(b) & running.keys():
            return _reach(builder, a, running, values).at_most(builder.of(b, values) - 1)
        case _:
            # The value with every loop at its last iteration is exact for monotonic expressions.
            last = {**values, **running}
            return (builder.of(expr, last) - builder.of(expr, values)).unary("abs")
