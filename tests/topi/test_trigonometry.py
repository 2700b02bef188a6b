"""The composed functions against NumPy in float64: errors in units in the last place, and ends."""

import numpy as np
import pytest

from ansorpy import te, topi
from tests.topi.cases import Array
from tests.topi.running import on_every_back_end

FUNCTIONS = {
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 0.99999994, -0.99999994,
         1.0000001, -1.0000001, 2.0, -2.0, 88.7, 89.3, -89.3, 89.5, 1e9, 1.0000001e9, -3e9, 3e38,
         -3e38, 1.5707964, 1e-9, 1.1e-9, 0.5, -5.0)  # fmt: skip


def values(dtype: str) -> Array:
    rng = np.random.default_rng(7)
    parts: list[Array] = [
        np.array(EDGES), rng.uniform(-1, 1, 3000), rng.uniform(-90, 90, 1500),
        1 + rng.exponential(2, 1500),
        rng.choice((-1, 1), 2000) * np.exp(rng.uniform(-80, 80, 2000)),
    ]  # fmt: skip
    return np.concatenate(parts)[:-3].astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_composed_function_is_within_eight_ulps(dtype: str) -> None:
    x = values(dtype)
    data = te.placeholder(x.shape, "X", dtype)
    dag = te.dag([getattr(topi, name)(data, name=name) for name in FUNCTIONS])
    for (name, function), found in zip(FUNCTIONS.items(), on_every_back_end(dag, x), strict=True):
        with np.errstate(all="ignore"):
            wide = function(x.astype(np.longdouble))
            want = wide.astype(dtype)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(want), name)
        odd = np.isinf(want) | (want == 0)
        np.testing.assert_array_equal(found[odd], want[odd], name)
        assert np.all((np.signbit(found) == np.signbit(want)) | np.isnan(want)), name
        ok = np.isfinite(want)
        with np.errstate(over="ignore"):
            ulps = np.abs(found[ok] - wide[ok]) / np.spacing(np.abs(want[ok]))
        assert ulps.max() <= 8, (name, x[ok][ulps.argmax()], ulps.max())
