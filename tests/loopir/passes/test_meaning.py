"""Every pass keeps the meaning of the program: the interpreter before and after agrees.

`make test-all` draws more programs of each kind.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ansorpy.expr.expr import Const
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, LoopKind, Program, Scope, Store
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import passes
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CPU, CUDA
from ansorpy.sketch import derive
from ansorpy.target import Target, cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import (
    Window,
    batch_matmul,
    conv2d,
    conv2d_bias_relu,
    conv2d_nhwc,
    depthwise_conv2d,
    matmul_relu,
    transpose_batch_matmul,
)
from tests.night import night
from tests.random_dag import DagLimits, random_dag
from tests.rules.test_tensorize import matmul

LIMITS = DagLimits(computes=3, extent=12, points=4_000, rank=3)


@pytest.mark.parametrize("seed", night(range(60), range(30)))
def test_every_pass_keeps_the_meaning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dag = random_dag(rng, LIMITS)
    bits = int(rng.choice([128, 256, 512]))
    features = ("avx512f",) if bits == 512 else ()
    target = Target(cores=2, vector_bits=bits, features=features, l3_bytes=64)  # outputs fill it
    sketches = derive(dag, target, CPU).sketches
    every = plans(sketches[int(rng.integers(len(sketches)))], target, 12)
    _keep_the_meaning(dag, every[int(rng.integers(len(every)))], target, rng, seed)


@pytest.mark.parametrize("seed", night(range(12), range(6)))
def test_every_pass_keeps_the_meaning_of_products_on_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = Target(cores=2, features=("amx-int8", "amx-tile", "avx512f", "avx512vnni"))
    a, b = ("int8", "uint8")[seed % 2], ("int8", "uint8")[seed // 2 % 2]
    # a tile of 16 x 16 x 64 and a tail of each axis at most
    n, m, k = (int(x) for x in rng.integers((4, 8, 32), (22, 22, 74)))
    dag = matmul(n, m, k, (a, b, "int32"))
    sketches = [s for s in derive(dag, target, CPU).sketches if any(x.dot for x in s.stages)]
    every = plans(sketches[int(rng.integers(len(sketches)))], target, 12)
    _keep_the_meaning(dag, every[int(rng.integers(len(every)))], target, rng, seed)


TILED = {
    "matmul_relu": matmul_relu(9, 7, 6),
    "batch_matmul": batch_matmul(3, 7, 5, 4),
    "transposed": transpose_batch_matmul(1, 7, 3, 5),
    "conv2d": conv2d(1, 2, 5, 5, 3, 3, Window(padding=1)),
    "strided": conv2d(1, 2, 7, 6, 3, 3, Window(stride=2, padding=1)),
    "dilated": conv2d(1, 2, 5, 6, 3, 3, Window(padding=2, dilation=2)),
    "grouped": conv2d_bias_relu(1, 4, 5, 5, 6, 3, Window(padding=1, groups=2)),
    "depthwise": depthwise_conv2d(1, 3, 5, 5, 3, Window(padding=1)),
    "nhwc": conv2d_nhwc(1, 5, 5, 2, 3, 3, Window(padding=1)),
}


@pytest.mark.parametrize("name", TILED)
@pytest.mark.parametrize("seed", night(range(3), range(1)))
def test_every_pass_for_a_gpu_keeps_the_meaning_of_tiled_operators(name: str, seed: int) -> None:
    rng = np.random.default_rng([seed, len(name)])
    _on_a_gpu(TILED[name], rng, seed)


@pytest.mark.parametrize("seed", night(range(20), range(12)))
def test_every_pass_for_a_gpu_keeps_the_meaning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _on_a_gpu(random_dag(rng, LIMITS), rng, seed)


def _on_a_gpu(dag: Dag, rng: np.random.Generator, seed: int) -> None:
    target = replace(cuda_target("sm_90"), tile_threads=int(rng.choice([32, 128])))
    sketches = derive(dag, target, CUDA).sketches
    every = plans(sketches[int(rng.integers(len(sketches)))], target, 12)
    _keep_the_meaning(dag, every[int(rng.integers(len(every)))], target, rng, seed)


def _keep_the_meaning(
    dag: Dag, plan: Plan, target: Target, rng: np.random.Generator, seed: int
) -> None:
    (row,) = sample(plan, 1, rng)
    case = make_cases(dag, seed)[0]
    before = None
    for name, program in passes(plan, row, target):
        if program != before:  # a pass that changes nothing keeps the meaning
            with np.errstate(all="ignore"):
                got = run(program, {**case.inputs, **constants(dag)})
            failed = compare_all(case, got.__getitem__, program.by_name)
            assert failed is None, f"after {name}: {failed}"
        before = program
        assert name in _AFTER, f"no check of the form after {name} in _AFTER"
        _AFTER[name](program)


def _statements(program: Program) -> Iterator[object]:
    for phase in program.phases:
        yield from walk_stmt(phase.body)


def _shapes_are_known(program: Program) -> None:
    assert all(isinstance(n, Const) for buffer in program.buffers for n in buffer.shape)
    for stmt in _statements(program):
        assert not (isinstance(stmt, For) and stmt.extent == Const(1))


def _tasks_are_counted(program: Program) -> None:
    for stmt in _statements(program):
        if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
            assert isinstance(stmt.extent, Const)


def _unrolled_loops_are_counted(program: Program) -> None:
    for stmt in _statements(program):
        if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLL:
            assert isinstance(stmt.extent, Const)


def _nothing_is_shared_out(program: Program) -> None:
    for stmt in _statements(program):
        assert not (isinstance(stmt, For) and stmt.kind is LoopKind.SHARE)


def _scratch_is_allocated_once(program: Program) -> None:
    _all_is_tiled(program)
    allocs = [part.buffer for part in _statements(program) if isinstance(part, Alloc)]
    held = {buffer.name for buffer in allocs if buffer.scope is Scope.REGISTER}
    scratch = [buffer.name for buffer in allocs if buffer.name not in held]
    assert len(set(scratch)) == len(scratch)


def _all_is_tiled(program: Program) -> None:
    for stmt in _statements(program):
        assert not isinstance(stmt, Store)
        if isinstance(stmt, For):
            assert stmt.kind in (LoopKind.SERIAL, LoopKind.PARALLEL)


_AFTER = {
    "bind_sizes": _shapes_are_known,
    "hoist_init": _shapes_are_known,
    "normalize_parallel": _tasks_are_counted,
    "partition_boundary": _tasks_are_counted,
    "peel": _unrolled_loops_are_counted,
    "split_choices": _unrolled_loops_are_counted,
    "hoist": _unrolled_loops_are_counted,
    "share": _nothing_is_shared_out,
    "tile": _all_is_tiled,
    "zero_init": _all_is_tiled,
    "scalar_replacement": _all_is_tiled,
    "promote_accumulators": _all_is_tiled,
    "drop_masks": _all_is_tiled,
    "reuse_window": _all_is_tiled,
    "warp_matrices": _all_is_tiled,
    "extend_tiles": _all_is_tiled,
    "unroll": _all_is_tiled,
    "hoist_alloc": _scratch_is_allocated_once,
    "vectors": _scratch_is_allocated_once,
    "pad": _scratch_is_allocated_once,
    "stages": _all_is_tiled,
    "whole_blocks": _all_is_tiled,
    "transpose_blockwise": _all_is_tiled,
    "live_vectors": _all_is_tiled,
    "non_temporal_stores": _all_is_tiled,
    "prefetch": _all_is_tiled,
}
