"""Kernels for a GPU in the measuring processes, through the emulator as a back end."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Const
from ansorpy.loopir.nodes import Program, Stmt, Tile
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.simt.test_blocks import EMULATOR
from tests.codegen.simt.test_library import gpu
from tests.fuzz.pairs import draw
from tests.miscompile.edits import edit

pytestmark = pytest.mark.slow


def last_store_dropped(program: Program) -> Program:
    """Return the program without its last tile."""

    def emptied(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, Tile)
        return replace(stmt, mask=Binary("lt", Const(1), Const(0)))

    return edit(lambda stmt: isinstance(stmt, Tile), emptied, -1)(program)


@pytest.mark.parametrize("name", ["matmul", "softmax"])
def test_a_kernel_for_a_gpu_is_checked_as_one_for_a_cpu(name: str) -> None:
    dag, target = SUITE_SMALL[name](), replace(gpu(64), cores=1)
    program, _, _ = draw(dag, target, np.random.default_rng(0))
    settings = MeasureSettings(backend=EMULATOR)
    with LocalPool(dag, target, settings) as pool:
        right, wrong = pool.measure([program, last_store_dropped(program)])
    assert isinstance(right, Measured), right
    assert isinstance(wrong, Failed)
    assert wrong.kind == "wrong", wrong
