"""Checks of names, shapes and dtypes; each refusal is a SpecError."""

from collections.abc import Mapping
from math import prod

from ansorpy.errors import SpecError, quoted
from ansorpy.expr.dtypes import DTYPES
from ansorpy.te.dims import Dim, extents_at, has_dims, least, too_large
from ansorpy.te.limits import NAME, DagLimits

Tensors = Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]]  # shape and dtypes by node name


def check_name(name: object, where: str) -> None:
    """Refuse a name that is not an ASCII identifier of at most 63 characters."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise SpecError(
            f"{where}: {quoted(name)} is not a name "
            "(an ASCII letter or _, then at most 62 letters, digits or _)"
        )


def check_shape(shape: object, where: str, limits: DagLimits) -> None:
    """Refuse a shape of too high a rank, of too many elements, or with a wrong extent."""
    if not isinstance(shape, tuple) or len(shape) > limits.rank:
        raise SpecError(f"{where}: rank {_count(shape)}, limit {limits.rank}")
    for position, extent in enumerate(shape):
        check_extent(extent, f"{where}: extent {position}", limits)
    if prod(shape) > limits.elements and has_dims(shape):
        raise too_large(
            f"cannot take {where}", shape, lambda sizes: prod(extents_at(shape, sizes)),
            limits.elements, "{} elements".format,
        )  # fmt: skip
    if prod(shape) > limits.elements:
        raise SpecError(f"{where}: {prod(shape)} elements, limit {limits.elements}")


def _count(value: object) -> object:
    return len(value) if isinstance(value, tuple) else quoted(value)


def check_extent(extent: object, where: str, limits: DagLimits) -> None:
    """Refuse an extent that is not an integer from 1 to the limit."""
    number = extent if isinstance(extent, int) and type(extent) in (int, Dim) else 0
    if not 1 <= number <= limits.extent:
        raise SpecError(f"{where} is {quoted(extent)}, not an integer 1 to {limits.extent}")
    if least(number) < 1:
        raise SpecError(f"{where} is {number}, which may be 0; expected sizes from 1")


def check_dtypes(dtypes: tuple[str, ...], where: str) -> None:
    """Refuse a dtype that is not supported."""
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise SpecError(
                f"{where}: dtype {quoted(dtype)} is not supported; there are {', '.join(DTYPES)}"
            )
