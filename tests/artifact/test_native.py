"""The exported library in the zip: verified, called from C and from Python without numba."""

import importlib.util
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy import te
from ansorpy.artifact import load_native, make_test, pack, unpack
from ansorpy.artifact.library_calls import addresses_of
from ansorpy.codegen.exported_types import Library
from ansorpy.codegen.kernel import Kernel
from ansorpy.errors import PackageError
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.libraries import Exported
from ansorpy.records import Race, Record
from ansorpy.replay import plan_text
from ansorpy.rules import CPU
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.contestant import Contestant, contestant
from ansorpy.tuner.race.cpu_form import CpuForm
from ansorpy.tuner.race.export import export_of
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.trust import versions
from tests.plan.test_meaning import packing

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.slow
Made = tuple[Task, Contestant[Kernel], Exported]


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
def made() -> Made:
    dag = workload()
    task = Task.of(dag, local_target(2), "cpu@1")
    task.space.explore(CPU)
    plan = next(packing(dag, "B"))
    row = tuple(int(v) for v in (s.values[0] if s.values else s.multiple_of for s in plan.sizes))
    entry = contestant(task, plan, plan_text(plan), row, CpuForm().emit)
    assert isinstance(entry, Contestant)
    with LocalPool(dag, task.target) as pool:
        done = pool.export(export_of(task, entry))
    assert isinstance(done, Exported), done
    return task, entry, done


def zipped(
    made: Made,
    folder: Path,
    native: Library | str | None = None,
) -> Path:
    task, entry, done = made
    test = make_test(task.dag)
    race = Race(
        "tuned", "tuned", (1e-3,), (2e-3,), (3e-3,), (test.low, test.high), test.tolerances,
        test.magnitude, 4, 1.0, "00", done.library.object_sha256, done.outcome.times_s,
    )  # fmt: skip
    record = Record(
        task.key, task.identity.workload, "cpu@1", entry.plan, entry.row, Measured(race.tuned_s),
        sha256(entry.kernel.source.encode()).hexdigest(), versions(), 0.0, race,
    )  # fmt: skip
    native = done.library if native is None else native
    return pack(folder, task.dag, entry.kernel, entry.schedule, record, task.target, native)


@pytest.fixture(scope="module")
def path(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return zipped(made, tmp_path_factory.mktemp("zips"))


def test_the_manifest_describes_the_library(made: Made, path: Path, tmp_path: Path) -> None:
    manifest = unpack(path, tmp_path)
    assert {"libkernel.so", "kernel.h", "native.py"} <= set(manifest["files"])
    digest = sha256((tmp_path / "libkernel.so").read_bytes()).hexdigest()
    assert manifest["files"]["libkernel.so"]["sha256"] == digest
    native = manifest["native"]
    assert native["library"] == "libkernel.so"
    assert native["note"] == ""
    assert native["packed_bytes"] >= 24 * 32 * 4  # the packed B
    assert native["workspace_bytes"] >= native["packed_bytes"]
    assert native["latency_s"]["min"] == min(made[2].outcome.times_s)
    assert set(native["features"]) <= set(local_target().features)


def test_a_native_kernel_is_called_from_python(path: Path) -> None:
    kernel = load_native(path)
    a, b, wanted = inputs()
    np.testing.assert_array_equal(kernel(a, b), wanted)
    call = kernel.prepare(a, b)
    first = call()
    np.testing.assert_array_equal(call(), wanted)
    np.testing.assert_array_equal(first, wanted)


def test_a_kernel_with_a_library_is_pickled(path: Path) -> None:
    kernel = ansorpy.load(path)
    again = pickle.loads(pickle.dumps(kernel))
    assert again.digest == kernel.digest
    a, b, wanted = inputs()
    np.testing.assert_array_equal(again(a, b), wanted)


def test_kernels_of_two_zips_share_a_pool(path: Path, tmp_path: Path) -> None:
    """One library opens the pool; both use it, in turns and from two threads at once."""
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        folder.mkdir()
        unpack(path, folder)
    native = import_file(folders[0] / "native.py")
    calls = []

    def repeat(each: Sequence[tuple[Callable[[], Any], Any, Any]]) -> None:
        for _ in range(1000):
            for call, out, wanted in each:
                out[...] = np.nan
                call()
                np.testing.assert_array_equal(out, wanted)

    with native.LibraryPool(folders[0], 3) as pool:
        for seed, folder in enumerate(folders):
            a, b, wanted = inputs(seed)
            out = native.fresh(wanted.shape, "float32")
            runner = native.open_library(folder, pool=pool)
            np.testing.assert_array_equal(runner.run(a, b), wanted)
            calls.append((runner.prepare(a, b, out=out), out, wanted))
        repeat(calls)
        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(repeat, [one]) for one in calls]:
                done.result()
    repeat(calls[:1])  # the pool is closed: calls run on their caller's thread
    with pytest.raises(ValueError, match="cannot open a pool of 0 threads; expected at least 1"):
        native.LibraryPool(folders[0], 0)


def test_kernels_share_the_threads_of_their_process(path: Path, tmp_path: Path) -> None:
    """Two modules, which know nothing of each other, call on one pool; a child has its own."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        unpack(path, tmp_path / name)
    code = """
import importlib.util, os, sys
from pathlib import Path
import numpy as np

def opened(name):
    spec = importlib.util.spec_from_file_location(name, Path(sys.argv[1]) / name / "native.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.open_library(Path(sys.argv[1]) / name, threads=3)

def helpers():
    return len(os.listdir("/proc/self/task")) - begin

begin = len(os.listdir("/proc/self/task"))
a, b = np.ones((16, 24), "f4"), np.ones((24, 32), "f4")
runners = [opened("one"), opened("two")]
print(helpers(), end=" ")
sums = [float(runner.run(a, b).sum()) for runner in runners * 20]
print(helpers(), len(set(sums)), sums[0], flush=True)
if os.fork() == 0:
    begin = len(os.listdir("/proc/self/task"))
    print(*(float(runner.run(a, b).sum()) for runner in runners), helpers(), flush=True)
    os._exit(0)
sys.exit(os.wait()[1])
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    total = float(16 * (24 * 32 + sum(range(32))))
    first, second = done.stdout.splitlines()
    assert first == f"0 2 1 {total}"
    assert second == f"{total} {total} 2"


def import_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("shared_native", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_native_kernel_is_called_from_python_without_numba(path: Path, tmp_path: Path) -> None:
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
def test_a_native_kernel_is_called_from_c(path: Path, tmp_path: Path, threads: int) -> None:
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


ON_POOL = """
#include "kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int dealt = 0;
static void backwards(ansorpy_pool *pool, void (*task)(void *, int64_t), void *context,
                      int64_t tasks) {
    (void)pool;
    while (tasks-- > 0) {
        task(context, tasks);
        dealt++;
    }
}
static void *memory(size_t bytes) { return aligned_alloc(64, (bytes / 64 + 1) * 64); }
static float *contents(const char *path, size_t bytes) {
    float *data = memory(bytes);
    FILE *file = fopen(path, "rb");
    if (!file || fread(data, 1, bytes, file) != bytes) exit(2);
    fclose(file);
    return data;
}

int main(void) {
    float *b = contents("B.bin", 24 * 32 * 4), *wanted = contents("C.bin", 16 * 32 * 4);
    kernel_packed_args args = {.in0 = contents("A.bin", 16 * 24 * 4), .in1 = b,
                               .out0 = memory(16 * 32 * 4), .packed = memory(KERNEL_PACKED_BYTES),
                               .scratch = memory(KERNEL_SCRATCH_BYTES)};
    if (KERNEL_PACKED_BYTES + KERNEL_SCRATCH_BYTES != KERNEL_WORKSPACE_BYTES) return 3;
    ansorpy_pool own = {backwards}, *pools[] = {NULL, &own, kernel_pool_open(3)};
    kernel_pack(&args);
    memset(b, 0xFF, 24 * 32 * 4); /* the packed weights are used from here on */
    for (int call = 0; call < 3000; call++) {
        memset(args.out0, 0xFF, 16 * 32 * 4);
        kernel_run_packed(&args, pools[call % 3]);
        if (memcmp(args.out0, wanted, 16 * 32 * 4)) return 4;
    }
    kernel_pool_close(pools[2]);
    kernel_pool_close(NULL);
    int64_t most = 0;
    for (int k = 0; k < KERNEL_PHASES; k++)
        most = kernel_phases[k].tasks > most ? kernel_phases[k].tasks : most;
    return most > 1 && !dealt ? 5 : 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_native_kernel_is_called_from_c_with_pools_packed_weights_and_scratch(
    path: Path, tmp_path: Path
) -> None:
    unpack(path, tmp_path)
    for array, name in zip(inputs(7), "ABC", strict=True):
        array.tofile(tmp_path / f"{name}.bin")
    (tmp_path / "main.c").write_text(ON_POOL)
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "main.c", "libkernel.so",
         f"-Wl,-rpath,{tmp_path}", "-o", "main"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    subprocess.run(["./main"], cwd=tmp_path, check=True, timeout=60)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_headers_of_two_kernels_compile_together_as_cpp(path: Path, tmp_path: Path) -> None:
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


def test_an_object_that_was_not_linked_can_be_linked_by_hand(made: Made, tmp_path: Path) -> None:
    task, entry, _ = made
    what = replace(export_of(task, entry), linkers=())
    with LocalPool(task.dag, task.target) as pool:
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


def test_a_zip_without_a_library_says_why(made: Made, tmp_path: Path) -> None:
    lonely = zipped(made, tmp_path, "not exported: nobody asked")
    with pytest.raises(PackageError, match="no library: not exported: nobody asked"):
        load_native(lonely)


def test_a_wrong_library_is_found(made: Made) -> None:
    task, entry, _ = made
    what = export_of(task, entry)
    wrong = np.arange(32, dtype=np.float32)
    wrong[31] += 1
    with LocalPool(task.dag, task.target) as pool:
        done = pool.export(replace(what, constants={"bias": wrong.tobytes()}))
    assert isinstance(done, Failed)
    assert done.kind == "wrong"


def test_addresses_of_any_arrays_are_found() -> None:
    whole = np.arange(12, dtype=np.float32)
    fixed = whole.copy()
    fixed.flags.writeable = False
    arrays: list[np.ndarray[Any, Any]] = [
        whole,
        whole[3:],
        fixed,
        np.empty((0, 4)),
        whole.reshape(3, 4)[:, ::2],
    ]
    assert list(addresses_of(arrays)) == [array.ctypes.data for array in arrays]
