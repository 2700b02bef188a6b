"""Simplify a model file: read, run the passes, write, and compare with the original."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from ansorpy.errors import GraphError
from ansorpy.expr.dtypes import FLOATS, INTS
from ansorpy.graph import Graph, Weight
from ansorpy.graph.graph import Array
from ansorpy.graph.interp import run
from ansorpy.graph.merge import sampled
from ansorpy.graph.passes import PASSES, Firing, simplify
from ansorpy.graph.sizes import at_sizes
from ansorpy.graph.wire.document import Document
from ansorpy.importers.model_file import read_model
from ansorpy.model.home import home_model
from ansorpy.te.dims import own_sizes
from ansorpy.te.tensor_data import checked_array

# Share of the largest element of an output by which two evaluations may differ: some ten times
# the change of ONNX Runtime's optimiser on networks (1e-9 to 1e-6, 24 Nov 2026).
ERROR_SHARE: Final = 2e-5

OWN_ERRORS: Final = 4.0  # times the error of the original, for models that amplify roundings


@dataclass(frozen=True, slots=True)
class Comparison:
    """The largest difference of the outputs of two models on random inputs.

    Args:
        by: the evaluator: "onnx.reference", which is not ours, or "ansorpy's interpreter" if the
            former cannot run the model.
        error: a share of the largest element of an output.
        before, after: if `error` exceeds ERROR_SHARE, the shares by which the two models differ
            from the meaning of the original in float64, otherwise None.
    """

    by: str
    error: float
    before: float | None = None
    after: float | None = None

    @property
    def equal(self) -> bool:
        """True if the error is within ERROR_SHARE, or within OWN_ERRORS of the original's own."""
        if self.before is None or self.after is None:
            return self.error <= ERROR_SHARE
        return self.after <= max(ERROR_SHARE, OWN_ERRORS * self.before)


@dataclass(frozen=True, slots=True)
class SimplifiedFile:
    """The numbers of nodes of a model file by operator, before and after the passes that fired."""

    before: Counter[str]
    after: Counter[str]
    fired: tuple[Firing, ...]
    comparison: Comparison


def simplify_file(
    source: Path,
    target: Path,
    bind: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    exact: bool = False,
) -> SimplifiedFile:
    """Write the simplified model of `source` to `target` if both compute the same.

    Args:
        bind, shapes: as `read_model` takes them.
        exact: leave out passes that change roundings.

    Raises:
        GraphError: the source is no model, the target is the source or cannot be written, or the
            two models differ; the target is then not written.
    """
    if target.exists() and source.exists() and target.samefile(source):
        raise GraphError(f"cannot write {target} because it is the input; expected another file")
    graph = read_model(source, bind, shapes, hosted=True)
    simplified = simplify(graph, [one for one in PASSES if one.exact or not exact])
    from ansorpy.importers.onnx_write import operator_counts, write_model

    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        write_model(simplified.graph, part)
        comparison = compared(source, graph, part, bind or {})
        if not comparison.equal:
            raise GraphError(
                f"cannot write {target} because an output of the simplified model differs by"
                f" {comparison.error:.1e} of its largest element, by {comparison.by}; expected at"
                f" most {ERROR_SHARE:.0e}: `exact` leaves out passes that change roundings"
            )
        after = operator_counts(part)
        part.replace(target)
    except OSError as error:
        raise GraphError(
            f"cannot write {target} because of {error.strerror}; expected a writable folder"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return SimplifiedFile(operator_counts(source), after, simplified.fired, comparison)


def write_document(
    source: Path,
    target: Path,
    bind: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Document:
    """Write the simplified graph of `source` without the values of its weights; return it.

    Args:
        bind, shapes: as `read_model` takes them.

    Raises:
        SpecError: the source is no model, or the target cannot be written.
    """
    document = home_model(source, bind, shapes).sent.document
    try:
        target.write_text(document.text, encoding="utf-8")
    except OSError as error:
        raise GraphError(
            f"cannot write {target} because of {error.strerror}; expected a writable folder"
        ) from error
    return document


def compared(
    source: Path,
    graph: Graph,
    target: Path,
    bind: Mapping[str, float],
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> Comparison:
    """Compare two model files on random inputs; with dims at several sizes, and return the worst.

    Args:
        graph: the graph of the source; the interpreter runs it.
        bind: values of inputs that the source has and the target has not.
        sizes: of symbols of the target.

    Raises:
        GraphError: neither evaluator can run the models.
    """
    from ansorpy.importers.onnx_run import input_dtypes, reference_run

    if graph.dims:
        each = [
            compared(source, at_sizes(graph, some), target, bind, own_sizes(graph.dims, some))
            for some in sampled(graph.dims)
        ]
        return max(each, key=lambda one: (not one.equal, one.error))
    inputs = random_inputs(graph)
    bound = {
        name: np.array(bind[name], dtype).reshape(shape)
        for name, (dtype, shape) in input_dtypes(source).items()
        if name in bind
    }
    try:
        old, new = reference_run(source, {**inputs, **bound}), reference_run(target, inputs)
        by = "onnx.reference"
    except GraphError:
        old, new = run(graph, inputs), run(read_model(target, sizes, hosted=True), inputs)
        by = "ansorpy's interpreter"
    error = _worst(old, new)
    if error <= ERROR_SHARE:
        return Comparison(by, error)
    exact = {
        name: one.astype(old[name].dtype) if one.dtype != old[name].dtype else one
        for name, one in run(in_float64(graph), _in_float64(inputs)).items()
    }
    return Comparison(by, error, _worst(exact, old), _worst(exact, new))


def in_float64(graph: Graph) -> Graph:
    """Return a graph that computes in float64 where the graph computes in narrower floats."""

    def wide(dtype: str) -> str:
        return "float64" if dtype in FLOATS else dtype

    return replace(
        graph,
        nodes=tuple(
            replace(node, attrs={**node.attrs, "to": wide(str(node.attrs["to"]))})
            if "to" in node.attrs else node
            for node in graph.nodes
        ),
        values={name: replace(one, dtype=wide(one.dtype)) for name, one in graph.values.items()},
        weights={
            name: Weight.of(checked_array(one.array, one.dtype, name).astype(np.float64))
            if one.dtype in FLOATS else one
            for name, one in graph.weights.items()
        },
    )  # fmt: skip


def _in_float64(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {
        name: one.astype(np.float64) if one.dtype.kind == "f" else one
        for name, one in arrays.items()
    }


def _worst(old: Mapping[str, Array], new: Mapping[str, Array]) -> float:
    return max((_error(one, new[name]) for name, one in old.items()), default=0.0)


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Return an array for each input: normal floats, and integers 0 and 1, which index tables."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name in graph.inputs:
        value = graph.values[name]
        if value.dtype == "bfloat16":
            raise GraphError(
                f"cannot draw input {name!r} because NumPy has no bfloat16; expected another dtype"
            )
        shape = value.fixed_shape
        if value.dtype in FLOATS:
            arrays[name] = rng.standard_normal(shape).astype(value.dtype)
        else:
            assert value.dtype in INTS or value.dtype == "bool"
            arrays[name] = rng.integers(0, 2, shape).astype(value.dtype)
    return arrays


def _error(left: Array, right: Array) -> float:
    """Return the largest difference as a share of the largest finite element."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return float("inf")
    if left.dtype.kind != "f":
        return 0.0 if np.array_equal(left, right) else float("inf")
    finite = np.isfinite(left)
    if not np.array_equal(finite, np.isfinite(right)):
        return float("inf")
    if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
        return float("inf")
    apart = float(np.max(np.abs(left[finite].astype(float) - right[finite]), initial=0.0))
    largest = float(np.max(np.abs(left[finite]), initial=0.0))
    return apart / largest if largest else apart
