from dataclasses import replace

import pytest

from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.te.analysis import (
    access,
    common_outer,
    elementwise,
    flop_count,
    needs_tiling,
    reads_by_producer,
    strictly_inlineable,
    workload_key,
)
from ansorpy.te.dag import Attrs, Axis, Compute, ConstantTensor, Dag, Placeholder
from tests.golden_dags import (
    F32,
    conv2d_bn_relu,
    dag,
    inp,
    matmul,
    matmul_relu,
    op,
    read,
    softmax,
)

IJ = {"i": 4, "j": 8}


def compute(d: Dag, name: str) -> Compute:
    node = d.node(name)
    assert isinstance(node, Compute)
    return node


def test_a_simple_access_reports_missing_repeated_and_reordered_axes() -> None:
    node = op("B", IJ, read("A", "i", "j"))
    plain = access(node, read("A", "i", "j"))
    assert plain.simple
    assert plain.one_to_one
    assert access(node, read("A", "j", 0)).missing == ("i",)
    assert access(node, read("A", "i", "i")).duplicated == ("i",)
    assert not access(node, read("A", "j", "i")).in_order
    assert "i+j" in access(node, read("A", "i+j", 0)).simple.why.replace(" ", "")


def test_adding_a_constant_keeps_an_access_simple() -> None:
    node = op("B", IJ, read("A", "i", "j"))
    shifted = Binary("sub", Var("i"), Const(1)), Binary("add", Const(2), Var("j"))
    assert access(node, Read("A", shifted, F32)).one_to_one
    doubled = Binary("mul", Var("i"), Const(2)), Var("j")
    assert not access(node, Read("A", doubled, F32)).simple


@pytest.mark.parametrize(
    ("node", "holds", "why"),
    [
        (op("B", IJ, read("A", "i", "j")), True, "takes its axes as they come"),
        (op("B", IJ, read("A", "i", 0)), True, "takes its axes as they come"),
        (op("B", IJ), True, "reads nothing"),
        (op("B", IJ, branch=True), True, "reads nothing"),
        (op("B", IJ, read("A", "j", "i")), False, "another order"),
        (op("B", IJ, read("A", "i", "i")), False, "axis i twice"),
        (op("B", IJ, read("A", "i+j", "j")), False, "(i + j) is not a spatial axis"),
        (op("B", IJ, read("A", "i", "j"), exp=True), False, "exp"),
        # Golden counts do not catch this one.
        (op("B", IJ, read("A", "i", "j"), branch=True), False, "branch on (i < 1)"),
    ],
)
def test_the_verdict_on_strictly_inlineable_nodes_has_a_reason(
    node: Compute, holds: bool, why: str
) -> None:
    answer = strictly_inlineable(node)
    assert bool(answer) is holds
    assert why in answer.why


def test_only_exp_counts_as_expensive() -> None:
    body = Call("tanh", read("A", "i", "j"))
    assert strictly_inlineable(replace(op("B", IJ), body=(body,)))


@pytest.mark.parametrize(
    ("node", "holds", "why"),
    [
        (compute(matmul(8, 8, 8), "C"), True, "A along j and B along i"),
        (op("B", {"i": 4}, read("A", "i", "k"), over={"k": 9}), False, "no producer"),
        (op("B", IJ, read("A", "i"), read("C", "j")), True, "A along j and C along i"),
        (op("B", IJ, read("A", "i")), False, "A along j only"),
        (op("B", IJ, read("A", "i", "k"), over={"k": 9}), True, "A along j"),
        (op("B", {"i": 4, "j": 1}, read("A", "i", "k"), over={"k": 9}), False, "no producer"),
        (op("B", IJ, read("A", "i", "k"), read("A", "j", "k"), over={"k": 9}), False, "no prod"),
        (op("B", {}, read("A", "k"), over={"k": 9}), False, "no producer"),
        (
            op("B", IJ, read("A", "i", "k"), over={"k": 9}, attrs=Attrs(const_axes=("k",))),
            False,
            "constant tensor by k",
        ),
    ],
)
def test_the_verdict_on_nodes_that_need_tiling_has_a_reason(
    node: Compute, holds: bool, why: str
) -> None:
    answer = needs_tiling(node)
    assert bool(answer) is holds
    assert why in answer.why


def test_inputs_need_no_tiling() -> None:
    assert "is an input" in needs_tiling(inp("A", 4)).why


def test_elementwise_follows_the_chain_of_single_readers() -> None:
    conv = conv2d_bn_relu(8, 4, 4, 3)
    assert elementwise(conv, "conv", "relu")
    assert "shape" in elementwise(conv, "pad", "conv").why
    assert "2 readers" in elementwise(softmax(2, 8), "ex", "nm").why


def test_elementwise_refuses_a_transpose_and_a_broadcast() -> None:
    square = {"i": 4, "j": 4}
    for indices, why in ((("j", "i"), "another order"), (("i", 0), "lacks axis j")):
        d = dag("d", [inp("A", 4, 4), op("B", square, read("A", "i", "j")),
                      op("C", square, read("B", *indices))])  # fmt: skip
        assert why in elementwise(d, "B", "C").why


def test_common_outer_is_the_least_over_all_paths() -> None:
    d = softmax(4, 8)
    assert common_outer(d, "mx", "nm").count == 1
    assert common_outer(d, "ex", "nm").count == 1
    assert common_outer(d, "ex", "sm").count == 1
    assert common_outer(d, "sm", "ex").count == 0
    assert common_outer(matmul_relu(4, 5, 6), "C", "D").count == 2
    assert (
        "index 0 is not i"
        in common_outer(
            dag(
                "d",
                [inp("A", 4), op("B", {"i": 4}, read("A", "i")), op("C", {"i": 4}, read("B", 0))],
            ),
            "B",
            "C",
        ).why
    )


def test_reads_are_grouped_by_producer() -> None:
    node = op("B", IJ, read("A", "i", "j"), read("C", "i"), read("A", "j", "i"))
    assert {name: len(reads) for name, reads in reads_by_producer(node).items()} == {"A": 2, "C": 1}


@pytest.mark.parametrize("n", [16, 512])
def test_a_matmul_has_two_flops_per_product(n: int) -> None:
    assert flop_count(matmul(n, n, n)) == 2 * n**3
    bias = op("D", {"i": n, "j": n}, read("C", "i", "j"), read("b", "j"))
    assert flop_count(dag("d", [*matmul(n, n, n).nodes, inp("b", n), bias])) == 2 * n**3 + n**2


def test_flops_leave_index_arithmetic_casts_and_functions_out() -> None:
    body: Expr = Read("A", (Binary("add", Var("i"), Const(1)),), F32)
    body = Binary("mul", Call("exp", body), Cast(F32, Binary("add", Var("i"), Const(1))))
    node = replace(op("B", {"i": 10}), body=(Call("neg", body),))
    assert flop_count(dag("d", [inp("A", 11), node])) == 20


def test_flops_of_a_select_are_those_of_its_costlier_branch() -> None:
    a = read("A", "i")
    dear = Binary("add", Binary("mul", a, a), a)
    body = Select(Binary("gt", a, Const(0.0, F32)), Binary("add", a, a), dear)
    node = replace(op("B", {"i": 10}), body=(body,))
    assert flop_count(dag("d", [inp("A", 10), node])) == 30


def test_the_flop_attribute_overrides_the_count() -> None:
    c = replace(compute(matmul(8, 8, 8), "C"), attrs=Attrs(flop=77))
    assert flop_count(dag("d", [inp("A", 8, 8), inp("B", 8, 8), c])) == 77


def test_accumulating_into_a_tensor_costs_its_start() -> None:
    start = Binary("mul", read("I", "i", "j"), Const(2.0, F32))
    c = replace(compute(matmul(8, 8, 8), "C"), start=start)
    assert flop_count(dag("d", [inp("A", 8, 8), inp("B", 8, 8), inp("I", 8, 8), c])) == 1024 + 64


def test_renaming_keeps_the_workload_key() -> None:
    renamed = dag(
        "other",
        [
            inp("X", 8, 4),
            inp("Y", 4, 6),
            op("Z", {"m": 8, "n": 6}, read("X", "m", "q"), read("Y", "q", "n"), over={"q": 4}),
        ],
    )
    assert workload_key(renamed) == workload_key(matmul(8, 6, 4))
    assert len(workload_key(renamed)) == 64


def test_anything_but_a_name_changes_the_workload_key() -> None:
    base = matmul(8, 6, 4)
    a, b, c = base.nodes
    assert isinstance(a, Placeholder)
    assert isinstance(c, Compute)
    others = [
        base,
        matmul(8, 4, 6),
        replace(base, nodes=(replace(a, constant=True), b, c)),
        replace(base, nodes=(replace(a, dtype="float64"), b, c)),
        replace(base, nodes=(b, a, c)),
        replace(base, nodes=(a, b, replace(c, combiner="max"))),
        replace(base, nodes=(a, b, replace(c, start=Const(1.0, F32)))),
        replace(base, nodes=(a, b, replace(c, start=Const(2.0, F32)))),
        replace(base, nodes=(a, b, replace(c, axes=(Axis("i", 8), Axis("j", 7))))),
        replace(base, nodes=(ConstantTensor("A", (8, 4), F32, b"\0" * 128), b, c)),
        replace(base, nodes=(ConstantTensor("A", (8, 4), F32, b"\1" * 128), b, c)),
        matmul_relu(8, 6, 4),
        *(
            replace(base, nodes=(a, b, replace(c, attrs=attrs)))
            for attrs in (
                Attrs(unroll=("k",)),
                Attrs(unroll=("i",)),
                Attrs(no_split_inner=("k",)),
                Attrs(const_axes=("k",)),
                Attrs(layout_free=("B",)),
                Attrs(flop=1),
            )
        ),
    ]
    assert len({workload_key(d) for d in others}) == len(others)
