"""Call the exported library of a kernel zip from Python: ctypes and numpy, no numba.

The texts of `harness.py`, `library_calls.py` and this file, each below its marker line, are copied
into the zip as `native.py`.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ansorpy.artifact.harness import Array, DimSpec, Raced, Runner, TensorSpec, Test, reference_of
from ansorpy.artifact.library_calls import Pool, addresses_of, function_of

# --- native: the same in every kernel zip ---


POOLS = "ansorpy_shared_pools"  # a module in sys.modules


class LibraryPool(Pool):
    """A running pool of threads, which the kernels of any number of zips share.

    A process forked from this one has none of its threads: calls there run on their callers'.

    Args:
        folder: an unpacked zip; its library starts the threads.
        threads: number of threads with the caller's.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        library, native, _ = _opened(folder)
        super().__init__(library, native["prefix"], threads)


class LibraryRunner(Runner):
    """A Runner whose phases are functions of a library: `run` takes a pool, too."""

    def __init__(self, run: Any, pack: Any, pool: "Pool | SharedPool | None", **rest: Any) -> None:
        super().__init__(launch=self._launch, ahead=lambda *a: pack(addresses_of(a)), **rest)
        self._run, self._pool = run, pool

    def bound(self, arrays: Sequence[Array]) -> Callable[[], None]:
        """Return a call without arguments on these arrays, whose addresses are looked up once."""
        addresses, run, pool = addresses_of(arrays), self._run, self._pool

        def call(_alive: object = arrays) -> None:
            run(addresses, pool)

        return call

    def _launch(self, *arrays: Array) -> None:
        self._run(addresses_of(arrays), self._pool)


class SharedPool:
    """The pool of this process for a number of threads, which the first call starts.

    The kernels of all zips call on it: a module that has no file holds the pools. A forked process
    starts a pool of its own.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder, self._threads = folder, threads
        self._pools = sys.modules.setdefault(POOLS, ModuleType(POOLS)).__dict__

    @property
    def _as_parameter_(self) -> int | None:
        """The pool as ctypes passes it."""
        key = f"{self._threads} threads of {os.getpid()}"
        if key not in self._pools:  # two threads may start a pool each: one pool is dropped
            self._pools.setdefault(key, LibraryPool(self._folder, self._threads))
        address: int | None = self._pools[key].address
        return address


def open_library(
    folder: Path, threads: int | None = None, pool: LibraryPool | None = None
) -> Runner:
    """Return a Runner that calls `libkernel.so` in a folder.

    Args:
        threads: number of threads with the caller's, for the pool that all kernels of this process
            share; as tuned unless given.
        pool: another pool.

    Raises:
        RuntimeError: there is no library, or this processor lacks a feature that its code needs.
    """
    library, native, facts = _opened(folder)
    prefix = native["prefix"]
    dims = [DimSpec(**one) for one in facts.get("dims", ())]
    given = [_tensor(one, "weight" if one["constant"] else "input") for one in facts["inputs"]]
    gives = [_tensor(one, "output") for one in facts["outputs"]]
    count = facts["target"]["threads"] if threads is None else threads
    shared = pool or (SharedPool(folder, count) if count > 1 else None)
    packed = native["packed_bytes"]
    sizes = {".packed": packed, ".scratch": native["workspace_bytes"] - packed}
    memory = [TensorSpec(name, "uint8", (size,), "scratch") for name, size in sizes.items()]
    if dims:
        memory.insert(0, TensorSpec("~sizes", "int64", (len(dims),), "sizes"))
    return LibraryRunner(
        function_of(library, f"{prefix}_run_packed", ctypes.c_void_p, ctypes.c_void_p),
        function_of(library, f"{prefix}_pack", ctypes.c_void_p),
        shared,
        tensors=(*given, *gives, *memory),
        inputs=[tensor.name for tensor in given],
        outputs=[tensor.name for tensor in gives],
        constants={},
        reference=lambda inputs, _: reference_of(folder)(inputs, _constants(folder)),
        test=_test(facts),
        flop=native["flop"],
        raced=Raced(native["latency_s"]["min"], native["rate_unit"]),
        dims=dims,
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
    span, dims = facts.get("span"), tuple(facts.get("dims", ()))
    return TensorSpec(facts["name"], facts["dtype"], tuple(facts["shape"]), role, span, dims)


def _constants(folder: Path) -> list[Array]:
    """Return the constant tensors for the reference; the library has its own copy."""
    path = folder / "constants.npz"
    if not path.exists():
        return []
    with np.load(path, allow_pickle=False) as stored:
        return [stored[f"c{number}"] for number in range(len(stored.files))]


def _test(facts: Any) -> Test:
    """Return the inputs and the tolerances of the self-test by a manifest."""
    told = facts["verification"]
    low, high = told["inputs"]
    return Test(low, high, tuple(told["tolerances"]), told["exact_on_integers_up_to"])
