"""Copies and matrix instructions, compiled by LLVM and assembled by ptxas for every preset."""

import pytest

from ansorpy.gpus import PRESETS
from ansorpy.target import cuda_target
from benchmarks.cuda.report import static_report
from tests.codegen.simt.emulator.test_pipeline import STEPS, product
from tests.codegen.simt.test_report import needs_ptxas


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
def test_a_product_in_stages_uses_the_tensor_cores(arch: str) -> None:
    """Each step has two products, two loads of four matrices, and two copies."""
    (one,) = static_report(product(), cuda_target(arch))
    assert not one.spills
    for name in ("HMMA", "LDSM", "LDGSTS"):
        assert one.sass.all[name] == 2 * STEPS, name
