"""A tile of the loop IR to the input of the SIMD compiler: own symbols, flat offsets."""

from typing import Final

from ansorpy.codegen.simd.tile import Nodes, SimdTile, TileExpr, accumulation
from ansorpy.codegen.symbols import SymbolTable
from ansorpy.errors import BuildError
from ansorpy.expr.affine import Form, form
from ansorpy.expr.dtypes import INDEX, NARROW
from ansorpy.expr.expr import (
    SYMBOLS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    reads,
)
from ansorpy.expr.intervals import simplify
from ansorpy.loopir.nodes import Tile

DIMS: Final = "uvwxyz"
LANE: Final = "l"


def structured(tile: Tile, table: SymbolTable) -> SimdTile:
    """Return a Tile statement as the SIMD compiler takes it.

    Raises:
        BuildError: a name is not in scope, or the tile is not one for a CPU.
    """
    if len(tile.lanes) > 1 or tile.access_width != 1:
        raise BuildError(
            f"cannot compile a tile with {len(tile.lanes)} lane variables and accesses of"
            f" {tile.access_width} elements for a CPU; expected at most one variable, one element"
        )
    dims = {
        name: (DIMS[k] if k < len(DIMS) else f"d{k}", extent)
        for k, (name, extent) in enumerate(tile.dims)
    }
    lanes = {name: (LANE, extent) for name, extent in tile.lanes}
    points = {**dims, **lanes}
    inner = table.with_points(points) if points else table
    writer = NodeWriter(inner, Nodes({symbol for symbol, _ in points.values()}))
    store = tile.store
    targets = [writer.access(name, store.index) for name in store.buffers]
    values = [writer.value(_unrounded(value, tile, table), beside=True) for value in store.values]
    combiner = store.combiner or ""
    if not combiner and len(values) == 1:
        combiner, values[0] = accumulation(targets[0], values[0])
    names = [*store.buffers, *(r.tensor for value in store.values for r in reads(value))]
    used = {entry.symbol: entry.operand for entry in map(inner.buffer, names)}
    matrix = None
    if tile.matrix is not None:
        row, group = (inner.symbol(name) for name in (tile.matrix.row, tile.matrix.group))
        matrix = (row, group, tile.matrix.fresh)
    return SimdTile(
        targets=tuple(targets),
        values=tuple(values),
        combiner=combiner,
        spans=tuple(dims.values()),
        lane=LANE if lanes else "",
        lanes=tile.lane[1] if tile.lane else 0,
        mask=None if tile.mask is None else writer.offset(tile.mask),
        operands=used,
        dot=None if tile.dot is None else (inner.symbol(tile.dot[0]), tile.dot[1]),
        matrix=matrix,
        hints=tile.hints,
    )


def _unrounded(value: Expr, tile: Tile, table: SymbolTable) -> Expr:
    """Return a value without its rounding to 16 bits if the store to memory rounds it."""
    rounds = isinstance(value, Cast) and value.dtype in NARROW and not tile.store.combiner
    if not rounds or table.buffer(tile.store.buffers[0]).in_registers:
        return value
    assert isinstance(value, Cast)
    return value.a


def expression(expr: Expr, table: SymbolTable) -> SimdTile:
    """Return an expression over loop variables as the value of a tile without targets."""
    return SimdTile((), (NodeWriter(table, Nodes(set())).offset(expr),))


class NodeWriter:
    """Writes expressions of the loop IR as nodes of one tile."""

    def __init__(self, table: SymbolTable, nodes: Nodes) -> None:
        self.table, self.make, self.literal = table, nodes.make, nodes.literal

    def offset(self, expr: Expr) -> TileExpr:
        """Return the node of an offset or of a condition."""
        return self.sum(form(expr)) if expr.dtype == INDEX else self.value(expr)

    def value(self, expr: Expr, beside: bool = False) -> TileExpr:
        """Return the node of a value; a literal is bare only `beside` a value of its dtype."""
        match expr:
            case Const():
                bare = self._number(expr)
                plain = beside or expr.dtype in (INDEX, "bool")
                return bare if plain else self.make(expr.dtype, bare)
            case Var(name=name):
                return self.make("name", self.table.symbol(name))
            case Read(tensor=name, indices=indices):
                return self.access(name, indices)
            case Cast(dtype=dtype, a=a):
                return self.make(dtype, self.value(a))
            case Call(fn=fn, a=a):
                return self.make(fn, self.value(a))
            case Select(cond=cond, then=then, other=other):
                yes, no = self._pair(then, other)
                return self.make("select", self.value(cond), yes, no)
            case Binary():
                return self._binary(expr)

    def access(self, name: str, indices: tuple[Expr, ...]) -> TileExpr:
        """Return the node of a read or of a target: an index into memory is one flat offset."""
        buffer = self.table.buffer(name)
        if buffer.in_registers:
            places = [self.offset(index) for index in indices] or [self.literal(0)]
            return self.make("read", buffer.symbol, *places)
        total, stride = Form(0, {}), 1
        for index, extent in zip(reversed(indices), reversed(buffer.extents), strict=True):
            total, stride = form(index).scaled(stride).plus(total), stride * extent
        if any(isinstance(atom, Binary) for atom in total.terms):
            # The digits of a fused axis often join again once the offset is flat.
            total = form(simplify(total.expr(), self.table.ranges))
        return self.make("read", buffer.symbol, self.sum(total))

    def sum(self, form: Form) -> TileExpr:
        """Return the node of a linear form: terms in order, then the constant."""
        total: TileExpr | None = None
        for atom, scale in form.terms.items():
            term = self.value(atom)
            if total is None and scale < 0:
                term = self.make("neg", term)
            if abs(scale) != 1:
                term = self.make("*", term, self.literal(abs(scale)))
            total = term if total is None else self.make("-" if scale < 0 else "+", total, term)
        if total is None:
            return self.literal(form.const)
        if not form.const:
            return total
        return self.make("-" if form.const < 0 else "+", total, self.literal(abs(form.const)))

    def _binary(self, expr: Binary) -> TileExpr:
        if expr.dtype == INDEX and not reads(expr):
            found = form(expr)
            if expr not in found.terms:
                return self.sum(found)
        a, b = self._pair(expr.a, expr.b)
        return self.make(SYMBOLS.get(expr.op, expr.op), a, b)

    def _pair(self, a: Expr, b: Expr) -> tuple[TileExpr, TileExpr]:
        """Return two operands of one dtype: a literal beside another operand needs no cast."""
        both = isinstance(a, Const) and isinstance(b, Const)
        return self.value(a, beside=not both), self.value(b, beside=not both)

    def _number(self, expr: Const) -> TileExpr:
        if isinstance(expr.value, bool) or expr.dtype == "bool":
            return self.literal(bool(expr.value))
        return self.literal(float(expr.value) if "float" in expr.dtype else int(expr.value))
