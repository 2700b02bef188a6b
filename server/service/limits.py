"""Limits of a request, beyond the limits of a Dag (ansorpy.te.limits)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansorpy.errors import SpecError
from ansorpy.te.dag import Dag
from ansorpy.tuner.rounds.preflight import dag_bytes


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Inclusive limits of one request; the schema has the limits of its options."""

    tasks: int = 64
    parts: int = 4096  # objects of the JSON form; parsing and checking one takes about 25 us
    tensor_bytes: int = 1 << 28  # bytes of all tensors of one task
    model_bytes: int = 1 << 30  # bytes of the weights that a graph leaves out


def check_parts(dags: Sequence[Any], limits: RequestLimits) -> None:
    """Raise SpecError for too many JSON objects, before the Dags are parsed."""
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
            raise SpecError(
                f"cannot take dags because of too many objects; expected at most {limits.parts}"
            )


def check_dags(dags: Sequence[Dag], limits: RequestLimits) -> None:
    """Raise SpecError for too many tasks or too large tensors."""
    if len(dags) > limits.tasks:
        raise SpecError(
            f"cannot take {len(dags)} tasks because of the limit of a request; expected at most"
            f" {limits.tasks}"
        )
    for number, dag in enumerate(dags):
        size_bytes = dag_bytes(dag)
        if size_bytes > limits.tensor_bytes:
            raise SpecError(
                f"cannot take task {number} because its tensors have {size_bytes} bytes; expected"
                f" at most {limits.tensor_bytes}"
            )
