"""Tiled programs written by hand, with arrays between guard pages."""

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ansorpy.expr.expr import Binary, Expr
from ansorpy.loopir.nodes import Alloc, For, Program, Scope, Seq, Tile
from tests.loopir.build import add, buffer, c, f32, lt, mul, parallel, program, read, store, v

Array = npt.NDArray[Any]
NUMPY = {"bfloat16": np.uint16, "bool": np.bool_}


def guarded(shape: Sequence[int], dtype: Any) -> Array:
    """Return an array that ends where a page without access begins."""
    page, size = mmap.PAGESIZE, prod(shape) * np.dtype(dtype).itemsize
    pages = -(-size // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    raw = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None).mprotect
    for wall in (0, pages + 1):
        assert protect(ctypes.c_void_p(raw.ctypes.data + wall * page), page, 0) == 0
    inside = raw[(pages + 1) * page - size : (pages + 1) * page]
    inside[...] = 0xA5
    found: Array = inside.view(dtype).reshape(shape)
    return found


def arrays_of(prog: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    arrays = {}
    for buf in prog.arguments:
        shape = [int(str(n)) for n in buf.shape]
        arrays[buf.name] = guarded(shape, NUMPY.get(buf.dtype, buf.dtype))
        if buf.name in inputs:
            arrays[buf.name][...] = inputs[buf.name]
    return arrays


def matmul(
    n: int, m: int, k: int, rows: int = 8, vectors: int = 3, lanes: int = 16, relu: bool = True
) -> Program:
    """C = max(A @ B, 0): A (n, k), B packed (tiles, k, width), register tiles, masked tails."""
    width = vectors * lanes
    row_tiles, tiles = -(-n // rows), -(-m // width)
    i = add(mul(v("io"), rows), v("i"))
    j = add(mul(v("jo"), width), mul(v("v"), lanes), v("l"))
    dims, wide = (("i", rows), ("v", vectors)), (("l", lanes),)
    acc = (v("i"), v("v"), v("l"))
    value = Binary(
        "mul",
        read("A", i, v("kk")),
        read("B", v("jo"), v("kk"), add(mul(v("v"), lanes), v("l"))),
    )
    result: Expr = read("acc", *acc)
    if relu:
        result = Binary("max", result, f32(0.0))
    row_mask = lt(i, n) if n % rows else None
    mask = lt(j, m) if m % width else None
    both = Binary("and", row_mask, mask) if row_mask and mask else row_mask or mask
    body = Seq((
        Tile(dims, wide, store("acc", acc, f32(0.0))),
        For("kk", c(k), Tile(dims, wide, store("acc", acc, value, "sum"), row_mask)),
        Tile(dims, wide, store("C", (i, j), result), both),
    ))  # fmt: skip
    tile = Alloc(buffer("acc", rows, vectors, lanes, scope=Scope.REGISTER), body)
    buffers = [
        buffer("A", n, k),
        buffer("B", tiles, k, width),
        buffer("C", n, m, scope=Scope.OUTPUT),
    ]
    return program(buffers, parallel("io", row_tiles, For("jo", c(tiles), tile)))


def pack(b: Array, width: int) -> Array:
    k, m = b.shape
    tiles = -(-m // width)
    padded = np.zeros((k, tiles * width), b.dtype)
    padded[:, :m] = b
    return np.ascontiguousarray(padded.reshape(k, tiles, width).transpose(1, 0, 2))
