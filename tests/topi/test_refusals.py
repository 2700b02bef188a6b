"""Messages of operators for shapes and dtypes that do not fit: cannot X because Y; expected Z."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from ansorpy import te, topi
from ansorpy.errors import SpecError


def x(*shape: int, dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, "X", dtype)


def w(*shape: int) -> te.Tensor:
    return te.placeholder(shape, "W")


REFUSED: Final[dict[str, Callable[[], object]]] = {
    "cannot scatter W[3, 5] into X[3, 4] at X[3, 5] because axis 1 has 5 indices; "
    "expected at most 4": lambda: topi.scatter_elements(x(3, 4), x(3, 5, dtype="int64"), w(3, 5)),
    "cannot scatter W[4] into X[3, 4] at X[3, 1] because there are W[4]; "
    "expected rank 2, one per index": lambda: topi.scatter_elements(
        x(3, 4), x(3, 1, dtype="int64"), w(4)
    ),
    "cannot scatter W[2, 5] into X[3, 4] at X[2, 1] because there are W[2, 5]; "
    "expected updates of shape [2, 4]": lambda: topi.scatter_nd(
        x(3, 4), x(2, 1, dtype="int64"), w(2, 5)
    ),
    "cannot scatter W[2] into X[3, 4] at X[2, 3] because its vectors are too long; "
    "expected at most 2 indices each": lambda: topi.scatter_nd(
        x(3, 4), x(2, 3, dtype="int64"), w(2)
    ),
    "cannot scatter W[2, 4] into X[3, 4] at X[2, 1] because reduction is 'mean'; "
    "expected none, add, mul, max, min": lambda: topi.scatter_nd(
        x(3, 4), x(2, 1, dtype="int64"), w(2, 4), reduction="mean"
    ),
    "cannot scatter W[2, 4] into X[3, 4] at X[2, 1] because the updates are float32; "
    "expected int8, as the data": lambda: topi.scatter_nd(
        x(3, 4, dtype="int8"), x(2, 1, dtype="int64"), w(2, 4)
    ),
    "cannot scatter W[70000] into X[70000] at X[70000] because 70000 places are compared with "
    "70000 indices each; expected at most 4294967296 comparisons": lambda: topi.scatter_elements(
        x(70000), x(70000, dtype="int64"), w(70000)
    ),
    "cannot update X[2, 3, 4] by W[2, 5, 4] from X[2] on because 5 rows begin at X[2]; "
    "expected at most 3 rows, and a start per element": lambda: topi.tensor_scatter(
        x(2, 3, 4), w(2, 5, 4), x(2, dtype="int64")
    ),
    "cannot update X[2, 3, 4] by W[2, 1, 5] from X[2] on because their shapes differ; "
    "expected one axis behind the batch with fewer rows": lambda: topi.tensor_scatter(
        x(2, 3, 4), w(2, 1, 5), x(2, dtype="int64")
    ),
    "cannot sum X[3] cumulatively because it is bool; expected numbers (use topi.cast)": lambda: (
        topi.cumsum(x(3, dtype="bool"))
    ),
    "cannot take from X[3, 4] at W[2] because W is float32; "
    "expected integers: int8, uint8, int16, uint16, int32, uint32, int64, uint64": lambda: (
        topi.take(x(3, 4), w(2))
    ),
    "cannot gather from X[3, 4] at X[3] because their ranks differ; "
    "expected indices of rank 2": lambda: topi.gather_elements(x(3, 4), x(3, dtype="int64")),
    "cannot gather from X[3, 4] at X[2, 5] because axis 1 has 5 indices; "
    "expected at most 4": lambda: topi.gather_elements(x(3, 4), x(2, 5, dtype="int64")),
    "cannot gather from X[3, 4] at X[2, 3] because a vector has 3 indices; "
    "expected at most 2": lambda: topi.gather_nd(x(3, 4), x(2, 3, dtype="int64")),
    "cannot gather from X[3, 4] at X[2, 1] because the first 1 axes differ; "
    "expected equal extents there": lambda: topi.gather_nd(x(3, 4), x(2, 1, dtype="int64"), 1),
    "cannot gather from X[3, 4] at X[2, 1] because batch_dims is 2; expected 0 to 1": lambda: (
        topi.gather_nd(x(3, 4), x(2, 1, dtype="int64"), 2)
    ),
    "cannot broadcast the operands of add because shapes [3, 4] and [5] differ in axis -1; "
    "expected equal extents, or 1": lambda: x(3, 4) + w(5),
    "cannot convolve X[1, 4, 8, 8] with W[8, 3, 3, 3] because the weights take 3 channels; "
    "expected 4: 4 channels in 1 groups": lambda: topi.conv2d(x(1, 4, 8, 8), w(8, 3, 3, 3)),
    "cannot convolve X[4, 8, 8] with W[8, 4, 3, 3] because X[4, 8, 8] has rank 3; "
    "expected rank 4, [n, c, h, w]": lambda: topi.conv2d(x(4, 8, 8), w(8, 4, 3, 3)),
    "cannot convolve X[1, 4, 8, 8] with W[8, 4, 3, 3] because groups is 3; "
    "expected a divisor of 4 and 8 channels": lambda: topi.conv2d(
        x(1, 4, 8, 8), w(8, 4, 3, 3), groups=3
    ),
    "cannot convolve X[1, 4, 2, 8] with W[8, 4, 3, 3] because a window of 3 does not fit 2 padded "
    "elements; expected a window of at most 2 in spatial dimension 0": lambda: topi.conv2d(
        x(1, 4, 2, 8), w(8, 4, 3, 3)
    ),
    "cannot convolve X[1, 4, 8, 8] with W[8, 4, 3, 3] because stride is [0, 0]; "
    "expected numbers of at least 1": lambda: topi.conv2d(x(1, 4, 8, 8), w(8, 4, 3, 3), stride=0),
    "cannot convolve X[1, 4, 8, 8] with W[8, 4, 3, 3] because padding has 3 numbers; "
    "expected one, 2 or 4": lambda: topi.conv2d(x(1, 4, 8, 8), w(8, 4, 3, 3), padding=(1, 1, 1)),
    "cannot multiply X[3, 4] and W[5, 6] because their reduced extents are 4 and 5; "
    "expected equal extents": lambda: topi.matmul(x(3, 4), w(5, 6)),
    "cannot reshape X[3, 4] to [5, 2] because 12 elements become 10; "
    "expected 12 elements": lambda: topi.reshape(x(3, 4), (5, 2)),
    "cannot concatenate X[3, 4], W[3, 5] because their shapes differ beside axis 0; "
    "expected equal extents there": lambda: topi.concat((x(3, 4), w(3, 5))),
    "cannot compute softmax of X[3, 4] because axis 2 is not an axis of rank 2; "
    "expected -2 to 1": lambda: topi.softmax(x(3, 4), 2),
    "cannot compute softmax of X[3] because X[3] is int32; "
    "expected a float dtype: float16, bfloat16, float32, float64": lambda: topi.softmax(
        x(3, dtype="int32")
    ),
    "cannot reduce X[3, 4] by sum because axis 'k' is not an integer; expected -2 to 1": lambda: (
        topi.sum(x(3, 4), "k")  # type: ignore[arg-type]
    ),
    "cannot take a ndarray as a tensor because it has no te expression; "
    "expected a te.placeholder(...)": lambda: topi.softmax(np.zeros((3, 4))),  # type: ignore[arg-type]
    "cannot reduce X[3, 4] by sum because axes [0, 0] name an axis twice; "
    "expected every axis once": lambda: topi.sum(x(3, 4), (0, 0)),
    "cannot add W to X along axis 1 because W[3] is not a vector of its 4 elements; "
    "expected shape [4]": lambda: topi.bias_add(x(3, 4), w(3)),
    "cannot split X[7] because axis 0 has 7 elements; expected a multiple of 2 parts": lambda: (
        topi.split(x(7), 2)
    ),
    "cannot pool X[3, 4] because its rank is 2; expected 3 to 5: [n, c, ...]": lambda: (
        topi.max_pool(x(3, 4))
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_refusal_names_the_cause_and_the_expected_value(message: str) -> None:
    with pytest.raises(SpecError) as caught:
        REFUSED[message]()
    assert str(caught.value) == message


def test_dtypes_are_not_converted_silently() -> None:
    with pytest.raises(SpecError, match=r"'add' of float32 and int32: use te\.cast"):
        _ = x(3) + te.placeholder((3,), "I", "int32")


def test_operators_compose_with_arithmetic_of_tensors() -> None:
    data, weights = x(1, 4, 9, 9), w(8, 4, 3, 3)
    bias = te.placeholder((8, 1, 1), "b")
    dag = te.dag(topi.relu(topi.conv2d(data, weights, stride=2, padding=1) + bias))
    assert [node.name for node in dag.nodes] == ["X", "pad", "W", "conv", "b", "add", "relu"]
    assert dag.computes[-1].shape == (1, 8, 5, 5)
