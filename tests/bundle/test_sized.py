"""Bundles of models with dims: right at every size, beside memory full of NaN."""

import ctypes
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy.artifact.harness import Bound, aligned_copy
from ansorpy.bundle.container import write_bundle
from ansorpy.bundle.layout import rows_of
from ansorpy.bundle.load import LoadedModel, load_model
from ansorpy.bundle.steps import KernelStep
from ansorpy.codegen.runtime.thread_pool import ThreadPool
from ansorpy.errors import PackageError
from ansorpy.te.dims import Dim
from tests.artifact.mutations import ODD, places
from tests.bundle.models import THREADS, Array
from tests.bundle.sized import SHAPES, B, SizedModel, at, sized_model, with_self_tests
from tests.bundle.test_driver import Driver
from tests.bundle.test_load import resealed
from tests.codegen.programs import guarded

pytestmark = pytest.mark.slow
ENDS = [{"B": b, "L": n, "M": m} for b in (1, 4) for n in (2, 24) for m in (1, 24)]


def some_sizes(count: int, seed: int = 3) -> list[dict[str, int]]:
    """Return sizes of the model: all ends, then random ones."""
    rng = np.random.default_rng(seed)
    low, high = [1, 2, 1], [4, 24, 24]
    drawn = [dict(zip("BLM", map(int, rng.integers(low, high, endpoint=True)), strict=True))
             for _ in range(count)]  # fmt: skip
    return [*ENDS, *drawn]


@pytest.fixture(scope="module", params=[True, False], ids=["hosted", "native"])
def made(request: pytest.FixtureRequest) -> SizedModel:
    return sized_model(request.param)


@pytest.fixture(scope="module")
def path(made: SizedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("sized") / "sized.zip", with_self_tests(made))


@pytest.fixture(scope="module", params=[1, THREADS])
def loaded(path: Path, request: pytest.FixtureRequest) -> Iterator[LoadedModel]:
    with load_model(path, threads=request.param) as found:
        yield found


def poison(model: LoadedModel) -> None:
    """Fill the memory that this thread keeps between calls with NaN."""
    for array in model._runner.rooms.__dict__.values():
        if isinstance(array, np.ndarray):
            array.reshape(-1).view(np.uint8)[:] = 0xFF


def check(made: SizedModel, inputs: tuple[Array, ...], results: tuple[Array, ...]) -> None:
    for output, found, wanted in zip(
        made.plan.outputs, results, made.expected(*inputs), strict=True
    ):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=output.name)


def test_each_size_is_right_beside_stale_memory(made: SizedModel, loaded: LoadedModel) -> None:
    for seed, sizes in enumerate(some_sizes(30)):
        inputs = made.inputs(sizes, seed)
        poison(loaded)
        check(made, inputs, loaded(*inputs))


def test_results_are_dense_and_of_the_caller(made: SizedModel, loaded: LoadedModel) -> None:
    first = made.inputs({"B": 3, "L": 7, "M": 9}, 1)
    results = loaded(*first)
    assert all(one.flags.c_contiguous and one.base is not loaded for one in results)
    for sizes in ENDS:
        loaded(*made.inputs(sizes, 2))
    poison(loaded)
    check(made, first, results)


def test_arrays_of_the_caller_take_results_of_any_size(
    made: SizedModel, loaded: LoadedModel
) -> None:
    for seed, sizes in enumerate(some_sizes(4)):
        inputs = made.inputs(sizes, seed)
        out = tuple(np.full_like(one, np.nan, np.float32) for one in made.expected(*inputs))
        assert loaded(*inputs, out=out) is out
        check(made, inputs, out)
        call = loaded.prepare(*inputs, out=out)
        for array, new in zip(inputs, made.inputs(sizes, 99), strict=True):
            array[...] = new
        assert call() is out
        check(made, inputs, out)


def test_a_leading_dim_is_passed_and_written_in_place(
    made: SizedModel, loaded: LoadedModel
) -> None:
    """`other` and `r1` have a dim behind axes of 1; `third` has a leading one, `x` has two."""
    inputs = [aligned_copy(one) for one in made.inputs({"B": 2, "L": 5, "M": 6})]
    arrays = Bound(loaded._runner, {}, inputs, None).arrays
    passed = {t.name: a is arrays[t.name] for t, a in zip(loaded.inputs, inputs, strict=True)}
    assert passed == {"x": False, "mask": False, "turned": False, "other": True, "third": True}
    assert arrays["x"].shape == (4, 24, 16)
    assert [arrays[one.name].shape for one in loaded.outputs if one.name in ("r1", "r2")] == [
        (1, 1, 6, 16), (5, 16),
    ]  # fmt: skip


X = {"B": 2, "L": 5, "M": 6}
REFUSALS: dict[str, tuple[dict[str, tuple[int, ...]], str]] = {
    "range": (
        {"x": (2, 1, 16)},
        r"x has shape \(2, 1, 16\); expected \(B = 2, L in 2\.\.24, 16\)",
    ),
    "too large": ({"x": (5, 5, 16)}, r"x has shape \(5, 5, 16\); expected \(B in 1\.\.4"),
    "other size": ({"mask": (2, 6)}, r"mask has shape \(2, 6\); expected \(B = 2, L = 5\)"),
    "number": ({"third": (5, 15)}, r"third has shape \(5, 15\); expected \(L = 5, 16\)"),
    "rank": ({"other": (6, 16)}, r"other has shape \(6, 16\); expected \(1, M in 1\.\.24, 16\)"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_wrong_size_is_refused(made: SizedModel, loaded: LoadedModel, case: str) -> None:
    shapes, message = REFUSALS[case]
    inputs = dict(zip([one.name for one in loaded.inputs], made.inputs(X), strict=True))
    inputs |= {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=f"^cannot run because {message}"):
        loaded(inputs)


def test_an_array_for_another_size_of_result_is_refused(
    made: SizedModel, loaded: LoadedModel
) -> None:
    inputs = made.inputs(X)
    out = [np.zeros(one.shape, np.float32) for one in made.expected(*inputs)]
    out[0] = np.zeros((2, 6, 16), np.float32)
    with pytest.raises(ValueError, match=r"o in out has shape .* expected \(B = 2, L = 5, 16\)"):
        loaded(*inputs, out=tuple(out))


def test_two_threads_call_one_model_at_different_sizes(
    made: SizedModel, loaded: LoadedModel
) -> None:
    calls = [made.inputs(sizes, seed) for seed, sizes in enumerate(some_sizes(40))]
    with ThreadPoolExecutor(2) as threads:
        for inputs, results in zip(
            calls, threads.map(lambda one: loaded(*one), calls), strict=True
        ):
            check(made, inputs, results)


def test_memory_does_not_grow_with_the_number_of_sizes(
    made: SizedModel, loaded: LoadedModel
) -> None:
    loaded(*made.inputs(ENDS[-1]))
    held = {name: id(one) for name, one in loaded._runner.rooms.__dict__.items()}
    for sizes in some_sizes(20):
        loaded(*made.inputs(sizes))
    assert {name: id(one) for name, one in loaded._runner.rooms.__dict__.items()} == held


def test_the_self_test_has_each_timed_size_and_finds_a_wrong_one(
    made: SizedModel, path: Path, tmp_path: Path
) -> None:
    with load_model(path) as model:
        assert model.selftest() == []
        assert {name: one.shape for name, one in model.sample().items()} == {
            name: at(SHAPES[name], ENDS[-1]) for name in made.plan.inputs
        }
        sizes = [one["x"].shape for one in model.timed_samples]
        assert sizes == [(1, 2, 16), (1, 7, 16), (2, 13, 16), (3, 18, 16), (4, 24, 16)]
        for one in model.timed_samples:
            check(made, tuple(one.values()), model(one))
    plan = with_self_tests(made)
    assert plan.self_test is not None
    least = plan.self_test.others[-1]
    wrong = replace(least, outputs=(least.outputs[0] + np.float32(1), *least.outputs[1:]))
    test = replace(plan.self_test, others=(*plan.self_test.others[:-1], wrong))
    bad = write_bundle(tmp_path / "bad.zip", replace(plan, self_test=test))
    (line,) = load_model(bad).selftest()
    assert line.startswith("o[0, 0, 0]: ")


def test_a_profile_is_of_all_timed_sizes(made: SizedModel, loaded: LoadedModel) -> None:
    found = loaded.profile(2)
    assert len(found) == len(made.plan.steps) + 1
    assert np.isfinite(found).all()
    assert len(loaded.bench(0.01)) >= 5


def test_dims_are_told(made: SizedModel, loaded: LoadedModel) -> None:
    assert [(one.name, one.low, one.high) for one in loaded.dims] == [
        ("B", 1, 4), ("L", 2, 24), ("M", 1, 24),
    ]  # fmt: skip
    assert repr(loaded).startswith(
        "<model sized(x: float32[B in 1..4, L in 2..24, 16], mask: float32[B in 1..4, L in 2..24],"
    )
    assert loaded.inputs[3].dims == ("", "M", "")


def test_a_step_and_weights_of_sizes_are_kept(tmp_path: Path) -> None:
    """Kernels of any size serve even batches, which are timed as often as calls have them."""
    made = sized_model(hosted=False)
    even = Dim("B", 2, 4, 2, [(2, 2, 0.75), (4, 4, 0.25)])
    values = {
        name: replace(info, shape=tuple(even if one == B else one for one in info.shape))
        for name, info in made.plan.values.items()
    }
    bundle = write_bundle(tmp_path / "even.zip", replace(made.plan, values=values))
    with load_model(bundle) as model:
        assert (model.dims[0].step, len(model.timed_weights)) == (2, len(model.timed_samples))
        assert {one["x"].shape[0] for one in model.timed_samples} == {2, 4}
        for sizes in ({"B": 2, "L": 3, "M": 4}, {"B": 4, "L": 24, "M": 1}):
            inputs = made.inputs(sizes)
            check(made, inputs, model(*inputs))
        with pytest.raises(ValueError, match=r"expected \(B in 2\.\.4 step 2, L in 2\.\.24, 16\)"):
            model(*made.inputs({"B": 3, "L": 3, "M": 4}))


def test_a_kernel_gets_the_sizes_of_its_own_dims(made: SizedModel) -> None:
    plan = made.plan
    numbers = [plan.sizes_of(one) for one in plan.steps if isinstance(one, KernelStep)]
    assert numbers == [(0, 1), (0, 1), (0, 1), (0, 1), (1, 0), (2,), (1,)]


@pytest.mark.parametrize("threads", [0, 2])
def test_nothing_beyond_the_rows_of_a_call_is_touched(threads: int, tmp_path: Path) -> None:
    """Arrays of the caller end at a guard page; all other memory is full of NaN."""
    made = sized_model(hosted=False)
    driver = Driver(made.plan, tmp_path)
    dims = {one.name: one for one in made.plan.dims}
    with ThreadPool(max(1, threads)) as pool:
        for seed, sizes in enumerate(some_sizes(6)):
            names = [*made.plan.inputs, *(out.value for out in made.plan.outputs)]
            arrays = []
            for name in names:
                shape = SHAPES[name]
                most = {**{n: one.high for n, one in dims.items()}}
                most |= {one.name: sizes[one.name] for one in [rows_of(shape)] if one is not None}
                arrays.append(guarded(at(shape, most), np.float32))
                arrays[-1][...] = np.nan
            inputs = made.inputs(sizes, seed)
            for array, given in zip(arrays, inputs, strict=False):
                array[tuple(map(slice, given.shape))] = given
            for area in ("arena", "scratch"):
                driver.areas[area][:] = 0xFF
            told = np.array([sizes[name] for name in dims], np.int64)
            words = [*arrays, told, *driver.areas.values()]
            driver.call(
                "run",
                (ctypes.c_void_p * len(words))(*(one.ctypes.data for one in words)),
                ctypes.c_void_p(pool.address if threads else None),
            )
            expected = made.expected(*inputs)
            found = arrays[len(inputs) :]
            check(made, inputs, tuple(
                one[tuple(map(slice, wanted.shape))]
                for one, wanted in zip(found, expected, strict=True)
            ))  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("low", 0),
        ("low", 5),
        ("high", 5),
        ("name", "L"),
        ("timed", []),
        ("timed", [9, 1]),
        ("step", 0),
        ("step", 2),
        ("weights", [1.0]),
        ("weights", [-1.0] * 5),
    ],
)
def test_a_manifest_with_dims_of_another_library_is_refused(
    path: Path, tmp_path: Path, field: str, value: Any
) -> None:
    def change(facts: dict[str, Any]) -> None:
        facts["dims"] = [{**facts["dims"][0], field: value}, *facts["dims"][1:]]

    with pytest.raises(PackageError):
        load_model(resealed(path, tmp_path / "bad.zip", change))


def test_no_resealed_manifest_with_dims_escapes_as_another_error(
    path: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)

    def change(facts: dict[str, Any]) -> None:
        rows = ("dims", "inputs", "outputs", "values")
        found = [one for row in rows for one in places({row: facts[row]})]
        place, name = found[int(rng.integers(len(found)))]
        place[name] = ODD[int(rng.integers(1, len(ODD)))]

    for number in range(100):
        with suppress(PackageError):
            found = load_model(resealed(path, tmp_path / f"{number}.zip", change))
            _ = repr(found), found.sample(), found.timed_samples, found.selftest()


def test_an_unpacked_bundle_with_dims_tests_and_times_itself(path: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-I", "model.py", "--selftest", "--bench"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("selftest passed\nnow: ")
    header = (tmp_path / "model.h").read_text()
    assert "const int64_t *sizes; /* B in 1..4, L in 2..24, M in 1..24 */" in header
    assert "const float *in0; /* x: float32[B in 1..4][L in 2..24][16] */" in header
    if shutil.which("gcc"):
        source = '#include "model.h"\nint main(void) { return !sizeof(model_args); }\n'
        (tmp_path / "main.c").write_text(source)
        strict = ["gcc", "-Wall", "-Wextra", "-Werror", "-c", "main.c"]
        subprocess.run(strict, cwd=tmp_path, check=True)
