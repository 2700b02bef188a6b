"""Calls the exported library of a kernel zip from Python: ctypes and numpy, no numba.

The text of this file, below its marker line, is copied into the zip as `native.py`, behind that
of `harness.py`.
"""

import ctypes
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansorpy.artifact.harness import Array, Raced, Runner, Tensor, Test

# --- native: the same in every kernel zip ---


def open_library(folder: Path, threads: int | None = None) -> Runner:
    """Return what calls `libkernel.so` in a folder, on at most `threads` threads (None: as tuned).

    Raises:
        RuntimeError: there is none, or this processor lacks a feature that its code needs.
    """
    facts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    native, path = facts["native"], folder / "libkernel.so"
    if not path.exists():
        raise RuntimeError(f"no libkernel.so in {folder}: {native['note']}")
    library, prefix = ctypes.CDLL(str(path)), native["prefix"]
    if not getattr(library, f"{prefix}_supported")():
        needed = ", ".join(native["features"])
        raise RuntimeError(f"this processor cannot run the kernel, which needs {needed}")
    given = [_tensor(one, "weight" if one["constant"] else "input") for one in facts["inputs"]]
    gives = [_tensor(one, "output") for one in facts["outputs"]]
    workspace = Tensor(".workspace", "uint8", (native["workspace_bytes"],), "scratch")
    count = facts["target"]["threads"] if threads is None else threads
    return Runner(
        tensors=(*given, *gives, workspace),
        inputs=[tensor.name for tensor in given],
        outputs=[tensor.name for tensor in gives],
        constants={},
        launch=_caller(library, f"{prefix}_run_threads", count),
        ahead=_caller(library, f"{prefix}_ahead"),
        reference=_no_reference,
        test=Test(native["span"][0], native["span"][1], (), 0),
        flop=native["flop"],
        raced=Raced(native["latency_s"]["min"], native["rate_unit"]),
    )


def _tensor(facts: Any, role: str) -> Tensor:
    return Tensor(facts["name"], facts["dtype"], tuple(facts["shape"]), role)


def _caller(library: ctypes.CDLL, symbol: str, *more: int) -> Callable[..., None]:
    """Return a function of arrays that calls `void symbol(args *, more)`."""
    function = getattr(library, symbol)
    function.restype = None
    function.argtypes = (ctypes.c_void_p, *(ctypes.c_int32 for _ in more))

    def call(*arrays: Array) -> None:
        addresses = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        function(addresses, *more)

    return call


def _no_reference(_inputs: Sequence[Array], _constants: Sequence[Array]) -> tuple[Array, ...]:
    raise RuntimeError("the reference is in kernel.py: python kernel.py --selftest")
