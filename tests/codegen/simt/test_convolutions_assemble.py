"""Convolutions of every kind in blocks of threads, assembled by ptxas for every preset."""

from collections.abc import Callable
from math import inf
from typing import Final

import numpy as np
import pytest

from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.cost.simt import seconds
from ansorpy.cost.simt_facts import program_facts
from ansorpy.gpus import PRESETS
from ansorpy.loopir.nodes import Program, Scope
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.thread_blocks import thread_blocks
from ansorpy.population import sample
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads as w
from benchmarks.cuda.report import static_report
from tests.codegen.simt.test_blocks import GPU, SAME, scratch
from tests.codegen.simt.test_report import needs_ptxas

DRAWN: Final = 8  # candidates, which the estimate ranks
FIRST: Final = 3  # places of the ranking in which a candidate without spills stands
HALF: Final = w.Window(stride=2, padding=1)
OPERATORS: Final[dict[str, Callable[[], Dag]]] = {
    "nchw": lambda: w.conv2d(1, 64, 28, 28, 64, 3, SAME),
    "nchw_odd": lambda: w.conv2d_bias_relu(1, 61, 27, 29, 67, 3, SAME),
    "nhwc": lambda: w.conv2d_nhwc(1, 28, 28, 64, 64, 3, SAME),
    "nhwc_odd": lambda: w.conv2d_nhwc(1, 27, 29, 61, 67, 3, SAME),
    "strided": lambda: w.conv2d(1, 32, 56, 56, 64, 3, HALF),
    "strided_odd": lambda: w.conv2d(1, 33, 57, 55, 65, 3, HALF),
    "grouped": lambda: w.conv2d(1, 64, 28, 28, 64, 3, w.Window(padding=1, groups=4)),
    "grouped_odd": lambda: w.conv2d_bias_relu(1, 33, 27, 13, 27, 3, w.Window(1, 1, groups=3)),
    "depthwise": lambda: w.depthwise_conv2d(1, 64, 56, 56, 3, SAME),
    "depthwise_odd": lambda: w.depthwise_conv2d(1, 33, 27, 29, 3, SAME),
    "transposed": lambda: w.transposed_conv2d(1, 64, 14, 14, 64, 4, padding=1),
    "transposed_odd": lambda: w.transposed_conv2d(1, 33, 7, 9, 29, 4, padding=1),
}


def ranked(dag: Dag) -> list[tuple[Program, SimtCode]]:
    """Return candidates of the first plan, the best by the estimate first."""
    sketch = derive(dag, GPU, CUDA).sketches[0]
    assert thread_blocks(sketch).tiled
    plan = plans(sketch, GPU)[0]
    assert GPU.gpu is not None
    found: list[tuple[float, int, Program, SimtCode]] = []
    for row in sample(plan, DRAWN, np.random.default_rng(0)):
        program = bind(plan, tuple(map(int, row)), GPU)
        code = simt_code(program, GPU)
        facts = program_facts(program, code.launches, (None,) * len(code.launches))
        found.append((seconds(facts, GPU.gpu) or inf, len(found), program, code))
    return [(program, code) for *_, program, code in sorted(found, key=lambda one: one[:2])]


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_convolution_shares_copies_without_spills(name: str, arch: str) -> None:
    """As in a tuning, candidates that spill fail, and the next is taken."""
    for program, code in ranked(OPERATORS[name]())[:FIRST]:
        report = static_report(code, cuda_target(arch))
        assert len(scratch(program, Scope.LOCAL)) == 2
        if not any(one.spills for one in report):
            break
    for one in report:
        assert not one.spills, one
        assert one.sass.all.local_accesses == 0
        assert one.occupancy.blocks_per_sm >= 1
