"""The backend "ansorpy" of `torch.compile`, found by the entry-point group torch_dynamo_backends.

Dynamo gives a graph whose parameters and buffers are arguments. They become constants of the
compiled model: a call with others, or after one was written to, runs in eager torch. A graph with
symbolic extents is compiled for ranges of them, which become dims; if it cannot keep dims, for the
extents of each call.
"""

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import torch

from ansorpy.errors import AnsorError, GraphError, SpecError
from ansorpy.graph import Graph
from ansorpy.importers.torch_program import (
    export_module,
    first_line,
    importer_of_program,
    symbols_of,
)
from ansorpy.model.progress import graph_reporter
from ansorpy.model.torch_compile import CompileCall, compile_program
from ansorpy.model.torch_sizes import NO_SIZES, GraphSizes, Numbers, fix_numbers, graph_sizes
from ansorpy.model.torch_split import divided, refusals, replace_part, values_of
from ansorpy.te.dims import Dim

log = logging.getLogger(__name__)

Call = Callable[..., Any]
MAX_SHAPES: Final = 8  # compiled instances of a graph with symbolic extents, as Dynamo's own limit


class EagerWarning(UserWarning):
    """A part of a model runs in eager torch, not in kernels of ansorpy."""


class SizesWarning(UserWarning):
    """A graph is compiled for each size of an extent, not for a range."""


def backend(
    module: Any, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Call:
    """Return a function that computes a graph of Dynamo.

    Args:
        module: the `torch.fx.GraphModule`; its placeholders are parameters, buffers and inputs.
        examples: their values.
        options: of `ansorpy.compile` by name, with 0 trials unless given; `progress`: two
            lines per graph on standard error, unless given only on a terminal; `strict`: raise an
            error if a graph, or code between two graphs, would run in eager torch; `max_size`: the
            end of the first range of each symbolic extent.

    Raises:
        GraphError: `strict`, and the graph cannot be compiled; names the operator.
        SpecError: an option is unknown or out of range.
    """
    given = dict(options or {})
    strict, max_size = bool(given.pop("strict", False)), given.pop("max_size", None)
    if max_size is not None and (not isinstance(max_size, int) or max_size < 1):
        raise SpecError(f"cannot use max_size {max_size!r}; expected a natural number")
    try:
        asked = CompileCall(module, examples, **{"trials": 0, **given})
    except TypeError as error:
        raise SpecError(f"cannot compile with these options because {error}") from error
    _check_break(module, strict)
    if any(_is_symbolic(one) for one in examples):
        return _BySizes(module, examples, asked, strict, max_size)
    return _compiled(module, examples, asked, strict)


class _BySizes:
    """Compiles a graph for ranges of the sizes of its arguments when they first occur."""

    def __init__(
        self,
        module: Any,
        examples: Sequence[Any],
        asked: CompileCall,
        strict: bool,
        max_size: int | None,
    ) -> None:
        self._module, self._asked, self._strict = module, asked, strict
        self._max_size = max_size
        frozen = [n for n, one in enumerate(examples) if _is_frozen(one)]
        self._sizes = graph_sizes(module, frozen, examples)
        self._programs: dict[Numbers, _Program] = {}
        self._ranges: list[_Range] = []
        self._calls: dict[tuple[Any, Numbers], Call] = {}

    def __call__(self, *values: Any) -> Any:
        for one in self._ranges:
            if one.takes(values):
                return one.call(*values)
        shapes = tuple(tuple(getattr(one, "shape", ())) for one in values)
        numbers = self._sizes.keeping(()).numbers_at(values)
        key = shapes, numbers
        if key in self._calls:
            return self._calls[key](*values)
        if len(self._calls) + len(self._ranges) >= MAX_SHAPES:
            _refuse(f"a graph was compiled for {MAX_SHAPES} shapes, these are others", self._strict)
            return self._module(*values)
        if self._sizes.axes and not _gradients(self._module, values):
            try:
                return self._range(values).call(*values)
            except AnsorError as error:
                self._sizes = self._sizes.keeping(())
                _told_sizes(str(error))
        given = values, self._asked, self._strict
        self._calls[key] = _compiled(self._module, *given, self._sizes.keeping(()))
        return self._calls[key](*values)

    def _range(self, values: Sequence[Any]) -> "_Range":
        """Return the graph compiled for ranges that hold the sizes of a call.

        They include the ranges of an earlier compilation, which is forgotten. Symbols that the
        graph cannot keep as dims are numbers from then on.

        Raises:
            AnsorError: the graph cannot be compiled, or keeps no dim.
        """
        begin_s, sizes = time.monotonic(), self._sizes
        at, numbers = sizes.at(values), sizes.numbers_at(values)
        last = [one for one in self._ranges if (one.sizes, one.numbers) == (sizes, numbers)]
        try:
            if numbers not in self._programs:
                self._programs[numbers] = _Program(self._module, values, sizes)
        except GraphError as error:
            outer = sizes.keeping([name for _, axis, name in sizes.axes if axis == 0])
            if outer == sizes or not outer.axes:
                raise
            self._sizes = outer
            _told_sizes(str(error))
            return self._range(values)
        ends = {name: int(last[0].extents[name]) for name in at} if last else {}
        dims = {
            name: sizes.dim(name, size, ends.get(name, 0), self._max_size)
            for name, size in at.items()
        }
        program = self._programs[numbers]
        graph, extents = _kept(program.graph, at, dims)
        call = _Frozen(program, graph, self._asked, begin_s)
        kept = [name for name, one in extents.items() if isinstance(one, Dim)]
        if len(kept) < len(at):
            self._sizes, self._programs = sizes.keeping(kept), {}
        self._ranges = [one for one in self._ranges if one not in last]
        self._ranges.append(_Range(sizes, numbers, extents, call))
        return self._ranges[-1]


@dataclass(frozen=True, slots=True)
class _Range:
    """A graph that is compiled for some numbers and extents, which may be dims."""

    sizes: GraphSizes
    numbers: Numbers
    extents: Mapping[str, int]
    call: Call

    def takes(self, values: Sequence[Any]) -> bool:
        """Return True if a call has these numbers and sizes."""
        at = self.sizes.at(values)
        return self.numbers == self.sizes.numbers_at(values) and all(
            one.has(at[name]) if isinstance(one, Dim) else one == at[name]
            for name, one in self.extents.items()
        )


def _kept(
    graph: Callable[[Mapping[str, int]], Graph], at: Mapping[str, int], dims: Mapping[str, Dim]
) -> tuple[Graph, Mapping[str, int]]:
    """Return a graph with all dims, else with each that it keeps beside those before it.

    Args:
        graph: returns the graph for extents by symbol.
        at: the sizes of a call.

    Raises:
        GraphError: the graph keeps none.
    """
    try:
        return graph({**at, **dims}), {**at, **dims}
    except GraphError as error:
        made, extents = None, dict(at)
        for name, dim in dims.items() if len(dims) > 1 else ():
            with suppress(GraphError):
                made = graph({**extents, name: dim})
                extents[name] = dim
        if made is None:
            raise
        _told_sizes(str(error))
        return made, extents


def _compiled(
    module: Any,
    examples: Sequence[Any],
    asked: CompileCall,
    strict: bool,
    sizes: GraphSizes = NO_SIZES,
) -> Call:
    """Return the compiled graph, else one whose parts are compiled, else the eager one.

    Args:
        sizes: tells the placeholders that are numbers.
    """
    reason = _gradients(module, examples)
    if reason:
        _refuse(reason, strict)
        return module.forward  # type: ignore[no-any-return]
    try:
        return _frozen(module, examples, asked, sizes)
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
                    replace_part(split, node.target, _frozen(part, given, asked))
                except AnsorError as error:
                    _refuse(str(error), strict=False)
    return split  # type: ignore[no-any-return]


class _Program:
    """A graph with constant parameters, exported.

    Raises:
        GraphError: the graph cannot be exported.
    """

    def __init__(self, module: Any, examples: Sequence[Any], sizes: GraphSizes = NO_SIZES) -> None:
        self.module = module
        self.frozen = {n: one for n, one in enumerate(examples) if _is_frozen(one)}
        self.versions = {n: _writes(one) for n, one in self.frozen.items()}
        left = {*self.frozen, *sizes.lengths, *sizes.numbers}
        self.inputs = [n for n in range(len(examples)) if n not in left]
        constant = _with_constants(module, self.frozen, sizes, sizes.numbers_at(examples))
        shapes = sizes.dynamic_shapes(self.inputs) if sizes.axes else None
        with torch._guards.tracing(None), torch.no_grad():  # apart from Dynamo's own trace
            given = [examples[n] for n in self.inputs]
            self.exported = export_module(constant, given, dynamic_shapes=shapes)
            self._graph = importer_of_program(self.exported, "graph")
        names = self.exported.graph_signature.user_inputs
        known = {(n, axis): symbol for n, axis, symbol in sizes.axes}
        self._symbols = {
            theirs: known[self.inputs[names.index(argument)], axis]
            for theirs, (argument, axis) in symbols_of(self.exported).items()
        }  # symbols of Dynamo by symbol of the export

    def graph(self, extents: Mapping[str, int]) -> Graph:
        """Return the graph for extents, which may be dims, by symbol of Dynamo."""
        return self._graph({theirs: extents[ours] for theirs, ours in self._symbols.items()})


def _frozen(
    module: Any, examples: Sequence[Any], asked: CompileCall, sizes: GraphSizes = NO_SIZES
) -> "_Frozen":
    """Return a graph compiled for the shapes of its arguments.

    Raises:
        GraphError: the graph cannot be compiled.
    """
    begin_s, program = time.monotonic(), _Program(module, examples, sizes)
    return _Frozen(program, program.graph({}), asked, begin_s)


class _Frozen:
    """A compiled graph with constant parameters.

    Args:
        graph: of the program.
        begin_s: the time at which the compilation began.

    Raises:
        GraphError: the graph cannot be compiled.
    """

    def __init__(self, program: _Program, graph: Graph, asked: CompileCall, begin_s: float) -> None:
        self._module, self._warned = program.module, False
        self._frozen, self._versions = program.frozen, program.versions
        self._inputs = program.inputs
        with torch._guards.tracing(None), torch.no_grad():
            report = graph_reporter(begin_s)
            self._model = compile_program(program.exported, graph, asked, report)
        log.info("compiled in %.1f s: %r", time.monotonic() - begin_s, self._model)

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


def _gradients(module: Any, examples: Sequence[Any]) -> str:
    """Return the reason for which the graph would record gradients, "" if it would not."""
    placeholders = module.graph.find_nodes(op="placeholder")
    for node, one in zip(placeholders, examples, strict=True):
        if torch.is_grad_enabled() and getattr(one, "requires_grad", False):
            return (
                f"cannot compile the graph because {node.name!r} requires a gradient;"
                " expected a call inside of torch.no_grad()"
            )
    return ""


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


def _with_constants(
    module: Any, frozen: Mapping[int, Any], sizes: GraphSizes, numbers: Numbers
) -> Any:
    """Return a copy of a graph module with some placeholders as its buffers, and without those
    that are numbers.
    """
    copy = _without_facts(module)
    placeholders = copy.graph.find_nodes(op="placeholder")
    fix_numbers(copy.graph, sizes, numbers)
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


def _told_sizes(reason: str) -> None:
    """Warn that a graph is compiled for each size of an extent."""
    warnings.warn(f"{reason}; compiled for each size", SizesWarning, stacklevel=3)


def _refuse(reason: str, strict: bool, cause: Exception | None = None) -> None:
    """Warn that something runs in eager torch.

    Raises:
        GraphError: `strict`.
    """
    if strict:
        raise GraphError(reason) from cause
    warnings.warn(f"{reason}; runs in eager torch", EagerWarning, stacklevel=3)
