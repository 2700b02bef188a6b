"""The interpreter against the float64 meaning, over plans and rows, symbolic and tiled."""

import numpy as np
import pytest

from ansorpy.loopir.interp import run
from ansorpy.loopir.verify import check
from ansorpy.oracle.reference import evaluate
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population.sample import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads

TARGET = Target(cores=2, vector_bits=128)
DAGS = [
    workloads.matmul_relu(9, 10, 3),
    workloads.matmul_bias_gelu(4, 9, 5),
    workloads.softmax(3, 11),
    workloads.argmax(4, 13),
    workloads.reduce_all(5, 40),
]


@pytest.mark.parametrize("dag", DAGS, ids=range(len(DAGS)))
def test_every_sketch_has_the_meaning_of_its_dag(dag: Dag) -> None:
    rng = np.random.default_rng(0)
    inputs = {p.name: rng.standard_normal(p.shape).astype(p.dtype) for p in dag.placeholders}
    expected = evaluate(dag, inputs)
    for sketch in derive(dag, TARGET, CPU).sketches:
        found = plans(sketch, TARGET)
        plan = found[int(rng.integers(len(found)))]
        names = [size.name for size in plan.sizes]
        check(plan.program, "symbolic", names)
        (row,) = sample(plan, 1, rng)
        sizes = dict(zip(names, map(int, row), strict=True))
        symbolic = run(plan.program, inputs, sizes, strict=True)
        tiled = run(bind(plan, row.tolist(), TARGET), inputs, strict=True)
        for one, two, truth in zip(symbolic.values(), tiled.values(), expected, strict=True):
            # Reductions of at most 200 terms of about 1 in float32.
            np.testing.assert_allclose(one, truth, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(two, truth, rtol=1e-4, atol=1e-5)
