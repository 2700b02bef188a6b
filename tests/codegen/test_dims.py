"""Exported libraries whose sizes a call decides."""

from functools import cache

import numpy as np
import pytest

from ansorpy.codegen.exported_types import Export, Library
from ansorpy.codegen.runtime.thread_pool import ThreadPool
from ansorpy.codegen.shared_library import LoadedLibrary, build, load
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import SIZES, Scope
from ansorpy.measure.host import local_target
from ansorpy.measure.verify.inputs import Array
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.dag import Dag
from ansorpy.te.dims import dims_of

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


def arrays_of(dag: Dag, library: Library, sizes: dict[str, int]) -> dict[str, Array]:
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


@pytest.mark.parametrize("how", ["run", "backwards", "threads", "pool"])
def test_a_library_of_a_product_equals_numpy_at_each_number_of_rows(how: str) -> None:
    for built, loaded in libraries(PRODUCT, 3):
        assert [buffer.name for buffer in built.buffers][:5] == ["A", "B", "b", "C", SIZES]
        for rows in SIZES_TRIED:
            arrays = arrays_of(PRODUCT, built, {"M": rows})
            addresses = [array.ctypes.data for array in arrays.values()]
            loaded.run_ahead(addresses)
            if how == "threads":
                loaded.bind_parallel(addresses, 2)()
            elif how == "pool":
                with ThreadPool(2) as pool:
                    loaded.bind(addresses, pool.address)()
            elif how == "backwards":
                loaded.run_backwards(addresses)
            else:
                loaded.run(addresses)
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
