"""A vector VM: its registers are columns of ROWS numbers, and an instruction treats a column.

The VM is an interpreter of a few dozen lines of LLVM IR, compiled at its first use (some 20 ms).
An instruction takes nanoseconds; a call of NumPy on a short column takes a microsecond.
"""

import ctypes
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.host_jit import compile_here

ROWS: Final = 128  # rows per column, so that some hundred columns fit the L2 cache
_VECTOR: Final = 8
_KIND: Final = "<8 x double>"
_TESTS: Final = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_INFIX: Final = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_CALLS: Final = {
    "min": "minimum",
    "max": "maximum",
    "floor": "floor",
    "abs": "fabs",
    "log2": "log2",
}
_LOGIC: Final = ("and", "or")
# The number of operands of every operation; truth values are 0 and 1.
OPERATIONS: Final = {
    **dict.fromkeys([*_INFIX, *_TESTS, *_LOGIC, "min", "max"], 2),
    **dict.fromkeys(["floor", "abs", "log2", "not"], 1),
    "where": 3,
}
_CODES: Final = {name: code for code, name in enumerate(OPERATIONS)}

Columns = npt.NDArray[np.float64]
Instruction = tuple[int, int, int, int, int]  # operation, result, arguments (0: none)


def instruction(name: str, result: int, *arguments: int) -> Instruction:
    """Return `result = name(*arguments)`; all but the name are numbers of columns."""
    a, b, c = (*arguments, 0, 0)[:3]
    return (_CODES[name], result, a, b, c)


def run(program: npt.NDArray[np.int32], columns: Columns, rows: int) -> None:
    """Run a program on the first `rows` rows of `columns`, in place.

    Args:
        program: instructions, shape (n, 5), in C order.
        columns: float64, shape (columns, ROWS), in C order.

    Raises:
        ValueError: an array has another shape or order, or a column does not exist.
    """
    if (
        columns.dtype != np.float64
        or columns.shape[1:] != (ROWS,)
        or not columns.flags.c_contiguous
    ):
        raise ValueError(f"columns: expected float64 in rows of {ROWS}, in C order")
    if program.dtype != np.int32 or program.shape[1:] != (5,) or not program.flags.c_contiguous:
        raise ValueError("program: expected int32 in rows of 5, in C order")
    if not 0 <= rows <= ROWS:
        raise ValueError(f"{rows} rows: a column has {ROWS}")
    if len(program) and rows:
        low, high = program.min(axis=0), program.max(axis=0)
        if low.min() < 0 or high[0] >= len(_CODES) or high[1:].max() >= len(columns):
            raise ValueError("program: an operation or a column that is not there")
        vectors = -(-rows // _VECTOR)
        _machine().call(program.ctypes.data, len(program), columns.ctypes.data, vectors)


class _Machine:
    """The compiled interpreter; it lives as long as the process."""

    def __init__(self) -> None:
        self._engine = compile_here(text())
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64] * 2)
        self.call: Any = kind(self._engine.get_function_address("run"))


_machine = lru_cache(maxsize=1)(_Machine)


def text() -> str:
    """Return the interpreter as LLVM IR: a loop over instructions, a loop per operation."""
    declared = [
        f"declare {_KIND} @llvm.{name}.v8f64({', '.join([_KIND] * OPERATIONS[op])})"
        for op, name in _CALLS.items()
    ]
    fields = [
        line
        for k, name in enumerate(("op", "r", "a", "b", "c"))
        for line in (
            f"  %p{name} = getelementptr i32, ptr %at, i64 {k}",
            f"  %n{name} = load i32, ptr %p{name}",
        )
    ]
    places = [
        line
        for name in ("r", "a", "b", "c")
        for line in (
            f"  %w{name} = sext i32 %n{name} to i64",
            f"  %o{name} = mul i64 %w{name}, {ROWS}",
            f"  %{name} = getelementptr double, ptr %columns, i64 %o{name}",
        )
    ]
    cases = " ".join(f"i32 {code}, label %{name}.begin" for name, code in _CODES.items())
    lines = [
        *declared,
        "define void @run(ptr %program, i64 %count, ptr %columns, i64 %vectors) {",
        "begin:",
        "  br label %step",
        "step:",
        "  %i = phi i64 [ 0, %begin ], [ %next, %done ]",
        "  %at = getelementptr [5 x i32], ptr %program, i64 %i",
        *fields,
        *places,
        f"  switch i32 %nop, label %done [ {cases} ]",
        *(line for name in OPERATIONS for line in _loop(name)),
        "done:",
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %count",
        "  br i1 %more, label %step, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _loop(op: str) -> list[str]:
    """Return the loop of an operation over the vectors of its columns."""
    arguments = "abc"[: OPERATIONS[op]]
    reads = [
        line
        for name in arguments
        for line in (
            f"  %{op}.p{name} = getelementptr {_KIND}, ptr %{name}, i64 %{op}.i",
            f"  %{op}.{name} = load {_KIND}, ptr %{op}.p{name}, align 8",
        )
    ]
    return [
        f"{op}.begin:",
        f"  br label %{op}.loop",
        f"{op}.loop:",
        f"  %{op}.i = phi i64 [ 0, %{op}.begin ], [ %{op}.next, %{op}.loop ]",
        *reads,
        *_body(op),
        f"  %{op}.pr = getelementptr {_KIND}, ptr %r, i64 %{op}.i",
        f"  store {_KIND} %{op}.r, ptr %{op}.pr, align 8",
        f"  %{op}.next = add i64 %{op}.i, 1",
        f"  %{op}.more = icmp slt i64 %{op}.next, %vectors",
        f"  br i1 %{op}.more, label %{op}.loop, label %done",
    ]


def _body(op: str) -> list[str]:
    """Return the LLVM IR of an operation on vectors: `r` from `a`, `b` and `c`."""
    a, b, c, r = (f"%{op}.{name}" for name in "abcr")
    zero = "zeroinitializer"
    if op in _INFIX:
        return [f"  {r} = {_INFIX[op]} {_KIND} {a}, {b}"]
    if op in _CALLS:
        given = ", ".join(f"{_KIND} {name}" for name in (a, b)[: OPERATIONS[op]])
        return [f"  {r} = call {_KIND} @llvm.{_CALLS[op]}.v8f64({given})"]
    if op == "where":
        return [
            f"  %{op}.t = fcmp une {_KIND} {a}, {zero}",
            f"  {r} = select <8 x i1> %{op}.t, {_KIND} {b}, {_KIND} {c}",
        ]
    if op in _TESTS:
        tests = [f"  %{op}.t = fcmp {_TESTS[op]} {_KIND} {a}, {b}"]
    elif op == "not":
        tests = [f"  %{op}.t = fcmp oeq {_KIND} {a}, {zero}"]
    else:
        tests = [
            f"  %{op}.x = fcmp une {_KIND} {a}, {zero}",
            f"  %{op}.y = fcmp une {_KIND} {b}, {zero}",
            f"  %{op}.t = {op} <8 x i1> %{op}.x, %{op}.y",
        ]
    return [*tests, f"  {r} = uitofp <8 x i1> %{op}.t to {_KIND}"]
