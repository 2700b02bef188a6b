"""`ansorpy.compile`: a module of PyTorch through the spine of models, back as a callable."""

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from ansorpy.artifact.folder import new_folder, remove
from ansorpy.artifact.torch_op import to_array
from ansorpy.graph import Graph
from ansorpy.importers.torch_program import export_module, graph_of_program
from ansorpy.measure.host import local_target
from ansorpy.model.api import Reporting, bundle_path, tuned
from ansorpy.model.check_bounds import dtypes_of, least_bound
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
from ansorpy.tuner.requests.call_options import EXAMPLES, ProgressOption, StoreOption

__all__ = ["compile", "compile_program"]


@dataclass(frozen=True, slots=True)
class CompileCall(ModelOptions):
    """The arguments of `ansorpy.compile`."""

    module: Annotated[Any, Option("A `torch.nn.Module` in evaluation mode.")]
    args: Annotated[Any, Option(EXAMPLES)]
    kwargs: Annotated[Mapping[str, Any], Option("Example keyword arguments.")] = field(
        default_factory=dict
    )
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
    program = export_module(call.module, call.args, call.kwargs)
    return compile_program(program, type(call.module).__name__, call)


def compile_program(
    program: Any, name: str, call: CompileCall, reporting: Reporting = model_reporter
) -> CompiledModule:
    """Compile a `torch.export.ExportedProgram` that has its example arguments; see `compile`.

    Args:
        name: the name in messages and of the bundle.
        call: the options; its module is the rival of `CompiledModule.bench`.
        reporting: shows the events.
    """
    graph = graph_of_program(program, name)
    path = new_folder() / f"{name}.zip" if call.out is None else Path(call.out)
    request = _request(program, graph, call, local_target(call.cores), path)
    result = tuned(request, store_of(call.store), call.progress, call.on_event, reporting)
    made = CompiledModule(program, graph, result, call.module)
    if call.out is None:
        weakref.finalize(made, remove, path.parent, os.getpid())
    return made


def tune_module(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any],
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
    name = type(module).__name__
    program = export_module(module, args, kwargs)
    graph = graph_of_program(program, name)
    machine, path = target_for(target, options.cores), bundle_path(out, name)
    request = _request(program, graph, options, machine, path)
    return tuned(request, store_of(store), progress, on_event)


def _request(
    program: Any, graph: Graph, options: ModelOptions, target: Target, path: Path
) -> ModelRequest:
    return ModelRequest(graph, target, options, path, reference=reference_of(program, graph))


def reference_of(program: Any, graph: Graph) -> ModelReference:
    """Return the example arguments of a program with the results of eager torch."""
    import torch

    args, kwargs = program.example_inputs
    given = [one for one in torch.utils._pytree.tree_leaves((args, kwargs)) if tensor(one)]
    with torch.no_grad():
        results = torch.utils._pytree.tree_leaves(program.module()(*args, **kwargs))
    inputs = {name: to_array(torch, one) for name, one in zip(graph.inputs, given, strict=True)}
    outputs = tuple(to_array(torch, one).copy() for one in results if tensor(one))
    return ModelReference(inputs, outputs, least_bound(graph), "eager PyTorch", dtypes_of(graph))


def tensor(value: Any) -> bool:
    """Return True if a value is a tensor of torch."""
    import torch

    return isinstance(value, torch.Tensor)
