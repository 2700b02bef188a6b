"""A kernel file runs as its user runs it: every dtype, and every operator with float16.

A dtype is tested by one kernel with a product, a maximum and an argmax. `make test` has a dtype of
each kind; `make test-all` has every dtype, and every float dtype over `FLOATS`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from ansorpy.artifact import load, unbox
from ansorpy.codegen.kernel import Kernel
from ansorpy.expr.dtypes import DTYPES
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import SUITE_SMALL
from ansorpy.tuner.race.contestant import Contestant, contestant
from ansorpy.tuner.race.cpu_form import CpuForm
from ansorpy.tuner.tasks.task import Task
from tests.artifact.test_pack import packed
from tests.night import night

pytestmark = pytest.mark.slow

FLOATS = ("matmul", "conv2d_bias_relu", "softmax", "argmax")
HALVES = (
    "attention", "batch_norm", "depthwise_conv2d", "elementwise_chain", "layer_norm", "max_pool2d",
    "row_prod", "transposed_conv2d",
)  # fmt: skip
# A product, a maximum and an argmax in one kernel: a file of them is compiled once.
MIXED = """
def mixed({dtype}(7,17) A, {dtype}(17,13) B) -> (C, M, V, I) {{
  C(i,j) +=! {wide}(A(i,k)) * {wide}(B(k,j))
  M(i) max=! A(i,k)
  (V, I)(j) = argmax(k, B(k,j))
}}
"""
BOOL = "def masks(bool(9,17) A, bool(9,17) B, float(9,17) X) -> (C, D) {"
BOOL += " C(i,j) = A(i,j) && !B(i,j)  D(i,j) = C(i,j) ? X(i,j) : 0.0 }"
PAIRS = [
    *((dtype, "mixed") for dtype in DTYPES if dtype not in ("bool", "float16")),
    *(("float16", name) for name in (*FLOATS, *HALVES)),
    ("bool", "masks"),
    *((dtype, name) for dtype in ("bfloat16", "float32", "float64") for name in FLOATS),
]
KINDS = [
    *((dtype, "mixed") for dtype in ("bfloat16", "float64", "int8", "uint64")),
    ("float16", "matmul"), ("bool", "masks"),
]  # fmt: skip
HALF = "def half(float16(16,24) A, float16(24,8) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def dag_of(dtype: str, name: str) -> Dag:
    if dtype == "bool":
        return parse(BOOL)[0]
    if name == "mixed":  # products of bytes are summed in int32, as in the suite
        return parse(MIXED.format(dtype=dtype, wide="int32" if "int8" in dtype else dtype))[0]
    build: Callable[..., Dag] = SUITE_SMALL[name]
    return build(dtype=dtype)


def scheduled(dag: Dag) -> Contestant[Kernel]:
    """Return a candidate of the search space as it would be delivered."""
    task = Task.of(dag, local_target(1), "cpu@1")
    task.space.explore(CPU, limit=4)
    (row,) = sample(task.space.plans[0], 1, np.random.default_rng(0))
    plan, text = task.space.plans[0], task.space.texts[0]
    entry = contestant(task, plan, text, tuple(map(int, row)), CpuForm().emit)
    assert isinstance(entry, Contestant), entry
    return entry


def test_every_dtype_is_among_the_pairs() -> None:
    assert {dtype for dtype, _ in PAIRS} == set(DTYPES)


@pytest.mark.parametrize(("dtype", "name"), night(PAIRS, KINDS))
def test_the_self_test_of_a_zip_passes(dtype: str, name: str, tmp_path: Path) -> None:
    dag = dag_of(dtype, name)
    path, _ = packed(dag, tmp_path, scheduled(dag))
    assert load(path).selftest() == []


@pytest.fixture
def half(tmp_path: Path) -> Path:
    return packed(parse(HALF)[0], tmp_path)[0]


def test_float16_arrays_go_in_and_come_out(half: Path) -> None:
    kernel = load(half)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((16, 24), (24, 8)))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    found = kernel(a, b)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted, atol=0.1)  # 24 terms, each rounded to 11 bits
    out = np.zeros((16, 8), np.float16)
    assert kernel.prepare(np.asfortranarray(a), b, out=out)() is out
    np.testing.assert_array_equal(out, found)
    with pytest.raises(TypeError, match="A has dtype uint16; expected float16"):
        kernel(a.view(np.uint16), b)


def called(pool: LocalPool, files: Mapping[str, bytes]) -> Failed | float:
    return pool.begin_call(files)()


@pytest.mark.parametrize("cores", night([1, 2], day=[2]))
def test_a_kernel_file_is_called_in_a_measuring_process(cores: int, half: Path) -> None:
    with LocalPool(parse(HALF)[0], local_target(cores)) as pool:
        assert isinstance(called(pool, unbox(half.read_bytes(), "half").files), float)


@pytest.mark.parametrize("aside", night([False, True], day=[True]))
def test_a_kernel_file_that_cannot_be_called_is_refused(aside: bool, half: Path) -> None:
    files = unbox(half.read_bytes(), "half").files
    run = b"run = RUNNER.run\n"

    def edited(old: bytes, new: bytes, name: str = "kernel.py") -> dict[str, bytes]:
        assert old in files[name]
        return {**files, name: files[name].replace(old, new)}

    with LocalPool(parse(HALF)[0], local_target(1)) as pool:
        if aside:
            pool.workers.start_caller()
        raises = called(pool, edited(b"array.view(np.uint16) if", b"array if", "simd.py"))
        bits = called(pool, edited(run, b"run = lambda *a: RUNNER.run(*a).view(np.uint16)\n"))
        twice = called(pool, edited(run, b"run = lambda *a: RUNNER.run(*a) * np.float16(2)\n"))
        ends = called(pool, edited(run, b"import os\nos._exit(3)\n"))
        assert isinstance(called(pool, files), float)
    assert isinstance(raises, Failed)
    assert raises.message == "in a call of kernel.py: NotImplementedError: float16"
    assert isinstance(bits, Failed)
    assert bits.message == "kernel.py, random inputs: C is uint16[16, 8], expected float16[16, 8]"
    assert isinstance(twice, Failed)
    assert (twice.kind, "elements of C are wrong" in twice.message) == ("wrong", True)
    assert isinstance(ends, Failed)
    assert "exit code 3" in ends.message
