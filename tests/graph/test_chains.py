"""Chains of groups: attention and two-layer networks, each as one Dag beside its groups."""

import numpy as np
import pytest

from ansorpy import te
from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.chains import chains
from ansorpy.graph.interp import run
from ansorpy.graph.partition import partition
from ansorpy.measure.host import local_target
from ansorpy.model.compile import fuses
from ansorpy.model.tasks import tasks_of
from ansorpy.tuner.rule_sets.sets import find_rules
from tests.graph.random_graph import random_inputs


def attention() -> Graph:
    """Return softmax(q k^T / 2 + mask) v of two heads, with v transposed before it is read."""
    builder = GraphBuilder()
    q = builder.input("q", (2, 32, 16), "float32")
    k = builder.input("k", (2, 24, 16), "float32")
    v = builder.input("v", (24, 2, 16), "float32")
    mask = builder.input("mask", (1, 1, 24), "float32")
    builder.add("Transpose", [k], ["kt"], {"perm": (0, 2, 1)})
    builder.add("MatMul", [q, "kt"], ["s"])
    builder.add("Mul", ["s", builder.constant("half", np.array(0.5, np.float32))], ["h"])
    builder.add("Add", ["h", mask], ["a"])
    builder.add("Softmax", ["a"], ["p"], {"axis": -1})
    builder.add("Transpose", [v], ["vt"], {"perm": (1, 0, 2)})
    builder.output("y", builder.add("MatMul", ["p", "vt"], ["o"])[0])
    return builder.graph()


def two_layers(rows: int) -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", (rows, 16), "float32")
    w, u = (
        builder.constant(name, np.full(shape, 0.1, np.float32))
        for name, shape in (("w", (16, 32)), ("u", (32, 16)))
    )
    builder.add("MatMul", [x, w], ["h"])
    builder.add("Relu", ["h"], ["r"])
    builder.output("y", builder.add("MatMul", ["r", u], ["o"])[0])
    return builder.graph()


@pytest.mark.parametrize("graph", [attention(), two_layers(64)], ids=["attention", "two layers"])
def test_the_dag_of_a_chain_computes_its_groups(graph: Graph) -> None:
    groups = partition(graph).groups
    (chain,) = chains(graph, groups)
    assert chain.members == tuple(range(len(groups)))
    inputs = dict(random_inputs(graph, 0))
    known = {name: one.array for name, one in graph.weights.items()} | inputs
    low = chain.lowered
    pairs = zip(low.dag.placeholders, low.reads, strict=True)
    (found,) = te.evaluate(low.dag, {one.name: known[value] for one, value in pairs})
    np.testing.assert_allclose(found, run(graph, inputs)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("graph", [attention(), two_layers(64)], ids=["attention", "two layers"])
def test_the_rule_of_chains_applies_to_it(graph: Graph) -> None:
    (chain,) = chains(graph, partition(graph).groups)
    assert fuses(chain.lowered.dag, local_target(1), find_rules("cpu"))


def test_layers_that_share_few_rows_are_no_chain() -> None:
    graph = two_layers(4)
    assert not chains(graph, partition(graph).groups)


def test_the_faster_cut_is_chosen() -> None:
    tasks = tasks_of(partition(two_layers(64)), fuses=lambda dag: True)
    (cut,) = tasks.cuts
    first, second = (part.task for part in tasks.parts)
    assert len(tasks.dags) == 3
    apart = tasks.chosen({first: 1.0, second: 1.0, cut.whole.task: 2.5})
    assert [part.task for part in apart.parts] == [first, second]
    joined = tasks.chosen({first: 1.0, second: 1.0, cut.whole.task: 1.5})
    assert joined.parts == (cut.whole,)
    assert [dag.name for dag in joined.dags] == [cut.whole.task]
    unknown = tasks.chosen({first: 1.0, cut.whole.task: 0.5})
    assert unknown.parts == tasks.parts
