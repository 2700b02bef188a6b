"""Dags as library operators: those that map agree with the float64 reference."""

from contextlib import suppress
from importlib.util import find_spec
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from ansorpy import te
from ansorpy.expr.functions import FUNCTIONS
from ansorpy.frontends.tc.text import parse
from ansorpy.graph.graph import Graph
from ansorpy.importers.onnx_write import model_of_graph
from ansorpy.measure.timing.peers import guest
from ansorpy.measure.timing.peers.translate import Unmapped, translated
from ansorpy.measure.verify import inputs
from ansorpy.oracle.reference import evaluate
from ansorpy.te.dag import Dag
from ansorpy.te.scalar import call
from ansorpy.topi import activation, layout, normalization, pool, slicing, workloads
from ansorpy.topi.suites import SUITE_SMALL
from ansorpy.topi.workloads import Window
from tests.measure.peers.files import ORT, TORCH, kernel_of, wrong
from tests.measure.test_baseline import HAVE, partial_reads
from tests.random_dag import random_dag

UNMAPPED = {
    "backwards": "def f(float(9) A) -> (turned) { turned(i) = A(8-i) where i in 0:9 }",
    "diagonal": "def f(float(9,9) A) -> (C) { C(i) = A(i,i) }",
    "bits": "def f(int32(9) A) -> (C) { C(i) = A(i) / 3 }",
}
X = te.placeholder((3, 4, 6), "X")
SAME = Window(padding=1)


def operators(dag: Dag) -> str:
    found = translated(dag)
    assert isinstance(found, Graph), found
    return " ".join(node.op for node in found.nodes)


@pytest.mark.parametrize("name", sorted(SUITE_SMALL))
def test_workloads_through_onnx_runtime_agree_with_the_reference(name: str) -> None:
    assert wrong(SUITE_SMALL[name]()) == []


@pytest.mark.parametrize("name", sorted(SUITE_SMALL))
def test_workloads_through_pytorch_agree_with_the_reference(name: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert wrong(SUITE_SMALL[name](), TORCH) == []


@pytest.mark.parametrize("text", UNMAPPED.values(), ids=UNMAPPED)
def test_a_node_without_an_operator_is_named(text: str) -> None:
    (dag,) = parse(text)
    assert translated(dag) == Unmapped(f"no operator for node {dag.outputs[0]!r}")
    assert kernel_of(dag) == f"no operator for node {dag.outputs[0]!r}"


def test_functions_without_an_operator_are_known() -> None:
    without = set[str]()
    for fn, function in FUNCTIONS.items():
        kinds = function.operands
        x = te.placeholder((4, 6), "X", "float32" if "float32" in kinds else kinds[0])
        dag = te.dag(te.compute((4, 6), lambda i, j, fn=fn, x=x: call(fn, x[i, j]), "out"))
        without |= {fn} if isinstance(translated(dag), Unmapped) else set()
    assert without == {"trunc", "tf32"}, "`_CALL` of peers/expression.py lacks an operator"


def test_zeros_between_elements_have_an_operator_in_a_transposed_convolution_only() -> None:
    whole = SUITE_SMALL["transposed_conv2d"]()
    alone = Dag(whole.nodes[:2], ("spread",), "alone")
    assert translated(alone) == Unmapped("no operator for node 'spread'")


@pytest.mark.parametrize(
    ("dag", "expected"),
    [
        (workloads.matmul(4, 5, 6), "MatMul"),
        (workloads.matmul(4, 5, 6, "int8"), "MatMulInteger"),
        (workloads.dense(4, 5, 6), "Transpose Gemm"),
        (workloads.conv2d(1, 3, 8, 8, 4, 3, SAME), "Conv"),
        (workloads.conv2d_nhwc(1, 8, 8, 3, 4, 3, SAME), "Transpose Transpose Conv Transpose"),
        (workloads.conv2d(1, 4, 8, 8, 4, 3, Window(padding=1, groups=4)), "Conv"),
        (workloads.conv2d_bias_relu(1, 3, 8, 8, 4, 3, SAME), "Conv Relu"),
        (workloads.depthwise_conv2d(1, 4, 8, 8, 3, SAME), "Reshape Conv"),
        (workloads.transposed_conv2d(1, 3, 4, 4, 5, 3, 2, 1), "ConvTranspose"),
        (workloads.max_pool2d(1, 2, 8, 8, 3, 2, 1), "MaxPool"),
        (workloads.avg_pool2d(1, 2, 8, 8, 3, 2, 1), "AveragePool"),
        (workloads.softmax(3, 5), "Softmax"),
        (workloads.layer_norm(3, 5), "LayerNormalization"),
        (workloads.norm(2, 3, 5), "ReduceL2"),
        (workloads.reduce_columns(3, 5), "ReduceSum"),
        (workloads.matmul_bias_gelu(3, 5, 7), "Gemm Gelu"),
        (workloads.attention(3, 5, 4), "Transpose MatMul Mul Softmax MatMul"),
    ],
    ids=lambda value: value.name if isinstance(value, Dag) else "",
)
def test_chains_become_the_operators_of_a_library(dag: Dag, expected: str) -> None:
    assert operators(dag) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (normalization.log_softmax(X, 1), "LogSoftmax"),
        (normalization.softmax(X, 0), "Softmax"),
        (normalization.layer_norm(X, axis=1), "LayerNormalization"),
        (activation.gelu(X, approximate=True), "Gelu"),
        (activation.silu(X), "Swish"),
        (activation.relu6(X), "Clip"),
        (activation.leaky_relu(X), "LeakyRelu"),
        (layout.transpose(X, (2, 0, 1)), "Transpose"),
        (slicing.strided_slice(X, (0, 1, 0), (3, 4, 6), (1, 1, 2)), "Slice"),
        (slicing.pad(X, (0, 1, 2)), "Pad"),
        (pool.max_pool(X, 2, ceil_mode=True), "MaxPool"),
        (pool.avg_pool(X, 3, padding=1, count_include_pad=False), "AveragePool Mul Div"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operators_agree_with_the_reference(made: te.Tensor, expected: str) -> None:
    dag = te.dag(made, "one")
    assert operators(dag) == expected
    assert wrong(dag) == []


@pytest.mark.parametrize("text", HAVE.values(), ids=HAVE)
def test_reads_of_slices_agree_with_the_reference(text: str) -> None:
    (dag,) = parse(text)
    assert wrong(dag) == []


@settings(max_examples=60)
@given(dag=partial_reads())
def test_random_slices_agree_with_the_reference(dag: Dag) -> None:
    agrees(dag)


@settings(max_examples=60, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_dags_that_map_agree_with_the_reference(seed: int) -> None:
    dag = random_dag(np.random.default_rng(seed))
    if isinstance(translated(dag), Graph):
        with suppress(NoKernel):  # as erf of float64
            # Functions of a library may round edge values more coarsely than the bound of kernels.
            assert [text for text in wrong(dag) if not text.startswith("edge")] == []


def agrees(dag: Dag) -> None:
    """Compare the graph, evaluated by onnx, on integers that float32 holds exactly."""
    found = translated(dag)
    assert isinstance(found, Graph)
    given = {
        node.name: (np.arange(prod(node.shape)) % 97).astype(node.dtype).reshape(node.shape)
        for node in dag.placeholders
    }
    named = {f"t{at}": given[node.name] for at, node in enumerate(dag.placeholders)}
    for one, two in zip(
        ReferenceEvaluator(model_of_graph(found)).run(None, named),
        evaluate(dag, given),
        strict=True,
    ):
        assert one.shape == two.shape
        assert np.array_equal(one, two)


def test_names_of_users_and_constant_weights_are_not_in_the_files() -> None:
    dag = te.dag(activation.relu(te.placeholder((3, 4), "secret_name")), "secret_dag")
    for library in (ORT, TORCH):
        files = guest.kernel_of("peer", library, translated(dag), dag, 2)
        assert not isinstance(files, Unmapped)
        assert not any(b"secret" in data for data in files.files.values())
    large = workloads.matmul(4, 512, 512, constant_weights=True)
    kernel = guest.kernel_of("peer", ORT, translated(large), large, 1)
    assert not isinstance(kernel, Unmapped)
    assert len(kernel.files["model.onnx"]) < 1000
    assert wrong(large) == []


def test_bfloat16_has_no_library() -> None:
    dag = workloads.matmul(4, 4, 4, "bfloat16")
    assert kernel_of(dag) == "NumPy has no arrays of bfloat16, the dtype of 'A'"


def test_values_of_constant_weights_are_moved_before_the_calls_of_pytorch() -> None:
    dag = workloads.conv2d_nhwc(1, 8, 8, 3, 4, 3, SAME, constant_weights=True)
    kernel = guest.kernel_of("peer", TORCH, translated(dag), dag, 1)
    assert not isinstance(kernel, Unmapped)
    text = kernel.files["graph.py"].decode()
    ahead, compute = text.split("def compute")
    assert "memory_format=torch.channels_last" in ahead
    assert "t1.permute" not in compute


def test_constants_of_a_dag_reach_both_libraries() -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    known = te.constant(table, "table")
    x = te.placeholder((3, 4), "x")
    dag = te.dag(
        te.compute((3, 4), lambda i, j: x[i, j] * known[i, j] + te.cast(j, "float32"), "out"),
        "known",
    )
    assert wrong(dag) == []
    if find_spec("torch") is not None:
        assert wrong(dag, TORCH) == []


def test_the_inputs_of_a_dag_may_be_unread_or_returned() -> None:
    x, y = te.placeholder((3,), "x"), te.placeholder((3,), "y")
    same = te.compute((3,), lambda i: x[i], "same")
    dag = te.dag(same, "copied", inputs=(x, y))
    assert operators(dag) == "Identity"
    assert wrong(dag) == []
    assert inputs.random_inputs(dag, np.random.default_rng(0)).keys() == {"x", "y"}
