"""Arguments and results: arrays in tuples, lists and dicts, and static values beside them."""

from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from typing import Any, Final

import numpy as np

from ansorpy.errors import TraceError

STATIC: Final = (str, bytes, bool, type(None), type, np.dtype, Enum, slice, range)
EXPECTED: Final = "arrays, numbers, strings, and tuples, lists or dicts of them"


def is_array(value: object) -> bool:
    """Return True for arrays of NumPy and of libraries with DLPack, and for floats of NumPy.

    Integers of NumPy are static, because they are axes and sizes as well.
    """
    return isinstance(value, np.ndarray | np.floating) or (
        hasattr(value, "__dlpack__") and not isinstance(value, np.generic)
    )


def dtype_name(array: Any) -> str:
    """Return the name of the dtype of an array of any library."""
    return str(array.dtype).rpartition(".")[2]


def key_of(value: Any, name: str, function: str) -> Hashable:
    """Return the part of a signature that a value decides: shape and dtype, or the value.

    Raises:
        TraceError: it is neither an array nor static.
    """
    if isinstance(value, np.ndarray | np.floating):
        return value.dtype, value.shape
    if is_array(value):
        return dtype_name(value), tuple(value.shape)
    if isinstance(value, float):
        return type(value), value.hex()  # 0.0 and -0.0 differ
    if isinstance(value, (*STATIC, int, np.generic)):
        return type(value), value.tobytes() if isinstance(value, np.generic) else value
    if type(value) in (tuple, list):
        return type(value), tuple(
            key_of(one, f"{name}.{n}", function) for n, one in enumerate(value)
        )
    if type(value) is dict:
        return dict, tuple((k, key_of(one, f"{name}.{k}", function)) for k, one in value.items())
    raise TraceError(
        f"cannot trace {function} because argument {name} is of type {type(value).__name__};"
        f" expected {EXPECTED}"
    )


def mapped(value: Any, name: str, leaf: Callable[[Any, str], Any]) -> Any:
    """Return a tree with `leaf(value, name)` in place of each value that is no container."""
    if type(value) in (tuple, list):
        return type(value)(mapped(one, f"{name}.{n}", leaf) for n, one in enumerate(value))
    if type(value) is dict:
        return {k: mapped(one, f"{name}.{k}", leaf) for k, one in value.items()}
    return leaf(value, name)


def arrays_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of arguments by name, in order."""
    found: dict[str, Any] = {}

    def note(value: Any, name: str) -> None:
        if is_array(value):
            found[name] = value

    for name, value in arguments.items():
        mapped(value, name, note)
    return found
