"""A module of PyTorch becomes a graph: torch.export, then ONNX in memory, then `onnx_file`.

Parameters and buffers become weights in place: they must not change while the graph is in use.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from importlib.util import find_spec
from typing import Any, Final

from ansorpy.errors import GraphError
from ansorpy.graph import Graph, Weight

KEPT_ELEMENTS: Final = 1024  # elements; the importer of ONNX reads smaller constants by value
TRANSLATED: Final = re.compile(r"translating node .*target=torch\.ops\.([\w.]+)")  # in messages
PACKAGES: Final = ("torch", "onnxscript", "onnx")


def export_module(module: Any, args: Any, kwargs: Mapping[str, Any] | None = None) -> Any:
    """Return the `torch.export.ExportedProgram` of a module, with the shapes of the examples.

    Args:
        module: a `torch.nn.Module` in evaluation mode.
        args, kwargs: example arguments of its `forward`; `args` may be one tensor.

    Raises:
        GraphError: torch or onnxscript is absent, torch cannot export the module, or the module
            writes to a buffer or to an argument.
    """
    require_torch()
    import torch

    examples = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    try:
        with torch.no_grad(), quiet():
            program = torch.export.export(module, examples, dict(kwargs or {}))
            program = program.run_decompositions({})  # writes become outputs; nothing else
    except Exception as error:  # torch.export raises errors of many kinds, of user code as well
        raise GraphError(
            f"cannot export {type(module).__name__} because {first_line(error)}; expected a module"
            " that torch.export accepts"
        ) from error
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise GraphError(
            f"cannot compile {type(module).__name__} because it writes to {written[0]!r};"
            " expected a module in evaluation mode (module.eval()) that changes no state"
        )
    return program


def graph_of_program(program: Any, name: str = "model") -> Graph:
    """Return the graph of an exported program; inputs and outputs are its tensors, in order.

    Args:
        program: a `torch.export.ExportedProgram` of fixed shapes.

    Raises:
        GraphError: torch has no ONNX form of an operator, or ansorpy has no kernel for it.
    """
    require_torch()
    import onnx_ir
    import torch

    from ansorpy.importers.onnx_file import OPSET, graph_of_model

    try:
        with quiet():
            program = only_tensors(program)
            exported = torch.onnx.export(program, dynamo=True, opset_version=OPSET, verbose=False)
    except Exception as error:  # the exporter raises errors of many kinds
        cause = error.__cause__ or error
        found = TRANSLATED.search(str(cause))
        if found:
            raise GraphError(
                f"cannot import {name!r} because torch.onnx does not translate operator"
                f" {found[1]!r}; expected operators that ONNX has"
            ) from error
        raise GraphError(
            f"cannot import {name!r} because torch.onnx failed: {first_line(cause)}; expected a"
            " module that it can export"
        ) from error
    model = exported.model
    weights: dict[str, Weight] = {}
    for key, value in list(model.graph.initializers.items()):
        if value.const_value is not None and value.const_value.size > KEPT_ELEMENTS:
            weights[key] = weight_of(value.const_value)
            del model.graph.initializers[key]  # leaves it out of the protocol buffer
    return graph_of_model(onnx_ir.to_proto(model), name=name, weights=weights)


def only_tensors(program: Any) -> Any:
    """Return a program without those results that are constants, which ONNX cannot say."""
    import torch

    results = program.graph.output_node().args[0]
    if all(isinstance(one, torch.fx.Node) for one in results):
        return program
    module = torch.fx.GraphModule(program.graph_module, deepcopy(program.graph))
    node, signature = module.graph.output_node(), copy(program.graph_signature)
    kept = [n for n, one in enumerate(results) if isinstance(one, torch.fx.Node)]
    node.args = (tuple(node.args[0][n] for n in kept),)
    signature.output_specs = [signature.output_specs[n] for n in kept]
    calls = deepcopy(program.module_call_graph)
    calls[0].signature.outputs = [spec.arg for spec in signature.output_specs]
    calls[0].signature.out_spec = torch.utils._pytree.tree_structure([0] * len(kept))
    return torch.export.ExportedProgram(
        module, module.graph, signature, program.state_dict, program.range_constraints, calls,
        program.example_inputs, constants=program.constants,
    )  # fmt: skip


def weight_of(tensor: Any) -> Weight:
    """Return the weight of a tensor of onnx_ir, which shares its memory if it is contiguous."""
    array = tensor.numpy()
    if array.dtype.name == "bfloat16":
        return Weight.of(array.view("uint16"), "bfloat16")
    return Weight.of(array)


def require_torch() -> None:
    """Raise GraphError unless torch and the packages of its exporter are installed."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise GraphError(
                f"cannot import a module of PyTorch because package {package} is not installed;"
                " expected pip install 'ansorpy[torch]'"
            )


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore the warnings of torch's exporters, which concern torch's own code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def first_line(error: BaseException | str) -> str:
    """Return the first line of a message with words in it, at most 300 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
