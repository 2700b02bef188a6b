"""Sectors of a warp counted from index expressions, against counts of emulated kernels."""

import numpy as np
import pytest

from ansorpy.codegen.simt.writer import simt_code
from ansorpy.expr.coalescing import RequestSectors, request_sectors
from ansorpy.expr.expr import Binary, Expr, Read
from ansorpy.loopir.nodes import Scope, Tile
from ansorpy.target import GpuTarget
from tests.emulation.log import LoggedKernel
from tests.loopir.build import buffer, c, parallel, program, read, store, v

GPU = GpuTarget(cpu="sm_90")
L = v("l")
COLUMNS = 512


def times(factor: int) -> Expr:
    return Binary("mul", L, c(factor))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize(
    ("index", "lanes"),
    [
        ((v("i"), L), 32),
        ((v("i"), L), 7),
        ((v("i"), times(2)), 32),
        ((v("i"), times(8)), 64),
        ((v("i"), times(15)), 32),
        ((L, v("i")), 4),
        ((v("i"), Binary("floordiv", L, c(4))), 32),
        ((v("i"), Binary("mod", times(5), c(16))), 32),
        ((v("i"), c(3)), 32),
    ],
    ids=str,
)
def test_sectors_are_those_of_the_requests_of_an_emulated_kernel(
    index: tuple[Expr, Expr], lanes: int, dtype: str
) -> None:
    rows = 4
    buffers = [
        buffer("A", rows, COLUMNS, dtype=dtype),
        buffer("B", rows, COLUMNS, scope=Scope.OUTPUT, dtype=dtype),
    ]
    tile = Tile((), (("l", lanes),), store("B", (v("i"), L), Read("A", index, dtype)))
    code = simt_code(program(buffers, parallel("i", rows, tile)), GPU)
    size_bytes = np.dtype(dtype).itemsize
    arrays = [np.zeros(rows * COLUMNS * size_bytes + 256, np.uint8) for _ in buffers]
    starts = [array.ctypes.data + -array.ctypes.data % 256 for array in arrays]
    (launch,) = LoggedKernel(code).log(starts).launches
    (loads,) = (row for row in launch.traffic if not row.access.store)
    found = request_sectors(index, (rows, COLUMNS), size_bytes, [("l", lanes)], {"i": 0})
    # Warps beyond the first have as many threads, and every row begins at a sector.
    assert loads.cost == found.sectors * loads.requests
    assert loads.least == found.least * loads.requests


def test_an_index_that_reads_memory_takes_a_sector_of_each_thread() -> None:
    index = (read("A", L),)
    assert request_sectors(index, (100,), 4, [("l", 32)], {}) == RequestSectors(32, 32, 4)


def test_lanes_of_several_variables_are_row_major_threads() -> None:
    index, lanes = (v("j"), v("i")), [("i", 4), ("j", 16)]
    found = request_sectors(index, (16, 64), 4, lanes, {})
    assert found == RequestSectors(32, 16, 4)
    assert request_sectors(index[::-1], (64, 16), 4, lanes, {}) == RequestSectors(32, 4, 4)
