"""Models with dims: one partition computes the results of ONNX Runtime at each size."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ansorpy import te
from ansorpy.errors import GraphError
from ansorpy.graph.graph import Graph
from ansorpy.graph.groups import Partition
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.importers.onnx_file import graph_of_model
from ansorpy.model.tasks import tasks_of
from ansorpy.te.dims import Dim, dims_of
from tests.graph.test_partition import run_groups

Array = NDArray[Any]
Shape = Sequence[int | str]

B, L, N = te.dim("B", 1, 3), te.dim("L", 2, 9), te.dim("N", 1, 4)


class Writer:
    """The nodes and seeded weights of a model."""

    def __init__(self, **inputs: Shape) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs = [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name in ("ids", "mask") else TensorProto.FLOAT, shape
            )
            for name, shape in inputs.items()
        ]

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        made = [f"{op.lower()}_{len(self.nodes)}.{n}" for n in range(outputs)]
        label = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, made, label, **attributes))
        return made[0] if outputs == 1 else made

    def weight(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        return self.weight(values, np.int64)

    def random(self, *shape: int) -> str:
        return self.weight(0.3 * self.rng.standard_normal(shape))

    def size(self, x: str, axis: int) -> str:
        """Return one extent as a vector, as exporters write it."""
        extent = self("Gather", self("Shape", x), self.weight(axis, np.int64), axis=0)
        return str(self("Unsqueeze", extent, self.ints(0)))

    def model(self, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        kinds = [helper.make_tensor_value_info(name, 0, None) for name in outputs]
        for one in kinds:
            one.ClearField("type")
        graph = helper.make_graph(self.nodes, "g", self.inputs, kinds, self.weights)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
        )
        return onnx.shape_inference.infer_shapes(made, strict_mode=True)


def divided(model: onnx.ModelProto, bind: Mapping[str, float], hosted: bool = False) -> Partition:
    return partition(simplify(graph_of_model(model, bind, hosted=hosted)).graph)


def agree(model: onnx.ModelProto, parted: Partition, inputs: Mapping[str, Array]) -> None:
    """Compare the groups of a partition with ONNX Runtime on some inputs."""
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    expected = session.run(None, dict(inputs))
    found = run_groups(parted, {name: inputs[name] for name in parted.graph.inputs})
    for want, got in zip(expected, found.values(), strict=True):
        assert want.shape == got.shape
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def floats(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def linear(at: Writer, x: str, inputs: int, outputs: int) -> str:
    return str(at("Add", at("MatMul", x, at.random(inputs, outputs)), at.random(outputs)))


def bert(hidden: int = 16, heads: int = 2) -> onnx.ModelProto:
    """Return an encoder over tokens, with the arithmetic of shapes that exporters write."""
    at = Writer(ids=("batch", "length"), mask=("batch", "length"))
    batch, length = at.size("ids", 0), at.size("ids", 1)
    places = at("Slice", at.weight([range(12)], np.int64), at.ints(0), length, at.ints(1))
    tokens = at("Gather", at.random(20, hidden), "ids")
    x = at("Add", tokens, at("Gather", at.random(12, hidden), places))
    pair = at("Concat", batch, at.ints(1), length, length, axis=0)
    wide = at("Unsqueeze", "mask", at.ints(1, 2))
    seen = at("Cast", at("Expand", wide, pair), to=TensorProto.BOOL)
    steps = at("Range", at.weight(0, np.int64), at("Squeeze", length), at.weight(1, np.int64))
    rows = at("Unsqueeze", steps, at.ints(1))
    causal = at("LessOrEqual", at("Unsqueeze", steps, at.ints(0)), rows)
    kept = at("Where", at("And", seen, causal), at.weight(0.0), at.weight(-1e9))

    def part(perm: Sequence[int]) -> str:
        split = at("Concat", batch, at.size(x, 1), at.ints(heads), at.ints(hidden // heads), axis=0)
        return str(at("Transpose", at("Reshape", linear(at, x, hidden, hidden), split), perm=perm))

    query, key, value = part((0, 2, 1, 3)), part((0, 2, 3, 1)), part((0, 2, 1, 3))
    scores = at("Div", at("MatMul", query, key), at.weight((hidden / heads) ** 0.5))
    mixed = at("MatMul", at("Softmax", at("Add", scores, kept), axis=-1), value)
    joined = at("Transpose", mixed, perm=(0, 2, 1, 3))
    shape = at("Concat", at.size(joined, 0), at.ints(-1), at.ints(hidden), axis=0)
    y = at("Add", linear(at, at("Reshape", joined, shape), hidden, hidden), x)
    y = at("LayerNormalization", y, at.random(hidden), at.random(hidden), axis=-1)
    first = at("Gather", y, at.weight(0, np.int64), axis=1)
    pooled = at("Tanh", at("Gemm", first, at.random(hidden, hidden), at.random(hidden), transB=1))
    return at.model(y, pooled)


BERT = bert()


@pytest.fixture(scope="module")
def encoder() -> Partition:
    return divided(BERT, {"batch": B, "length": L})


@pytest.mark.parametrize(("batch", "length"), [(1, 2), (3, 9), (2, 5), (3, 2), (1, 9)])
def test_an_encoder_over_tokens_keeps_batch_and_length(
    encoder: Partition, batch: int, length: int
) -> None:
    ids = np.random.default_rng(length).integers(0, 20, (batch, length))
    mask = (np.arange(length) < np.arange(1, batch + 1)[:, None] + 1).astype(np.int64)
    agree(BERT, encoder, {"ids": ids, "mask": mask})


def test_the_tasks_of_a_model_have_its_dims(encoder: Partition) -> None:
    assert encoder.graph.dims == (Dim("B", 1, 3), Dim("L", 2, 9))
    tasks = tasks_of(encoder)
    assert all(dims_of(dag) for dag in tasks.dags)
    static = tasks_of(divided(BERT, {"batch": 3, "length": 9}))
    assert [part.group.title for part in tasks.parts] == [p.group.title for p in static.parts]


def convolutional() -> onnx.ModelProto:
    """Return a net with a residual, padding, pools and a view by an extent that is computed."""
    at = Writer(x=("N", 3, 10, 8))
    x = at("Conv", "x", at.random(6, 3, 3, 3), at.random(6), pads=(1, 1, 1, 1))
    moments = [at.weight(one) for one in (np.ones(6), np.zeros(6), np.zeros(6), np.ones(6))]
    x = at("MaxPool", at("Relu", at("BatchNormalization", x, *moments)), kernel_shape=(3, 3),
           strides=(2, 2), pads=(1, 1, 1, 1))  # fmt: skip
    deep = at("Conv", x, at.random(6, 1, 3, 3), group=6, pads=(1, 1, 1, 1))
    x = at("Concat", at("Add", deep, x), at("Sigmoid", x), axis=1)
    x = at("AveragePool", x, kernel_shape=(2, 2), pads=(0, 0, 1, 0))
    scales = at.weight([1, 1, 2, 2])
    x = at("Resize", x, "", scales, mode="linear")
    left, right = at("Split", x, outputs=2, axis=1, num_outputs=2)
    y = at("GlobalAveragePool", at("Mul", left, right))
    flat = at("Reshape", y, at("Concat", at.size(y, 0), at.ints(-1), axis=0))
    logits = at("Gemm", flat, at.random(5, 6), at.random(5), transB=1)
    return at.model(logits, at("Flatten", x), opset=18)


def test_a_convolutional_net_keeps_its_batch() -> None:
    model = convolutional()
    parted = divided(model, {"N": N})
    for size in (1, 3, 4):
        agree(model, parted, {"x": floats(size, 3, 10, 8)})


def test_a_recurrent_net_that_numpy_computes_keeps_its_batch() -> None:
    at = Writer(x=(4, "N", 3))
    every, last, cell = at(
        "LSTM", "x", at.random(1, 20, 3), at.random(1, 20, 5), at.random(1, 40), outputs=3,
        hidden_size=5,
    )  # fmt: skip
    model = at.model(at("Relu", at("Squeeze", every, at.ints(1))), last, cell)
    parted = divided(model, {"N": N}, hosted=True)
    for size in (1, 4):
        agree(model, parted, {"x": floats(4, size, 3)})


def test_moves_that_keep_a_dim_whole() -> None:
    at = Writer(x=("N", "L", 6), y=("N", "L", 6))
    tiled = at("Tile", "x", at.ints(1, 1, 2))
    turned = at("Reshape", at("Transpose", tiled, perm=(1, 0, 2)), at.ints(0, 0, 2, 3, 2))
    flipped = at("Transpose", turned, perm=(1, 0, 3, 2, 4))
    merged = at("Reshape", flipped, at.ints(0, 0, 12))
    part = at("Slice", merged, at.ints(0, 3), at.ints(2**62, 9), at.ints(1, 2))
    padded = at("Pad", part, at.ints(0, 0, 1, 0, 0, 1))
    joined = at("Concat", padded, at("Neg", "y"), axis=2)
    sums = at("Add", at("ReduceMax", joined, axes=(1,), keepdims=0),
              at("ReduceMean", joined, axes=(1,), keepdims=0))  # fmt: skip
    means = at("ReduceMean", "x", axes=(0, 2))
    best = at("ArgMax", joined, axis=1, keepdims=0)
    mixed = at("Einsum", "x", "y", equation="bij,bkj->bik")
    model = at.model(joined, sums, means, best, mixed)
    parted = divided(model, {"N": N, "L": L})
    for n, length in ((1, 2), (4, 9), (2, 5)):
        agree(model, parted, {"x": floats(n, length, 6), "y": floats(n, length, 6) + 1})


@pytest.mark.parametrize("pairs", [True, False])
def test_a_mask_read_by_the_numbers_of_rows_and_columns_keeps_both(pairs: bool) -> None:
    at = Writer(mask=("batch", "length"))
    zero, one = (at.weight(n, np.int64) for n in (0, 1))
    sizes = [at.size("mask", axis) for axis in (0, 1)]
    rows, columns = (at("Range", zero, at("Squeeze", size), one) for size in sizes)
    rows, columns = at("Unsqueeze", rows, at.ints(1, 2)), at("Unsqueeze", columns, at.ints(0, 1))
    if pairs:
        shape = at("Concat", sizes[0], at.ints(1), sizes[1], axis=0)
        wide = [at("Unsqueeze", at("Expand", n, shape), at.ints(-1)) for n in (rows, columns)]
        found = at("GatherND", "mask", at("Concat", *wide, axis=-1))
    else:
        places = at("Add", at("Mul", rows, sizes[1]), columns)
        found = at("Reshape", at("Gather", at("Flatten", "mask", axis=2), places), at.ints(-1))
        found = at("Reshape", found, at("Shape", places))
    model = at.model(at("Cast", found, to=TensorProto.FLOAT))
    parted = divided(model, {"batch": B, "length": L})
    for batch, length in ((1, 2), (3, 9), (2, 5), (3, 2)):
        mask = np.random.default_rng(length).integers(0, 9, (batch, length))
        agree(model, parted, {"mask": mask})


def test_a_range_of_one_size_is_a_number() -> None:
    model = convolutional()
    one = graph_of_model(model, {"N": te.dim("N", 4, 4)})
    assert one.dims == ()
    assert one.values == graph_of_model(model, {"N": 4}).values


def one_node(op: str, *weights: Any, shape: Shape = ("N", "L", 6), **attributes: Any) -> Graph:
    at = Writer(x=shape)
    names = [at.weight(one, getattr(one, "dtype", np.int64)) for one in weights]
    model = at.model(at(op, "x", *names, **attributes))
    return graph_of_model(model, {"N": N, "L": L})


@pytest.mark.parametrize(
    ("arguments", "attributes", "message"),
    [
        (("Reshape", [-1, 6]), {}, r"keep N, L of node 'reshape_0' \(Reshape\) as a dim because the"
         r" model returns its result of extents \[N \* L, 6\]; expected a number: .* --bind N=1"),
        (("Flatten",), {}, r"keep L of .*the model returns its result of extents \[N, 6 \* L\]"),
        (("Reshape", [2, -1]), {}, r"keep N, L of .*because its result has extents \[2, 3 \* N"),
        (("LayerNormalization", np.ones((9, 6), np.float32)), {"axis": 1},
         r"keep L as a dim because of the model at L = 2: .* in --bind L=1, or a range"),
        (("Gather", np.int64(-1)), {"axis": 1}, "keep L of .*the operator computes with it"),
        (("Gather", np.int64(2)), {"axis": 1}, "keep L as a dim because of the model at L = 2: "),
        (("Slice", [0], [-1], [1]), {}, r"axis 1 of its result is 1 at L = 2 for 8"),
        (("Slice", [1], [9], [1]), {}, r"axis 1 of its result is 1 at L = 2 for 8"),
        (("Concat", np.ones((4, 9, 6), np.float32)), {"axis": 2}, "cannot concatenate"),
        (("Squeeze", [0]), {}, "cannot squeeze"),
        (("Tile", [1, 2, 1]), {}, r"its result has extents \[N, 2 \* L, 6\]"),
        (("Pad", [0, 1, 0, 0, 0, 0]), {}, r"axis 1 of its result is 3 at L = 2 for 10"),
    ],
)  # fmt: skip
def test_a_node_that_needs_the_number_is_refused_with_its_remedy(
    arguments: tuple[Any, ...], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        one_node(*arguments, **attributes)


def test_joined_axes_are_apart() -> None:
    at = Writer(x=("B", "L", 8), bias=(1, 2, 1, "L"))
    batch, length = at.size("x", 0), at.size("x", 1)
    rows = at("Reshape", at("Transpose", "x", perm=(1, 0, 2)), at.ints(-1, 8))
    both = at("Relu", at("Gemm", rows, at.random(8, 8), at.random(8), transB=1))
    both = at("LayerNormalization", both, at.random(8), axis=1)
    heads = at("Mul", batch, at.ints(2))
    parts = at("Reshape", both, at("Concat", length, heads, at.ints(4), axis=0))
    query = at("Mul", at("Transpose", parts, perm=(1, 0, 2)), at.random(1, 1, 4))
    scores = at("MatMul", query, at("Transpose", parts, perm=(1, 2, 0)))
    four = at("Concat", batch, at.ints(2), length, length, axis=0)
    masked = at("Add", at("Reshape", scores, four), "bias")
    weights = at("Reshape", masked, at("Concat", heads, length, length, axis=0))
    values = at("Reshape", at("Reshape", query, at.ints(-1, 4)),
                at("Concat", heads, length, at.ints(4), axis=0))  # fmt: skip
    mixed = at("MatMul", at("Softmax", weights, axis=-1), values)
    flat = at("MatMul", at("Reshape", mixed, at.ints(-1, 4)), at.random(4, 3))
    shape = at("Concat", batch, at.ints(2), length, at.ints(3), axis=0)
    model = at.model(at("Reshape", flat, shape))
    parted = divided(model, {"B": B, "L": L})
    for size, steps in ((1, 2), (3, 9), (2, 5)):
        agree(model, parted, {"x": floats(size, steps, 8), "bias": floats(1, 2, 1, steps)})


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("Softmax", {"axis": 0}, r"keep N, L of node 'softmax_\d' \(Softmax\) as a dim because"
         r" an axis of its operands joins it with other extents; expected a number"),
        ("CumSum", {}, "keep N, L of .*an axis of its operands joins it"),
        ("Gemm", {}, "keep N, L of .*an axis of its operands joins it"),
        ("MatMul", {}, "keep N, L of .*an axis of its operands joins it"),
        ("Add", {}, "keep N, L of .*an axis of its operands joins it"),
    ],
)  # fmt: skip
def test_a_node_that_needs_a_joined_axis_is_refused(
    op: str, attributes: dict[str, Any], message: str
) -> None:
    at = Writer(x=("N", "L", 6))
    rows, other = (
        at("Reshape", name, at.ints(-1, 6)) for name in ("x", at("Transpose", "x", perm=(1, 0, 2)))
    )
    more = {
        "CumSum": [at.weight(0, np.int64)], "Add": [other], "Softmax": [],
        "MatMul": [at.random(2, 6, 5)],
    }  # fmt: skip
    turned = at("Transpose", rows, perm=(1, 0)) if op == "Gemm" else rows
    made = at(op, turned, *more.get(op, [rows]), **attributes)
    with pytest.raises(GraphError, match=message):
        graph_of_model(at.model(made), {"N": N, "L": L})


def test_a_sum_over_the_largest_size_is_no_mean() -> None:
    """A model may divide by the largest size at any size."""
    at = Writer(x=("N", "L"))
    share = at.weight(1 / 9)

    def mean(x: str) -> Any:
        return at("Mul", at("ReduceSum", x, at.ints(1)), share)

    apart = at("Sub", "x", mean("x"))
    variance = at("Add", mean(at("Mul", apart, apart)), at.weight(1e-5))
    model = at.model(at("Div", apart, at("Sqrt", variance)))
    parted = divided(model, {"N": N, "L": L})
    for n, length in ((1, 2), (4, 9)):
        agree(model, parted, {"x": floats(n, length)})


def test_a_large_table_is_read_up_to_the_size() -> None:
    at = Writer(x=("N", "L", 512))
    rows = at("Slice", at.random(1, 700, 512), at.ints(0), at.size("x", 1), at.ints(1))
    model = at.model(at("Add", "x", rows))
    graph = graph_of_model(model, {"N": N, "L": te.dim("L", 1, 600)})
    (table,) = graph.weights.values()
    assert table.shape == (1, Dim("L", 1, 600), 512)
    assert table.array.shape == (1, 600, 512)
    agree(model, partition(graph), {"x": floats(2, 7, 512)})


@pytest.mark.parametrize("kind", ["places", "rows", "scale", "sizes"])
def test_a_constant_that_follows_from_a_dim_otherwise_is_refused(kind: str) -> None:
    at = Writer(x=("N", "L", 6))
    length = at.size("x", 1)
    if kind in ("places", "rows"):  # from the last one on
        steps = at("Range", at.weight(0, np.int64), at("Squeeze", length), at.weight(1, np.int64))
        made = at("Sub", length, steps)
        made = at("Gather", at.random(12, 6), made) if kind == "rows" else made
        columns = at.ints(-1, 6 if kind == "rows" else 1)
        made = at("Add", "x", at("Reshape", at("Cast", made, to=1), columns))
    elif kind == "scale":
        made = at("Div", "x", at("Cast", length, to=TensorProto.FLOAT))
    else:
        made = at("Resize", at("Unsqueeze", "x", at.ints(0)), "", "", at.ints(1, 4, 9, 12))
    message = {
        "places": "keep L of .* as a dim because constant .* at L = 2 than the first ones",
        "rows": "keep L of .* as a dim because constant .* at L = 2 than the first ones",
        "scale": r"keep L of node 'div_\d' \(Div\) .* because its constant .* has 2.0 at L = 2",
        "sizes": r"keep N of node 'resize_\d' \(Resize\) as a dim because its positions follow",
    }[kind]
    with pytest.raises(GraphError, match=message):
        graph_of_model(at.model(made), {"N": N, "L": L})


def test_a_size_as_a_number_is_refused() -> None:
    at = Writer(ids=("N", "L"))
    model = at.model(at("Add", "ids", at.size("ids", 1)))
    message = r"keep L of node 'add_3' \(Add\) as a dim because input 1 is its size as a number"
    with pytest.raises(GraphError, match=message):
        graph_of_model(model, {"N": N, "L": L})
