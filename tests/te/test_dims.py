"""Dims: extents that a call decides."""

import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ansorpy import te, topi
from ansorpy.errors import ShapeError, SpecError
from ansorpy.frontends.json.write import from_json, to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.values import decode, encode
from ansorpy.oracle.reference import evaluate
from ansorpy.server.commands.common import extents
from ansorpy.te.analysis import structure_key, workload_key
from ansorpy.te.check import check
from ansorpy.te.dag import Dag, Placeholder
from ansorpy.te.dims import (
    Dim,
    at_sizes,
    dims_of,
    in_range,
    plain,
    ranges_of,
    sizes_of,
    widest,
)
from ansorpy.te.limits import LIMITS

Array = np.typing.NDArray[np.float32]
Move = Callable[[te.Tensor], te.Tensor]

N, M = te.dim("N", 1, 4), te.dim("M", 2, 7)
MM = "def mm(float(M in 1..512, 8) A, const float(8, 6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def test_a_dim_equals_a_dim_of_its_name_and_range_alone() -> None:
    n = Dim("N", 1, 8)
    assert n == Dim("N", 1, 8) == te.dim("N", 1, 8)
    assert n not in (8, Dim("M", 1, 8), Dim("N", 2, 8), Dim("N", 1, 9))
    assert Dim("N", 8, 64, 8) not in (Dim("N", 8, 64), Dim("N", 8, 64, 4))
    assert {n, te.dim("N", 1, 8)} == {n}
    assert copy.deepcopy(n) == pickle.loads(pickle.dumps(n)) == n
    by_four = te.dim("N", 4, 8, step=4)
    assert copy.deepcopy(by_four) == pickle.loads(pickle.dumps(by_four)) == Dim("N", 4, 8, 4)
    assert [repr(n), repr(by_four)] == ["N in 1..8", "N in 4..8 step 4"]
    assert np.zeros((n, 2)).shape == (8, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("N", -1, 8), "expected integers from 1 to"),
        (("N", 1, 2**40), "expected integers from 1 to"),
        (("N", 1.5, 8), "expected integers from 1 to"),
        (("N", 9, 8), "cannot take the range 9..8 of dim N because it is empty; expected 8..9"),
        (("a b", 1, 8), "expected an ASCII identifier"),
        (("N", 8, 64, 0), "the range 8..64 step 0 of dim N; expected integers from 1 to"),
        (("N", 9, 64, 8), "because 9 is no multiple; expected multiples of 8"),
        (("N", 8, 65, 8), "8..65 step 8 of dim N because 65 is no multiple"),
    ],
)
def test_a_wrong_dim_is_refused(arguments: tuple[str, int, int], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        te.dim(*arguments)


def test_a_tensor_has_no_dim_that_may_be_0() -> None:
    with pytest.raises(SpecError, match=r"A: extent N in 0\.\.8 of dimension 1 may be 0; expected"):
        te.placeholder((4, te.dim("N", 0, 8)), "A")


def test_text_python_and_json_give_one_dag() -> None:
    (text,) = parse(MM)
    (bound,) = parse(MM.replace("M in 1..512", "M"), {"M": te.dim("M", 1, 512)})
    m = te.dim("M", 1, 512)
    a, b = te.placeholder((m, 8), "A"), te.placeholder((8, 6), "B", constant=True)
    k = te.reduce_axis((0, 8), "k")
    built = te.dag(te.compute((m, 6), lambda i, j: te.sum(a[i, k] * b[k, j], k), "C"), name="mm")
    assert text == bound == built == from_json(to_json(text))
    assert dims_of(text) == (Dim("M", 1, 512),)
    shape = to_json(text)["nodes"][0]["shape"]
    assert shape == [{"dim": "M", "low": 1, "high": 512}, 8]
    assert decode(encode(text)) == text


def test_a_step_is_the_same_in_text_python_json_and_bind() -> None:
    (text,) = parse(MM.replace("M in 1..512", "M in 8..512 step 8"))
    (bound,) = parse(MM.replace("M in 1..512", "M"), extents(["M=8..512:8"]))
    (computed,) = parse(MM.replace("M in 1..512", "M in K..64 * K step K"), {"K": 8})
    assert dims_of(text) == (te.dim("M", 8, 512, step=8),)
    assert text == bound == computed == from_json(to_json(text)) == decode(encode(text))
    shape = to_json(text)["nodes"][0]["shape"]
    assert shape == [{"dim": "M", "low": 8, "high": 512, "step": 8}, 8]
    for wrong in ("M=8..512:", "M=8..512:8:1", "M=8..:8"):
        with pytest.raises(SpecError, match=r"expected NAME=512, NAME=1\.\.512, NAME=8\.\.512:8"):
            extents([wrong])


def test_reduce_axes_and_reads_carry_dims() -> None:
    text = "def f(float(4, N in 1..70) A, float(N) b) -> (C) { C(i) +=! A(i,k) * b(k) }"
    (dag,) = parse(text)
    (node,) = dag.computes
    assert node.reduce_axes[0].extent == Dim("N", 1, 70)
    n = te.dim("N", 1, 70)
    assert te.reduce_axis((0, n)).extent == n
    assert topi.relu(te.placeholder((n, 3), "A")).shape == (n, 3)


def test_the_dag_of_one_size_has_numbers() -> None:
    (dag,) = parse(MM)
    small = at_sizes(dag, {"M": 3})
    check(small)
    assert small == parse(MM.replace("M in 1..512", "3"))[0]
    assert widest(dag) == parse(MM.replace("M in 1..512", "512"))[0]
    a, b = np.ones((3, 8)), np.ones((8, 6))
    np.testing.assert_array_equal(evaluate(small, {"A": a, "B": b})[0], np.full((3, 6), 8.0))


def test_a_size_that_is_no_multiple_of_the_step_is_refused() -> None:
    (dag,) = parse(MM.replace("M in 1..512", "M in 4..512 step 4"))
    assert sizes_of(dag, {"A": (12, 8), "B": (8, 6)}) == {"M": 12}
    with pytest.raises(SpecError, match=r"A has M = 10; expected M in 4..512 step 4"):
        evaluate(dag, {"A": np.ones((10, 8)), "B": np.ones((8, 6))})


def test_keys_differ_by_range_and_not_by_name() -> None:
    def key(extent: str) -> str:
        return workload_key(parse(MM.replace("M in 1..512", extent))[0])

    assert key("M in 1..512") == key("N in 1..512")
    assert len({key("M in 1..512"), key("M in 2..512"), key("M in 1..511"), key("512")}) == 4
    assert len({key("M in 8..512"), key("M in 8..512 step 8"), key("M in 8..512 step 4")}) == 3
    both = "def f(float({}) A, float({}) B) -> (C, D) {{ C(i) = A(i) D(i) = B(i) }}"
    same, other = (parse(both.format("M in 1..8", second))[0] for second in ("M", "N in 1..8"))
    assert workload_key(same) != workload_key(other)
    assert structure_key(same) != structure_key(parse(both.format("8", "8"))[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("float(N in 1..8) A) -> (C) { C(i) = A(i) / N }", "cannot compute with N"),
        ("float(N in 1..8, N + 1) A) -> (C) { C(i,j) = A(i,j) }", "cannot compute with N"),
        ("float(N in 1..8) A) -> (C) { C(i) = A(i) where i in 0:8 }", r"has 0 to 0 there at N = 1"),
        ("float(N in 2..8) A) -> (C) { C(i) = A(i+1) }", "has 0 to 1 there at N = 2"),
        ("float(N in 2..8) A, float(7) B) -> (C) { C(i) = A(i) + B(i) }", "at N = 2"),
        (
            "float(N in 2..8) A, float(N in 2..8) B) -> (C) { C(i) = A(i) + B(i) }",
            "a range already",
        ),
        (
            "const float(N in 1..8) A) -> (C) { C(i) = A(i) }",
            "cannot give the constant",
        ),
        ("float(8) A) -> (C) { C(i) = A(i) where i in 0:N }", "size 'N' has no value"),
        ("float(3, N in 1..8) A) -> (V, I) { (V, I)() = argmax(i, j, A(i,j)) }", "cannot number"),
        ("float(N in 1 8) A) -> (C) { C(i) = A(i) }", r"both ends included"),
        ("float(N in 1..8 step 2) A) -> (C) { C(i) = A(i) }", "expected multiples of 2"),
        ("float(N in 2..8 step) A) -> (C) { C(i) = A(i) }", "instead of a number"),
        ("float(N in 2..8 step 2) A) -> (C) { C(i) = A(i+1) }", "has 0 to 1 there at N = 2"),
    ],
)
def test_a_use_that_needs_the_size_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=rf"^text:1:\d+: .*{message}"):
        parse(f"def f({text}")


def test_a_longer_table_is_read_below_the_dim() -> None:
    (dag,) = parse("def f(float(N in 2..8) A, float(8) B) -> (C) { C(i) = A(i) + B(i) }")
    assert dag.computes[0].axes[0].extent == Dim("N", 2, 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "float(N in 1..1000000, 65536) A) -> (C) { C(i,j) = A(i,j) }",
            "cannot take node 'A' because N in 1..1000000 needs 65536000000 elements; expected"
            " N in 1..32768, within 2147483648 elements",
        ),
        (
            "float(M in 2..9, N in 1..1000000, 65536) A) -> (C) { C(i,j,k) = A(i,j,k) }",
            "because M in 2..9 and N in 1..1000000 need 589824000000 elements; expected"
            " N in 1..3640, within",
        ),
        (
            "float(N in 4..2**16) A, float(N) B) -> (C) { C(i,j) = A(i) + B(j) }",
            "expected N in 4..46340, within 2147483648 elements",
        ),
        (
            "float(N in 1..2**20) A, float(N) B, float(N) D) -> (C)"
            " { C(i) +=! A(i) * B(j) * D(k) }",
            "needs 1152921504606846976 iterations; expected N in 1..10321, within 1099511627776",
        ),
        (
            "float(N in 8..2**16 step 8, 2**14) A, float(N, 2**14) B, float(N, 2**14) D) -> (C)"
            " { C(i,j) = A(i,j) + B(i,j) + D(i,j) }",
            "cannot take dag 'f' because N in 8..65536 step 8 needs 17179869184 bytes of tensors;"
            " expected N in 8..65528 step 8, within 17179869183 bytes of tensors",
        ),
    ],
)
def test_a_range_beyond_a_limit_is_refused_with_the_largest_one(text: str, message: str) -> None:
    text = re.sub(r"2\*\*(\d+)", lambda found: str(2 ** int(found[1])), text)
    limits = replace(LIMITS, bytes=2**34 - 1)
    with pytest.raises(SpecError, match=re.escape(message)):
        check(parse(f"def f({text}")[0], limits)


def test_arithmetic_of_a_user_with_a_dim_is_refused() -> None:
    n = te.dim("N", 1, 16)
    x = te.placeholder((n, 8), "x")
    for compute in (lambda: n + 1, lambda: 2 * n, lambda: float(n), lambda: n < 3):
        with pytest.raises(SpecError, match=r"cannot compute with dim N \(N in 1..16\)"):
            compute()
    with pytest.raises(SpecError, match="cannot compute with dim N"):
        topi.layer_norm(x, axis=0)


def test_a_dag_with_two_ranges_of_a_dim_or_an_untold_one_is_refused() -> None:
    nodes = (Placeholder("X", (Dim("N", 1, 8),)), Placeholder("Y", (Dim("N", 1, 9),)))
    (dag,) = parse("def f(float(8) A) -> (C) { C(i) = A(i) }")
    with pytest.raises(SpecError, match=r"dim N is N in 1..8 and N in 1..9; expected one range"):
        check(Dag((*nodes, *dag.nodes), ("C",)))
    c = te.compute((te.dim("N", 1, 8),), lambda i: te.const(1.0, "float32"), "c")
    with pytest.raises(SpecError, match="because no input has it"):
        te.dag(c)
    plain_dims = [plain(te.dim(name, 1, 2)) for name in "ABCDE"]
    inputs = tuple(Placeholder(f"x{k}", (one,)) for k, one in enumerate(plain_dims))
    with pytest.raises(SpecError, match="cannot take 5 dims"):
        check(Dag((*inputs, *dag.nodes), ("C",)))


@pytest.mark.parametrize(
    ("extent", "place"),
    [
        ({"dim": "N", "low": 1}, "shape.0.."),
        ({"dim": "N", "low": 3, "high": 2}, "shape"),
        ({"dim": "", "low": 1, "high": 2}, "shape"),
        ({"dim": "N", "low": 1, "high": True}, "shape"),
        ({"dim": "N", "low": 1, "high": 8, "step": 2}, "shape"),
        ({"dim": "N", "low": 2, "high": 8, "step": 2.0}, "shape"),
    ],
)
def test_a_wrong_dim_in_json_is_refused_with_its_place(extent: object, place: str) -> None:
    document = to_json(parse(MM)[0])
    document["nodes"][0]["shape"][0] = extent
    with pytest.raises(ShapeError, match=place):
        from_json(document)


@pytest.mark.parametrize(
    ("extents", "most", "expected"),
    [
        ("M in 1..512", 4, "1..1 2..8 9..64 65..512"),
        ("M in 1..512", 3, "1..1 2..8 9..512"),
        ("M in 1..512", 1, ""),
        ("M in 1..9000", 8, "1..1 2..8 9..64 65..512 513..4096 4097..9000"),
        ("M in 1..16", 4, "1..1 2..8 9..16"),
        ("M in 1..15", 4, "1..1 2..15"),
        ("M in 1..2", 4, ""),
        ("M in 1..3", 4, "1..1 2..3"),
        ("M in 20..300", 4, "20..64 65..300"),
        ("M in 100..127", 4, ""),
        ("1, M in 9..200", 4, "9..64 65..200"),
        ("M in 8..16 step 8", 4, ""),  # the last range would have one size
        ("M in 8..24 step 8", 4, "8..8 16..24"),
        ("M in 8..512 step 8", 4, "8..8 16..64 72..512"),
        ("2, M in 9..200", 4, ""),  # a stride depends on it
    ],
)
def test_ranges_follow_each_other(extents: str, most: int, expected: str) -> None:
    (dag,) = parse(f"def f(float({extents}) A) -> (B) {{ B({'i,j' if ',' in extents else 'i'})"
                   f" = A({'i,j' if ',' in extents else 'i'}) * 2 }}")  # fmt: skip
    ranges = ranges_of(dag, most)
    assert " ".join(f"{one.low}..{one.high}" for one in ranges) == expected
    assert ranges == ranges_of(dag, max(1, len(ranges)))
    for sizes in ranges:
        part = in_range(dag, sizes)
        assert part.name == f"f_M_{sizes.low}_{sizes.high}"
        assert dims_of(part) == (() if sizes.low == sizes.high else (sizes,))


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        ("M in 4..512 step 4", "4..8 12..64 68..512"),
        ("M in 24..512 step 8", "24..64 72..512"),
        ("M in 1..512 @ 1: 9 + 512: 1", "1..1 2..512"),
        ("M in 1..512 @ 2: 1", ""),
        ("M in 1..512 @ 1..16: 8 + 9..16: 2 + 2: 1", "1..1 2..8 9..512"),
        ("M in 9..513 step 3 @ 9..12: 1", ""),
    ],
)
def test_ranges_have_the_step_and_a_weight(dim: str, expected: str) -> None:
    (dag,) = parse(MM.replace("M in 1..512", dim))
    ranges = ranges_of(dag, 4)
    assert " ".join(f"{one.low}..{one.high}" for one in ranges) == expected
    assert ranges == ranges_of(dag, max(1, len(ranges)))
    (whole,) = dims_of(dag)
    assert {one.step for one in ranges} <= {whole.step}
    if ranges and whole.weights:
        weights = [weight for one in ranges for *_, weight in one.weights]
        assert sum(weights) == pytest.approx(sum(weight for *_, weight in whole.weights))
        assert all(one.weights for one in ranges)


def test_the_dim_with_the_largest_ratio_of_sizes_has_ranges() -> None:
    (dag,) = parse("def f(float(M in 1..8, 4) A, float(N in 1..999, 4) B) -> (C, D)"
                   " { C(i,j) = A(i,j) * 2 D(i,j) = B(i,j) * 2 }")  # fmt: skip
    assert [one.name for one in ranges_of(dag, 4)] == ["N", "N", "N", "N"]
    assert dims_of(in_range(dag, ranges_of(dag, 4)[1])) == (Dim("M", 1, 8), Dim("N", 2, 8))


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (lambda x: topi.reshape(x, (1, N, 2, 3, M)), lambda x: x.reshape(1, len(x), 2, 3, -1)),
        (lambda x: topi.expand_dims(x, (0, 3)), lambda x: x[None, :, :, None]),
        (lambda x: topi.flatten(topi.expand_dims(topi.max(x, (1, 2)), 0), 1),
         lambda x: x.max((1, 2))[None]),
        (lambda x: topi.strided_slice(x, (0, 1, 0), (N, 5, 2), (1, 2, 1)),
         lambda x: x[:, 1:5:2, :2]),
        (lambda x: topi.strided_slice(x, (0, 0, 0), (1, 2**40, 2**40)), lambda x: x[:1]),
        (lambda x: topi.pad(x, (0, 1, 0), (0, 2, 0)),
         lambda x: np.pad(x, ((0, 0), (1, 2), (0, 0)))),
        (lambda x: topi.mean(x, (0, 1), keepdims=True), lambda x: x.mean((0, 1), keepdims=True)),
        (lambda x: topi.mean(x), lambda x: x.mean(keepdims=True)[0, 0, 0]),
        (lambda x: topi.tile(x, (1, 2, 1)), lambda x: np.tile(x, (1, 2, 1))),
        (lambda x: topi.broadcast_to(topi.max(x, 0, keepdims=True), x.shape),
         lambda x: np.broadcast_to(x.max(0), x.shape)),
    ],
)  # fmt: skip
def test_moves_keep_a_dim_whole(move: Move, expected: Callable[[Array], Array]) -> None:
    dag = te.dag(move(te.placeholder((N, 6, M), "X")))
    for n, m in ((1, 2), (4, 7), (3, 5)):
        x = np.random.default_rng(n).uniform(1, 2, (n, 6, m)).astype(np.float32)
        np.testing.assert_allclose(evaluate(dag, {"X": x})[0], expected(x), rtol=1e-5)


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (lambda x: topi.reshape(x, (6, N, M)), "largest N in 1..4, M in 2..7; expected each dim"),
        (lambda x: topi.reshape(x, (M, 6, N)), "expected each dim as an extent of its own"),
        (lambda x: topi.reshape(x, (24, M)), "expected each dim as an extent of its own"),
        (lambda x: topi.reshape(x, (N, 5, M)), "as many elements before and behind it"),
        (lambda x: topi.flatten(x), "cannot compute with dim M"),
        (lambda x: topi.strided_slice(x, (0, 0, 0), (N, 6, 3)), "0:3:1 of M in 2..7 depends"),
        (lambda x: topi.strided_slice(x, (0, 0, 1), (N, 6, 7)), "1:7:1 of M in 2..7 depends"),
        (lambda x: topi.strided_slice(x, (0, 0, -1), (N, 6, 7)), "-1:7:1 of M in 2..7 depends"),
        (lambda x: topi.strided_slice(x, (0, 0, 0), (M, 6, M)), "0:M in 2..7:1 of N in 1..4"),
        (lambda x: topi.pad(x, (0, 0, 1)), "cannot compute with dim M"),
        (lambda x: topi.tile(x, (2, 1, 1)), "cannot compute with dim N"),
    ],
)
def test_a_move_that_needs_the_number_of_a_dim_is_refused(move: Move, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        move(te.placeholder((N, 6, M), "X"))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_along_a_dim(exclusive: bool, reverse: bool) -> None:
    data = te.placeholder((2, te.dim("L", 1, 6), 3), "x", "int64")
    dag = te.dag(topi.cumsum(data, 1, exclusive=exclusive, reverse=reverse))
    for size in (1, 2, 6):
        x = np.random.default_rng(size).integers(-9, 9, (2, size, 3))
        flipped = np.flip(x, 1) if reverse else x
        wanted = np.cumsum(flipped, 1) - (flipped if exclusive else 0)
        (found,) = te.evaluate(dag, {"x": x})
        np.testing.assert_array_equal(found, np.flip(wanted, 1) if reverse else wanted)
