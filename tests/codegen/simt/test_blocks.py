"""Operators tiled for blocks of threads: right in both orders of threads, whole and odd sizes."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from ansorpy.codegen.simt.ptx import ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.loopir.nodes import Alloc, Program, Scope, Tile
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.backend import backend
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.plan.threads import THREADS
from ansorpy.population import sample
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads as w
from tests.emulation.log import LoggedKernel
from tests.night import night

EMULATOR: Final = "ansorpy.codegen.simt.emulator"
GPU: Final = cuda_target("sm_90")
SAME: Final = w.Window(padding=1)
OPERATORS: Final[dict[str, Callable[[], Dag]]] = {
    "matmul": lambda: w.matmul(64, 96, 32),
    "matmul_odd": lambda: w.matmul_relu(67, 45, 35),
    "matmul_bias_gelu": lambda: w.matmul_bias_gelu(33, 40, 24),
    "batch_matmul": lambda: w.batch_matmul(3, 33, 34, 17),
    "transposed": lambda: w.transpose_batch_matmul(1, 17, 4, 16),
    "conv1d": lambda: w.conv1d(1, 6, 33, 16, 3, SAME),
    "conv2d": lambda: w.conv2d(1, 8, 14, 14, 16, 3, SAME),
    "conv2d_odd": lambda: w.conv2d_bias_relu(2, 5, 13, 11, 17, 3, SAME),
    "conv2d_strided": lambda: w.conv2d(1, 4, 15, 14, 8, 3, w.Window(stride=2, padding=1)),
    "conv2d_dilated": lambda: w.conv2d(1, 4, 13, 13, 8, 3, w.Window(padding=2, dilation=2)),
    "conv2d_grouped": lambda: w.conv2d_bias_relu(1, 6, 9, 9, 12, 3, w.Window(1, 1, groups=3)),
    "conv2d_nhwc": lambda: w.conv2d_nhwc(1, 9, 10, 6, 16, 3, SAME),
    "depthwise_conv2d": lambda: w.depthwise_conv2d(1, 9, 11, 11, 3, SAME),
    "transposed_conv2d": lambda: w.transposed_conv2d(1, 4, 7, 7, 6, 4, padding=1),
}


def tiled_plan(dag: Dag) -> Plan:
    """Return the first plan of the first sketch."""
    return plans(derive(dag, GPU, CUDA).sketches[0], GPU)[0]


def row_of(plan: Plan, **sizes: int) -> tuple[int, ...]:
    """Return a row by sizes that are named `i_1` for `C.i.1`; others are 1.

    Copies of operands to padded rows have 64 threads.
    """
    short = ["_".join(size.name.split(".")[-2:]) for size in plan.sizes]
    assert sizes.keys() <= set(short)
    given = {THREADS: 64, **sizes}
    return tuple(given.get(name, 1) for name in short)


def scratch(program: Program, scope: Scope) -> dict[str, tuple[int, ...]]:
    """Return the extents of the scratch buffers of one scope."""
    stmts = [stmt for phase in program.phases for stmt in walk_stmt(phase.body)]
    found = [stmt.buffer for stmt in stmts if isinstance(stmt, Alloc)]
    return {buffer.name: buffer.extents for buffer in found if buffer.scope is scope}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("drawn", night((1, 12), [1]))
def test_a_tiled_operator_is_right(name: str, drawn: int) -> None:
    dag = OPERATORS[name]()
    emulator = backend(EMULATOR)
    cases = make_cases(dag, 0)
    plan = tiled_plan(dag)
    for row in sample(plan, drawn, np.random.default_rng(0)):
        program = bind(plan, row, GPU)
        loaded = emulator.load(emulator.build(program, GPU))
        failed = verify(loaded, program.buffers, cases, constants(dag))
        assert failed is None, (name, row, failed)


@pytest.mark.parametrize(("n", "m", "k"), [(64, 64, 32), (70, 61, 33)])
def test_sums_are_in_registers_and_operands_in_shared_memory(n: int, m: int, k: int) -> None:
    plan = tiled_plan(w.matmul_relu(n, m, k))
    row = row_of(plan, i_1=2, i_2=4, i_3=4, j_1=2, j_2=8, j_3=4, k_1=8)
    program = bind(plan, row, GPU)
    assert scratch(program, Scope.REGISTER) == {"C": (2, 4, 2, 4, 4, 8)}
    assert scratch(program, Scope.LOCAL) == {"A.shared": (2, 32, 8), "B.shared": (2, 8, 64)}
    (phase,) = program.phases
    sums = [
        tile
        for tile in walk_stmt(phase.body)
        if isinstance(tile, Tile) and tile.store.combiner == "sum"
    ]
    assert sums
    for tile in sums:  # no condition at any edge
        assert tile.mask is None
        assert [extent for _, extent in tile.lanes] == [4, 8]
    (text,) = simt_code(program, GPU).texts
    assert ptx(text, "sm_90").count("fma.rn.f32") >= 8 * 8 * 8


@pytest.mark.parametrize(("n", "m", "k"), [(64, 64, 64), (70, 61, 33), (33, 130, 8)])
def test_a_step_of_the_reduction_has_one_barrier_and_no_race(n: int, m: int, k: int) -> None:
    plan = tiled_plan(w.matmul_relu(n, m, k))
    row = row_of(plan, i_1=2, i_2=8, i_3=4, j_1=2, j_2=8, j_3=4, k_1=8)
    program = bind(plan, row, GPU)
    code = simt_code(program, GPU)
    arrays = [np.zeros(buffer.extents, np.float32) for buffer in program.buffers]
    for backwards in (False, True):
        log = LoggedKernel(code).log([array.ctypes.data for array in arrays], backwards)
        assert log.races == ()
        (launch,) = log.launches
        steps = -(-k // 8)  # the tail of a reduction has copies and a product of its own
        extra = 1 if k % 8 and k > 8 else 0
        assert sum(wait.times for wait in launch.waits) == launch.blocks * (steps + extra)


@pytest.mark.parametrize(("n", "m", "k"), [(64, 128, 48), (67, 130, 37)])
@pytest.mark.parametrize(
    ("i", "j"), [((1, 8, 8), (2, 16, 4)), ((2, 8, 4), (2, 16, 4)), ((1, 2, 8), (2, 64, 4))]
)
def test_blocks_with_64_sums_of_a_thread_are_right(
    i: tuple[int, ...], j: tuple[int, ...], n: int, m: int, k: int
) -> None:
    """Rows that the estimate chooses for products of about 1000: one warp for each scheduler."""
    dag = w.matmul(n, m, k)
    plan = tiled_plan(dag)
    row = row_of(plan, i_1=i[0], i_2=i[1], i_3=i[2], j_1=j[0], j_2=j[1], j_3=j[2], k_1=16)
    program, emulator = bind(plan, row, GPU), backend(EMULATOR)
    loaded = emulator.load(emulator.build(program, GPU))
    assert verify(loaded, program.buffers, make_cases(dag, 0), constants(dag)) is None


@pytest.mark.parametrize(
    ("i", "j", "k"),
    [
        ((2, 8, 4), (2, 8, 4), 8),
        ((2, 16, 4), (2, 16, 4), 8),
        ((2, 16, 4), (2, 4, 4), 16),  # rows of A begin in one bank without padding
        ((1, 32, 4), (2, 4, 4), 16),
        ((2, 4, 4), (2, 16, 4), 32),
    ],
)
def test_products_load_shared_memory_in_the_fewest_waves(
    i: tuple[int, int, int], j: tuple[int, int, int], k: int
) -> None:
    plan = tiled_plan(w.matmul_relu(int(np.prod(i)), int(np.prod(j)), 2 * k))
    sizes = {
        f"{axis}_{part}": n for axis, one in (("i", i), ("j", j)) for part, n in enumerate(one, 1)
    }
    program = bind(plan, row_of(plan, **sizes, k_1=k), GPU)
    arrays = [np.zeros(buffer.extents, np.float32) for buffer in program.buffers]
    (launch,) = (
        LoggedKernel(simt_code(program, GPU)).log([one.ctypes.data for one in arrays]).launches
    )
    loads = [
        one
        for one in launch.traffic
        if one.access.space == "shared" and not one.access.store and one.requests
    ]
    assert len(loads) > 8
    assert sum(one.cost for one in loads) == sum(one.least for one in loads)


def test_threads_of_a_drawn_block_are_whole_warps() -> None:
    plan = tiled_plan(w.matmul_relu(512, 512, 512))
    threads = [
        np.prod([value for size, value in zip(plan.sizes, row, strict=True) if size.part == 2])
        for row in sample(plan, 64, np.random.default_rng(1))
    ]
    assert all(count % 32 == 0 and 32 <= count <= 1024 for count in threads)
    assert len(set(threads)) > 3
