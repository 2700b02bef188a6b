"""Saturating casts and quantisation on special values, compiled."""

import numpy as np
import pytest

from ansorpy import te, topi
from ansorpy.oracle.reference import evaluate
from tests.topi.running import on_every_back_end

SPECIAL = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 128.0, -128.5, -129.0, 254.5, 255.5,
           256.0, 1e-40, 2.0**31, 2147483520.0, -(2.0**31), -(2.0**31) - 256, 2.0**62, 1e30, -1e30,
           np.inf, -np.inf]  # fmt: skip

DTYPES = ("int8", "uint8", "int32", "int64")


def exact(value: float, dtype: str) -> int:
    """Return the saturated integer in Python's own arithmetic."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if np.isnan(value):
        return low
    return max(low, min(high, round(value))) if np.isfinite(value) else (high, low)[value < 0]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_a_saturating_cast_rounds_half_to_even_and_clips(source: str) -> None:
    with np.errstate(over="ignore"):
        values = np.array([*SPECIAL, np.nan, 3.7], source)
    x = te.placeholder(values.shape, "X", source)
    dag = te.dag([topi.saturate_cast(x, dtype, name=dtype) for dtype in DTYPES])
    found, oracle = on_every_back_end(dag, values), evaluate(dag, {"X": values})
    for dtype, kernel, reference in zip(DTYPES, found, oracle, strict=True):
        want = [exact(float(value), dtype) for value in values]
        assert kernel.tolist() == want, dtype
        assert reference.tolist() == want, dtype


@pytest.mark.slow
def test_a_quantised_tensor_comes_back_within_half_a_step() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(-6, 6, (3, 5, 7)).astype(np.float32)
    scale = np.array([0.05, 0.04, 0.06, 0.07, 0.05], np.float32)
    zero = np.array([-3, 0, 7, -1, 2], np.int8)
    x = te.placeholder((3, 5, 7), "X")
    s, z = te.placeholder((5,), "S"), te.placeholder((5,), "Z", "int8")
    codes = topi.quantize_linear(x, s, z, dtype="int8", name="Y")
    (found,) = on_every_back_end(te.dag(codes, inputs=[x, s, z]), values, scale, zero)
    step, point = scale[:, None], zero[:, None].astype(int)
    exact = np.clip(np.rint(values / step) + point, -128, 127)
    np.testing.assert_array_equal(found, exact)
    back = topi.dequantize_linear(codes, s, z, name="back")
    (near,) = evaluate(te.dag(back, inputs=[x, s, z]), {"X": values, "S": scale, "Z": zero})
    inside = (exact > -128) & (exact < 127)
    off = np.abs(near - values) / step
    assert inside.mean() > 0.5
    assert off[inside].max() <= 0.5001
