"""Zips of libraries whose sizes a call decides: from Python without numba, and from C."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ansorpy
from ansorpy.artifact import load_native, unpack
from ansorpy.artifact.package import KERNEL
from ansorpy.artifact.stored_zip import packed
from ansorpy.errors import PackageError
from ansorpy.events import TaskResult
from ansorpy.measure.verify.inputs import Array
from tests.artifact.test_native import import_file

pytestmark = pytest.mark.slow
ROWS, INNER, COLUMNS, LONG = 30, 24, 32, 19
# Two dims: of the rows of the first input and of the columns of the second one.
TEXT = (
    f"def mm(float(M in 2..{ROWS}, {INNER}) A, const float({INNER}, {COLUMNS}) W,"
    f" float({COLUMNS}, L in 1..{LONG}) B) -> (C)"
    " { T(i,j) +=! A(i,k) * W(k,j) C(i,l) +=! fmax(T(i,j), 0) * B(j,l) }"
)
SIZES = [(2, 1), (3, 19), (8, 16), (17, 2), (30, 7), (30, 19)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store, out = ansorpy.MemoryStore(), tmp_path_factory.mktemp("first")
    result: TaskResult = ansorpy.tune(
        TEXT, trials=0, cores=2, store=store, out=out, progress=False
    ).task
    assert result.verified
    assert result.kernel is not None
    return result.kernel


def inputs(rows: int, long: int) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(rows * 100 + long)
    a = rng.integers(-3, 4, (rows, INNER)).astype(np.float32)
    w = rng.integers(-3, 4, (INNER, COLUMNS)).astype(np.float32)
    b = rng.integers(-3, 4, (COLUMNS, long)).astype(np.float32)
    return a, w, b, np.maximum(a @ w, 0) @ b


def test_a_first_answer_takes_each_size(path: Path) -> None:
    kernel = ansorpy.load(path)
    assert repr(kernel).startswith("<kernel mm(A: float32[M, 24], W: float32[24, 32], B:")
    for rows in range(2, ROWS + 1):
        for long in (1, 8, 15, 16, 19):
            *given, wanted = inputs(rows, long)
            np.testing.assert_array_equal(kernel(*given), wanted)


def test_memory_of_a_caller_is_taken_and_no_other_is_written(path: Path) -> None:
    kernel = load_native(path)
    *given, wanted = inputs(5, 9)
    whole = np.full((7, 9), 7.0, np.float32)
    out = whole[1:6]
    call = kernel.prepare(*given, out=out)
    assert call() is out
    np.testing.assert_array_equal(out, wanted)
    given[0][:], given[2][:, 4] = 1, 2  # memory that is taken, and memory that is copied
    np.testing.assert_array_equal(call(), np.maximum(given[0] @ given[1], 0) @ given[2])
    assert (whole[[0, 6]] == 7.0).all()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, INNER), r"A has shape \(1, 24\); expected \(M in 2..30, 24\)"),
        ((31, INNER), r"A has shape \(31, 24\); expected \(M in 2..30, 24\)"),
    ],
)
def test_a_size_out_of_range_is_refused(path: Path, shape: tuple[int, ...], message: str) -> None:
    _, w, b, _ = inputs(2, 1)
    with pytest.raises(ValueError, match=message):
        load_native(path)(np.zeros(shape, np.float32), w, b)


def test_the_library_runs_on_shared_threads_and_without_ansorpy(path: Path, tmp_path: Path) -> None:
    manifest = unpack(path, tmp_path)
    assert [one["name"] for one in manifest["dims"]] == ["M", "L"]
    assert manifest["native"]["note"] == ""
    native = import_file(tmp_path / "native.py")
    with native.LibraryPool(tmp_path, 2) as pool:
        runner = native.open_library(tmp_path, pool=pool)
        for rows, long in SIZES:
            *given, wanted = inputs(rows, long)
            np.testing.assert_array_equal(runner.run(*given), wanted)
    lonely = [sys.executable, "-I", "native.py", "--selftest", "--bench"]
    done = subprocess.run(
        lonely, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout.startswith("selftest passed\nmanifest: ")


def test_a_manifest_without_usable_dims_is_refused(path: Path, tmp_path: Path) -> None:
    manifest = dict(unpack(path, tmp_path))
    content = {name: [(tmp_path / name).read_bytes()] for name in manifest["files"]}
    manifest["dims"] = [{"name": "M", "low": 2, "high": 30}]
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(b"".join(packed(content, manifest, KERNEL)))
    with pytest.raises(PackageError, match="its manifest has no usable dims"):
        load_native(damaged)


EACH_SIZE = """
#include "kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INNER = 24, COLUMNS = 32, LONG = 19 };

/* Return zeros, one of them beyond the tensor. */
static float *memory(size_t count) { return calloc(count + 1, sizeof(float)); }

int main(void) {
    ansorpy_pool *pool = kernel_pool_open(3);
    float *w = memory(INNER * COLUMNS), *b = memory(COLUMNS * LONG);
    int64_t sizes[2];
    kernel_args args = {.in1 = w, .in2 = b, .sizes = sizes,
                        .workspace = aligned_alloc(64, KERNEL_WORKSPACE_BYTES + 64)};
    kernel_packed_args apart = {.in1 = w, .in2 = b,
                                .packed = aligned_alloc(64, KERNEL_PACKED_BYTES + 64),
                                .scratch = aligned_alloc(64, KERNEL_SCRATCH_BYTES + 64)};
    if (!kernel_supported()) return 9;
    for (int k = 0; k < INNER * COLUMNS; k++) w[k] = (float)(k * 7 % 5 - 2);
    for (int k = 0; k < COLUMNS * LONG; k++) b[k] = (float)(k * 11 % 7 - 3);
    kernel_ahead(&args);
    kernel_pack(&apart); /* without sizes */
    apart.sizes = sizes;
    for (int64_t m = 2; m <= 30; m++) {
        float *a = memory(m * INNER), *out = memory(m * LONG);
        for (int k = 0; k < m * INNER; k++) a[k] = (float)(k * 3 % 11 - 5);
        args.in0 = apart.in0 = a;
        args.out0 = apart.out0 = out;
        for (int64_t l = 1; l <= LONG; l++) {
            sizes[0] = m;
            sizes[1] = l;
            for (int way = 0; way < 5; way++) {
                memset(out, 0xFF, m * LONG * sizeof(float));
                if (way == 0) kernel_run(&args);
                if (way == 1) kernel_run_threads(&args, 3);
                if (way == 2) kernel_run_packed(&apart, NULL);
                if (way == 3) kernel_run_packed(&apart, pool);
                if (way == 4)
                    for (int k = 0; k < KERNEL_PHASES; k++)
                        for (int64_t t = kernel_phases[k].tasks; t-- > 0;)
                            kernel_phases[k].task(&args, t);
                for (int64_t i = 0; i < m; i++) {
                    for (int64_t j = 0; j < LONG; j++) {
                        float sum = 0;
                        for (int c = 0; c < COLUMNS; c++) {
                            float part = 0;
                            for (int k = 0; k < INNER; k++)
                                part += a[i * INNER + k] * w[k * COLUMNS + c];
                            sum += (part > 0 ? part : 0) * b[c * LONG + j];
                        }
                        float *found = &out[i * LONG + j];
                        if (j < l ? *found != sum : *(int32_t *)found != -1) {
                            printf("way %d, sizes %d %d, at %d %d: %f, expected %f\\n", way,
                                   (int)m, (int)l, (int)i, (int)j, *found, sum);
                            return 1;
                        }
                    }
                }
                if (out[m * LONG] != 0) return 2;
            }
        }
        free(a);
        free(out);
    }
    kernel_pool_close(pool);
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_library_takes_each_size_from_c(path: Path, tmp_path: Path) -> None:
    unpack(path, tmp_path)
    header = (tmp_path / "kernel.h").read_text()
    assert header.count("    const int64_t *sizes; /* M in 2..30, L in 1..19 */\n") == 2
    assert "const float *in0; /* A: float32[M <= 30][24] */" in header
    assert "args = { ... , sizes, workspace };" in header
    (tmp_path / "main.c").write_text(EACH_SIZE)
    subprocess.run(
        ["gcc", "-std=gnu11", "-O2", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror",
         "main.c", "libkernel.so", f"-Wl,-rpath,{tmp_path}", "-o", "main"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    done = subprocess.run(
        ["./main"], cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_header_of_a_kernel_of_fixed_sizes_mentions_no_sizes(tmp_path: Path) -> None:
    store, text = ansorpy.MemoryStore(), "def f(float(8) A) -> (B) { B(i) = A(i) * 2 }"
    result = ansorpy.tune(text, trials=0, cores=1, store=store, out=tmp_path, progress=False).task
    assert result.kernel is not None
    folder = tmp_path / "unpacked"
    folder.mkdir()
    assert "dims" not in unpack(result.kernel, folder)
    assert "sizes" not in (folder / "kernel.h").read_text()
