"""Loop IR as the text of tile operations: own symbols, flat offsets, Python's operators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from ansorpy.errors import BuildError
from ansorpy.expr.affine import Form, form
from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    SYMBOLS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    dtype_of,
    reads,
)
from ansorpy.expr.intervals import Interval, bounds, simplify
from ansorpy.loopir.nodes import Buffer, Stmt, Tile
from ansorpy.loopir.rewrite import walk_stmt

DIMS: Final = "uvwxyz"


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer as generated code knows it: its symbol, dtype, extents and kind of operand.

    `kind` is "float32*" for memory, "float32x16[8,3]" for a register tile of vectors.
    """

    symbol: str
    dtype: str
    extents: tuple[int, ...]
    kind: str

    @property
    def in_registers(self) -> bool:
        """Whether the buffer is a register tile."""
        return not self.kind.endswith("*")

    @property
    def scope_text(self) -> str:
        """Where it lives, for people."""
        return f"registers {self.kind}" if self.in_registers else f"{self.size} {self.dtype}"

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.extents)


@dataclass(frozen=True, slots=True)
class Scoped:
    """What names stand for at one point of a program: buffers, and variables by symbol.

    `ranges` holds the first and last value of every variable: offsets are as simple as it allows.
    `known` remembers the accesses already written.
    """

    places: Mapping[str, Place]
    symbols: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, Interval] = field(default_factory=dict)
    known: dict[tuple[str, tuple[Expr, ...]], str] = field(default_factory=dict, compare=False)

    def place(self, name: str) -> Place:
        """Return a buffer; BuildError if none of that name is in scope."""
        if name not in self.places:
            raise BuildError(f"no buffer {name!r} in scope; there are {', '.join(self.places)}")
        return self.places[name]

    def with_var(self, name: str, symbol: str, extent: Expr) -> "Scoped":
        """Return the scope inside a loop."""
        last = max(0, bounds(extent, self.ranges)[1] - 1)
        symbols, ranges = {**self.symbols, name: symbol}, {**self.ranges, name: (0, last)}
        return Scoped(self.places, symbols, ranges)

    def with_buffer(self, name: str, place: Place) -> "Scoped":
        """Return the scope inside an allocation."""
        return Scoped({**self.places, name: place}, self.symbols, self.ranges)


@dataclass(frozen=True, slots=True)
class TileText:
    """The arguments of `simd.tile`; equal texts are one operation."""

    text: str
    dims: tuple[tuple[str, int], ...]
    lane: tuple[str, int] | None
    mask: str | None
    kinds: tuple[tuple[str, str], ...]
    dot: tuple[str, str] | None = None  # the dim that one LLVM function sums over
    matrix: tuple[str, str, bool] | None = None  # dims of rows and groups, whether it begins at 0
    apart: bool = False
    streamed: bool = False  # whole lines that it stores go past the caches


def memory(buffer: Buffer, symbol: str) -> Place:
    """Return the place of a buffer that lives in memory."""
    return Place(symbol, buffer.dtype, extents(buffer), f"{buffer.dtype}*")


def register_tile(buffer: Buffer, symbol: str, body: Stmt) -> Place:
    """Return the place of a REGISTER buffer; the tiles in `body` say whether it holds vectors."""
    shape = extents(buffer)
    lanes = any(
        isinstance(stmt, Tile) and _along_lane(stmt, buffer.name) for stmt in walk_stmt(body)
    )
    vector = f"x{shape[-1]}" if lanes else ""
    rest = (shape[:-1] if lanes else shape) or (() if lanes else (1,))
    return Place(symbol, buffer.dtype, shape, f"{buffer.dtype}{vector}[{_join(rest)}]")


def extents(buffer: Buffer) -> tuple[int, ...]:
    """Return the shape of a bound buffer; BuildError where an extent is no number."""
    for extent in buffer.shape:
        if not isinstance(extent, Const):
            raise BuildError(f"{buffer.name}: extent {extent} is not a number")
    return tuple(int(extent.value) for extent in buffer.shape if isinstance(extent, Const))


def tile_text(tile: Tile, scope: Scoped) -> TileText:
    """Return a Tile statement as text."""
    inner = scope
    dims = []
    for k, (name, extent) in enumerate(tile.dims):
        symbol = DIMS[k] if k < len(DIMS) else f"d{k}"
        dims.append((symbol, extent))
        inner = inner.with_var(name, symbol, Const(extent))
    lane = None
    if tile.lane is not None:
        lane = ("l", tile.lane[1])
        inner = inner.with_var(tile.lane[0], "l", Const(tile.lane[1]))
    store = tile.store
    targets = [_read(name, store.index, inner) for name in store.buffers]
    values = [bare(value_text(value, inner, beside=True)) for value in store.values]
    names = list(store.buffers)
    names += [read.tensor for value in store.values for read in reads(value)]
    kinds = sorted({(inner.place(name).symbol, inner.place(name).kind) for name in names})
    mask = None if tile.mask is None else index_text(tile.mask, inner)
    dot = None if tile.dot is None else (inner.symbols[tile.dot[0]], tile.dot[1])
    matrix = None
    if tile.matrix is not None:
        row, group = (inner.symbols[name] for name in (tile.matrix.row, tile.matrix.group))
        matrix = (row, group, tile.matrix.fresh)
    text = _statement(targets, store.combiner, values)
    flags = tile.hints.reload, tile.hints.non_temporal
    return TileText(text, tuple(dims), lane, mask, tuple(kinds), dot, matrix, *flags)


def index_text(expr: Expr, scope: Scoped) -> str:
    """Return an expression over loop variables as Python."""
    if dtype_of(expr) == INDEX:
        return _sum(form(expr), scope)
    return bare(value_text(expr, scope))


def value_text(expr: Expr, scope: Scoped, beside: bool = False) -> str:
    """Return a value as Python; a literal is bare only `beside` something that has its dtype."""
    match expr:
        case Const():
            plain = beside or expr.dtype in (INDEX, "bool")
            return _literal(expr) if plain else f"{expr.dtype}({_literal(expr)})"
        case Var(name=name):
            return _symbol(name, scope)
        case Read(tensor=name, indices=indices):
            return _read(name, indices, scope)
        case Cast(dtype=dtype, a=a):
            return f"{dtype}({bare(value_text(a, scope))})"
        case Call(fn="neg" | "not" as fn, a=a):
            return f"({'-' if fn == 'neg' else 'not '}{value_text(a, scope)})"
        case Call(fn=fn, a=a):
            return f"{fn}({bare(value_text(a, scope))})"
        case Select(cond=cond, then=then, other=other):
            yes, no = _pair(then, other, scope)
            return f"({yes} if {value_text(cond, scope)} else {no})"
        case Binary():
            return _binary(expr, scope)


def _binary(expr: Binary, scope: Scoped) -> str:
    if dtype_of(expr) == INDEX and not reads(expr):
        found = form(expr)
        if expr not in found.terms:
            linear = _sum(found, scope)
            return f"({linear})" if " " in linear else linear
    a, b = _pair(expr.a, expr.b, scope)
    if expr.op in COMPARISONS or expr.op in LOGICAL:  # these bind less than their operands
        loose = COMPARISONS if expr.op in LOGICAL else ARITHMETIC
        a, b = (
            bare(t) if isinstance(e, Binary) and e.op in loose else t
            for t, e in ((a, expr.a), (b, expr.b))
        )
    if expr.op in SYMBOLS:
        return f"({a} {SYMBOLS[expr.op]} {b})"
    return f"{expr.op}({bare(a)}, {bare(b)})"


def _pair(a: Expr, b: Expr, scope: Scoped) -> tuple[str, str]:
    """Two operands of one dtype: a literal beside something else needs no cast."""
    both = isinstance(a, Const) and isinstance(b, Const)
    return value_text(a, scope, beside=not both), value_text(b, scope, beside=not both)


def _literal(expr: Const) -> str:
    if isinstance(expr.value, bool) or expr.dtype == "bool":
        return str(bool(expr.value))
    return repr(float(expr.value) if "float" in expr.dtype else int(expr.value))


def _statement(targets: Sequence[str], combiner: str | None, values: Sequence[str]) -> str:
    target, value = ", ".join(targets), ", ".join(values)
    match combiner:
        case None:
            return f"{target} = {value}"
        case "sum":
            return f"{target} += {value}"
        case "prod":
            return f"{target} *= {value}"
        case "max" | "min":
            return f"{target} = {combiner}({target}, {value})"
        case _:
            return f"{target} = {combiner}(({target}), ({value}))"


def _read(name: str, indices: tuple[Expr, ...], scope: Scoped) -> str:
    """Return an access; each is worked out once per tile."""
    key = (name, indices)
    if key not in scope.known:
        scope.known[key] = _access(name, indices, scope)
    return scope.known[key]


def _access(name: str, indices: tuple[Expr, ...], scope: Scoped) -> str:
    place = scope.place(name)
    if place.in_registers:
        return f"{place.symbol}[{', '.join(index_text(i, scope) for i in indices) or '0'}]"
    total, stride = Form(0, {}), 1
    for index, extent in zip(reversed(indices), reversed(place.extents), strict=True):
        total, stride = form(index).scaled(stride).plus(total), stride * extent
    if any(isinstance(atom, Binary) for atom in total.terms):
        # The digits of a fused axis often join again once the offset is flat.
        total = form(simplify(total.expr(), scope.ranges))
    return f"{place.symbol}[{_sum(total, scope)}]"


def _sum(found: Form, scope: Scoped) -> str:
    """Return a linear form as `i0 * 512 + k + 3`."""
    text = ""
    for atom, scale in found.terms.items():
        name = value_text(atom, scope)
        term = name if abs(scale) == 1 else f"{name} * {abs(scale)}"
        text += f" {'-' if scale < 0 else '+'} {term}"
    if found.const or not text:
        text += f" {'-' if found.const < 0 else '+'} {abs(found.const)}"
    return text[3:] if text.startswith(" + ") else text[1:].replace("- ", "-", 1)


def _symbol(name: str, scope: Scoped) -> str:
    if name not in scope.symbols:
        raise BuildError(f"no loop binds {name!r}; there are {', '.join(scope.symbols)}")
    return scope.symbols[name]


def _along_lane(tile: Tile, name: str) -> bool:
    """Whether a tile touches buffer `name` with its lane variable as the last index."""
    if tile.lane is None:
        return False
    found = [tile.store.index] if name in tile.store.buffers else []
    found += [r.indices for value in tile.store.values for r in reads(value) if r.tensor == name]
    return any(index and index[-1] == Var(tile.lane[0]) for index in found)


def bare(text: str) -> str:
    """Return an expression without the parentheses around the whole of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for k, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if k == len(text) - 1 else text
    return text


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
