"""Cases of quantisation: formulas of ONNX in NumPy."""

from typing import Any

import numpy as np

from ansorpy import te, topi
from tests.topi.cases import Array, Case, Draw, shape, tensor


def saturated(x: Array, dtype: str) -> Array:
    """Return floats rounded half to even and clipped to an integer dtype."""
    info = np.iinfo(dtype)
    whole = np.clip(np.rint(x), int(info.min), int(info.max))
    return np.asarray(whole.astype(np.float64).clip(-(2.0**62), 2.0**62).astype("int64"), dtype)


def saturate_cast(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 0, 3), ("float32", "float64", "float16", "int32"))
    dtype = str(rng.choice(("int8", "uint8", "int32")))
    factor = int(rng.choice((1, 100)))
    return topi.saturate_cast(x * factor, dtype), (x,), lambda x: saturated(x * factor, dtype)


def parameters(rng: Draw, dtype: str, zeros: str) -> tuple[Any, ...]:
    """Draw data of two or three axes, an axis, a scale and a zero point of one of four kinds."""
    extents = shape(rng, 2, 3)
    axis = int(rng.integers(len(extents)))
    per_axis = (extents[axis],)
    blocks = tuple(-(-n // 2) if d == axis else n for d, n in enumerate(extents))
    kind = [(), (1,), per_axis, blocks][int(rng.integers(4))]
    scale = te.placeholder(kind, "S", "float32")
    zero = te.placeholder(kind, "Z", zeros)

    def spread(values: Array) -> Array:
        if len(kind) == 1 and kind == per_axis:
            return values.reshape([-1 if d == axis else 1 for d in range(len(extents))])
        if len(kind) == len(extents):
            return np.repeat(values, 2, axis)[tuple(slice(n) for n in extents)]
        return values.reshape(())

    return te.placeholder(extents, "X", dtype), axis, scale, zero, spread


def quantize_linear(rng: Draw) -> Case:
    dtype = str(rng.choice(("int8", "uint8", "int32")))
    x, axis, scale, zero, spread = parameters(rng, "float32", dtype)
    positive = topi.abs(scale) + 0.05
    made = topi.quantize_linear(x * 8, positive, zero, axis, dtype=dtype)

    def want(x: Array, s: Array, z: Array) -> Array:
        # float32, as the kernel: a quotient near a half has one neighbour in both.
        s = np.abs(s.astype("float32")) + np.float32(0.05)
        return saturated(np.rint(x.astype("float32") * 8 / spread(s)) + spread(z), dtype)

    return made, (x, scale, zero), want


def dequantize_linear(rng: Draw) -> Case:
    dtype = str(rng.choice(("int8", "uint8", "int32")))
    x, axis, scale, zero, spread = parameters(rng, dtype, dtype)
    made = topi.dequantize_linear(x, scale, zero, axis)
    return made, (x, scale, zero), lambda x, s, z: (x - spread(z).astype("i8")) * spread(s)
