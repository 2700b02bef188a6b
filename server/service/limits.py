"""How large a request may be, beyond what holds for every Dag (ansorpy.te.limits)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.te.dag import Compute, Dag

# What a worker needs to check a task, in bytes per byte of its tensors: the references in float64,
# their error bounds, several sets of inputs (ADR-0054; tests/server/test_memory.py).
CHECKING_TIMES: Final = 24


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may ask for; all inclusive."""

    tasks: int = 64
    parts: int = 4096  # objects of the JSON form; reading and checking one takes about 25 us
    tensor_bytes: int = 1 << 28  # of all tensors of one task
    trials: int = 100_000
    seconds: float = 86_400.0


def check_parts(dags: Sequence[Any], limits: RequestLimits) -> None:
    """Refuse a document of too many parts before any of it is understood.

    Raises:
        SpecError: names the limit.
    """
    count = 0
    stack: list[Any] = list(dags)
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            count += 1
            stack += found.values()
        elif isinstance(found, list):
            stack += found
        if count > limits.parts:
            raise SpecError(f"dags: more than {limits.parts} objects")


def check_request(
    dags: Sequence[Dag], trials: int, seconds: float | None, limits: RequestLimits
) -> None:
    """Refuse what is too large.

    Raises:
        SpecError: names the place, the value and the limit.
    """
    if len(dags) > limits.tasks:
        raise SpecError(f"{len(dags)} tasks, limit {limits.tasks}")
    if trials > limits.trials:
        raise SpecError(f"budget.trials {trials}, limit {limits.trials}")
    if seconds is not None and seconds > limits.seconds:
        raise SpecError(f"budget.seconds {seconds}, limit {limits.seconds}")
    for number, dag in enumerate(dags):
        size_bytes = tensor_bytes(dag)
        if size_bytes > limits.tensor_bytes:
            raise SpecError(
                f"task {number}: {size_bytes} bytes of tensors, limit {limits.tensor_bytes}"
            )


def tensor_bytes(dag: Dag) -> int:
    """Return the bytes of all tensors of a Dag, inputs and intermediates too; an exact integer."""
    return sum(
        prod(node.shape) * SIZE_BYTES[dtype]
        for node in dag.nodes
        for dtype in (node.dtypes if isinstance(node, Compute) else (node.dtype,))
    )
