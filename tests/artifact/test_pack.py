import io
import json
import re
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ansorpy.artifact import LoadedKernel, load, make_test, pack, unpack
from ansorpy.artifact.kernel_file import WORST_TOLERANCE
from ansorpy.codegen.kernel import Kernel
from ansorpy.errors import PackageError
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Measured
from ansorpy.records import Race, Record
from ansorpy.target import Target
from ansorpy.te.dag import ConstantTensor, Dag, Placeholder
from ansorpy.tuner.race.contestant import Contestant, untuned
from ansorpy.tuner.race.cpu_form import CpuForm
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.trust import versions

MM = "def mm(float(5,7) A, float(7,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TWO = "def two(float(9) A) -> (S, D) { S() +=! A(i)  D(i) = A(i) * 2 }"
SCALED = "def scaled(float s, float(9) A) -> (B) { B(i) = A(i) * s }"
LOG = "def lg(float(9) A) -> (B) { B(i) = log(A(i)) }"
TARGET = Target(vector_bits=256, registers=16)


def packed(dag: Dag, folder: Path, entry: Contestant[Kernel] | None = None) -> tuple[Path, Record]:
    """Pack the untuned kernel, unless a candidate is given."""
    task = Task.of(dag, TARGET, "cpu@1")
    if entry is None:
        naive = untuned(task, CpuForm().emit)
        assert isinstance(naive, Contestant)
        entry = naive
    test = make_test(dag)
    race = Race(
        "baseline", "naive", (), (2e-3, 1e-3), (3e-3,), (test.low, test.high), test.tolerances,
        test.magnitude, 4, 1.0, "00",
    )  # fmt: skip
    record = Record(
        task.key, task.identity.workload, "cpu@1", entry.plan, entry.row, Measured(race.naive_s),
        sha256(entry.kernel.source.encode()).hexdigest(), versions(), 0.0, race,
    )  # fmt: skip
    return pack(
        folder, dag, entry.kernel, entry.schedule, record, TARGET, "not exported here"
    ), record


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record]:
    return packed(parse(MM)[0], tmp_path_factory.mktemp("mm"))


@pytest.fixture(scope="module")
def kernel(matmul: tuple[Path, Record]) -> LoadedKernel:
    return load(matmul[0])


def inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = ((5, 7), (7, 6))
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return a, b


def test_the_manifest_vouches_for_every_file(matmul: tuple[Path, Record], tmp_path: Path) -> None:
    path, record = matmul
    manifest = unpack(path, tmp_path)
    files = {name: (tmp_path / name).read_bytes() for name in ("kernel.py", "simd.py")}
    assert manifest["files"] == {
        name: {"sha256": sha256(data).hexdigest(), "size_bytes": len(data)}
        for name, data in files.items()
    }
    assert manifest["record"] == record.id
    assert manifest["inputs"][0] == {
        "name": "A", "dtype": "float32", "shape": [5, 7], "constant": False,
    }  # fmt: skip
    assert manifest["outputs"] == [{"name": "C", "dtype": "float32", "shape": [5, 6]}]
    assert manifest["latency_s"] == {"min": 1e-3, "median": 2e-3, "max": 2e-3, "samples": 2}
    assert (manifest["winner"], manifest["baseline_s"]) == ("baseline", 1e-3)
    assert set(manifest["versions"]) == {"ansorpy", "codegen", "llvmlite", "numba", "numpy"}


def test_equal_content_gives_equal_bytes(matmul: tuple[Path, Record], tmp_path: Path) -> None:
    again, _ = packed(parse(MM)[0], tmp_path)
    assert again.read_bytes() == matmul[0].read_bytes()


@pytest.mark.slow
def test_run_returns_the_output(kernel: LoadedKernel) -> None:
    a, b = inputs()
    result = kernel.run(a, b)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_inputs_of_any_layout_and_alignment_are_accepted(kernel: LoadedKernel) -> None:
    a, b = inputs()
    raw = np.zeros(a.nbytes + 65, np.uint8)
    odd = raw[1 : 1 + a.nbytes].view(np.float32).reshape(a.shape)
    odd[...] = a
    np.testing.assert_allclose(kernel.run(odd, np.asfortranarray(b)), a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_contiguous_arrays_are_not_copied(kernel: LoadedKernel) -> None:
    a, b = inputs()
    c = np.zeros(31, np.float32)[1:].reshape(5, 6)
    runner = kernel.prepare.__self__  # type: ignore[attr-defined]
    call = type(runner).prepare.__globals__["Bound"](runner, {}, (a, np.asfortranarray(b)), c)
    placed = (*call.given, *call.wanted)
    assert [own is array for _, own, array in placed] == [True, False, True]


@pytest.mark.slow
def test_a_returned_result_is_not_overwritten_by_later_calls(kernel: LoadedKernel) -> None:
    a, b = (x.copy() for x in inputs())
    call = kernel.prepare(a, b)
    first = call()
    kept = first.copy()
    call()
    assert np.array_equal(first, kept)


@pytest.mark.slow
@pytest.mark.parametrize("offset_bytes", [0, 4, 1])
def test_arrays_may_change_between_calls(kernel: LoadedKernel, offset_bytes: int) -> None:
    a, b = inputs()
    raw = np.zeros(a.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset_bytes
    held = raw[start : start + a.nbytes].view(np.float32).reshape(a.shape)
    held[...] = a
    call = kernel.prepare(held, b)
    call()
    held *= 2
    np.testing.assert_allclose(call(), 2 * a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("offset_bytes", [0, 4, 1])
def test_results_are_written_into_the_array_out(kernel: LoadedKernel, offset_bytes: int) -> None:
    a, b = inputs()
    raw = np.zeros(5 * 6 * 4 + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset_bytes
    out = raw[start : start + 5 * 6 * 4].view(np.float32).reshape(5, 6)
    assert kernel.run(a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)
    call = kernel.prepare(a, b, out=out)
    for _ in range(2):
        out[...] = 0
        assert call() is out
        np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_an_unsuitable_array_out_is_refused(kernel: LoadedKernel) -> None:
    a, b = inputs()
    fixed = np.zeros((5, 6), np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="C in out is read-only; expected an array to write to"):
        kernel.run(a, b, out=fixed)
    both = np.zeros(35 + 30, np.float32)
    with pytest.raises(ValueError, match="C in out overlaps an input; expected memory of its own"):
        kernel.run(both[:35].reshape(5, 7), b, out=both[30:60].reshape(5, 6))
    with pytest.raises(TypeError, match="out has other objects; expected NumPy arrays"):
        kernel.run(a, b, out=[[0.0] * 6] * 5)
    with pytest.raises(ValueError, match=r"C in out has shape \(6, 5\); expected \(5, 6\)"):
        kernel.run(a, b, out=np.zeros((6, 5), np.float32))


@pytest.mark.slow
def test_concurrent_calls_do_not_share_state(kernel: LoadedKernel) -> None:
    a, b = inputs()
    kernel.run(a, b)  # numba compiles once

    def sums(factor: int) -> bool:
        wanted = factor * a @ b
        results = [kernel.run(factor * a, b) for _ in range(50)]
        return all(np.allclose(result, wanted, rtol=1e-5, atol=1e-6) for result in results)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(sums, range(1, 9)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda a, b: (a,), TypeError, "1 arrays were given; expected 2: A, B"),
        (
            lambda a, b: (a.astype(np.float64), b),
            TypeError,
            "A has dtype float64; expected float32",
        ),
        (lambda a, b: (a, b.T), ValueError, r"B has shape \(6, 7\); expected \(7, 6\)"),
    ],
)
def test_wrong_inputs_are_named(
    kernel: LoadedKernel,
    change: Callable[..., tuple[object, ...]],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        kernel.run(*change(*inputs()))


@pytest.mark.slow
def test_the_selftest_passes_and_notices_a_broken_kernel(kernel: LoadedKernel) -> None:
    assert kernel.selftest() == []
    runner = kernel.run.__self__  # type: ignore[attr-defined]
    right = runner.launch

    def wrong(*arrays: np.ndarray) -> None:
        right(*arrays)
        arrays[-1][2, 3] += 1e-3

    runner.launch = wrong
    try:
        found = kernel.selftest()
    finally:
        runner.launch = right
    assert len(found) == 2  # random inputs, and small integers, which must be equal
    assert found[0].startswith("C[2, 3]")


@pytest.mark.slow
def test_a_kernel_file_prints_its_latency_without_the_manifest(
    matmul: tuple[Path, Record], tmp_path: Path
) -> None:
    manifest = unpack(matmul[0], tmp_path)
    (tmp_path / "manifest.json").unlink()
    bench = [sys.executable, "-I", "kernel.py", "--bench"]
    done = subprocess.run(
        bench, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.startswith(f"manifest: {manifest['latency_s']['min'] * 1e6:.1f} us, ")


@pytest.mark.slow
def test_a_kernel_file_runs_without_ansorpy(matmul: tuple[Path, Record], tmp_path: Path) -> None:
    unpack(matmul[0], tmp_path)
    code = (
        "import sys; sys.modules['ansorpy'] = None; sys.argv = ['kernel.py', '--selftest',"
        " '--bench']; import runpy; runpy.run_path('kernel.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "selftest passed" in done.stdout
    assert re.search(
        r"^manifest: 1000\.0 us, [\d.]+ effective GFLOP/s; now: [\d.]+ us, [\d.]+ effective"
        r" GFLOP/s \(median [\d.]+ us, \d+ calls\)$",
        done.stdout,
        re.MULTILINE,
    )
    assert "ansorpy" not in [
        line.split()[1].split(".")[0]
        for name in ("kernel.py", "simd.py")
        for line in (tmp_path / name).read_text().splitlines()
        if line.startswith(("import ", "from "))
    ]


def test_the_kernel_is_first_in_a_short_file(matmul: tuple[Path, Record], tmp_path: Path) -> None:
    unpack(matmul[0], tmp_path)
    text = (tmp_path / "kernel.py").read_text()
    parts = [text.index(part) for part in ("def phase0", "def launch", "def reference", "TEST =")]
    assert parts == sorted(parts)
    assert len(text.splitlines()) < 200
    assert "class Runner" in (tmp_path / "simd.py").read_text()


@pytest.mark.slow
def test_kernel_file_runs_from_any_folder(matmul: tuple[Path, Record], tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "kernel", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    unpack(matmul[0], folder)
    (elsewhere / "simd.py").write_text("raise ImportError('another module of this name')")
    command = [sys.executable, str(folder / "kernel.py"), "--selftest", "--bench"]
    done = subprocess.run(
        command, cwd=elsewhere, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.startswith("selftest passed\nmanifest: ")


def test_kernels_of_one_process_do_not_share_a_module_name(
    matmul: tuple[Path, Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal helpers are one module; helpers of another version are a module of their own."""
    monkeypatch.setitem(sys.modules, "simd", ModuleType("simd"))  # a user's own module
    other = rewritten(matmul[0], lambda c: c.update({"simd.py": c["simd.py"] + b"OTHER = 1\n"}))
    with zipfile.ZipFile(io.BytesIO(other)) as archive:
        archive.extractall(tmp_path)
    same, again = load(matmul[0]), load(packed(parse(TWO)[0], tmp_path / "two")[0])
    third = runpy.run_path(str(tmp_path / "kernel.py"), run_name="kernel")
    first, second = (kernel.run.__self__ for kernel in (same, again))  # type: ignore[attr-defined]
    assert type(first) is type(second)
    assert type(third["RUNNER"]) is not type(first)
    assert third["simd"].OTHER == 1
    a, b = inputs()
    for run in (same.run, third["run"]):
        np.testing.assert_allclose(run(a, b), a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(again.run(np.ones(9, np.float32))[1], np.full(9, 2.0))


@pytest.mark.slow
def test_several_outputs_are_a_tuple(tmp_path: Path) -> None:
    path, _ = packed(parse(TWO)[0], tmp_path)
    a = np.arange(9, dtype=np.float32)
    total, double = load(path).run(a)
    assert total.shape == ()
    assert float(total) == 36.0
    np.testing.assert_array_equal(double, a * 2)


@pytest.mark.slow
def test_arrays_for_several_results_must_not_overlap(tmp_path: Path) -> None:
    run, both = load(packed(parse(TWO)[0], tmp_path)[0]).run, np.zeros(9, np.float32)
    a = np.arange(9, dtype=np.float32)
    with pytest.raises(ValueError, match="D in out overlaps S; expected memory of its own"):
        run(a, out=(both[4:5].reshape(()), both))
    total, double = run(a, out=(np.zeros((), np.float32), both))
    assert double is both
    assert float(total) == 36.0


@pytest.mark.slow
def test_a_scalar_input_is_an_array_of_rank_0(tmp_path: Path) -> None:
    loaded = load(packed(parse(SCALED)[0], tmp_path)[0])
    assert loaded.selftest() == []
    scaled = loaded.run(np.float32(3), np.ones(9, np.float32))
    np.testing.assert_array_equal(scaled, np.full(9, 3, np.float32))


@pytest.mark.slow
def test_constants_are_files_beside_the_source(tmp_path: Path) -> None:
    (dag,) = parse(MM)
    values = np.arange(42, dtype=np.float32).reshape(7, 6)
    nodes = tuple(
        ConstantTensor("B", (7, 6), "float32", values.tobytes())
        if isinstance(node, Placeholder) and node.name == "B"
        else node
        for node in dag.nodes
    )
    path, _ = packed(replace(dag, nodes=nodes), tmp_path)
    assert set(zipfile.ZipFile(path).namelist()) == {
        "kernel.py", "simd.py", "constants.npz", "manifest.json",
    }  # fmt: skip
    loaded = load(path)
    assert loaded.selftest() == []
    a, _ = inputs()
    np.testing.assert_allclose(loaded.run(a), a @ values, rtol=1e-5)


def test_roots_and_logarithms_are_tested_on_positive_inputs() -> None:
    test = make_test(parse(LOG)[0])
    assert test.low > 0
    assert all(limit < WORST_TOLERANCE for limit in test.tolerances)


def rewritten(path: Path, change: Callable[[dict[str, bytes]], object]) -> bytes:
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    change(content)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def drop_files(content: dict[str, bytes]) -> None:
    manifest = json.loads(content["manifest.json"])
    del manifest["files"]
    content["manifest.json"] = json.dumps(manifest).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update({"kernel.py": c["kernel.py"] + b"#"}), "not what its manifest says"),
        (lambda c: c.update({"../evil.py": b""}), r"unexpected file '\.\./evil\.py'"),
        (lambda c: c.pop("manifest.json"), "not a kernel package"),
        (drop_files, "not a kernel package"),
        (lambda c: c.pop("kernel.py"), "not what its manifest says"),
    ],
)
def test_a_zip_that_was_changed_is_refused(
    matmul: tuple[Path, Record],
    tmp_path: Path,
    change: Callable[[dict[str, bytes]], object],
    message: str,
) -> None:
    bad = tmp_path / "bad.zip"
    bad.write_bytes(rewritten(matmul[0], change))
    with pytest.raises(PackageError, match=message):
        load(bad)
    assert not list(tmp_path.parent.glob("evil.py"))


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    bad.write_bytes(b"PK nonsense")
    with pytest.raises(PackageError, match="not a kernel package"):
        load(bad)
