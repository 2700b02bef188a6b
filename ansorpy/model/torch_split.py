"""Division of a graph of Dynamo at calls that cannot be imported, so that the rest is compiled."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.fx.passes.split_module import split_module

from ansorpy.errors import GraphError
from ansorpy.importers.torch_program import export_module, graph_of_program

Call = Callable[..., Any]
CALLS: Final = ("call_function", "call_method", "call_module")  # kinds of nodes that compute


class _Values(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a graph in eager torch and keeps the value of every node."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.values: dict[Any, Any] = {}

    def run_node(self, n: Any) -> Any:
        self.values[n] = super().run_node(n)
        return self.values[n]


class _Piece(torch.nn.Module):  # type: ignore[misc]
    """A part of a divided graph."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, *values: Any) -> Any:
        return self.call(*values)


def values_of(module: Any, examples: Sequence[Any]) -> dict[Any, Any]:
    """Return the value of every node, computed on copies; parameters are told by `examples`."""
    copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in examples]
    run = _Values(module)
    run.run(*copies)
    originals = {id(copy): one for copy, one in zip(copies, examples, strict=True)}
    return {node: originals.get(id(value), value) for node, value in run.values.items()}


def refusals(module: Any, values: Mapping[Any, Any]) -> dict[Any, str]:
    """Return the nodes that cannot be imported, with the reasons.

    Args:
        values: the value of every node.
    """
    known: dict[str, str] = {}
    refusals: dict[Any, str] = {}
    for node in module.graph.nodes:
        if node.op not in CALLS:
            continue
        if node.target is operator.getitem:
            if node.args[0] in refusals:
                refusals[node] = refusals[node.args[0]]
            continue
        key = _kind(node, values)
        if key not in known:
            known[key] = _refusal(module, node, values)
        if known[key]:
            refusals[node] = known[key]
    return refusals


def divided(module: Any, refused: Mapping[Any, str]) -> tuple[Any, tuple[str, ...]]:
    """Return a graph of the parts of a graph, and the names of the parts that can be imported.

    A part is a run of nodes that all can be imported, or that all cannot.
    """
    numbers: dict[Any, int] = {}
    last, number = None, 0
    for node in module.graph.nodes:
        if node.op in CALLS:
            number += last is not None and last != (node in refused)
            last = node in refused
            numbers[node] = number
    fits = {number for node, number in numbers.items() if node not in refused}
    made = split_module(module, None, numbers.__getitem__, keep_original_order=True)
    return made, tuple(f"submod_{number}" for number in sorted(fits))


def replace_part(module: Any, name: str, call: Call) -> None:
    """Let a function compute a part of a divided graph."""
    setattr(module, name, _Piece(call))


def _kind(node: Any, values: Mapping[Any, Any]) -> str:
    """Return a text that is equal for calls with equal operators, constants, shapes and dtypes."""

    def facts(source: Any) -> str:
        value = values[source]
        if isinstance(value, torch.Tensor):
            return f"{value.dtype}{tuple(value.shape)}"
        return repr(value)

    told = torch.fx.node.map_arg((node.args, node.kwargs), facts)
    return f"{node.op} {node.target} {told}"


def _refusal(module: Any, node: Any, values: Mapping[Any, Any]) -> str:
    """Return the reason for which a call cannot be imported, "" if it can."""
    graph, sources = torch.fx.Graph(), node.all_input_nodes
    copies = {}
    for source in sources:
        if not isinstance(values[source], torch.Tensor):
            return f"cannot compile {node.target} because it reads a {type(values[source])}"
        given = graph.placeholder(source.name)
        copies[source] = graph.call_function(torch.clone, (given,))  # the call may write to it
    graph.output((graph.node_copy(node, copies.__getitem__),))
    try:
        program = export_module(
            torch.fx.GraphModule(module, graph), [values[source].detach() for source in sources]
        )
        graph_of_program(program, "graph")
    except GraphError as error:
        return str(error)
    return ""
