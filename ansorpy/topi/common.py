"""Argument checks and small helpers that the families of operators share."""

from collections.abc import Iterable, Sequence
from operator import index
from typing import Final, NoReturn

from ansorpy import te
from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import FLOATS, INTS

LETTERS: Final = "ijlmnopq"  # names of result axes; `k` is the name of a reduced axis


def refuse(action: str, because: str, expected: str) -> NoReturn:
    """Raise the SpecError of an operator: "cannot X because Y; expected Z"."""
    raise SpecError(f"cannot {action} because {because}; expected {expected}")


def shown(tensor: object) -> str:
    """Return the name and the shape of a tensor, for messages.

    Raises:
        SpecError: it is another object; an array of NumPy, which a kernel takes, is the usual one.
    """
    if not isinstance(tensor, te.Tensor):
        kind = type(tensor).__name__
        refuse(f"take a {kind} as a tensor", "it has no te expression", "a te.placeholder(...)")
    return f"{tensor.name}{list(tensor.shape)}"


def require_rank(data: te.Tensor, rank: int, action: str, layout: str) -> None:
    """Refuse a tensor of another rank; `layout` names the axes, as in "[n, c, h, w]"."""
    if len(data.shape) != rank:
        refuse(action, f"{shown(data)} has rank {len(data.shape)}", f"rank {rank}, {layout}")


def require_float(data: te.Tensor, action: str) -> None:
    """Refuse a tensor whose dtype is not a float."""
    if data.dtype not in FLOATS:
        refuse(action, f"{shown(data)} is {data.dtype}", f"a float dtype: {', '.join(FLOATS)}")


def require_integers(data: te.Tensor, action: str) -> None:
    """Refuse a tensor whose dtype is no integer, for example floats as indices."""
    if data.dtype not in INTS:
        refuse(action, f"{data.name} is {data.dtype}", f"integers: {', '.join(INTS)}")


def require_length(data: te.Tensor, length: int, action: str) -> None:
    """Refuse anything but a vector of `length` elements, as an axis has."""
    if data.shape != (length,):
        because = f"{shown(data)} is not a vector of its {length} elements"
        refuse(action, because, f"shape [{length}]")


def axis_of(axis: int, rank: int, action: str) -> int:
    """Return an axis counted from 0; a negative one counts from the last, as in NumPy."""
    try:
        at = index(axis)
    except TypeError:
        refuse(action, f"axis {axis!r} is not an integer", f"{-rank} to {rank - 1}")
    if not -rank <= at < rank:
        refuse(action, f"axis {axis} is not an axis of rank {rank}", f"{-rank} to {rank - 1}")
    return at % rank


def axes_of(axis: int | Sequence[int] | None, rank: int, action: str) -> tuple[int, ...]:
    """Return axes counted from 0, in order and each once; None stands for all axes."""
    if axis is None:
        return tuple(range(rank))
    given = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    found = [axis_of(one, rank, action) for one in given]
    if len(set(found)) < len(found):
        refuse(action, f"axes {list(given)} name an axis twice", "every axis once")
    return tuple(sorted(found))


def per_dimension(value: int | Sequence[int], rank: int, what: str, action: str) -> tuple[int, ...]:
    """Return one number per spatial dimension from one number for all, or from a sequence."""
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) != rank:
        refuse(action, f"{what} {list(values)} has {len(values)} numbers", f"one, or {rank}")
    return values


def multiplied(a: te.Scalar, b: te.Scalar) -> te.Scalar:
    """Return a * b, computed in int32 if the operands are int8 or uint8."""
    if a.dtype in ("int8", "uint8"):
        return te.cast(a, "int32") * te.cast(b, "int32")
    return a * b


def zero(dtype: str) -> te.Scalar:
    """Return 0 as a value of `dtype`; False for bool."""
    return te.const(False if dtype == "bool" else 0, dtype)
