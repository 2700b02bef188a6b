"""Bit operations of integers, on every back end, against NumPy."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from ansorpy.expr.dtypes import INTS
from ansorpy.expr.expr import BITS, Binary, Call, Expr
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, Scope, Seq, Tile
from tests.codegen.programs import Array
from tests.codegen.running import run_all
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store, v

MEANING: dict[str, Callable[..., Any]] = {
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
COUNT = 101  # no multiple of a vector


def shifted(a: Array, counts: Array, op: str) -> list[int]:
    """Return shifts in Python's unbounded integers; a count outside of the width is the width."""
    info = np.iinfo(a.dtype)
    found = []
    for x, count in zip(a.tolist(), counts.tolist(), strict=True):
        by = count if 0 <= count < info.bits else info.bits
        value = x << by if op == "shl" else x >> by
        found.append((value - int(info.min)) % 2**info.bits + int(info.min))
    return found


def operands(dtype: str) -> tuple[Array, Array]:
    rng, info = np.random.default_rng(5), np.iinfo(dtype)
    a = rng.integers(info.min, info.max, COUNT, dtype, endpoint=True)
    b = rng.integers(info.min, info.max, COUNT, dtype, endpoint=True)
    near = np.arange(0 if info.min == 0 else -3, info.bits + 3)
    b[: len(near)] = near
    a[:4] = (info.min, info.max, 1, 0)
    return a, b


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [16, 4, 0])
@pytest.mark.parametrize("dtype", INTS)
def test_bit_operations_equal_numpy(dtype: str, lanes: int) -> None:
    a, b = operands(dtype)
    at: Expr = add(mul(v("i"), lanes), v("l")) if lanes else v("i")
    x, y = (read(name, at, dtype=dtype) for name in "AB")
    values: dict[str, Expr] = {op: Binary(op, x, y) for op in BITS}
    values |= {"bitnot": Call("bitnot", x), "by3": Binary("shr", x, c(3, dtype))}
    point = partial(
        Tile, (), (("l", lanes),) if lanes else (), mask=lt(at, COUNT) if lanes else None
    )
    body = Seq(tuple(point(store(op, (at,), value)) for op, value in values.items()))
    buffers = [buffer(name, COUNT, dtype=dtype) for name in "AB"]
    buffers += [buffer(op, COUNT, scope=Scope.OUTPUT, dtype=dtype) for op in values]
    prog = program(buffers, For("i", c(-(-COUNT // max(1, lanes))), body))
    source = lanes == (16, 0)[INTS.index(dtype) % 2]  # numba compiles each dtype once
    found = run_all(prog, {"A": a, "B": b}, source)
    for op, meaning in MEANING.items():
        np.testing.assert_array_equal(found[op], meaning(a, b), op)
    np.testing.assert_array_equal(found["bitnot"], ~a)
    np.testing.assert_array_equal(found["by3"], a >> 3)
    for op in ("shl", "shr"):
        assert found[op].tolist() == shifted(a, b, op)
    if not lanes:
        for op, values_of_op in run(prog, {"A": a, "B": b}, strict=True).items():
            np.testing.assert_array_equal(values_of_op, found[op], op)
