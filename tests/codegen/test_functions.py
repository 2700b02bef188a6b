"""The functions of mathematics against float64, over the whole range, edges included."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from ansorpy.loopir.nodes import For, Scope, Tile
from ansorpy.te.expr import Call, Expr, Var
from tests.codegen.programs import Array, add, buffer, c, mul, program, read, store
from tests.codegen.running import run_llvm, run_source

EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 1e-45, -1e-45, 1e-38, 1.1754944e-38,
     3.4e38, -3.4e38, 88.0, 88.72, 88.73, 89.0, -87.0, -87.4, -100.0, -103.9, -104.0, -110.0,
     0.625, -0.625, 0.6249, 0.92773, 0.92774, 4.0, 9.0, 10.0, 1e-6, -1e-6, 0.70710678, 1.41421356,
     16777216.0, 1e-20, -7.5],
    np.float32,
)  # fmt: skip


def exact(fn: str, x: Array) -> Array:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        table: dict[str, Callable[[Array], Array]] = {
            "exp": np.exp, "log": np.log, "tanh": np.tanh, "sqrt": np.sqrt, "abs": np.abs,
            "floor": np.floor, "ceil": np.ceil, "rsqrt": lambda v: 1 / np.sqrt(v),
            "erf": np.vectorize(math.erf, otypes=[float]),
            "sigmoid": lambda v: np.where(v < 0, np.exp(v) / (1 + np.exp(v)), 1 / (1 + np.exp(-v))),
        }  # fmt: skip
        found: Array = table[fn](wide)
    return found


def samples(fn: str) -> Array:
    rng = np.random.default_rng(3)
    wide = rng.uniform(-110, 110, 2000)
    near = rng.standard_normal(4000)
    tiny = np.exp(rng.uniform(-100, 88, 2000)) * rng.choice([-1, 1], 2000)
    unit = 1 + rng.uniform(-0.5, 0.5, 1000)
    x = np.concatenate([EDGES, wide, near, tiny, unit]).astype(np.float32)
    return np.concatenate([x, np.ones(-len(x) % 16, np.float32)])


def applied(fn: str, x: Array, lanes: int, dtype: str) -> Array:
    index: Expr = add(mul(Var("i"), lanes), Var("l")) if lanes else Var("i")
    tile = Tile((), ("l", lanes) if lanes else None,
                store("C", (index,), Call(fn, read("A", index, dtype=dtype))))  # fmt: skip
    nest = For("i", c(len(x) // max(1, lanes)), tile)
    prog = program([buffer("A", dtype, x.shape), buffer("C", dtype, x.shape, Scope.OUTPUT)], nest)
    return run_llvm(prog, {"A": x})["C"]


@pytest.mark.parametrize("lanes", [16, 0])
@pytest.mark.parametrize(
    "fn", ["exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt", "abs", "floor", "ceil"]
)
def test_float32(fn: str, lanes: int) -> None:
    x = samples(fn)
    found, wide = applied(fn, x, lanes, "float32"), exact(fn, x)
    with np.errstate(all="ignore"):
        want = wide.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(want))
    ok = np.isfinite(want)
    ulps = np.abs(found[ok] - wide[ok]) / np.spacing(np.abs(want[ok]))
    worst = np.argmax(ulps)
    assert ulps[worst] <= 4, f"{fn}({x[ok][worst]!r}) = {found[ok][worst]!r}: {ulps[worst]:.1f} ulp"


@pytest.mark.parametrize("fn", ["exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt"])
def test_float64(fn: str) -> None:
    x = samples(fn).astype(np.float64)
    found, want = applied(fn, x, 8, "float64"), exact(fn, x)
    np.testing.assert_allclose(found, want, rtol=1e-14, atol=1e-300)


def test_pow_and_both_printers_agree() -> None:
    from ansorpy.te.expr import Binary

    x = np.abs(samples("pow"))[:64]
    at = (add(mul(Var("i"), 16), Var("l")),)
    value = Binary("pow", Call("tanh", Call("exp", read("A", *at))), c(1.5, "float32"))
    tile = Tile((), ("l", 16), store("C", at, value))
    buffers = [buffer("A", "float32", x.shape), buffer("C", "float32", x.shape, Scope.OUTPUT)]
    prog = program(buffers, For("i", c(4), tile))
    found = run_llvm(prog, {"A": x})["C"]
    np.testing.assert_array_equal(found, run_source(prog, {"A": x})["C"])
    with np.errstate(all="ignore"):
        want = np.tanh(np.exp(x.astype(float))) ** 1.5
    np.testing.assert_allclose(found, want, rtol=1e-6)
