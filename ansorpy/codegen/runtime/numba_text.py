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
    sizes = ", ".join(f"{arrays[-1]}[{k}]" for k in range(dims))
    for info in loop.phases:
        several, call = parallel and info.tasks > 1, f"{info.name}({given}, task)"
        if not info.sized:
            lines += _for("prange" if several else "range", str(info.tasks), call, 1)
            continue
        lines.append(f"{INDENT}tasks = {info.counter}({sizes})")
        if several:  # threads do not start for one task, or for none
            lines += [f"{INDENT}if tasks > 1:", *_for("prange", "tasks", call, 2), f"{INDENT}else:"]
        lines += _for("range", "tasks", call, 1 + several)
    return "\n".join(lines)


def _for(counter: str, tasks: str, call: str, depth: int) -> list[str]:
    """Return the loop over the tasks of a phase."""
    return [
        f"{INDENT * depth}for task in {counter}({tasks}):",
        f"{INDENT * (depth + 1)}{call}",
    ]
