"""The Dag of a log's workload key, and the numbers that a log gives to the stages of a Dag."""

import heapq
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, Final

from ansorpy import te, topi
from ansorpy.ansor_log.line import Argument, LogLine
from ansorpy.errors import RecordError, SpecError, shown
from ansorpy.expr.expr import Expr, Read, children
from ansorpy.te.dag import Compute, Dag, Node
from ansorpy.te.tensor import elementwise
from ansorpy.topi import workloads

_LAYOUT: Final = ("n", "f", "h", "w")
# Exceptions that arguments of a hostile key may raise in a function of `topi.workloads`.
WRONG_ARGUMENTS: Final = (
    SpecError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


def matmul_add(n: int, k: int, m: int, dtype: str = "float32") -> Dag:
    """out[n, m] = A[n, k] * B[k, m] + C[n, m]: the workload of Ansor's tutorial for CPUs."""
    a, b, c = (
        te.placeholder(shape, name, dtype)
        for name, shape in (("A", (n, k)), ("B", (k, m)), ("C", (n, m)))
    )
    product = topi.matmul(a, b, name="matmul")
    out = elementwise(lambda x, y: x + y, product, c, name="out", axes="ij")
    return te.dag(out, "matmul_add", inputs=(a, b, c))


def conv2d_layer(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int,
    stride: tuple[int, int], padding: tuple[int, int],
) -> Dag:  # fmt: skip
    """relu(conv2d(data[n, ci, h, w], kernel[co, ci, kh, kw]) + bias[1, co, 1, 1])."""
    data = te.placeholder((n, ci, h, w), "data")
    kernel = te.placeholder((co, ci, kh, kw), "kernel")
    bias = te.placeholder((1, co, 1, 1), "bias")
    convolved = topi.conv2d(data, kernel, stride=stride, padding=padding, name="conv")
    biased = elementwise(lambda x, y: x + y, convolved, bias, name="biased", axes=_LAYOUT)
    out = topi.relu(biased, name="relu")
    return te.dag(out, "conv2d_layer", inputs=(data, kernel, bias))


# Functions that logs of Ansor's tutorials and tests name in their keys.
FUNCTIONS: Final[Mapping[str, Callable[..., Dag]]] = MappingProxyType(
    {
        "matmul_add": matmul_add,
        "conv2d_layer": conv2d_layer,
        "matmul_auto_scheduler_test": workloads.matmul,
    }
)


def dag_of(line: LogLine, dag: Dag | None = None, workload: str = "") -> Dag:
    """Return the Dag that a line schedules.

    Args:
        dag: the Dag that the user gives; its shapes must be those of the key.
        workload: a function of `topi.workloads`, which takes the arguments of the key.

    Raises:
        RecordError: the key is of another Dag, or the function does not take its arguments.
        SpecError: no function has the name.
    """
    if dag is not None:
        if line.is_digest:
            _check_shapes(line, dag)
        return dag
    function = function_of(workload) if workload else FUNCTIONS.get(line.name)
    if function is None:
        raise RecordError(
            f"cannot know the computation of workload {shown(line.name)!r} because a log holds no"
            " Dag; expected a Dag, or a registered workload by name"
        )
    try:
        signature(function).bind(*line.arguments)
        return function(*line.arguments)
    except WRONG_ARGUMENTS as error:
        raise RecordError(
            f"cannot make workload {workload or line.name} of the arguments"
            f" {shown(line.arguments)} because of {shown(error, 200)}; expected"
            f" {', '.join(_parameters(function))}"
        ) from error


def function_of(name: str) -> Callable[..., Dag]:
    """Return the function that makes the Dags of a registered workload.

    Raises:
        SpecError: no function has the name.
    """
    known: dict[str, Callable[..., Dag]] = {
        key: value
        for key, value in vars(workloads).items()
        if callable(value) and not key.startswith("_") and _makes_a_dag(value)
    } | dict(FUNCTIONS)
    if name not in known:
        raise SpecError(
            f"cannot find workload {shown(name)!r} because it is not registered; expected one of"
            f" {', '.join(sorted(known))}"
        )
    return known[name]


def _makes_a_dag(function: Any) -> bool:
    return getattr(function, "__annotations__", {}).get("return") is Dag


def _parameters(function: Callable[..., Dag]) -> Iterator[str]:
    for name, one in signature(function).parameters.items():
        yield name if one.default is Parameter.empty else f"[{name}]"


def _check_shapes(line: LogLine, dag: Dag) -> None:
    """Refuse a Dag whose inputs and outputs, in this order, have other extents than the key."""
    tensors = (*dag.placeholders, *(dag.node(name) for name in dag.outputs))
    extents: tuple[Argument, ...] = tuple(extent for node in tensors for extent in node.shape)
    if line.arguments != extents:
        raise RecordError(
            f"cannot replay the line on {dag.name} because the extents of its inputs and outputs"
            f" are {shown(line.arguments)}; expected {shown(extents)}"
        )


def stage_order(dag: Dag) -> tuple[str, ...]:
    """Return the names of the nodes in the order in which a log numbers their stages.

    Nodes are visited from the last output towards the inputs, the last producer of a node first.
    A node becomes a stage after all its producers; of several that may, the last visited one.

    Source: TopoSortOps of TVM v0.9.0, src/auto_scheduler/compute_dag.cc.
    """
    producers = {node.name: _producers(node) for node in dag.nodes}
    visited: dict[str, int] = {}
    stack = [*(node.name for node in dag.placeholders), *dag.outputs]
    while stack:
        name = stack.pop()
        if name not in visited:
            visited[name] = len(visited)
            stack += producers[name]
    missing = {name: len(producers[name]) for name in visited}
    readers: dict[str, list[str]] = {name: [] for name in visited}
    for name in visited:
        for producer in producers[name]:
            readers[producer].append(name)
    ready = [(-visited[name], name) for name, count in missing.items() if count == 0]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        _, name = heapq.heappop(ready)
        order.append(name)
        for reader in readers[name]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(ready, (-visited[reader], reader))
    return tuple(order)


def _producers(node: Node) -> tuple[str, ...]:
    """Return the tensors that a node reads, in order of appearance, those of indices first."""
    if not isinstance(node, Compute):
        return ()
    parts = (*node.body, *(() if node.start is None else (node.start,)))
    return tuple(dict.fromkeys(name for part in parts for name in _reads(part)))


def _reads(expr: Expr) -> Iterator[str]:
    for part in children(expr):
        yield from _reads(part)
    if isinstance(expr, Read):
        yield expr.tensor
