"""Shared by the tests of passes: a graph in a few lines, its meaning before and after."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array
from ansorpy.graph.interp import run
from ansorpy.graph.passes.dead import dead
from ansorpy.graph.passes.rewriter import Rewritten
from tests.graph.random_graph import random_inputs


def built(make: Callable[[GraphBuilder], Sequence[str] | str]) -> Graph:
    """Return the graph that `make` builds on a float32 input x[2, 3, 4]; it returns outputs."""
    builder = GraphBuilder()
    builder.input("x", (2, 3, 4), "float32")
    ends = make(builder)
    for n, end in enumerate([ends] if isinstance(ends, str) else ends):
        builder.output(f"y{n}", end)
    return builder.graph()


def after(apply: Callable[[Graph], Rewritten], graph: Graph) -> Graph:
    """Return the graph after a pass and the removal of dead nodes."""
    return dead(apply(graph).graph).graph


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def assert_same_bits(before: Graph, now: Graph, seed: int = 0) -> None:
    """Verify that two graphs compute the same bits; any NaN is every NaN."""
    for inputs in (random_inputs(before, seed),):
        old, new = run(before, inputs), run(now, inputs)
        assert old.keys() == new.keys()
        for name, one in old.items():
            assert (one.dtype, one.shape) == (new[name].dtype, new[name].shape), name
            np.testing.assert_array_equal(new[name], one, name)
            if one.dtype.kind == "f":
                defined = ~np.isnan(one)
                np.testing.assert_array_equal(
                    np.signbit(new[name])[defined], np.signbit(one)[defined], name
                )


def assert_within(before: Graph, now: Graph, share: float, seed: int = 0) -> None:
    """Verify that results differ by at most `share` of the largest finite element."""
    inputs: Mapping[str, Array] = random_inputs(before, seed)
    old, new = run(before, inputs), run(now, inputs)
    assert old.keys() == new.keys()
    for name, one in old.items():
        assert (one.dtype, one.shape) == (new[name].dtype, new[name].shape), name
        finite = np.isfinite(one)
        np.testing.assert_array_equal(np.isfinite(new[name]), finite, name)
        largest = float(np.max(np.abs(one[finite]), initial=0.0))
        worst = float(np.max(np.abs(new[name][finite] - one[finite]), initial=0.0))
        assert worst <= share * largest, f"{name}: {worst} of {largest}"
