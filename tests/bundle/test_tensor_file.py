"""Files of tensors: the layout of safetensors, read by the words of its specification."""

import json
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.bundle.tensor_file import DTYPES, raw, tensor_file
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph import ValueInfo

SHAPES = st.lists(st.integers(0, 9), max_size=3).map(tuple)
TENSORS = st.lists(
    st.tuples(SHAPES, st.sampled_from(sorted(DTYPES))), max_size=8
).map(lambda facts: [ValueInfo(f"t{k}/ü", *one) for k, one in enumerate(facts)])  # fmt: skip


@given(TENSORS)
def test_tensors_follow_one_another_and_are_aligned_as_their_elements(
    tensors: list[ValueInfo],
) -> None:
    file = tensor_file(tensors)
    size = int.from_bytes(file.header[:8], "little")
    assert len(file.header) == 8 + size
    assert len(file.header) % 64 == 0
    entries = json.loads(file.header[8:])
    assert sorted(entries) == sorted(one.name for one in tensors)
    end = 0
    for name in file.order:
        (one,) = (tensor for tensor in tensors if tensor.name == name)
        begin, end_of_it = entries[name]["data_offsets"]
        assert begin == end
        end = end_of_it
        assert end - begin == prod(one.fixed_shape) * SIZE_BYTES[one.dtype]
        assert entries[name]["shape"] == list(one.fixed_shape)
        assert file.places[name] == len(file.header) + begin
        aligned = 64 if one.size_bytes % 64 == 0 else SIZE_BYTES[one.dtype]
        assert file.places[name] % aligned == 0
    assert file.size_bytes == len(file.header) + end


def test_bytes_of_an_array_are_little_endian_and_in_c_order() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    for same in (array, array.astype(">i4"), np.asfortranarray(array)):
        assert bytes(raw(same)) == array.tobytes()
    assert bytes(raw(np.zeros((0, 3), np.float32))) == b""
    assert bytes(raw(np.array(2.5, np.float64))) == np.float64(2.5).tobytes()
    assert bytes(raw(np.array([True, False]))) == b"\1\0"


def test_a_tensor_named_as_the_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot store tensor '__metadata__'"):
        tensor_file([ValueInfo("__metadata__", (1,), "float32")])
