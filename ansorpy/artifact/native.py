"""Call the exported library of a kernel zip from Python: ctypes and numpy, no numba.

The text of this file, below its marker line, is copied into the zip as `native.py`, behind that
of `harness.py`.
"""

import ctypes
import json
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from ansorpy.artifact.harness import Array, Raced, Runner, TensorSpec, Test

# --- native: the same in every kernel zip ---


class LibraryPool:
    """A running pool of threads, which the kernels of any number of zips share.

    A process forked from this one has none of its threads: calls there run on their callers'.

    Args:
        folder: an unpacked zip; its library starts the threads.
        threads: number of threads with the caller's.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"cannot open a pool of {threads} threads; expected at least 1")
        library, native, _ = _opened(folder)
        start = _function(library, f"{native['prefix']}_pool_open", ctypes.c_int32)
        close = _function(library, f"{native['prefix']}_pool_close", ctypes.c_void_p)
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


def open_library(
    folder: Path, threads: int | None = None, pool: LibraryPool | None = None
) -> Runner:
    """Return a Runner that calls `libkernel.so` in a folder.

    Args:
        threads: the most threads that a call starts and ends; as tuned unless given.
        pool: running threads that calls use instead.

    Raises:
        RuntimeError: there is no library, or this processor lacks a feature that its code needs.
    """
    library, native, facts = _opened(folder)
    prefix = native["prefix"]
    given = [_tensor(one, "weight" if one["constant"] else "input") for one in facts["inputs"]]
    gives = [_tensor(one, "output") for one in facts["outputs"]]
    count = facts["target"]["threads"] if threads is None else threads
    sizes = {".workspace": native["workspace_bytes"]}
    if pool is None:
        run = _function(library, f"{prefix}_run_threads", ctypes.c_void_p, ctypes.c_int32)
        launch = _caller(run, count)
        ahead = _caller(_function(library, f"{prefix}_ahead", ctypes.c_void_p))
    else:
        packed = native["packed_bytes"]
        sizes = {".packed": packed, ".scratch": native["workspace_bytes"] - packed}
        run = _function(library, f"{prefix}_run_packed", ctypes.c_void_p, ctypes.c_void_p)
        launch = _caller(run, pool)
        ahead = _caller(_function(library, f"{prefix}_pack", ctypes.c_void_p))
    memory = [TensorSpec(name, "uint8", (size,), "scratch") for name, size in sizes.items()]
    return Runner(
        tensors=(*given, *gives, *memory),
        inputs=[tensor.name for tensor in given],
        outputs=[tensor.name for tensor in gives],
        constants={},
        launch=launch,
        ahead=ahead,
        reference=_no_reference,
        test=Test(native["span"][0], native["span"][1], (), 0),
        flop=native["flop"],
        raced=Raced(native["latency_s"]["min"], native["rate_unit"]),
    )


def _opened(folder: Path) -> tuple[ctypes.CDLL, Any, Any]:
    """Return the library of a folder, its part of the manifest, and the manifest."""
    facts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    native, path = facts["native"], folder / "libkernel.so"
    if not path.exists():
        raise RuntimeError(f"no libkernel.so in {folder}: {native['note']}")
    library = ctypes.CDLL(str(path))
    if not getattr(library, f"{native['prefix']}_supported")():
        needed = ", ".join(native["features"])
        raise RuntimeError(f"this processor cannot run the kernel, which needs {needed}")
    return library, native, facts


def _tensor(facts: Any, role: str) -> TensorSpec:
    return TensorSpec(facts["name"], facts["dtype"], tuple(facts["shape"]), role)


def _function(library: ctypes.CDLL, symbol: str, *kinds: Any) -> Any:
    """Return `void symbol(kinds)`."""
    function = getattr(library, symbol)
    function.restype, function.argtypes = None, kinds
    return function


def _caller(function: Any, *more: Any) -> Callable[..., None]:
    """Return a function of arrays that calls `function(args *, more)`."""

    def call(*arrays: Array) -> None:
        addresses = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        function(addresses, *more)

    return call


def _no_reference(_inputs: Sequence[Array], _constants: Sequence[Array]) -> tuple[Array, ...]:
    raise RuntimeError("the reference is in kernel.py: python kernel.py --selftest")
