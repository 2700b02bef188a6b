"""The phase loops of a delivered `kernel.py`, as numba functions of arrays."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.runtime.phase_loop import PhaseLoop, ahead_loop, timed_loop
from ansorpy.loopir.nodes import Buffer

INDENT: Final = "    "


def launchers_text(phases: Sequence[PhaseInfo], buffers: Sequence[Buffer], threads: int) -> str:
    """Return `launch` and `ahead`, and the functions that make arrays for them.

    Tasks of timed phases go to numba's threads if there are several of both.
    """
    kinds = [
        f"({tuple(int(str(n)) for n in b.shape)!r}, {storage_dtype(b.dtype)!r})" for b in buffers
    ]
    listed = "\n".join(f"{INDENT}{kind}," for kind in kinds).replace("'", '"')
    return "\n\n\n".join(
        [
            _launcher("launch", "Run the timed phases on arrays.",
                      timed_loop(phases), len(buffers), threads),
            _launcher("ahead", "Run the phases that depend on constants only: once.",
                      ahead_loop(phases), len(buffers), threads),
            f"BUFFERS = (\n{listed}\n)",
            _TAIL,
        ]
    )  # fmt: skip


def storage_dtype(dtype: str) -> str:
    """Return the NumPy dtype of an array that holds `dtype`; 16-bit floats travel as their bits."""
    return "uint16" if dtype in ("bfloat16", "float16") else np.dtype(dtype).name


def _launcher(name: str, doc: str, loop: PhaseLoop, buffers: int, threads: int) -> str:
    arrays = [f"b{k}" for k in range(buffers)]
    places = ", ".join(f"a{k}" for k in range(buffers))
    parallel = min(threads, loop.most_threads) > 1
    lines = [f"@njit(nogil=True, cache=True{', parallel=True' if parallel else ''})"]
    lines += [f"def {name}({', '.join(arrays)}):", f'{INDENT}"""{doc}"""']
    if loop.phases:
        lines.append(f"{INDENT}{places} = ({', '.join(f'address({each})' for each in arrays)})")
    for info in loop.phases:
        counter = "prange" if parallel and info.tasks > 1 else "range"
        lines.append(f"{INDENT}for task in {counter}({info.tasks}):")
        lines.append(f"{INDENT * 2}{info.name}({places}, task)")
    return "\n".join(lines)


_TAIL: Final = '''def empty():
    """Return one 64-byte aligned array for every buffer."""
    return tuple(aligned(shape, dtype) for shape, dtype in BUFFERS)


def aligned(shape, dtype):
    """Return an array whose data starts on a 64-byte border."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def kernel(*buffers):
    """Run everything, the work on constants included, on arrays as `empty` makes them."""
    ahead(*buffers)
    launch(*buffers)'''
