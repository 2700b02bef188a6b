"""Kernels of known work compute, and do the work that they state."""

import numpy as np
import pytest

from ansorpy.codegen.simt.ptx import ptx
from benchmarks.cuda.texts import (
    CHAINS,
    THREADS,
    UNROLL,
    Floor,
    copies,
    multiply_adds,
    nothing,
    shared_loads,
)
from tests.emulation import device as emulated


def result(floor: Floor, x: "np.ndarray[tuple[int], np.dtype[np.float32]]") -> list[float]:
    kernel = emulated.load(emulated.build_texts(floor.code, "sm_90"))
    (count,) = floor.code.buffers[0].extents
    given, out = np.resize(x, count).astype(np.float32), np.full(count, np.nan, np.float32)
    kernel.run((given.ctypes.data, out.ctypes.data))
    return [float(value) for value in out]


def test_multiply_adds_are_chains() -> None:
    floor = multiply_adds(blocks=2, steps=3)
    value = 0.5
    for _ in range(3 * UNROLL):
        value = value * 0.5 + 0.25
    assert result(floor, np.array([0.5, 0.25])) == pytest.approx([CHAINS * value] * 2 * THREADS)
    assert floor.flop == 2 * 2 * THREADS * CHAINS * UNROLL * 3


def test_shared_loads_are_16_bytes_of_a_thread() -> None:
    floor = shared_loads(blocks=1, steps=2)
    loads = 2 * UNROLL
    assert result(floor, np.array([0.5, 0.25])) == pytest.approx([4 * loads * 0.5] * THREADS)
    assert floor.shared_bytes == 16 * loads * THREADS
    assert "ld.shared.v4" in ptx(floor.code.texts[0], "sm_90")


def test_a_copy_copies() -> None:
    floor = copies(2048)
    values = np.arange(2048, dtype=np.float32)
    assert result(floor, values) == values.tolist()
    assert floor.memory_bytes == 2 * 4 * 2048
    made = ptx(floor.code.texts[0], "sm_90")
    assert "ld.global" in made
    assert ".v4" in made


def test_nothing_does_nothing() -> None:
    assert np.isnan(result(nothing(), np.zeros(2, np.float32))).all()
    assert nothing().flop == 0
