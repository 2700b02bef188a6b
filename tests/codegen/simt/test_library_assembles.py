"""Candidates of the operators of the suite, assembled by ptxas for every preset."""

import numpy as np
import pytest

from ansorpy.gpus import PRESETS
from ansorpy.target import cuda_target
from ansorpy.topi.suites import SUITE_SMALL
from benchmarks.cuda.report import static_report
from tests.codegen.simt.test_library import LIBRARY, written
from tests.codegen.simt.test_report import needs_ptxas
from tests.fuzz.pairs import draw


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize("name", SUITE_SMALL)
def test_every_launch_assembles_and_can_start(name: str, arch: str) -> None:
    target = cuda_target(arch)
    program, _, _ = draw(SUITE_SMALL[name](), target, np.random.default_rng(0))
    code = written(program, target)
    if isinstance(code, str):
        assert LIBRARY.search(code)
        return
    report = static_report(code, target)
    assert [one.launch for one in report] == list(code.launches)
    for one in report:
        assert not one.spills, one
        assert one.sass.all.local_accesses == 0
        assert one.occupancy.blocks_per_sm >= 1
        assert one.resources.shared_bytes <= one.launch.shared_bytes
