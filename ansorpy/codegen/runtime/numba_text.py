"""The phase loops of a delivered `kernel.py`, as numba functions of arrays."""

from collections.abc import Sequence
from typing import Final

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.runtime.phase_loop import PhaseLoop, ahead_loop, timed_loop

INDENT: Final = "    "


def launchers_text(phases: Sequence[PhaseInfo], buffers: int, threads: int, dims: int = 0) -> str:
    """Return `launch` and `ahead`, functions of as many arrays as there are buffers.

    Tasks of timed phases go to numba's threads if there are several of both. With dims, the last
    buffer has their sizes in a call, which phases take as numbers behind the addresses.
    """
    return "\n\n\n".join(
        [
            _launcher("launch", "Run the timed phases on arrays.",
                      timed_loop(phases), buffers, threads, dims),
            _launcher("ahead", "Run the phases that depend on constants only: once.",
                      ahead_loop(phases), buffers, threads, dims),
        ]
    )  # fmt: skip


def _launcher(name: str, doc: str, loop: PhaseLoop, buffers: int, threads: int, dims: int) -> str:
    arrays = [f"b{k}" for k in range(buffers)]
    addressed = arrays[:-1] if dims else arrays
    places = ", ".join(f"a{k}" for k in range(len(addressed)))
    given = ", ".join([places, *(f"{arrays[-1]}[{k}]" for k in range(dims))])
    parallel = min(threads, loop.most_threads) > 1
    lines = [f"@njit(nogil=True, cache=True{', parallel=True' if parallel else ''})"]
    lines += [f"def {name}({', '.join(arrays)}):", f'{INDENT}"""{doc}"""']
    if loop.phases:
        lines.append(f"{INDENT}{places} = ({', '.join(f'address({each})' for each in addressed)})")
    for info in loop.phases:
        counter = "prange" if parallel and info.tasks > 1 else "range"
        lines.append(f"{INDENT}for task in {counter}({info.tasks}):")
        lines.append(f"{INDENT * 2}{info.name}({given}, task)")
    return "\n".join(lines)
