"""Limits of a request, beyond the limits of a Dag (ansorpy.te.limits)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ansorpy.errors import SpecError
from ansorpy.te.dag import Dag
from ansorpy.te.dims import at_sizes, dims_of, too_large
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
        size_bytes, dims = dag_bytes(dag), dims_of(dag)
        if size_bytes > limits.tensor_bytes and dims:
            raise too_large(
                f"cannot take task {number}", dims, partial(_bytes_at, dag), limits.tensor_bytes,
                "{} bytes of tensors".format,
            )  # fmt: skip
        if size_bytes > limits.tensor_bytes:
            raise SpecError(
                f"cannot take task {number} because its tensors have {size_bytes} bytes; expected"
                f" at most {limits.tensor_bytes}"
            )


def _bytes_at(dag: Dag, sizes: Mapping[str, int]) -> int:
    return dag_bytes(at_sizes(dag, sizes))
