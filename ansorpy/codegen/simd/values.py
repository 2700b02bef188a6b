"""Expressions of a tile: offsets are kept symbolic, everything else is computed."""

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from ansorpy.codegen.simd.arithmetic import ROUNDINGS
from ansorpy.codegen.simd.functions import Functions
from ansorpy.codegen.simd.kinds import (
    COMPUTED,
    F64,
    FLAGS,
    FLOATS,
    I1,
    I32,
    I64,
    STORED,
    computed,
    lanes_of,
    whole_number,
    width,
)
from ansorpy.codegen.simd.tile import Linear, SimdTile, TileExpr

HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
DATA = "%d"  # begins the name of an int64 of memory: any number, whose sums wrap around


class Index:
    """An int64 known up to run-time scalars: sum(coefficient * term) + constants, one per lane."""

    __slots__ = ("lanes", "terms")

    def __init__(self, terms: dict[str, int], lanes: tuple[int, ...]) -> None:
        self.terms = terms
        if 0 in terms.values():
            self.terms = {name: scale for name, scale in terms.items() if scale}
        self.lanes = lanes[:1] if len(lanes) > 1 and len(set(lanes)) == 1 else lanes

    def plus(self, other: "Index", scale: int = 1) -> "Index":
        """Return self + scale * other."""
        terms = dict(self.terms)
        for name, factor in other.terms.items():
            terms[name] = terms.get(name, 0) + scale * factor
        n = max(len(self.lanes), len(other.lanes))
        a, b = self.lanes * (n // len(self.lanes)), other.lanes * (n // len(other.lanes))
        return Index(terms, tuple(x + scale * y for x, y in zip(a, b, strict=True)))


class RuntimeValue(NamedTuple):
    """A scalar or a vector computed at run time; bool is i1."""

    dtype: str
    ir: Any


def is_zero(x: Any) -> bool:
    """Return True if an evaluated expression is a literal 0, the value of masked-off lanes."""
    if isinstance(x, Index):
        return not x.terms and x.lanes == (0,)
    return x is False or (isinstance(x, float) and x == 0 and math.copysign(1, x) > 0)


Point = dict[str, tuple[int, ...]]  # tile variable -> its value, or one per lane
Guards = tuple[tuple[TileExpr, bool], ...]  # conditions of enclosing selects, and whether they hold


class Expressions(Functions):
    """Evaluates expressions of one tile operation; `values` are its arguments by name.

    `shared` remembers offsets and addresses for the tiles of one basic block, in which a name
    stands for one value; `hoisted` writes sums of them outside of loops (`codegen.index_hoisting`;
    None: here). Memory is an address (int64) or a pointer, a register tile a list of registers.
    """

    def __init__(
        self,
        tile: SimdTile,
        builder: Any,
        values: dict[str, Any],
        shared: dict[Any, Any] | None = None,
        hoisted: Any = None,
    ) -> None:
        super().__init__(builder)
        self.hoisted = hoisted
        self.tile, self.n = tile, tile.lanes
        self.memo: dict[Any, Any] = {}
        self.zeroed: dict[int, Any] = {}  # masked loads (0 in lanes outside of the guard), by id
        self.shared: dict[Any, Any] = {} if shared is None else shared
        self.values: dict[str, Any] = {
            k: list(v) if isinstance(v, list) else v for k, v in values.items()
        }
        self.written = {target.args[0] for target in tile.targets}
        self.kept = set(tile.targets[0].uses) if tile.targets else set[str]()
        # A mask that is not monotonic has to be evaluated at every point.
        self.stepwise = tile.mask is not None and not (tile.lane and tile.shrinks(tile.mask))

    def eval(self, node: Any, point: Point, guards: Guards = ()) -> Any:
        """Return a bool or float literal, an Index or a RuntimeValue, made once."""
        if node.linear is not None:
            return self.linear_index(node.linear, point)
        key: tuple[Any, ...] = (node, *[point.get(name) for name in node.uses])
        if node.reads:
            if self.written & node.reads:  # it changes while the tile runs
                return self.compute(node, point, guards)
            # A read depends on the guards, and those on their own variables.
            guarded = tuple(point.get(name) for part, _ in guards for name in part.uses)
            key += (guards, guarded, tuple(point.values()) if self.stepwise else None)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self.compute(node, point, guards)
        return found

    def linear_index(self, linear: Linear, point: Point) -> Index:
        """Return the Index of a linear form at a point."""
        terms: dict[str, int] = {}
        start = linear[1]
        lanes: tuple[int, ...] = (0,)
        for name, scale in linear[0].items():
            at = point.get(name)
            if at is None:
                terms[name] = scale
            elif len(at) == 1:
                start += scale * at[0]
            elif len(lanes) == 1:
                lanes = tuple([scale * k for k in at])
            else:
                lanes = tuple([k + scale * x for k, x in zip(lanes, at, strict=True)])
        return Index(terms, tuple([start + k for k in lanes]))

    def compute(self, node: TileExpr, point: Point, guards: Guards) -> Any:
        """Emit the code of one expression."""
        op, args = node.op, node.args
        if op == "const":
            return args[1]
        if op == "read":
            return RuntimeValue(*self.load(node, point, guards))
        if op == "select":
            return self.select(node, point, guards)
        if op in ROUNDINGS and args[0].op == "/":
            # An inverse that is off by a rounding may give the other whole number.
            a, b = (self.eval(part, point, guards) for part in args[0].args)
            return self.single(op, self.pair("/", a, b, shares=False))
        if op in STORED and args[0].op in ("*", "/") and op == self.made_of(args[0]) in FLOATS:
            # A product or quotient that is rounded by itself (`expr.wide.determined`).
            a, b = (self.eval(part, point, guards) for part in args[0].args)
            return self.pair(args[0].op, a, b, shares=False, fuses=False)
        parts = [self.eval(part, point, guards) for part in args]
        if op in STORED:
            return self.cast(op, parts[0])
        if op in ("and", "or", "not"):
            return self.logic(op, *parts)
        if len(parts) == 1:
            return self.single(op, parts[0])
        return self.pair(op, *parts)

    def load(self, read: TileExpr, point: Point, guards: Guards) -> tuple[str, Any]:
        """Return the dtype and the value of a read."""
        raise NotImplementedError(read)

    def single(self, op: str, x: Any) -> Any:
        """Return op(x)."""
        if isinstance(x, Index) and op == "neg":
            return Index({}, (0,)).plus(x, -1)
        if isinstance(x, float):
            return (
                -x if op == "neg" else self.single(op, RuntimeValue("float64", ir.Constant(F64, x)))
            )
        value = RuntimeValue("int64", self.whole(x)) if isinstance(x, Index) else x
        return RuntimeValue(value.dtype, self.unary(op, value.dtype, value.ir))

    def pair(self, op: str, x: Any, y: Any, shares: bool = True, fuses: bool = True) -> Any:
        """Return x op y; two Index stay one where the result is linear.

        If `shares`, the quotients by one scalar are products with its inverse; if `fuses`, LLVM
        may fuse a product with an addition.
        """
        x, y = self.as_index(x, y), self.as_index(y, x)
        if isinstance(x, Index) and isinstance(y, Index):
            linear = self.linear(op, x, y)
            if linear is not None:
                return linear
        if isinstance(x, float) and isinstance(y, float):
            y = RuntimeValue("float64", ir.Constant(F64, y))
        dtype = next((v.dtype for v in (x, y) if isinstance(v, RuntimeValue)), "int64")
        if op in ("//", "%") and isinstance(y, Index) and not y.terms and len(y.lanes) == 1:
            return RuntimeValue(dtype, self.divide_by(op, dtype, self.give(x, dtype), y.lanes[0]))
        a, b = self.give(x, dtype), self.give(y, dtype)
        if op == "/" and shares and width(a) and not width(b):
            return RuntimeValue(dtype, self.shared_division(dtype, a, b))
        a, b = self.level(a, b)
        if op in HOLDS:
            return RuntimeValue("bool", self.compare(op, dtype, a, b))
        return RuntimeValue(dtype, self.binary(op, dtype, a, b, fuses))

    def shared_division(self, dtype: str, x: Any, y: Any) -> Any:
        """Return x / y for a vector and a scalar: one division for all lanes and vectors."""
        key = ("inverse", id(y))
        if key not in self.memo:
            self.memo[key] = (
                *self.inverse(dtype, y),
                y,
            )  # `y` stays alive, so that its id is not reused
        for factor in self.memo[key][:2]:
            x = self.b.fmul(x, self.splat(factor, width(x)), flags=FLAGS)
        return x

    def as_index(self, x: Any, partner: Any) -> Any:
        """Return a scalar int64 beside an Index as an Index too."""
        whole = (
            isinstance(x, RuntimeValue)
            and x.dtype == "int64"
            and isinstance(partner, Index | RuntimeValue)
        )
        return Index({self.term(x.ir, DATA): 1}, (0,)) if whole and not width(x.ir) else x

    def linear(self, op: str, x: Index, y: Index) -> Any:
        """Return x op y as an Index or a condition; None if it is computed at run time.

        Sums of data wrap around: neither their difference nor their quotient is linear.
        """
        if op in ("+", "-"):
            return x.plus(y, 1 if op == "+" else -1)
        data = any(name.startswith(DATA) for name in (*x.terms, *y.terms))
        if op in HOLDS:
            return None if data else self.compare_index(op, x.plus(y, -1))
        known = not y.terms and len(y.lanes) == 1
        if op == "*" and known:
            return Index({}, (0,)).plus(x, y.lanes[0])
        if op == "*" and not x.terms and len(x.lanes) == 1:
            return Index({}, (0,)).plus(y, x.lanes[0])
        if op in ("//", "%") and known and y.lanes[0] > 0 and not data:
            return self.divide_index(op, x, y.lanes[0])
        gap = x.plus(y, -1)
        decided = not gap.terms and (min(gap.lanes) >= 0 or max(gap.lanes) <= 0)
        if op in ("max", "min") and decided and not data:
            return x if (min(gap.lanes) >= 0) == (op == "max") else y
        if len(x.lanes) == len(y.lanes) == 1:
            value = self.binary(op, "int64", self.whole(x), self.whole(y))
            return Index({self.term(value): 1}, (0,))
        return None

    def divide_index(self, op: str, x: Index, by: int) -> Any:
        """Return x // by or x % by; terms that `by` divides are divided exactly."""
        whole = Index({k: c // by for k, c in x.terms.items() if c % by == 0}, (0,))
        rest = Index({k: c for k, c in x.terms.items() if c % by}, x.lanes)
        if not rest.terms:
            lanes = tuple(k // by for k in rest.lanes)
            if op == "//":
                return whole.plus(Index({}, lanes))
            return Index({}, tuple(k % by for k in rest.lanes))
        if len(rest.lanes) > 1:
            return None
        value = self.divide_by(op, "int64", self.whole(rest), by)
        found = Index({self.term(value): 1}, (0,))
        return whole.plus(found) if op == "//" else found

    def compare_index(self, op: str, gap: Index) -> Any:
        """Return `gap op 0`: a bool, or an i1 (vector)."""
        if not gap.terms:
            bits = [HOLDS[op](k, 0) for k in gap.lanes]
            if len(set(bits)) == 1:
                return bits[0]
            return RuntimeValue("bool", lanes_of(I1, bits))
        limit = self.b.neg(self.scalar(gap.terms))  # constant op -terms
        if len(gap.lanes) == 1:
            return RuntimeValue(
                "bool", self.b.icmp_signed(op, ir.Constant(I64, gap.lanes[0]), limit)
            )
        least, most = min(gap.lanes) - 1, max(gap.lanes) + 1
        if not -(2**31) <= least < most < 2**31:
            wide = self.splat(limit, len(gap.lanes))
            return RuntimeValue("bool", self.b.icmp_signed(op, lanes_of(I64, gap.lanes), wide))
        # Clamped to just outside of the constants, so that lanes of 32 bits suffice.
        low, high = (ir.Constant(I64, k) for k in (least, most))
        limit = self.extreme("min", "int64", self.extreme("max", "int64", limit, low), high)
        small = self.splat(self.b.trunc(limit, I32), len(gap.lanes))
        return RuntimeValue("bool", self.b.icmp_signed(op, lanes_of(I32, gap.lanes), small))

    def logic(self, op: str, x: Any, y: Any = None) -> Any:
        """Return not x, x and y, x or y; literals decide early."""
        if op == "not":
            return not x if isinstance(x, bool) else RuntimeValue("bool", self.b.not_(x.ir))
        for a, b in ((x, y), (y, x)):
            if isinstance(a, bool):
                return b if a == (op == "and") else a
        a, b = self.level(x.ir, y.ir)
        return RuntimeValue("bool", (self.conjunction if op == "and" else self.b.or_)(a, b))

    def select(self, node: TileExpr, point: Point, guards: Guards) -> Any:
        """Return `a if cond else b`; the branch not taken reads no memory."""
        test, then, other = node.args
        cond = self.eval(test, point, guards)
        if isinstance(cond, bool):
            # A transpose also reads for other points of the tile, where the condition may not hold.
            varies = any(name in test.uses for name, _ in self.tile.dims)
            known = (*guards, (test, cond)) if varies else guards
            chosen = self.eval(then if cond else other, point, known)
            dtype = self.made_of(node)
            bare = isinstance(chosen, float) or (isinstance(chosen, Index) and not chosen.terms)
            # The branch that is dropped may have given the dtype of a literal.
            return RuntimeValue(dtype, self.give(chosen, dtype)) if bare and dtype else chosen
        x = self.eval(then, point, (*guards, (test, True)))
        y = self.eval(other, point, (*guards, (test, False)))
        if isinstance(x, RuntimeValue) and id(x.ir) in self.zeroed and is_zero(y):
            return x
        dtypes = [v.dtype for v in (x, y) if isinstance(v, RuntimeValue)]
        dtypes += ["bool" for v in (x, y) if isinstance(v, bool)]
        dtypes += ["float64" for v in (x, y) if isinstance(v, float)]
        dtype = dtypes[0] if dtypes else "int64"
        a, b = self.level(self.give(x, dtype), self.give(y, dtype))
        wide = width(cond.ir, a)
        return RuntimeValue(dtype, self.b.select(*(self.splat(v, wide) for v in (cond.ir, a, b))))

    def made_of(self, node: TileExpr) -> str:
        """Return the dtype that the reads and casts of an expression give it, or ""."""
        if node.op == "read":
            return computed(self.tile.of(node).dtype)
        if node.op in STORED:
            return computed(node.op)
        if node.op in HOLDS or node.op in ("and", "or", "not", "const", "name"):
            return ""
        parts = node.args[1:] if node.op == "select" else node.args
        return next((found for part in parts if (found := self.made_of(part))), "")

    def cast(self, dtype: str, x: Any) -> Any:
        """Return x as dtype; a literal is converted at compile time."""
        if isinstance(x, Index) and dtype == "int64":
            return x
        if isinstance(x, float) or (isinstance(x, Index) and not x.terms and dtype != "bool"):
            if dtype in FLOATS or not isinstance(x, float):
                return RuntimeValue(computed(dtype), self.give(x, computed(dtype)))
            x = RuntimeValue("float64", ir.Constant(F64, x))
        old = x.dtype if isinstance(x, RuntimeValue) else "bool" if isinstance(x, bool) else "int64"
        return RuntimeValue(computed(dtype), self.convert(self.give(x, old), old, dtype))

    def typed(self, node: TileExpr, dtype: str, point: Point) -> Any:
        """Return the LLVM value of an expression that has dtype `dtype`."""
        return self.give(self.eval(node, point), dtype)

    def give(self, x: Any, dtype: str) -> Any:
        """Return the LLVM value of a literal, an Index or a RuntimeValue as `dtype`."""
        if isinstance(x, bool | float):
            return ir.Constant(COMPUTED[dtype], int(x) if isinstance(x, bool) else x)
        if isinstance(x, RuntimeValue):
            if x.dtype != dtype:
                raise ValueError(f"{x.dtype} where {dtype} is due")
            return x.ir
        if dtype == "int64" or x.terms:
            return self.convert(self.whole(x), "int64", dtype)
        numbers = [float(k) if dtype in FLOATS else k for k in x.lanes]
        kind = COMPUTED[dtype]
        return ir.Constant(kind, numbers[0]) if len(numbers) == 1 else lanes_of(kind, numbers)

    def level(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Return both as vectors if one of them is."""
        wide = width(a, b)
        return self.splat(a, wide), self.splat(b, wide)

    def splat(self, value: Any, lanes: int) -> Any:
        """Return a vector of `lanes` times a scalar; made once for every value."""
        if not lanes or isinstance(value.type, ir.VectorType):
            return value
        key = ("splat", id(value), lanes)
        if key not in self.memo:
            self.memo[key] = (
                super().splat(value, lanes),
                value,
            )  # `value` stays alive, so that its id is not reused
        return self.memo[key][0]

    def index(self, node: TileExpr, point: Point, guards: Guards = ()) -> Any:
        """Return an offset: an Index, or a RuntimeValue of one int64 per lane."""
        found = self.eval(node, point, guards)
        if isinstance(found, RuntimeValue) and not width(found.ir):
            return Index({self.term(self.convert(found.ir, found.dtype, "int64")): 1}, (0,))
        return found

    def term(self, value: Any, kind: str = "%") -> str:
        """Return a name for a run-time int64, by which an Index refers to it; one for each value.

        Args:
            kind: the beginning of the name; DATA if sums of the value may wrap around.
        """
        name: str = self.memo.setdefault((kind, id(value)), f"{kind}{len(self.values)}")
        self.values[name] = value  # the value stays alive, so that its id is not reused
        return name

    def whole(self, index: Index) -> Any:
        """Return the int64, or vector of them, that an Index stands for."""
        n = len(index.lanes)
        start = ir.Constant(I64, index.lanes[0])
        if n > 1:
            start = lanes_of(I64, index.lanes)
        if not index.terms:
            return start
        base = self.splat(self.scalar(index.terms), n if n > 1 else 0)
        return base if index.lanes == (0,) else self.b.add(base, start)

    def scalar(self, terms: dict[str, int]) -> Any:
        """Return sum(coefficient * term)."""
        if self.hoisted is not None and self.hoisted.know(terms):
            return self.hoisted.sum(self.b, terms, self.values)
        key, known = ("scalar", frozenset(terms.items())), self.memo_of(terms)
        if key not in known:
            total = None
            flags = () if any(name.startswith(DATA) for name in terms) else ("nsw",)
            for name, scale in terms.items():
                part = self.values[name]
                if scale != 1:
                    part = self.b.mul(part, whole_number(scale), flags=flags)
                total = part if total is None else self.b.add(total, part, flags=flags)
            known[key] = whole_number(0) if total is None else total
        return known[key]

    def memo_of(self, terms: dict[str, int]) -> dict[Any, Any]:
        """Return the memo for sums of some terms: names of this tile alone begin with %."""
        return self.memo if any(name[0] == "%" for name in terms) else self.shared
