"""The proof that every index is in range, by interval arithmetic in Python ints.

A read inside a `select` is proved under the condition of its branch. A read without a proof is
refused, never clamped. An index may depend on data only inside a clamp, whose two constants are
the proof.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ansorpy.errors import SpecError, shown
from ansorpy.expr.affine import form
from ansorpy.expr.bounds import NO_FACTS, Facts, Ranges, assume, bounds
from ansorpy.expr.dtypes import INDEX, INTEGER_RANGE
from ansorpy.expr.expr import Binary, Call, Const, Expr, Read, Select, Var, children, reads
from ansorpy.expr.gathers import outside_clamps
from ansorpy.te.check_basics import Tensors
from ansorpy.te.dims import Dim


def check_ranges(
    expr: Expr,
    ranges: Ranges,
    tensors: Tensors,
    where: str,
    facts: Facts = NO_FACTS,
    dims: Mapping[str, Dim] = MappingProxyType({}),
) -> None:
    """Refuse a read that may leave its tensor, a divisor that may be 0, an index beyond int64.

    Args:
        ranges: first and last value of every axis.
        facts: the conditions around `expr`.
        dims: by axis: an axis reads along an equal dim, and any index below its least size.

    Raises:
        SpecError: names the read, the interval and the extent.
    """
    match expr:
        case Select(cond=cond, then=then, other=other):
            check_ranges(cond, ranges, tensors, where, facts, dims)
            check_ranges(then, ranges, tensors, where, assume(cond, ranges, facts), dims)
            no = assume(cond, ranges, facts, holds=False)
            check_ranges(other, ranges, tensors, where, no, dims)
            return
        case Read(tensor=tensor, indices=indices):
            for position, index in enumerate(indices):
                _affine(index, expr, where)
                extent = tensors[tensor][0][position]
                if not _along(index, extent, dims):
                    _check_index(expr, position, extent, ranges, facts, where)
        case Binary(op="floordiv" | "mod", b=b):
            low, high = bounds(b, ranges, facts)
            if low <= 0 <= high:
                raise SpecError(f"{where}: {shown(expr)} may divide by 0")
        case Binary() if expr.dtype == INDEX:
            _no_overflow(expr, ranges, where)
        case _:
            pass
    for part in children(expr):
        check_ranges(part, ranges, tensors, where, facts, dims)


def _along(index: Expr, extent: int, dims: Mapping[str, Dim]) -> bool:
    """Return True if an index is an axis that runs along an equal dim."""
    return isinstance(index, Var) and dims.get(index.name) == extent


def _check_index(
    read: Read, position: int, extent: int, ranges: Ranges, facts: Facts, where: str
) -> None:
    """Refuse an index that may be beyond the extent, of a dim beyond its least size."""
    index, least = read.indices[position], extent.low if isinstance(extent, Dim) else extent
    low, high = bounds(index, ranges)
    if low < 0 or high >= least:
        low, high = bounds(index, ranges, facts)
    if low < 0 or high >= least:
        size = f" at {extent.name} = {least}" if isinstance(extent, Dim) else ""
        raise SpecError(
            f"{where}: {shown(read)} reads out of range: index {position}, "
            f"{shown(index)}, runs from {low} to {high}, but {read.tensor!r} "
            f"has 0 to {least - 1} there{size}; guard the read with a condition"
        )


def _no_overflow(expr: Binary, ranges: Ranges, where: str) -> None:
    if reads(expr):
        return  # data wraps around as int64 does everywhere
    low, high = bounds(expr, ranges)
    first, last = INTEGER_RANGE[INDEX]
    if low < first or high > last:
        raise SpecError(f"{where}: {shown(expr)} reaches {low if low < first else high}: not int64")


def _affine(index: Expr, read: Read, where: str) -> None:
    for part in outside_clamps(index):
        match part:
            case Const() | Var() | Call(fn="neg") | Binary(op="add" | "sub" | "min" | "max"):
                continue
            case Binary(op="mul", a=a, b=b) if not (form(a).terms and form(b).terms):
                continue
            case Binary(op="floordiv" | "mod", b=b) if not form(b).terms and form(b).const > 0:
                continue
            case Read():
                raise SpecError(
                    f"{where}: {shown(read)}: index part {shown(part)} is data without a range; "
                    "expected it inside min(max(..., low), high) with two constants"
                )
            case _:
                raise SpecError(
                    f"{where}: {shown(read)}: index part {shown(part)} is not affine (sums and "
                    "multiples of axes, min, max, // and % by a positive constant)"
                )
