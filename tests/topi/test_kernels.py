"""Every operator through the engine: sketch, plan, row, program, machine code."""

import numpy as np
import pytest

from ansorpy import local_target, te, topi
from ansorpy.codegen.loader import build, load
from ansorpy.loopir.interp import run
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.oracle.reference import evaluate
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population.sample import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from tests.random_dag import random_inputs
from tests.topi.test_operators import CASES

TARGET = Target(cores=2, vector_bits=128)


def drawn(name: str, rng: np.random.Generator) -> Dag:
    """Return the Dag of one operator on drawn arguments."""
    made, tensors, _ = CASES[name](rng)
    return te.dag([made] if isinstance(made, te.Tensor) else list(made), name, inputs=tensors)


@pytest.mark.parametrize("name", CASES)
def test_a_program_of_an_operator_equals_the_oracle(name: str) -> None:
    rng = np.random.default_rng([1, *name.encode()])
    dag = drawn(name, rng)
    sketches = derive(dag, TARGET, CPU).sketches
    inputs = random_inputs(rng, dag)
    wanted = evaluate(dag, inputs)
    for sketch in (sketches[0], sketches[-1]):
        found = plans(sketch, TARGET)
        plan = found[int(rng.integers(len(found)))]
        (row,) = sample(plan, 1, rng)
        with np.errstate(all="ignore"):
            got = run(bind(plan, row.tolist(), TARGET), {**inputs, **constants(dag)}, strict=True)
        for one, truth in zip(got.values(), wanted, strict=True):
            # Reductions of at most a few hundred terms of about 1 in float32.
            np.testing.assert_allclose(one, truth, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_machine_code_of_an_operator_passes_the_verifier(name: str) -> None:
    rng, target = np.random.default_rng([1, *name.encode()]), local_target(cores=1)
    dag = drawn(name, rng)
    plan = plans(derive(dag, target, CPU).sketches[-1], target)[0]
    (row,) = sample(plan, 1, rng)
    program = bind(plan, row, target)
    loaded = load(build(program, target))
    assert verify(loaded, program.buffers, make_cases(dag, 1), constants(dag)) is None


def test_a_select_on_a_part_of_a_vector_of_bools_equals_numpy() -> None:
    """The masks that are dropped leave loads that are False, not 0."""
    target, rng = local_target(cores=1), np.random.default_rng(0)
    c, a, b = te.placeholder((6,), "C", "bool"), te.placeholder((), "A"), te.placeholder((), "B")
    dag = te.dag(topi.where(c, a, b, name="Y"), inputs=[c, a, b])
    inputs = random_inputs(rng, dag)
    for plan in plans(derive(dag, target, CPU).sketches[0], target):
        (row,) = sample(plan, 1, rng)
        found = run(bind(plan, row, target), inputs, strict=True)["Y"]
        np.testing.assert_array_equal(found, np.where(*inputs.values()))
