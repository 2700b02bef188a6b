"""Explicit SIMD for numba: one operation on a whole register tile is one line of text.

    fma = tile("acc[i, v, l] += A[(i0 * 8 + i) * 512 + k] * B[k * 48 + v * 16 + l]",
               dims=(("i", 8), ("v", 3)), lane=("l", 16),
               types={"acc": "float32x16[8,3]", "A": "float32*", "B": "float32*"})

means: for every i < 8, v < 3 (written out) and l < 16 (the lanes of one vector), where `mask`
holds, do the statement. `fma` is a numba intrinsic; its arguments are the names of the text in
order of first appearance, the mask last, tile variables left out: `acc = fma(acc, A, i0, k, B)`.
"float32*" is memory (passed as an int64 address, indexed by one offset), "float32x16[8,3]" a
register tile of 8 x 3 vectors, "float32[8]" one of scalars; every other name is an int64.
A call answers the new value of the register tile it assigns (two of them: a tuple).

`+=`, `*=`, `x[..] = max(x[..], y)`, `min` combine, and reduce over tile variables that the target
does not mention; `x[..], p[..] = argmax((x[..], p[..]), (y, k))` (argmin) keeps the pair with the
better y, and of equals the smaller k. Nothing is read or written where the mask, or the condition
of an enclosing `if`, is false. float16, bfloat16 are computed in float32.
"""

import ast
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types as numba_types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64, POINTER = ir.FloatType(), ir.DoubleType(), ir.PointerType()
STORED = {
    "bool": I8, "int8": I8, "uint8": I8, "int32": I32, "int64": I64,
    "float16": ir.HalfType(), "bfloat16": I16, "float32": F32, "float64": F64,
}  # fmt: skip
COMPUTED = {**STORED, "bool": I1, "float16": F32, "bfloat16": F32}
BYTES = {"float16": 2, "bfloat16": 2, "int32": 4, "float32": 4, "int64": 8, "float64": 8}
FLOATS = ("float32", "float64")
LARGEST = {"int8": 127, "uint8": 255, "int32": 2**31 - 1, "int64": 2**63 - 1, "bool": 1}
LEAST = {"int8": -128, "uint8": 0, "int32": -(2**31), "int64": -(2**63), "bool": 0}
FLAGS = ("contract", "nsz")  # never nnan, ninf: NaN and infinity keep their meaning


# ---------------------------------------------------------------------------- the text of a tile
class Operand(NamedTuple):
    """What a name of the text stands for; `shape` is None for memory, `lanes` 0 for scalars."""

    dtype: str
    lanes: int
    shape: tuple[int, ...] | None

    @staticmethod
    def of(text: str) -> "Operand":
        """Read "float32*", "float32x16[8,3]" or "float32[8]"."""
        if text.endswith("*"):
            return Operand(text[:-1], 0, None)
        head, _, tail = text[:-1].partition("[")
        dtype, _, lanes = head.partition("x")
        return Operand(dtype, int(lanes or 0), tuple(int(n) for n in tail.split(",") if n))

    @property
    def element(self) -> Any:
        """The LLVM type of one register of the tile."""
        stored = I8 if self.dtype == "bool" else COMPUTED[self.dtype]
        return ir.VectorType(stored, self.lanes) if self.lanes else stored


class Node:
    """An expression; equal ones are one object. `uses` are tile variables, `reads` buffers."""

    __slots__ = ("args", "op", "reads", "uses")

    def __init__(self, op: str, args: tuple[Any, ...], uses: set[str], reads: set[str]) -> None:
        self.op, self.args, self.uses, self.reads = op, args, sorted(uses), reads


SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "neg",
}  # fmt: skip
CALLS = {
    "min", "max", "pow", "abs", "floor", "ceil", "exp", "log", "tanh", "erf", "sqrt", "rsqrt",
    "sigmoid", "argmax", "argmin", *STORED,
}  # fmt: skip


class Tile:
    """A parsed tile operation: `names` are its arguments, `results` the tiles it assigns."""

    def __init__(
        self,
        text: str,
        dims: tuple[tuple[str, int], ...],
        lane: tuple[str, int] | None,
        mask: str | None,
        kinds: dict[str, str],
    ) -> None:
        self.text, self.dims, self.nodes = text, dims, {}  # type: ignore[var-annotated]
        self.lane, self.lanes = lane or ("", 0)
        self.tile_vars = {name for name, _ in dims} | ({self.lane} if lane else set())
        self.operands = {name: Operand.of(kind) for name, kind in kinds.items()}
        self.names: list[str] = []
        self._statement(ast.parse(text).body[0])
        self.mask = self._node(ast.parse(mask, mode="eval").body) if mask else None
        self.results = [t.args[0] for t in self.targets if self.holds(t.args[0])]

    def holds(self, name: str) -> bool:
        """Whether a name of the text is a register tile."""
        return name in self.operands and self.operands[name].shape is not None

    def of(self, read: Node) -> Operand:
        """Return the operand that a read or a target touches."""
        return self.operands[read.args[0]]

    def _statement(self, tree: ast.stmt) -> None:
        self.combiner = ""
        match tree:
            case ast.AugAssign(target=target, op=ast.Add() | ast.Mult() as op, value=value):
                self.targets, self.values = [self._node(target)], [self._node(value)]
                self.combiner = "sum" if isinstance(op, ast.Add) else "prod"
            case ast.Assign(
                targets=[ast.Tuple(elts=targets)],
                value=ast.Call(
                    func=ast.Name(id=name), args=[ast.Tuple(elts=old), ast.Tuple(elts=new)]
                ),
            ):
                self.targets, self.combiner = [self._node(t) for t in targets], name
                if name not in ("argmax", "argmin") or self.targets != [self._node(t) for t in old]:
                    raise ValueError(f"not a tile operation: {self.text}")
                self.values = [self._node(part) for part in new]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                self.targets = [self._node(part) for part in targets]
                self.values = [self._node(part) for part in values]
            case ast.Assign(targets=[target], value=value):
                self.targets, node = [self._node(target)], self._node(value)
                combines = node.op in ("max", "min") and node.args[0] is self.targets[0]
                self.combiner = node.op if combines else ""
                self.values = [node.args[1] if combines else node]
            case _:
                raise ValueError(f"not a tile operation: {self.text}")

    def _node(self, tree: ast.AST) -> Node:
        match tree:
            case ast.Constant(value=bool() | int() | float() as value):
                return self._make("const", type(value), value)
            case ast.Name(id="inf" | "nan" as name):
                return self._make("const", float, float(name))
            case ast.Name(id=name):
                return self._make("name", self._seen(name))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                return self._make("read", self._seen(name), *map(self._node, parts))
            case ast.UnaryOp(op=op, operand=a) if type(op) in SYMBOLS:
                return self._make(SYMBOLS[type(op)], self._node(a))
            case ast.BinOp(left=a, op=op, right=b) if type(op) in SYMBOLS:
                return self._make(SYMBOLS[type(op)], self._node(a), self._node(b))
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in SYMBOLS:
                return self._make(SYMBOLS[type(op)], self._node(a), self._node(b))
            case ast.BoolOp(op=op, values=[a, *rest]):
                node = self._node(a)
                for part in rest:
                    node = self._make(SYMBOLS[type(op)], node, self._node(part))
                return node
            case ast.IfExp(test=cond, body=a, orelse=b):
                return self._make("select", *map(self._node, (cond, a, b)))
            case ast.Call(func=ast.Name(id=name), args=parts) if name in CALLS:
                return self._make(name, *map(self._node, parts))
        raise ValueError(f"{ast.unparse(tree)} has no place in a tile: {self.text}")

    def _seen(self, name: str) -> str:
        if name not in self.names and name not in self.tile_vars:
            self.names.append(name)
        return name

    def _make(self, op: str, *args: Any) -> Node:
        if (op, args) not in self.nodes:
            parts = [part for part in args if isinstance(part, Node)]
            uses = {name for part in parts for name in part.uses}
            reads = {name for part in parts for name in part.reads}
            if op == "name":
                uses = {args[0]} & self.tile_vars
            if op == "read":
                reads.add(args[0])
            self.nodes[op, args] = Node(op, args, uses, reads)
        return self.nodes[op, args]  # type: ignore[no-any-return]

    def slope(self, node: Node, var: str) -> int | None:
        """Return the coefficient of `var` where `node` is linear in it, else None."""
        if var not in node.uses:
            return 0
        if node.op == "name":
            return 1
        parts = [self.slope(part, var) for part in node.args if isinstance(part, Node)]
        if None in parts or node.op not in ("+", "-", "*", "neg"):
            return None
        if node.op == "*":
            scale = next((part.args[1] for part in node.args if part.op == "const"), None)
            return None if scale is None else scale * sum(parts)  # type: ignore[arg-type,no-any-return]
        signs = {"+": (1, 1), "-": (1, -1), "neg": (-1,)}[node.op]
        return sum(sign * part for sign, part in zip(signs, parts, strict=True))  # type: ignore[operator]

    def shrinks(self, mask: Node) -> bool:
        """Whether a mask that holds at some tile point also holds at every smaller one."""
        if mask.op == "and":
            return all(self.shrinks(part) for part in mask.args)
        if mask.op not in ("<", "<=", ">", ">="):
            return not mask.uses
        a, b = mask.args if mask.op[0] == "<" else mask.args[::-1]
        pairs = [(self.slope(a, var), self.slope(b, var)) for var in mask.uses]
        return all(x is not None and y is not None and x >= y for x, y in pairs)


# ---------------------------------------------------------------------------- scalars and vectors
class Index:
    """An int64 known up to run-time scalars: sum(coefficient * term) + constants, one per lane."""

    __slots__ = ("lanes", "terms")

    def __init__(self, terms: dict[str, int], lanes: tuple[int, ...]) -> None:
        self.terms = {name: scale for name, scale in terms.items() if scale}
        self.lanes = lanes[:1] if len(set(lanes)) == 1 else lanes

    def plus(self, other: "Index", scale: int = 1) -> "Index":
        """Return self + scale * other."""
        terms = dict(self.terms)
        for name, factor in other.terms.items():
            terms[name] = terms.get(name, 0) + scale * factor
        n = max(len(self.lanes), len(other.lanes))
        a, b = self.lanes * (n // len(self.lanes)), other.lanes * (n // len(other.lanes))
        return Index(terms, tuple(x + scale * y for x, y in zip(a, b, strict=True)))


class Value(NamedTuple):
    """A scalar or a vector computed at run time; bool is i1."""

    dtype: str
    ir: Any


class Arithmetic:
    """LLVM code for the operators and functions of the text, on scalars and vectors alike."""

    def __init__(self, builder: Any) -> None:
        self.b = builder

    def call(self, name: str, result: Any, *args: Any) -> Any:
        """Call the intrinsic llvm.`name`, overloaded on `result`."""
        function = ir.FunctionType(result, [arg.type for arg in args])
        full = f"llvm.{name}.{mangled(result)}"
        return self.b.call(cgutils.get_or_insert_function(self.b.module, function, full), args)

    def splat(self, value: Any, lanes: int) -> Any:
        """Return a vector of `lanes` times the scalar `value` (a vector stays)."""
        if isinstance(value.type, ir.VectorType) or not lanes:
            return value
        kind = ir.VectorType(value.type, lanes)
        if isinstance(value, ir.Constant):
            return ir.Constant(kind, [value.constant] * lanes)
        empty = ir.Constant(kind, ir.Undefined)
        one = self.b.insert_element(empty, value, ir.Constant(I32, 0))
        return self.b.shuffle_vector(one, empty, ir.Constant(ir.VectorType(I32, lanes), None))

    def like(self, value: Any, number: float) -> Any:
        """Return `number` in the type of `value`."""
        kind = value.type
        if isinstance(kind, ir.VectorType):
            return ir.Constant(kind, [number] * kind.count)
        return ir.Constant(kind, number)

    def shuffle(self, a: Any, b: Any, picks: list[int]) -> Any:
        """Return the lanes `picks` of `a` followed by `b`."""
        return self.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(picks)), picks))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a * b + c, rounded once."""
        return self.call("fma", a.type, a, b, c)

    def convert(self, value: Any, old: str, new: str) -> Any:
        """Return `value` of dtype `old` as `new`; floats truncate towards zero."""
        b, kind = self.b, reshaped(value.type, COMPUTED[new])
        if new in ("float16", "bfloat16"):
            return self.loaded(self.stored(self.convert(value, old, "float32"), new), new)
        if old == new:
            return value
        if new == "bool":
            zero = self.like(value, 0)
            return (
                b.fcmp_unordered("!=", value, zero)
                if old in FLOATS
                else b.icmp_signed("!=", value, zero)
            )
        if old in FLOATS and new in FLOATS:
            return b.fpext(value, kind) if new == "float64" else b.fptrunc(value, kind)
        if old in FLOATS:
            wide = reshaped(value.type, I64 if new == "int64" else I32)
            whole = b.fptosi(value, wide)
            return b.trunc(whole, kind) if new in ("int8", "uint8") else whole
        if new in FLOATS:
            return (b.uitofp if old in ("bool", "uint8") else b.sitofp)(value, kind)
        size, goal = COMPUTED[old].width, COMPUTED[new].width
        if size >= goal:
            return b.trunc(value, kind) if size > goal else value
        return (b.zext if old in ("bool", "uint8") else b.sext)(value, kind)

    def loaded(self, value: Any, dtype: str) -> Any:
        """Return a value as it lies in memory in the form for computing."""
        b = self.b
        if dtype == "bool":
            return b.icmp_signed("!=", value, self.like(value, 0))
        if dtype == "float16":
            return b.fpext(value, reshaped(value.type, F32))
        if dtype == "bfloat16":
            bits = b.zext(value, reshaped(value.type, I32))
            return b.bitcast(b.shl(bits, self.like(bits, 16)), reshaped(value.type, F32))
        return value

    def stored(self, value: Any, dtype: str) -> Any:
        """Return a computed value in the form that memory holds, rounded to nearest even."""
        b = self.b
        if dtype == "bool":
            return b.zext(value, reshaped(value.type, I8))
        if dtype == "float16":
            return b.fptrunc(value, reshaped(value.type, ir.HalfType()))
        if dtype == "bfloat16":
            bits = b.bitcast(value, reshaped(value.type, I32))
            odd = b.and_(b.lshr(bits, self.like(bits, 16)), self.like(bits, 1))
            near = b.add(bits, b.add(odd, self.like(bits, 0x7FFF)))
            quiet = b.or_(bits, self.like(bits, 0x400000))
            near = b.select(b.fcmp_unordered("uno", value, value), quiet, near)
            return b.trunc(b.lshr(near, self.like(bits, 16)), reshaped(value.type, I16))
        return value

    def extreme(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return max or min; a NaN on either side wins, as in NumPy."""
        b, sign = self.b, ">" if op == "max" else "<"
        if dtype not in FLOATS:
            compare = b.icmp_unsigned if dtype in ("uint8", "bool") else b.icmp_signed
            return b.select(compare(sign, x, y), x, y)
        if isinstance(y, ir.Constant):  # a constant first: this form keeps a NaN on the right
            x, y = y, x
        best = b.select(b.fcmp_ordered(sign, x, y), x, y)
        if isinstance(x, ir.Constant):
            return best
        return b.select(b.fcmp_unordered("uno", x, x), x, best)

    def compare(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return the i1 of a comparison."""
        if dtype in FLOATS:
            return (self.b.fcmp_unordered if op == "!=" else self.b.fcmp_ordered)(op, x, y)
        unsigned = dtype in ("uint8", "bool")
        return (self.b.icmp_unsigned if unsigned else self.b.icmp_signed)(op, x, y)

    def divide(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return x // y or x % y, rounded down; never traps: by zero gives 0."""
        b, quotient = self.b, op == "//"
        zero, one, less = (self.like(x, number) for number in (0, 1, -1))
        if dtype in ("uint8", "bool"):
            none = b.icmp_signed("==", y, zero)
            safe = b.select(none, one, y)
            return b.select(none, zero, (b.udiv if quotient else b.urem)(x, safe))
        constant = isinstance(y, ir.Constant)
        number = y.constant if constant else None
        number = number[0].constant if isinstance(number, list) else number
        if constant and number > 0 and number & (number - 1) == 0:
            if quotient:
                return b.ashr(x, self.like(x, number.bit_length() - 1))
            return b.and_(x, self.like(x, number - 1))
        odd = b.or_(b.icmp_signed("==", y, zero), b.icmp_signed("==", y, less))
        safe = y if constant and number not in (0, -1) else b.select(odd, one, y)
        rest = b.srem(x, safe)
        down = b.and_(
            b.icmp_signed("!=", rest, zero),
            b.xor(b.icmp_signed("<", rest, zero), b.icmp_signed("<", safe, zero)),
        )
        if not quotient:
            return b.select(down, b.add(rest, safe), rest)
        whole = b.sdiv(x, safe)
        whole = b.select(down, b.sub(whole, one), whole)
        if safe is y:
            return whole
        special = b.select(b.icmp_signed("==", y, zero), zero, b.sub(zero, x))
        return b.select(odd, special, whole)

    def binary(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return x op y for two values of one dtype and width."""
        b = self.b
        if op in ("max", "min"):
            return self.extreme(op, dtype, x, y)
        if op in ("//", "%"):
            return self.divide(op, dtype, x, y)
        if op == "pow":
            return self.call("pow", x.type, x, y)
        if dtype in FLOATS:
            code = {"+": b.fadd, "-": b.fsub, "*": b.fmul, "/": b.fdiv}[op]
            return code(x, y, flags=FLAGS)
        return {"+": b.add, "-": b.sub, "*": b.mul}[op](x, y)

    def unary(self, op: str, dtype: str, x: Any) -> Any:
        """Return op(x): negation, rounding, or a function of mathematics."""
        b = self.b
        if dtype not in FLOATS:
            zero = self.like(x, 0)
            if op == "neg":
                return b.sub(zero, x)
            if op == "abs" and dtype not in ("uint8", "bool"):
                return b.select(b.icmp_signed("<", x, zero), b.sub(zero, x), x)
            return x
        if op == "neg":
            return b.fneg(x)
        if op in ("abs", "floor", "ceil", "sqrt"):
            return self.call({"abs": "fabs"}.get(op, op), x.type, x)
        if op == "rsqrt":
            return b.fdiv(self.like(x, 1.0), self.call("sqrt", x.type, x))
        return Functions(b, dtype).of(op, x)

    def better(self, op: str, dtypes: list[str], new: list[Any], old: list[Any]) -> Any:
        """Return where the pair `new` beats `old` for argmax, argmin; NaN beats every number."""
        b, (x, k), (y, p) = self.b, new, old
        wins = self.compare(">" if op == "argmax" else "<", dtypes[0], x, y)
        same = self.compare("==", dtypes[0], x, y)
        if dtypes[0] in FLOATS:
            x_nan, y_nan = (b.fcmp_unordered("uno", v, v) for v in (x, y))
            wins = b.or_(wins, b.and_(x_nan, b.not_(y_nan)))
            same = b.or_(same, b.and_(x_nan, y_nan))
        return b.or_(wins, b.and_(same, self.compare("<", dtypes[1], k, p)))

    def combine(self, op: str, dtypes: list[str], old: list[Any], new: list[Any]) -> list[Any]:
        """Return the combination of an accumulator with new values."""
        if op in ("argmax", "argmin"):
            wins = self.better(op, dtypes, new, old)
            return [self.b.select(wins, x, y) for x, y in zip(new, old, strict=True)]
        symbol = {"sum": "+", "prod": "*"}.get(op, op)
        return [self.binary(symbol, dtypes[0], new[0], old[0])]


def reshaped(kind: Any, element: Any) -> Any:
    """Return `element`, as a vector of as many lanes as `kind` where that is a vector."""
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


def mangled(kind: Any) -> str:
    """Return how LLVM's overloaded intrinsics spell a type."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{mangled(kind.element)}"
    names = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
    return names.get(str(kind), str(kind))


# ---------------------------------------------------------------------------- functions
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
       5.0000001201e-1)  # fmt: skip
LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
       -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
        -3.33332819422e-1)  # fmt: skip
ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
             1.28379166e-1)  # fmt: skip


class Functions:
    """Polynomials for float32, within 4 units in the last place; libm, lane by lane, for float64.

    exp, log, tanh: the Cephes library (S. Moshier); erf: N. Juffa's two-interval minimax.
    """

    def __init__(self, builder: Any, dtype: str) -> None:
        self.b, self.dtype, self.a = builder, dtype, Arithmetic(builder)

    def of(self, name: str, x: Any) -> Any:
        """Return name(x) for exp, log, tanh, erf or sigmoid."""
        return getattr(self, name)(x)

    def poly(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """Return the polynomial in x, highest power first."""
        result = self.a.like(x, coefficients[0])
        for number in coefficients[1:]:
            result = self.a.fma(result, x, self.a.like(x, number))
        return result

    def exp(self, x: Any) -> Any:
        """Return e**x: 2**n * e**r with |r| <= log(2) / 2; 2**n in two steps, for denormals."""
        b, like, fma = self.b, self.a.like, self.a.fma
        if self.dtype == "float64":
            return self.a.call("exp", x.type, x)
        for sign, limit in ((">", -105.0), ("<", 89.5)):
            edge = like(x, limit)
            x = b.select(b.fcmp_ordered(sign, edge, x), edge, x)  # NaN stays
        magic = like(x, 12582912.0)  # 1.5 * 2**23: adding it rounds to an integer in the low bits
        shifted = fma(x, like(x, 1.44269504088896341), magic)
        n = b.fsub(shifted, magic)
        r = fma(n, like(x, 2.12194440e-4), fma(n, like(x, -0.693359375), x))
        y = b.fadd(fma(b.fmul(r, r), self.poly(r, EXP), r), like(x, 1.0))
        bits = reshaped(x.type, I32)
        whole = b.sub(b.bitcast(shifted, bits), b.bitcast(magic, bits))
        half = b.ashr(whole, like(whole, 1))
        for part in (half, b.sub(whole, half)):
            y = b.fmul(y, self.power(part, x.type))
        return y

    def power(self, n: Any, kind: Any) -> Any:
        """Return 2**n for integers -126 <= n <= 127."""
        biased = self.b.add(n, self.a.like(n, 127))
        return self.b.bitcast(self.b.shl(biased, self.a.like(n, 23)), kind)

    def log(self, x: Any) -> Any:
        """Return the natural logarithm; x = m * 2**e with sqrt(1/2) <= m < sqrt(2)."""
        b, like, fma = self.b, self.a.like, self.a.fma
        if self.dtype == "float64":
            return self.a.call("log", x.type, x)
        bits_type = reshaped(x.type, I32)
        tiny = b.fcmp_ordered("<", x, like(x, 1.1754943508222875e-38))
        scaled = b.select(tiny, b.fmul(x, like(x, 8388608.0)), x)
        bits = b.bitcast(scaled, bits_type)
        shifted = b.sub(bits, self.a.like(bits, 0x3F3504F3))  # the bits of sqrt(1/2)
        e = b.sitofp(b.ashr(shifted, self.a.like(bits, 23)), x.type)
        e = b.fadd(e, b.select(tiny, like(x, -23.0), like(x, 0.0)))
        m = b.add(b.and_(shifted, self.a.like(bits, 0x7FFFFF)), self.a.like(bits, 0x3F3504F3))
        f = b.fsub(b.bitcast(m, x.type), like(x, 1.0))
        square = b.fmul(f, f)
        y = b.fmul(b.fmul(self.poly(f, LOG), f), square)
        y = fma(e, like(x, -2.12194440e-4), y)
        y = b.fadd(f, fma(square, like(x, -0.5), y))
        y = fma(e, like(x, 0.693359375), y)
        y = b.select(b.fcmp_ordered("<", x, like(x, math.inf)), y, x)  # inf, NaN
        y = b.select(b.fcmp_ordered("==", x, like(x, 0.0)), like(x, -math.inf), y)
        return b.select(b.fcmp_ordered("<", x, like(x, 0.0)), like(x, math.nan), y)

    def tanh(self, x: Any) -> Any:
        """Return tanh: an odd polynomial near 0, else 1 - 2 / (e**2|x| + 1)."""
        b, like = self.b, self.a.like
        if self.dtype == "float64":
            return self.a.call("tanh", x.type, x)
        size, square = self.a.call("fabs", x.type, x), b.fmul(x, x)
        small = self.a.fma(b.fmul(self.poly(square, TANH), square), x, x)
        power = b.fadd(self.exp(b.fadd(size, size)), like(x, 1.0))
        large = b.fsub(like(x, 1.0), b.fdiv(like(x, 2.0), power))
        large = self.a.call("copysign", x.type, large, x)
        return b.select(b.fcmp_ordered("<", size, like(x, 0.625)), small, large)

    def sigmoid(self, x: Any) -> Any:
        """Return 1 / (1 + e**-x), with e**-|x| so that small results keep their digits."""
        b, one = self.b, self.a.like(x, 1.0)
        power = self.exp(b.fneg(self.a.call("fabs", x.type, x)))
        negative = b.fcmp_ordered("<", x, self.a.like(x, 0.0))
        return b.fdiv(b.select(negative, power, one), b.fadd(power, one))

    def erf(self, x: Any) -> Any:
        """Return the error function."""
        b, like, fma = self.b, self.a.like, self.a.fma
        if self.dtype == "float64":
            return self.each_lane("erf", x)
        size, s = self.a.call("fabs", x.type, x), b.fmul(x, x)
        small = fma(self.poly(s, ERF_SMALL), x, x)
        t = b.select(b.fcmp_ordered(">", size, like(x, 10.0)), like(x, 10.0), size)
        square = b.fmul(t, t)
        r = fma(like(x, -1.72853470e-5), t, like(x, 3.83197126e-4))
        u = fma(like(x, -3.88396438e-3), t, like(x, 2.42546219e-2))
        r = fma(r, square, u)
        for number in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
            r = fma(r, t, like(x, number))
        r = fma(r, t, b.fneg(t))
        large = self.a.call("copysign", x.type, b.fsub(like(x, 1.0), self.exp(r)), x)
        return b.select(b.fcmp_ordered(">", size, like(x, 0.927734375)), large, small)

    def each_lane(self, name: str, x: Any) -> Any:
        """Call the C function `double name(double)` on every lane."""
        kind = ir.FunctionType(F64, [F64])
        function = cgutils.get_or_insert_function(self.b.module, kind, name)
        if not isinstance(x.type, ir.VectorType):
            return self.b.call(function, [x])
        result = ir.Constant(x.type, ir.Undefined)
        for k in range(x.type.count):
            lane = ir.Constant(I32, k)
            one = self.b.call(function, [self.b.extract_element(x, lane)])
            result = self.b.insert_element(result, one, lane)
        return result


# ---------------------------------------------------------------------------- one expansion
Point = dict[str, tuple[int, ...]]  # tile variable -> its value, or one per lane
Guards = tuple[tuple[Node, bool], ...]  # conditions of enclosing selects, and whether they hold


class Expansion(Arithmetic):
    """Writes the code of one tile operation; `values` are its arguments by name.

    Memory is an address (int64) or a pointer, a register tile a list of registers; the lists of
    `tile.results` hold the new registers after `run`.
    """

    def __init__(self, tile: Tile, builder: Any, values: dict[str, Any]) -> None:
        super().__init__(builder)
        self.tile, self.n = tile, tile.lanes
        self.values = {k: list(v) if isinstance(v, list) else v for k, v in values.items()}
        self.memo: dict[Any, Any] = {}
        self.sums: dict[Any, list[Any]] = {}
        self.dtypes = [computed(tile.of(target).dtype) for target in tile.targets]
        self.kept = tile.targets[0].uses  # tile variables that the target mentions
        self.corners = tile.mask is not None and bool(tile.lane) and tile.shrinks(tile.mask)
        self.stepwise = tile.mask is not None and not self.corners

    def run(self) -> dict[str, Any]:
        """Emit everything and return the values, register tiles updated."""
        if not self.corners:
            self.body()
            return self.values
        corner = {name: (0,) for name in sorted(self.tile.tile_vars)}
        some = self.eval(self.tile.mask, corner)  # an empty tile must not even load broadcasts
        if some is True:
            self.body()
        elif some is not False:
            with self.when(some.ir):
                self.body()
        return self.values

    def body(self) -> None:
        """Emit the statement for every point of the dims."""
        rows = self.transposed_dim()
        names = [name for name, _ in self.tile.dims if name != rows]
        for numbers in itertools.product(
            *(range(n) for name, n in self.tile.dims if name in names)
        ):
            point = {name: (k,) for name, k in zip(names, numbers, strict=True)}
            if self.n:
                point[self.tile.lane] = tuple(range(self.n))
            if rows:
                self.transposed(point, rows)
            elif self.n or self.tile.mask is None:
                self.step(point)
            else:
                self.guarded_step(point)

    def guarded_step(self, point: Point) -> None:
        """Emit one scalar statement inside a branch on the mask."""
        cond = self.eval(self.tile.mask, point)
        if cond is True:
            self.step(point)
        elif cond is not False:
            with self.when(cond.ir):
                self.step(point)

    @contextmanager
    def when(self, cond: Any) -> Iterator[None]:
        """Run the emitted block only where the scalar `cond` holds; registers get phis."""
        tiles = {k: list(v) for k, v in self.values.items() if isinstance(v, list)}
        memo, entry = dict(self.memo), self.b.block
        with self.b.if_then(cond):
            yield
            end = self.b.block
        self.memo = memo
        for name, before in tiles.items():
            for k, (old, new) in enumerate(zip(before, self.values[name], strict=True)):
                if old is not new:
                    phi = self.b.phi(new.type)
                    phi.add_incoming(old, entry)
                    phi.add_incoming(new, end)
                    self.values[name][k] = phi

    # ---- statements
    def step(self, point: Point) -> None:
        """Emit the statement at one point: assign, or combine and write after the last part."""
        tile, op = self.tile, self.tile.combiner
        guard = True if tile.mask is None or not self.n else self.allowed((), point, None)
        if guard is False:
            return
        if not op:
            pairs = zip(tile.values, self.dtypes, strict=True)
            self.put(point, [self.typed(value, dtype, point) for value, dtype in pairs], guard)
            return
        inside = bool(self.n) and tile.lane not in self.kept  # a reduction along the lanes
        reduced = [(k, n) for k, n in tile.dims if k not in self.kept]
        first = self.stepwise or all(point[k] == (0,) for k, _ in reduced)
        last = self.stepwise or all(point[k] == (n - 1,) for k, n in reduced)
        key = tuple(point[k] for k in self.kept)
        if first:
            self.sums[key] = self.identity() if inside else self.fetch(point)
        old = self.sums[key]
        new = self.accumulate(old, point)
        if guard is not True:
            new = [self.b.select(guard, x, y) for x, y in zip(new, old, strict=True)]
        self.sums[key] = new
        if last:
            if inside:
                new = self.combine(op, self.dtypes, self.fetch(point), self.across(new))
            self.put(point, new, None)

    def accumulate(self, old: list[Any], point: Point) -> list[Any]:
        """Return `old` combined with the values at a point; a product is added by fma."""
        tile, (node, *_) = self.tile, self.tile.values
        lanes = getattr(old[0].type, "count", 0)
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
        """Return vectors that change nothing when combined."""
        op, dtype = self.tile.combiner, self.dtypes[0]
        floats, largest = dtype in FLOATS, op in ("max", "argmax")
        if op in ("sum", "prod"):
            start: float = 0 if op == "sum" else 1
        elif floats:
            start = -math.inf if largest else math.inf
        else:
            start = (LEAST if largest else LARGEST)[dtype]
        numbers = [start] + [LARGEST[extra] for extra in self.dtypes[1:]]
        kinds = [ir.VectorType(COMPUTED[dtype], self.n) for dtype in self.dtypes]
        return [ir.Constant(k, [x] * self.n) for k, x in zip(kinds, numbers, strict=True)]

    def across(self, parts: list[Any]) -> list[Any]:
        """Return the combination of all lanes, by halving while their number is even."""
        lanes = parts[0].type.count
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
        """Return what the targets hold."""
        wide = self.n if self.tile.lane in self.kept else 0
        found = [self.load(target, point, ()) for target in self.tile.targets]
        return [self.splat(value.ir, wide) for value in found]

    def put(self, point: Point, new: list[Any], guard: Any) -> None:
        """Write the targets where `guard` holds; None: at all points that the tile covers."""
        lanes = self.n if self.tile.lane in self.kept else 0
        for target, value in zip(self.tile.targets, new, strict=True):
            if not lanes and isinstance(value.type, ir.VectorType):
                if guard is not None and guard is not True:
                    raise ValueError(f"the last lane is not known: {self.tile.text}")
                value = self.b.extract_element(value, ir.Constant(I32, self.n - 1))  # noqa: PLW2901
            self.write(target, point, self.splat(value, lanes), guard)

    def write(self, target: Node, point: Point, value: Any, guard: Any) -> None:
        """Write one value to a register or to memory."""
        operand, name = self.tile.of(target), target.args[0]
        if operand.shape is not None:
            place, _ = self.register(target, point)
            if guard is not None and guard is not True:
                old = self.loaded(self.values[name][place], operand.dtype)
                value = self.b.select(guard, value, old)
            value = self.stored(value, "bool") if operand.dtype == "bool" else value
            self.values[name][place] = value
            return
        index = self.index(target.args[1], point)
        allowed = self.allowed((), point, set(self.kept)) if guard is None else guard
        self.save(name, operand.dtype, index, self.stored(value, operand.dtype), allowed)

    def save(self, name: str, dtype: str, index: Any, value: Any, guard: Any) -> None:
        """Store to memory under a guard: whole vector, masked, scattered, or a scalar."""
        align = BYTES.get(dtype, 1)
        if not isinstance(value.type, ir.VectorType):
            place = self.address(name, dtype, index)
            if guard is True:
                self.b.store(value, place, align=align)
                return
            with self.when(self.any(guard)):
                self.b.store(value, place, align=align)
            return
        width = ir.Constant(I32, align)
        if consecutive(index):
            place = self.address(name, dtype, index)
            if guard is True:
                self.b.store(value, place, align=align)
                return
            self.masked("store", value.type, value, place, width, self.splat(guard, self.n))
            return
        place = self.addresses(name, dtype, index)
        guard = ir.Constant(I1, 1) if guard is True else guard
        self.masked("scatter", value.type, value, place, width, self.splat(guard, self.n))

    def masked(self, name: str, kind: Any, *args: Any) -> Any:
        """Call llvm.masked.`name`: store, scatter (void), load, gather (answers `kind`)."""
        result = ir.VoidType() if name in ("store", "scatter") else kind
        pointers = "v%dp0" % kind.count if name in ("scatter", "gather") else "p0"  # noqa: UP031
        full = f"llvm.masked.{name}.{mangled(kind)}.{pointers}"
        function = ir.FunctionType(result, [arg.type for arg in args])
        return self.b.call(cgutils.get_or_insert_function(self.b.module, function, full), args)

    # ---- a store whose lanes lie far apart, while a dim lies along memory
    def transposed_dim(self) -> str:
        """Return the dim along which to store after an in-register transpose, or ""."""
        tile, (target, *_) = self.tile, self.tile.targets
        whole = len(target.uses) == len(tile.tile_vars) and tile.of(target).shape is None
        if not whole or self.n not in (4, 8, 16) or len(tile.targets) > 1:
            return ""
        if tile.slope(target.args[1], tile.lane) in (None, 1, -1):
            return ""
        near = [name for name, n in tile.dims if n > 1 and tile.slope(target.args[1], name) == 1]
        return near[0] if near else ""

    def transposed(self, point: Point, rows: str) -> None:
        """Emit all of dim `rows` at a point, in blocks of as many rows as there are lanes."""
        tile, n, (target, *_) = self.tile, self.n, self.tile.targets
        extent, operand = dict(tile.dims)[rows], tile.of(target)
        for base in range(0, extent, n):
            count = min(n, extent - base)
            vectors = [
                self.splat(
                    self.typed(tile.values[0], self.dtypes[0], {**point, rows: (base + k,)}), n
                )
                for k in range(count)
            ]
            empty = ir.Constant(vectors[0].type, ir.Undefined)
            for k, vector in enumerate(self.transpose(vectors + [empty] * (n - count))):
                turned = {**point, rows: tuple(range(base, base + n)), tile.lane: (k,)}
                guard = True if tile.mask is None else self.allowed((), turned, None)
                short = ir.Constant(ir.VectorType(I1, n), [int(j < count) for j in range(n)])
                if guard is False:
                    continue
                if count < n:
                    guard = short if guard is True else self.conjunction(guard, short)
                index = self.index(target.args[1], turned)
                if tile.combiner:
                    old = self.fetch_vector(target.args[0], operand.dtype, index, guard)
                    vector = self.combine(tile.combiner, self.dtypes, [old], [vector])[0]  # noqa: PLW2901
                stored = self.stored(vector, operand.dtype)
                self.save(target.args[0], operand.dtype, index, stored, guard)

    def transpose(self, rows: list[Any]) -> list[Any]:
        """Return the columns of a square of vectors.

        Pairs of 32-bit, then 64-bit units within 128 bits, then whole 128-bit blocks: shuffles
        that x86 does with an immediate. An index vector would have to live in a register.
        """
        n = len(rows)
        if n != 16:
            for _ in range(n.bit_length() - 1):
                pairs = [(rows[k], rows[k + n // 2]) for k in range(n // 2)]
                halves = [
                    [q for k in range(h, h + n // 2) for q in (k, n + k)] for h in (0, n // 2)
                ]
                rows = [self.shuffle(x, y, half) for x, y in pairs for half in halves]
            return rows
        low = [
            [b + q for b in (0, 4, 8, 12) for q in unit]
            for unit in ((0, 16, 1, 17), (0, 1, 16, 17))
        ]
        high = [[k + 2 for k in picks] for picks in low]
        for step in (0, 1):
            done: list[Any] = [None] * 16
            for k in range(16):
                if k & (1 << step) == 0:
                    x, y = rows[k], rows[k + (1 << step)]
                    first = k & ~3 | {0: k & 3, 1: 2 * (k & 1)}[step]
                    done[first] = self.shuffle(x, y, low[step])
                    done[first + 1] = self.shuffle(x, y, high[step])
            rows = done
        blocks = [[16 * side + 4 * k + q for side, k in picks for q in range(4)] for picks in (
            ((0, 0), (0, 1), (1, 0), (1, 1)), ((0, 2), (0, 3), (1, 2), (1, 3)),
            ((0, 0), (0, 2), (1, 0), (1, 2)), ((0, 1), (0, 3), (1, 1), (1, 3)),
        )]  # fmt: skip
        result: list[Any] = [None] * 16
        for c in range(4):
            x = [rows[4 * k + c] for k in range(4)]
            for part in (0, 1):
                p, q = (self.shuffle(x[k], x[k + 1], blocks[part]) for k in (0, 2))
                result[8 * part + c] = self.shuffle(p, q, blocks[2])
                result[8 * part + 4 + c] = self.shuffle(p, q, blocks[3])
        return result

    # ---- guards
    def allowed(self, guards: Guards, point: Point, keep: set[str] | None) -> Any:
        """Return True, False, or the i1 (vector) that says where an access may happen.

        `keep`: the tile variables that the access depends on; it happens where the mask holds for
        some value of the others, which is at their 0 when the mask only shrinks.
        """
        parts: list[Any] = []
        if self.tile.mask is not None and self.n:
            corner = self.corners and keep is not None
            where = {k: (0,) if corner and k not in keep else v for k, v in point.items()}  # type: ignore[operator]
            parts.append(self.eval(self.tile.mask, where))
        for k, (node, positive) in enumerate(guards):
            cond = self.eval(node, point, guards[:k])
            if positive:
                parts.append(cond)
            else:
                parts.append(
                    not cond if isinstance(cond, bool) else Value("bool", self.b.not_(cond.ir))
                )
        result: Any = True
        for part in parts:
            if part is False:
                return False
            if part is not True:
                result = part.ir if result is True else self.conjunction(result, part.ir)
        return result

    def conjunction(self, a: Any, b: Any) -> Any:
        """Return a and b of i1 scalars or vectors."""
        wide = max(getattr(v.type, "count", 0) for v in (a, b))
        return self.b.and_(self.splat(a, wide), self.splat(b, wide))

    def any(self, guard: Any) -> Any:
        """Return the i1 that says whether a lane of `guard` is set."""
        if not isinstance(guard.type, ir.VectorType):
            return guard
        function = ir.FunctionType(I1, [guard.type])
        name = f"llvm.vector.reduce.or.{mangled(guard.type)}"
        return self.b.call(cgutils.get_or_insert_function(self.b.module, function, name), [guard])

    # ---- memory
    def register(self, read: Node, point: Point) -> tuple[int, tuple[int, ...]]:
        """Return the place of a register in its tile, and the lanes that are meant."""
        operand, place = self.tile.of(read), 0
        where = [self.index(part, point).lanes for part in read.args[1:]]
        lanes = where.pop() if operand.lanes else (0,)
        for (number, *_), extent in zip(where, operand.shape or (), strict=True):
            place = place * extent + number
        return place, lanes

    def load(self, read: Node, point: Point, guards: Guards) -> Value:
        """Return one element, or a vector of them."""
        operand, name = self.tile.of(read), read.args[0]
        dtype = computed(operand.dtype)
        if operand.shape is None:
            index = self.index(read.args[1], point)
            keep = set(read.uses)
            allowed = self.allowed(guards, point, keep)
            if isinstance(index, Index) and len(index.lanes) == 1:
                return Value(dtype, self.fetch_scalar(name, operand.dtype, index, allowed))
            return Value(dtype, self.fetch_vector(name, operand.dtype, index, allowed))
        place, lanes = self.register(read, point)
        value = self.values[name][place]
        value = self.loaded(value, "bool") if operand.dtype == "bool" else value
        if not operand.lanes or lanes == tuple(range(operand.lanes)):
            return Value(dtype, value)
        if len(lanes) == 1:
            return Value(dtype, self.b.extract_element(value, ir.Constant(I32, lanes[0])))
        return Value(dtype, self.shuffle(value, value, list(lanes)))

    def fetch_scalar(self, name: str, dtype: str, index: Index, guard: Any) -> Any:
        """Load one element; where it must not be touched, element 0 instead."""
        if guard is not True:
            offset = self.whole(index)
            if guard is False:
                offset = ir.Constant(I64, 0)
            else:
                offset = self.b.select(self.any(guard), offset, ir.Constant(I64, 0))
            index = Index({self.term(offset): 1}, (0,))
        place = self.address(name, dtype, index)
        value = self.b.load(place, typ=STORED[dtype], align=BYTES.get(dtype, 1))
        return self.loaded(value, dtype)

    def fetch_vector(self, name: str, dtype: str, index: Any, guard: Any) -> Any:
        """Load a vector; lanes outside of the guard are 0 and not touched."""
        n = len(index.lanes) if isinstance(index, Index) else index.ir.type.count
        kind, align = ir.VectorType(STORED[dtype], n), BYTES.get(dtype, 1)
        if guard is False:
            return self.loaded(ir.Constant(kind, None), dtype)
        if consecutive(index) and guard is True:
            value = self.b.load(self.address(name, dtype, index), typ=kind, align=align)
            return self.loaded(value, dtype)
        mask = self.splat(ir.Constant(I1, 1) if guard is True else guard, n)
        load = "load" if consecutive(index) else "gather"
        place = (self.address if load == "load" else self.addresses)(name, dtype, index)
        rest = (ir.Constant(I32, align), mask, ir.Constant(kind, None))
        return self.loaded(self.masked(load, kind, place, *rest), dtype)

    def address(self, name: str, dtype: str, index: Index) -> Any:
        """Return the pointer to the element at an index (to its first lane)."""
        key = ("address", name, frozenset(index.terms.items()))
        if key not in self.memo:
            base = self.values[name]
            base = base if base.type == POINTER else self.b.inttoptr(base, POINTER)
            offset = self.scalar(index.terms)
            self.memo[key] = self.b.gep(base, [offset], source_etype=STORED[dtype])
        offset = ir.Constant(I64, index.lanes[0])
        return self.b.gep(self.memo[key], [offset], source_etype=STORED[dtype])

    def addresses(self, name: str, dtype: str, index: Any) -> Any:
        """Return a vector of pointers, one per lane."""
        if isinstance(index, Index):
            base = self.address(name, dtype, Index(index.terms, (0,)))
            kind = I32 if all(abs(k) < 2**31 for k in index.lanes) else I64
            lanes = index.lanes * (self.n if len(index.lanes) == 1 else 1)
            offsets = ir.Constant(ir.VectorType(kind, len(lanes)), list(lanes))
        else:
            base, offsets = self.address(name, dtype, Index({}, (0,))), index.ir
        result = self.b.gep(base, [offsets], source_etype=STORED[dtype])
        result.type = ir.VectorType(POINTER, offsets.type.count)  # llvmlite says: one pointer
        return result

    # ---- expressions
    def eval(self, node: Any, point: Point, guards: Guards = ()) -> Any:
        """Return a bool or float literal, an Index, or a Value; equal parts are made once."""
        targets = {target.args[0] for target in self.tile.targets}
        if targets & node.reads:  # it changes while the tile runs
            return self.compute(node, point, guards)
        key: tuple[Any, ...] = (node, *(point.get(name) for name in node.uses))
        if node.reads:
            key += (guards, tuple(point.values()) if self.stepwise else None)
        if key not in self.memo:
            self.memo[key] = self.compute(node, point, guards)
        return self.memo[key]

    def compute(self, node: Node, point: Point, guards: Guards) -> Any:
        """Emit the code of one expression."""
        op, args = node.op, node.args
        if op == "const":
            return Index({}, (args[1],)) if args[0] is int else args[1]
        if op == "name":
            return Index({}, point[args[0]]) if args[0] in point else Index({args[0]: 1}, (0,))
        if op == "read":
            return self.load(node, point, guards)
        if op == "select":
            return self.select(node, point, guards)
        parts = [self.eval(part, point, guards) for part in args]
        if op in STORED:
            return self.cast(op, parts[0])
        if op in ("and", "or", "not"):
            return self.logic(op, *parts)
        if len(parts) == 1:
            return self.single(op, parts[0])
        return self.pair(op, *parts)

    def single(self, op: str, x: Any) -> Any:
        """Return op(x)."""
        if isinstance(x, Index) and op == "neg":
            return Index({}, (0,)).plus(x, -1)
        if isinstance(x, float):
            return -x if op == "neg" else self.single(op, Value("float64", ir.Constant(F64, x)))
        value = Value("int64", self.whole(x)) if isinstance(x, Index) else x
        return Value(value.dtype, self.unary(op, value.dtype, value.ir))

    def pair(self, op: str, x: Any, y: Any) -> Any:
        """Return x op y; two Index stay one where the result is linear."""
        x, y = self.as_index(x, y), self.as_index(y, x)
        if isinstance(x, Index) and isinstance(y, Index):
            linear = self.linear(op, x, y)
            if linear is not None:
                return linear
        if isinstance(x, float) and isinstance(y, float):
            y = Value("float64", ir.Constant(F64, y))
        dtype = next((v.dtype for v in (x, y) if isinstance(v, Value)), "int64")
        a, b = self.level(self.give(x, dtype), self.give(y, dtype))
        if op in ("<", "<=", ">", ">=", "==", "!="):
            return Value("bool", self.compare(op, dtype, a, b))
        return Value(dtype, self.binary(op, dtype, a, b))

    def as_index(self, x: Any, partner: Any) -> Any:
        """Return a scalar int64 beside an Index as an Index too."""
        if isinstance(x, Value) and x.dtype == "int64" and isinstance(partner, (Index, Value)):
            if not isinstance(x.ir.type, ir.VectorType):
                return Index({self.term(x.ir): 1}, (0,))
        return x

    def linear(self, op: str, x: Index, y: Index) -> Any:
        """Return x op y as an Index or a condition, None where it takes run-time vectors."""
        if op in ("+", "-"):
            return x.plus(y, 1 if op == "+" else -1)
        if op == "*":
            for a, b in ((x, y), (y, x)):
                if not b.terms and len(b.lanes) == 1:
                    return Index({}, (0,)).plus(a, b.lanes[0])
        if op in ("<", "<=", ">", ">=", "==", "!="):
            return self.compare_index(op, x.plus(y, -1))
        if op in ("max", "min") and not x.plus(y, -1).terms:
            gap = x.plus(y, -1).lanes
            if all(k >= 0 for k in gap) or all(k <= 0 for k in gap):
                return x if (gap[0] >= 0 and min(gap) >= 0) == (op == "max") else y
        if op in ("//", "%") and not y.terms and len(y.lanes) == 1 and y.lanes[0] > 0:
            return self.divide_index(op, x, y.lanes[0])
        if len(x.lanes) == len(y.lanes) == 1:
            value = self.binary(op, "int64", self.whole(x), self.whole(y))
            return Index({self.term(value): 1}, (0,))
        return None

    def divide_index(self, op: str, x: Index, by: int) -> Any:
        """Return x // by or x % by; what `by` divides comes out exactly."""
        whole = Index({k: c // by for k, c in x.terms.items() if c % by == 0}, (0,))
        rest = Index({k: c for k, c in x.terms.items() if c % by}, x.lanes)
        if not rest.terms:
            lanes = tuple(k // by for k in rest.lanes)
            if op == "//":
                return whole.plus(Index({}, lanes))
            return Index({}, tuple(k % by for k in rest.lanes))
        if len(rest.lanes) > 1:
            return None
        value = self.divide(op, "int64", self.whole(rest), ir.Constant(I64, by))
        found = Index({self.term(value): 1}, (0,))
        return whole.plus(found) if op == "//" else found

    def compare_index(self, op: str, gap: Index) -> Any:
        """Return where gap op 0: a bool, or an i1 (vector)."""
        holds = {"<": lambda k: k < 0, "<=": lambda k: k <= 0, ">": lambda k: k > 0,
                 ">=": lambda k: k >= 0, "==": lambda k: k == 0, "!=": lambda k: k != 0}[op]  # fmt: skip
        if not gap.terms:
            bits = [holds(k) for k in gap.lanes]
            if len(set(bits)) == 1:
                return bits[0]
            return Value("bool", ir.Constant(ir.VectorType(I1, len(bits)), [int(k) for k in bits]))
        limit = self.b.neg(self.scalar(gap.terms))  # constant op -terms
        if len(gap.lanes) == 1:
            return Value("bool", self.b.icmp_signed(op, ir.Constant(I64, gap.lanes[0]), limit))
        # Clamped to just outside of the constants, so that 32-bit lanes do.
        low, high = (ir.Constant(I64, k) for k in (min(gap.lanes) - 1, max(gap.lanes) + 1))
        limit = self.extreme("min", "int64", self.extreme("max", "int64", limit, low), high)
        small = self.splat(self.b.trunc(limit, I32), len(gap.lanes))
        lanes = ir.Constant(small.type, list(gap.lanes))
        return Value("bool", self.b.icmp_signed(op, lanes, small))

    def logic(self, op: str, x: Any, y: Any = None) -> Any:
        """Return not x, x and y, x or y; literals decide early."""
        if op == "not":
            return not x if isinstance(x, bool) else Value("bool", self.b.not_(x.ir))
        for a, b in ((x, y), (y, x)):
            if isinstance(a, bool):
                return b if a == (op == "and") else a
        a, b = self.level(x.ir, y.ir)
        return Value("bool", (self.b.and_ if op == "and" else self.b.or_)(a, b))

    def select(self, node: Node, point: Point, guards: Guards) -> Any:
        """Return `a if cond else b`; the branch that is not taken reads nothing."""
        test, then, other = node.args
        cond = self.eval(test, point, guards)
        if isinstance(cond, bool):
            return self.eval(then if cond else other, point, guards)
        x = self.eval(then, point, (*guards, (test, True)))
        y = self.eval(other, point, (*guards, (test, False)))
        dtypes = [v.dtype for v in (x, y) if isinstance(v, Value)]
        dtypes += ["bool" for v in (x, y) if isinstance(v, bool)]
        dtypes += ["float64" for v in (x, y) if isinstance(v, float)]
        dtype = dtypes[0] if dtypes else "int64"
        a, b = self.level(self.give(x, dtype), self.give(y, dtype))
        wide = max(getattr(v.type, "count", 0) for v in (cond.ir, a))
        return Value(dtype, self.b.select(*(self.splat(v, wide) for v in (cond.ir, a, b))))

    def cast(self, dtype: str, x: Any) -> Any:
        """Return x as dtype; a literal takes it at once."""
        if isinstance(x, Index) and dtype == "int64":
            return x
        if isinstance(x, float) or (isinstance(x, Index) and not x.terms and dtype != "bool"):
            if dtype in FLOATS or not isinstance(x, float):
                return Value(computed(dtype), self.give(x, computed(dtype)))
            x = Value("float64", ir.Constant(F64, x))
        old = x.dtype if isinstance(x, Value) else "bool" if isinstance(x, bool) else "int64"
        return Value(computed(dtype), self.convert(self.give(x, old), old, dtype))

    def typed(self, node: Node, dtype: str, point: Point) -> Any:
        """Return the LLVM value of an expression that has dtype `dtype`."""
        return self.give(self.eval(node, point), dtype)

    def give(self, x: Any, dtype: str) -> Any:
        """Return the LLVM value of a literal, an Index or a Value as `dtype`."""
        if isinstance(x, (bool, float)):
            return ir.Constant(COMPUTED[dtype], int(x) if isinstance(x, bool) else x)
        if isinstance(x, Value):
            if x.dtype != dtype:
                raise ValueError(f"{x.dtype} where {dtype} is due: {self.tile.text}")
            return x.ir
        if dtype == "int64" or x.terms:
            return self.convert(self.whole(x), "int64", dtype)
        numbers = [float(k) if dtype in FLOATS else k for k in x.lanes]
        if len(numbers) == 1:
            return ir.Constant(COMPUTED[dtype], numbers[0])
        return ir.Constant(ir.VectorType(COMPUTED[dtype], len(numbers)), numbers)

    def level(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Return both as vectors if one of them is."""
        wide = max(getattr(v.type, "count", 0) for v in (a, b))
        return self.splat(a, wide), self.splat(b, wide)

    def splat(self, value: Any, lanes: int) -> Any:
        """As in Arithmetic, once for every value."""
        key = ("splat", id(value), lanes)
        if key not in self.memo:
            self.memo[key] = (super().splat(value, lanes), value)  # `value`: keeps its id taken
        return self.memo[key][0]

    def index(self, node: Node, point: Point) -> Any:
        """Return an offset: an Index, or a Value of one int64 per lane."""
        found = self.eval(node, point)
        if isinstance(found, Value) and not isinstance(found.ir.type, ir.VectorType):
            return Index({self.term(self.convert(found.ir, found.dtype, "int64")): 1}, (0,))
        return found

    def term(self, value: Any) -> str:
        """Name a run-time int64, so that an Index can mention it."""
        name = f"%{len(self.values)}"
        self.values[name] = value
        return name

    def whole(self, index: Index) -> Any:
        """Return the int64, or vector of them, that an Index stands for."""
        n = len(index.lanes)
        start = ir.Constant(I64, index.lanes[0])
        if n > 1:
            start = ir.Constant(ir.VectorType(I64, n), list(index.lanes))
        if not index.terms:
            return start
        base = self.splat(self.scalar(index.terms), n if n > 1 else 0)
        return base if index.lanes == (0,) else self.b.add(base, start)

    def scalar(self, terms: dict[str, int]) -> Any:
        """Return sum(coefficient * term)."""
        key = ("scalar", frozenset(terms.items()))
        if key not in self.memo:
            total = None
            for name, scale in terms.items():
                part = self.values[name]
                if scale != 1:
                    part = self.b.mul(part, ir.Constant(I64, scale), flags=("nsw",))
                total = part if total is None else self.b.add(total, part, flags=("nsw",))
            self.memo[key] = ir.Constant(I64, 0) if total is None else total
        return self.memo[key]


def computed(dtype: str) -> str:
    """Return the dtype in which values of `dtype` are computed."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def consecutive(index: Any) -> bool:
    """Whether the lanes of an offset lie side by side."""
    return isinstance(index, Index) and index.lanes == tuple(
        range(index.lanes[0], index.lanes[0] + len(index.lanes))
    )


# ---------------------------------------------------------------------------- numba
class TileType(numba_types.Type):
    """The numba type of a register tile, by its text: "float32x16[8,3]"."""

    def __init__(self, text: str) -> None:
        self.operand = Operand.of(text)
        super().__init__(name=text)


@register_model(TileType)
class TileModel(models.PrimitiveModel):
    """A register tile is an LLVM array of vectors; LLVM keeps them apart, in registers."""

    def __init__(self, dmm: Any, kind: TileType) -> None:
        count = math.prod(kind.operand.shape or (1,))
        super().__init__(dmm, kind, ir.ArrayType(kind.operand.element, count))


def tile(
    text: str,
    dims: tuple[tuple[str, int], ...] = (),
    lane: tuple[str, int] | None = None,
    mask: str | None = None,
    types: dict[str, str] | None = None,
) -> Any:
    """Return the intrinsic that does what `text` says; see the head of this module."""
    parsed = Tile(text, dims, lane, mask, types or {})
    kinds = [
        TileType(types[name]) if parsed.holds(name) and types else numba_types.int64
        for name in parsed.names
    ]
    results = [kinds[parsed.names.index(name)] for name in parsed.results]
    answer = results[0] if len(results) == 1 else numba_types.Tuple(results)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        prefer_wide_vectors(builder.function)
        values = {
            name: [builder.extract_value(arg, k) for k in range(arg.type.count)]
            if parsed.holds(name)
            else arg
            for name, arg in zip(parsed.names, args, strict=True)
        }
        after = Expansion(parsed, builder, values).run()
        packed = [
            pack(builder, context.get_value_type(kind), after[name])
            for kind, name in zip(results, parsed.results, strict=True)
        ]
        if len(packed) == 1:
            return packed[0]
        if packed:
            return context.make_tuple(builder, signature.return_type, packed)
        return context.get_dummy_value()

    return named(parsed.names, kinds, answer if results else numba_types.void, code)


def registers(text: str) -> Any:
    """Return the intrinsic that makes a register tile whose values are not yet defined."""
    kind = TileType(text)

    def code(context: Any, _builder: Any, _signature: Any, _args: Any) -> Any:
        return ir.Constant(context.get_value_type(kind), ir.Undefined)

    return named([], [], kind, code)


def scratch(size_bytes: int) -> Any:
    """Return the intrinsic that answers the address of 64-byte aligned memory on the stack."""

    def code(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        return builder.ptrtoint(reserve(builder, size_bytes), I64)

    return named([], [], numba_types.int64, code)


@intrinsic  # type: ignore[untyped-decorator]
def address(_context: Any, array: Any) -> Any:
    """Return the address of an array's data."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, I64)

    return numba_types.int64(array), code


def named(names: list[str], kinds: list[Any], answer: Any, code: Callable[..., Any]) -> Any:
    """Return a numba intrinsic with these parameters."""

    def typing(_context: Any, *_args: Any) -> Any:
        return answer(*kinds), code

    words = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("_", *names)]
    typing.__signature__ = inspect.Signature(words)  # type: ignore[attr-defined]
    return intrinsic(typing)


def pack(builder: Any, kind: Any, registers: list[Any]) -> Any:
    """Return the registers as one LLVM array."""
    result = ir.Constant(kind, ir.Undefined)
    for k, value in enumerate(registers):
        result = builder.insert_value(result, value, k)
    return result


def reserve(builder: Any, size_bytes: int) -> Any:
    """Return a pointer to 64-byte aligned memory on the stack, reserved once per call."""
    with builder.goto_entry_block():
        memory = builder.alloca(ir.ArrayType(I8, size_bytes))
        memory.align = 64
        return builder.bitcast(memory, POINTER)


def prefer_wide_vectors(function: Any) -> None:
    """Let LLVM use 512-bit registers where the machine has them: it would rather not."""
    set.add(function.attributes, '"prefer-vector-width"="512"')  # llvmlite refuses the text
