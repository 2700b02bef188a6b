"""A module of PyTorch becomes a graph: torch.export, then ONNX in memory, then `onnx_file`.

Parameters and buffers become weights in place: they must not change while the graph is in use.
An extent that torch.export keeps open, a symbol with a range, becomes a dim.
"""

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import partial
from importlib.util import find_spec
from math import isfinite
from typing import Any, Final

from ansorpy.errors import GraphError
from ansorpy.graph import Graph, Weight
from ansorpy.te.dims import Dim

KEPT_ELEMENTS: Final = 1024  # elements; the importer of ONNX reads smaller constants by value
TRANSLATED: Final = re.compile(r"translating node .*target=torch\.ops\.([\w.]+)")  # in messages
EXPORTER: Final = "torch.onnx._internal.exporter._registration"  # a log
PACKAGES: Final = ("torch", "onnxscript", "onnx")

Bindings = Mapping[str, float]  # numbers and dims in place of symbols, by name


def export_module(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> Any:
    """Return the `torch.export.ExportedProgram` of a module, with the shapes of the examples.

    Args:
        module: a `torch.nn.Module` in evaluation mode, or an `ExportedProgram` with its examples.
        args, kwargs: example arguments of its `forward`; `args` may be one tensor.
        dynamic_shapes: the extents that calls decide, as of `torch.export.export`.

    Raises:
        GraphError: torch or onnxscript is absent, torch cannot export the module, or the module
            writes to a buffer or to an argument.
    """
    require_torch()
    import torch

    examples = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    program = module if isinstance(module, torch.export.ExportedProgram) else None
    if program is not None and (program.example_inputs is None or examples or kwargs):
        raise GraphError(
            "cannot compile an exported program with other example arguments, or without its own;"
            " expected a program of torch.export.export, and no args"
        )
    try:
        with torch.no_grad(), quiet():
            if program is None:
                program = torch.export.export(
                    module, examples, dict(kwargs or {}), dynamic_shapes=dynamic_shapes
                )
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


def graph_of_program(program: Any, name: str = "model", bind: Bindings | None = None) -> Graph:
    """Return the graph of an exported program; inputs and outputs are its tensors, in order.

    Args:
        program: a `torch.export.ExportedProgram`.
        bind: a number or a dim for each symbol of the program (`symbols_of`); dims of the ranges
            of torch.export unless given.

    Raises:
        GraphError: torch has no ONNX form of an operator, or ansorpy has no kernel for it; an
            extent cannot be a dim.
    """
    bound = dims_of_program(program) if bind is None else bind
    return importer_of_program(program, name)(bound)


def importer_of_program(program: Any, name: str) -> Callable[[Bindings], Graph]:
    """Return a function from bindings of the symbols of a program to its graph.

    Raises:
        GraphError: torch has no ONNX form of an operator.
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
    return partial(graph_of_model, onnx_ir.to_proto(model), name=name, weights=weights)


def symbols_of(program: Any) -> dict[str, tuple[str, int]]:
    """Return the symbols among the extents of a program, each with its first argument and axis.

    Raises:
        GraphError: an extent is computed from a symbol.
    """
    found: dict[str, tuple[str, int]] = {}
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.find_nodes(op="placeholder"):
        for axis, extent in enumerate(getattr(node.meta["val"], "shape", ())):
            if node.name not in inputs or isinstance(extent, int):
                continue
            if not extent.node.expr.is_Symbol:
                raise GraphError(
                    f"cannot keep axis {axis} of {node.name!r} as a dim because it is {extent};"
                    " expected a torch.export.Dim of its own, or a number"
                )
            found.setdefault(str(extent), (node.name, axis))
    return found


def dims_of_program(
    program: Any, bind: Bindings | None = None, dynamic_shapes: Any = None
) -> dict[str, float]:
    """Return the dim, or the number, of each symbol of a program.

    A dim has the range and the name of its `torch.export.Dim`, or is called ARGUMENT_AXIS.

    Args:
        bind: dims and numbers by these names, in place of the ranges of torch.export.
        dynamic_shapes: of the export; tells names.

    Raises:
        GraphError: a range has no end, or a binding does not lie in it.
    """
    found: dict[str, float] = {}
    left = dict(bind or {})
    for symbol, (argument, axis) in symbols_of(program).items():
        name = _name(program, dynamic_shapes, argument, axis) or f"{argument}_{axis}"
        ranges = {str(one): span for one, span in program.range_constraints.items()}
        low, high = int(max(1, ranges[symbol].lower)), float(ranges[symbol].upper)
        if name in left:
            found[symbol] = left.pop(name)
            least = getattr(found[symbol], "low", found[symbol])
            if not low <= least <= int(found[symbol]) <= high:
                raise GraphError(
                    f"cannot bind {name} to {found[symbol]} because the module was exported for"
                    f" {low}..{high:.0f}; expected sizes of this range"
                )
        elif isfinite(high):
            found[symbol] = Dim(name, low, int(high))
        else:
            raise GraphError(
                f"cannot keep {name} as a dim because it has no largest size; expected"
                f" torch.export.Dim({name!r}, max=128), or bind={{{name!r}: te.dim({name!r}, {low},"
                " 128)}"
            )
    if left:
        shown = ", ".join(getattr(one, "name", "") for one in found.values()) or "none"
        raise GraphError(
            f"cannot bind {next(iter(left))!r} because the module has no such extent; expected one"
            f" of {shown}"
        )
    return found


def _name(program: Any, dynamic_shapes: Any, argument: str, axis: int) -> str:
    """Return the name that an export gave to an extent, "" if there is none."""
    at = program.graph_signature.user_inputs.index(argument)
    for key, place in ((argument, dynamic_shapes), (at, dynamic_shapes)):
        try:
            return str(place[key][axis].__name__)
        except (TypeError, KeyError, IndexError, AttributeError):
            continue
    return ""


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
    """Ignore the warnings of torch's exporters, which concern torch's own code and torchvision."""
    log = logging.getLogger(EXPORTER)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def first_line(error: BaseException | str) -> str:
    """Return the first line of a message with words in it, at most 300 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
