"""Models of older operator sets: the version converter of onnx, and the meanings that it loses."""

from collections.abc import Mapping, Sequence
from typing import Final

import onnx

from ansorpy.importers.onnx_bodies import graphs_of

Defaults = Mapping[str, str | float]

OPSET_WITH_RESIZE: Final = 10  # Upsample is a Resize from here on; the converter drops attributes
BEFORE_11: Final = "floor_or_ceil"  # the nearest_mode of a Resize: ceil on axes that shrink

# Attributes that a later operator set has, or has with another default, by the opset that changed.
DEFAULTS: Final[tuple[tuple[str, int, Defaults], ...]] = (
    ("Selu", 6, {"alpha": 1.6732, "gamma": 1.0507}),
    ("Resize", 11, {
        "coordinate_transformation_mode": "asymmetric", "nearest_mode": BEFORE_11,
    }),
    ("RoiAlign", 16, {"coordinate_transformation_mode": "output_half_pixel"}),
)  # fmt: skip
MATRIX_UNTIL: Final = 13  # the opset in which operators of rows take an axis in place of a matrix
ROWS: Final = ("Hardmax", "Softmax", "LogSoftmax")  # the converter knows all but the first


NUMBERED_FROM: Final = 6  # the opset in which Cast names a dtype by number, not by word
PADS_FROM: Final = 2  # the opset in which Pad has `pads`, not `paddings`
SCALES_FROM: Final = 7  # the opset in which Upsample takes a scale of every axis
RECURRENT: Final = ("RNN", "GRU", "LSTM")
WITHOUT_SEQUENCE: Final = 7  # the opset in which recurrent layers lose `output_sequence`


def converted(model: onnx.ModelProto, opset: int, to: int) -> onnx.ModelProto | None:
    """Return a model of another opset that computes the same; None if the converter refuses it.

    The model itself may be changed.
    """
    try:
        if opset < OPSET_WITH_RESIZE:
            model = onnx.version_converter.convert_version(model, OPSET_WITH_RESIZE)
        state_meanings(model, opset, ROWS[:1])
        return onnx.version_converter.convert_version(model, to)
    except (RuntimeError, ValueError, onnx.version_converter.ConvertError):
        return None


def state_meanings(model: onnx.ModelProto, opset: int, rows: Sequence[str] = ROWS) -> None:
    """Change a model of an older opset so that its nodes mean the same in a newer one."""
    implied = {op: defaults for op, before, defaults in DEFAULTS if opset < before}
    for graph in graphs_of(model.graph):
        for node in graph.node:
            given = {one.name for one in node.attribute}
            _rename(node, opset)
            for name, value in implied.get(node.op_type, {}).items():
                if name not in given:
                    node.attribute.append(onnx.helper.make_attribute(name, value))
        if opset < MATRIX_UNTIL:
            nodes = [made for node in graph.node for made in _by_matrix(node, rows)]
            del graph.node[:]
            graph.node.extend(nodes)


def _rename(node: onnx.NodeProto, opset: int) -> None:
    """Give a node the attributes of newer opsets that say the same.

    `output_sequence` tells if an output is wanted, as its name does.
    """
    if node.op_type in RECURRENT and opset < WITHOUT_SEQUENCE:
        left = [one for one in node.attribute if one.name != "output_sequence"]
        del node.attribute[:]
        node.attribute.extend(left)
    if node.op_type == "Pad" and opset < PADS_FROM:
        for attribute in node.attribute:
            attribute.name = "pads" if attribute.name == "paddings" else attribute.name
    if node.op_type == "Upsample" and opset < SCALES_FROM:
        by_name = {one.name: one.f for one in node.attribute}
        scales = [1.0, 1.0, *(by_name.pop(f"{side}_scale", 1.0) for side in ("height", "width"))]
        left = [one for one in node.attribute if one.name in by_name]
        del node.attribute[:]
        node.attribute.extend([*left, onnx.helper.make_attribute("scales", scales)])
    if node.op_type in ("Upsample", "Resize") and opset < SCALES_FROM:
        modes = [one for one in node.attribute if one.s == b"bilinear"]
        for attribute in modes:  # in two dimensions: linear of later versions
            attribute.s = b"linear"
    if node.op_type == "Cast" and opset < NUMBERED_FROM:
        known = onnx.TensorProto.DataType
        for attribute in node.attribute:
            word = attribute.s.decode(errors="replace").upper()
            if attribute.name == "to" and word in known.keys():  # noqa: SIM118  an enum of protobuf
                attribute.CopyFrom(onnx.helper.make_attribute("to", known.Value(word)))


def _by_matrix(node: onnx.NodeProto, rows: Sequence[str]) -> Sequence[onnx.NodeProto]:
    """Return a node, or the nodes by which an operator of rows takes a matrix.

    The matrix is [product of the extents before `axis`, product of the others].
    """
    if node.op_type not in rows:
        return [node]
    make, (x,), (y,) = onnx.helper.make_node, node.input, node.output
    axis = next((one.i for one in node.attribute if one.name == "axis"), 1)
    shape, flat, made = (f"{y}:{part}" for part in ("shape", "matrix", "rows"))
    return [
        make("Shape", [x], [shape]), make("Flatten", [x], [flat], axis=axis),
        make(node.op_type, [flat], [made], node.name, axis=-1), make("Reshape", [made, shape], [y]),
    ]  # fmt: skip
