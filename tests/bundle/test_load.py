"""Bundles: equal to NumPy on any number of threads, refused if a byte is wrong."""

import json
import multiprocessing
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest

import ansorpy
from ansorpy.artifact.load import load_native
from ansorpy.artifact.stored_zip import opened, write_zip
from ansorpy.bundle.container import write_bundle
from ansorpy.bundle.format import BUNDLE, LIBRARY, MANIFEST, SAMPLES, WEIGHTS
from ansorpy.bundle.load import LoadedModel, _unpickled, load_model
from ansorpy.bundle.plan import HostedFunction
from ansorpy.bundle.steps import HostedStep
from ansorpy.errors import PackageError
from ansorpy.graph import Output, ValueInfo, Weight
from ansorpy.graph.hosted.choose import top_k
from ansorpy.graph.hosted.text import function_text
from tests.artifact.mutations import ODD, places
from tests.bundle.models import THREADS, Model, model, with_self_test
from tests.night import night

pytestmark = pytest.mark.slow
SHORT = 1009  # bytes from one damaged byte to the next


@pytest.fixture(scope="module", params=[True, False], ids=["hosted", "native"])
def made(request: pytest.FixtureRequest) -> Model:
    return model(request.param)


@pytest.fixture(scope="module")
def path(made: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("bundles") / "small.zip", with_self_test(made))


@pytest.fixture(scope="module", params=[1, THREADS])
def loaded(path: Path, request: pytest.FixtureRequest) -> Iterator[LoadedModel]:
    with load_model(path, threads=request.param) as found:
        yield found


def test_another_process_runs_a_pickled_model(made: Model, loaded: LoadedModel) -> None:
    inputs = made.inputs(0)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for found, wanted in zip(pool.apply(loaded, inputs), loaded(*inputs), strict=True):
            assert np.array_equal(found, wanted)


def test_a_pickled_model_is_its_bundle_or_none(path: Path, made: Model, tmp_path: Path) -> None:
    copy = tmp_path / "copy.zip"
    copy.write_bytes(path.read_bytes())
    with load_model(copy, threads=1) as found:
        data = pickle.dumps(found)
    assert len(data) < 10_000  # no weights
    assert pickle.loads(data).threads == 1
    _unpickled.cache_clear()
    write_bundle(copy, made.plan)  # has no self-test
    with pytest.raises(PackageError, match=r"cannot unpickle a model because .*copy.zip has other"):
        pickle.loads(data)
    copy.unlink()
    with pytest.raises(PackageError, match=r"copy.zip is gone; expected the bundle that it came"):
        pickle.loads(data)


def test_results_equal_numpy(made: Model, loaded: LoadedModel) -> None:
    for seed in range(3):
        inputs = made.inputs(seed)
        expected = made.expected(*inputs)
        for found, wanted in zip(loaded(*inputs), expected, strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_names_dtypes_and_shapes_are_told(loaded: LoadedModel) -> None:
    assert [(t.name, t.dtype, t.shape) for t in loaded.inputs] == [("x", "float32", (4, 10, 10))]
    assert [t.name for t in loaded.outputs] == ["y", "z", "same", "inner"]
    assert [t.shape for t in loaded.outputs] == [(8, 16), (2, 64), (4, 10, 10), (8, 16)]
    assert repr(loaded).startswith("<model small(x: float32[4, 10, 10]) -> y: float32[8, 16], z")


def test_arrays_go_in_by_name_and_come_from_any_library(made: Model, loaded: LoadedModel) -> None:
    (x,) = made.inputs(5)
    y = made.expected(x)[0]
    np.testing.assert_array_equal(loaded(x=x)[0], y)
    np.testing.assert_array_equal(loaded({"x": x})[0], y)
    there = loaded(array_api_strict.asarray(x))[0]
    assert type(there) is type(array_api_strict.asarray(x))
    np.testing.assert_array_equal(np.from_dlpack(there), y)
    np.testing.assert_array_equal(loaded(x.transpose(0, 2, 1).copy().transpose(0, 2, 1))[0], y)


def test_results_go_to_the_arrays_of_the_caller(made: Model, loaded: LoadedModel) -> None:
    (x,) = made.inputs(6)
    expected = made.expected(x)
    out = tuple(np.zeros_like(array) for array in expected)
    assert loaded(x, out=out) is out
    call = loaded.prepare(x, out=out)
    for seed in (8, 9):
        x[...] = made.inputs(seed)[0]
        assert call() is out
        for found, wanted in zip(out, made.expected(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


X = np.zeros((4, 10, 10), np.float32)
REFUSALS: dict[str, tuple[Callable[[LoadedModel], Any], type[Exception], str]] = {
    "dtype": (
        lambda m: m(X.astype(np.float64)), TypeError,
        "cannot run because x has dtype float64; expected float32",
    ),
    "shape": (
        lambda m: m(X[:, :9]), ValueError,
        r"cannot run because x has shape \(4, 9, 10\); expected \(4, 10, 10\)",
    ),
    "count": (
        lambda m: m(X, X), TypeError, "cannot run because 2 arrays were given; expected 1: x"
    ),
    "name": (
        lambda m: m(q=X), TypeError, "cannot run small because q were given; expected x"
    ),
    "both": (
        lambda m: m(X, x=X), TypeError,
        "cannot run small because positional arrays, x were given; expected x",
    ),
    "out": (
        lambda m: m(X, out=(X,) * 4), ValueError,
        r"cannot run because y in out has shape \(4, 10, 10\); expected \(8, 16\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_wrong_call_is_refused(loaded: LoadedModel, case: str) -> None:
    call, kind, message = REFUSALS[case]
    with pytest.raises(kind, match=message):
        call(loaded)


def test_the_stored_self_test_passes_and_finds_a_wrong_kernel(made: Model, path: Path) -> None:
    assert load_model(path).selftest() == []
    without = path.with_name("without.zip")
    write_bundle(without, made.plan)
    assert load_model(without).selftest() == ["this bundle has no self-test"]
    plan = with_self_test(made)
    assert plan.self_test is not None
    outputs = list(plan.self_test.outputs)
    outputs[0] = outputs[0] + np.float32(1)
    wrong = replace(plan, self_test=replace(plan.self_test, outputs=tuple(outputs)))
    (line,) = load_model(write_bundle(path.with_name("wrong.zip"), wrong)).selftest()
    assert line.startswith("y[0, 0]: ")


def test_a_profile_has_every_step_and_the_copies(made: Model, loaded: LoadedModel) -> None:
    found = loaded.profile(3)
    assert len(found) == len(made.plan.steps) + 1
    assert np.isfinite(found).all()
    inputs = made.inputs()
    np.testing.assert_array_equal(loaded(*inputs)[0], made.expected(*inputs)[0])


def test_two_threads_call_one_model_at_once(made: Model, loaded: LoadedModel) -> None:
    inputs = [made.inputs(seed) for seed in range(64)]
    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(lambda one: loaded(*one)[0], inputs))
    for given, result in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(result, made.expected(*given)[0])


def test_more_threads_than_tuned_are_told_and_not_used(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for asked, used in ((None, THREADS), (1, 1), (THREADS, THREADS)):
        with load_model(path, threads=asked) as found:
            assert found.threads == used
    assert not caplog.messages
    with load_model(path, threads=8) as found:
        assert found.threads == THREADS
    assert caplog.messages == [
        "small was tuned for 2 threads and runs on as many; expected a tuning with cores=8"
    ]


def test_a_closed_model_runs_on_the_threads_of_its_callers(made: Model, path: Path) -> None:
    found = load_model(path, threads=2)
    found.close()
    found.close()
    inputs = made.inputs()
    np.testing.assert_array_equal(found(*inputs)[0], made.expected(*inputs)[0])


def test_a_prepared_call_outlives_its_model(made: Model, path: Path) -> None:
    inputs = made.inputs()
    out = tuple(np.zeros_like(array) for array in made.expected(*inputs))
    call = load_model(path).prepare(*inputs, out=out)
    for _ in range(100):
        call()
    np.testing.assert_array_equal(out[0], made.expected(*inputs)[0])


def test_equal_plans_give_equal_bytes_and_the_manifest_describes_them(
    made: Model, path: Path, tmp_path: Path
) -> None:
    data = path.read_bytes()
    assert write_bundle(tmp_path / "again.zip", with_self_test(made)).read_bytes() == data
    assert list(tmp_path.iterdir()) == [tmp_path / "again.zip"]
    with zipfile.ZipFile(path) as archive:
        facts = json.loads(archive.read(MANIFEST))
        for name, listed in facts["files"].items():
            assert sha256(archive.read(name)).hexdigest() == listed["sha256"]
        for info in archive.infolist():
            lengths = struct.unpack_from("<2H", data, info.header_offset + 26)
            assert (info.header_offset + 30 + sum(lengths)) % 64 == 0
    assert facts["source_sha256"] == "ab" * 32
    assert [step.get("kernel") or step["function"] for step in facts["steps"]][:4] == [
        "conv", "wide", "square", "square"
    ]  # fmt: skip
    assert facts["steps"][0]["nodes"] == ["/conv/Conv", "/conv/Relu"]
    memory = facts["memory"]
    assert memory["arena_bound_bytes"] <= memory["arena_bytes"] <= memory["arena_sum_bytes"]
    assert (memory["arena_align_bytes"], memory["arena_bytes"] % 64) == (64, 0)
    objects = {k.library.prefix: k.library.object_sha256 for k in made.plan.kernels}
    assert {k["prefix"]: k["object_sha256"] for k in facts["kernels"]} == objects


def flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << at % 8
    return bytes(changed)


@pytest.mark.parametrize("step", night((SHORT, 1), [SHORT]))
def test_every_byte_flip_is_refused(path: Path, tmp_path: Path, step: int) -> None:
    data = path.read_bytes()
    bad = tmp_path / "bad.zip"
    for at in range(0, len(data), step):
        bad.write_bytes(flipped(data, at))
        with pytest.raises(PackageError):
            load_model(bad)


def test_without_verification_a_byte_flip_of_weights_only_is_accepted(
    path: Path, tmp_path: Path
) -> None:
    data = path.read_bytes()
    _, files = opened(data, "p", BUNDLE)
    begin = data.index(bytes(files[WEIGHTS]))
    weights = range(begin, begin + len(files[WEIGHTS]))
    bad = tmp_path / "bad.zip"
    for at in range(7, len(data), SHORT):
        bad.write_bytes(flipped(data, at))
        if at not in weights:
            with pytest.raises(PackageError):
                load_model(bad, verify=False)
    bad.write_bytes(flipped(data, weights[-1]))
    load_model(bad, verify=False)
    with pytest.raises(PackageError, match="a file is not what its manifest says"):
        load_model(bad)


def resealed(
    path: Path, goal: Path, change: Callable[[dict[str, Any]], object], **files: Any
) -> Path:
    """Write a self-consistent bundle with another manifest or other files; None: removed."""
    facts, content = opened(path.read_bytes(), "p", BUNDLE)
    changed = dict(facts)
    change(changed)
    parts = {n: [body] for n, body in {**content, **files}.items() if body is not None}
    return write_zip(goal, parts, changed, BUNDLE)


@pytest.mark.parametrize(
    "field", ["name", "inputs", "outputs", "prefix", "steps", "values", "memory", "threads"]
)
@pytest.mark.parametrize("value", [None, -1, [1], {"a": []}], ids=str)
def test_a_manifest_of_other_kinds_is_refused(
    path: Path, tmp_path: Path, field: str, value: Any
) -> None:
    def change(facts: dict[str, Any]) -> None:
        facts[field] = value

    with pytest.raises(PackageError, match=f"its manifest has no usable {field}"):
        load_model(resealed(path, tmp_path / "bad.zip", change))


def test_no_resealed_manifest_escapes_as_another_error(path: Path, tmp_path: Path) -> None:
    """Sizes are compared with the library's sizes before it runs."""
    rng = np.random.default_rng(0)

    def change(facts: dict[str, Any]) -> None:
        found = list(places(facts))
        place, name = found[int(rng.integers(len(found)))]
        place[name] = ODD[int(rng.integers(1, len(ODD)))]

    for number in range(200):
        with suppress(PackageError):
            found = load_model(resealed(path, tmp_path / f"{number}.zip", change))
            _ = repr(found), found.sample(), found.bound(), found.selftest()


def tensors_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header of a file of tensors, and the bytes behind it."""
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def test_no_odd_self_test_escapes_as_another_error(path: Path, tmp_path: Path) -> None:
    _, content = opened(path.read_bytes(), "p", BUNDLE)
    header, data = tensors_of(bytes(content[SAMPLES]))
    odd = [bytes(content[SAMPLES])[:at] for at in (1, 7, 8, 9, 100)]
    odd += [b"[]", (1 << 62).to_bytes(8, "little"), (2).to_bytes(8, "little") + b"{}"]
    for name, facts in header.items():
        changes: list[dict[str, Any]] = [
            {field: value} for field in facts for value in (*ODD, [9, 1], [-8, 8], "F64", "BF16")
        ]
        changes += [{"shape": [*facts["shape"], 1]}, {"shape": [-1]}]
        changed = [{**header, name: {**facts, **change}} for change in changes]
        changed += [{n: f for n, f in header.items() if n != name}, {**header, "in99": facts}]
        for one in changed:
            text = json.dumps(one).encode()
            odd.append(len(text).to_bytes(8, "little") + text + data)
    refused = 0
    for number, samples in enumerate(odd):
        goal = resealed(path, tmp_path / f"{number}.zip", dict, **{SAMPLES: samples})
        try:
            found = load_model(goal)
            _ = found.sample(), found.selftest()
        except PackageError:
            refused += 1
    assert refused > len(odd) * 0.9  # a few changes are none


@pytest.mark.parametrize("threads", [0, 4097, 2**31])
def test_a_manifest_of_too_many_threads_is_refused(
    path: Path, tmp_path: Path, threads: int
) -> None:
    with pytest.raises(PackageError, match="its manifest has no usable threads"):
        load_model(
            resealed(path, tmp_path / "bad.zip", lambda facts: facts.update(threads=threads))
        )


@pytest.mark.parametrize("area", ["packed_bytes", "arena_bytes", "scratch_bytes"])
def test_a_manifest_with_sizes_of_another_library_is_refused(
    path: Path, tmp_path: Path, area: str
) -> None:
    def change(facts: dict[str, Any]) -> None:
        facts["memory"][area] -= 64

    with pytest.raises(PackageError, match=r"model\.json is not that of libmodel\.so"):
        load_model(resealed(path, tmp_path / "bad.zip", change))


def test_a_bundle_without_its_parts_is_refused(path: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    keep: Callable[[dict[str, Any]], object] = dict
    cases: dict[str, dict[str, Any]] = {
        r"it has no libmodel\.so": {LIBRARY: None},
        r"it has no weights\.safetensors": {WEIGHTS: None},
        r"tells another size of weights\.safetensors": {WEIGHTS: b"short"},
        r"cannot load bad\.zip: libmodel\.so: it is no 64-bit ELF": {LIBRARY: bytes(999)},
        r"cannot load bad\.zip: libmodel\.so: it ends early": {LIBRARY: b""},
    }
    for message, files in cases.items():
        with pytest.raises(PackageError, match=message):
            load_model(resealed(path, bad, keep, **files))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/dev/zero", "no plain file"),
        ("fifo", "no plain file"),
        ("\0", "cannot read"),
        ("none.zip", "No such file"),
    ],
)
def test_a_path_that_cannot_be_read_is_refused(name: str, message: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for read in (load_model, ansorpy.load, load_native):
        with pytest.raises(PackageError, match=message):
            read(tmp_path / name)


def test_a_folder_is_no_package_but_that_of_an_unpacked_kernel() -> None:
    for read in (load_model, load_native):
        message = "cannot read / because it is no plain file; expected a package"
        with pytest.raises(PackageError, match=message):
            read("/")
    with pytest.raises(PackageError, match=r"cannot load / because it has no manifest\.json"):
        ansorpy.load("/")


def test_an_empty_file_and_another_zip_are_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    for data in (b"", b"PK\3\4", b"nonsense"):
        bad.write_bytes(data)
        with pytest.raises(PackageError):
            load_model(bad)


def test_no_threads_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="cannot run a model on 0 threads; expected at least 1"):
        load_model(path, threads=0)


def test_a_wrong_result_of_a_hosted_function_is_refused(tmp_path: Path) -> None:
    made = model()
    text = "def sort_along(arrays, axis):\n    return [arrays[0][:1]]\n"
    plan = replace(made.plan, hosted=(HostedFunction("sort_along", text),))
    found = load_model(write_bundle(tmp_path / "m.zip", plan))
    with pytest.raises(RuntimeError, match=r"sort_along returned float32\[1, 16\]; expected"):
        found(*made.inputs())
    assert any(isinstance(step, HostedStep) for step in plan.steps)


def test_an_operator_of_the_graph_is_hosted(tmp_path: Path) -> None:
    """TopK reads a weight and has two outputs of other dtypes, one of them in the arena."""
    made = model(hosted=False)
    plan = made.plan
    added = {"k": ((1,), "int64"), "top": ((8, 4), "float32"), "at": ((8, 4), "int64")}
    plan = replace(
        plan,
        values={**plan.values, **{n: ValueInfo(n, *facts) for n, facts in added.items()}},
        weights={**plan.weights, "k": Weight.of(np.array([4]))},
        steps=(*plan.steps, HostedStep("top_k", ("sum", "k"), ("top", "at"), '{"axis": 1}')),
        hosted=(HostedFunction("top_k", function_text(top_k)),),
        outputs=(Output("indices", "at"), Output("y", "sum")),
    )
    (x,) = made.inputs()
    indices, y = load_model(write_bundle(tmp_path / "m.zip", plan))(x)
    wanted = made.expected(x)[0]
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(indices, np.argsort(-wanted, 1, kind="stable")[:, :4])


def test_an_output_may_have_the_name_of_an_input(tmp_path: Path) -> None:
    made = model(hosted=False)
    outputs = tuple(
        replace(out, name="x") if out.value == "x" else out for out in made.plan.outputs
    )
    plan = replace(made.plan, outputs=outputs)
    found = load_model(write_bundle(tmp_path / "m.zip", plan))
    inputs = made.inputs()
    for result, wanted in zip(found(*inputs), made.expected(*inputs), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_a_bundle_is_called_without_numba_and_llvm(path: Path) -> None:
    code = """
import sys
for name in ("numba", "llvmlite", "scipy", "lightgbm"):
    sys.modules[name] = None  # an import raises
from ansorpy.bundle.load import load_model
model = load_model(sys.argv[1], threads=2)
print(model.selftest())
"""
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
