"""Weights stay home: a bundle tuned without them becomes the bundle of a model."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import save

from ansorpy import te
from ansorpy.artifact.stored_zip import write_zip
from ansorpy.bundle.format import BUNDLE, GRAPH, MANIFEST, SAMPLES, WEIGHTS
from ansorpy.bundle.load import load_model
from ansorpy.bundle.weightless import ABSENT, opened_bundle
from ansorpy.errors import GraphError, PackageError, RunError, SpecError
from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Weight
from ansorpy.graph.interp import run
from ansorpy.graph.wire.read import loads
from ansorpy.importers.onnx_run import reference_run
from ansorpy.measure.host import local_target
from ansorpy.model.api import request_of
from ansorpy.model.check_inputs import random_inputs
from ansorpy.model.compile import compiled
from ansorpy.model.events import ModelEvent
from ansorpy.model.home import home_model
from ansorpy.model.join import join_model
from ansorpy.model.options import ModelOptions
from ansorpy.model.request import ModelRequest
from ansorpy.records import MemoryStore, RecordStore
from tests.importers.test_dims import BERT
from tests.model.test_compile import play, small_model


def fine_tuned(graph: Graph) -> Graph:
    """Return a graph with other weights."""
    rng = np.random.default_rng(1)

    def other(array: np.ndarray[Any, Any]) -> Callable[[], np.ndarray[Any, Any]]:
        made = (array + rng.uniform(-0.1, 0.1, array.shape)).astype(array.dtype)
        return lambda: made

    weights = {
        name: replace(one, load=other(one.array), digest=name) if one.dtype == "float32" else one
        for name, one in graph.weights.items()
    }
    return replace(graph, weights=weights)


def odd_model() -> Graph:
    """Return a model with a hosted node, a weight as an output, and an input given back."""
    rng = np.random.default_rng(3)
    builder = GraphBuilder("odd", hosted=True)
    x = builder.input("x", (4, 16), "float32")
    w = builder.constant("tied", rng.uniform(-1, 1, (16, 16)).astype(np.float32))
    same = builder.constant("same", builder.weights["tied"].array)
    builder.add("MatMul", [x, w], ["m"], name="first layer")
    builder.add("TopK", ["m", builder.constant("k", np.array([8], np.int64))], ["v", "i"])
    builder.add("MatMul", ["m", same], ["n"])
    builder.add("Relu", ["n"], ["r"])
    for name, value in (("x", x), ("best", "v"), ("places", "i"), ("right", "r"), ("table", w)):
        builder.output(name, value)
    return builder.graph()


def tuned(
    graph: Graph, out: Path, store: RecordStore | None = None, **options: Any
) -> tuple[list[ModelEvent], Any]:
    """Tune the document of a graph to a bundle without weights."""
    document = home_model(graph).sent.document
    told = ModelOptions(**{"trials": 0, **options})
    received = document.graph(told.hosted)
    asked = ModelRequest(received, local_target(1), told, out, document=document)
    return play(compiled(asked, MemoryStore() if store is None else store))


def check(bundle: Path, graph: Graph) -> None:
    """Compare a bundle with the interpreter on inputs of its own."""
    inputs = random_inputs(graph, np.random.default_rng(11))
    expected = run(graph, inputs)
    with load_model(bundle) as model:
        assert [one.name for one in model.inputs] == list(graph.inputs)
        assert model.selftest() == []
        found = model(**inputs)
    for name, array in zip(expected, found, strict=True):
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle without weights of the small model."""
    out = tmp_path_factory.mktemp("bare") / "bare.zip"
    _, result = tuned(small_model(), out)
    assert result.error <= result.bound
    assert [path.name for path in out.parent.iterdir()] == ["bare.zip"]
    return out


def test_a_bundle_without_weights_has_neither_weights_nor_names(bare: Path) -> None:
    facts, files = opened_bundle(bare)
    assert GRAPH in files
    assert not {WEIGHTS, SAMPLES} & set(files)
    assert [one["shape"] for one in facts[ABSENT]] == [[8, 8, 3, 3], [8, 8, 3, 3], [8, 5]]
    text = bytes(files[MANIFEST]) + bytes(files[GRAPH]) + bytes(files["model.h"])
    assert not [name for name in ("image", "scores", "pooled") if name.encode() in text]


def test_it_cannot_be_loaded(bare: Path) -> None:
    with pytest.raises(PackageError) as refusal:
        load_model(bare)
    assert str(refusal.value) == (
        "cannot load bare.zip because it has no weights; expected a bundle of"
        " `ansorpy join bare.zip MODEL --out BUNDLE`"
    )


def test_joined_with_its_weights_it_computes_the_model(bare: Path, tmp_path: Path) -> None:
    made = join_model(bare, small_model(), tmp_path / "full.zip")
    assert made.error <= made.bound
    check(made.bundle, small_model())
    facts, files = opened_bundle(made.bundle)
    assert (facts["name"], facts["steps"][0]["nodes"]) == ("small", ["c0", "r0"])
    assert ABSENT not in facts
    assert GRAPH not in files
    assert [path.name for path in tmp_path.iterdir()] == ["full.zip"]


def test_a_bound_scalar_of_the_model_is_in_its_joined_bundle(bare: Path, tmp_path: Path) -> None:
    bound = {"sr": Weight.of(np.array(16000, np.int64))}
    made = join_model(bare, replace(small_model(), bound=bound), tmp_path / "full.zip")
    with load_model(made.bundle) as model:
        assert {name: value.item() for name, value in model.bound().items()} == {"sr": 16000}


def test_weights_of_a_fine_tuned_model_are_joined(bare: Path, tmp_path: Path) -> None:
    other = fine_tuned(small_model())
    check(join_model(bare, other, tmp_path / "full.zip").bundle, other)


def test_hosted_nodes_equal_weights_and_odd_outputs_are_joined(tmp_path: Path) -> None:
    bare, graph = tmp_path / "bare.zip", odd_model()
    tuned(graph, bare, hosted=True)
    check(join_model(bare, graph, tmp_path / "full.zip").bundle, graph)
    facts, _ = opened_bundle(tmp_path / "full.zip")
    assert facts["steps"][0]["nodes"] == ["first layer"]


def changed_pads() -> Graph:
    graph = small_model()
    nodes = list(graph.nodes)
    nodes[2] = replace(nodes[2], attrs={"pads": (1, 1, 1, 1), "group": 1}, name="second conv")
    return replace(graph, nodes=tuple(nodes))


def test_another_graph_is_refused_with_its_first_difference(bare: Path, tmp_path: Path) -> None:
    out = tmp_path / "full.zip"
    with pytest.raises(GraphError) as refusal:
        join_model(bare, changed_pads(), out)
    assert str(refusal.value).startswith(
        "cannot join bare.zip with 'small' because its graph is another one: node 2 ('second conv')"
        ' is {"attrs": {"group": 1, "pads": [1, 1, 1, 1]}'
    )
    with pytest.raises(GraphError, match=r"input 0 \('x'\) is .*\[4, 16\].*; expected .*\[1, 8"):
        join_model(bare, odd_model(), out)
    assert not out.exists()


def test_a_bundle_with_weights_is_not_joined(bare: Path, tmp_path: Path) -> None:
    full = join_model(bare, small_model(), tmp_path / "full.zip").bundle
    with pytest.raises(PackageError, match=r"cannot join full\.zip with weights because it has"):
        join_model(full, small_model(), tmp_path / "again.zip")


def test_a_document_has_no_weights_to_join(bare: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.graph.json"
    path.write_text(home_model(small_model()).sent.document.text)
    with pytest.raises(GraphError, match=r"cannot read weights of m\.graph\.json"):
        join_model(bare, path, tmp_path / "full.zip")
    asked = request_of(ModelOptions(), path, local_target(1), tmp_path, {}, {})
    assert asked.document is not None
    assert asked.out == tmp_path / "m.zip"


def resealed(bare: Path, path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write a bundle whose manifest was changed, with digests that fit."""
    facts, files = opened_bundle(bare)
    told = json.loads(json.dumps(facts))
    change(told)
    return write_zip(path, {name: [part] for name, part in files.items()}, told, BUNDLE)


LIES: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "no list": lambda facts: facts.pop(ABSENT),
    "a list of text": lambda facts: facts.update({ABSENT: ["v1"]}),
    "no weights": lambda facts: facts.update({ABSENT: []}),
    "an unknown weight": lambda facts: facts[ABSENT][0].update(name="v99"),
    "an input as weight": lambda facts: facts[ABSENT][0].update(name="v0"),
    "the reserved name": lambda facts: facts[ABSENT][0].update(name="__metadata__"),
    "a huge weight": lambda facts: facts[ABSENT][0].update(shape=[1 << 40]),
    "another shape": lambda facts: facts[ABSENT][0].update(shape=[8, 8, 9]),
    "another place": lambda facts: facts["values"]["v1"].update(at=0),
    "another size": lambda facts: facts["memory"].update(weights_bytes=64),
    "more inputs": lambda facts: facts["inputs"].append(facts["inputs"][0]),
    "no outputs": lambda facts: facts["outputs"].clear(),
    "outputs of another shape": lambda facts: facts["outputs"][0].update(shape=[7]),
    "a string of threads": lambda facts: facts.update(threads="2"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_that_lies_is_refused(bare: Path, tmp_path: Path, lie: str) -> None:
    bad = resealed(bare, tmp_path / "bad.zip", LIES[lie])
    with pytest.raises((PackageError, SpecError, RunError)):
        join_model(bad, small_model(), tmp_path / "full.zip")
    assert not (tmp_path / "full.zip").exists()


def test_a_second_model_of_the_same_graph_needs_no_trials(tmp_path: Path) -> None:
    store = MemoryStore()
    _, first = tuned(small_model(), tmp_path / "one.zip", store, trials=8)
    _, second = tuned(fine_tuned(small_model()), tmp_path / "two.zip", store, trials=8)
    assert (first.trials, second.trials) == (8, 0)


def test_a_model_with_dims_is_tuned_without_weights_and_joined(tmp_path: Path) -> None:
    save(BERT, tmp_path / "encoder.onnx")
    dims = {"batch": te.dim("batch", 1, 3), "length": te.dim("length", 2, 9)}
    home = home_model(tmp_path / "encoder.onnx", dims)
    text = home.sent.document.text
    assert not {name for name in dims if name in text}, "names stay at home"
    received = loads(text)
    assert received == home.sent.document
    assert [str(one) for one in received.graph().dims] == ["d0 in 1..3", "d1 in 2..9"]
    _, result = tuned(home.graph, tmp_path / "bare.zip")
    joined = join_model(result.bundle, tmp_path / "encoder.onnx", tmp_path / "whole.zip", dims)
    assert joined.error <= joined.bound
    rng = np.random.default_rng(4)
    with load_model(joined.bundle) as model:
        assert model.selftest() == []
        for shape in ((1, 2), (2, 5), (3, 9)):
            inputs = {"ids": rng.integers(0, 20, shape), "mask": rng.integers(0, 2, shape)}
            expected = reference_run(tmp_path / "encoder.onnx", inputs)
            for array, right in zip(model(**inputs), expected.values(), strict=True):
                np.testing.assert_allclose(array, right, rtol=1e-3, atol=1e-4)
    other = {**dims, "length": te.dim("length", 2, 8)}
    with pytest.raises(GraphError, match="is another one: input 0"):
        join_model(result.bundle, tmp_path / "encoder.onnx", tmp_path / "no.zip", other)
