"""A Dag as text for people."""

from ansorpy.frontends.tc.text import parse
from ansorpy.te.printer import text


def printed(definition: str) -> list[str]:
    (dag,) = parse(definition)
    return text(dag).splitlines()


def test_a_node_is_a_line_with_its_axes_dtypes_and_formula() -> None:
    assert printed("def f(float(4,6) A) -> (C) { C(i) +=! A(i,k) }") == [
        "dag f -> C",
        "  A[4, 6]: float32",
        "  C[i:4]: float32 = sum over k:6 of A[i, k]",
    ]


def test_a_sum_that_starts_from_a_tensor_names_it() -> None:
    lines = printed("def f(float(4,6) A, float(4) B) -> (C) { C(i) = B(i) \n C(i) += A(i,k) }")
    assert lines[-1].endswith("= sum over k:6 from B[i] of A[i, k]")
