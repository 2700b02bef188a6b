"""The loop IR: a candidate as loops, statements and buffers.

The same nodes serve three levels:
  symbolic   extents and indices mention named sizes as variables (one program per plan);
  bound      every size is a number: scalar loops, marked serial, parallel, vector or unroll;
  tiled      after the passes: `Tile` statements, the register tiles of explicit SIMD code.

Index expressions are `expr` trees over int64 variables. A `Read` in a value names a buffer; its
indices may read in turn (a gather); indices of a store, extents and conditions may not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from math import prod
from typing import Final

from ansorpy.errors import LoweringError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr
from ansorpy.expr.intervals import Interval
from ansorpy.loopir.hints import Hints
from ansorpy.te.dag import Dag
from ansorpy.te.dims import Dim


class Scope(Enum):
    """The memory of a buffer."""

    INPUT = "input"  # a placeholder; never written
    CONSTANT = "constant"  # a tensor whose values are part of the program
    SIZES = "sizes"  # the sizes of the dims in a call, in order: int64
    OUTPUT = "output"
    GLOBAL = "global"  # a whole intermediate, allocated once, shared by the tasks
    LOCAL = "local"  # scratch of one task, 64-byte aligned, undefined on entry of its Alloc
    REGISTER = "register"  # a register tile: only Tile statements touch it


class LoopKind(Enum):
    """The execution of the iterations of a loop."""

    SERIAL = "serial"
    PARALLEL = "parallel"  # independent tasks; only as the outermost loops of a phase
    VECTOR = "vector"  # along vector lanes; a pass turns it into a Tile
    UNROLL = "unroll"  # written out; a pass turns it into a dimension of a Tile
    THREAD = "thread"  # one iteration per thread of a block; becomes a lane of a Tile
    SHARE = "share"  # elements that the threads of a block share out among themselves
    GROUP = "group"  # groups of DOT steps that a matrix instruction may sum; just around DOT
    DOT = "dot"  # steps of a sum for a dot-product instruction; innermost, of constant extent


# The kinds of loops that become dimensions or lanes of a Tile.
WRITTEN_OUT: Final = (
    LoopKind.UNROLL,
    LoopKind.VECTOR,
    LoopKind.THREAD,
    LoopKind.GROUP,
    LoopKind.DOT,
)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A row-major array. `shape` holds expressions over sizes while symbolic, Const once bound.

    `given` is the shape of an argument if the nest indexes it under another one, of as many
    elements; else ().
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    scope: Scope
    given: tuple[int, ...] = ()

    @property
    def argument(self) -> "Buffer":
        """The buffer under the shape in which callers pass it."""
        return replace(self, shape=tuple(map(Const, self.given)), given=()) if self.given else self

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape as numbers; LoweringError if an extent is not bound."""
        return tuple(map(self._number, self.shape))

    @property
    def size_bytes(self) -> int:
        """The bytes of all elements; LoweringError if an extent is not bound."""
        return prod(self.extents) * SIZE_BYTES[self.dtype]

    def _number(self, extent: Expr) -> int:
        if not isinstance(extent, Const):
            raise LoweringError(f"{self.name}: extent {extent} is not a number")
        return int(extent.value)


SIZES: Final = "~sizes"  # name of the buffer of the sizes of a call


@dataclass(frozen=True, slots=True)
class Store:
    """Write `values[n]` to `buffers[n][index]`; with `combiner`, combine with the old value.

    buffers[0][index] = values[0]                                    combiner None
    buffers[0][index] = combine(buffers[0][index], values[0])        sum, prod, max, min
    argmax, argmin: two buffers, value and index; the pair is replaced if the new value is
    strictly better, or equal with a smaller index.
    """

    buffers: tuple[str, ...]
    index: tuple[Expr, ...]
    values: tuple[Expr, ...]
    combiner: str | None = None


@dataclass(frozen=True, slots=True)
class For:
    """Run `body` with `var` = 0, 1, ..., extent - 1; an extent below 1 runs nothing."""

    var: str
    extent: Expr
    body: "Stmt"
    kind: LoopKind = LoopKind.SERIAL


@dataclass(frozen=True, slots=True)
class If:
    """Run `then` if `cond` (an index condition) holds, else `other`."""

    cond: Expr
    then: "Stmt"
    other: "Stmt | None" = None


@dataclass(frozen=True, slots=True)
class Seq:
    """Run the statements in order."""

    stmts: tuple["Stmt", ...]


@dataclass(frozen=True, slots=True)
class Alloc:
    """Run `body` with a fresh LOCAL or REGISTER buffer."""

    buffer: Buffer
    body: "Stmt"


@dataclass(frozen=True, slots=True)
class Matrix:
    """The dimensions of a Tile that are rows and groups of steps of a matrix instruction.

    On a GPU, the sums are in registers, `row` has pairs of rows of a thread, and `column` its two
    neighbouring columns (`passes.warp_matrices`).
    `fresh` is part of the meaning: the sum begins with 0 instead of the old value of the target.
    """

    row: str
    group: str
    fresh: bool = False
    column: str = ""


NO_HINTS: Final = Hints()


@dataclass(frozen=True, slots=True)
class Tile:
    """One store over a register tile; the explicit-SIMD statement.

    Means:  for every dims[0][0] < dims[0][1] ... (in order, written out)
              for every lanes[0][0] < lanes[0][1] ... (at once):  if mask: store
    `dims` and `lanes` are (variable, extent) pairs. A CPU has one lane variable, along a vector,
    or none for scalar code; the lanes of a GPU are the threads of a block.
    `mask` is a condition on dims, lanes and outer variables; no access happens where it is false.
    A variable absent from the index of a combining store is reduced over, inside the tile.
    A REGISTER buffer is indexed by exactly a sub-sequence of the variables of `spans`.
    `dot`, `matrix`, `access_width`, `asynchronous` and `hints` choose instructions and do not
    change the result, except for `matrix.fresh`: `dot` is (the last of `dims`, the LLVM function
    that sums over it),
    `access_width` the neighbouring elements that a lane loads or stores at once (a CPU: 1).
    `asynchronous` elements may arrive as late as at the next barrier (a GPU).
    """

    dims: tuple[tuple[str, int], ...]
    lanes: tuple[tuple[str, int], ...]
    store: Store
    mask: Expr | None = None
    dot: tuple[str, str] | None = None
    matrix: Matrix | None = None
    access_width: int = 1
    asynchronous: bool = False
    hints: Hints = NO_HINTS

    @property
    def spans(self) -> tuple[tuple[str, int], ...]:
        """The variables that the tile binds with their extents, outermost first."""
        return (*self.dims, *self.lanes)

    @property
    def lane(self) -> tuple[str, int] | None:
        """The lane variable of a tile for a CPU; None for scalar code."""
        return self.lanes[0] if self.lanes else None


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Fetch the line of an element into the second cache; `offset`, in elements, may be outside."""

    buffer: str
    offset: Expr


Stmt = Store | For | If | Seq | Alloc | Tile | Prefetch


@dataclass(frozen=True, slots=True)
class Phase:
    """One loop nest at the root of a program, with its PARALLEL loops outermost.

    `ahead` marks a phase that reads constant inputs only, and runs once, ahead of the timed call.
    `tasks` is the number of tasks of a call, an expression of dims: the first iterations of the
    PARALLEL loops, in order, at most all of them; None: all of them.
    """

    name: str
    body: Stmt
    ahead: bool = False
    tasks: Expr | None = None


@dataclass(frozen=True)
class Program:
    """Buffers (except for LOCAL and REGISTER ones), and phases that run in sequence.

    `meaning` is the Dag that the program computes, with its rounding; None: the requested Dag.
    `dims` are the sizes that a call decides: their variables may stand free in extents and
    conditions, and buffers have room for the largest ones.
    """

    name: str
    buffers: tuple[Buffer, ...]
    phases: tuple[Phase, ...]
    meaning: Dag | None = None
    dims: tuple[Dim, ...] = ()

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The buffers under the shapes in which callers pass them."""
        return tuple(buffer.argument for buffer in self.buffers)

    @cached_property
    def by_name(self) -> Mapping[str, Buffer]:
        """The buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def ranges(self) -> Mapping[str, Interval]:
        """The least and largest value of the variable of each dim."""
        return {dim.var.name: dim.counts for dim in self.dims}
