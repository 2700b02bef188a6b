"""Tensors, attributes and dtypes of ONNX in the types of ansorpy."""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from ansorpy.errors import GraphError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph import Weight
from ansorpy.graph.graph import Array, Attribute
from ansorpy.te.tensor_data import storage

KINDS: Final[Mapping[int, str]] = {
    onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16", onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.INT8: "int8", onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.INT16: "int16", onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.INT32: "int32", onnx.TensorProto.UINT32: "uint32",
    onnx.TensorProto.INT64: "int64", onnx.TensorProto.UINT64: "uint64",
    onnx.TensorProto.BOOL: "bool",
}  # fmt: skip
CODES: Final[Mapping[str, int]] = {name: code for code, name in KINDS.items()}
DTYPE_ATTRIBUTES: Final = (
    "to",
    "dtype",
    "output_dtype",
    "output_datatype",
)  # integers that name a dtype
MOST_PARTS: Final = 1 << 16  # numbers, texts or characters of an attribute
KEPT_VALUES: Final = 1024  # elements; larger weights do not go through the version converter
LARGEST_DENSE: Final = 1 << 30  # bytes; a sparse tensor of some bytes must not fill the memory
LARGEST_TENSOR: Final = 1 << 34  # bytes; larger tensors do not occur in models for one machine


def dtype_of(code: int, place: str) -> str:
    """Return the dtype of a code of ONNX.

    Raises:
        GraphError: ansorpy has no such dtype.
    """
    if code not in KINDS:
        known = onnx.TensorProto.DataType.values()
        shown = onnx.TensorProto.DataType.Name(code) if code in known else str(code)
        raise GraphError(
            f"cannot import {place} because its dtype is {shown}; expected {', '.join(CODES)}"
        )
    return KINDS[code]


def weight_of(tensor: onnx.TensorProto, folder: Path | None, place: str) -> Weight:
    """Return the constant of a tensor; external data is mapped, not read.

    Args:
        folder: the folder of the model, which alone may hold external data.

    Raises:
        GraphError: the tensor is damaged, or its data lies outside of the folder.
    """
    dtype = dtype_of(tensor.data_type, place)
    shape = tuple(tensor.dims)
    if any(extent < 0 for extent in shape) or prod(shape) * SIZE_BYTES[dtype] > LARGEST_TENSOR:
        raise GraphError(
            f"cannot import {place} because its shape is {list(shape)};"
            f" expected extents from 0 on and at most {LARGEST_TENSOR} bytes"
        )
    return Weight.of(_values(tensor, shape, dtype, folder, place), dtype)


def dense(sparse: onnx.SparseTensorProto, folder: Path | None) -> onnx.TensorProto:
    """Return a sparse tensor as a dense one of the same name.

    Raises:
        GraphError: it is damaged, or too large to be written out.
    """
    place = f"sparse tensor {sparse.values.name[:80]!r}"
    values = weight_of(sparse.values, folder, f"the values of {place}")
    at = weight_of(sparse.indices, folder, f"the indices of {place}")
    shape, count = tuple(sparse.dims), values.elements
    size_bytes = prod(shape) * SIZE_BYTES[values.dtype]
    if not shape or min(shape) < 1 or size_bytes > LARGEST_DENSE:
        raise GraphError(
            f"cannot import {place} because its shape is {list(shape)[:16]};"
            f" expected extents from 1 on and at most {LARGEST_DENSE} bytes"
        )
    extents: Sequence[int] = (prod(shape),) if at.shape == (count,) else shape
    fits = at.elements == count * len(extents)
    rows = at.array.reshape(count, len(extents)) if fits else None
    if at.dtype != "int64" or rows is None or np.any((rows < 0) | (rows >= np.array(extents))):
        raise GraphError(
            f"cannot import {place} because its indices are {at.dtype}{list(at.shape)[:16]}, or"
            f" lie outside of {list(shape)[:16]}; expected int64, one for each of {count} values"
        )
    array = np.zeros(prod(shape), values.array.dtype)
    array[np.ravel_multi_index(tuple(rows.T), tuple(extents))] = values.array.reshape(-1)
    return tensor_of(sparse.values.name, Weight.of(array.reshape(shape), values.dtype))


def tensor_of(name: str, weight: Weight) -> onnx.TensorProto:
    """Return a constant as a tensor of ONNX."""
    little = weight.array.astype(weight.array.dtype.newbyteorder("<"), copy=False)
    return onnx.TensorProto(
        name=name, data_type=CODES[weight.dtype], dims=weight.shape, raw_data=little.tobytes()
    )


def _values(
    tensor: onnx.TensorProto, shape: tuple[int, ...], dtype: str, folder: Path | None, place: str
) -> Array:
    held = storage(dtype).newbyteorder("<")
    size = prod(shape) * held.itemsize
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, folder, held, size, place).reshape(shape)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != size:
            raise GraphError(
                f"cannot import {place} because it has {len(tensor.raw_data)} bytes;"
                f" expected {size} for shape {list(shape)} of {dtype}"
            )
        return np.frombuffer(tensor.raw_data, held).reshape(shape)
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        raise GraphError(
            f"cannot import {place} because its values do not fit shape {list(shape)} of {dtype};"
            f" expected {prod(shape)} values"
        ) from error
    return array.view(np.uint16) if dtype == "bfloat16" else array


def _external(
    tensor: onnx.TensorProto, folder: Path | None, storage: np.dtype[Any], size: int, place: str
) -> Array:
    """Return the mapped values of a tensor whose data lies in a file beside the model."""
    facts = {entry.key: entry.value for entry in tensor.external_data}
    location = facts.get("location", "")
    action = f"read the external data {location[:200]!r} of {place}"
    if folder is None:
        raise GraphError(f"cannot {action} because the model has no folder; expected a file")
    root = folder.resolve()
    try:
        path = (root / location).resolve(strict=True)
        offset, length = int(facts.get("offset", "0")), int(facts.get("length", str(size)))
    except (OSError, ValueError, RuntimeError) as error:
        # Other messages contain the folder, which a client of the service must not see.
        reason = "it is no number" if isinstance(error, ValueError) else "there is no such file"
        raise GraphError(
            f"cannot {action} because {reason}; expected a file below the model's folder"
        ) from error
    if not path.is_relative_to(root) or not path.is_file():
        raise GraphError(
            f"cannot {action} because it is no file below the model's folder;"
            " expected a relative path without links to other folders"
        )
    if length != size or offset < 0 or offset + size > path.stat().st_size:
        raise GraphError(
            f"cannot {action} because offset {offset} and length {length} do not fit;"
            f" expected {size} bytes in a file of {path.stat().st_size}"
        )
    if not size:
        return np.empty(0, storage)
    return np.memmap(path, np.uint8, "r", offset, (size,)).view(storage)


def number_of(tensor: onnx.TensorProto, place: str) -> tuple[float | int, str]:
    """Return the value and the dtype of a tensor of one element.

    Raises:
        GraphError: it has another number of elements.
    """
    weight = weight_of(tensor, None, place)
    if weight.elements != 1:
        raise GraphError(
            f"cannot import {place} because it has {weight.elements} elements; expected 1"
        )
    value = weight.array.reshape(-1)[0]
    if weight.dtype == "bfloat16":
        value = np.array([value], np.uint16).astype(np.uint32).__lshift__(16).view(np.float32)[0]
    return (int(value) if weight.array.dtype.kind in "iub" and weight.dtype != "bfloat16"
            else float(value)), weight.dtype  # fmt: skip


def attributes_of(node: onnx.NodeProto, place: str) -> dict[str, Attribute]:
    """Return the attributes of a node; a tensor of one element becomes a number and its dtype.

    Raises:
        GraphError: an attribute is a graph or a tensor of several elements.
    """
    attrs: dict[str, Attribute] = {}
    kinds = onnx.AttributeProto
    for attr in node.attribute:
        length = max(len(attr.ints), len(attr.floats), len(attr.strings), len(attr.s))
        if length > MOST_PARTS:
            raise GraphError(
                f"cannot import {place} because attribute {attr.name[:80]!r} has {length} parts;"
                f" expected at most {MOST_PARTS}"
            )
        match attr.type:
            case kinds.INT:
                attrs[attr.name] = (
                    dtype_of(attr.i, f"attribute {attr.name!r} of {place}")
                    if attr.name in DTYPE_ATTRIBUTES and attr.i
                    else int(attr.i)
                )
            case kinds.FLOAT:
                attrs[attr.name] = float(attr.f)
            case kinds.STRING:
                attrs[attr.name] = attr.s.decode("utf-8", "replace")
            case kinds.INTS:
                attrs[attr.name] = tuple(attr.ints)
            case kinds.FLOATS:
                attrs[attr.name] = tuple(attr.floats)
            case kinds.STRINGS:
                attrs[attr.name] = tuple(text.decode("utf-8", "replace") for text in attr.strings)
            case kinds.TENSOR:
                value, dtype = number_of(attr.t, f"attribute {attr.name!r} of {place}")
                attrs[attr.name], attrs[f"{attr.name}_dtype"] = value, dtype
            case _:
                raise GraphError(
                    f"cannot import {place} because attribute {attr.name[:80]!r} is no number,"
                    " text or tensor; expected one of these"
                )
    return attrs
