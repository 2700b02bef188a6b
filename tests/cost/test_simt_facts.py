"""Facts of launches: invariants of whole operators, and accesses computed by hand."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from ansorpy.codegen.simt.assemble import Resources
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.cost.simt import LaunchFacts, seconds
from ansorpy.cost.simt_access import WarpTraffic, traffic
from ansorpy.cost.simt_facts import (
    BARRIER_CLOCKS,
    BASE_REGISTERS,
    CHAIN_CLOCKS,
    COPY_CLOCKS,
    LOAD_CLOCKS,
    SHARED_CLOCKS,
    least_registers,
    program_facts,
)
from ansorpy.expr.expr import Expr
from ansorpy.gpus import PRESETS
from ansorpy.loopir.nodes import Alloc, Phase, Program, Scope, Tile
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from benchmarks.cuda.report import static_report
from tests.codegen.simt.test_blocks import row_of, tiled_plan
from tests.codegen.simt.test_matrix_products import bound
from tests.codegen.simt.test_matrix_products import product as bf16_product
from tests.codegen.simt.test_report import needs_ptxas
from tests.fuzz.pairs import draw
from tests.loopir.build import buffer, c, mul, read, store, v

TARGET = cuda_target("sm_90")


def facts(program: Program) -> tuple[LaunchFacts, ...]:
    launches = simt_code(program, TARGET).launches
    return program_facts(program, launches, (None,) * len(launches))


def drawn(dag: Dag, seed: int) -> tuple[LaunchFacts, ...]:
    program, _, _ = draw(dag, TARGET, np.random.default_rng(seed))
    return facts(program)


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_multiply_adds_of_a_matmul_are_those_of_its_definition(seed: int) -> None:
    found = drawn(workloads.matmul(64, 256, 128), seed)
    assert sum(one.multiply_adds * 32 * one.blocks for one in found) == 64 * 256 * 128


def test_a_scalar_multiply_add_occupies_a_warp() -> None:
    plan = naive(workloads.matmul(8, 16, 4), TARGET)
    (found,) = facts(bind(plan, plan.smallest_row, TARGET))
    assert found.multiply_adds * found.blocks == 8 * 16 * 4


@pytest.mark.parametrize("seed", range(4))
def test_an_element_wise_chain_moves_each_byte_once(seed: int) -> None:
    dag = workloads.elementwise_chain(64, 512)
    (found,) = drawn(dag, seed)
    own = sum(prod(node.shape) * 4 for node in dag.placeholders) + 64 * 512 * 4
    assert found.memory_bytes == own
    assert found.sectors * 32 * found.blocks >= own
    assert found.sectors * 32 * found.blocks <= 2.0 * own  # the bias is read by every row
    assert found.shared_waves == 0


def test_registers_and_shared_memory_of_ptxas_replace_the_estimate() -> None:
    program, _, _ = draw(workloads.matmul(64, 256, 128), TARGET, np.random.default_rng(0))
    (launch,) = simt_code(program, TARGET).launches
    (guessed,) = program_facts(program, (launch,), (None,))
    (counted,) = program_facts(program, (launch,), (Resources(113, 4096),))
    assert (counted.registers, counted.shared_bytes) == (113, 4096)
    assert replace(counted, registers=guessed.registers, shared_bytes=0) == guessed
    assert guessed.registers >= BASE_REGISTERS


def product(n: int, **sizes: int) -> Program:
    """Return a product of n x n x n in blocks of threads."""
    plan = tiled_plan(workloads.matmul(n, n, n))
    return bind(plan, row_of(plan, **sizes), TARGET)


WIDE = {"i_1": 1, "i_2": 8, "i_3": 8, "j_1": 2, "j_2": 16, "j_3": 4}  # 64 sums of 128 threads


def test_a_step_in_stages_waits_for_a_barrier_and_its_first_operands() -> None:
    stalls = [facts(product(n, **WIDE, k_1=16))[0].stall_clocks for n in (512, 1024)]
    # The copies of a step take less time than its 1024 multiply-adds.
    assert stalls[1] - stalls[0] == 32 * (BARRIER_CLOCKS + SHARED_CLOCKS)


def test_a_short_step_waits_for_its_copies() -> None:
    short, long = (facts(product(1024, **WIDE, k_1=k))[0].stall_clocks for k in (2, 16))
    assert short > 512 * (COPY_CLOCKS - 2 * 64 - 100)
    assert long < 0.02 * short


def test_loads_of_a_copy_do_not_wait_for_each_other() -> None:
    """A warp copies 32 rows in a loop, then multiplies two tiles: a wait for each one's operands.

    A tile is 16 steps of 8x8 sums: 1,024 products, as many as a tile has.
    """
    sizes = {"i_1": 1, "i_2": 1, "i_3": 8, "j_1": 1, "j_2": 32, "j_3": 8}
    (found,) = facts(product(1024, **sizes, k_1=32))
    waits = 2 * BARRIER_CLOCKS + 2 * LOAD_CLOCKS + 2 * SHARED_CLOCKS
    assert found.stall_clocks == pytest.approx(32 * waits, rel=0.02)


def test_a_sum_of_one_chain_waits_for_each_addition() -> None:
    plan = naive(workloads.matmul(8, 16, 64), TARGET)
    (found,) = facts(bind(plan, plan.smallest_row, TARGET))
    assert found.stall_clocks >= found.multiply_adds * (CHAIN_CLOCKS - 1)


def test_a_thread_of_a_large_block_has_its_share_of_the_registers() -> None:
    sizes = {"i_1": 4, "i_2": 32, "i_3": 1, "j_1": 2, "j_2": 32, "j_3": 2}
    (found,) = facts(product(1024, **sizes, k_1=8))
    assert (found.threads, found.registers) == (1024, 64)


def test_larger_tiles_of_a_thread_are_estimated_to_be_faster() -> None:
    """Blocks of one number: 64 sums of a thread load less than 32 or 16, and fill a scheduler."""
    half = {**WIDE, "i_2": 16, "i_3": 4}
    quarter = {"i_1": 4, "i_2": 16, "i_3": 1, "j_1": 1, "j_2": 32, "j_3": 4}
    found = []
    for sizes in (WIDE, half, quarter):
        launches = facts(product(1024, **sizes, k_1=16))
        assert launches[0].blocks == 128
        told = seconds(launches, PRESETS["sm_90"])
        assert told is not None
        found.append(told)
    assert found[0] < found[1] < found[2]


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize(("n", "step"), [(1024, 8), (1024, 16), (1000, 8)])
def test_instructions_of_a_step_are_those_of_the_machine_code(n: int, step: int) -> None:
    program = product(n, **WIDE, k_1=step)
    (launch,) = static_report(simt_code(program, TARGET), TARGET)
    (found,) = facts(program)
    warps = found.threads // 32
    assert launch.main["FFMA"] == 64 * step
    assert found.instructions / warps / -(-n // step) == pytest.approx(launch.main.total, rel=0.05)


def on_matrices(n: int) -> Program:
    return bound(bf16_product(n, n, n), i_1=4, i_2=64, j_1=16, j_2=4, j_3=2, k_1=32)


def test_matrix_instructions_are_those_of_the_definition() -> None:
    (found,) = facts(on_matrices(512))
    assert found.matrix_products * found.blocks * 16 * 8 * 16 == 512**3
    assert found.multiply_adds == 0
    # A warp loads 2 and 8 times four matrices of 4 waves for 16 steps; 12 KB are copied to stages.
    steps, warps = 512 // 16, 8
    assert found.shared_waves >= steps * warps * (2 + 8) * 4
    scalar = facts(bound(bf16_product(512, 512, 512), i_1=2, i_2=32, j_1=8, j_2=8, j_3=4, k_1=32))
    told = [seconds(one, PRESETS["sm_90"]) for one in ((found,), scalar)]
    assert told[0] is not None
    assert told[1] is not None
    assert 4 * told[0] < told[1]


@pytest.mark.cuda
@needs_ptxas
def test_instructions_of_a_step_on_matrices_are_those_of_the_machine_code() -> None:
    program = on_matrices(1024)
    (launch,) = static_report(simt_code(program, TARGET), TARGET)
    (found,) = facts(program)
    assert launch.main["HMMA"] == found.matrix_products / 8 / (1024 // 32)
    assert found.instructions / 8 / (1024 // 32) == pytest.approx(launch.main.total, rel=0.15)


def test_launches_ahead_are_not_timed() -> None:
    program, _, _ = draw(workloads.matmul(64, 256, 128), TARGET, np.random.default_rng(0))
    (launch,) = simt_code(program, TARGET).launches
    assert program_facts(program, (replace(launch, ahead=True),), (None,)) == ()


def access(index: tuple[Expr, ...], shape: tuple[int, ...], *, width: int = 1) -> WarpTraffic:
    """Return the traffic of a read by 2 x 32 lanes over 4 rows."""
    body = store("C", (R, L), read("A", *index))
    tile = Tile((("r", 4),), (("o", 2), ("l", 32)), body, access_width=width)
    return traffic(tile, buffer("A", *shape), index, {"b": 1})


R, L, B = v("r"), v("l"), v("b")


@pytest.mark.parametrize(
    ("index", "shape", "expected"),
    [
        ((R, L), (4, 32), WarpTraffic(4, 4 * 4, 4)),  # 128 bytes of a row: 4 sectors, one pass
        ((L, R), (32, 4), WarpTraffic(4, 32 / 2, 4 * 4)),  # 4 rows in 16 bytes; 4 threads of a bank
        ((R, B), (4, 32), WarpTraffic(4, 4, 4)),  # one element for all threads
        (
            (mul(L, 32), R),
            (1024, 4),
            WarpTraffic(4, 32, 4 * 32),
        ),  # all threads on one bank
        ((B, B), (4, 32), WarpTraffic(1, 1, 1)),
    ],
)
def test_sectors_and_waves_follow_from_the_addresses_of_a_warp(
    index: tuple[Expr, ...], shape: tuple[int, ...], expected: WarpTraffic
) -> None:
    assert access(index, shape) == expected


def test_a_wide_access_needs_fewer_requests_and_as_many_bytes() -> None:
    found = access((L, R), (32, 4), width=4)
    assert found.requests == 1
    assert found.sectors == 16
    assert found.waves >= 4  # 512 bytes


def test_a_gather_has_a_sector_for_every_thread() -> None:
    found = access((read("I", L, dtype="int64"), R), (4, 4))
    assert found == WarpTraffic(4, 4 * 32, 4 * 32)


def test_registers_of_a_tile_are_those_of_one_thread() -> None:
    sums = buffer("sums", 8, 128, scope=Scope.REGISTER, dtype="float64")
    body = store("sums", (R, L), c(0.0, "float64"))
    alloc = Alloc(sums, Tile((("r", 8),), (("l", 128),), body))
    assert least_registers(Phase("p", alloc)) == 2 * 8
