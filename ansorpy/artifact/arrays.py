"""Arrays of other libraries, in and out, without copies (DLPack)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ansorpy.artifact.harness import stored_dtype

CPU: Final = 1  # kDLCPU


def to_numpy(array: Any, place: str, dtype: str = "") -> np.ndarray[Any, Any]:
    """Return a NumPy view of an array of any library.

    Args:
        array: a NumPy array, a DLPack producer, or an argument of `np.asarray`.
        place: the name of the array in messages.
        dtype: that an argument of `np.asarray` must have; "": any.

    Raises:
        TypeError: it does not lie in the memory of the processor, may not be exported, or is a list
            (or another argument of `np.asarray`) of another dtype.
    """
    if isinstance(array, np.ndarray):
        return array
    if not hasattr(array, "__dlpack__"):
        return _read(array, place, dtype)
    device, number = array.__dlpack_device__()
    if device != CPU:
        raise TypeError(f"{place}: on DLPack device ({int(device)}, {number}), not in CPU memory")
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError) as error:
        raise TypeError(f"{place}: cannot be shared through DLPack: {error}") from error


def _read(given: Any, place: str, dtype: str) -> np.ndarray[Any, Any]:
    """Return the array of a list or of another argument of `np.asarray`."""
    wanted = stored_dtype(dtype) if dtype else None
    try:
        array = np.asarray(given)
        found = str(array.dtype)
    except ValueError:  # rows of different lengths
        array, found = np.empty(0, object), "no array"
    if wanted is not None and array.dtype != wanted:
        raise TypeError(
            f"cannot run because {place} is a {type(given).__name__}, which NumPy reads as {found};"
            f" expected an array, as of np.asarray(..., '{wanted}')"
        )
    return array


def to_arrays(
    tensors: Sequence[tuple[str, str]], given: Sequence[Any]
) -> list[np.ndarray[Any, Any]]:
    """Return NumPy views of the arrays of a call.

    Args:
        tensors: name and dtype of each input; of no use if there are more or fewer of them.
    """
    if len(tensors) != len(given):  # the kernel tells which arrays it takes
        tensors = [(f"input {number}", "") for number in range(len(given))]
    return [
        to_numpy(array, name, dtype) for (name, dtype), array in zip(tensors, given, strict=True)
    ]


def in_order(
    subject: str, names: Sequence[str], inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the arrays of a call in the order of the inputs.

    Args:
        subject: the name of the kernel or model in messages.
        names: of the inputs.
        inputs: arrays in order, or one mapping of names to arrays.
        named: arrays by name.

    Raises:
        TypeError: an input is missing or unknown, or there are arrays of both kinds.
    """
    first = inputs[0] if len(inputs) == 1 else None
    if isinstance(first, Mapping):
        inputs, named = (), {**first, **named}
    if not named:
        return inputs
    if inputs or sorted(named) != sorted(names):
        got = [*(["positional arrays"] if inputs else []), *named]
        raise TypeError(
            f"cannot run {subject} because {', '.join(got)} were given; expected {', '.join(names)}"
        )
    return tuple(named[name] for name in names)


def importer_of(inputs: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return the conversion of NumPy results to the type of the first input of another library.

    Its library is found by the array API (`__array_namespace__`), else by the package of its type,
    which offers `from_dlpack` itself (torch, cupy) or in `dlpack` (jax). Without any: NumPy.
    """
    for array in inputs:
        if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack__"):
            continue
        package = type(array).__module__.partition(".")[0]
        spaces: tuple[Any, ...] = (
            array.__array_namespace__() if hasattr(array, "__array_namespace__") else None,
            sys.modules.get(package),
            sys.modules.get(f"{package}.dlpack"),
        )
        for space in spaces:
            if hasattr(space, "from_dlpack"):
                found: Callable[[Any], Any] = space.from_dlpack
                return found
    return _as_it_is


def _as_it_is(array: Any) -> Any:
    return array
