"""Every operator through the engine: sketch, plan, row, program; interpreted against the oracle."""

import numpy as np
import pytest

from ansorpy import te
from ansorpy.loopir.interp import run
from ansorpy.oracle.reference import evaluate
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population.sample import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from tests.random_dag import random_inputs
from tests.topi.test_operators import CASES

TARGET = Target(cores=2, vector_bits=128)


@pytest.mark.parametrize("name", CASES)
def test_a_program_of_an_operator_equals_the_oracle(name: str) -> None:
    rng = np.random.default_rng([1, *name.encode()])
    made, tensors, _ = CASES[name](rng)
    outputs = [made] if isinstance(made, te.Tensor) else list(made)
    dag = te.dag(outputs, name, inputs=tensors)
    sketches = derive(dag, TARGET, CPU).sketches
    inputs = random_inputs(rng, dag)
    wanted = evaluate(dag, inputs)
    for sketch in (sketches[0], sketches[-1]):
        found = plans(sketch, TARGET)
        plan = found[int(rng.integers(len(found)))]
        (row,) = sample(plan, 1, rng)
        with np.errstate(all="ignore"):
            got = run(bind(plan, row.tolist(), TARGET), inputs, strict=True)
        for one, truth in zip(got.values(), wanted, strict=True):
            # Reductions of at most a few hundred terms of about 1 in float32.
            np.testing.assert_allclose(one, truth, rtol=1e-3, atol=1e-4)
