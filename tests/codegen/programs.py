"""Tiled programs written by hand, and how to run them against numpy."""

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    LoopKind,
    Phase,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
    Tile,
)

Array = npt.NDArray[Any]
NUMPY = {"bfloat16": np.uint16, "bool": np.bool_}


def c(value: float, dtype: str = "int64") -> Const:
    return Const(value, dtype)


def add(*parts: Expr) -> Expr:
    total = parts[0]
    for part in parts[1:]:
        total = Binary("add", total, part)
    return total


def mul(a: Expr, b: Expr | int) -> Expr:
    return Binary("mul", a, c(b) if isinstance(b, int) else b)


def lt(a: Expr, b: Expr | int) -> Expr:
    return Binary("lt", a, c(b) if isinstance(b, int) else b)


def buffer(name: str, dtype: str, shape: Sequence[int], scope: Scope = Scope.INPUT) -> Buffer:
    return Buffer(name, dtype, tuple(c(n) for n in shape), scope)


def read(name: str, *indices: Expr, dtype: str = "float32") -> Read:
    return Read(name, indices, dtype)


def store(name: str, index: Sequence[Expr], value: Expr, combiner: str | None = None) -> Store:
    return Store((name,), tuple(index), (value,), combiner)


def parallel(var: str, extent: int, body: Stmt) -> For:
    return For(var, c(extent), body, LoopKind.PARALLEL)


def program(buffers: Sequence[Buffer], *phases: Stmt) -> Program:
    named = tuple(Phase(f"p{k}", body) for k, body in enumerate(phases))
    return Program("test", tuple(buffers), named)


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
    for buf in prog.buffers:
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
    i = add(mul(Var("io"), rows), Var("i"))
    j = add(mul(Var("jo"), width), mul(Var("v"), lanes), Var("l"))
    dims, wide = (("i", rows), ("v", vectors)), (("l", lanes),)
    acc = (Var("i"), Var("v"), Var("l"))
    value = Binary(
        "mul",
        read("A", i, Var("kk")),
        read("B", Var("jo"), Var("kk"), add(mul(Var("v"), lanes), Var("l"))),
    )
    result: Expr = read("acc", *acc)
    if relu:
        result = Binary("max", result, c(0.0, "float32"))
    row_mask = lt(i, n) if n % rows else None
    mask = lt(j, m) if m % width else None
    both = Binary("and", row_mask, mask) if row_mask and mask else row_mask or mask
    body = Seq((
        Tile(dims, wide, store("acc", acc, c(0.0, "float32"))),
        For("kk", c(k), Tile(dims, wide, store("acc", acc, value, "sum"), row_mask)),
        Tile(dims, wide, store("C", (i, j), result), both),
    ))  # fmt: skip
    tile = Alloc(buffer("acc", "float32", (rows, vectors, lanes), Scope.REGISTER), body)
    buffers = [
        buffer("A", "float32", (n, k)),
        buffer("B", "float32", (tiles, k, width)),
        buffer("C", "float32", (n, m), Scope.OUTPUT),
    ]
    return program(buffers, parallel("io", row_tiles, For("jo", c(tiles), tile)))


def pack(b: Array, width: int) -> Array:
    k, m = b.shape
    tiles = -(-m // width)
    padded = np.zeros((k, tiles * width), b.dtype)
    padded[:, :m] = b
    return np.ascontiguousarray(padded.reshape(k, tiles, width).transpose(1, 0, 2))
