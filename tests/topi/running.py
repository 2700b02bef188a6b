"""Run a Dag through the engine on every back end."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ansorpy import local_target
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population.sample import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.dag import Dag
from tests.codegen.running import AVX2, run_llvm, run_source


def on_every_back_end(dag: Dag, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the outputs by LLVM for two widths and by numba: equal bits, NaN beside NaN."""
    target = local_target(cores=1)
    plan = plans(derive(dag, target, CPU).sketches[-1], target)[0]
    (row,) = sample(plan, 1, np.random.default_rng(0))
    program = bind(plan, row, target)
    inputs = dict(zip((node.name for node in dag.placeholders), arrays, strict=True))
    first = run_llvm(program, inputs)
    for other in (run_llvm(program, inputs, AVX2), run_source(program, inputs)):
        for name in dag.outputs:
            numbers = first[name] == first[name]
            np.testing.assert_array_equal(other[name] == other[name], numbers, name)
            assert other[name][numbers].tobytes() == first[name][numbers].tobytes(), name
    return [first[name] for name in dag.outputs]
