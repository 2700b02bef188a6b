"""numba.cuda source of kernels: run thread by thread over the operators of the library.

`make test` draws one candidate of each operator and dtype, dtypes by turns with threads in order
and backwards; `make test-all` draws more of each.
"""

import ast
import re
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.simt.source import kernel_source
from ansorpy.errors import BuildError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Alloc, Program, Scope, Tile
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.programs import matmul
from tests.codegen.simt.source_executor import FLAT, Array, Executor
from tests.codegen.simt.test_library import LIBRARY, WHOLE, gpu
from tests.conftest import Golden
from tests.fuzz.pairs import draw
from tests.loopir.build import buffer, read, store, v
from tests.loopir.build import program as program_of
from tests.night import night
from tests.topi.test_operators import CASES

SEEDS: Final = night(range(8), [0])


def flat(array: Array, dtype: str) -> Array:
    """Return an array as kernels take it."""
    found = np.ascontiguousarray(array).reshape(-1)
    return found.view(FLAT.get(dtype, found.dtype))


def results(program: Program, source: str, given: dict[str, Array], backwards: bool) -> Any:
    """Run the kernels; return the buffers by name."""
    arrays: dict[str, Array] = {}
    for one in program.arguments:
        kind = np.dtype("uint16" if one.dtype == "bfloat16" else one.dtype)
        fresh = np.full(one.extents, 0xFF if kind.kind in "iub" else np.nan).astype(kind)
        made = fresh if one.scope in (Scope.OUTPUT, Scope.GLOBAL) else given[one.name]
        arrays[one.name] = np.array(made)
    executor = Executor(source)
    passed = [flat(arrays[one.name], one.dtype) for one in program.buffers]
    with np.errstate(all="ignore"):
        executor.run(passed, ahead=True, backwards=backwards)
        executor.run(passed, ahead=False, backwards=backwards)
    return arrays


def sourced(program: Program, target: Target) -> str:
    """Return the source of a program, or the sentence of its refusal."""
    try:
        return kernel_source(program, target)
    except BuildError as refusal:
        return str(refusal)


def check(dag: Dag, seed: int) -> bool:
    """Check a candidate of an operator against the float64 reference; False: it was refused."""
    rng = np.random.default_rng(seed)
    target = gpu(int(rng.choice((32, 64))))
    program, _, _ = draw(dag, target, rng)
    source = sourced(program, target)
    if LIBRARY.search(source):
        return False
    cases = make_cases(dag, seed)
    if program.meaning is not None:
        cases = reformulated(cases, program.meaning)
    case = cases[seed % 2]
    got = results(program, source, {**case.inputs, **constants(dag)}, backwards=seed % 2 == 1)
    failed = compare_all(case, lambda name: got[name], {b.name: b for b in program.arguments})
    assert failed is None, (seed, failed, source)
    return True


@pytest.mark.parametrize("name", SUITE_SMALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_operators_of_the_suite_run_as_source(name: str, seed: int) -> None:
    check(SUITE_SMALL[name](), 10 * seed + len(name))


def test_the_bound_of_a_loop_may_be_a_quotient() -> None:
    """As in this candidate, by 3; indices and bounds are written apart from tiles."""
    assert check(SUITE_SMALL["conv2d"](), 16)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("seed", SEEDS)
def test_operators_of_whole_warps_run_as_source(name: str, seed: int) -> None:
    check(WHOLE[name](), seed)


@pytest.mark.parametrize("name", night(CASES, list(CASES)[::8]))
def test_operators_of_the_library_run_as_source(name: str) -> None:
    made, tensors, _ = CASES[name](np.random.default_rng([0, *name.encode()]))
    outputs = [made] if isinstance(made, te.Tensor) else list(made)
    check(te.dag(outputs, name, inputs=tensors), 0)


def dag_of(dtype: str) -> Dag:
    """Return casts of a dtype to every other one, and for numbers sums, maxima and quotients."""
    x, z = (te.placeholder((3, 40), name, dtype) for name in ("X", "Z"))
    made = [te.compute((3, 40), _cast_of(x, other), f"C{other}") for other in SIZE_BYTES]
    if dtype != "bool":
        k = te.reduce_axis((0, 40), "k")
        made.append(te.compute((3,), lambda i: te.sum(x[i, k], axis=k), "S"))
        made.append(te.compute((3,), lambda i: te.max(z[i, k], axis=k), "M"))
    if "int" in dtype:
        made += [
            te.compute((3, 40), lambda i, j: x[i, j] // te.maximum(z[i, j], 1), "D"),
            te.compute((3, 40), lambda i, j: x[i, j] % te.maximum(z[i, j], 1), "R"),
            te.compute((3, 40), lambda i, j: (x[i, j] << (z[i, j] & 7)) ^ (x[i, j] >> 2), "Q"),
        ]
    return te.dag(made, inputs=[x, z])


def _cast_of(x: te.Tensor, dtype: str) -> Any:
    return lambda i, j: te.cast(x[i, j], dtype)


@pytest.mark.parametrize("dtype", list(SIZE_BYTES))
@pytest.mark.parametrize("seed", SEEDS)
def test_every_dtype_runs_as_source(dtype: str, seed: int) -> None:
    turn = list(SIZE_BYTES).index(dtype) % 2
    assert check(dag_of(dtype), turn + seed)


@pytest.mark.parametrize("name", ["attention", "conv2d", "layer_norm", "matmul", "softmax"])
def test_a_program_has_one_source(name: str) -> None:
    program, _, _ = draw(SUITE_SMALL[name](), gpu(64), np.random.default_rng(0))
    assert kernel_source(program, gpu(64)) == kernel_source(program, gpu(64))


def softmax_source() -> tuple[Program, str]:
    program, _, _ = draw(SUITE_SMALL["softmax"](), gpu(64), np.random.default_rng(3))
    return program, kernel_source(program, gpu(64))


def test_source_of_a_small_kernel(golden: Golden) -> None:
    golden.check(kernel_source(matmul(3, 40, 5, rows=2, vectors=1, lanes=32), gpu(32)))


def test_the_source_needs_numba_and_numpy_only() -> None:
    _, source = softmax_source()
    tree = ast.parse(source)
    modules = {part.module for part in ast.walk(tree) if isinstance(part, ast.ImportFrom)}
    assert modules <= {"math", "numba", "numba.cuda", "numpy"}
    assert not any(isinstance(part, ast.Import) for part in ast.walk(tree))
    called = {ast.unparse(part.func) for part in ast.walk(tree) if isinstance(part, ast.Call)}
    assert {name for name in called if name.startswith("cuda.")} <= {
        "cuda.fma", "cuda.shared.array", "cuda.local.array", "cuda.syncthreads",
        "cuda.shfl_xor_sync",
    }  # fmt: skip


def test_names_of_users_stand_nowhere() -> None:
    dag = parse(
        "def hidden(float(6,40) secret_a) -> (secret_b) { secret_b(row) +=! secret_a(row, column) }"
    )[0]
    program, _, _ = draw(dag, gpu(32), np.random.default_rng(0))
    source = kernel_source(program, gpu(32))
    assert not re.search("hidden|secret|row|column", source.replace("row-major", ""))


def test_a_missing_barrier_or_another_sign_is_found() -> None:
    program, source = softmax_source()
    (case, *_) = make_cases(SUITE_SMALL["softmax"](), 0)
    found = dict.fromkeys(("cuda.syncthreads()", "fma", "max"), 0)
    for changed in mutants(source):
        for backwards in (False, True):
            got = results(program, changed[1], dict(case.inputs), backwards)
            failed = compare_all(case, got.__getitem__, program.by_name)
            if failed is not None:
                found[changed[0]] += 1
                break
    assert min(found.values()) >= 1, found


def mutants(source: str) -> list[tuple[str, str]]:
    """Return the source with one line changed at a time."""
    lines = source.splitlines()
    made = []
    for k, line in enumerate(lines):
        barrier = line.strip() == "cuda.syncthreads()"
        changes = {
            "cuda.syncthreads()": line.replace("cuda.syncthreads()", "pass") if barrier else line,
            "fma": line.replace("cuda.fma(", "-cuda.fma(", 1),
            "max": re.sub(r"if (\w+) > (\w+) else", r"if \1 < \2 else", line),
        }
        for name, changed in changes.items():
            if changed != line:
                made.append((name, "\n".join([*lines[:k], changed, *lines[k + 1 :]])))
    return made


def test_more_static_shared_memory_than_a_kernel_may_have_is_refused() -> None:
    size = 1 << 14
    copied = Tile((), (("l", 32),), store("B", (v("l"),), read("s", v("l"))))
    scratch = Alloc(buffer("s", size, scope=Scope.LOCAL), copied)
    wide = program_of([buffer("B", 32, scope=Scope.OUTPUT)], scratch)
    with pytest.raises(BuildError) as raised:
        kernel_source(wide, replace(gpu(32), shared_bytes=100_000))
    assert str(raised.value) == (
        "cannot write p0 for CUDA because a block needs 65536 bytes of shared memory; expected at"
        " most 49152"
    )
