"""Plan of a bundle: the steps of a model, the kernels that they call, the values between them.

The spine of whole models constructs a `ModelPlan` from partition and tuned kernels; the modules of
this package make a memory plan, a native driver and a zip of it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Final

from ansorpy.bundle.layout import is_within, renaming
from ansorpy.bundle.steps import CopyStep, HostedStep, KernelStep, Step
from ansorpy.codegen.exported_types import Library
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph.graph import Array, Output, ValueInfo, View, Weight, dims_of_call
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.te.dims import Dim, dims_in

SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class ModelKernel:
    """The exported library of one task, verified, and its place in a model.

    `name` is unique in a plan. `weights` are the numbers of the inputs that the phases ahead read
    (placeholders that are `constant`): steps give weights there. `best_s` is the time of one call
    alone, 0 if it is not known; `workload` the key of the task. `dims` are the sizes that a call
    takes, in order; `shapes` the shapes with dims of inputs, then outputs: as the library has them
    unless given.
    """

    name: str
    library: Library
    weights: tuple[int, ...] = ()
    best_s: float = 0.0
    workload: str = ""
    dims: tuple[Dim, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The arguments that a call reads."""
        return tuple(b for b in self.library.buffers if b.scope is Scope.INPUT)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The arguments that a call writes."""
        return tuple(b for b in self.library.buffers if b.scope is Scope.OUTPUT)

    @property
    def extents(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of inputs, then of outputs."""
        return self.shapes or tuple(buffer.extents for buffer in (*self.inputs, *self.outputs))

    @property
    def sizes(self) -> int:
        """The number of sizes that the library takes."""
        buffers = self.library.buffers
        return sum(prod(one.extents) for one in buffers if one.scope is Scope.SIZES)


@dataclass(frozen=True, slots=True)
class GrowingInputs:
    """Inputs that a model gives back with more rows: a cache.

    `past` is the dim of their rows, `total` the dim of the rows of outputs. `pairs` has numbers of
    inputs, and of the outputs that may lie in the same memory.
    """

    past: str
    total: str
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class HostedFunction:
    """A NumPy function for steps that have no kernel; its text becomes part of the bundle.

    `text` is Python of our own that defines a function called `name`; the bundle has imported
    `numpy as np` and `math` ahead of it. Values of users reach it as arguments only.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Inputs of a model and its expected outputs, from an oracle, not from the kernels.

    `tolerances` are absolute, one per output. Arrays of bfloat16 hold uint16 bit patterns. `oracle`
    names the program that the outputs are of, and all inputs that it was asked about. A model with
    dims is tested at their largest sizes, and by `others` at smaller sizes.
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    tolerances: tuple[float, ...]
    oracle: str = ""
    others: tuple["SelfTest", ...] = ()

    @property
    def limits(self) -> tuple[float, ...]:
        """The largest tolerance of each output at any size."""
        rows = [self.tolerances, *(other.tolerances for other in self.others)]
        return tuple(map(max, zip(*rows, strict=True)))


@dataclass(frozen=True)
class ModelPlan:
    """A model as steps in order.

    Args:
        name: for people.
        values: dtype and shape of every value, by name; an extent may be a dim of an input.
        inputs: values that the caller gives, in order.
        outputs: results, in order: a public name, and the value. The value may be an input, a
            weight or a view; then it is copied.
        weights: values that lie in the bundle.
        views: a value -> its place in the value whose bytes it has: under another shape
            (Reshape), or as a part. A value is computed into its parts (Concat) or as a whole.
        steps: every byte is written once, before it is read.
        kernels: of the steps; equal calls share one.
        hosted: functions of the hosted steps.
        source_digest: sha256 of the model's file, hex; "" if it came from no file.
        threads: number of threads that the kernels were tuned for.
        self_test: a case for `model.py --selftest`.
        bound: inputs of the model's file, of one element each, that the model was made for a value
            of: other runtimes of the file need them.
        parts: option, name and package of the parts of the search that are not the default ones.

    Raises:
        ValueError: names the step and the value that do not fit.
    """

    name: str
    values: Mapping[str, ValueInfo]
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    weights: Mapping[str, Weight]
    views: Mapping[str, View]
    steps: tuple[Step, ...]
    kernels: tuple[ModelKernel, ...]
    source_digest: str = ""
    threads: int = 1
    hosted: tuple[HostedFunction, ...] = ()
    self_test: SelfTest | None = field(default=None, compare=False)
    bound: Mapping[str, Weight] = field(default_factory=dict)
    parts: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ValueError(f"cannot plan model {self.name!r} because {problem}")

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The sizes that a call decides, in the order of their first extents in inputs.

        Sums that no input has follow.
        """
        return dims_of_call(self.inputs, self.values)

    @cached_property
    def state(self) -> GrowingInputs | None:
        """The inputs to which the model appends rows, if nothing else reads them; else None."""
        readers = [self.roots[name] for step in self.steps for name in step.reads]
        outputs = {self.roots[one.value]: k for k, one in enumerate(self.outputs)}
        pairs: dict[tuple[Dim, Dim], list[tuple[int, int]]] = {}
        for step in self.steps:
            if not isinstance(step, CopyStep) or len(step.rows) != 2:
                continue
            past, made = self.roots[step.reads[0]], self.roots[step.writes[0]]
            own = past in self.inputs and made in outputs and readers.count(past) == 1
            if own and isinstance(step.rows[0].count, Dim) and self.is_whole(step.writes[0]):
                total = self.values[step.writes[0]].fixed_shape[step.axis]
                assert isinstance(total, Dim)
                key = step.rows[0].count, total
                pairs.setdefault(key, []).append((self.inputs.index(past), outputs[made]))
        if not pairs:
            return None
        (past_rows, all_rows), found = max(pairs.items(), key=lambda one: len(one[1]))
        return GrowingInputs(past_rows.name, all_rows.name, tuple(found))

    def sizes_of(self, step: KernelStep) -> tuple[int, ...]:
        """Return the numbers of the dims whose sizes a step passes, in the order of its kernel."""
        kernel = self.by_name[step.kernel]
        if not kernel.dims:
            return ()
        found: dict[str, Dim] = {}
        for name, shape in zip((*step.reads, *step.writes), kernel.extents, strict=True):
            found |= renaming(shape, self.values[name].fixed_shape) or {}
        return tuple(self.dims.index(found[one.name]) for one in kernel.dims)

    @cached_property
    def by_name(self) -> Mapping[str, ModelKernel]:
        """The kernels by name."""
        return {kernel.name: kernel for kernel in self.kernels}

    @cached_property
    def functions(self) -> Mapping[str, HostedFunction]:
        """The hosted functions by name."""
        return {function.name: function for function in self.hosted}

    @cached_property
    def spans(self) -> Mapping[str, "Span"]:
        """The bytes of each value: all of its own memory, unless it is a view."""
        spans = {}
        for name, info in self.values.items():
            root, at_bytes, seen = name, 0, {name}
            while root in self.views:
                view = self.views[root]
                at_bytes += view.at * SIZE_BYTES[info.dtype]
                root = view.of
                if root in seen:
                    raise ValueError(f"cannot plan model {self.name!r}: view {name!r} is of itself")
                seen.add(root)
            spans[name] = Span(root, at_bytes, info.size_bytes)
        return spans

    @cached_property
    def roots(self) -> Mapping[str, str]:
        """The value that owns the bytes of each value: itself unless it is a view."""
        return {name: span.root for name, span in self.spans.items()}

    def is_whole(self, name: str) -> bool:
        """Return True if a value has all bytes of the value that owns them."""
        span = self.spans[name]
        return span.size_bytes == self.values[span.root].size_bytes


@dataclass(frozen=True, slots=True)
class Span:
    """A run of bytes in the memory of a value."""

    root: str
    at_bytes: int
    size_bytes: int


class _Written:
    """The bytes that are written so far: sorted runs per root, neighbours merged."""

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[int, int]]] = {}

    def covers(self, span: Span) -> bool:
        """Return True if all bytes of a span are written."""
        begin, end = span.at_bytes, span.at_bytes + span.size_bytes
        return any(low <= begin and end <= high for low, high in self._runs.get(span.root, ()))

    def add(self, span: Span) -> bool:
        """Write a span; return False if a byte of it is written already."""
        runs = self._runs.setdefault(span.root, [])
        begin, end = span.at_bytes, span.at_bytes + span.size_bytes
        if any(low < end and begin < high for low, high in runs):
            return False
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*runs, (begin, end)]):
            if merged and merged[-1][1] == low:
                merged[-1] = merged[-1][0], high
            else:
                merged.append((low, high))
        self._runs[span.root] = merged
        return True


def _problems(plan: ModelPlan) -> Iterator[str]:
    """Yield a reason for each defect of a plan; the later checks rely on the earlier ones."""
    yield from _problems_of_names(plan)
    yield from _problems_of_kernels(plan)
    written = _Written()
    for name in (*plan.inputs, *plan.weights):
        written.add(plan.spans[name])
    for number, step in enumerate(plan.steps):
        place = f"step {number} ({_title(step)})"
        for name in step.reads:
            if name not in plan.values or not written.covers(plan.spans[name]):
                yield f"{place} reads {name!r}, which is not written before"
        for name in step.writes:
            if name not in plan.values or not written.add(plan.spans[name]):
                yield f"{place} writes {name!r}; expected a value that is not yet written"
        yield from (f"{place}: {problem}" for problem in _problems_of_step(plan, step))
    for output in plan.outputs:
        if output.value not in plan.values or not written.covers(plan.spans[output.value]):
            yield f"output {output.name!r} is {output.value!r}, which no step writes"


def _title(step: Step) -> str:
    match step:
        case KernelStep():
            return step.kernel
        case HostedStep():
            return step.function
        case CopyStep():
            return "copy"


def _problems_of_names(plan: ModelPlan) -> Iterator[str]:
    given = [*plan.inputs, *plan.weights, *plan.views]
    for name in given:
        if name not in plan.values:
            yield f"value {name!r} has no dtype and shape"
    if len(set(given)) < len(given):
        yield "two of its inputs, weights and views share a name"
    names = [output.name for output in plan.outputs]
    if len(set(names)) < len(names) or not names:
        yield f"its outputs are {names}; expected at least one, each name once"
    for name, view in plan.views.items():
        info, of = plan.values[name], plan.values.get(view.of)
        if of is None or info.dtype != of.dtype or not _is_part(info, of, view.at):
            yield f"view {name!r} has not the dtype and bytes of {view.of!r}"
    for name, weight in plan.weights.items():
        info = plan.values[name]
        if (weight.dtype, weight.shape) != (info.dtype, info.fixed_shape):
            yield f"weight {name!r} is {weight.dtype}{list(weight.shape)}; expected {info}"
    yield from _problems_of_dims(plan)


def _problems_of_dims(plan: ModelPlan) -> Iterator[str]:
    if len({one.name for one in plan.dims}) < len(plan.dims):
        yield f"its inputs have the dims {list(plan.dims)}; expected one range for each name"
    for name, info in plan.values.items():
        lacking = {*dims_in(info.shape)} - {*plan.dims}
        if lacking:
            yield f"value {name!r} has the dim {lacking.pop()!r}, which no input has"


def _problems_of_kernels(plan: ModelPlan) -> Iterator[str]:
    objects: dict[str, str] = {}
    for kernel in plan.kernels:
        library = kernel.library
        if not SYMBOL.fullmatch(library.prefix):
            yield f"kernel {kernel.name!r} has the prefix {library.prefix[:80]!r}"
        if objects.setdefault(library.prefix, library.object_sha256) != library.object_sha256:
            yield f"two kernels have the prefix {library.prefix}, and other machine code"
        if any(not 0 <= number < len(kernel.inputs) for number in kernel.weights):
            yield f"kernel {kernel.name!r} has {len(kernel.inputs)} inputs, not {kernel.weights}"
        if kernel.sizes != len(kernel.dims):
            yield f"kernel {kernel.name!r} takes {kernel.sizes} sizes, not of {kernel.dims}"
    for names, kind in (
        ([kernel.name for kernel in plan.kernels], "kernels"),
        ([function.name for function in plan.hosted], "hosted functions"),
    ):
        if len(set(names)) < len(names):
            yield f"two {kind} share a name"
    for function in plan.hosted:
        if not SYMBOL.fullmatch(function.name):
            yield f"hosted function {function.name[:80]!r} has no name of a function"


def _problems_of_step(plan: ModelPlan, step: Step) -> Iterator[str]:
    match step:
        case HostedStep():
            if step.function not in plan.functions:
                yield "there is no hosted function of this name"
            if not isinstance(json.loads(step.attributes), dict):
                yield f"attributes are {step.attributes[:80]}; expected a JSON object"
        case CopyStep():
            yield from _problems_of_rows(plan, step)
        case KernelStep() if step.kernel not in plan.by_name:
            yield "there is no kernel of this name"
        case KernelStep():
            yield from _problems_of_call(plan, step, plan.by_name[step.kernel])


def _problems_of_rows(plan: ModelPlan, step: CopyStep) -> Iterator[str]:
    goal = plan.values[step.writes[0]]
    for rows in step.rows:
        source = plan.values[step.reads[rows.read]]
        shapes = [
            (*one.fixed_shape[: step.axis], *one.fixed_shape[step.axis + 1 :])
            for one in (source, goal)
        ]
        if shapes[0] != shapes[1] or source.dtype != goal.dtype:
            yield f"{source.name!r} has other axes than {goal.name!r}"
        lacking = {*dims_in((rows.start, rows.goal, rows.count))} - {*plan.dims}
        if lacking:
            yield f"it copies by the dim {lacking.pop()!r}, which no input has"
        for first, info in ((rows.start, source), (rows.goal, goal)):
            if int(first) + int(rows.count) > info.fixed_shape[step.axis]:
                yield f"{info.name!r} has fewer rows than it copies"


def _problems_of_call(plan: ModelPlan, step: KernelStep, kernel: ModelKernel) -> Iterator[str]:
    shapes = list(kernel.extents)
    sizes: dict[str, Dim] = {}
    for names, buffers in ((step.reads, kernel.inputs), (step.writes, kernel.outputs)):
        if len(names) != len(buffers):
            yield f"{len(names)} values for {len(buffers)} arguments"
        for name, buffer in zip(names, buffers, strict=False):
            value, shape = plan.values[name], shapes.pop(0)
            dims = renaming(shape, value.fixed_shape)
            if value.dtype != buffer.dtype or dims is None:
                yield (
                    f"{name!r} is {value.dtype}{list(value.fixed_shape)};"
                    f" expected {buffer.dtype}{list(shape)}"
                )
            for own, dim in (dims or {}).items():
                if sizes.setdefault(own, dim) != dim:
                    yield f"{name!r} has {dim!r} as {own}; expected {sizes[own]!r}"
    for number in kernel.weights:
        if plan.roots[step.reads[number]] not in plan.weights:
            yield f"argument {number} is packed ahead, and {step.reads[number]!r} no weight"


def _is_part(info: ValueInfo, of: ValueInfo, at: int) -> bool:
    """Return True if a value may be the elements of another one from `at` on."""
    part, whole = info.fixed_shape, of.fixed_shape
    if dims_in((*part, *whole)):
        return is_within(part, whole, at)
    return 0 <= at <= prod(whole) - prod(part)
