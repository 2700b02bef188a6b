import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numba import njit

from ansorpy.artifact.reference import reference_source
from ansorpy.expr.dtypes import INTS, UNSIGNED
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.oracle.reference import evaluate
from ansorpy.te.dag import Axis, Compute, ConstantTensor, Dag, Placeholder
from tests.night import night

VI, VJ, K = Var("i"), Var("j"), Var("k")


def f32(value: float) -> Const:
    return Const(value, "float32")


def run(dag: Dag, *inputs: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    namespace: dict[str, Any] = {"np": np, "math": math, "njit": njit}
    exec(reference_source(dag), namespace)  # our own text
    constants = [
        np.frombuffer(node.data, node.dtype).reshape(node.shape)
        for node in dag.nodes
        if isinstance(node, ConstantTensor)
    ]
    result: tuple[np.ndarray[Any, Any], ...] = namespace["reference"](inputs, constants)
    return result


def agrees(dag: Dag, *inputs: np.ndarray[Any, Any]) -> None:
    named = {node.name: x for node, x in zip(dag.placeholders, inputs, strict=True)}
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    found = zip(run(dag, *wide), evaluate(dag, named), strict=True)
    for number, (mine, theirs) in enumerate(found):
        said = f"output {number} of {', '.join(dag.outputs)}"
        assert mine.dtype == theirs.dtype, said
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12, err_msg=said)


def elementwise(bodies: Mapping[str, Expr], *inputs: Placeholder) -> Dag:
    """Return a Dag with one output per body: its reference is compiled once."""
    nodes = [
        Compute(f"of_{name}", (Axis("i", 9),), (body,), ("float32",))
        for name, body in bodies.items()
    ]
    return Dag((*inputs, *nodes), tuple(node.name for node in nodes))


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.slow
def test_the_reference_of_a_padded_matmul_with_bias_and_relu_equals_the_oracle() -> None:
    a, b = Placeholder("A", (5, 7)), Placeholder("B", (7, 3))
    bias = ConstantTensor("bias", (3,), "float32", np.arange(3, dtype=np.float32).tobytes())
    inside = Binary("gt", VI, Const(0))
    before = Read("A", (Binary("sub", VI, Const(1)), VJ), "float32")
    pad = Compute(
        "P", (Axis("i", 6), Axis("j", 7)), (Select(inside, before, f32(0.5)),), ("float32",)
    )
    product = Binary("mul", Read("P", (VI, K), "float32"), Read("B", (K, VJ), "float32"))
    matmul = Compute(
        "C", (Axis("i", 6), Axis("j", 3)), (product,), ("float32",), (Axis("k", 7),), "sum"
    )
    shifted = Binary("add", Read("C", (VI, VJ), "float32"), Read("bias", (VJ,), "float32"))
    relu = Compute(
        "D", (Axis("i", 6), Axis("j", 3)), (Binary("max", shifted, f32(0.0)),), ("float32",)
    )
    dag = Dag((a, b, bias, pad, matmul, relu), ("D",))
    agrees(dag, *(rng().standard_normal(n).astype("float32") for n in ((5, 7), (7, 3))))


@pytest.mark.slow
def test_the_reference_of_every_function_equals_the_oracle() -> None:
    names = [fn for fn, one in FUNCTIONS.items() if "float32" in one.operands]
    bodies = {fn: Call(fn, Read("A", (VI,), "float32")) for fn in names}
    dag = elementwise(bodies, Placeholder("A", (9,)))
    with np.errstate(all="ignore"):  # negative numbers have no logarithm and no root
        agrees(dag, rng().standard_normal(9).astype(np.float32) * 5)


@pytest.mark.slow
def test_the_reference_of_every_function_of_two_floats_equals_the_oracle() -> None:
    one, two = Read("A", (VI,), "float32"), Read("B", (VI,), "float32")
    bodies = {fn: Binary(fn, one, two) for fn in BINARY_FUNCTIONS}
    dag = elementwise(bodies, Placeholder("A", (9,)), Placeholder("B", (9,)))
    agrees(dag, *rng().uniform(0.1, 9, (2, 9)).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTS)
def test_the_reference_of_bit_operations_equals_the_oracle(dtype: str) -> None:
    read, count = Read("A", (VI,), dtype), Read("B", (VI,), dtype)
    mixed = Binary("bitor", Binary("bitand", Call("bitnot", read), count), Const(5, dtype))
    bodies = [mixed, Binary("shl", read, count), Binary("shr", read, count)]
    bodies.append(Binary("bitxor", read, count))
    nodes = [Compute(f"C{k}", (Axis("i", 9),), (body,), (dtype,)) for k, body in enumerate(bodies)]
    inputs = Placeholder("A", (9,), dtype), Placeholder("B", (9,), dtype)
    dag = Dag((*inputs, *nodes), tuple(node.name for node in nodes))
    low = 0 if dtype in UNSIGNED else -100
    counts = np.array([0, 1, 7, 8, 31, 32, 63, 64, 100]).astype(dtype)
    agrees(dag, rng().integers(low, 100, 9).astype(dtype), counts if low == 0 else counts - 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", night(["float32", *INTS], day=["float32", "int8", "uint64"]))
def test_combiners_wrap_as_their_dtype_does(dtype: str) -> None:
    axis, over, body = (Axis("i", 3),), (Axis("k", 11),), (Read("A", (VI, K), dtype),)
    nodes = [
        Compute(f"of_{combiner}", axis, body, (dtype,), over, combiner)
        for combiner in ("sum", "prod", "max", "min")
    ]
    dag = Dag((Placeholder("A", (3, 11), dtype), *nodes), tuple(node.name for node in nodes))
    agrees(dag, rng().integers(1, 100, (3, 11)).astype(dtype))


@pytest.mark.slow
@pytest.mark.parametrize("combiner", ["argmax", "argmin"])
def test_arg_reductions_take_the_first_of_equals(combiner: str) -> None:
    bodies: tuple[Expr, ...] = (Read("A", (VI, K), "float32"), Cast("int32", K))
    node = Compute("B", (Axis("i", 4),), bodies, ("float32", "int32"), (Axis("k", 9),), combiner)
    dag = Dag((Placeholder("A", (4, 9)), node), ("B",))
    agrees(dag, rng().integers(-2, 3, (4, 9)).astype(np.float32))


@pytest.mark.slow
def test_the_reference_of_a_scalar_output_and_integer_casts_equals_the_oracle() -> None:
    body = Cast("uint8", Cast("int32", Read("A", (K,), "float32")))
    node = Compute("B", (), (body,), ("uint8",), (Axis("k", 9),), "sum")
    agrees(Dag((Placeholder("A", (9,)), node), ("B",)), rng().uniform(0, 255, 9).astype(np.float32))


def test_names_of_the_user_do_not_appear_in_the_source() -> None:
    node = Compute("evil_name", (Axis("evil_axis", 2),), (f32(1.0),), ("float32",))
    assert "evil" not in reference_source(Dag((node,), ("evil_name",)))
