"""Candidates of whole operators as kernels for a GPU, run thread by thread on this machine.

Every case of a trial, both orders of threads and blocks, against the float64 reference; and one
case with a log: no races, no access outside of a buffer. A short
form; `ANSORPY_NIGHT=1` (`make test-all`) draws more of each.
"""

from typing import Final

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.simt.emulator.log import LoggedKernel
from ansorpy.measure.backend import backend
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.guard_pages import Arena
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.simt.test_library import EVERY, NIGHT, ODD, WHOLE, drawn, written
from tests.fuzz.suite_dags import suite_dag
from tests.topi.test_operators import CASES

EMULATOR: Final = "ansorpy.codegen.simt.emulator"
DRAWN: Final = 24 if NIGHT else 1  # candidates of each operator


def check(dag: Dag, seed: int, log: bool = True) -> None:
    """Check a candidate, its log as well; `test_library` reads the sentence of a refusal."""
    program, target = drawn(dag, seed)
    code = written(program, target)
    if isinstance(code, str):
        return
    cases = make_cases(dag, seed)
    if program.meaning is not None:
        cases = reformulated(cases, program.meaning)
    emulator = backend(EMULATOR)
    loaded = emulator.load(emulator.build(program, target))
    failed = verify(loaded, program.buffers, cases, constants(dag))
    assert failed is None, (seed, failed)
    if not log:
        return
    arena = Arena(program.buffers, "left")
    arena.fill({**constants(dag), **cases[0].inputs}, "nan")
    assert LoggedKernel(code).log(arena.addresses).races == ()


@pytest.mark.parametrize("name", SUITE_SMALL)
def test_an_operator_of_the_suite_is_right(name: str) -> None:
    for seed in range(DRAWN):
        check(SUITE_SMALL[name](), seed)


@pytest.mark.parametrize("name", WHOLE)
def test_an_operator_of_whole_warps_is_right(name: str) -> None:
    for seed in range(2 * DRAWN):
        check(WHOLE[name](), seed, log=seed < DRAWN)


@pytest.mark.parametrize("seed", range(ODD))
def test_an_operator_at_odd_sizes_is_right(seed: int) -> None:
    check(suite_dag(seed, np.random.default_rng(seed)), seed)


@pytest.mark.parametrize("name", list(CASES)[::EVERY])
def test_an_operator_of_the_library_is_right(name: str) -> None:
    made, tensors, _ = CASES[name](np.random.default_rng([0, *name.encode()]))
    outputs = [made] if isinstance(made, te.Tensor) else list(made)
    check(te.dag(outputs, name, inputs=tensors), 0)
