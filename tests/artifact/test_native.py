"""The exported library in the zip: verified, called from C and from Python without numba."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from ansorpy import te
from ansorpy.artifact import load_native, make_test, pack, unpack
from ansorpy.codegen.exported_types import Library
from ansorpy.errors import PackageError
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.pool import Exported, MeasurePool
from ansorpy.records import Race, Record
from ansorpy.replay import plan_text
from ansorpy.rules import CPU
from ansorpy.te.dag import Dag
from ansorpy.tuner.contestant import Contestant, contestant
from ansorpy.tuner.final_race import export_of
from ansorpy.tuner.task import Task
from ansorpy.tuner.trust import versions
from tests.plan.test_meaning import packing

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.measure


def workload() -> Dag:
    """C = A @ B + bias: weights B that are packed ahead, and a constant tensor."""
    a = te.placeholder((16, 24), "A")
    b = te.placeholder((24, 32), "B", constant=True)
    bias = te.constant(np.arange(32, dtype=np.float32), "bias")
    k = te.reduce_axis((0, 24), "k")
    product = te.compute((16, 32), lambda i, j: te.sum(a[i, k] * b[k, j], k), "M")
    return te.dag(te.compute((16, 32), lambda i, j: product[i, j] + bias[j], "C"), name="mm")


def inputs(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.integers(-9, 10, (16, 24)).astype(np.float32)
    b = rng.integers(-9, 10, (24, 32)).astype(np.float32)
    return a, b, a @ b + np.arange(32, dtype=np.float32)


@pytest.fixture(scope="module")
def made() -> tuple[Task, Contestant, Exported]:
    dag = workload()
    task = Task.of(dag, local_target(2), "cpu@1")
    task.explore(CPU)
    plan = next(packing(dag, "B"))
    row = tuple(int(v) for v in (s.values[0] if s.values else s.multiple_of for s in plan.sizes))
    entry = contestant(task, plan, plan_text(plan), row)
    assert isinstance(entry, Contestant)
    with MeasurePool(dag, task.target) as pool:
        done = pool.export(export_of(task, entry))
    assert isinstance(done, Exported), done
    return task, entry, done


def zipped(
    made: tuple[Task, Contestant, Exported], folder: Path, native: Library | str | None = None
) -> Path:
    task, entry, done = made
    test = make_test(task.dag)
    race = Race(
        "tuned", "tuned", (1e-3,), (2e-3,), (3e-3,), (test.low, test.high), test.tolerances,
        test.magnitude, 4, 1.0, "00", done.library.object_sha256, done.outcome.times_s,
    )  # fmt: skip
    record = Record(
        task.key, task.workload, "cpu@1", entry.plan, entry.row, Measured(race.tuned_s),
        sha256(entry.kernel.source.encode()).hexdigest(), versions(), 0.0, race,
    )  # fmt: skip
    native = done.library if native is None else native
    return pack(folder, task.dag, entry.kernel, entry.schedule, record, task.target, native)


@pytest.fixture(scope="module")
def path(made: tuple[Task, Contestant, Exported], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return zipped(made, tmp_path_factory.mktemp("zips"))


def test_the_manifest_describes_the_library(
    made: tuple[Task, Contestant, Exported], path: Path, tmp_path: Path
) -> None:
    manifest = unpack(path, tmp_path)
    assert {"libkernel.so", "kernel.h", "native.py"} <= set(manifest["files"])
    digest = sha256((tmp_path / "libkernel.so").read_bytes()).hexdigest()
    assert manifest["files"]["libkernel.so"]["sha256"] == digest
    native = manifest["native"]
    assert native["library"] == "libkernel.so"
    assert native["note"] == ""
    assert native["workspace_bytes"] >= 24 * 32 * 4  # the packed weights at least
    assert native["latency_s"]["min"] == min(made[2].outcome.times_s)
    assert set(native["features"]) <= set(local_target().features)


def test_python_calls_it(path: Path) -> None:
    kernel = load_native(path)
    a, b, wanted = inputs()
    np.testing.assert_array_equal(kernel(a, b), wanted)
    call = kernel.prepare(a, b)
    first = call()
    np.testing.assert_array_equal(call(), wanted)
    np.testing.assert_array_equal(first, wanted)


def test_python_calls_it_without_numba(path: Path, tmp_path: Path) -> None:
    code = """
import sys
for name in ("numba", "llvmlite"):
    sys.modules[name] = None  # an import raises
from pathlib import Path
import numpy as np
import ansorpy
kernel = ansorpy.load_native(Path(sys.argv[1]))
print(float(kernel(np.ones((16, 24), "f4"), np.ones((24, 32), "f4")).sum()))
"""
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert float(done.stdout) == 16 * (24 * 32 + sum(range(32)))
    native = unpack(path, tmp_path)["native"]
    lonely = [sys.executable, "-I", "native.py", "--bench"]
    done = subprocess.run(
        lonely, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith(f"manifest: {native['latency_s']['min'] * 1e6:.1f} us")
    assert "now: " in done.stdout


def test_import_kernel_finds_the_source_beside_the_library(path: Path, tmp_path: Path) -> None:
    unpack(path, tmp_path)
    code = "import numpy, kernel; print(kernel.__file__, kernel.INPUTS)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split()[0] == str(tmp_path / "kernel.py")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_c_calls_it(path: Path, tmp_path: Path, threads: int) -> None:
    unpack(path, tmp_path)
    a, b, wanted = inputs(threads)
    a.tofile(tmp_path / "A.bin")
    b.tofile(tmp_path / "B.bin")
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I.",
         str(ROOT / "examples" / "call_kernel.c"), "libkernel.so", f"-Wl,-rpath,{tmp_path}",
         "-o", "call_kernel"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    command = ["./call_kernel", "A.bin", "B.bin", "C.bin", str(threads)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60, capture_output=True)
    got = np.fromfile(tmp_path / "C.bin", np.float32).reshape(wanted.shape)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_header_is_cpp_too_and_two_kernels_go_together(path: Path, tmp_path: Path) -> None:
    unpack(path, tmp_path)
    header = (tmp_path / "kernel.h").read_text()
    prefix = json.loads((tmp_path / "manifest.json").read_text())["native"]["prefix"]
    other = header.replace(prefix, "ansorpy_b").replace(prefix.upper(), "ANSORPY_B")
    (tmp_path / "other.h").write_text(other)
    main = '#define ANSORPY_LONG_NAMES\n#include "kernel.h"\n#include "other.h"\n'
    main += f"int main() {{ {prefix}_args a{{}}; ansorpy_b_args b{{}}; (void)a; (void)b; }}\n"
    (tmp_path / "main.cpp").write_text(main)
    subprocess.run(["g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "main.cpp"],
                   cwd=tmp_path, check=True)  # fmt: skip


def test_an_object_that_was_not_linked_can_be_linked_by_hand(
    made: tuple[Task, Contestant, Exported], tmp_path: Path
) -> None:
    task, entry, _ = made
    what = replace(export_of(task, entry), linkers=())
    with MeasurePool(task.dag, task.target) as pool:
        done = pool.export(what)
    assert isinstance(done, Exported), done
    assert not done.library.linked
    made_again = zipped((task, entry, done), tmp_path)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    manifest = unpack(made_again, folder)
    assert manifest["native"]["library"] is None
    assert "link it with: cc -shared -o libkernel.so kernel.o" in manifest["native"]["note"]
    with pytest.raises(PackageError, match="no linker on this machine"):
        load_native(made_again)
    if shutil.which("cc"):
        by_hand = ["cc", "-shared", "-o", "libkernel.so", "kernel.o"]
        subprocess.run(by_hand, cwd=folder, check=True)
        code = "from numpy import ones; import native\n"
        code += "print(native.run(ones((16, 24), 'f4'), ones((24, 32), 'f4'))[0, 0])"
        command = [sys.executable, "-c", code]
        done_in = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        assert float(done_in.stdout) == 24


def test_a_zip_without_a_library_says_why(
    made: tuple[Task, Contestant, Exported], tmp_path: Path
) -> None:
    lonely = zipped(made, tmp_path, "not exported: nobody asked")
    with pytest.raises(PackageError, match="no library: not exported: nobody asked"):
        load_native(lonely)


def test_a_wrong_library_is_found(made: tuple[Task, Contestant, Exported]) -> None:
    task, entry, _ = made
    what = export_of(task, entry)
    wrong = np.arange(32, dtype=np.float32)
    wrong[31] += 1
    with MeasurePool(task.dag, task.target) as pool:
        done = pool.export(replace(what, constants={"bias": wrong.tobytes()}))
    assert isinstance(done, Failed)
    assert done.kind == "wrong"
