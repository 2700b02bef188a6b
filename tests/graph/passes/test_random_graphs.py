"""Every pass on random graphs: exact passes keep every bit, other passes the value in float64.

20 graphs of each; `make test-all` has twice as many.
"""

import pytest

from ansorpy.graph.passes import PASSES, simplify
from tests.graph.passes.common import assert_same_bits, assert_within
from tests.graph.random_graph import random_graph
from tests.night import night

# Share of the largest element: roundings are 2^-53 in float64; a chain of a dozen nodes with
# exponents and divisions makes them at most 2^20 times as large, and a wrong formula shows.
BOUND = 2.0**-33


@pytest.mark.parametrize("seed", night(range(40), range(20)))
def test_exact_passes_keep_every_bit(seed: int) -> None:
    graph = random_graph(seed)
    for one in PASSES:
        if one.exact:
            made = one.apply(graph)
            made.graph.check()
            assert_same_bits(graph, made.graph, seed)
    simplified = simplify(graph, [one for one in PASSES if one.exact])
    assert simplified.settled
    assert_same_bits(graph, simplified.graph, seed)


@pytest.mark.parametrize("seed", night(range(100, 140), range(100, 120)))
def test_all_passes_keep_the_values(seed: int) -> None:
    graph = random_graph(seed, dtype="float64")
    simplified = simplify(graph)
    assert simplified.settled
    assert simplify(simplified.graph).fired == ()
    assert_within(graph, simplified.graph, BOUND, seed)


def test_the_generator_reaches_every_pass_but_four() -> None:
    """A builder folds as nodes are added, no random convolution has a unit axis, joins are rare.

    No random gather is in order. These passes have tests of their own.
    """
    fired = {name for seed in range(100, 140) for name in simplify(random_graph(seed)).sites}
    assert fired == {one.name for one in PASSES} - {"fold", "unit_axes", "joins", "gathers"}
