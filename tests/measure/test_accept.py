"""An accept interval contains right numbers only, and most of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy.measure.verify.accept import accept_interval, inside, is_right
from ansorpy.measure.verify.inputs import decode, encode

DTYPES = ("float16", "bfloat16", "float32", "float64")
ODD = (0.0, -0.0, 1.0, -3.5, 1e-46, 1e30, -1e39, 65504.0, np.inf, -np.inf, np.nan)
NUMBERS = st.one_of(st.sampled_from(ODD), st.floats(width=64))
BOUNDS = st.one_of(
    st.sampled_from((0.0, 1e-7, 0.25, 1e30, np.inf, np.nan)), st.floats(0, 1e3, width=64)
)
OFF = st.one_of(st.sampled_from((0.0, 1.0, -1.0, 0.999999, 1.000001, np.nan)), st.floats(-2, 2))


@settings(max_examples=300)
@given(NUMBERS, BOUNDS, OFF, st.sampled_from(DTYPES), st.booleans())
def test_numbers_in_the_interval_are_right(
    number: float, bound: float, off: float, dtype: str, nans: bool
) -> None:
    value, reach = np.array([number]), np.array([bound])
    with np.errstate(all="ignore"):
        stored = encode(value + off * reach, dtype)
    interval = accept_interval(value, reach, dtype, nans)
    assert interval is not None
    if inside(stored, dtype, interval):
        assert is_right(decode(stored, dtype), value, reach, dtype, nans).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_right_kernels_lie_in_the_band(dtype: str) -> None:
    rng = np.random.default_rng(0)
    value = rng.uniform(0.1, 1.0, 10_000) * 10.0 ** rng.integers(-3, 4, 10_000)
    bound = np.abs(value) * (2.0**-6 if dtype == "bfloat16" else 2.0**-9)
    interval = accept_interval(value, bound, dtype)
    assert interval is not None
    near = value + bound * rng.uniform(-0.4, 0.4, 10_000)
    assert inside(encode(near, dtype), dtype, interval)
    near[77] = value[77] + 3 * bound[77]
    assert not inside(encode(near, dtype), dtype, interval)


def test_infinity_is_accepted_only_beyond_the_largest_number() -> None:
    value, bound = np.array([1e39, 1e38]), np.array([1e30, 1e32])
    interval = accept_interval(value, bound, "float32")
    assert interval is not None
    assert inside(np.array([np.inf, 1e38], np.float32), "float32", interval)
    assert not inside(np.array([np.inf, np.inf], np.float32), "float32", interval)


def test_outputs_that_must_be_equal_have_no_interval() -> None:
    value = np.array([3, 4])
    assert accept_interval(value, None, "float32") is None
    assert accept_interval(value, np.array([1, 1]), "int32") is None
