"""Weights of the sizes of dims, and the sizes that stand for a distribution."""

import numpy as np
import pytest

from ansorpy import te
from ansorpy.errors import SpecError
from ansorpy.frontends.json.write import from_json, to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.values import decode, encode
from ansorpy.server.commands.common import extents
from ansorpy.te.analysis import flop_count, structure_key, workload_key
from ansorpy.te.dag import Dag
from ansorpy.te.dims import TIMED, at_sizes, dims_of, timed_sizes, timed_weights
from ansorpy.te.size_weights import atoms, represented

ROWS = "def f(float({}, 8) X) -> (Y) {{ Y(i) +=! X(i,j) }}"


def rows(extent: str) -> Dag:
    (dag,) = parse(ROWS.format(extent))
    return dag


def timed(dag: Dag) -> list[tuple[int, ...]]:
    return [tuple(sizes.values()) for sizes in timed_sizes(dag)]


def test_weights_are_the_same_in_text_python_json_and_bind() -> None:
    text = rows("N in 8..512 step 8 @ 8..64: 0.9 + 512: 0.1")
    (bound,) = parse(ROWS.format("N"), extents(["N=8..512:8@8..64:0.9+512:0.1"]))
    n = te.dim("N", 8, 512, step=8, weights={512: 0.1, "8..64": 0.9})
    (built,) = parse(ROWS.format("N"), {"N": n})
    (computed,) = parse(ROWS.format("N in 8..K step 8 @ 8..K / 8: 0.9 + K: 0.1"), {"K": 512})
    assert text == bound == built == computed == from_json(to_json(text)) == decode(encode(text))
    assert dims_of(text) == (n,)
    assert repr(n) == "N in 8..512 step 8 @ 8..64: 0.9 + 512: 0.1"
    extent = to_json(text)["nodes"][0]["shape"][0]
    assert extent["weights"] == {"8..64": 0.9, "512": 0.1}


def test_a_weight_ends_before_the_next_extent() -> None:
    (dag,) = parse("def f(float(N in 1..9 @ 1: 3 + 2 * 4: 1, 4 + 3) X) -> (Y) { Y(i,j) = X(i,j) }")
    assert dag.placeholders[0].shape == (te.dim("N", 1, 9, weights={1: 3, 8: 1}), 7)


@pytest.mark.parametrize(
    ("extent", "message"),
    [
        ("N in 1..8 @ 9: 1", "dim N: cannot weight 9; expected sizes from 1 to 8"),
        ("N in 1..8 @ 4..2: 1", "expected multiples of 1, the smaller one first"),
        ("N in 2..8 step 2 @ 3: 1", "cannot weight 3; expected multiples of 2"),
        ("N in 1..8 @ 2: 0", "cannot weight 2 by 0.0; expected a number above 0"),
        ("N in 1..8 @ 2: 1 + 2: 3", "cannot weight 2 twice"),
        ("N in 1..8 @ 2", "weights are written"),
        ("N in 1..8 @ 2: N", "instead of a weight, a number"),
        ("N in 1..8 @", "instead of a number"),
    ],
)
def test_wrong_weights_are_refused_with_their_place(extent: str, message: str) -> None:
    with pytest.raises(SpecError, match=rf"^text:1:\d+: .*{message}"):
        rows(extent)


@pytest.mark.parametrize("value", ["1..8@", "1..8@2", "1..8@2:x", "1..8@2:1+2:1", "8@2:1"])
def test_wrong_weights_of_an_option_are_refused(value: str) -> None:
    with pytest.raises(SpecError, match=r"expected NAME=512, NAME=1\.\.512, NAME=8\.\.512:8@8"):
        extents([f"N={value}"])


@pytest.mark.parametrize("key", ["x", "1..", "..", "1..2..3", "", 1.5])
def test_a_key_that_is_no_size_is_refused(key: int | str) -> None:
    with pytest.raises(SpecError, match=r"expected a size, or a range such as '1\.\.8'"):
        te.dim("N", 1, 8, weights={key: 1.0})


@pytest.mark.parametrize(
    "weights", [{}, [1], {"2": True}, {"2": "1"}, {"2": None}, {"9": 1}, {"2": 10**400}]
)
def test_wrong_weights_in_json_are_refused(weights: object) -> None:
    document = to_json(rows("N in 1..8"))
    document["nodes"][0]["shape"][0]["weights"] = weights
    with pytest.raises(SpecError, match="weight"):
        from_json(document)


def test_few_weighted_sizes_are_timed_as_they_are() -> None:
    dag = rows("N in 1..512 @ 512: 1 + 1: 7 + 4: 2")
    assert timed(dag) == [(1,), (4,), (512,)]
    assert timed_weights(dag) == pytest.approx((0.7, 0.2, 0.1))
    counts = [flop_count(at_sizes(dag, sizes)) for sizes in timed_sizes(dag)]
    assert flop_count(dag) == int(0.7 * counts[0] + 0.2 * counts[1] + 0.1 * counts[2])


def test_small_sizes_stay_apart_and_large_ones_are_merged() -> None:
    dag = rows("N in 1..512 @ 1: 4 + 2: 2 + 8: 1 + 64: 1 + 480: 2 + 512: 1")
    assert timed(dag) == [(1,), (2,), (8,), (64,), (480,)]
    assert timed_weights(dag) == pytest.approx((4 / 11, 2 / 11, 1 / 11, 1 / 11, 3 / 11))


def test_represented_sizes_keep_weight_and_mean_of_a_distribution() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        step, parts = int(rng.integers(1, 9)), []
        for _ in range(rng.integers(1, 9)):
            low, high = sorted(int(n) for n in rng.integers(1, 600, 2))
            parts.append((step * low, step * high, float(rng.uniform(0.1, 9))))
        total = sum(weight for *_, weight in parts)
        exact = sum(weight * (low + high) / 2 for low, high, weight in parts) / total
        (found, reach) = represented([atoms(parts, step)], TIMED), range(step, 600 * step, step)
        assert len(found) <= TIMED
        assert sum(one.weight for one in found) == pytest.approx(1)
        sizes = [one.sizes[0] for one in found]
        assert sizes == sorted(set(sizes))
        assert all(any(low <= n <= high for low, high, _ in parts) and n in reach for n in sizes)
        assert sum(one.weight * one.sizes[0] for one in found) == pytest.approx(exact, rel=0.1)


def test_dims_grow_together() -> None:
    text = "def f(float(M in 1..9 @ 1: 1 + 9: 3, N in 10..20 @ 10: 1 + 20: 1) X) -> (Y)"
    (dag,) = parse(text + " { Y(i,j) = X(i,j) }")
    assert timed(dag) == [(1, 10), (9, 10), (9, 20)]
    assert timed_weights(dag) == pytest.approx((0.25, 0.25, 0.5))
    (half,) = parse(text.replace(" @ 10: 1 + 20: 1", "") + " { Y(i,j) = X(i,j) }")
    assert len(timed(half)) == TIMED
    assert {m for m, _ in timed(half)} == {1, 9}


def test_a_distribution_has_keys_of_its_own_and_no_structure() -> None:
    keys = [workload_key(rows(f"N in 1..64{weights}")) for weights in ("", " @ 1: 1 + 64: 1")]
    ratios = ("1: 0.9 + 64: 0.1", "1: 9 + 64: 1", "64: 10 + 1: 90")
    keys += {workload_key(rows(f"N in 1..64 @ {ratio}")) for ratio in ratios}
    assert len(set(keys)) == len(keys) == 3
    dims = ("N in 1..64", "N in 8..64 step 8", "N in 1..64 @ 1: 9 + 64: 1")
    assert len({structure_key(rows(dim)) for dim in dims}) == 1
