"""Calls of a library with ctypes, and its pools of threads.

The text of this file, below its marker line, is copied into delivered files: `native.py` of a
kernel zip, `model.py` of a bundle.
"""

import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Any, Self

from ansorpy.artifact.harness import Array

# --- library calls: the same in every zip ---


class Pool:
    """A running pool of threads, started by a library with functions for it.

    A process forked from this one has none of its threads: calls there run on their callers'.

    Args:
        prefix: of the functions `PREFIX_pool_open` and `PREFIX_pool_close`.
        threads: number of threads with the caller's.
    """

    def __init__(self, library: ctypes.CDLL, prefix: str, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"cannot open a pool of {threads} threads; expected at least 1")
        start = function_of(library, f"{prefix}_pool_open", ctypes.c_int32)
        close = function_of(library, f"{prefix}_pool_close", ctypes.c_void_p)
        start.restype = ctypes.c_void_p
        self.address: int | None = start(threads)
        self._close = weakref.finalize(self, _close, close, self.address, os.getpid())

    def close(self) -> None:
        """End the threads; no kernel may be running. Later calls run on their callers' threads."""
        self.address = None
        self._close()

    @property
    def _as_parameter_(self) -> int | None:
        """The pool as ctypes passes it; NULL if it is closed."""
        return self.address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close(close: Any, address: int | None, process: int) -> None:
    if os.getpid() == process:
        close(address)


def function_of(library: ctypes.CDLL, symbol: str, *kinds: Any) -> Any:
    """Return `void symbol(kinds)`."""
    function = getattr(library, symbol)
    function.restype, function.argtypes = None, kinds
    return function


def addresses_of(arrays: Sequence[Array]) -> Any:
    """Return the addresses of arrays, as `void *args[]`; it does not keep the arrays alive."""
    return (ctypes.c_void_p * len(arrays))(*map(_address, arrays))


def _address(array: Array) -> int:
    try:  # a quarter of the time of `array.ctypes`
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it is read-only, or has no element
        address: int = array.ctypes.data
        return address
