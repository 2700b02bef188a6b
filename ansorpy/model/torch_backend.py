"""The backend "ansorpy" of `torch.compile`, found by the entry-point group torch_dynamo_backends.

Dynamo gives a graph whose parameters and buffers are arguments. They become constants of the
compiled model: a call with others, or after one was written to, runs in eager torch. A graph with
symbolic extents is compiled for the extents of each call.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import torch

from ansorpy.errors import AnsorError, GraphError, SpecError
from ansorpy.importers.torch_program import export_module, first_line
from ansorpy.model.progress import graph_reporter
from ansorpy.model.torch_compile import CompileCall, compile_program
from ansorpy.model.torch_split import divided, refusals, replace_part, values_of

Call = Callable[..., Any]
MAX_SHAPES: Final = 8  # compiled instances of a graph with symbolic extents, as Dynamo's own limit


class EagerWarning(UserWarning):
    """A part of a model runs in eager torch, not in kernels of ansorpy."""


def backend(
    module: Any, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Call:
    """Return a function that computes a graph of Dynamo.

    Args:
        module: the `torch.fx.GraphModule`; its placeholders are parameters, buffers and inputs.
        examples: their values.
        options: of `ansorpy.compile` by name, with 0 trials unless given; `progress`: two
            lines per graph on standard error, unless given only on a terminal; `strict`: raise an
            error if a graph, or code between two graphs, would run in eager torch.

    Raises:
        GraphError: `strict`, and the graph cannot be compiled; names the operator.
        SpecError: an option is unknown or out of range.
    """
    given = dict(options or {})
    strict = bool(given.pop("strict", False))
    try:
        asked = CompileCall(module, examples, **{"trials": 0, **given})
    except TypeError as error:
        raise SpecError(f"cannot compile with these options because {error}") from error
    _check_break(module, strict)
    if any(_is_symbolic(one) for one in examples):
        return _BySizes(module, asked, strict)
    return _compiled(module, examples, asked, strict)


class _BySizes:
    """Compiles a graph for the extents of its arguments when they first occur."""

    def __init__(self, module: Any, asked: CompileCall, strict: bool) -> None:
        self._module, self._asked, self._strict = module, asked, strict
        self._calls: dict[tuple[Any, ...], Call] = {}

    def __call__(self, *values: Any) -> Any:
        key = tuple(tuple(one.shape) if isinstance(one, torch.Tensor) else one for one in values)
        if key not in self._calls and len(self._calls) < MAX_SHAPES:
            self._calls[key] = _compiled(self._module, values, self._asked, self._strict)
        if key in self._calls:
            return self._calls[key](*values)
        _refuse(f"a graph was compiled for {MAX_SHAPES} shapes, these are others", self._strict)
        return self._module(*values)


def _compiled(module: Any, examples: Sequence[Any], asked: CompileCall, strict: bool) -> Call:
    """Return the compiled graph, else one whose parts are compiled, else the eager one."""
    try:
        _check_gradients(module, examples)
    except GraphError as error:
        _refuse(str(error), strict, error)
        return module.forward  # type: ignore[no-any-return]
    try:
        return _Frozen(module, examples, asked)
    except GraphError as error:
        if strict:
            raise
        return _in_parts(module, examples, asked, error)
    except AnsorError as error:
        _refuse(str(error), strict, error)
        return module.forward  # type: ignore[no-any-return]


def _in_parts(module: Any, examples: Sequence[Any], asked: CompileCall, whole: GraphError) -> Call:
    """Return a graph whose parts are compiled; calls that cannot be imported run in eager torch."""
    with torch._guards.tracing(None), torch.no_grad():
        bare = _without_facts(module)
        refused = refusals(bare, values_of(bare, examples))
        for reason in dict.fromkeys(refused.values()):
            _refuse(reason, strict=False)
        split, fits = divided(bare, refused)
        if not refused or not fits:
            if not refused:  # every call can be imported, the graph cannot
                _refuse(str(whole), strict=False)
            return module.forward  # type: ignore[no-any-return]
        values = values_of(split, examples)
        for node in split.graph.find_nodes(op="call_module"):
            if node.target in fits:
                part = getattr(split, node.target)
                given = [values[one] for one in node.args]
                try:
                    replace_part(split, node.target, _Frozen(part, given, asked))
                except AnsorError as error:
                    _refuse(str(error), strict=False)
    return split  # type: ignore[no-any-return]


class _Frozen:
    """A compiled graph with constant parameters.

    Raises:
        GraphError: the graph cannot be compiled.
    """

    def __init__(self, module: Any, examples: Sequence[Any], asked: CompileCall) -> None:
        self._module, self._warned = module, False
        self._frozen = {n: one for n, one in enumerate(examples) if _is_frozen(one)}
        self._versions = {n: _writes(one) for n, one in self._frozen.items()}
        self._inputs = [n for n in range(len(examples)) if n not in self._frozen]
        constant = _with_constants(module, self._frozen)
        with torch._guards.tracing(None), torch.no_grad():  # apart from Dynamo's own trace
            begin_s = time.monotonic()
            program = export_module(constant, [examples[n] for n in self._inputs])
            self._model = compile_program(program, "graph", asked, graph_reporter(begin_s))

    def __call__(self, *values: Any) -> Any:
        for n, one in self._frozen.items():
            if values[n] is not one or _writes(one) != self._versions[n]:
                return self._eager(values)
        return self._model(*(values[n] for n in self._inputs))

    def _eager(self, values: Sequence[Any]) -> Any:
        if not self._warned:
            self._warned = True
            _refuse("a parameter was replaced or written to after torch.compile", strict=False)
        return self._module(*values)


def _check_break(module: Any, strict: bool) -> None:
    """Warn if the graph ends at code that Dynamo cannot trace."""
    broken = getattr(module, "compile_subgraph_reason", None)
    if broken is not None and broken.graph_break:
        place = broken.user_stack[-1] if broken.user_stack else None
        where = f" {place.filename}:{place.lineno}" if place else " a line"
        _refuse(f"torch.compile cannot trace{where}: {first_line(broken.reason)}", strict)


def _check_gradients(module: Any, examples: Sequence[Any]) -> None:
    """Raise GraphError if the graph would record gradients."""
    placeholders = module.graph.find_nodes(op="placeholder")
    for node, one in zip(placeholders, examples, strict=True):
        if torch.is_grad_enabled() and getattr(one, "requires_grad", False):
            raise GraphError(
                f"cannot compile the graph because {node.name!r} requires a gradient;"
                " expected a call inside of torch.no_grad()"
            )


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, torch.SymInt) or any(
        isinstance(extent, torch.SymInt) for extent in getattr(value, "shape", ())
    )


def _is_frozen(value: Any) -> bool:
    """Return True for parameters and buffers of modules, which Dynamo marks."""
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _writes(value: Any) -> int:
    """Return the number of writes to a tensor; torch does not count those to inference tensors."""
    return 0 if value.is_inference() else value._version


def _with_constants(module: Any, frozen: Mapping[int, Any]) -> Any:
    """Return a copy of a graph module with some placeholders as its buffers."""
    copy = _without_facts(module)
    placeholders = copy.graph.find_nodes(op="placeholder")
    for n, value in frozen.items():
        copy.register_buffer(f"frozen_{n}", value.detach())
        with copy.graph.inserting_before(placeholders[n]):
            constant = copy.graph.get_attr(f"frozen_{n}")
        placeholders[n].replace_all_uses_with(constant)
        copy.graph.erase_node(placeholders[n])
    copy.recompile()
    return copy


def _without_facts(module: Any) -> Any:
    """Return a copy of a graph module without the fake tensors of Dynamo's trace."""
    made = torch.fx.GraphModule(module, deepcopy(module.graph))
    for node in made.graph.nodes:
        node.meta.clear()
    return made


def _refuse(reason: str, strict: bool, cause: Exception | None = None) -> None:
    """Warn that something runs in eager torch.

    Raises:
        GraphError: `strict`.
    """
    if strict:
        raise GraphError(reason) from cause
    warnings.warn(f"{reason}; runs in eager torch", EagerWarning, stacklevel=3)
