"""Checks and names for the arguments of the Python API."""

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Final

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import DTYPES
from ansorpy.te.dims import Dim, least, plain

_serial: Final = itertools.count()  # makes tokens differ; a token never reaches a Dag


def shape_of(shape: Sequence[int], name: str) -> tuple[int, ...]:
    """Return a shape as a tuple; SpecError if an extent is no whole number of at least 1."""
    extents = tuple(whole(extent, f"shape of {name}") for extent in shape)
    for position, extent in enumerate(extents):
        if extent < 1:
            raise SpecError(f"{name}: extent {extent} of dimension {position} is below 1")
        if least(extent) < 1:
            raise SpecError(
                f"{name}: extent {extent} of dimension {position} may be 0; expected sizes from 1"
            )
    return extents


def whole(value: int, place: str) -> int:
    """Return an int from anything that is a whole number, or a dim; SpecError for the rest."""
    if isinstance(value, Dim):
        return plain(value)
    try:
        return operator.index(value)
    except TypeError:
        raise SpecError(f"{place}: {value!r} is not a whole number") from None


def known_dtype(dtype: str, name: str) -> None:
    """Refuse a dtype that is not supported."""
    if dtype not in DTYPES:
        raise SpecError(f"{name}: unknown dtype {dtype!r}, known: {', '.join(DTYPES)}")


def new_token(name: str) -> str:
    """Return a name that is unique in this process; `te.dag` gives the final one."""
    return f"{name}#{next(_serial)}"


def unique(wish: str, taken: Iterable[str]) -> str:
    """Return `wish`, with a number appended if the name is taken."""
    used = set(taken)
    return next(
        name
        for name in itertools.chain((wish,), (f"{wish}_{n}" for n in itertools.count(1)))
        if name not in used
    )
