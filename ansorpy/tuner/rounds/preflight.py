"""The preflight of a search: memory for its tensors, and one kernel that is built and right.

A first answer, or a trusted trial on record, is such a kernel; only without either is the untuned
kernel built and checked.

Source: docs/adr/0163-reasons.md.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Final

from ansorpy.errors import LoweringError, RunError, SpecError
from ansorpy.events import Preflight
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.measure.pool import Memory
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.records import copies_of
from ansorpy.target import CpuTarget
from ansorpy.te.dag import Compute, Dag, Node
from ansorpy.te.dims import at_sizes, dims_of, too_large
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.tasks.task import Task
from ansorpy.units import size

# Memory of a machine to check a task, per byte of its tensors: references in float64, their error
# bounds, several sets of inputs (ADR-0039; tests/server/test_memory.py).
CHECKING_TIMES: Final = 24
LEAST_TIMES: Final = 6  # without it no check ends: reference and bound in float64, inputs, outputs
SLOW: Final = ("build-timeout", "run-timeout")  # a slow untuned kernel proves no broken toolchain


def check_memory(tasks: Sequence[Task], memory: Memory) -> None:
    """Refuse tasks whose tensors exceed the memory of the machine or of one candidate.

    Raises:
        SpecError: names the first such task, its need and the limit.
    """
    limit_bytes, free_bytes = memory.candidate_bytes, memory.free_bytes
    for task in tasks:
        copies = copies_of(task.key)
        arguments = _argument_bytes(task.dag, copies)
        most = limit_bytes if isinstance(task.target, CpuTarget) else None
        if most is not None and arguments > most:
            where = f" in {copies} copies" if copies > 1 else ""
            amount = partial(_argument_bytes, copies=copies)
            _check_dims(task.dag, amount, most, f"inputs and outputs{where}")
            raise SpecError(
                f"cannot tune {task.name!r} because its inputs and outputs take {size(arguments)}"
                f"{where}; expected at most {size(most)}, the memory of one candidate"
            )
        need_bytes = _checked_bytes(task.dag)
        if free_bytes is not None and need_bytes > free_bytes:
            _check_dims(task.dag, _checked_bytes, free_bytes, "the check of its tensors")
            raise SpecError(
                f"cannot tune {task.name!r} because the check of its tensors takes at least"
                f" {size(need_bytes)} of memory; expected at most {size(free_bytes)}, which are"
                " free"
            )


def _check_dims(dag: Dag, amount: Callable[[Dag], int], most: int, of: str) -> None:
    """Refuse the largest sizes of dims; the memory of a computation without dims is told alone."""
    dims = dims_of(dag)
    if dims:
        raise too_large(
            f"cannot tune {dag.name!r}", dims, lambda sizes: amount(at_sizes(dag, sizes)), most,
            lambda size_bytes: f"{size(size_bytes)} for {of}",
        )  # fmt: skip


def _argument_bytes(dag: Dag, copies: int) -> int:
    """Return the size of all inputs and outputs of copies of a kernel."""
    return copies * sum(map(_node_bytes, (*dag.placeholders, *map(dag.node, dag.outputs))))


def _checked_bytes(dag: Dag) -> int:
    """Return the least memory in which the check of a Dag ends."""
    return LEAST_TIMES * dag_bytes(dag)


def check_kernel(
    tasks: Sequence[Task], pools: Pools, free_bytes: int | None, clock: Callable[[], float]
) -> Iterator[Preflight]:
    """Yield the proof that this machine builds, runs and checks kernels.

    The kernel computes the smallest task. Of estimated candidates, which are not run, there is
    no preflight, nor of a schedule of the user, which is the only candidate, nor of outcomes that
    are repeated from records.

    Raises:
        RunError: the untuned kernel cannot be built, crashes or is wrong.
    """
    free = (one for one in tasks if not (one.identity.estimated or one.space.fixed))
    searched = [one for one in free if not one.queue.recorded]
    if not searched:
        return
    proved = next((one for one in searched if one.has_answer), None)
    task = proved or min(searched, key=lambda one: one.identity.flop)
    need_bytes = CHECKING_TIMES * max(dag_bytes(one.dag) for one in tasks)
    if proved is not None:
        by = "the first answer" if task.queue.first is not None else "a trial on record"
        yield Preflight(task.name, by, 0.0, need_bytes, free_bytes)
        return
    begin_s = clock()
    plan = naive(task.dag, task.target)
    try:
        program = bind(plan, plan.smallest_row, task.target)
    except LoweringError:  # some targets have no naive loops; a candidate may have
        return
    failed = pools.of(task).verify(program)
    if failed is not None and failed.kind not in SLOW:
        raise RunError(
            f"cannot search kernels of {task.name!r} because its untuned kernel fails"
            f" ({failed.kind}: {failed.message}); expected a kernel that is built, runs and is"
            " right: `ansorpy doctor` checks this machine"
        )
    by = "the untuned kernel" if failed is None else f"nothing in time ({failed.kind})"
    yield Preflight(task.name, by, clock() - begin_s, need_bytes, free_bytes)


def dag_bytes(dag: Dag) -> int:
    """Return the exact size of all tensors of a Dag, including inputs and intermediates."""
    return sum(map(_node_bytes, dag.nodes))


def _node_bytes(node: Node) -> int:
    dtypes = node.dtypes if isinstance(node, Compute) else (node.dtype,)
    return sum(prod(node.shape) * SIZE_BYTES[dtype] for dtype in dtypes)
