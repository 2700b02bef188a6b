"""The delivered form: its text, and that it runs on its own."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorpy.codegen.loader import build_source
from ansorpy.codegen.numba_source import emit
from ansorpy.codegen.simd_file import simd_text, simd_version
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Binary, Call, Cast, Select
from ansorpy.loopir.nodes import Alloc, For, If, Program, Scope, Seq, Tile
from ansorpy.target import Target
from tests.codegen.programs import matmul, pack
from tests.conftest import Golden
from tests.loopir.build import add, buffer, c, f32, lt, mul, parallel, program, read, store, v


def unversioned(source: str) -> str:
    """Return a source without the digest of the SIMD compiler, which changes with its code."""
    return source.replace(simd_version(), "...").rstrip("\n")


def write(folder: Path, program: Program, threads: int = 1) -> None:
    """Write `kernel.py` and `simd.py` of a program into a folder."""
    (folder / "kernel.py").write_text(emit(program, Target(), threads).source)
    (folder / "simd.py").write_text(simd_text())


def test_matmul_source(golden: Golden) -> None:
    golden.check(unversioned(emit(matmul(1000, 1000, 512), Target(), threads=2).source))


def everything() -> Program:
    j, u, i = v("lane"), v("row"), v("user name")
    local = buffer("scratch", 4, 16, scope=Scope.LOCAL)
    inside = Binary("and", Binary("ge", add(i, c(-1)), c(0)), lt(j, 10))
    padded = Select(inside, read("A", add(i, c(-1)), j), f32(0.0))
    fill = Tile((("row", 4),), (("lane", 16),), store("scratch", (u, j), padded))
    value = Binary("max", Call("exp", read("scratch", u, j)), Cast("float32", mul(i, 2)))
    use = Tile((("row", 4),), (("lane", 16),), store("B", (i, u), value, "sum"), lt(j, 10))
    start = Tile((("row", 4),), (), store("B", (i, u), f32(0.0)))
    body = Alloc(local, Seq((fill, If(lt(i, 3), use, Seq((use, use))))))
    loop = For("k", Binary("min", c(2), add(i, c(1))), body)
    buffers = [buffer("A", 5, 10), buffer("B", 5, 4, scope=Scope.OUTPUT)]
    prog = program(buffers, parallel("user name", 5, Seq((start, loop))), start)
    first, second = prog.phases
    ahead = replace(second, body=Tile((), (), store("B", (c(0), c(0)), f32(1.0))), ahead=True)
    return replace(prog, phases=(first, ahead))


def test_source_with_everything(golden: Golden) -> None:
    source = emit(everything(), Target()).source
    assert "user" not in source
    golden.check(unversioned(source))


def test_equal_programs_give_equal_sources() -> None:
    assert emit(everything(), Target()) == emit(everything(), Target())


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_kernel_file_runs_without_ansorpy(tmp_path: Path, threads: int) -> None:
    n, m, k = 30, 50, 9
    write(tmp_path, matmul(n, m, k), threads)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((n, k)), rng.standard_normal((k, m))
    np.savez(tmp_path / "data.npz", a=a, b=pack(b, 48), want=np.maximum(a @ b, 0))
    (tmp_path / "run.py").write_text(
        "import sys, numpy as np, kernel\n"
        "assert 'ansorpy' not in sys.modules\n"
        "assert 'simd' not in sys.modules\n"
        "data = np.load('data.npz')\n"
        "buffers = [data[name].astype(np.float32) for name in ('a', 'b', 'want')]\n"
        "buffers[2][...] = 0\n"
        "kernel.ahead(*buffers)\n"
        "kernel.launch(*buffers)\n"
        "np.testing.assert_allclose(buffers[2], data['want'], atol=1e-4)\n"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for _ in range(threads):  # the second time from numba's cache
        done = subprocess.run(
            [sys.executable, "run.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "__pycache__").glob("kernel.launch*.nbi"))


@pytest.mark.slow
def test_transposed_store_runs_without_ansorpy(tmp_path: Path) -> None:
    """Without ansorpy, LLVM has no parser of inline assembly: no instruction may be given as it."""
    w, lane = v("w"), v("l")
    tile = Tile((("w", 16),), (("l", 16),), store("B", (lane, w), read("A", w, lane)))
    buffers = [buffer("A", 16, 16), buffer("B", 16, 16, scope=Scope.OUTPUT)]
    write(tmp_path, program(buffers, tile))
    (tmp_path / "run.py").write_text(
        "import numpy as np, kernel\n"
        "a = np.arange(256, dtype=np.float32).reshape(16, 16)\n"
        "b = np.empty_like(a)\n"
        "kernel.launch(a, b)\n"
        "np.testing.assert_array_equal(b, a.T)\n"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_broken_source_is_a_build_error() -> None:
    kernel = emit(matmul(8, 48, 4), Target())
    for broken in (
        kernel.source + "\ndef (",
        kernel.source.replace("r0 = tile0(r0)", "r0 = tile0(undefined)"),
        kernel.source.replace("r0[u, v, l] +=", "r0[u, v, l] -="),
    ):
        with pytest.raises(BuildError):
            build_source(replace(kernel, source=broken), Target())
