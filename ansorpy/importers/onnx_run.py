"""Run a model file by the reference implementation of ONNX, which is not ours."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ansorpy.errors import GraphError
from ansorpy.graph.graph import Array
from ansorpy.importers.onnx_file import OPSET
from ansorpy.importers.onnx_old import converted
from ansorpy.importers.onnx_values import KINDS


def reference_run(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a model by name.

    The reader of models has checked the file, and the places of external data, before. An older
    model goes through the version converter: the reference takes older opsets for the newest
    (it differs from ONNX Runtime on squeezenet, opset 9, and ppocr_cls, opset 11).

    Args:
        inputs: an array per input; arrays of other names are left out.

    Raises:
        GraphError: the reference implementation cannot run the model.
    """
    try:
        model = onnx.load_model(path)
        if _opset(model) < OPSET:
            model = converted(model, _opset(model), OPSET) or onnx.ModelProto()
        names = {value.name for value in model.graph.input}
        session = ReferenceEvaluator(model)
        with np.errstate(all="ignore"):
            arrays = session.run(None, {name: one for name, one in inputs.items() if name in names})
    except Exception as error:  # NumPy's and its own, of any class
        raise GraphError(
            f"cannot run {path.name} because onnx.reference says {str(error)[:200]!r};"
            " expected a model that it can run"
        ) from error
    outputs = [value.name for value in model.graph.output]
    return {name: np.asarray(one) for name, one in zip(outputs, arrays, strict=True)}


def _opset(model: onnx.ModelProto) -> int:
    return max((one.version for one in model.opset_import if not one.domain), default=OPSET)


def input_dtypes(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the dtype and shape of each input with fixed extents of a model file."""
    graph = onnx.load_model(path, load_external_data=False).graph
    dtypes: dict[str, tuple[str, tuple[int, ...]]] = {}
    for value in graph.input:
        kind = value.type.tensor_type
        if kind.elem_type in KINDS and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            shape = tuple(dim.dim_value for dim in kind.shape.dim)
            dtypes[value.name] = KINDS[kind.elem_type], shape
    return dtypes
