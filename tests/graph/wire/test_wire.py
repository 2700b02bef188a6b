"""A graph without the values of its weights has the tasks of the whole graph."""

import json
import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy.errors import GraphError, SpecError
from ansorpy.graph import Graph, Symbol, Weight
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.interp import run
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.graph.wire.document import Difference, Document, first_difference
from ansorpy.graph.wire.draw import drawn, with_drawn_weights
from ansorpy.graph.wire.read import from_json, loads
from ansorpy.graph.wire.write import sent
from ansorpy.model.check_inputs import random_inputs
from ansorpy.model.tasks import ModelTasks, tasks_of
from tests.conftest import Golden
from tests.graph.random_graph import random_graph
from tests.importers.test_node_cases import by_name
from tests.model.test_compile import small_model


@cache
def small_document() -> Document:
    """Return the document of a small model."""
    return sent(simplify(small_model()).graph).document


def shape_of(tasks: ModelTasks, number: dict[str, int]) -> list[tuple[object, ...]]:
    """Return the parts of a model with numbers in place of names of values."""
    return [
        (
            part.task,
            part.group.title,
            part.group.why if "node" not in part.group.why else "",  # a name of the model
            None if part.lowered is None
            else (
                [number[name] for name in part.lowered.reads],
                [number.get(name) for name in part.lowered.writes],
            ),
        )
        for part in tasks.parts
    ]  # fmt: skip


def assert_same_tasks(graph: Graph) -> Document:
    """Check the property of a simplified graph; return its document."""
    made = sent(graph)
    document = loads(made.document.text)
    assert document == made.document
    received = document.graph(hosted=True)
    again = sent(received)
    assert again.document == document
    whole, bare = partition(graph), partition(received)
    tasks, others = tasks_of(whole), tasks_of(bare)
    assert others.dags == tasks.dags
    number = {name: n for n, name in enumerate(made.names)}
    number_there = {name: n for n, name in enumerate(again.names)}
    assert shape_of(others, number_there) == shape_of(tasks, number)
    assert [number_there[name] for name in bare.views] == [number[name] for name in whole.views]
    return document


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_have_the_same_tasks_without_weights(seed: int) -> None:
    graph = simplify(random_graph(seed)).graph
    if graph.nodes:
        assert_same_tasks(graph)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx makes its cases at infinities
def test_graphs_of_nodes_have_the_same_tasks_without_weights() -> None:
    compared = 0
    for case in by_name().values():
        try:
            graph = simplify(case.graph(case.inputs(0), hosted=True)).graph
            partition(graph)
        except GraphError:  # symbolic outputs, and operators of which NumPy's result has no shape
            continue
        if graph.nodes:
            assert_same_tasks(graph)
            compared += 1
    assert compared > 60


def test_the_document_of_a_small_model(golden: Golden) -> None:
    document = assert_same_tasks(simplify(small_model()).graph)
    golden.check(json.dumps(document.json, indent=1) + "\n")


def test_other_weights_and_names_have_the_same_document() -> None:
    first, second = small_model(), small_model()
    other = {
        name: Weight.of(-weight.array) if weight.dtype == "float32" else weight
        for name, weight in second.weights.items()
    }
    changed = replace(
        second,
        weights=dict(reversed(other.items())),
        nodes=tuple(replace(node, name=f"other{n}") for n, node in enumerate(second.nodes)),
    )
    one, two = (sent(simplify(graph).graph).document for graph in (first, changed))
    assert one.sha256 == two.sha256
    assert first_difference(one, two) is None


def test_values_that_no_expression_depends_on_are_not_sent() -> None:
    document = sent(simplify(small_model()).graph).document
    assert [one.data is None for one in document.weights] == [True, True, False, True]
    assert document.absent_bytes == 4 * (2 * 8 * 8 * 9 + 8 * 5)
    assert b"image" not in document.text.encode()


def test_the_first_difference_is_found() -> None:
    document = sent(simplify(small_model()).graph).document
    nodes = list(document.nodes)
    nodes[2] = replace(nodes[2], attrs={"pads": (1, 1, 1, 2)})
    found = first_difference(document, replace(document, nodes=tuple(nodes)))
    assert isinstance(found, Difference)
    assert (found.part, found.number) == ("nodes", 2)
    shorter = first_difference(document, replace(document, nodes=tuple(nodes[:2])))
    assert shorter is not None
    assert (shorter.number, shorter.right) == (2, "null")


def test_a_symbolic_extent_is_refused_with_its_name() -> None:
    builder = GraphBuilder()
    builder.input("x", (Symbol("batch", 1, 8), 4), "float32")
    builder.output("y", "x")
    with pytest.raises(GraphError, match=r"extent 'batch' is symbolic.*--bind batch=1"):
        sent(builder.graph())


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True),
        st.one_of(
            st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=20),
            st.lists(st.floats(), min_size=1).map(tuple),
            st.lists(st.integers(-9, 9)).map(tuple),
        ),
        max_size=4,
    )
)  # fmt: skip
@settings(max_examples=60)
def test_attributes_come_back_as_they_were(attrs: dict[str, Any]) -> None:
    document = small_document()
    first = replace(document.nodes[0], attrs=attrs)
    changed = replace(document, nodes=(first, *document.nodes[1:]))
    back = from_json(json.loads(changed.text))
    assert back.text == changed.text
    for name, value in attrs.items():
        found = back.nodes[0].attrs[name]
        assert type(found) is type(value)
        if not (isinstance(value, float) and math.isnan(value)):
            assert repr(found) == repr(value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_stand_ins_are_finite_and_follow_from_the_seed(dtype: str) -> None:
    one, same, other = (drawn((64, 32, 3, 3), dtype, seed) for seed in ((1, 2), (1, 2), (1, 3)))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    if dtype != "bfloat16":
        assert float(np.std(one.astype(float))) == pytest.approx((32 * 9) ** -0.5, rel=0.05)
    vector = drawn((64, 1, 1), dtype, (1, 2))
    if dtype != "bfloat16":
        assert 0.5 <= float(vector.min()) <= float(vector.max()) <= 1.5


def test_a_graph_runs_with_stand_ins_and_not_without() -> None:
    graph = sent(simplify(small_model()).graph).document.graph()
    inputs = random_inputs(graph, np.random.default_rng(0))
    with pytest.raises(GraphError, match="its values are not here"):
        run(graph, inputs)
    found = run(with_drawn_weights(graph, 3), inputs)
    assert all(np.all(np.isfinite(array)) for array in found.values())
    assert all(np.ptp(array) > 0 for array in found.values())


def test_a_weight_whose_values_decide_must_be_sent() -> None:
    document = sent(simplify(small_model()).graph).document
    weights = list(document.weights)
    weights[2] = replace(weights[2], data=None)
    with pytest.raises(SpecError, match="its values are not here"):
        replace(document, weights=tuple(weights)).graph()
