"""`ansorpy.compile`: a module of PyTorch through the spine of models, back as a callable."""

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ansorpy.artifact.folder import new_folder, remove
from ansorpy.artifact.torch_op import to_array
from ansorpy.graph import Graph
from ansorpy.graph.sizes import at_sizes
from ansorpy.importers.torch_program import dims_of_program, export_module, graph_of_program
from ansorpy.measure.host import local_target
from ansorpy.model.api import Reporting, bundle_path, tuned
from ansorpy.model.check_bounds import dtypes_of, least_bound
from ansorpy.model.check_inputs import checked_sizes
from ansorpy.model.compile import ModelResult
from ansorpy.model.events import ModelEvent
from ansorpy.model.options import ModelOptions
from ansorpy.model.progress import model_reporter
from ansorpy.model.request import ModelRequest
from ansorpy.model.torch_module import CompiledModule
from ansorpy.model.verify import ModelReference
from ansorpy.progress import ignore
from ansorpy.records import RecordStore
from ansorpy.target import Target
from ansorpy.tuner.options.keywords import keywords_of
from ansorpy.tuner.options.option import Option
from ansorpy.tuner.options.targets import target_for
from ansorpy.tuner.parts.stores import store_of
from ansorpy.tuner.requests.call_options import (
    EXAMPLES,
    BindOption,
    DynamicOption,
    ProgressOption,
    StoreOption,
)

__all__ = ["compile", "compile_program"]


@dataclass(frozen=True, slots=True)
class CompileCall(ModelOptions):
    """The arguments of `ansorpy.compile`."""

    module: Annotated[
        Any,
        Option("A `torch.nn.Module` in evaluation mode, or an `ExportedProgram` with examples."),
    ]
    args: Annotated[Any, Option(EXAMPLES)] = ()
    kwargs: Annotated[Mapping[str, Any], Option("Example keyword arguments.")] = field(
        default_factory=dict
    )
    dynamic_shapes: DynamicOption = field(default=None, kw_only=True)
    bind: BindOption = field(default_factory=dict, kw_only=True)
    store: StoreOption = field(default=None, kw_only=True)
    out: Annotated[
        PathLike[str] | str | None,
        Option("Path of the bundle; unless given, it lasts as long as the compiled module."),
    ] = field(default=None, kw_only=True)
    progress: ProgressOption = field(default=None, kw_only=True)
    on_event: Annotated[
        Callable[[ModelEvent], object],
        Option("Called with every event (`ansorpy.events`, `ansorpy.model.events`)."),
    ] = field(default=ignore, kw_only=True)


@keywords_of(CompileCall)
def compile(call: CompileCall) -> CompiledModule:
    """Compile a module of PyTorch; the result takes and returns tensors as the module does.

    Its tensors are computed by a verified bundle: the outputs for the examples are compared with
    outputs of eager torch. Parameters are copied; gradients are not supported. `result` of the
    callable is the `ModelResult`, `save(path)` copies its bundle, `bench()` races it with `module`.

    Raises:
        GraphError: torch or onnxscript is absent, or the module cannot be compiled.
        RunError: no verified kernel for a part of the module, or the outputs are wrong.
    """
    program, graph = imported(call.module, call.args, call.kwargs, call.dynamic_shapes, call.bind)
    return compile_program(program, graph, call)


def imported(
    module: Any, args: Any, kwargs: Mapping[str, Any], dynamic_shapes: Any, bind: Mapping[str, Any]
) -> tuple[Any, Graph]:
    """Return the exported program of a module, and its graph.

    Raises:
        GraphError: torch or onnxscript is absent, or the module cannot be compiled.
    """
    program = export_module(module, args, kwargs, dynamic_shapes)
    bound = dims_of_program(program, bind, dynamic_shapes)
    return program, graph_of_program(program, type(module).__name__, bound)


def compile_program(
    program: Any, graph: Graph, call: CompileCall, reporting: Reporting = model_reporter
) -> CompiledModule:
    """Compile a `torch.export.ExportedProgram` that has its example arguments; see `compile`.

    Args:
        graph: of the program; messages and the bundle have its name.
        call: the options; its module is the rival of `CompiledModule.bench`.
        reporting: shows the events.
    """
    path = new_folder() / f"{graph.name}.zip" if call.out is None else Path(call.out)
    request = _request(program, graph, call, local_target(call.cores), path)
    result = tuned(request, store_of(call.store), call.progress, call.on_event, reporting)
    rival = call.module if callable(call.module) else program.module()
    made = CompiledModule(program, graph, result, rival)
    if call.out is None:
        weakref.finalize(made, remove, path.parent, os.getpid())
    return made


def tune_module(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    bind: Mapping[str, Any],
    options: ModelOptions,
    target: Target | str | None,
    *,
    store: RecordStore | str | None,
    out: PathLike[str] | str | None,
    progress: bool | None,
    on_event: Callable[[ModelEvent], object],
) -> ModelResult:
    """Tune a module of PyTorch, and write its bundle; `ansorpy.tune` explains the arguments.

    Raises:
        GraphError: torch or onnxscript is absent, or the module cannot be compiled.
        RunError: no verified kernel for a part of the module, or the outputs are wrong.
    """
    program, graph = imported(module, args, kwargs, dynamic_shapes, bind)
    machine, path = target_for(target, options.cores), bundle_path(out, graph.name)
    request = _request(program, graph, options, machine, path)
    return tuned(request, store_of(store), progress, on_event)


def _request(
    program: Any, graph: Graph, options: ModelOptions, target: Target, path: Path
) -> ModelRequest:
    return ModelRequest(graph, target, options, path, reference=reference_of(program, graph))


def reference_of(program: Any, graph: Graph) -> ModelReference:
    """Return the example arguments of a program with the results of eager torch.

    With dims, the examples are repeated or cut to each of the sizes that a model is checked at.
    """
    import torch

    leaves, spec = torch.utils._pytree.tree_flatten(program.example_inputs)
    module, made = program.module(), list[ModelReference]()
    bound, dtypes = least_bound(graph), dtypes_of(graph)
    for sizes in checked_sizes(graph.dims, np.random.default_rng(0)) if graph.dims else [{}]:
        values = at_sizes(graph, sizes).values
        shapes = iter([values[name].fixed_shape for name in graph.inputs])
        given = [_resized(one, next(shapes)) if tensor(one) else one for one in leaves]
        args, kwargs = torch.utils._pytree.tree_unflatten(given, spec)
        with torch.no_grad():
            results = torch.utils._pytree.tree_leaves(module(*args, **kwargs))
        arrays = (to_array(torch, one) for one in given if tensor(one))
        inputs = dict(zip(graph.inputs, arrays, strict=True))
        outputs = tuple(to_array(torch, one).copy() for one in results if tensor(one))
        at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        source = f"eager PyTorch at {at}" if at else "eager PyTorch"
        made.append(ModelReference(inputs, outputs, bound, source, dtypes))
    return replace(made[0], source="eager PyTorch", others=tuple(made[1:]))


def _resized(value: Any, shape: Sequence[int]) -> Any:
    """Return a tensor that repeats the elements of another one, or has its first ones."""
    import torch

    for axis, size in enumerate(shape):
        if value.shape[axis] != size:
            value = value.index_select(axis, torch.arange(size) % value.shape[axis])
    return value


def tensor(value: Any) -> bool:
    """Return True if a value is a tensor of torch."""
    import torch

    return isinstance(value, torch.Tensor)
