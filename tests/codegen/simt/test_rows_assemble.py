"""Rows in registers and reductions split among blocks, assembled by ptxas for every preset."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from ansorpy.codegen.simt.writer import simt_code
from ansorpy.gpus import PRESETS
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.population import sample
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.state.steps import CacheRead, Rfactor
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads as w
from benchmarks.cuda.report import static_report
from tests.codegen.simt.test_report import needs_ptxas

PLANS: Final = 3  # plans of an operator, from all over its list
ROWS: Final[dict[str, Callable[[], Dag]]] = {
    "softmax": lambda: w.softmax(256, 1024),
    "softmax_odd": lambda: w.softmax(7, 3001),
    "softmax_long": lambda: w.softmax(4, 32768),
    "layer_norm": lambda: w.layer_norm(256, 512),
    "layer_norm_odd": lambda: w.layer_norm(33, 1021),
    "rms_norm": lambda: w.rms_norm(64, 4096),
}
SPLIT: Final[dict[str, Callable[[], Dag]]] = {
    "all_sum": lambda: w.reduce_all(512, 512),
    "all_sum_odd": lambda: w.reduce_all(509, 511),
    "column_sum": lambda: w.reduce_columns(8192, 64),
    "row_max_odd": lambda: w.reduce_rows(3, 65537, "max"),
    "norm": lambda: w.norm(2, 257, 255),
}


def assemble(dag: Dag, arch: str, step: type) -> int:
    """Return how many candidates have been assembled, all of which take a rule with its step."""
    target = cuda_target(arch)
    sketches = derive(dag, target, CUDA).sketches
    kept = (one for one in sketches if any(isinstance(made, step) for made in one.steps))
    plans = all_plans(tuple(kept), target)
    rng = np.random.default_rng(0)
    chosen = plans[:: max(1, len(plans) // PLANS)][:PLANS]
    for plan in chosen:
        (row,) = sample(plan, 1, rng)
        code = simt_code(bind(plan, tuple(map(int, row)), target), target)
        for one in static_report(code, target):
            assert not one.spills, (plan.choices, row, one)
            assert one.sass.all.local_accesses == 0
            assert one.occupancy.blocks_per_sm >= 1
    return len(chosen)


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize("name", ROWS)
def test_a_row_stays_in_registers(name: str, arch: str) -> None:
    assert assemble(ROWS[name](), arch, CacheRead)


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize("name", SPLIT)
def test_a_reduction_is_split_among_blocks(name: str, arch: str) -> None:
    assert assemble(SPLIT[name](), arch, Rfactor)
