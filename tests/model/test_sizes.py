"""Models with dims: verified, tuned to one bundle, and right at every size."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from ansorpy import te
from ansorpy.bundle import arena
from ansorpy.bundle.container import write_bundle
from ansorpy.bundle.load import load_model
from ansorpy.errors import GraphError, RunError, SpecError
from ansorpy.graph import Graph, Output, ValueInfo, Weight
from ansorpy.graph.interp import run
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.importers.onnx_file import graph_of_model
from ansorpy.measure.host import local_target
from ansorpy.model.assemble import Origin, TaskLibrary, check_dims, plan_of
from ansorpy.model.check_inputs import checked_sizes
from ansorpy.model.compile import compiled
from ansorpy.model.options import ModelOptions
from ansorpy.model.request import ModelRequest
from ansorpy.model.tasks import tasks_of
from ansorpy.model.verify import STORED, check, reference_of
from ansorpy.plan.choices import naive
from ansorpy.records import MemoryStore
from ansorpy.te.dims import Dim
from ansorpy.te.limits import LIMITS
from tests.bundle.models import kernel_of
from tests.bundle.test_sized import poison
from tests.importers.test_dims import BERT, B, L, Writer
from tests.model.test_compile import play

DIMS = (Dim("B", 1, 3), Dim("L", 2, 9))


def shares() -> Graph:
    """Return a graph of inputs (N, L, 8): the softmax over L of a product."""
    at = Writer(x=("N", "L", 8))
    y = at("Relu", at("MatMul", "x", at.random(8, 8)))
    model = at.model(at("Softmax", y, axis=1))
    return graph_of_model(model, {"N": te.dim("N", 1, 4), "L": te.dim("L", 1, 16)})


def bundle_of(graph: Graph, path: Path) -> Path:
    """Write the bundle of a graph with naive kernels."""
    target = local_target(1)
    parted = partition(simplify(graph).graph)
    tasks = tasks_of(parted)
    kernels = {dag.name: kernel_of(dag.name, dag, naive(dag, target)) for dag in tasks.dags}
    libraries = {name: TaskLibrary(kernel.library, 1e-6) for name, kernel in kernels.items()}
    return write_bundle(path, plan_of(parted, tasks, libraries, Origin(threads=1)))


def test_checked_sizes_are_different_and_have_both_ends_and_mixtures() -> None:
    found = checked_sizes(DIMS, np.random.default_rng(0))
    assert found[:3] == [{"B": 3, "L": 9}, {"B": 2, "L": 5}, {"B": 1, "L": 2}]
    assert {"B": 1, "L": 9} in found
    assert {"B": 3, "L": 2} in found
    assert len({tuple(one.items()) for one in found}) == len(found) <= 8
    assert all(one.low <= sizes[one.name] <= one.high for sizes in found for one in DIMS)
    assert checked_sizes((Dim("B", 2, 2),), np.random.default_rng(0)) == [{"B": 2}]
    stepped = (Dim("B", 8, 64, 8, [(8, 8, 1.0)]),)
    sizes = [one["B"] for one in checked_sizes(stepped, np.random.default_rng(0))]
    assert sizes[:3] == [64, 32, 8]
    assert all(size % 8 == 0 and 8 <= size <= 64 for size in sizes)


def test_a_reference_has_the_sizes_of_a_model_and_one_bound() -> None:
    graph = shares()
    found = reference_of(graph, None, 0)
    every = (found, *found.others)
    assert found.inputs["x"].shape == (4, 16, 8)
    assert [one.inputs["x"].shape[:2] for one in found.others][:2] == [(2, 8), (1, 1)]
    assert len({one.bound for one in every}) == 1
    assert f"inputs at {len(every)} sizes" in found.told
    assert [bool(one.cases) for one in every] == [True, True, *[False] * (len(every) - 2)]
    for one in every:
        wanted = run(graph, one.inputs)
        assert np.array_equal(one.outputs[0], wanted[graph.outputs[0].name])
    assert len(found.self_test.others) == STORED


def test_a_reference_within_little_time_keeps_sizes_before_hard_cases() -> None:
    whole = reference_of(shares(), None, 0)
    count = len(whole.others)
    some = whole.within(0.1 * (count + 3), 0.1)
    assert len(some.others) == count
    assert len(some.cases) == 2
    assert not any(one.cases for one in some.others)
    few = whole.within(0.35, 0.1)
    assert (len(few.others), len(few.cases)) == (2, 0)
    assert whole.within(float("inf"), 0.1) == whole


def test_a_bundle_that_is_wrong_at_one_size_is_refused(tmp_path: Path) -> None:
    graph = shares()
    path = bundle_of(graph, tmp_path / "m.zip")
    reference = reference_of(graph, None, 0)
    assert check(path, reference, 1, "m") <= reference.bound
    *others, last = reference.others
    wrong = replace(last, outputs=(last.outputs[0] * np.float32(1.01),))
    message = r"cannot deliver 'm' because its outputs are off by .* at N = \d+, L = \d+\)"
    with pytest.raises(RunError, match=message):
        check(path, replace(reference, others=(*others, wrong)), 1, "m")


def squares(most: int) -> Graph:
    """Return a graph whose largest values have the square of a dim."""
    at = Writer(x=("N", "L", 8))
    y = at("MatMul", "x", at("Transpose", "x", perm=(0, 2, 1)))
    y = at("MatMul", at("Softmax", y, axis=2), at("Softmax", y, axis=1))
    model = at.model(at("Softmax", at("MatMul", y, "x"), axis=1))
    return graph_of_model(model, {"N": te.dim("N", 1, 4), "L": te.dim("L", 1, most)})


def needed(graph: Graph) -> int:
    """Return the bytes of the arena of a graph."""
    parted = partition(graph)
    return check_dims(parted, tasks_of(parted)).size_bytes


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_a_model_that_needs_too_much_memory_tells_the_size_that_fits(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = needed(squares(64))
    most = int(share * whole)
    monkeypatch.setattr(arena, "LIMITS", replace(LIMITS, bytes=most))
    message = (
        r"^cannot lay out 'model' because L in 1..64 and N in 1..4 need .* KiB; expected"
        r" L in 1..(\d+), within .* KiB$"
    )
    with pytest.raises(SpecError, match=message) as failed:
        needed(squares(64))
    size = int(str(failed.value).partition("expected L in 1..")[2].partition(",")[0])
    assert needed(squares(size)) <= most
    with pytest.raises(SpecError):
        needed(squares(size + 1))


def test_a_model_that_needs_too_much_memory_at_any_size_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arena, "LIMITS", replace(LIMITS, bytes=100))
    with pytest.raises(SpecError, match="expected smaller sizes, within 100 bytes"):
        needed(squares(64))


def test_a_tensor_of_sizes_is_refused() -> None:
    graph = shares()
    sizes = Weight.of(np.array([4, 16])).with_dims((2,), graph.dims)
    values = {**graph.values, "sizes": ValueInfo("sizes", (2,), "int64")}
    told = replace(
        graph, weights={**graph.weights, "sizes": sizes}, values=values,
        outputs=(*graph.outputs, Output("n", "sizes")),
    )  # fmt: skip
    parted = partition(told)
    message = (
        "cannot tune 'model' because output 'n' has 'sizes', whose elements are sizes of a call;"
        " expected numbers, as in --bind N=1"
    )
    with pytest.raises(GraphError, match=message):
        check_dims(parted, tasks_of(parted))


@pytest.mark.slow
@pytest.mark.usefixtures("few_candidates")
def test_an_encoder_becomes_one_bundle_that_is_right_at_every_size(tmp_path: Path) -> None:
    """Tokens, masks and a table of positions; ONNX Runtime checks and is the reference."""
    runtime = pytest.importorskip("onnxruntime")
    file = tmp_path / "encoder.onnx"
    onnx.save_model(BERT, file)
    graph = graph_of_model(BERT, {"batch": B, "length": L})
    options = ModelOptions(trials=0, race=False)
    asked = ModelRequest(graph, local_target(2), options, tmp_path / "encoder.zip", file)
    _, result = play(compiled(asked, MemoryStore()))
    assert (
        f"at {len(checked_sizes(graph.dims, np.random.default_rng(0)))} sizes" in result.explain()
    )
    session = runtime.InferenceSession(BERT.SerializeToString())
    with load_model(result.bundle) as model:
        assert model.selftest() == []
        for batch in range(1, 4):
            for length in range(2, 10):
                ids = np.random.default_rng(length).integers(0, 20, (batch, length))
                mask = (np.arange(length) < np.arange(1, batch + 1)[:, None] + 1).astype(np.int64)
                poison(model)
                wanted = session.run(None, {"ids": ids, "mask": mask})
                for one, other in zip(model(ids, mask), wanted, strict=True):
                    np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("few_candidates")
def test_trials_of_ranges_are_found_when_a_model_is_tuned_again(tmp_path: Path) -> None:
    """The product has a kernel for each of two ranges of rows, and records of both."""
    at = Writer(x=("N", 32))
    model = at.model(at("Relu", at("MatMul", "x", at.random(32, 48))))
    graph = graph_of_model(model, {"N": te.dim("N", 1, 12)})
    store = MemoryStore()
    options = ModelOptions(trials=16, race=False)
    asked = ModelRequest(graph, local_target(1), options, tmp_path / "m.zip")
    _, result = play(compiled(asked, store))
    assert result.trials >= 16
    before = [record.key for record in store.export()]
    assert len(set(before)) == 2
    with load_model(result.bundle) as loaded:
        for rows in (1, 2, 8, 9, 12):
            x = np.random.default_rng(rows).standard_normal((rows, 32)).astype(np.float32)
            wanted = run(graph, {"x": x})[graph.outputs[0].name]
            np.testing.assert_allclose(loaded(x), wanted, rtol=1e-4, atol=1e-5)
    _, again = play(compiled(asked, store))
    assert again.trials < 8  # no search: kernels of the two ranges are joined and measured
    assert [record.key for record in store.export()] == before
    (task,) = result.tasks
    done = {f"{task.name}_N_1_1": 8, f"{task.name}_N_2_12": 8}
    other = MemoryStore()
    play(compiled(replace(asked, done=done), other))
    assert not other.count(), "an attempt that was interrupted has used up the trials"
