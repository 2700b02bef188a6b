"""Oracles of a model file that share nothing with our importer, graph and kernels.

ONNX Runtime and the reference evaluator of onnx. An oracle is asked only about models that it is
known to compute as the text of their operators says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ansorpy.libraries import with_version
from ansorpy.model.race import Entry

# Products of integers, and the input that weights come in. Without VNNI, ONNX Runtime adds pairs of
# products of uint8 and int8 in 16 bits, which saturate. `session.x64quantprecision` mends that for
# constant weights, but for zero points of QLinearMatMul and pads of ConvInteger.
INTEGER_PRODUCTS: Final[Mapping[str, int]] = {
    "MatMulInteger": 1, "ConvInteger": 1, "QLinearMatMul": 3, "QLinearConv": 3,
}  # fmt: skip
INEXACT_PRODUCTS: Final = frozenset({"ConvInteger", "QLinearMatMul"})

NEVER: Final = 1 << 30
# The first opset at which onnx.reference computes an operator as its text says. Most of these have
# one implementation for all versions.
REFERENCE_FROM: Final[Mapping[str, int]] = {
    "Softmax": 13, "Hardmax": 13, "Resize": 18, "Upsample": NEVER, "GridSample": 20,
    "RoiAlign": 16, "Scan": 9, "GroupNormalization": 21,
    "AveragePool": 7,  # counts pads before
    "BatchNormalization": 14,  # takes older versions for training
    "GlobalMaxPool": NEVER,  # drops axes
    "LogSoftmax": NEVER,  # underflows to -inf
    "LpNormalization": NEVER,  # sums without absolute values
    "LpPool": NEVER,
    "LRN": NEVER,  # leaves out all channels but the first
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Oracle:
    """An independent program that computes a model.

    Args:
        entries: of the reference, then of a second opinion of the same program, if it has one:
            the distance of the two tells how far an order of operations may move a result.
        wide: inputs and outputs that are narrower in the model are float32.
    """

    name: str
    entries: tuple[Entry, ...]
    wide: bool = False


def oracles_of(file: Path, folder: Path, refusals: list[str]) -> Iterator[Oracle]:
    """Yield the oracles of a model file, the best first.

    Args:
        folder: takes a copy of the model in float32, if one is needed.
        refusals: gets a reason for each oracle that is not asked.
    """
    import onnx

    from ansorpy.importers.onnx_widen import narrow_codes, widen

    model = onnx.load_model(file, load_external_data=False)
    narrow = narrow_codes(model)
    wide = folder / "wide.onnx"

    def widened() -> Path:
        if not wide.exists():
            made = onnx.load_model(file)
            widen(made)
            onnx.save_model(made, wide, save_as_external_data=True, location="wide.data")
        return wide

    if find_spec("onnxruntime") is None:
        refusals.append("onnxruntime is not installed")
    elif reason := _misfit_of_runtime(model):
        refusals.append(f"ONNX Runtime is wrong about {reason}")
    else:
        plain, exact = "ort_plain", "ort_exact"
        names = (exact,) if _products(model) else (plain, exact)
        whole = onnx.TensorProto.BFLOAT16 in narrow  # it has few kernels for bfloat16
        path = widened() if whole else file
        entries = tuple(Entry(name, path) for name in names)
        yield Oracle(with_version("onnxruntime"), entries, whole)
    if reason := _misfit_of_reference(model):
        refusals.append(f"onnx.reference is wrong about {reason}")
    else:
        path = widened() if narrow else file
        entry = Entry("onnx_reference", path)
        yield Oracle(f"onnx.reference {version('onnx')}", (entry,), bool(narrow))


def _products(model: Any) -> bool:
    from ansorpy.importers.onnx_bodies import nodes_of

    return any(node.op_type in INTEGER_PRODUCTS for node in nodes_of(model))


def _misfit_of_runtime(model: Any) -> str:
    """Return the operators for which ONNX Runtime is known to be wrong, "" for none."""
    from ansorpy.importers.onnx_bodies import nodes_of

    known = {tensor.name for tensor in model.graph.initializer}
    known |= {n.output[0] for n in nodes_of(model) if n.op_type == "Constant"}
    for node in nodes_of(model):
        at = INTEGER_PRODUCTS.get(node.op_type)
        if node.op_type in INEXACT_PRODUCTS or (at is not None and node.input[at] not in known):
            return f"this {node.op_type} on processors without VNNI"
    return _resize_of_integers(model)


def _resize_of_integers(model: Any) -> str:
    """Return an operator that resizes integers, "" if there is none.

    Both programs truncate a weighted sum that is a rounding below a whole number: a constant image
    of 93 has elements of 92.
    """
    import onnx

    from ansorpy.importers.onnx_bodies import nodes_of

    resized = [node for node in nodes_of(model) if node.op_type in ("Resize", "Upsample")]
    if not resized:
        return ""
    graph = onnx.shape_inference.infer_shapes(model).graph
    codes = {one.name: one.data_type for one in graph.initializer}
    for value in (*graph.input, *graph.value_info):
        codes[value.name] = value.type.tensor_type.elem_type
    floats = (0, onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    found = [node for node in resized if codes.get(node.input[0], 0) not in floats]
    return f"{found[0].op_type} of integers" if found else ""


def _misfit_of_reference(model: Any) -> str:
    """Return the operators for which onnx.reference is known to be wrong, "" for none."""
    from ansorpy.importers.onnx_bodies import nodes_of

    versions = [model, *model.functions]
    least = min(
        (one.version for part in versions for one in part.opset_import if not one.domain), default=1
    )
    for node in nodes_of(model):
        first = REFERENCE_FROM.get(node.op_type, 0)
        if least < first:
            return node.op_type + (f" before opset {first}" if first < NEVER else "")
        if _is_odd(node):
            return f"this {node.op_type}"
    return _resize_of_integers(model)


def _is_odd(node: Any) -> bool:
    """Return True for a node whose attributes onnx.reference does not respect as the text says."""
    from onnx.helper import get_attribute_value

    attrs = {one.name: get_attribute_value(one) for one in node.attribute}
    automatic = attrs.get("auto_pad", b"NOTSET") != b"NOTSET"
    if node.op_type in ("RNN", "GRU", "LSTM"):
        return not attrs.keys().isdisjoint(("activations", "clip", "input_forget"))
    if node.op_type == "GridSample":  # it clamps the point, not each tap
        cubic = attrs.get("mode") in (b"cubic", b"bicubic")
        return cubic and attrs.get("padding_mode") == b"border"
    if node.op_type == "ConvTranspose":
        return bool(automatic or attrs.get("group", 1) != 1)
    if node.op_type == "MaxPool":
        pads = attrs.get("pads", [])
        uneven = pads[: len(pads) // 2] != pads[len(pads) // 2 :]
        return bool(automatic or uneven or attrs.get("ceil_mode", 0) or len(node.output) > 1)
    return False
