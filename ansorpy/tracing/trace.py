"""A trace: a function is called once with tracers, and its graph is the result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

import numpy as np

from ansorpy import te
from ansorpy.errors import AnsorError, TraceError
from ansorpy.graph.graph import Array, Graph
from ansorpy.graph.interp import reference, run
from ansorpy.te.dag import Dag
from ansorpy.te.tensor import Tensor
from ansorpy.tracing import functions as _functions  # noqa: F401  it fills the table of rules
from ansorpy.tracing.places import Unsupported
from ansorpy.tracing.recorder import TraceRecorder, check_dtype
from ansorpy.tracing.tracer import Tracer
from ansorpy.tracing.trees import dtype_name, is_array, mapped

TE_MODULES: Final = ("ansorpy.te", "ansorpy.topi")


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """The place of an output in the result of a function."""

    number: int


@dataclass(frozen=True, slots=True)
class Traced:
    """A function for one signature.

    Args:
        meaning: its graph; the Dag of a te function.
        result: the tree that the function returns, with an OutputPlace in place of each array.
        inputs: the names of its arrays, in order.
    """

    name: str
    meaning: Graph | Dag
    result: Any
    inputs: tuple[str, ...]

    def evaluate(self, arrays: Sequence[Array]) -> Any:
        """Return the result by the interpreter: float64 at each node, then its dtype."""
        given = dict(zip(self.inputs, arrays, strict=True))
        if isinstance(self.meaning, Dag):
            return self.filled(reference(self.meaning, given))
        return self.filled(list(run(self.meaning, given).values()))

    def filled(self, outputs: Sequence[Any]) -> Any:
        """Return the result with arrays; those without axes are numbers, as of NumPy."""

        def leaf(value: Any, _: str) -> Any:
            if not isinstance(value, OutputPlace):
                return value.copy() if isinstance(value, np.ndarray) else value
            found = outputs[value.number]
            return found[()] if isinstance(found, np.ndarray) and not found.shape else found

        return mapped(self.result, "", leaf)

    def __str__(self) -> str:
        """Return the nodes of the graph, or the Dag, for people."""
        if isinstance(self.meaning, Dag):
            return str(self.meaning)
        graph = self.meaning
        lines = [f"{one}: {_shown(graph, one)}" for one in graph.inputs]
        lines += [f"{one}: {_shown(graph, one)} constant" for one in graph.weights]
        for node in graph.nodes:
            attrs = "".join(f", {key}={value}" for key, value in node.attrs.items())
            out = node.outputs[0]
            lines.append(
                f"{out} = {node.op}({', '.join(node.inputs)}{attrs}): {_shown(graph, out)}"
            )
        return "\n".join([*lines, *(f"return {one.value}" for one in graph.outputs)])


def _shown(graph: Graph, name: str) -> str:
    value = graph.values[name]
    return f"{value.dtype}{list(value.shape)}"


def trace(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> Traced:
    """Return the graph of a function of NumPy names for the shapes and dtypes of arguments.

    Arrays that it reads and does not take become constants, and are made read-only: a later write
    to one of them raises.

    Args:
        arguments: trees by name, in order.

    Raises:
        TraceError: names the operation, the file and the line.
    """
    rec, inputs = TraceRecorder(name), []

    def leaf(value: Any, place: str) -> Any:
        if not is_array(value):
            return value
        inputs.append(place.replace(".", "_"))
        if 0 in value.shape:
            raise TraceError(
                f"cannot trace {name} because argument {place} has the shape {list(value.shape)};"
                " expected some elements"
            )
        try:
            kind = np.dtype(dtype_name(value))
            check_dtype(kind)
        except (TypeError, Unsupported) as error:
            raise TraceError(
                f"cannot trace {name} because argument {place} is {dtype_name(value)[:40]}"
                " without kernels; expected float16, float32, float64, integers, or bool"
            ) from error
        return rec.input(inputs[-1], [int(one) for one in value.shape], kind)

    given = {key: mapped(value, key, leaf) for key, value in arguments.items()}
    returned = function(**given)
    count = 0

    def output(value: Any, _: str) -> Any:
        nonlocal count
        if not isinstance(value, Tracer):
            return value
        rec.builder.output(f"out{count}" if count else "out", value.value)
        count += 1
        return OutputPlace(count - 1)

    result = mapped(returned, "", output)
    if not count:
        raise TraceError(
            f"cannot trace {name} because its result, of type {type(returned).__name__}, depends"
            " on no argument; expected arrays computed from arguments"
        )
    graph = rec.builder.graph()
    for array in rec.captured:
        _freeze(array)
    return Traced(name, graph, result, tuple(inputs))


def _freeze(array: Array) -> None:
    """Make an array read-only, and the arrays that it is a view of."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base.flags.writeable = False
        base = base.base


def trace_te(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> Traced:
    """Return the Dag of a te function: it takes tensors, and returns a tensor or several.

    Raises:
        TraceError: the function raises, or returns no tensors.
    """
    inputs: list[str] = []

    def leaf(value: Any, place: str) -> Any:
        if not is_array(value):
            return value
        inputs.append(place.replace(".", "_"))
        return te.placeholder(tuple(value.shape), inputs[-1], dtype_name(value))

    given = {key: mapped(value, key, leaf) for key, value in arguments.items()}
    try:
        returned = function(**given)
        tensors: list[Tensor] = [returned] if isinstance(returned, Tensor) else list(returned)
        dag = te.dag(tensors)
    except TraceError:
        raise
    except (AnsorError, TypeError) as error:
        raise TraceError(
            f"cannot trace the te function {name} because {error}; expected tensors of ansorpy.te"
        ) from error
    read = tuple(one.name for one in dag.placeholders)
    if set(read) != set(inputs):
        unused = ", ".join(sorted(set(inputs) - set(read))) or "an array that is no argument"
        raise TraceError(
            f"cannot trace the te function {name} because it reads {', '.join(read)} and not"
            f" {unused}; expected a use of each array"
        )
    slots = [OutputPlace(n) for n in range(len(tensors))]
    tree = slots[0] if isinstance(returned, Tensor) else tuple(slots)
    return Traced(name, dag, tree, read)


def is_te(function: Callable[..., Any]) -> bool:
    """Return True for a function that names ansorpy.te or ansorpy.topi, or a function of these."""
    names, scope = _names(function.__code__), function.__globals__
    for name in names:
        value = scope.get(name)
        home = getattr(value, "__name__", "") if name in scope else ""
        module = getattr(value, "__module__", None) or ""
        if home.startswith(TE_MODULES) or str(module).startswith(TE_MODULES):
            return True
        if home == "ansorpy" and {"te", "topi"} & names:
            return True
    return False


def _names(code: CodeType) -> set[str]:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
