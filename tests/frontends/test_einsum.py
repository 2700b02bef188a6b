from collections.abc import Sequence

import numpy as np
import pytest

from ansorpy import te
from ansorpy.errors import SpecError
from tests.random_dag import random_inputs


def placeholders(shapes: Sequence[tuple[int, ...]]) -> list[te.Tensor]:
    return [te.placeholder(shape, f"x{number}") for number, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("ik,kj->ij", [(3, 4), (4, 5)]),
        ("ik,kj", [(3, 4), (4, 5)]),
        ("bik,bjk->bij", [(2, 3, 4), (2, 5, 4)]),
        ("ii->i", [(4, 4)]),
        ("ii", [(4, 4)]),
        ("ij->ji", [(3, 5)]),
        ("ijk->", [(3, 1, 5)]),
        ("i,j,k->kij", [(2,), (3,), (4,)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
        (",i->i", [(), (3,)]),
        ("nchw, fc -> nfhw", [(2, 3, 4, 5), (7, 3)]),
        ("ij,ij,kj->k", [(3, 4), (3, 4), (5, 4)]),
    ],
)
def test_einsum_equals_numpy(spec: str, shapes: list[tuple[int, ...]]) -> None:
    tensors = placeholders(shapes)
    dag = te.dag(te.einsum(spec, *tensors, name="out"), inputs=tensors)
    inputs = random_inputs(np.random.default_rng(0), dag)
    want = np.einsum(spec, *(array.astype("f8") for array in inputs.values()))
    (got,) = te.evaluate(dag, inputs)
    assert got.shape == want.shape
    assert np.allclose(got, want, rtol=1e-12, atol=1e-12)


def test_einsum_of_tensors_is_a_tensor() -> None:
    a, b = te.placeholder((3, 4), "A"), te.placeholder((4, 5), "i")
    bias = te.placeholder((5,), "bias")
    product = te.einsum("ik,kj->ij", a, b, name="P")
    assert (product.name, product.shape, product.dtype) == ("P", (3, 5), "float32")
    out = te.compute((3, 5), lambda i, j: te.maximum(product[i, j] + bias[j], 0.0), "out")
    dag = te.dag(out, "layer", inputs=(a, b, bias))
    inputs = random_inputs(np.random.default_rng(0), dag)
    (got,) = te.evaluate(dag, inputs)
    first, second, third = (array.astype("f8") for array in inputs.values())
    want = np.maximum(np.einsum("ik,kj->ij", first, second) + third, 0.0)
    assert np.allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("spec", "shapes", "message"),
    [
        ("ik,kj->ij", [(3, 4)], "2 operands, but 1 shapes"),
        ("ik,kj->ij", [(3, 4), (5, 6)], "letter 'k' is 4, but 5 in operand 1"),
        (
            "ik,kj->ij",
            [(3, 4, 1), (4, 6)],
            r"operand 0 has 2 letters \('ik'\), but shape",
        ),
        ("ik->iz", [(3, 4)], "output letter 'z' is in no operand"),
        ("ik->ii", [(3, 4)], "letter 'i' is in the output twice"),
        ("...k->k", [(3, 4)], "'...' is not supported"),
        ("i1->i", [(3, 4)], "are allowed, not 1"),
        ("i->j->k", [(3,)], "a second '->'"),
        ("i->i,i", [(3,)], "a ',' in the output"),
        ("a,a,a,a,a,a,a,a,a->a", [(3,)] * 9, "9 operands, limit 8"),
    ],
)
def test_wrong_strings_are_refused(spec: str, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        te.einsum(spec, *placeholders(shapes))
