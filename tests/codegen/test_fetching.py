"""Real operators that fetch ahead: every back end agrees with the interpreter.

Two programs of each; `make test-all` has four.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from ansorpy.loopir.interp import run as interpret
from ansorpy.loopir.nodes import Prefetch, Program
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu, matmul
from tests.codegen.running import run_llvm, run_source
from tests.night import night

TARGET = Target(cores=1, vector_bits=512, features=("avx512f",), l3_bytes=64)
DAGS = {
    "matmul": matmul(12, 64, 20),
    "1x1": conv2d_bias_relu(2, 6, 5, 16, 12, 1, Window(padding=0)),
    "3x3": conv2d_bias_relu(1, 3, 5, 16, 12, 3, Window(padding=1)),
}


def that_fetch(dag: Dag) -> Iterator[Program]:
    """Yield programs that fetch, one of a plan."""
    rng = np.random.default_rng(0)
    for sketch in derive(dag, TARGET, CPU).sketches:
        for plan in plans(sketch, TARGET, 12):
            for row in sample(plan, 12, rng):
                made = bind(plan, [int(n) for n in row], TARGET)
                parts = (part for phase in made.phases for part in walk_stmt(phase.body))
                if any(isinstance(part, Prefetch) for part in parts):
                    yield made
                    break


@pytest.mark.parametrize("name", DAGS)
@pytest.mark.parametrize("programs", night((2, 4), [2]))
def test_prefetches_do_not_change_the_result(name: str, programs: int) -> None:
    dag = DAGS[name]
    rng = np.random.default_rng(1)
    inputs = {
        node.name: rng.integers(-9, 9, node.shape).astype(np.float32) for node in dag.placeholders
    } | dict(constants(dag))
    seen = 0
    for number, made in zip(range(programs), that_fetch(dag), strict=False):
        expected = interpret(made, inputs)
        found = [run_llvm(made, inputs)] + ([] if number else [run_source(made, inputs)])
        for arrays in found:
            for output, array in expected.items():
                np.testing.assert_array_equal(arrays[output], array, err_msg=str(made))
        seen += 1
    assert seen == programs
