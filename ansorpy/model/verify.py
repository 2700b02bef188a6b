"""Verification of a whole model: a bundle against ONNX Runtime or the interpreter of graphs.

ONNX Runtime with its optimiser off is the reference if it is installed and the model came from a
file; its optimised session tells how far another order of sums may move a result. The reference is
the interpreter otherwise.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.artifact.harness import widened
from ansorpy.bundle.plan import SelfTest
from ansorpy.errors import RunError
from ansorpy.expr.dtypes import FLOATS, UNIT_ROUNDOFF
from ansorpy.graph.graph import Array, Graph
from ansorpy.graph.interp import run
from ansorpy.measure.timing.turn_process import TurnProcess
from ansorpy.model.race import PREPARE_S, Entry, command_of, distance, to_prepare

OWN_ERROR: Final = 4.0  # times the error of ONNX Runtime's optimiser that ours may be
LEAST_BOUND: Final = 2e-5  # share of the largest element: rounding of float32 over a deep model
NARROW_ROUNDINGS: Final = 16.0  # roundings of float16 or bfloat16 that a deep model adds up
WHOLE_NUMBERS: Final = 2  # exclusive limit of random integers that index nothing


@dataclass(frozen=True, slots=True)
class ModelReference:
    """Inputs of a model with the outputs that are right, and how far a result may be off.

    Args:
        bound: the largest difference allowed, as a share of the largest element of an output.
        source: the name of the oracle.
        dtypes: of the outputs; arrays of bfloat16 are uint16 bit patterns.
    """

    inputs: Mapping[str, Array]
    outputs: tuple[Array, ...]
    bound: float
    source: str
    dtypes: tuple[str, ...]

    @property
    def self_test(self) -> SelfTest:
        """The reference as the test of a bundle."""
        largest = [
            float(np.max(np.abs(one), initial=0.0, where=np.isfinite(one)))
            if dtype in FLOATS
            else 0.0
            for dtype, one in (
                (t, widened(a, t)) for t, a in zip(self.dtypes, self.outputs, strict=True)
            )
        ]
        bounds = tuple(self.bound * one for one in largest)
        return SelfTest(tuple(self.inputs.values()), self.outputs, bounds)


def reference_of(graph: Graph, file: Path | None, seed: int) -> ModelReference:
    """Return inputs and right outputs of a model.

    Args:
        graph: as imported: before passes.
        file: the ONNX file that the graph was read from, None if there is none.

    Raises:
        GraphError: the interpreter cannot run the graph.
    """
    inputs = random_inputs(graph, np.random.default_rng(seed))
    if file is not None and find_spec("onnxruntime") is not None:
        given = {**inputs, **{name: weight.array for name, weight in graph.bound.items()}}
        try:
            plain = outputs_of(Entry("ort_plain", file), given, 1)
            optimised = outputs_of(Entry("ort", file), given, 1)
        except RunError:  # operators or dtypes that it does not have
            pass
        else:
            bound = max(OWN_ERROR * distance(optimised, plain), least_bound(graph))
            name = "ONNX Runtime without its optimiser"
            return ModelReference(inputs, tuple(plain), bound, name, dtypes_of(graph))
    outputs = run(graph, inputs)
    ordered = tuple(outputs[output.name] for output in graph.outputs)
    name = "the interpreter of graphs"
    return ModelReference(inputs, ordered, least_bound(graph), name, dtypes_of(graph))


def dtypes_of(graph: Graph) -> tuple[str, ...]:
    """Return the dtypes of the outputs of a graph."""
    return tuple(graph.values[output.value].dtype for output in graph.outputs)


def least_bound(graph: Graph) -> float:
    """Return the difference that rounding explains, as a share of the largest element."""
    narrow = {value.dtype for value in graph.values.values()} & {"float16", "bfloat16"}
    return max([LEAST_BOUND, *(NARROW_ROUNDINGS * UNIT_ROUNDOFF[dtype] for dtype in narrow)])


def error_of(bundle: Path, reference: ModelReference, threads: int) -> float:
    """Return the largest error of a bundle as a share of the largest element.

    Raises:
        RunError: the bundle cannot be run.
    """
    found = outputs_of(Entry("ansorpy", bundle), reference.inputs, threads)
    return distance(found, reference.outputs, reference.dtypes)


def outputs_of(entry: Entry, inputs: Mapping[str, Array], threads: int) -> list[Array]:
    """Return the outputs of one runtime, which runs in a process of its own.

    Raises:
        RunError: it fails, or does not take these inputs.
    """
    with tempfile.TemporaryDirectory(prefix="ansorpy-verify-") as name:
        folder = Path(name)
        asked = to_prepare(inputs, folder, "outputs.npz")
        with (
            (folder / "log").open("wb") as log,
            TurnProcess(command_of(entry, threads), log) as one,
        ):
            answer = one.ask(asked, PREPARE_S)
        if "failed" in answer:
            raise RunError(f"cannot run {entry.file.name} with {entry.runtime}: {answer['failed']}")
        with np.load(folder / "outputs.npz", allow_pickle=False) as file:
            return [file[key] for key in file.files]


def random_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    """Return an array for each input: normal floats; integers that index a table are in range."""
    found: dict[str, Array] = {}
    for name in graph.inputs:
        value = graph.values[name]
        shape, dtype = value.fixed_shape, value.dtype
        if dtype == "bfloat16":
            floats = rng.standard_normal(shape).astype(np.float32)
            found[name] = (floats.view(np.uint32) >> 16).astype(np.uint16)
        elif dtype.startswith("float"):
            found[name] = rng.standard_normal(shape).astype(dtype)
        else:
            found[name] = rng.integers(0, _limit(graph, name), shape).astype(dtype)
    return found


def _limit(graph: Graph, name: str) -> int:
    """Return the exclusive limit of random integers of an input: the extent that it indexes."""
    extents: Sequence[int] = [
        graph.values[node.inputs[0]].fixed_shape[int(str(node.attrs.get("axis", 0)))]
        for node in graph.readers.get(name, ())
        if node.op == "Gather" and node.inputs[1] == name
    ]
    return min(extents, default=WHOLE_NUMBERS)
