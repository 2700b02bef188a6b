"""Random tile statements against the interpreter: strides, masks, reductions, selects."""

from collections.abc import Mapping
from math import prod
from typing import TypeVar

import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Cast, Expr, Select
from ansorpy.loopir.interp import run as interpret
from ansorpy.loopir.nodes import For, Program, Scope, Seq, Tile
from ansorpy.loopir.rewrite import walk_stmt
from tests.codegen.programs import Array
from tests.codegen.running import AVX2, run_llvm, run_source
from tests.loopir.build import add, buffer, c, f32, lt, mul, program, read, store, v
from tests.night import night

CASES = 60
T = TypeVar("T")


def random_case(seed: int) -> tuple[Program, dict[str, Array]]:
    rng = np.random.default_rng(seed)

    def pick(*options: T) -> T:
        return options[int(rng.integers(len(options)))]

    dims = tuple((f"u{k}", int(rng.integers(1, 6))) for k in range(int(rng.integers(0, 3))))
    lanes = pick(0, 4, 8, 8, 16, 6)
    wide = (("l", lanes),) if lanes else ()
    outer = int(rng.integers(1, 4))
    ranges = {"i": outer, **dict(dims), **({"l": lanes} if lanes else {})}
    combiner = pick(None, None, "sum", "max", "min", "prod")
    names = [n for n in ranges if combiner is None or n == "i" or rng.random() < 0.7]

    def index(over: list[str], injective: bool) -> tuple[list[Expr], list[int]]:
        """One index per variable in a random order, some with a stride or an offset."""
        order = [str(n) for n in rng.permutation(over)]
        parts: list[Expr] = []
        extents = []
        for n in order:
            scale, shift = pick(1, 1, 1, 2, 3), pick(0, 0, 1)
            scale = abs(scale) if injective else scale
            parts.append(add(mul(v(n), scale), c(shift)))
            extents.append((ranges[n] - 1) * scale + shift + 1)
        return parts or [c(0)], extents or [1]

    where, shape = index(names, True)
    values: list[Expr] = []
    inputs: dict[str, Array] = {}
    buffers = []
    for k in range(int(rng.integers(1, 3))):
        over = [n for n in ranges if rng.random() < 0.75]
        at, extents = index(over, False)
        name = f"A{k}"
        buffers.append(buffer(name, *extents))
        inputs[name] = rng.integers(-3, 4, extents).astype(np.float32)
        value: Expr = read(name, *at)
        if rng.random() < 0.4:
            options: tuple[Expr, ...] = (f32(1.0), Cast("float32", v("i")))
            other = options[int(rng.integers(2))]
            cond = random_condition(rng, ranges)
            value = Select(cond, value, other)
        values.append(value)
    total = values[0]
    for value in values[1:]:
        total = Binary(pick("add", "mul", "max"), total, value)
    mask = random_condition(rng, ranges) if rng.random() < 0.5 else None
    tile = Tile(dims, wide, store("C", where, total, combiner), mask)
    flat = buffer("C", *shape, scope=Scope.OUTPUT)
    init: Tile | For = Tile((), (), store("C", [v(f"z{k}") for k in range(len(shape))], f32(2.0)))
    for k, extent in reversed(list(enumerate(shape))):
        init = For(f"z{k}", c(extent), init)
    return program([*buffers, flat], init, For("i", c(outer), Seq((tile,)))), inputs


def random_condition(rng: np.random.Generator, ranges: Mapping[str, int]) -> Expr:
    some = [n for n in ranges if rng.random() < 0.6] or ["i"]
    total = add(*(mul(v(n), int(rng.choice([1, 1, 2, 4]))) for n in some))
    limit = int(rng.integers(0, sum(ranges[n] for n in some) + 2))
    kind = int(rng.integers(4))
    if kind == 0:
        return Binary("ge", total, c(limit))
    if kind == 1:
        return Binary("and", lt(total, limit), lt(v("i"), int(rng.integers(1, 4))))
    if kind == 2:
        return Binary("ne", Binary("mod", total, c(3)), c(1))
    return lt(total, limit)


def lanes_of(prog: Program) -> int:
    tiles = [s for phase in prog.phases for s in walk_stmt(phase.body) if isinstance(s, Tile)]
    return max(tile.lane[1] if tile.lane else 0 for tile in tiles)


@pytest.mark.parametrize("seed", night(range(CASES), range(0, CASES, 3)))
def test_a_random_tile_equals_the_interpreter(seed: int) -> None:
    prog, inputs = random_case(seed)
    want = interpret(prog, inputs)["C"]
    assert prod(want.shape) < 200_000
    check = np.testing.assert_array_equal  # small integers are exact, long products are not
    if np.abs(want).max() > 2**24:
        return
    check(run_llvm(prog, inputs)["C"], want)
    if lanes_of(prog) <= 8:  # LLVM 22 reads beyond a mask that it has to cut for AVX2
        check(run_llvm(prog, inputs, AVX2)["C"], want)
    if seed % 10 == 0:
        check(run_source(prog, inputs)["C"], want)
