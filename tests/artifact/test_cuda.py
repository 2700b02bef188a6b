"""Zips for a GPU: their members, and whole calls through the emulator in place of a driver."""

import ctypes
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ansorpy import te
from ansorpy.artifact import LoadedKernel, load, unpack
from ansorpy.artifact.cuda import members, pack_emulated
from ansorpy.artifact.device_runner import checked_table
from ansorpy.artifact.package import box
from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import BuildError, PackageError
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Measured
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.records import Record
from ansorpy.replay import plan_text, replay
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.tuner.tasks.trust import versions
from tests.artifact.emulated_driver import BAD_PTX, NO_CODE, Producer, Shared, ZipDevice
from tests.artifact.mutations import resealed
from tests.codegen.simt.test_report import needs_ptxas
from tests.emulation.device.module import EmulatedFunction
from tests.fuzz.pairs import draw

MM = "def mm(float(5,7) A, float(7,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TWO = "def two(float(9) A) -> (S, D) { S() +=! A(i)  D(i) = A(i) * 2 }"
TARGET = cuda_target("sm_90")
ELF = b"\x7fELF"
ROOT = Path(__file__).parents[2]


class Zip(NamedTuple):
    """A zip for a GPU and its origin."""

    path: Path
    dag: Dag
    record: Record
    code: SimtCode


def zipped(dag: Dag, folder: Path, seed: int = 0) -> Zip:
    program, plan, row = draw(dag, TARGET, np.random.default_rng(seed))
    record = Record(
        "key", "workload", "cuda", plan_text(plan), row, Measured((1e-3,)), "00" * 32,
        versions(), 0.0, None,
    )  # fmt: skip
    path = pack_emulated(folder, dag, program, record, TARGET)
    return Zip(path, dag, record, simt_code(program, TARGET))


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Zip:
    return zipped(parse(MM)[0], tmp_path_factory.mktemp("mm"))


def loaded(one: Zip, monkeypatch: pytest.MonkeyPatch) -> tuple[LoadedKernel, ZipDevice]:
    driver = ZipDevice(one.code)
    driver.install(monkeypatch)
    return load(one.path), driver


def inputs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 7), (7, 6)))
    return a, b


def test_the_manifest_lists_buffers_and_launches(matmul: Zip, tmp_path: Path) -> None:
    manifest = unpack(matmul.path, tmp_path)
    cuda = manifest["cuda"]
    assert (manifest["verified"], manifest["timed"]) == ("emulated", False)
    assert not {"latency_s", "rate", "baseline_s", "numpy_s", "native"} & set(manifest)
    assert [one["name"] for one in cuda["buffers"]] == [b.name for b in matmul.code.buffers]
    assert [one["role"] for one in cuda["buffers"]][:3] == ["input", "input", "output"]
    for told, launch in zip(cuda["launches"], matmul.code.launches, strict=True):
        assert told == {
            "name": launch.name,
            "blocks": launch.blocks,
            "threads": launch.threads,
            "shared_bytes": launch.shared_bytes,
            "dynamic_bytes": 0,
            "ahead": False,
            "arguments": list(range(len(matmul.code.buffers))),
        }
    text = (tmp_path / cuda["ptx"]).read_text()
    assert (cuda["arch"], cuda["isa"]) == ("sm_90", "ptx86")
    assert ".target sm_90" in text
    for launch in matmul.code.launches:
        assert f".visible .entry {launch.name}(" in text
    if not cuda["cubins"]:
        assert cuda["note"] == (
            "cannot assemble because ptxas is not installed; expected pip install 'ansorpy[cuda]'"
        )


def test_a_record_replays_to_the_same_members(matmul: Zip, tmp_path: Path) -> None:
    unpack(matmul.path, tmp_path)
    again = replay(matmul.dag, TARGET, matmul.record)
    made = members(matmul.dag, again, TARGET)
    for name, data in made.files.items():
        assert (tmp_path / name).read_bytes() == data, name
    told = json.loads((tmp_path / "manifest.json").read_text())
    assert json.dumps(told["cuda"]) == json.dumps(made.manifest["cuda"])


MEMBERS = """
import sys
from hashlib import sha256
from tests.artifact.test_cuda import SECRET, TARGET, members
from ansorpy.frontends.tc.text import parse
from tests.fuzz.pairs import draw
import numpy as np
dag = parse(SECRET)[0]
made = members(dag, draw(dag, TARGET, np.random.default_rng(1))[0], TARGET)
text = "".join(f"{name} {sha256(data).hexdigest()} " for name, data in made.files.items())
print(text + sha256(repr(made.manifest).encode()).hexdigest())
"""
SECRET = "def hidden(float(6,40) secret_a) -> (secret_b) { secret_b(i) +=! exp(secret_a(i,j)) }"


def test_members_do_not_depend_on_the_process() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", MEMBERS], cwd=ROOT, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed}, timeout=600,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert said[0] == said[1]
    assert "kernel.py" in said[0]


def test_names_of_users_stand_in_the_manifest_only() -> None:
    dag = parse(SECRET)[0]
    made = members(dag, draw(dag, TARGET, np.random.default_rng(1))[0], TARGET)
    for name, data in made.files.items():
        assert b"secret_" not in data, name
        assert b"hidden" not in data, name
    assert "secret_a" in str(made.manifest)


def test_kernels_run_on_arrays_of_the_host(matmul: Zip, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, driver = loaded(matmul, monkeypatch)
    a, b = inputs()
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5, atol=1e-6)
    assert driver.loaded == [driver.loaded[0]]
    assert repr(kernel) == (
        "<kernel mm(A: float32[5, 7], B: float32[7, 6]) -> C: float32[5, 6] for a GPU, not timed,"
        f" sha256:{kernel.digest[:12]}>"
    )
    np.testing.assert_allclose(kernel.run(a[::1], 2 * b), a @ (2 * b), rtol=1e-5, atol=1e-6)
    strided = np.repeat(b, 2, axis=1)[:, ::2]
    out = np.zeros((6, 5), np.float32).T
    assert kernel.run(a, strided, out=out) is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)


def test_the_selftest_compares_with_float64_loops(
    matmul: Zip, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, driver = loaded(matmul, monkeypatch)
    assert kernel.selftest() == []
    monkeypatch.setattr(EmulatedFunction, "run", lambda *_: None)
    driver.copies.clear()
    assert "wrong)" in kernel.selftest()[0]


def test_every_thread_of_a_process_has_memory_of_its_own(
    matmul: Zip, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, driver = loaded(matmul, monkeypatch)
    a, b = inputs()
    kernel.run(a, b)
    before = driver.allocations
    kernel.run(a, b)
    assert driver.allocations == before
    call = kernel.prepare(a, b)
    assert driver.allocations == 2 * before
    del call
    assert driver.allocations == before


def test_arrays_of_the_device_are_not_copied(matmul: Zip, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, driver = loaded(matmul, monkeypatch)
    a, b = inputs()
    given, out = (driver.share(a), driver.share(b)), driver.share(np.zeros((5, 6), np.float32))
    call = kernel.prepare(*given, out=out)
    driver.copies.clear()
    assert call() is out
    np.testing.assert_allclose(out.array, a @ b, rtol=1e-5, atol=1e-6)
    a *= 2
    call()
    np.testing.assert_allclose(out.array, a @ b, rtol=1e-5, atol=1e-6)
    assert driver.copies == []
    result = kernel(*given)
    assert set(driver.copies) == {"on the device"}
    assert result.__cuda_array_interface__["shape"] == (5, 6)
    np.testing.assert_array_equal(result.to_host(), out.array)


def test_arrays_of_the_device_by_dlpack(matmul: Zip, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, driver = loaded(matmul, monkeypatch)
    a, b = inputs()
    driver.foreign += [a, b]
    result = kernel(Producer(a), Producer(b))
    assert set(driver.copies) == {"on the device"}
    np.testing.assert_allclose(result.to_host(), a @ b, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="because A has dtype float64; expected float32"):
        kernel(Producer(a.astype(np.float64)), b)
    with pytest.raises(ValueError, match="because A is strided; expected a contiguous array"):
        kernel(Producer(np.repeat(a, 2, axis=1)[:, ::2]), b)


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (lambda a, b: (a,), TypeError, "1 arrays were given; expected 2: A, B"),
        (
            lambda a, b: (a.astype(np.float64), b),
            TypeError,
            "A has dtype float64; expected float32",
        ),
        (lambda a, b: (b, b), ValueError, r"A has shape \(7, 6\); expected \(5, 7\)"),
        (lambda a, b: (Shared(a.astype(np.int32)), b), TypeError, "A has dtype <i4; expected"),
        (lambda a, b: (Shared(b), b), ValueError, r"A has shape \(7, 6\); expected"),
        (lambda a, b: (Shared(a[:, ::-1]), b), ValueError, "A is strided; expected a contiguous"),
    ],
)
def test_wrong_arrays_are_refused(
    matmul: Zip, monkeypatch: pytest.MonkeyPatch, given: Any, error: Any, sentence: str
) -> None:
    kernel, _ = loaded(matmul, monkeypatch)
    with pytest.raises(error, match=f"cannot run because {sentence}"):
        kernel(*given(*inputs()))


@pytest.mark.parametrize(
    ("out", "error", "sentence"),
    [
        ([1.0], TypeError, "C in out is neither a NumPy array nor an array of the device"),
        (np.zeros((5, 5), np.float32), ValueError, r"C in out has shape \(5, 5\); expected"),
        (Shared(np.zeros((5, 6))), TypeError, "C in out has dtype <f8; expected float32"),
        ((), TypeError, "0 arrays were given in out; expected 1: C"),
    ],
)
def test_wrong_targets_are_refused(
    matmul: Zip, monkeypatch: pytest.MonkeyPatch, out: Any, error: Any, sentence: str
) -> None:
    kernel, _ = loaded(matmul, monkeypatch)
    with pytest.raises(error, match=f"cannot run because {sentence}"):
        kernel.run(*inputs(), out=out)


def test_a_target_on_the_device_overlaps_no_input(
    matmul: Zip, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, driver = loaded(matmul, monkeypatch)
    memory = np.zeros(77, np.float32)
    driver.share(memory)
    a, b = Shared(memory[:35].reshape(5, 7)), Shared(memory[35:].reshape(7, 6))
    for first in (0, 34, 36):
        out = Shared(memory[first : first + 30].reshape(5, 6))
        with pytest.raises(ValueError, match=r"C in out overlaps [AB]; expected memory of its"):
            kernel.run(a, b, out=out)
    kernel.run(a, b, out=driver.share(np.zeros((5, 6), np.float32)))


def test_several_outputs_and_weights_and_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = zipped(parse(TWO)[0], tmp_path / "two")
    kernel, _ = loaded(one, monkeypatch)
    array = np.arange(9, dtype=np.float32)
    total, double = kernel(array)
    assert (float(total), double.tolist()) == (36.0, (2 * array).tolist())

    weight = te.placeholder((6,), "W", constant=True)
    start = te.constant(np.arange(6, dtype=np.float32), "start")
    scaled = te.compute((6,), lambda i: weight[i] * 2.0 + start[i], "scaled")
    x = te.placeholder((4, 6), "X")
    dag = te.dag(te.compute((4, 6), lambda i, j: x[i, j] * scaled[j], "Y"))
    other = zipped(dag, tmp_path / "weights")
    kernel, _ = loaded(other, monkeypatch)
    rng = np.random.default_rng(0)
    given = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("W", (6,)), ("X", (4, 6)))
    }
    for _ in range(2):
        ordered = [given[node.name] for node in dag.placeholders]
        want = given["X"] * (2 * given["W"] + np.arange(6, dtype=np.float32))
        np.testing.assert_allclose(kernel(*ordered), want, rtol=1e-5, atol=1e-6)
        given["W"] = given["W"] + 1
    assert kernel.selftest() == []


def test_no_driver_is_one_sentence(matmul: Zip, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    kernel = load(matmul.path)
    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(RuntimeError) as raised:
        kernel(*inputs())
    assert str(raised.value) == (
        "cannot run on a GPU because no NVIDIA driver library was found; expected libcuda.so.1"
    )


@pytest.mark.parametrize(
    ("arch", "capability", "chosen"),
    [
        ("sm_90", (9, 0), "kernel.sm_90.cubin"),
        ("sm_80", (8, 6), "kernel.sm_80.cubin"),
        ("sm_80", (9, 0), "kernel.ptx"),
        ("sm_90", (8, 0), "kernel.ptx"),
        ("sm_90", (10, 0), "kernel.ptx"),
    ],
)
def test_a_cubin_that_fits_goes_before_ptx(
    matmul: Zip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arch: str, capability: tuple[int, int], chosen: str,
) -> None:  # fmt: skip
    folder = tmp_path
    unpack(matmul.path, folder)
    for path in folder.glob("*.cubin"):
        path.unlink()
    (folder / f"kernel.{arch}.cubin").write_bytes(ELF + bytes(60))
    driver = ZipDevice(matmul.code, capability)
    driver.install(monkeypatch)
    kernels = runner_of(folder).kernels
    assert kernels.code == chosen
    assert driver.loaded[0][:4] == (ELF if chosen.endswith("cubin") else b"//\n/")


def test_ptx_stands_in_for_a_cubin_that_the_driver_cannot_use(
    matmul: Zip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(matmul.path, tmp_path)
    (tmp_path / "kernel.sm_90.cubin").write_bytes(ELF + bytes(60))
    no_cubin = ZipDevice(matmul.code, accepts=lambda code: NO_CODE if code[:4] == ELF else 0)
    no_cubin.install(monkeypatch)
    assert runner_of(tmp_path).kernels.code == "kernel.ptx"
    (tmp_path / "kernel.sm_90.cubin").unlink()
    refused = ZipDevice(matmul.code, accepts=lambda _: BAD_PTX)
    refused.install(monkeypatch)
    with pytest.raises(RuntimeError) as raised:
        _ = runner_of(tmp_path).kernels
    assert str(raised.value) == (
        "cannot load a kernel because of CUDA_ERROR_INVALID_PTX (218): ptxas: no such instruction"
    )


def runner_of(folder: Path) -> Any:
    """Return the runner of the file that lies in the zip."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("driver_of_a_zip", folder / "driver.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RUNNER


DAMAGED: tuple[tuple[str, Any], ...] = (
    ("launches.0.threads", 1025),
    ("launches.0.threads", True),
    ("launches.0.blocks", 0),
    ("launches.0.blocks", 2**31),
    ("launches.0.shared_bytes", 10**6),
    ("launches.0.dynamic_bytes", 1),
    ("launches.0.name", "phase1"),
    ("launches.0.ahead", 0),
    ("launches.0.arguments", [0, 1, 3]),
    ("launches.0.arguments", [-1]),
    ("launches.0", None),
    ("launches", {}),
    ("buffers.0.shape", [1 << 39, 4]),
    ("buffers.0.shape", [-5, 7]),
    ("buffers.0.dtype", "float31"),
    ("buffers.0.role", "code"),
    ("buffers.0.name", "B"),
    ("buffers.0.span", [0]),
    ("buffers", None),
)


@pytest.mark.parametrize(("field", "value"), DAMAGED)
def test_a_damaged_table_is_refused_before_the_driver_is_called(
    matmul: Zip, tmp_path: Path, field: str, value: Any
) -> None:
    manifest = dict(unpack(matmul.path, tmp_path))
    *way, last = field.split(".")
    place: Any = manifest["cuda"]
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    place[int(last) if last.isdigit() else last] = value
    with pytest.raises(ValueError, match="the manifest has no usable cuda"):
        checked_table(manifest["cuda"])
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    (tmp_path / "bad.zip").write_bytes(box(files, manifest))
    with pytest.raises(PackageError, match=r"its manifest has no usable cuda"):
        load(tmp_path / "bad.zip")


def simulated(path: Path) -> tuple[int, str]:
    """Run the self-test of a `kernel.py` in the simulator of numba."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(path), "--selftest"], capture_output=True, text=True,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, timeout=600, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout or done.stderr


def test_the_plain_form_runs_in_the_simulator_of_numba(matmul: Zip, tmp_path: Path) -> None:
    unpack(matmul.path, tmp_path)
    assert simulated(tmp_path / "kernel.py") == (0, "selftest passed\n")


def test_a_plain_form_that_is_wrong_fails_its_selftest(matmul: Zip, tmp_path: Path) -> None:
    unpack(matmul.path, tmp_path)
    path = tmp_path / "kernel.py"
    path.write_text(path.read_text().replace("cuda.fma(", "-cuda.fma("))
    code, said = simulated(path)
    assert code == 1
    assert "C[0, 0]:" in said


@pytest.mark.cuda
@needs_ptxas
def test_a_zip_has_a_cubin_for_each_architecture(matmul: Zip) -> None:
    program = replay(matmul.dag, TARGET, matmul.record)
    made = members(matmul.dag, program, TARGET, ("sm_80", "sm_90"))
    cuda = made.manifest["cuda"]
    assert cuda["cubins"] == {arch: f"kernel.{arch}.cubin" for arch in ("sm_80", "sm_90")}
    assert cuda["note"] == ""
    for name in cuda["cubins"].values():
        assert made.files[name][:4] == ELF
    assert members(matmul.dag, program, TARGET, ("sm_80", "sm_90")).files == made.files


@pytest.mark.slow
def test_no_resealed_manifest_escapes_as_another_error(matmul: Zip, tmp_path: Path) -> None:
    rng, data = np.random.default_rng(0), matmul.path.read_bytes()
    refused = 0
    for _ in range(100):
        (tmp_path / "resealed.zip").write_bytes(resealed(data, rng))
        try:
            repr(load(tmp_path / "resealed.zip"))
        except PackageError:
            refused += 1
    assert refused > 10


def test_a_kernel_without_a_plain_form_has_a_zip_all_the_same(
    matmul: Zip, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> str:
        raise BuildError("cannot write mma as source because numba.cuda has no plain form of it")

    monkeypatch.setattr("ansorpy.artifact.cuda.plain_text", refused)
    made = members(matmul.dag, replay(matmul.dag, TARGET, matmul.record), TARGET)
    assert "kernel.py" not in made.files
    assert made.manifest["cuda"]["source"] is None
    assert made.manifest["cuda"]["source_note"].startswith("cannot write mma as source")


def test_a_kernel_with_much_shared_memory_has_a_zip_without_source() -> None:
    """numba.cuda allocates 48 KB of a block at most; PTX and cubins ask for more at the launch."""
    wide = replace(TARGET, shared_bytes=100_000)
    dag = parse("def mm(float(128,128) A, float(128,128) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")[
        0
    ]
    plan = plans(derive(dag, wide, CUDA).sketches[0], wide)[0]
    parts = {"i.1": 2, "i.2": 16, "i.3": 4, "j.1": 2, "j.2": 16, "j.3": 4, "k.1": 32}
    row = tuple(parts[".".join(size.name.split(".")[-2:])] for size in plan.sizes)
    made = members(dag, bind(plan, row, wide), wide)
    assert "kernel.py" not in made.files
    assert made.manifest["cuda"]["source"] is None
    assert made.manifest["cuda"]["source_note"] == (
        "cannot write C for CUDA because a block needs 65536 bytes of shared memory; expected at"
        " most 49152"
    )
    (launch,) = made.manifest["cuda"]["launches"]
    assert launch["dynamic_bytes"] == launch["shared_bytes"] == 65536
