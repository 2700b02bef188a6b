"""The node tests of ONNX: the cases that say something about an inference compiler of tensors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.test.case.base import Base
from onnx.backend.test.loader import load_model_tests

from ansorpy.errors import UnknownValueError
from ansorpy.graph import Graph
from ansorpy.graph.interp import Compute, reference, run
from ansorpy.graph.passes import Pass, simplify
from ansorpy.importers.onnx_file import graph_of_model
from ansorpy.importers.onnx_values import KINDS

Array = NDArray[Any]
CONTROL: Final = ("Loop", "Scan", "If", "SequenceMap")
UNFIT: Final = (  # random, or for training
    "Bernoulli", "Multinomial", "NegativeLogLikelihoodLoss", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike", "SoftmaxCrossEntropyLoss",
)  # fmt: skip
LARGE: Final = (  # pools of 2 x 2 x 2 over 32 x 32 x 32 elements of 3 channels
    "export_averagepool_3d_default", "export_lppool_3d_default", "export_maxpool_3d_default",
)  # fmt: skip
MOST_BOUND: Final = 64  # elements of an input whose values the model is made for


@dataclass(frozen=True)
class NodeCase:
    """A model, sets of its inputs and outputs, and the tolerance of the outputs."""

    name: str
    model: onnx.ModelProto
    sets: Sequence[tuple[Sequence[Array], Sequence[Array]]]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        """The operator of a model of one node; "(several)" for others."""
        nodes = self.model.graph.node
        return nodes[0].op_type if len(nodes) == 1 else "(several)"

    def graph(self, inputs: Mapping[str, Array], hosted: bool = False) -> Graph:
        """Return the graph of the model, made for the values of inputs that shapes depend on."""
        bound: dict[str, Array] = {}
        while True:
            try:
                return graph_of_model(self.model, constants=bound, hosted=hosted)
            except UnknownValueError as error:
                more = _values_to_bind(error.value, inputs, bound)
                if not more:
                    raise
                bound |= more

    def inputs(self, number: int) -> dict[str, Array]:
        """Return the inputs of a set by name; bfloat16 as bit patterns."""
        names = [value.name for value in self.model.graph.input]
        return {name: _stored(one) for name, one in zip(names, self.sets[number][0], strict=False)}


def cases(large: bool = True) -> Iterator[NodeCase]:
    """Yield the cases of plain tensors and inference.

    Args:
        large: also LARGE, whose outputs onnx computes for most of the time; the first call of a
            process decides.
    """
    exporter = type(Base)
    with nullcontext() if large else patch.object(exporter, "__init__", _export_small):
        found = load_model_tests(kind="node")
    for one in found:
        if one.model is None or one.data_sets is None or _is_unfit(one):
            continue
        sets = [tuple([_array(x) for x in part] for part in pair) for pair in one.data_sets]
        yield NodeCase(one.name, one.model, sets, one.rtol, one.atol)  # type: ignore[arg-type]


def _export_small(cls: Any, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
    """Make the cases of an operator as onnx does, without LARGE and the texts for its manual."""
    for key in members:
        if key.startswith("export") and key not in LARGE:
            np.random.seed(seed=0)  # noqa: NPY002 - as onnx does
            getattr(cls, key)()


def difference(
    case: NodeCase,
    compute: Compute = reference,
    hosted: bool = False,
    passes: Sequence[Pass] = (),
) -> tuple[str, Graph]:
    """Run a case; return how the outputs differ from the wanted ones ("" if not), and the graph.

    Args:
        passes: run on the graph before it is computed.

    Raises:
        GraphError: the model cannot be compiled.
    """
    for number, (_, wanted) in enumerate(case.sets):
        inputs = case.inputs(number)
        graph = simplify(case.graph(inputs, hosted), passes).graph
        found = run(graph, {name: inputs[name] for name in graph.inputs}, compute)
        for one, value, truth in zip(graph.outputs, found.values(), wanted, strict=True):
            dtype = graph.values[one.value].dtype
            text = _apart(_numbers(value, dtype), truth, dtype, case)
            if text:
                return f"output {one.name}: {text}", graph
    return "", graph


def _apart(result: Array, truth: Array, dtype: str, case: NodeCase) -> str:
    if dtype != truth.dtype.name or result.shape != truth.shape:
        return f"{dtype} {result.shape}, not {truth.dtype.name} {truth.shape}"
    wide = truth.astype(np.float64) if truth.dtype.kind not in "iub" else truth
    try:
        np.testing.assert_allclose(result, wide, case.rtol, case.atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return ""


def _values_to_bind(
    value: str, inputs: Mapping[str, Array], bound: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the input whose values are needed, or all small integer inputs it may come from."""
    if value in inputs:
        small = value not in bound and inputs[value].size <= MOST_BOUND
        return {value: inputs[value]} if small else {}
    return {
        name: array
        for name, array in inputs.items()
        if name not in bound and array.dtype.kind in "iu" and array.size <= MOST_BOUND
    }


def _is_unfit(case: Any) -> bool:
    graph = case.model.graph
    for value in (*graph.input, *graph.output):
        if value.type.WhichOneof("value") != "tensor_type":
            return True
        if value.type.tensor_type.elem_type not in KINDS:
            return True
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type in (*CONTROL, *UNFIT):
            return True
    if "training" in case.name:
        return True
    pairs = [pair for data in case.data_sets or () for pair in data]
    return any(getattr(array, "size", 1) == 0 for arrays in pairs for array in arrays)


def _array(value: Any) -> Array:
    return (
        onnx.numpy_helper.to_array(value)
        if isinstance(value, onnx.TensorProto)
        else (np.asarray(value))
    )


def _stored(array: Array) -> Array:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _numbers(array: Array, dtype: str) -> Array:
    """Return an array in storage form as numbers; floats as float64."""
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64) if array.dtype.kind == "f" else array
