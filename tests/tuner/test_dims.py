"""Tuning of computations whose sizes a call decides."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import ansorpy
from ansorpy.artifact.harness import DimSpec, TensorSpec, matched
from ansorpy.artifact.load import LoadedKernel
from ansorpy.events import Event, Seeded, TaskResult
from ansorpy.measure.verify.inputs import Array
from ansorpy.result import rows_of
from tests.night import night

ROWS = (
    "def mm(float(M in 2..60, 40) A, const float(40, 24) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
)
SOFTMAX = (
    "def sm(float(6, L in 1..70) A) -> (P) { m(i) max=! A(i,j) e(i,j) = exp(A(i,j) - m(i))"
    " s(i) +=! e(i,j) P(i,j) = e(i,j) / s(i) }"
)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[TaskResult, LoadedKernel]:
    store = ansorpy.MemoryStore()
    out = tmp_path_factory.mktemp("rows")
    result = ansorpy.tune(ROWS, trials=8, cores=1, store=store, out=out, progress=False).task
    again = ansorpy.tune(ROWS, trials=8, cores=1, store=store, out=out, progress=False).task
    assert again.from_store
    assert (again.best_s, again.by_size) == (result.best_s, result.by_size)
    assert result.kernel is not None
    return result, ansorpy.load(result.kernel)


def rows(count: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(count)
    a = rng.random((count, 40), dtype=np.float32)
    b = rng.random((40, 24), dtype=np.float32)
    return a, b, a @ b


def test_one_kernel_is_right_for_every_size(tuned: tuple[TaskResult, LoadedKernel]) -> None:
    result, kernel = tuned
    assert result.verified
    for count in range(2, 61):
        a, b, expected = rows(count)
        found = kernel(a, b)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert kernel.selftest() == []


def test_the_library_of_the_zip_is_right_for_every_size(
    tuned: tuple[TaskResult, LoadedKernel],
) -> None:
    result, kernel = tuned
    assert result.kernel is not None
    native = kernel.manifest["native"]
    assert (native["library"], native["note"]) == ("libkernel.so", "")
    library = ansorpy.load_native(result.kernel)
    for count in range(2, 61):
        a, b, expected = rows(count)
        np.testing.assert_allclose(library(a, b), expected, rtol=1e-4)
    assert library.selftest() == []


def test_a_latency_is_told_as_a_mean(tuned: tuple[TaskResult, LoadedKernel]) -> None:
    result, _ = tuned
    assert rows_of(result)["latency"].endswith(", mean of M = 2, 16, 31, 45 and 60")


def test_the_manifest_tells_dims_and_timed_sizes(tuned: tuple[TaskResult, LoadedKernel]) -> None:
    _, kernel = tuned
    sizes = [2, 16, 31, 45, 60]
    assert kernel.manifest["dims"] == [
        {"name": "M", "low": 2, "high": 60, "timed": sizes, "step": 1, "weights": []}
    ]
    assert kernel.manifest["inputs"][0]["dims"] == ["M", ""]
    assert "dims" not in kernel.manifest["inputs"][1]
    assert repr(kernel).startswith("<kernel mm(A: float32[M, 40], B: float32[40, 24]) -> ")


def test_the_delivered_kernel_is_timed_at_single_sizes(
    tuned: tuple[TaskResult, LoadedKernel],
) -> None:
    result, kernel = tuned
    assert [one.sizes for one in result.by_size] == [{"M": n} for n in (2, 16, 31, 45, 60)]
    assert {one.kernel_for for one in result.by_size} == {"M in 2..60"}
    assert all(one.best_s > 0 and one.numpy_s for one in result.by_size)
    assert kernel.manifest["by_size"] == [
        {"sizes": [one.sizes["M"]], "times_s": [one.best_s, one.numpy_s]} for one in result.by_size
    ]


def test_weights_of_sizes_are_another_request_that_starts_from_the_records(
    tmp_path: Path,
) -> None:
    store, events = ansorpy.MemoryStore(), list[Event]()
    weighted = ROWS.replace("2..60", "2..60 @ 2: 0.9 + 60: 0.1")

    def tuned_for(text: str) -> ansorpy.Result:
        found: ansorpy.Result = ansorpy.tune(
            text, trials=4, cores=1, store=store, out=tmp_path, progress=False,
            on_event=events.append,
        )  # fmt: skip
        return found

    first, other, again = map(tuned_for, (ROWS, weighted, weighted))
    assert not other.task.from_store
    assert again.task.from_store
    assert other.task.key != first.task.key
    assert (other.task.sizes, first.task.weights) == ({"M": (2, 60)}, ())
    assert other.task.weights == pytest.approx((0.9, 0.1))
    assert rows_of(other.task)["latency"].endswith(", mean of M = 2 (90%) and 60 (10%)")
    assert [one for one in events if isinstance(one, Seeded)] == [Seeded("mm", 1, ())]
    assert other.task.kernel is not None
    kernel = ansorpy.load(other.task.kernel)
    (dim,) = kernel.manifest["dims"]
    assert (dim["timed"], dim["weights"]) == ([2, 60], pytest.approx([0.9, 0.1]))
    a, b, expected = rows(31)
    np.testing.assert_allclose(kernel(a, b), expected, rtol=1e-4)
    assert kernel.selftest() == []


def test_arrays_of_a_caller_are_taken_in_any_form(tuned: tuple[TaskResult, LoadedKernel]) -> None:
    _, kernel = tuned
    a, b, expected = rows(7)
    np.testing.assert_allclose(kernel(np.asfortranarray(a), b), expected, rtol=1e-4)
    out = np.full((7, 24), np.nan, np.float32)
    assert kernel(a, b, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-4)
    call = kernel.prepare(a, b)
    a[:] = 1.0
    np.testing.assert_allclose(call(), a @ b, rtol=1e-4)
    again = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_allclose(again(a, b), a @ b, rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 40), r"A has shape \(1, 40\); expected \(M in 2..60, 40\)"),
        ((61, 40), r"A has shape \(61, 40\); expected \(M in 2..60, 40\)"),
        ((5, 41), r"A has shape \(5, 41\); expected \(M = 5, 40\)"),
        ((5,), r"A has shape \(5,\); expected \(M in 2..60, 40\)"),
    ],
)
def test_a_size_out_of_range_is_refused(
    tuned: tuple[TaskResult, LoadedKernel], shape: tuple[int, ...], message: str
) -> None:
    _, kernel = tuned
    with pytest.raises(ValueError, match=f"cannot run because {message}"):
        kernel(np.zeros(shape, np.float32), rows(2)[1])
    with pytest.raises(ValueError, match=r"C in out has shape \(3, 24\); expected \(M = 5, 24\)"):
        kernel(*rows(5)[:2], out=np.zeros((3, 24), np.float32))


def test_a_size_that_is_no_multiple_of_the_step_is_refused() -> None:
    dims = {"M": DimSpec("M", 8, 64, (8, 64), 8)}
    a = TensorSpec("A", "float32", (64, 3), "input", None, ("M", ""))
    assert len(matched([a], [np.zeros((24, 3), np.float32)], "", dims)) == 1
    with pytest.raises(ValueError, match=r"shape \(20, 3\); expected \(M in 8..64 step 8, 3\)"):
        matched([a], [np.zeros((20, 3), np.float32)], "", dims)


@pytest.mark.parametrize("cores", night([1, 2], {1}))
def test_an_inner_dim_has_a_constant_pitch(cores: int, tmp_path: Path) -> None:
    store = ansorpy.MemoryStore()
    found = ansorpy.tune(SOFTMAX, trials=4, cores=cores, store=store, out=tmp_path, progress=False)
    result = found.task
    assert result.kernel is not None
    kernel = ansorpy.load(result.kernel)
    for length in (1, 15, 16, 17, 33, 70, 2):
        a = np.random.default_rng(length).random((6, length), dtype=np.float32)
        exps = np.exp(a)
        expected = exps / exps.sum(1, keepdims=True)
        np.testing.assert_allclose(kernel(a), expected, rtol=1e-4)
        out = np.empty((6, length), np.float32)
        kernel(a, out=out)
        np.testing.assert_allclose(out, expected, rtol=1e-4)
    assert kernel.selftest() == []


def test_a_scalar_result_stays_an_array(tmp_path: Path) -> None:
    text = "def f(float(N in 1..50) X) -> (Y) { Y() +=! X(j) }"
    store = ansorpy.MemoryStore()
    found = ansorpy.tune(text, trials=2, cores=1, store=store, out=tmp_path, progress=False)
    assert found.task.kernel is not None
    result = ansorpy.load(found.task.kernel)(np.ones(7, np.float32))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result == 7.0
