"""Dtypes of tensor elements: one table of their sizes and limits.

A dtype is named by a string everywhere. float16 and bfloat16 are storage types (NARROW): kernels
compute in float32 (WIDE), and round once where the value of a node is stored (`expr.wide`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

INDEX: Final = "int64"  # the dtype of every axis variable
NARROW: Final = ("float16", "bfloat16")  # dtypes of storage only
WIDE: Final = "float32"  # the dtype in which values of narrow dtypes are computed


@dataclass(frozen=True, slots=True)
class IntegerDtype:
    """An integer dtype or bool: every integer from `lowest` to `largest`."""

    size_bytes: int
    lowest: int
    largest: int


@dataclass(frozen=True, slots=True)
class FloatDtype:
    """A binary float dtype.

    Args:
        precision: bits of the significand, the implicit one included.
        max_exponent: exponent of the largest finite value, written 1.x * 2**exponent.
        underflow: largest absolute error of a result that underflows. Machines may flush
            subnormals to zero, except in float16, which is only stored.
    """

    size_bytes: int
    precision: int
    max_exponent: int
    underflow: float

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.max_exponent


_FLOATS: Final[Mapping[str, FloatDtype]] = {
    "float16": FloatDtype(2, 11, 15, 2.0**-24),
    "bfloat16": FloatDtype(2, 8, 127, 2.0**-126),
    "float32": FloatDtype(4, 24, 127, 2.0**-126),
    "float64": FloatDtype(8, 53, 1023, 2.0**-1022),
}
_INTS: Final[Mapping[str, IntegerDtype]] = {
    "int8": IntegerDtype(1, -(2**7), 2**7 - 1),
    "uint8": IntegerDtype(1, 0, 2**8 - 1),
    "int16": IntegerDtype(2, -(2**15), 2**15 - 1),
    "uint16": IntegerDtype(2, 0, 2**16 - 1),
    "int32": IntegerDtype(4, -(2**31), 2**31 - 1),
    "uint32": IntegerDtype(4, 0, 2**32 - 1),
    "int64": IntegerDtype(8, -(2**63), 2**63 - 1),
    "uint64": IntegerDtype(8, 0, 2**64 - 1),
}
_EXACT: Final[Mapping[str, IntegerDtype]] = {**_INTS, "bool": IntegerDtype(1, 0, 1)}
_ALL: Final[Mapping[str, FloatDtype | IntegerDtype]] = {**_FLOATS, **_EXACT}

FLOATS: Final = tuple(_FLOATS)
INTS: Final = tuple(_INTS)
UNSIGNED: Final = tuple(name for name, kind in _EXACT.items() if kind.lowest == 0)  # with bool
NUMBERS: Final = (*FLOATS, *INTS)
DTYPES: Final = tuple(_ALL)

SIZE_BYTES: Final[Mapping[str, int]] = {name: kind.size_bytes for name, kind in _ALL.items()}
INTEGER_RANGE: Final[Mapping[str, tuple[int, int]]] = {
    name: (kind.lowest, kind.largest) for name, kind in _EXACT.items()
}
# The largest finite value as a float: 2.0**63 for int64.
LARGEST: Final[Mapping[str, float]] = {name: float(kind.largest) for name, kind in _ALL.items()}
UNIT_ROUNDOFF: Final[Mapping[str, float]] = {
    name: 2.0**-kind.precision for name, kind in _FLOATS.items()
}
UNDERFLOW: Final[Mapping[str, float]] = {name: kind.underflow for name, kind in _FLOATS.items()}
# Integers of a smaller magnitude are values of the dtype, and their sums and products are exact.
EXACT_BELOW: Final[Mapping[str, int]] = {
    **{name: 2**kind.precision for name, kind in _FLOATS.items()},
    **{name: kind.largest + 1 for name, kind in _EXACT.items()},
}


def computed(dtype: str) -> str:
    """Return the dtype in which kernels compute values of `dtype`."""
    return WIDE if dtype in NARROW else dtype
