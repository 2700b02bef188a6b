"""numba.cuda source, compiled by the pinned numba-cuda without a device."""

import importlib
import importlib.util
import re
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

from ansorpy.codegen.simt.assemble import assemble
from ansorpy.codegen.simt.source import array_dtype
from ansorpy.gpus import PRESETS
from ansorpy.loopir.nodes import Program
from ansorpy.target import cuda_target
from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.simt.test_library import LIBRARY, gpu
from tests.codegen.simt.test_report import needs_ptxas
from tests.codegen.simt.test_source import dag_of, sourced
from tests.fuzz.pairs import draw
from tests.night import night

PINNED: Final = "0.30.4"
needs_numba_cuda = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="no numba-cuda here: make test-cuda"
)


def module_of(source: str, folder: Path) -> ModuleType:
    """Return the module of a source."""
    path = folder / "kernel.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("kernel_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(module: ModuleType, program: Program, arch: str) -> list[str]:
    """Return the PTX of every kernel."""
    cuda: Any = importlib.import_module("numba.cuda")
    types: Any = importlib.import_module("numba.cuda.types")
    arrays = tuple(
        types.Array(getattr(types, array_dtype(one.dtype)), 1, "C") for one in program.buffers
    )
    capability = divmod(int(arch.removeprefix("sm_")), 10)
    made: list[str] = []
    for kernel, _, _, _ in module.LAUNCHES:
        text, _ = cuda.compile(kernel.py_func, arrays, cc=capability, device=False, abi="numba")
        made.append(text)
    return made


@pytest.mark.cuda
@needs_numba_cuda
@needs_ptxas
@pytest.mark.parametrize("name", night(SUITE_SMALL, list(SUITE_SMALL)[::3]))
def test_an_operator_compiles_for_every_preset(name: str, tmp_path: Path) -> None:
    target = cuda_target("sm_90")
    program, _, _ = draw(SUITE_SMALL[name](), target, np.random.default_rng(len(name)))
    source = sourced(program, target)
    if LIBRARY.search(source):
        return
    module = module_of(source, tmp_path)
    for arch in PRESETS:
        for text, launch in zip(compiled(module, program, arch), module.LAUNCHES, strict=True):
            assert f".target {arch}\n" in text
            assert ".extern .func" not in text
            cubin = assemble(text, arch)
            ((_, used),) = cubin.kernels
            assert used.registers <= 255
            assert launch[2] <= 1024


@pytest.mark.cuda
@needs_numba_cuda
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "uint16", "uint32", "uint64", "int64", "float16", "bfloat16"]
)
def test_a_dtype_compiles(dtype: str, tmp_path: Path) -> None:
    program, _, _ = draw(dag_of(dtype), gpu(32), np.random.default_rng(0))
    for text in compiled(module_of(sourced(program, gpu(32)), tmp_path), program, "sm_80"):
        assert ".extern .func" not in text


@pytest.mark.cuda
@needs_numba_cuda
def test_the_compiler_is_the_pinned_one() -> None:
    assert version("numba-cuda") == PINNED


@pytest.mark.cuda
@needs_numba_cuda
def test_sums_of_products_are_one_instruction_in_registers(tmp_path: Path) -> None:
    target = cuda_target("sm_90")
    program, _, _ = draw(SUITE_SMALL["matmul"](), target, np.random.default_rng(0))
    texts = compiled(module_of(sourced(program, target), tmp_path), program, "sm_90")
    assert any("fma.rn.f32" in text for text in texts)
    assert not any(re.search(r"\.local", text) for text in texts)
