"""Expressions of the loop IR as Python closures: compiled once, called per point.

Index expressions run on Python ints, values on NumPy scalars of exactly their dtype, so float32
arithmetic rounds to float32 after every operation. Buffers are flat lists of such scalars; in a
strict run, elements that are not written yet are None.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ansorpy.errors import LoweringError
from ansorpy.expr.affine import linear
from ansorpy.expr.dtypes import FLOATS, INDEX
from ansorpy.expr.evaluate import INDEX_OPS, PYTHON_OPS
from ansorpy.expr.expr import BITS, Binary, Call, Cast, Const, Expr, Read, Select, Var, reads
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.oracle import numeric
from ansorpy.te.tensor_data import rounded

Thunk = Callable[[], Any]

_BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    **PYTHON_OPS,
    **{op: numeric.BINARY[op] for op in (*BITS, *BINARY_FUNCTIONS)},
    # A NaN on either side is the answer, as in NumPy.
    "min": lambda a, b: a if a <= b or a != a else b,
    "max": lambda a, b: a if a >= b or a != a else b,
}


def _in_its_dtype(meaning: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of arrays as a function of NumPy scalars that keeps their dtype."""
    return lambda a: a.dtype.type(meaning(a))


_CALLS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **{name: _in_its_dtype(function.meaning) for name, function in FUNCTIONS.items()},
    **PYTHON_OPS,
}


@dataclass(slots=True)
class Array:
    """A buffer while the program runs; `data` is refilled in place, so closures keep it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: list[Any] = field(default_factory=list, repr=False)


@dataclass(slots=True)
class Frame:
    """The environment of closures: loop variables by slot, buffers by name."""

    slots: dict[str, int] = field(default_factory=dict)
    env: list[int] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)

    def slot(self, var: str) -> int:
        """Return the place of a variable in `env`, a new one for a new variable."""
        if var not in self.slots:
            self.slots[var] = len(self.env)
            self.env.append(0)
        return self.slots[var]


def scalar_type(dtype: str) -> type[Any]:
    """Return the NumPy scalar type; a bfloat16 is a float32 that is rounded to its bits."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype).type


def index_thunk(expr: Expr, frame: Frame) -> Thunk:
    """Compile an index expression or condition; it answers a Python int or bool."""
    terms = linear(expr)
    if terms is not None:
        return _affine_thunk(*terms, frame)
    match expr:
        case Binary(op="and", a=a, b=b):
            x, y = index_thunk(a, frame), index_thunk(b, frame)
            return lambda: x() and y()
        case Binary(op="or", a=a, b=b):
            x, y = index_thunk(a, frame), index_thunk(b, frame)
            return lambda: x() or y()
        case Binary(op=op, a=a, b=Const(value=k)):
            apply, x = _BINARY[op], index_thunk(a, frame)
            return lambda: apply(x(), k)
        case Binary(op=op, a=a, b=b):
            apply, x, y = _BINARY[op], index_thunk(a, frame), index_thunk(b, frame)
            return lambda: apply(x(), y())
        case Select(cond=cond, then=then, other=other):
            return _select(*(index_thunk(part, frame) for part in (cond, then, other)))
        case Call(fn="not" | "neg" | "abs" as fn, a=a):
            change, x = _CALLS[fn], index_thunk(a, frame)
            return lambda: change(x())
        case Const(value=value):
            return lambda: value
        case _:
            raise LoweringError(f"not an index expression: {expr}")


def value_thunk(expr: Expr, frame: Frame, strict: bool) -> Thunk:
    """Compile a value; it answers a NumPy scalar of the dtype of `expr` (bools may be Python's).

    Raises:
        LoweringError: when called, for an index out of range or (strict) an unwritten element.
    """
    match expr:
        case Const(value=value, dtype=dtype):
            constant = scalar_type(dtype)(value)
            return lambda: constant
        case Read():
            return _read(expr, frame, strict)
        case _ if _is_index(expr):
            index = index_thunk(expr, frame)
            return (lambda: np.int64(index())) if expr.dtype == INDEX else index
        case Cast(dtype=dtype, a=a):
            return _cast(dtype, a, frame, strict)
        case Call(fn=fn, a=a):
            change, x = _CALLS[fn], value_thunk(a, frame, strict)
            return lambda: change(x())
        case Select(cond=cond, then=then, other=other):
            return _select(*(value_thunk(part, frame, strict) for part in (cond, then, other)))
        case Binary(op=op, a=a, b=b):
            x, y = value_thunk(a, frame, strict), value_thunk(b, frame, strict)
            if op == "and":
                return lambda: x() and y()
            if op == "or":
                return lambda: x() or y()
            apply = _BINARY[op]
            return lambda: apply(x(), y())
        case _:
            raise LoweringError(f"not a value: {expr}")


def place_thunk(array: Array, index: tuple[Expr, ...], frame: Frame, strict: bool = False) -> Thunk:
    """Compile an access; it answers the row-major offset, LoweringError outside the shape."""
    parts = [_gathered(e, frame, strict) if reads(e) else index_thunk(e, frame) for e in index]
    if len(parts) == 1:
        (x,), (n,) = parts, array.shape

        def place() -> int:
            i: int = x()
            if 0 <= i < n:
                return i
            raise _outside(array, (i,))

        return place
    if len(parts) == 2:
        (x, y), (n, m) = parts, array.shape

        def place2() -> int:
            i, j = x(), y()
            if 0 <= i < n and 0 <= j < m:
                return int(i * m + j)
            raise _outside(array, (i, j))

        return place2
    pairs = tuple(zip(parts, array.shape, strict=True))

    def place_n() -> int:
        offset = 0
        for part, extent in pairs:
            i = part()
            if not 0 <= i < extent:
                raise _outside(array, tuple(p() for p in parts))
            offset = offset * extent + i
        return offset

    return place_n


def unwritten(array: Array) -> LoweringError:
    """Return the error for an element that is used before it was written."""
    return LoweringError(f"{array.name}: an element is read before it is written")


def _read(expr: Read, frame: Frame, strict: bool) -> Thunk:
    array = frame.arrays[expr.tensor]
    place, data = place_thunk(array, expr.indices, frame, strict), array.data
    if not strict:
        return lambda: data[place()]

    def checked() -> Any:
        value = data[place()]
        if value is None:
            raise unwritten(array)
        return value

    return checked


def _gathered(expr: Expr, frame: Frame, strict: bool) -> Thunk:
    """Compile an index that depends on data."""
    value = value_thunk(expr, frame, strict)
    return lambda: int(value())


def _cast(dtype: str, a: Expr, frame: Frame, strict: bool) -> Thunk:
    to = scalar_type(dtype)
    if _is_index(a):
        index, wide = index_thunk(a, frame), dtype in (*FLOATS, INDEX, "bool")
        # Through int64, so that a narrow integer wraps as it does in a kernel.
        return (lambda: to(index())) if wide else (lambda: np.int64(index()).astype(to))
    value, source = value_thunk(a, frame, strict), scalar_type(a.dtype)
    if dtype == "bfloat16":
        return lambda: to(rounded(np.asarray(source(value())), dtype))
    return lambda: source(value()).astype(to)


def _select(cond: Thunk, then: Thunk, other: Thunk) -> Thunk:
    return lambda: then() if cond() else other()


def _is_index(expr: Expr) -> bool:
    """Return True if Python integers give the exact value: index operations, and no reads."""
    match expr:
        case Var():
            return True
        case Const(dtype=dtype):
            return dtype in (INDEX, "bool")
        case Binary(op=op, a=a, b=b):
            return op in INDEX_OPS and _is_index(a) and _is_index(b)
        case Call(fn=fn, a=a):
            return fn in ("not", "neg", "abs") and _is_index(a)
        case Select():
            return not reads(expr) and all(map(_is_index, (expr.cond, expr.then, expr.other)))
        case Read() | Cast():
            return False


def _affine_thunk(constant: int, terms: Mapping[str, int], frame: Frame) -> Thunk:
    env, pairs = frame.env, tuple((frame.slot(v), k) for v, k in terms.items())
    if not pairs:
        return lambda: constant
    if len(pairs) == 1:
        ((s, k),) = pairs
        return _one_term(env, s, k, constant)
    if len(pairs) == 2:
        (s, k), (t, m) = pairs
        return lambda: env[s] * k + env[t] * m + constant
    return lambda: sum([env[s] * k for s, k in pairs], constant)


def _one_term(env: list[int], s: int, k: int, constant: int) -> Thunk:
    if k == 1 and constant == 0:
        return lambda: env[s]
    return lambda: env[s] * k + constant


def _outside(array: Array, index: tuple[int, ...]) -> LoweringError:
    return LoweringError(f"{array.name}{list(index)} is outside the shape {list(array.shape)}")
