"""The fields of a manifest that loading and calling a kernel read, and their kinds."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from ansorpy.errors import PackageError
from ansorpy.expr.dtypes import DTYPES

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


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


def _is_input(value: Any) -> bool:
    return _is_tensor(value) and type(value.get("constant")) is bool


def _is_span(value: Any) -> bool:
    return _are(_is_number)(value) and len(value) == 2


MACHINE: Final[Mapping[str, Check]] = {"target.needs": _are(_is_text)}
KERNEL: Final[Mapping[str, Check]] = {
    "name": _is_text,
    "inputs": _are(_is_input),
    "latency_s.min": _is_number,
}
LIBRARY: Final[Mapping[str, Check]] = {
    "outputs": _are(_is_tensor),
    "target.threads": _is_count,
    "native.note": _is_text,
    "native.prefix": _is_text,
    "native.features": _are(_is_text),
    "native.workspace_bytes": _is_count,
    "native.span": _is_span,
    "native.flop": _is_number,
}


def check_fields(manifest: Mapping[str, Any], fields: Mapping[str, Check], place: str) -> None:
    """Raise PackageError, which names the field, unless every field is there and of its kind."""
    for name, check in fields.items():
        value: Any = manifest
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if not check(value):
            raise PackageError(f"{place}: its manifest has no usable {name}")
