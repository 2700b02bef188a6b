"""Register-tile matmul through both printers: tails, masks, agreement to the bit."""

from collections.abc import Callable

import numpy as np
import pytest

from ansorpy.codegen.loader import build, build_source, load
from ansorpy.codegen.numba_source import emit
from ansorpy.target import Target
from tests.codegen.programs import Array, arrays_of, matmul, pack
from tests.codegen.running import run_all, run_llvm


def inputs_of(n: int, m: int, k: int, width: int) -> tuple[dict[str, Array], Array]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((n, k)).astype(np.float32)
    b = rng.standard_normal((k, m)).astype(np.float32)
    exact = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    return {"A": a, "B": pack(b, width)}, exact


@pytest.mark.parametrize(
    ("n", "m", "k", "rows", "vectors"),
    [(16, 96, 5, 8, 3), (17, 97, 6, 8, 3), (7, 5, 3, 8, 3), (1, 1, 1, 1, 1), (13, 33, 4, 6, 2)],
)
def test_a_matmul_with_tails_equals_numpy(n: int, m: int, k: int, rows: int, vectors: int) -> None:
    inputs, exact = inputs_of(n, m, k, vectors * 16)
    found = run_all(matmul(n, m, k, rows, vectors), inputs)["C"]
    # k products of standard normals: k * eps * sum |a||b| is below 1e-5 for k <= 6
    np.testing.assert_allclose(found, exact, atol=1e-5)


@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
def test_a_matmul_with_any_number_of_lanes_equals_numpy(lanes: int) -> None:
    inputs, exact = inputs_of(9, 41, 7, 2 * lanes)
    found = run_llvm(matmul(9, 41, 7, 4, 2, lanes=lanes), inputs)["C"]
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_two_threads_run_every_task_of_a_matmul() -> None:
    inputs, exact = inputs_of(65, 50, 9, 48)
    program = matmul(65, 50, 9)
    arrays = arrays_of(program, inputs)
    load(build(program, Target())).bind_parallel([a.ctypes.data for a in arrays.values()], 2)()
    np.testing.assert_allclose(arrays["C"], exact, atol=1e-5)


@pytest.mark.slow
def test_the_rate_of_a_512_matmul_is_recorded(
    record_property: Callable[[str, object], None],
) -> None:
    import time

    program = matmul(512, 512, 512, relu=False)
    inputs, _ = inputs_of(512, 512, 512, 48)
    for name, built in (
        ("llvm", build(program, Target())),
        ("source", build_source(emit(program, Target()), Target())),
    ):
        arrays = arrays_of(program, inputs)
        call = load(built).bind([a.ctypes.data for a in arrays.values()])
        best_s = min(_timed(call, time.perf_counter) for _ in range(10))
        record_property(f"{name}_gflops", 2 * 512**3 / best_s / 1e9)


def _timed(call, clock) -> float:  # type: ignore[no-untyped-def]
    start = clock()
    call()
    return float(clock() - start)
