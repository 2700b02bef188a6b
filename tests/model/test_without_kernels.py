"""Models that need no kernel: moved, chosen, constant and passed-on values only."""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from ansorpy.bundle.load import load_model
from ansorpy.errors import SpecError
from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.measure.host import local_target
from ansorpy.model.compile import compiled
from ansorpy.model.entry import tune
from ansorpy.model.explain import explanation
from ansorpy.model.join import join_model
from ansorpy.model.options import ModelOptions
from ansorpy.model.request import ModelRequest
from ansorpy.records import MemoryStore
from tests.model.test_compile import play
from tests.model.test_join import tuned
from tests.night import night

X = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::-1].copy()
TABLE = np.arange(6, dtype=np.int64).reshape(2, 3)


def passed_on(builder: GraphBuilder, x: str) -> dict[str, tuple[str, Array]]:
    return {"y": (x, X), "x": (x, X)}


def moved(builder: GraphBuilder, x: str) -> dict[str, tuple[str, Array]]:
    builder.add("Reshape", [x, builder.constant("s", np.array([2, 6]))], ["r"])
    flat = X.reshape(2, 6)
    return {"first": ("r", flat), "again": ("r", flat)}


def constant(builder: GraphBuilder, x: str) -> dict[str, tuple[str, Array]]:
    table = builder.constant("table", TABLE)
    empty = builder.constant("empty", np.empty((0, 5), np.float32))
    return {"a": (table, TABLE), "b": (table, TABLE), "none": (empty, np.empty((0, 5), "f4"))}


def chosen(builder: GraphBuilder, x: str) -> dict[str, tuple[str, Array]]:
    builder.add("TopK", [x, builder.constant("k", np.array([2]))], ["v", "i"])
    places = np.tile(np.array([0, 1]), (3, 1))
    return {"v": ("v", X[:, :2]), "i": ("i", places), "x": (x, X)}


@pytest.mark.parametrize("of", night([passed_on, moved, constant, chosen], day=[moved, chosen]))
def test_a_model_that_needs_no_kernel_is_delivered_explained_and_joined(
    of: Callable[[GraphBuilder, str], dict[str, tuple[str, Array]]], tmp_path: Path
) -> None:
    builder = GraphBuilder("plain", hosted=True)
    expected = of(builder, builder.input("x", (3, 4), "float32"))
    for name, (value, _) in expected.items():
        builder.output(name, value)
    graph = builder.graph()
    asked = ModelRequest(
        graph, local_target(1), ModelOptions(trials=8, hosted=True), tmp_path / "own.zip"
    )
    _, result = play(compiled(asked, MemoryStore()))
    assert (result.tasks, result.trials, result.model_s) == ((), 0, 0.0)
    assert f"{len(result.hosted)} kernel calls of 0 tasks" in explained(graph)
    tuned(graph, tmp_path / "bare.zip", hosted=True)
    joined = join_model(tmp_path / "bare.zip", graph, tmp_path / "joined.zip")
    for bundle in (result.bundle, joined.bundle):
        with load_model(bundle) as model:
            assert model.selftest() == []
            found = model(X)
            assert len(model.bench(0.01)) > 0
            assert len(model.profile(2)) == model.manifest["native_steps"]
        for name, array in zip(expected, found, strict=True):
            np.testing.assert_array_equal(array, expected[name][1], err_msg=name)


def explained(graph: Graph) -> str:
    simplified = simplify(graph)
    return explanation(graph, simplified, partition(simplified.graph))


@dataclass(frozen=True)
class Place:
    """A path of another library."""

    text: str

    def __fspath__(self) -> str:
        return self.text


@pytest.mark.parametrize("kind", night([str, Path, Place], day=[Place]))
def test_a_bundle_is_written_to_a_path_of_any_kind(
    tmp_path: Path, kind: Callable[[str], PathLike[str] | str]
) -> None:
    model, out = kind(str(tmp_path / "same.onnx")), kind(str(tmp_path / "new" / "own.zip"))
    facts = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    save(helper.make_model(helper.make_graph(nodes, "same", facts[:1], facts[1:])), model)
    made = tune(model, out=out, trials=0, store=MemoryStore(), progress=False)
    with load_model(kind(str(made.bundle))) as loaded:
        np.testing.assert_array_equal(loaded(np.ones(2, np.float32)), [1, 1])


def test_the_target_of_a_model_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").touch()
    with pytest.raises(SpecError, match="cannot read target 'z80'"):
        tune(tmp_path / "a.onnx", "z80")
