"""Writes numba.cuda source with the methods of `TextBuilder` that scalar code uses.

Instructions are kept as values with operands; `source_printer` writes them as Python: a value with
one use within its user, every other one as a variable. Whole numbers are signed, `int64` unless
cast. Functions of mathematics are plain statements: numba.cuda compiles calls of device functions
only if a device is present.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from llvmlite import ir

from ansorpy.codegen.simd.kinds import ALONE, F32, F64, I1, I8, I16, I32, I64
from ansorpy.codegen.simd.tile import Nodes, TileExpr
from ansorpy.codegen.simt.collectives import BARRIER, WARP_BARRIER
from ansorpy.codegen.simt.memory import GLOBAL
from ansorpy.codegen.text_builder import type_text
from ansorpy.errors import BuildError

CASTS: Final = {
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "half": "float16",
    "float": "float32", "double": "float64",
}  # fmt: skip
ROUNDED: Final = {F32: "libdevice.fmul_rn", F64: "libdevice.dmul_rn"}
SUFFIX: Final = {"f32": "f", "f64": ""}  # last letters of functions of libdevice
LIBDEVICE: Final = ("floor", "ceil", "rint", "trunc", "copysign", "sqrt")
BITS: Final = {  # by both types: the function that keeps the bits of a number
    (F32, I32): "libdevice.float_as_int", (I32, F32): "libdevice.int_as_float",
    (F64, I64): "libdevice.double_as_longlong", (I64, F64): "libdevice.longlong_as_double",
}  # fmt: skip
SPECIAL: Final = {
    "llvm.nvvm.read.ptx.sreg.tid.x": ("thread", "cuda.threadIdx.x"),
    "llvm.nvvm.read.ptx.sreg.ctaid.x": ("block", "cuda.blockIdx.x"),
}
BARRIERS: Final = {BARRIER: "cuda.syncthreads", WARP_BARRIER: "cuda.syncwarp"}
INVERSE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!="}
Write = Callable[..., TileExpr]  # expressions of the operands -> expression


@dataclass(eq=False, slots=True)
class Item:
    """A statement, or an instruction with a value.

    Args:
        operands: values and constants.
        write: returns its expression, given the expressions of the operands.
        type: of its value; None of a statement.
        name: of the variable that holds the value; "" while there is none.
        natural: whether the number is never negative.
        reads: whether it depends on memory.
        acts: whether it changes memory, or meets other threads.
    """

    operands: tuple[Any, ...]
    write: Write
    type: Any = None
    name: str = ""
    natural: bool = False
    reads: bool = False
    acts: bool = False
    label: str = ""

    def __str__(self) -> str:
        return self.label


@dataclass(eq=False, slots=True)
class Suite:
    """Nested statements."""

    blocks: list["Statements"] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Statements:
    """Statements in a row; `lines` as a basic block of `TextBuilder` has."""

    lines: list[Any] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class BranchItem:
    """A condition and the statements of both sides."""

    cond: Any
    then: Suite
    other: Suite


@dataclass(eq=False, slots=True)
class LoopItem:
    """A loop from 0 with its variable and its end."""

    name: str
    extent: Any
    body: Suite


@dataclass(eq=False, slots=True)
class ArrayElement:
    """An element of an array."""

    type: Any
    array: str
    offset: Any


class Variable(Item):
    """A variable that statements assign: the value of a phi."""

    __slots__ = ("builder",)

    def add_incoming(self, value: Any, block: Statements) -> None:
        """Assign a value at the end of a block."""
        whole = is_constant(value) and value.type in (I8, I16, I32)
        assign = Item(
            (value,),
            lambda nodes, x: cast(nodes, x, self.type) if whole else x,
            name=self.name,
            label="assign",
        )
        ends = bool(block.lines) and isinstance(block.lines[-1], BranchItem)
        block.lines.insert(len(block.lines) - ends, assign)


def is_constant(value: Any) -> bool:
    """Return True for a constant of llvmlite."""
    return isinstance(value, ir.Constant)


def natural(value: Any) -> bool:
    """Return True if a number is known to be at least 0."""
    if is_constant(value):
        return isinstance(value.constant, int) and value.constant >= 0
    return bool(value.natural)


def cast(nodes: Nodes, x: TileExpr, kind: Any) -> TileExpr:
    """Return an expression as a value of an LLVM type."""
    return nodes.make(CASTS[type_text(kind)], x) if kind != I1 else x


def wrapped(nodes: Nodes, x: TileExpr, kind: Any) -> TileExpr:
    """Return a sum or product of numbers of a type: narrow ones wrap around."""
    return cast(nodes, x, kind) if kind in (I8, I16, I32) else x


def unsigned(nodes: Nodes, x: TileExpr, value: Any) -> TileExpr:
    """Return the bits of a number as a natural number."""
    if natural(value):
        return x
    if value.type == I1:
        return nodes.make("int8", x)
    if value.type == I64:
        return nodes.make("uint64", x)
    mask = nodes.literal((1 << value.type.width) - 1)
    return nodes.make("&", nodes.make("int64", x), mask)


def constant_text(nodes: Nodes, value: Any) -> TileExpr:
    """Return the expression of a constant of llvmlite."""
    number, kind = value.constant, value.type
    if kind == I1:
        return nodes.literal(bool(number))
    if isinstance(kind, ir.IntType):
        return nodes.literal(signed(0 if number in (None, ir.Undefined) else number, kind.width))
    number = 0.0 if number in (None, ir.Undefined) else float(number)
    if kind == F64:
        return nodes.literal(number)
    exact = float(np.float32(number))
    short = float(str(np.float32(number))) if math.isfinite(exact) else exact
    return nodes.make("float32", nodes.literal(short if np.float32(short) == exact else exact))


def signed(number: int, bits: int) -> int:
    """Return the number of these bits in two's complement."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _two(symbol: str) -> Callable[..., Item]:
    def method(self: "SourceBuilder", a: Any, b: Any, flags: Sequence[str] = ()) -> Item:
        kind = a.type
        if symbol == "*" and flags == ALONE:  # the compiler of numba.cuda fuses any other product
            return self.value(kind, (a, b), lambda n, x, y: n.make(ROUNDED[kind], x, y))
        grows = symbol in "+*&" and natural(a) and natural(b)
        return self.value(
            kind, (a, b), lambda n, x, y: wrapped(n, n.make(symbol, x, y), kind), natural=grows
        )

    return method


def _unsigned(symbol: str) -> Callable[..., Item]:
    def method(self: "SourceBuilder", a: Any, b: Any) -> Item:
        def write(nodes: Nodes, x: TileExpr, y: TileExpr) -> TileExpr:
            found = nodes.make(symbol, unsigned(nodes, x, a), unsigned(nodes, y, b))
            return found if natural(a) and natural(b) else cast(nodes, found, a.type)

        return self.value(a.type, (a, b), write, natural=natural(a) and natural(b))

    return method


def _logical(word: str, symbol: str) -> Callable[..., Item]:
    def method(self: "SourceBuilder", a: Any, b: Any) -> Item:
        kind, op = a.type, word if a.type == I1 else symbol
        small = symbol == "&" and (natural(a) or natural(b))

        def write(nodes: Nodes, x: TileExpr, y: TileExpr) -> TileExpr:
            found = nodes.make(op, x, y)
            return found if natural(a) and natural(b) else wrapped(nodes, found, kind)

        return self.value(kind, (a, b), write, natural=small)

    return method


class SourceBuilder:
    """The body of one kernel; `args` are its arrays, flat and in global memory."""

    def __init__(self, args: Sequence[ArrayElement]) -> None:
        self.module, self.features = ir.Module(), frozenset[str]()
        self.args, self.count = list(args), 0
        self.head: list[str] = []  # arrays and numbers that the whole kernel uses
        self.special: dict[str, Item] = {}
        self.suite = self.body = Suite()
        self.block = self.append_block()

    def append_block(self) -> Statements:
        """Return a new row of statements at the end of the present suite."""
        block = Statements()
        self.suite.blocks.append(block)
        return block

    def value(self, kind: Any, operands: tuple[Any, ...], write: Write, **facts: Any) -> Item:
        """Append an instruction and return its value."""
        item = Item(operands, write, kind, **facts)
        self.block.lines.append(item)
        return item

    def array(self, name: str, space: str, count: int, kind: Any) -> ArrayElement:
        """Return a new array; `space` is `shared` or `local`."""
        dtype = CASTS[type_text(kind)]
        self.head.append(f"{name} = cuda.{space}.array({count}, dtype={dtype})")
        return ArrayElement(GLOBAL, name, None)

    def note(self, words: str) -> None:
        """Append a comment."""
        self.block.lines.append(Item((), lambda n: n.make("name", f"# {words}"), acts=True))

    @contextmanager
    def within(self, suite: Suite) -> Iterator[None]:
        """Write to a nested suite, and go on behind it."""
        outer, self.suite = self.suite, suite
        self.block = self.append_block()
        yield
        self.suite = outer
        self.block = self.append_block()

    @contextmanager
    def loop(self, name: str, extent: Any) -> Iterator[Item]:
        """Write a loop over `name` = 0, 1, ..., extent - 1."""
        loop = LoopItem(name, extent, Suite())
        self.block.lines.append(loop)
        with self.within(loop.body):
            yield Item((), lambda n: n.make("name", name), I64, name, natural=True)

    def branch(self, cond: Any, then: Callable[[], None], other: Callable[[], None] | None) -> None:
        """Write if / else."""
        branch = BranchItem(cond, Suite(), Suite())
        self.block.lines.append(branch)
        with self.within(branch.then):
            then()
        if other is not None:
            with self.within(branch.other):
                other()

    # Methods of TextBuilder from here on.
    add, sub, mul = _two("+"), _two("-"), _two("*")
    fadd, fsub, fmul, fdiv = _two("+"), _two("-"), _two("*"), _two("/")
    shl, ashr = _two("<<"), _two(">>")
    lshr, udiv, urem = _unsigned(">>"), _unsigned("//"), _unsigned("%")
    and_, or_, xor = _logical("and", "&"), _logical("or", "|"), _logical("!=", "^")

    def floor(self, op: str, a: Any, b: Any) -> Item:
        """Return a // b or a % b, rounded down; b is not 0."""
        kind, whole = a.type, natural(a) and natural(b)
        return self.value(
            kind, (a, b), lambda n, x, y: wrapped(n, n.make(op, x, y), kind), natural=whole
        )

    def neg(self, a: Any) -> Item:
        """Return -a of an integer."""
        return self.value(a.type, (a,), lambda n, x: wrapped(n, n.make("neg", x), a.type))

    def fneg(self, a: Any) -> Item:
        """Return -a of a float."""
        return self.value(a.type, (a,), lambda n, x: n.make("neg", x))

    def not_(self, a: Any) -> Item:
        """Return the negation of an i1."""
        return self.value(I1, (a,), lambda n, x: n.make("not", x))

    def select(self, cond: Any, a: Any, b: Any) -> Item:
        """Return a if cond holds, else b."""
        return self.value(
            a.type,
            (cond, a, b),
            lambda n, c, x, y: wrapped(n, n.make("select", c, x, y), a.type),
            natural=a.type != I1 and natural(a) and natural(b),
        )

    def icmp_signed(self, op: str, a: Any, b: Any) -> Item:
        """Return the i1 of a comparison of signed numbers."""
        return self.value(I1, (a, b), lambda n, x, y: n.make(op, x, y))

    fcmp_ordered = icmp_signed

    def icmp_unsigned(self, op: str, a: Any, b: Any) -> Item:
        """Return the i1 of a comparison of natural numbers."""
        if op in ("==", "!="):
            return self.icmp_signed(op, a, b)
        return self.value(
            I1, (a, b), lambda n, x, y: n.make(op, unsigned(n, x, a), unsigned(n, y, b))
        )

    def fcmp_unordered(self, op: str, a: Any, b: Any) -> Item:
        """Return the i1 of a comparison of floats that holds if one is NaN."""
        if op == "uno":
            if a is b:
                return self.value(I1, (a, a), lambda n, x, y: n.make("!=", x, y))
            return self.or_(self.fcmp_unordered("uno", a, a), self.fcmp_unordered("uno", b, b))
        if op == "!=":
            return self.icmp_signed(op, a, b)
        return self.not_(self.icmp_signed(INVERSE[op], a, b))

    def converted(self, a: Any, kind: Any) -> Item:
        """Return a number as one of another type; floats truncate towards zero."""
        return self.value(kind, (a,), lambda n, x: cast(n, x, kind), natural=natural(a))

    sext = fpext = fptrunc = fptosi = sitofp = converted

    def trunc(self, a: Any, kind: Any) -> Item:
        """Return the low bits of a number."""
        if kind == I1:
            return self.value(kind, (a,), lambda n, x: n.make("!=", n.make("&", x, n.literal(1)),
                                                              n.literal(0)))  # fmt: skip
        return self.value(kind, (a,), lambda n, x: cast(n, x, kind))

    def zext(self, a: Any, kind: Any) -> Item:
        """Return a natural number in a wider type."""
        if natural(a) and kind == I64:  # numba computes with int64
            if isinstance(a, Item) and a.name:
                return Item((), a.write, kind, a.name, natural=True)
            return self.value(kind, (a,), lambda n, x: x, natural=True)
        return self.value(kind, (a,), lambda n, x: cast(n, unsigned(n, x, a), kind), natural=True)

    def uitofp(self, a: Any, kind: Any) -> Item:
        """Return a natural number as a float."""
        return self.value(kind, (a,), lambda n, x: cast(n, unsigned(n, x, a), kind))

    def bitcast(self, a: Any, kind: Any) -> Item:
        """Return the number of another type with the same bits."""
        name = BITS.get((a.type, kind))
        if name is None:
            raise _unknown(f"the bits of {type_text(a.type)} as {type_text(kind)}")
        return self.value(kind, (a,), lambda n, x: n.make(name, x))

    def gep(self, base: ArrayElement, indices: Sequence[Any], source_etype: Any) -> ArrayElement:
        """Return the address of an element."""
        (offset,) = indices
        if base.offset is not None:
            zero = is_constant(offset) and not offset.constant
            offset = base.offset if zero else self._sum(base.offset, offset)
        return ArrayElement(base.type, base.array, offset)

    def _sum(self, a: Any, b: Any) -> Any:
        if is_constant(a) and not a.constant:
            return b
        if is_constant(b) and b.constant < 0:
            return self.sub(a, ir.Constant(b.type, -b.constant))
        return self.add(a, b)

    def load(self, place: ArrayElement, typ: Any, align: int = 8) -> Item:
        """Load an element."""
        del align
        return self.value(
            typ, (place.offset,), lambda n, at: n.make("read", place.array, at), reads=True
        )

    def store(self, value: Any, place: ArrayElement, align: int) -> None:
        """Store an element."""
        del align
        self.block.lines.append(
            Item(
                (place.offset, value),
                lambda n, at, x: n.make("=", n.make("read", place.array, at), x),
                acts=True,
                label="store",
            )
        )

    def call(self, function: Any, args: Sequence[Any]) -> Item | None:
        """Call a function of LLVM."""
        name = function.name
        if name in BARRIERS:
            called = BARRIERS[name]
            self.block.lines.append(Item((), lambda n: n.make(called), acts=True, label=name))
            return None
        if name in SPECIAL:
            return self._special(*SPECIAL[name])
        kind = function.function_type.return_type
        return self.value(kind, tuple(args), lambda n, *x: n.make(_function(name), *x))

    def _special(self, name: str, text: str) -> Item:
        if name not in self.special:
            self.head.append(f"{name} = {text}")
            self.special[name] = Item((), lambda n: n.make("name", name), I32, name, natural=True)
        return self.special[name]

    def shuffled(self, value: Any, distance: int) -> Item:
        """Return the value of the thread whose number differs in the bit of `distance`."""
        return self.value(
            value.type,
            (value,),
            lambda n, x: wrapped(
                n,
                n.make("cuda.shfl_xor_sync", n.literal(-1), x, n.literal(distance)),
                value.type,
            ),
            acts=True,
        )

    def phi(self, kind: Any) -> Variable:
        """Return a variable that the predecessors of the present block assign."""
        self.count += 1
        name = f"p{self.count - 1}"
        return Variable((), lambda n: n.make("name", name), kind, name)

    @contextmanager
    def if_then(self, cond: Any) -> Iterator[None]:
        """Write statements that run if cond holds."""
        branch = BranchItem(cond, Suite(), Suite())
        self.block.lines.append(branch)
        with self.within(branch.then):
            yield

    def ret_void(self) -> None:
        """Do nothing: a kernel ends with its last statement."""


def _function(name: str) -> str:
    """Return the name of a function of LLVM in the source."""
    _, _, rest = name.partition("llvm.")
    op, _, short = rest.partition(".")
    if short in SUFFIX:
        if op == "fma":
            return "cuda.fma"
        if op == "fabs":
            return "abs"
        if op in LIBDEVICE:
            return f"libdevice.{op}{SUFFIX[short]}"
    raise _unknown(name)


def _unknown(name: str) -> BuildError:
    return BuildError(
        f"cannot write {name} as source because numba.cuda has no plain form of it; expected"
        " scalar loads, arithmetic, shared arrays and shuffles"
    )
