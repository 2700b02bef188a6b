"""Kernels in the measuring processes, through the calls of the driver."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.simt.device.test_operators import EMULATED
from tests.codegen.simt.emulator.test_measured import last_store_dropped
from tests.codegen.simt.test_library import gpu
from tests.fuzz.pairs import draw

pytestmark = pytest.mark.slow


def test_trials_of_a_device_are_checked_and_timed_by_events() -> None:
    dag, target = SUITE_SMALL["matmul"](), replace(gpu(64), cores=1)
    program, _, _ = draw(dag, target, np.random.default_rng(0))
    settings = MeasureSettings(backend=EMULATED, sampling=SamplingOptions(samples=3))
    with LocalPool(dag, target, settings) as pool:
        right, wrong, again = pool.measure([program, last_store_dropped(program), program])
    assert isinstance(right, Measured), right
    assert isinstance(wrong, Failed)
    assert wrong.kind == "wrong", wrong
    assert isinstance(again, Measured), again
    assert min(right.times_s) > 0
