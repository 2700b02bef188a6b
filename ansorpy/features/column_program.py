"""Vectorized expression programs: arithmetic recorded once per plan, run on whole columns.

Feature code computes with `ColumnValue`s as if they were numbers. A `ColumnBuilder` records the
operations: constants fold and equal sub-expressions are recorded once (common-subexpression
elimination). A `ColumnProgram` runs the recorded operations over the columns of a population on
the machine of `features.column_vm`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from ansorpy.errors import LoweringError
from ansorpy.expr.evaluate import PYTHON_OPS
from ansorpy.expr.expr import Binary, Call, Const, Expr, Select, Var
from ansorpy.features.column_vm import OPERATIONS, ROWS, instruction, run

FloatArray = npt.NDArray[np.float64]

_FOLD: Final[Mapping[str, Callable[..., float]]] = {
    **PYTHON_OPS, "floor": math.floor, "log2": math.log2,
}  # fmt: skip
_COMMUTE: Final = frozenset({"add", "mul", "min", "max", "and", "or", "eq", "ne"})
_COLUMN: Final = "column"
_WHERE: Final = "where"


@final
@dataclass(
    slots=True, eq=False
)  # not frozen: a plan makes 10,000 of them, and that is half the cost
class ColumnValue:
    """A number of every row: a constant, or the result of a recorded operation.

    Truth values are 0 and 1.
    """

    builder: "ColumnBuilder"
    slot: int  # -1 for a constant
    constant: float = 0.0

    @property
    def is_constant(self) -> bool:
        """True if all rows have the number `constant`."""
        return self.slot < 0

    def equals(self, number: float) -> bool:
        """Return True if the value is known to be `number` in every row."""
        return self.slot < 0 and self.constant == number

    def __add__(self, other: "ColumnValue | float") -> "ColumnValue":
        return self.builder.apply("add", self, other)

    def __sub__(self, other: "ColumnValue | float") -> "ColumnValue":
        return self.builder.apply("sub", self, other)

    def __mul__(self, other: "ColumnValue | float") -> "ColumnValue":
        return self.builder.apply("mul", self, other)

    def __truediv__(self, other: "ColumnValue | float") -> "ColumnValue":
        return self.builder.apply("div", self, other)

    def __gt__(self, other: "ColumnValue | float") -> "ColumnValue":
        return self.builder.apply("gt", self, other)

    def __le__(self, other: "ColumnValue | float") -> "ColumnValue":
        return self.builder.apply("le", self, other)

    def same(self, other: "ColumnValue | float") -> "ColumnValue":
        """Return whether both are equal, row by row."""
        return self.builder.apply("eq", self, other)

    def floordiv(self, other: "ColumnValue | float") -> "ColumnValue":
        """Return floor(self / other); exact for integers below 2**53."""
        return (self / other).unary("floor")

    def ceildiv(self, other: "ColumnValue | float") -> "ColumnValue":
        """Return ceil(self / other); exact for integers below 2**53."""
        return ((self + other) - 1).floordiv(other)

    def at_most(self, other: "ColumnValue | float") -> "ColumnValue":
        """Return the smaller of the two."""
        return self.builder.apply("min", self, other)

    def at_least(self, other: "ColumnValue | float") -> "ColumnValue":
        """Return the larger of the two."""
        return self.builder.apply("max", self, other)

    def unary(self, op: str) -> "ColumnValue":
        """Return floor, abs, log2 or not of this."""
        return self.builder.apply(op, self)


class ColumnBuilder:
    """The record.

    `columns` are the names of the sizes in the order of a row, with their value where every
    row has the same.
    """

    def __init__(self, columns: Sequence[tuple[str, int | None]]) -> None:
        self._known: dict[tuple[str | ColumnValue, ...], ColumnValue] = {}
        self._constants: dict[float, ColumnValue] = {}
        self._steps: list[tuple[str, tuple[ColumnValue, ...]]] = []
        slots = [self._push(_COLUMN, ()) for _ in columns]
        self.column = {
            name: slot if value is None else self.const(value)
            for (name, value), slot in zip(columns, slots, strict=True)
        }

    def const(self, number: float) -> ColumnValue:
        """Return a constant."""
        known = self._constants.get(number)
        if known is None:
            known = self._constants[number] = ColumnValue(self, -1, float(number))
        return known

    def apply(self, op: str, a: ColumnValue, b: ColumnValue | float | None = None) -> ColumnValue:
        """Return `op` of the arguments, recorded unless it folds or is known already."""
        if b is None:
            if a.slot < 0:
                return self.const(_FOLD[op](a.constant))
            return self._recorded((op, a), (a,))
        if type(b) is not ColumnValue:
            b = self.const(b)
        if a.slot < 0 or b.slot < 0:
            if a.slot < 0 and b.slot < 0:
                return self.const(_FOLD[op](a.constant, b.constant))
            folded = _with_constant(op, a, b)
        else:
            folded = _of_itself(op, a) if a is b else None
        if folded is not None:
            return folded
        if b.slot < a.slot and op in _COMMUTE:
            a, b = b, a
        return self._recorded((op, a, b), (a, b))

    def _recorded(
        self, key: tuple[str | ColumnValue, ...], args: tuple[ColumnValue, ...]
    ) -> ColumnValue:
        """Return the value of a key, recorded once; values within a key compare by identity."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._push(str(key[0]), args)
        return known

    def where(
        self, test: ColumnValue, then: ColumnValue | float, other: ColumnValue | float
    ) -> ColumnValue:
        """Return `then` in the rows in which `test` holds, else `other`."""
        a = then if isinstance(then, ColumnValue) else self.const(then)
        b = other if isinstance(other, ColumnValue) else self.const(other)
        if test.is_constant:
            return a if test.constant else b
        return a if a is b else self._recorded((_WHERE, test, a, b), (test, a, b))

    def of(self, expr: Expr, variables: Mapping[str, ColumnValue]) -> ColumnValue:
        """Return the value of an index expression.

        Raises:
            LoweringError: `expr` is no index expression, or has a variable without a value.
        """
        match expr:
            case Const(value=value):
                return self.const(float(value))
            case Var(name=name):
                if name not in variables:
                    raise LoweringError(f"variable {name!r} has no value")
                return variables[name]
            case Binary(op=op, a=a, b=b):
                x, y = self.of(a, variables), self.of(b, variables)
                if op == "floordiv":
                    return x.floordiv(y)
                if op == "mod":
                    return x - x.floordiv(y) * y
                if op in OPERATIONS:
                    return self.apply(op, x, y)
            case Select(cond=cond, then=then, other=other):
                parts = (self.of(part, variables) for part in (cond, then, other))
                return self.where(*parts)
            case Call(fn="not", a=a):
                return self.of(a, variables).unary("not")
            case _:
                pass
        raise LoweringError(f"not an index expression: {expr}")

    def _push(self, op: str, args: tuple[ColumnValue, ...]) -> ColumnValue:
        self._steps.append((op, args))
        return ColumnValue(self, len(self._steps) - 1)

    def program(self, outputs: Sequence[ColumnValue]) -> "ColumnProgram":
        """Return the program that computes `outputs` (dead-code elimination)."""
        first = len(self.column)
        last: dict[int, int] = {v.slot: len(self._steps) for v in outputs if v.slot >= 0}
        needed: list[tuple[int, str, tuple[ColumnValue, ...]]] = []
        for slot in range(len(self._steps) - 1, first - 1, -1):
            if slot not in last:
                continue
            op, args = self._steps[slot]
            needed.append((slot, op, args))
            for arg in args:
                last.setdefault(arg.slot, slot)
        return ColumnProgram(first, needed[::-1], last, outputs)

    def clear(self) -> None:
        """Release every value, a megabyte per plan, whose cycles outlive a paused collector."""
        for record in (self._known, self._constants, self._steps, self.column):
            record.clear()


class ColumnProgram:
    """The recorded operations that some outputs need, with a machine column for each result.

    Columns 0, 1, ... of the machine hold the sizes of the rows. A column is reused as soon as its
    value has been read for the last time, so that all columns stay in cache.

    Args:
        columns: how many sizes a row has.
        steps: slot, operation and arguments.
        last: the step that reads a slot last, by the slot of its result.
    """

    def __init__(
        self,
        columns: int,
        steps: Sequence[tuple[int, str, tuple[ColumnValue, ...]]],
        last: Mapping[int, int],
        outputs: Sequence[ColumnValue],
    ) -> None:
        self._sizes = columns
        used = {v.constant: None for v in outputs if v.slot < 0}
        for _, _, args in steps:
            for arg in args:
                if arg.slot < 0:
                    used[arg.constant] = None
        fixed = {constant: columns + i for i, constant in enumerate(used)}
        self._constants = np.array(list(fixed), np.float64)
        self._count = columns + len(fixed)
        place = {slot: slot for slot in range(columns)}
        free: list[int] = []
        program: list[int] = []
        for slot, op, args in steps:
            if not free:
                free.append(self._count)
                self._count += 1
            own = free.pop()
            read = list[int]()
            for arg in args:
                source = arg.slot
                if source < 0:
                    read.append(fixed[arg.constant])
                    continue
                column = place[source]
                if last[source] == slot and source >= columns and column not in read:
                    free.append(column)
                read.append(column)
            place[slot] = own
            program += instruction(op, own, *read)
        self._outputs = np.array(
            [place[v.slot] if v.slot >= 0 else fixed[v.constant] for v in outputs], np.intp
        )
        code = np.array(program, np.int32).reshape(len(steps), 5)
        # Kept for each plan of all tasks: 8 or 16 bits a number, of the 32 that the machine takes.
        self._program = code.astype(np.min_scalar_type(code.max(initial=0)))

    @property
    def steps(self) -> int:
        """The number of operations."""
        return len(self._program)

    def run(self, columns: FloatArray, out: npt.NDArray[np.float32]) -> None:
        """Write the outputs for columns of shape (sizes, n) into `out`, shape (outputs, n)."""
        program, memory = self._program.astype(np.int32), np.empty((self._count, ROWS))
        first = self._sizes + len(self._constants)
        memory[:first] = 1.0  # rows beyond the last are computed as well, and must be valid
        memory[self._sizes : first] = self._constants[:, None]
        for start in range(0, columns.shape[1], ROWS):
            part = columns[:, start : start + ROWS]
            rows = part.shape[1]
            memory[: self._sizes, :rows] = part
            run(program, memory, rows)
            out[:, start : start + rows] = memory[self._outputs, :rows]


def _with_constant(op: str, a: ColumnValue, b: ColumnValue) -> ColumnValue | None:
    """Return the folded value of x + 0, x - 0, x * 1, x * 0 or x / 1, else None."""
    if a.slot < 0 and op in ("add", "mul"):
        a, b = b, a
    if b.slot >= 0:
        return None
    if op in ("add", "sub"):
        return a if b.constant == 0 else None
    if op in ("mul", "div") and b.constant == 1:
        return a
    return b if op == "mul" and b.constant == 0 else None


def _of_itself(op: str, a: ColumnValue) -> ColumnValue | None:
    """Return the folded value of x - x, x / x, min(x, x) or max(x, x), else None."""
    if op in ("sub", "div"):
        return a.builder.const(0 if op == "sub" else 1)
    return a if op in ("min", "max") else None
