"""Exported libraries whose sizes a call decides."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ansorpy.codegen import loader
from ansorpy.codegen.exported_types import Export, Library
from ansorpy.codegen.loader import Loaded
from ansorpy.codegen.numba_source import emit
from ansorpy.codegen.runtime.native_launcher import of_call
from ansorpy.codegen.runtime.phase_loop import timed_loop
from ansorpy.codegen.runtime.thread_pool import ThreadPool
from ansorpy.codegen.shared_library import LoadedLibrary, build, load
from ansorpy.codegen.simd_file import FILE, simd_text
from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Binary, Const, Expr, Select
from ansorpy.expr.intervals import bounds as interval
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir import interp
from ansorpy.loopir.nodes import SIZES, Buffer, For, If, LoopKind, Phase, Program, Scope, Tile
from ansorpy.loopir.tasks import task_count
from ansorpy.loopir.verify import check
from ansorpy.measure.host import local_target
from ansorpy.measure.verify.inputs import Array
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.dag import Dag
from ansorpy.te.dims import Dim, dims_of
from tests.loopir.build import add, c, f32, lt, mul, read, store, v

PRODUCT = parse(
    "def f(float(M in 1..64, 33) A, const float(33, 20) B, float(20) b) -> (C)"
    " { T(i,j) +=! A(i,k) * B(k,j) C(i,j) = fmax(T(i,j) + b(j), 0) }"
)[0]
SIZES_TRIED = (1, 2, 7, 8, 31, 63, 64)


@cache
def libraries(dag: Dag, count: int, cores: int = 2) -> tuple[tuple[Library, LoadedLibrary], ...]:
    """Return libraries of sampled candidates of a Dag."""
    target, rng = local_target(cores), np.random.default_rng(0)
    found = list[tuple[Library, LoadedLibrary]]()
    for plan in all_plans(derive(dag, target, CPU).sketches, target, count):
        program = bind(plan, sample(plan, 1, rng)[0], target)
        inputs = tuple(node.name for node in dag.placeholders)
        built = build(Export(program, inputs, dag.outputs, {}, f"p{len(found)}"), target)
        found.append((built, load(built)))
    return tuple(found)


def arrays_of(dag: Dag, library: Library | Loaded, sizes: dict[str, int]) -> dict[str, Array]:
    """Return random inputs with NaN beyond the sizes, and poison in all other buffers."""
    rng = np.random.default_rng(sum(sizes.values()))
    arrays = {}
    for buffer in library.buffers:
        array = np.full(buffer.extents, np.nan if buffer.dtype == "float32" else 77, buffer.dtype)
        if buffer.scope is Scope.SIZES:
            array[:] = [sizes[one.name] for one in dims_of(dag)]
        if buffer.scope is Scope.INPUT:
            shape = dag.node(buffer.name).shape
            part = tuple(slice(sizes.get(getattr(n, "name", ""), int(n))) for n in shape)
            array[part] = rng.uniform(-1, 1, array[part].shape)
        arrays[buffer.name] = array
    return arrays


def called(loaded: Loaded, addresses: Sequence[int], how: str) -> None:
    """Run the timed phases."""
    if how == "threads":
        loaded.bind_parallel(addresses, 2)()
    elif how == "pool":
        with ThreadPool(2) as pool:
            loaded.bind(addresses, pool.address)()
    elif how == "backwards":
        loaded.run_backwards(addresses)
    else:
        loaded.run(addresses)


@pytest.mark.parametrize("how", ["run", "backwards", "threads", "pool"])
def test_a_library_of_a_product_equals_numpy_at_each_number_of_rows(how: str) -> None:
    for built, loaded in libraries(PRODUCT, 3):
        assert [buffer.name for buffer in built.buffers][:5] == ["A", "B", "b", "C", SIZES]
        for rows in SIZES_TRIED:
            arrays = arrays_of(PRODUCT, built, {"M": rows})
            addresses = [array.ctypes.data for array in arrays.values()]
            loaded.run_ahead(addresses)
            called(loaded, addresses, how)
            expected = np.maximum(arrays["A"][:rows] @ arrays["B"] + arrays["b"], 0)
            np.testing.assert_allclose(arrays["C"][:rows], expected, rtol=1e-4, atol=1e-5)
            assert np.isnan(arrays["C"][rows:]).all(), rows


def test_weights_are_packed_without_sizes() -> None:
    packing = [one for one in libraries(PRODUCT, 12) if one[0].packed_bytes]
    assert packing
    for built, loaded in packing:
        arrays = arrays_of(PRODUCT, built, {"M": 64})
        arrays["packed"] = np.zeros(built.packed_bytes, np.uint8)
        arrays["scratch"] = np.zeros(built.scratch_bytes, np.uint8)
        del arrays[".workspace"]
        places = {name: array.ctypes.data for name, array in arrays.items()}
        loaded.pack([*(places | {SIZES: 0}).values()])
        loaded.bind_packed(list(places.values()))()
        expected = np.maximum(arrays["A"] @ arrays["B"] + arrays["b"], 0)
        np.testing.assert_allclose(arrays["C"], expected, rtol=1e-4, atol=1e-5)


def numbers_of_tasks(loaded: Loaded, addresses: Sequence[int]) -> list[int]:
    """Return the tasks of the timed phases of a call that have some."""
    loop = of_call(timed_loop(loaded.phases), loaded.entries, addresses)
    return [info.tasks for info in loop.phases]


def test_a_call_has_as_many_tasks_as_its_sizes_need() -> None:
    target, rng, checked = local_target(2), np.random.default_rng(0), 0
    for plan in all_plans(derive(PRODUCT, target, CPU).sketches, target, 12):
        program = bind(plan, sample(plan, 1, rng)[0], target)
        counts = [task_count(phase) for phase in program.phases if not phase.ahead]
        if all(isinstance(count, Const) for count in counts):
            continue
        loaded = loader.load(loader.build(program, target))
        checked += 1
        for rows in SIZES_TRIED:
            arrays = arrays_of(PRODUCT, loaded, {"M": rows})
            found = numbers_of_tasks(loaded, [array.ctypes.data for array in arrays.values()])
            assert found == [interval(count, {"~M": (rows, rows)})[1] for count in counts]
        most = [info.tasks for info in timed_loop(loaded.phases).phases]
        assert found == most, "the last size is the largest"
    assert checked


def guarded_phases() -> Program:
    """Return Y = 2 X for fewer than 9 rows, else Y = 3 X by two phases of constant extents.

    The last phase has the first `N - 20` of its tasks only, whose rows are 0.
    """
    at, n = v("i"), v("~N")
    small = lt(n, 9)

    def phase(name: str, extent: Expr, value: Expr, tasks: Expr | None, first: int = 0) -> Phase:
        row = add(at, c(first))
        tile = Tile((), (("l", 8),), store("Y", (row, v("l")), value))
        body = For("i", extent, If(lt(row, n), tile), LoopKind.PARALLEL)
        return Phase(name, body, tasks=tasks)

    x = read("X", at, v("l"))
    later = read("X", add(at, c(9)), v("l"))
    phases = (
        phase("small", n, mul(x, f32(2)), Select(small, n, c(0))),
        phase("large", c(9), mul(x, f32(3)), Select(small, c(0), c(9))),
        phase("rest", c(31), mul(later, f32(3)), Select(small, c(0), c(31)), 9),
        phase("zeros", c(20), f32(0), Binary("max", c(0), Binary("sub", n, c(20)))),
    )
    shape = (c(40), c(8))
    buffers = (
        Buffer("X", "float32", shape, Scope.INPUT),
        Buffer("Y", "float32", shape, Scope.OUTPUT),
        Buffer(SIZES, "int64", (c(1),), Scope.SIZES),
    )
    return Program("guarded", buffers, phases, dims=(Dim("N", 1, 40),))


def wanted(x: Array, rows: int) -> Array:
    y = np.full((40, 8), np.nan, np.float32)
    y[:rows] = x[:rows] * (2 if rows < 9 else 3)
    y[: max(0, rows - 20)] = 0
    return y


ROWS_TRIED = (1, 8, 9, 20, 21, 40)


def guarded_arrays(rows: int) -> dict[str, Array]:
    x = np.random.default_rng(rows).random((40, 8), dtype=np.float32)
    y = np.full((40, 8), np.nan, np.float32)
    return {"X": x, "Y": y, SIZES: np.array([rows], np.int64)}


def test_phases_run_by_the_sizes_of_a_call() -> None:
    program = guarded_phases()
    check(program, "tiled")
    built = [
        loader.build(program, local_target(2)),
        loader.build_source(emit(program, local_target(2)), local_target(2)),
    ]
    assert [info.tasks for info in built[0].phases] == [8, 9, 31, 20]
    for loaded in map(loader.load, built):
        for rows in ROWS_TRIED:
            for how in ("run", "backwards", "pool"):
                arrays = guarded_arrays(rows)
                addresses = [array.ctypes.data for array in arrays.values()]
                called(loaded, addresses, how)
                np.testing.assert_array_equal(arrays["Y"], wanted(arrays["X"], rows), how)
            tasks = [rows] if rows < 9 else [9, 31, rows - 20][: 3 if rows > 20 else 2]
            assert numbers_of_tasks(loaded, addresses) == tasks
    arrays = guarded_arrays(21)
    found = interp.run(program, {"X": arrays["X"]}, {"~N": 21})["Y"]
    np.testing.assert_array_equal(found[:21], wanted(arrays["X"], 21)[:21])


@pytest.mark.parametrize("how", ["run", "backwards", "threads", "pool"])
def test_phases_of_a_library_run_by_the_sizes_of_a_call(how: str) -> None:
    built = build(Export(guarded_phases(), ("X",), ("Y",), {}, "guarded"), local_target(2))
    assert [info.tasks for info in built.phases] == [8, 9, 31, 20]
    for rows in ROWS_TRIED:
        arrays = guarded_arrays(rows)
        called(load(built), [array.ctypes.data for array in arrays.values()], how)
        np.testing.assert_array_equal(arrays["Y"], wanted(arrays["X"], rows))


def test_the_phases_of_a_file_run_by_the_sizes_of_a_call(tmp_path: Path) -> None:
    kernel = emit(guarded_phases(), local_target(2), threads=2)
    assert "if tasks > 1:\n        for task in prange(tasks):" in kernel.source
    (tmp_path / "kernel.py").write_text(kernel.source)
    (tmp_path / FILE).write_text(simd_text())
    code = """
import numpy as np, kernel
for rows in (1, 8, 9, 20, 21, 40):
    x, y = np.random.default_rng(rows).random((40, 8), "f4"), np.full((40, 8), np.nan, "f4")
    kernel.launch(x, y, np.array([rows]))
    wanted = np.full((40, 8), np.nan, "f4")
    wanted[:rows] = x[:rows] * (2 if rows < 9 else 3)
    wanted[: max(0, rows - 20)] = 0
    np.testing.assert_array_equal(y, wanted)
"""
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100)


@pytest.mark.parametrize(("ahead", "name"), [(True, "~N"), (False, "i")])
def test_tasks_follow_from_dims_of_a_call_only(ahead: bool, name: str) -> None:
    program = guarded_phases()
    phase = replace(program.phases[0], ahead=ahead, tasks=v(name))
    with pytest.raises(LoweringError, match=rf"phase small: {name} tasks; expected dims only"):
        check(replace(program, phases=(phase,)), "tiled")
