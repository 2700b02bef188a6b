"""The fields of a manifest that loading and calling a kernel read, and their kinds."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from ansorpy.artifact.device_runner import checked_table
from ansorpy.errors import PackageError
from ansorpy.expr.dtypes import DTYPES

Check = Callable[[Any], bool]
MOST_THREADS: Final = 4096  # threads that a package may start


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_thread_count(value: Any) -> bool:
    return _is_count(value) and 1 <= value <= MOST_THREADS


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _are(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_text(value.get("name"))
        and value.get("dtype") in DTYPES
        and _are(_is_count)(value.get("shape"))
    )


def are_tensors(value: Any) -> bool:
    """Return True for a list of names, dtypes and shapes."""
    return _are(_is_tensor)(value)


def _is_input(value: Any) -> bool:
    return (
        _is_tensor(value)
        and type(value.get("constant")) is bool
        and ("span" not in value or _is_span(value["span"]))
    )


def _is_span(value: Any) -> bool:
    return _are(_is_number)(value) and len(value) == 2


MACHINE: Final[Mapping[str, Check]] = {"target.needs": _are(_is_text)}
TIMED: Final[Mapping[str, Check]] = {"latency_s.min": _is_number}
KERNEL: Final[Mapping[str, Check]] = {"name": _is_text, "inputs": _are(_is_input), **TIMED}
LIBRARY: Final[Mapping[str, Check]] = {
    "outputs": are_tensors,
    "target.threads": _is_thread_count,
    "native.note": _is_text,
    "native.prefix": _is_text,
    "native.features": _are(_is_text),
    "native.workspace_bytes": _is_count,
    "native.span": _is_span,
    "native.flop": _is_number,
}


def _is_table(value: Any) -> bool:
    """Return True for the buffers and launches of kernels for a GPU."""
    try:
        checked_table(value)
    except ValueError:
        return False
    return True


GPU: Final[Mapping[str, Check]] = {
    "name": _is_text,
    "timed": lambda value: type(value) is bool,
    "inputs": _are(_is_input),
    "outputs": are_tensors,
    "flop": _is_count,
    "constants": _are(_is_text),
    "verification.inputs": _is_span,
    "verification.tolerances": _are(_is_number),
    "verification.exact_on_integers_up_to": _is_count,
    "cuda": _is_table,
}


def _is_step(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and (_is_text(value.get("kernel")) or _is_text(value.get("function")))
        and all(_are(_is_text)(value.get(key)) for key in ("reads", "writes", "nodes"))
        and ("function" not in value or isinstance(value.get("attributes"), dict))
    )


def _is_values(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_tensor(one) and _is_count(one.get("argument")) and _is_count(one.get("at"))
        for one in value.values()
    )


def _is_bound(value: Any) -> bool:
    """Return True for values of scalar inputs, or if there is no such field."""
    return value is None or _are(
        lambda one: (
            _is_tensor(one)
            and one["dtype"] != "bfloat16"
            and all(extent == 1 for extent in one["shape"])
            and type(one.get("value")) in (bool, int, float)
        )
    )(value)


MODEL: Final[Mapping[str, Check]] = {
    "name": _is_text,
    "inputs": are_tensors,
    "outputs": are_tensors,
    "threads": _is_thread_count,
    "prefix": _is_text,
    "features": _are(_is_text),
    "native_steps": _is_count,
    "tolerances": _are(_is_number),
    "memory.weights_bytes": _is_count,
    "memory.packed_bytes": _is_count,
    "memory.arena_bytes": _is_count,
    "memory.scratch_bytes": _is_count,
    "values": _is_values,
    "steps": _are(_is_step),
    "bound": _is_bound,
}


def check_fields(manifest: Mapping[str, Any], fields: Mapping[str, Check], place: str) -> None:
    """Raise PackageError, which names the field, unless every field is there and of its kind."""
    for name, check in fields.items():
        value: Any = manifest
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if not check(value):
            raise PackageError(f"{place}: its manifest has no usable {name}")
