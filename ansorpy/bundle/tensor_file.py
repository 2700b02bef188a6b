"""Files of named tensors in the layout of safetensors: 8 bytes of length, JSON, raw bytes.

Source: https://github.com/huggingface/safetensors, section Format. Tensors follow one another
without gaps; the header is padded with spaces, and tensors of whole lines of the cache come first,
then tensors of wider elements: so each is aligned as its elements, most to 64 bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph.aliases import ALIGN_BYTES
from ansorpy.graph.graph import RESERVED, Array, ValueInfo

DTYPES: Final = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16",
    "int32": "I32", "uint32": "U32", "int64": "I64", "uint64": "U64", "float16": "F16",
    "bfloat16": "BF16", "float32": "F32", "float64": "F64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorFile:
    """The header of a file, and the places of its tensors in bytes from the start of the file.

    `order` has the names as their tensors lie.
    """

    header: bytes
    places: Mapping[str, int]
    order: tuple[str, ...]
    size_bytes: int


def tensor_file(tensors: Sequence[ValueInfo]) -> TensorFile:
    """Return the layout of a file of these tensors.

    Raises:
        ValueError: a tensor has the name of the metadata.
    """
    order = sorted(tensors, key=_alignment, reverse=True)
    entries: dict[str, object] = {}
    ends: dict[str, int] = {}
    at = 0
    for tensor in order:
        if tensor.name == RESERVED:
            raise ValueError(f"cannot store tensor {RESERVED!r} because the name is reserved")
        end = at + tensor.size_bytes
        entries[tensor.name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.fixed_shape),
            "data_offsets": [at, end],
        }
        ends[tensor.name] = at
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGN_BYTES)
    header = len(text).to_bytes(8, "little") + text
    places = {name: len(header) + begin for name, begin in ends.items()}
    return TensorFile(header, places, tuple(one.name for one in order), len(header) + at)


def raw(array: Array) -> memoryview:
    """Return the bytes of an array in C order, without a copy if it lies so."""
    little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return little.reshape(-1).view(np.uint8).data if little.size else memoryview(b"")


def _alignment(tensor: ValueInfo) -> int:
    """Return the bytes to which the end of a tensor is aligned if its start is, at most 64."""
    return SIZE_BYTES[tensor.dtype] if tensor.size_bytes % ALIGN_BYTES else ALIGN_BYTES
