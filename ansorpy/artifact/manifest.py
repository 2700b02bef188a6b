"""The manifests of kernel zips, GPU zips and bundles: their entries, written and checked by type.

`entry` writes the objects of a manifest in the order of their types. Loading checks the fields that
it reads: `MACHINE` to `MODEL` list these by their paths. All other fields are for people.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    Final,
    NotRequired,
    TypedDict,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ansorpy.artifact.device_runner import checked_table
from ansorpy.errors import PackageError
from ansorpy.expr.dtypes import DTYPES

MOST_THREADS: Final = 4096  # threads that a package may start

Count = Annotated[int, lambda value: 0 <= value < 1 << 63]
ThreadCount = Annotated[int, lambda value: 1 <= value <= MOST_THREADS]
Number = Annotated[float, lambda value: abs(value) <= sys.float_info.max]
Span = Annotated[list[Number], lambda value: len(value) == 2]
Entry = TypeVar("Entry")


class TensorEntry(TypedDict):
    """An argument of a kernel or of a model."""

    name: str
    dtype: Annotated[str, DTYPES.__contains__]
    shape: list[Count]
    dims: NotRequired[list[str]]  # by axis: the dim that a call decides, "" for a number


class DimEntry(TypedDict):
    """An extent that each call decides: a multiple of `step` from `low` to `high`.

    `timed` are the sizes of a race, `weights` the weights of their times; []: all are equal.
    """

    name: str
    low: Count
    high: Count
    timed: list[Count]
    step: Count
    weights: list[Number]
    terms: NotRequired[list[Annotated[Any, lambda value: type(value) in (str, int)]]]  # summands


class InputEntry(TensorEntry):
    """An input of a kernel; `span` if its integers choose indices."""

    constant: bool
    span: NotRequired[Span]


class BufferEntry(TensorEntry):
    """A buffer of kernels for a GPU."""

    role: str
    span: NotRequired[Span]


class ValueEntry(TensorEntry):
    """A value of a model: the number of its argument of the driver, and its first byte there."""

    argument: Count
    at: Count


class BoundEntry(TensorEntry):
    """An input of a model's file that the bundle was made for a value of."""

    value: Annotated[Any, lambda value: type(value) in (bool, int, float)]


class StateEntry(TypedDict):
    """Inputs to which a model appends rows: the dims before and after, and pairs with outputs."""

    past: str
    total: str
    pairs: list[Annotated[list[Count], lambda pair: len(pair) == 2]]


class StepEntry(TypedDict):
    """A step of a model: a call of a kernel, or of a function of `hosted.py`, or a copy.

    A copy has `rows` along an axis: number of the value read, first row of it, first row of the
    result, number of rows; each is a number, or a dim.
    """

    kernel: NotRequired[str]
    best_s: NotRequired[float]
    function: NotRequired[str]
    attributes: NotRequired[dict[str, Any]]
    axis: NotRequired[Count]
    rows: NotRequired[list[list[Any]]]
    reads: list[str]
    writes: list[str]
    nodes: list[str]


def entry(kind: Callable[..., Entry], *sources: object, **given: object) -> Entry:
    """Return an object of a manifest, its fields in the order of `kind`.

    A field is `given`, or is the attribute of its name of the first source that has this attribute.
    A field that may be absent is left out if it is None.
    """
    entry, every = {}, (SimpleNamespace(**given), *sources)
    for name, of in _fields(kind).items():
        found = next((one for one in every if hasattr(one, name)), None)
        optional = get_origin(of) is NotRequired
        value = getattr(found, name, None) if optional else getattr(found, name)
        if value not in (None, ()) or not optional:
            entry[name] = _json(value)
    return cast("Entry", entry)


def picked(source: object, *names: str) -> dict[str, Any]:
    """Return the attributes of these names."""
    return {name: _json(getattr(source, name)) for name in names}


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@cache
def _fields(kind: object) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _is_table(cuda: Any) -> bool:
    """Return True for the buffers and launches of kernels for a GPU."""
    try:
        checked_table(cuda)
    except ValueError:
        return False
    return True


def _is_step(step: Any) -> bool:
    if "function" in step:
        return isinstance(step.get("attributes"), dict)
    return "kernel" in step or "rows" in step


def _is_scalar(bound: Any) -> bool:
    return bound["dtype"] != "bfloat16" and all(extent == 1 for extent in bound["shape"])


MACHINE: Final[Mapping[str, Any]] = {"target.needs": list[str]}
TIMED: Final[Mapping[str, Any]] = {"latency_s.min": Number}
KERNEL: Final[Mapping[str, Any]] = {
    "name": str,
    "inputs": list[InputEntry],
    "outputs": list[TensorEntry],
    **TIMED,
}
LIBRARY: Final[Mapping[str, Any]] = {
    "outputs": list[TensorEntry],
    "dims": NotRequired[list[DimEntry]],
    "target.threads": ThreadCount,
    "native.note": str,
    "native.prefix": str,
    "native.features": list[str],
    "native.workspace_bytes": Count,
    "native.span": Span,
    "native.flop": Number,
}
GPU: Final[Mapping[str, Any]] = {
    "name": str,
    "timed": bool,
    "inputs": list[InputEntry],
    "outputs": list[TensorEntry],
    "flop": Count,
    "constants": list[str],
    "verification.inputs": Span,
    "verification.tolerances": list[Number],
    "verification.exact_on_integers_up_to": Count,
    "cuda": Annotated[Any, _is_table],
}
MODEL: Final[Mapping[str, Any]] = {
    "name": str,
    "inputs": list[TensorEntry],
    "outputs": list[TensorEntry],
    "dims": NotRequired[list[DimEntry]],
    "state": NotRequired[StateEntry],
    "threads": ThreadCount,
    "prefix": str,
    "features": list[str],
    "native_steps": Count,
    "tolerances": list[Number],
    "memory.weights_bytes": Count,
    "memory.packed_bytes": Count,
    "memory.arena_bytes": Count,
    "memory.scratch_bytes": Count,
    "values": dict[str, ValueEntry],
    "steps": list[Annotated[StepEntry, _is_step]],
    "bound": NotRequired[list[Annotated[BoundEntry, _is_scalar]]],
}
ABSENT: Final[Mapping[str, Any]] = {"absent_weights": list[TensorEntry]}


def check_fields(manifest: Mapping[str, Any], fields: Mapping[str, Any], place: str) -> None:
    """Raise PackageError, which names the field, unless every field is there and of its type."""
    for path, kind in fields.items():
        value: Any = manifest
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if not _is_of(value, kind):
            raise PackageError(f"{place}: its manifest has no usable {path}")


def _is_of(value: Any, kind: Any) -> bool:
    """Return True if a JSON value is of a type: of a class, or of types as the entries have."""
    origin, of = get_origin(kind), get_args(kind)
    if origin is NotRequired:
        return value is None or _is_of(value, of[0])
    if origin is Annotated:
        return _is_of(value, of[0]) and all(check(value) for check in of[1:])
    if origin is list:
        return isinstance(value, list) and all(_is_of(one, of[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is_of(one, of[1]) for one in value.values())
    if is_typeddict(kind):
        fields = _fields(kind).items()
        return isinstance(value, dict) and all(_is_of(value.get(n), one) for n, one in fields)
    return kind is Any or type(value) in ((int, float) if kind is float else (kind,))
