"""The phase loops of a delivered `kernel.py`, as numba functions of arrays."""

from collections.abc import Sequence
from typing import Final

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.runtime.phase_loop import PhaseLoop, ahead_loop, timed_loop

INDENT: Final = "    "


def launchers_text(phases: Sequence[PhaseInfo], buffers: int, threads: int) -> str:
    """Return `launch` and `ahead`, functions of as many arrays as there are buffers.

    Tasks of timed phases go to numba's threads if there are several of both.
    """
    return "\n\n\n".join(
        [
            _launcher("launch", "Run the timed phases on arrays.",
                      timed_loop(phases), buffers, threads),
            _launcher("ahead", "Run the phases that depend on constants only: once.",
                      ahead_loop(phases), buffers, threads),
        ]
    )  # fmt: skip


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
