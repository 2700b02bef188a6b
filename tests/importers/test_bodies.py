"""Functions, loops, sparse tensors and inputs without elements, against NumPy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from ansorpy.errors import GraphError
from ansorpy.graph import Graph
from ansorpy.graph.interp import run
from ansorpy.graph.passes import simplify
from ansorpy.importers.onnx_file import graph_of_model

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7 - 3


def graph_of(text: str, **bind: float) -> Graph:
    return graph_of_model(parser.parse_model(text), bind)


def outputs(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of a graph, which the passes do not change."""
    first, second = run(graph, inputs), run(simplify(graph).graph, inputs)
    for name, array in first.items():
        np.testing.assert_allclose(second[name], array, rtol=1e-6, atol=1e-6)
    return list(first.values())


# --- functions


def of_functions(body: str, more: str = "", call: str = "y = d.F (x)") -> str:
    return f"""<ir_version: 10, opset_import: ["" : 17, "d" : 1]>
    g (float[2,3,4] x) => (float[N,M,K] y) {{ {call} }} {body} {more}"""


def function(opset: int, body: str, head: str = "F (a)") -> str:
    opsets = f'opset_import: ["" : {opset}, "d" : 1]'
    return f'<domain: "d", {opsets}> {head} => (b) {{ {body} }}'


FLAT = X.reshape(2, 12)
SOFTMAX = np.exp(FLAT) / np.exp(FLAT).sum(1, keepdims=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (of_functions(function(11, "b = Softmax<axis=1>(a)")), SOFTMAX.reshape(X.shape)),
        (of_functions(function(11, "b = ReduceSum<axes=[1]>(a)")), X.sum(1, keepdims=True)),
        (
            of_functions(function(23, "k = Constant<value_ints=[1]>() b = ReduceMax(a, k)")),
            X.max(1, keepdims=True),
        ),
        (
            of_functions(
                function(12, "c = d.G(a) b = Squeeze<axes=[1]>(c)"),
                function(9, "b = Unsqueeze<axes=[1]>(a)", "G (a)"),
            ),
            X,
        ),
        (of_functions(function(18, "b = Elu<alpha: float = @s>(a)", "F <s: float = 2.0> (a)")),
         np.where(X > 0, X, 2 * np.expm1(X))),
        (of_functions(function(18, "b = Elu<alpha: float = @s>(a)", "F <s: float = 2.0> (a)"),
                      call="y = d.F<s: float = 3.0> (x)"),
         np.where(X > 0, X, 3 * np.expm1(X))),
        (of_functions(function(18, "b = Clip(a, low, high)", "F (a, low, high)"),
                      call="o = Constant<value_float=1.0>() y = d.F(x, , o)"), np.minimum(X, 1)),
    ],
    ids=["softmax", "axes", "newer", "nested", "default", "attribute", "absent"],
)  # fmt: skip
def test_a_function_may_import_another_opset(text: str, expected: Any) -> None:
    (found,) = outputs(graph_of(text), {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_attribute_of_a_function_reaches_its_branches() -> None:
    branch = helper.make_node("Elu", ["a"], ["r"])
    branch.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="s", type=onnx.AttributeProto.FLOAT)
    )
    info = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    graphs = [helper.make_graph([branch], "branch", [], [info]) for _ in range(2)]
    choice = helper.make_node("If", ["c"], ["b"], then_branch=graphs[0], else_branch=graphs[1])
    truth = helper.make_node(
        "Constant", [], ["c"], value=numpy_helper.from_array(np.array(True), "c")
    )
    model = parser.parse_model(of_functions("", call="y = d.F<s: float = 3.0> (x)"))
    opset = [helper.make_opsetid("", 18)]
    model.functions.append(
        helper.make_function("d", "F", ["a"], ["b"], [truth, choice], opset, ["s"])
    )
    (found,) = outputs(graph_of_model(model), {"x": X})
    np.testing.assert_allclose(found, np.where(X > 0, X, 3 * np.expm1(X)), rtol=1e-6)


def test_a_function_of_another_opset_that_calls_itself_is_refused() -> None:
    with pytest.raises(GraphError, match="expected no recursion"):
        graph_of(of_functions(function(11, "b = d.F(a)")))


# --- loops

LOOP = """<ir_version: 10, opset_import: ["" : 18]>
g ({inputs}) => (float[N] y, float[R,C] rows) {{
  {head}
  y, rows = Loop ({count}, {go}, x) <body = step (int64 i, bool go, float[2] s)
    => (bool more, float[2] t, float[2] row) {{
      f = Cast<to=1>(i)  t = Add(s, f)  row = Identity(t)  {more}
  }}>
}}"""


def loop(count: str, go: str = "", more: str = "more = Identity(go)", inputs: str = "") -> str:
    head = """n = Constant<value_int=4>()  zero = Constant<value_int=0>()
      two = Constant<value_float=2.0>() true = Constant<value=bool {1}>()
      false = Constant<value=bool {0}>() many = Constant<value_int=65>()
      once = Constant<value_int=1>()"""
    given = ", ".join(filter(None, ["float[2] x", inputs]))
    return LOOP.format(inputs=given, head=head, count=count, go=go, more=more)


STEPS = np.array([[1, 2], [2, 3], [4, 5], [7, 8]], np.float32)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (loop("n"), 4),
        (loop("n", "true"), 4),
        (loop("n", "false"), 0),
        (loop("zero", "true"), 0),
        (loop("n", "true", "more = Less(f, two)"), 3),
        (loop("", "true", "more = Less(f, two)"), 3),
        (loop("once", "true", "m = ReduceSum<keepdims=0>(s) more = Less(m, f)"), 1),
    ],
)
def test_a_loop_of_a_known_number_of_steps_is_written_out(text: str, steps: int) -> None:
    x = np.array([1, 2], np.float32)
    last, rows = outputs(graph_of(text), {"x": x})
    np.testing.assert_array_equal(rows, STEPS[:steps])
    np.testing.assert_array_equal(last, STEPS[steps - 1] if steps else x)


def test_a_bound_scalar_may_be_the_trip_count() -> None:
    last, rows = outputs(
        graph_of(loop("k", inputs="int64[1] k"), k=2), {"x": np.array([1, 2], np.float32)}
    )
    np.testing.assert_array_equal(rows, STEPS[:2])
    np.testing.assert_array_equal(last, STEPS[1])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (loop("k", inputs="int64[1] k"), "its trip count is computed at run time; expected a"
         " constant, as by --bind k=VALUE"),
        (loop("n", "k", inputs="bool[1] k"), "its condition is computed at run time"),
        (loop("n", "true", "m = ReduceSum<keepdims=0>(s) more = Less(m, f)"),
         "its condition after a step is computed at run time; expected a constant: it depends on"
         " no scalar"),
        (loop("many"), "it has 65 steps; expected at most 64"),
        (loop("", "true"), "it has more steps; expected at most 64"),
    ],
)  # fmt: skip
def test_a_loop_of_unknown_length_is_refused(text: str, reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        graph_of(text)


def test_a_damaged_loop_is_refused() -> None:
    model = parser.parse_model(loop("n"))
    node = model.graph.node[-1]
    body = node.attribute[0].g
    del body.input[2]
    with pytest.raises(GraphError, match="its body takes 2 values and gives 3; expected 3, and"):
        graph_of_model(model)
    del node.attribute[:]
    with pytest.raises(GraphError, match="because body is absent; expected a graph"):
        graph_of_model(model)


def test_a_scan_takes_axes_and_directions() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[2] s, float[2,3] a, float[3,2] b) => (float[N] t, float[R,C] up, float[C,R] down) {
      t, up, down = Scan (s, a, b) <num_scan_inputs=2, scan_input_axes=[1, 0],
        scan_input_directions=[0, 1], scan_output_axes=[1, -2], scan_output_directions=[0, 1],
        body = step (float[2] s, float[2] a, float[2] b) => (float[2] n, float[2] p, float[2] q) {
          c = Add(a, b)  n = Add(s, c)  p = Identity(n)  q = Identity(n)
      }>
    }"""
    s = np.array([1, 2], np.float32)
    a = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    b = np.array([[1, 2], [10, 20], [100, 200]], np.float32)
    rows = s + np.cumsum(a.T + b[::-1], 0)
    last, up, down = outputs(graph_of(text), {"s": s, "a": a, "b": b})
    np.testing.assert_array_equal(last, rows[-1])
    np.testing.assert_array_equal(up, rows.T)
    np.testing.assert_array_equal(down, rows[::-1])


# --- sparse tensors


def sparse(indices: Any, dims: tuple[int, ...], values: Any = (5, 7)) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, np.float32), "w"),
        numpy_helper.from_array(np.array(indices, np.int64), "at"),
        dims,
    )


def sparse_model(one: onnx.SparseTensorProto, constant: bool, opset: int = 17) -> onnx.ModelProto:
    shape = [2, 3]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y"))
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    if constant:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=one))
    tensors = [] if constant else [one]
    graph = helper.make_graph(nodes, "g", [x], [y], sparse_initializer=tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_a_sparse_tensor_is_a_dense_one(indices: Any, constant: bool, opset: int) -> None:
    model = sparse_model(sparse(indices, (2, 3)), constant, opset)
    x = np.ones((2, 3), np.float32)
    (found,) = outputs(graph_of_model(model), {"x": x})
    np.testing.assert_array_equal(found, [[1, 6, 1], [1, 1, 8]])


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (sparse([1, 6], (2, 3)), "lie outside of"),
        (sparse([-1, 5], (2, 3)), "lie outside of"),
        (sparse([[0, 1], [2, 0]], (2, 3)), "lie outside of"),
        (sparse([1], (2, 3)), "one for each of 2 values"),
        (sparse([1, 5], (1 << 20, 1 << 20)), "at most 1073741824 bytes"),
        (sparse([1, 5], (-2, -3)), "extents from 1 on"),
        (sparse([1, 5], ()), "extents from 1 on"),
    ],
)
@pytest.mark.parametrize("constant", [False, True])
def test_a_damaged_sparse_tensor_is_refused(
    one: onnx.SparseTensorProto, reason: str, constant: bool
) -> None:
    with pytest.raises(GraphError, match=reason):
        graph_of_model(sparse_model(one, constant, 23))


# --- tensors without elements

A = np.arange(6, dtype=np.float32).reshape(2, 3)
NONE = np.empty((2, 0), np.float32)
INF = np.float32(np.inf)
CONSTANTS = """axes = Constant<value_ints=[1]>() pads = Constant<value_ints=[0,1,0,2]>()
    five = Constant<value_float=5.0>() flat = Constant<value_ints=[0, 3, -1]>()
    last = Constant<value_ints=[-1]>() end = Constant<value_ints=[9]>()
    wide = Constant<value_ints=[4, 1, 1]>() i = Constant<value_ints=[0, 1]>()"""


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Concat<axis=1>(c, a)", A),
        ("y = Concat<axis=1>(c, c)", NONE),
        ("t = Transpose(c) y = MatMul(c, t)", np.zeros((2, 2))),
        ("t = Transpose(c) y = MatMul(t, a)", np.empty((0, 3))),
        ("t = Transpose(c) r = ReduceSum<keepdims=0>(a, last) y = Gemm<beta=2.0>(c, t, r)",
         np.broadcast_to(2 * A.sum(1), (2, 2))),
        ('y = Einsum<equation="ik,jk->ij">(c, c)', np.zeros((2, 2))),
        ("y = ReduceSum(c, axes)", np.zeros((2, 1))),
        ("y = ReduceProd(c, axes)", np.ones((2, 1))),
        ("y = ReduceMax<keepdims=0>(c, axes)", np.full(2, -INF)),
        ("y = ReduceMin<keepdims=0>(c, axes)", np.full(2, INF)),
        ("k = Cast<to=6>(c) y = ReduceMax<keepdims=0>(k, axes)", np.full(2, -(2**31), np.int32)),
        ("y = ReduceLogSum(c, axes)", np.full((2, 1), -INF)),
        ("y = Pad(c, pads, five)", np.full((2, 3), 5.0)),
        ("y = Softmax(c)", NONE),
        ("s = Slice(c, last, end, axes) r = Relu(s) y = Concat<axis=1>(r, a)", A),
        ("y = Reshape(c, flat)", np.empty((2, 3, 0))),
        ("s = Shape(c) y = Expand(five, s)", NONE),
        ("y = Expand(c, wide)", np.empty((4, 2, 0))),
        ("y = Gather<axis=0>(c, i)", NONE),
        ("y = Where(e, c, five)", NONE),
        ("m = Mul(c, c) n = LayerNormalization<axis=0>(c, m) y = Concat<axis=1>(a, n)", A),
        ("p, q = Split<axis=0, num_outputs=2>(c) y = Concat<axis=0>(q, p)", NONE),
        ("y = ScatterND(a, e64, c)", A),
    ],
)  # fmt: skip
def test_a_tensor_without_elements_is_a_constant(nodes: str, expected: Any) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 23]>
    g (float[2,0] c, float[2,3] a, bool[2,0] e, int64[2,0,2] e64) => (float[N] y)
    {{ {CONSTANTS} {nodes} }}"""
    inputs = {"c": NONE, "a": A, "e": NONE > 0, "e64": np.empty((2, 0, 2), np.int64)}
    graph = graph_of(text)
    assert graph.inputs == tuple(inputs)
    (found,) = outputs(graph, inputs)
    assert found.shape == np.shape(expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("extent", "sizes"),
    [
        (7, (3, 3, 1)),
        (6, (2, 2, 2, 0)),
        (5, (2, 2, 1, 0)),
        (2, (1, 1, 0)),
        (0, (0, 0)),
        (4, (2, 2)),
    ],
)
def test_a_split_into_a_number_of_parts_has_smaller_last_ones(
    extent: int, sizes: tuple[int, ...]
) -> None:
    names = [f"p{n}" for n in range(len(sizes))]
    text = f"""<ir_version: 10, opset_import: ["" : 18]>
    g (float[2,{extent}] x) => ({", ".join(f"float[N] {name}" for name in names)})
    {{ {", ".join(names)} = Split<axis=-1, num_outputs={len(sizes)}>(x) }}"""
    x = np.arange(2 * extent, dtype=np.float32).reshape(2, extent)
    ends = np.cumsum((0, *sizes))
    for found, begin, end in zip(
        outputs(graph_of(text), {"x": x}), ends[:-1], ends[1:], strict=True
    ):
        np.testing.assert_array_equal(found, x[:, begin:end])


def test_an_extent_may_be_bound_to_zero() -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]>
    g (float[2,past] c, float[2,3] a) => (float[N] y) { y = Concat<axis=1>(c, a) }"""
    (found,) = outputs(graph_of(text, past=0), {"c": NONE, "a": A})
    np.testing.assert_array_equal(found, A)
    with pytest.raises(GraphError, match="expected a whole number from 0 on"):
        graph_of(text, past=-1)


def test_operands_that_do_not_fit_are_refused_with_the_first_reason() -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]>
    g (float[2,0] c, float[2,3] a) => (float[N] y) { y = MatMul(c, a) }"""
    with pytest.raises(GraphError, match=r"cannot compile node 'y' \(MatMul\)"):
        graph_of(text)
