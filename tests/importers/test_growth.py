"""Models with a cache: past and new rows, at each size, compute the results of ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from ansorpy import te
from ansorpy.bundle.load import load_model
from ansorpy.errors import GraphError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Graph
from ansorpy.graph.interp import run
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.graph.wire.write import sent
from ansorpy.importers.onnx_file import graph_of_model
from ansorpy.model.simplify import simplify_file
from ansorpy.te.dims import Dim
from tests.importers.test_dims import Array, Writer, agree, divided, floats, linear
from tests.model.test_sizes import bundle_of

PAST, NEW = te.dim("past", 0, 6), te.dim("new", 1, 4)
SIZES = ((0, 1), (0, 4), (6, 4), (6, 1), (1, 1), (3, 2), (2, 3))
HEADS, WIDTH = 2, 8


def decoder(masked: bool = True, table: bool = True) -> onnx.ModelProto:
    """Return a layer of a decoder over new rows behind a past, as exporters write it.

    Args:
        masked: a mask over all rows is an input, and positions are counted from it.
        table: positions come from a table, by the number of rows of the past.
    """
    past = ("batch", HEADS, "past", WIDTH // HEADS)
    rows = ("batch", "past + new")
    given = {"ids": ("batch", "new"), "k": past, "v": past, **({"mask": rows} if masked else {})}
    at = Writer(**given)
    one, zero = at.weight(1, np.int64), at.weight(0, np.int64)
    batch, new, before = at.size("ids", 0), at.size("ids", 1), at.size("k", 2)
    total = at("Add", before, new)
    steps = at("Range", at("Squeeze", before), at("Squeeze", total), one)
    x = at("Gather", at.random(20, WIDTH), "ids")
    if masked:
        counted = at("Sub", at("CumSum", "mask", one), one)
        ends = at("Neg", new), at.ints(2**62), at.ints(1), at.ints(1)
        places = at("Slice", counted, *ends)
        x = at("Add", x, at("Gather", at.random(12, WIDTH), places))
    elif table:
        x = at("Add", x, at("Gather", at.random(12, WIDTH), at("Unsqueeze", steps, at.ints(0))))

    def part(perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        split = at("Concat", batch, new, at.ints(HEADS), at.ints(WIDTH // HEADS), axis=0)
        return str(at("Transpose", at("Reshape", linear(at, x, WIDTH, WIDTH), split), perm=perm))

    past_k = at("Concat", "k", axis=2)  # exporters leave such out of an empty cache
    keys, values = at("Concat", past_k, part(), axis=2), at("Concat", "v", part(), axis=-2)
    scores = at("MatMul", part(), at("Transpose", keys, perm=(0, 1, 3, 2)))
    columns = at("Range", zero, at("Squeeze", total), one)
    seen = at(
        "LessOrEqual", at("Unsqueeze", columns, at.ints(0)), at("Unsqueeze", steps, at.ints(1))
    )
    seen = at("Unsqueeze", seen, at.ints(0, 1))
    if masked:
        real = at("Cast", at("Unsqueeze", "mask", at.ints(1, 2)), to=TensorProto.BOOL)
        seen = at("And", seen, real)
    kept = at("Where", seen, at.weight(0.0), at.weight(-1e9))
    mixed = at("MatMul", at("Softmax", at("Add", scores, kept), axis=-1), values)
    joined = at("Transpose", mixed, perm=(0, 2, 1, 3))
    flat = at("Reshape", joined, at("Concat", batch, new, at.ints(WIDTH), axis=0))
    return at.model(at("Add", linear(at, flat, WIDTH, WIDTH), x), keys, values)


def inputs_of(past: int, new: int, batch: int = 2, masked: bool = True) -> dict[str, Array]:
    rng = np.random.default_rng(past * 10 + new)
    cache = (batch, HEADS, past, WIDTH // HEADS)
    found = {"ids": rng.integers(0, 20, (batch, new)), "k": floats(*cache), "v": floats(*cache) + 1}
    mask = np.ones((batch, past + new), np.int64)
    mask[0, : max(0, past + new - 2) // 2] = 0  # a shorter sequence, filled up at its begin
    return found | ({"mask": mask} if masked else {})


@pytest.mark.parametrize(
    "bind", [{"batch": 2}, {"batch": te.dim("batch", 1, 3)}], ids=["2", "1..3"]
)
@pytest.mark.parametrize("masked", [True, False])
def test_a_decoder_appends_rows_to_its_past(bind: Mapping[str, int], masked: bool) -> None:
    model = decoder(masked)
    parted = divided(model, {**bind, "past": PAST, "new": NEW})
    assert {one.name: one.terms for one in parted.graph.dims if one.terms} == {
        "past_new": ("past", "new")
    }
    for past, new in SIZES:
        agree(model, parted, inputs_of(past, new, masked=masked))


def test_one_new_row_at_each_call() -> None:
    model = decoder()
    parted = divided(model, {"batch": 2, "past": PAST, "new": 1})
    (total,) = (one for one in parted.graph.dims if one.terms)
    assert (total, total.terms) == (Dim("past_new", 1, 7), ("past", 1))
    for past in (0, 1, 4, 6):
        agree(model, parted, inputs_of(past, 1))


def test_rows_behind_a_number_of_rows() -> None:
    at = Writer(x=("N", 6))
    row = at("Concat", at.random(1, 6), "x", axis=0)
    model = at.model(at("Softmax", row, axis=0))
    parted = divided(model, {"N": te.dim("N", 2, 9)})
    for n in (2, 5, 9):
        agree(model, parted, {"x": floats(n, 6)})


def test_rows_behind_a_sum_of_rows(tmp_path: Path) -> None:
    at = Writer(x=("a", 3), y=("b", 3), z=("c", 3))
    rows = at("Concat", at("Concat", at.random(1, 3), "x", axis=0), "y", axis=0)
    model = at.model(at("Softmax", at("Concat", rows, "z", axis=0), axis=0))
    bind = {"a": te.dim("a", 1, 4), "b": te.dim("b", 2, 5), "c": te.dim("c", 1, 3)}
    graph = graph_of_model(model, bind)
    assert [one.terms for one in graph.dims[3:]] == [("a", 1), ("a", "b", 1), ("a", "b", "c", 1)]
    bundle = load_model(bundle_of(graph, tmp_path / "m.zip"))
    for sizes in ((1, 2, 1), (4, 5, 3), (2, 4, 1)):
        inputs = {name: floats(n, 3) for name, n in zip("xyz", sizes, strict=True)}
        agree(model, divided(model, bind), inputs)
        (expected,) = run(graph, inputs).values()
        np.testing.assert_allclose(bundle(inputs), expected, rtol=1e-5)


def test_a_symbol_of_another_name_is_a_sum_or_the_same() -> None:
    at = Writer(x=("a", 3), y=("b", 3), mask=("c", 3), z=("d", 3))
    rows = at("Concat", "x", "y", axis=0)
    model = at.model(at("Mul", at("Cast", "mask", to=1), rows), at("Add", "x", "z"))
    bind = {"a": "1..4", "b": "2..5", "c": "a+b", "d": "a"}
    parted = divided(model, bind)  # type: ignore[arg-type]
    for a, b in ((1, 2), (4, 5), (2, 2)):
        mask = np.ones((a + b, 3), np.int64)
        agree(
            model, parted, {"x": floats(a, 3), "y": floats(b, 3), "mask": mask, "z": floats(a, 3)}
        )


def refused(model: onnx.ModelProto, **bind: Any) -> str:
    with pytest.raises(GraphError) as error:
        simplify(graph_of_model(model, bind))
    return str(error.value)


def test_a_past_that_may_be_empty_is_only_appended_to() -> None:
    at = Writer(x=("past", 3), y=("new", 3))
    model = at.model(at("Relu", at("Concat", at("Abs", "x"), "y", axis=0)))
    assert "extent past in 0..6 of dimension 0 may be 0" in refused(model, past=PAST, new=NEW)
    for sizes in ((1, 2), (6, 4)):
        parted = divided(model, {"past": te.dim("past", 1, 6), "new": NEW})
        agree(model, parted, {"x": floats(sizes[0], 3), "y": floats(sizes[1], 3)})


def test_sizes_that_are_no_window_are_refused() -> None:
    at = Writer(x=("past", 3), y=("new", 3))
    rows = at("Concat", "x", "y", axis=0)
    steps = at(
        "Range", at.weight(0.0), at("Cast", at("Squeeze", at.size("x", 0)), to=1), at.weight(1.0)
    )
    squares = at("Mul", at("ReduceSum", steps, at.ints(0), keepdims=1), rows)
    assert "its constant" in refused(at.model(squares), past=te.dim("past", 1, 6), new=NEW)


@pytest.mark.parametrize("op", ["AppendRows", "WindowRows"])
def test_rows_are_no_operator_of_a_model(op: str) -> None:
    builder = GraphBuilder("m", hosted=True)
    x = builder.input("x", (2, 3), "float32")
    with pytest.raises(GraphError, match="because it is none of a model"):
        builder.add(op, [x, x], ["y"], {"axis": 0})


def test_a_call_with_another_sum_is_refused() -> None:
    graph: Graph = graph_of_model(decoder(), {"batch": 2, "past": PAST, "new": NEW})
    given = inputs_of(3, 2)
    given["mask"] = given["mask"][:, 1:]
    with pytest.raises(GraphError, match=r"past_new is 4; expected past \+ new = 5"):
        run(graph, given)
    assert partition(graph).graph.dims == graph.dims


def test_a_simplified_decoder_is_one_again(tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "simple.onnx"
    onnx.save(decoder(), source)
    bind = {"batch": te.dim("batch", 1, 3), "past": te.dim("past", 1, 6), "new": NEW}
    assert simplify_file(source, target, bind).comparison.error < 1e-5
    model = onnx.load(target)
    assert [one.dim_param for one in model.graph.input[-1].type.tensor_type.shape.dim] == [
        "batch", "past + new",
    ]  # fmt: skip
    parted = divided(model, {**bind, "past": PAST})
    for past, new in SIZES:
        agree(model, parted, inputs_of(past, new))


def test_a_sum_is_not_sent_without_weights() -> None:
    with pytest.raises(GraphError, match=r"decides past_new = past \+ new; expected the file"):
        sent(graph_of_model(decoder(), {"batch": 2, "past": PAST, "new": NEW}))
