"""Loop-invariant offsets are computed outside of loops."""

import re

import numpy as np

from ansorpy.codegen.llvm_ir import module_text, object_bytes, parse, target_machine
from ansorpy.expr.expr import Var
from ansorpy.loopir.nodes import For, If, Program, Tile
from ansorpy.target import Target
from tests.codegen.running import run_llvm
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store

TARGET = Target()
A, B, K = 3, 4, 5


def summed() -> Program:
    """Return o[a, b] += x[a, b, k] where k < a + 2, in three loops."""
    a, b, k = map(Var, "abk")
    at = add(mul(a, B * K), mul(b, K), k)
    inner = Tile((), (), store("o", [add(mul(a, B), b)], read("x", at), "sum"))
    body = For("k", c(K), If(lt(k, add(a, c(2))), inner))
    buffers = [
        buffer("x", A * B * K),
        buffer("o", A * B),
    ]
    return program(buffers, For("a", c(A), For("b", c(B), body)))


def heads(text: str) -> list[str]:
    """Return the blocks in which the loops of the first function begin, outermost first."""
    parts = re.split(r"^b\d+:$", text[: text.index("\n}")], flags=re.MULTILINE)
    return [part for part in parts if "phi i64" in part]


def test_each_sum_is_written_in_the_outermost_loop_that_knows_its_terms() -> None:
    first, second, third = heads(module_text(summed(), TARGET))
    assert first.count("mul") == 3  # a * B * K, a * B, and -a of the condition
    assert second.count("mul") == 1  # b * K; both are added to the known sum of a
    assert second.count("add nsw i64") == 2
    assert third.count("mul") == 0
    assert third.count("add nsw i64") == 2  # k joins the offset and the condition


def test_hoisted_sums_are_right_across_loops_and_branches() -> None:
    x = np.random.default_rng(0).random((A, B, K), np.float32)
    o = np.zeros(A * B, np.float32)
    got = run_llvm(summed(), {"x": x.ravel(), "o": o})["o"].reshape(A, B)
    expected = [x[a, :, : a + 2].sum(axis=-1, dtype=np.float64) for a in range(A)]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_option_against_strength_reduction_ends_with_the_compilation() -> None:
    text, machine = module_text(summed(), TARGET), target_machine(TARGET)

    def made() -> bytes:
        module = parse(text)
        module.data_layout = str(machine.target_data)
        return bytes(machine.emit_object(module))

    before = made()
    assert object_bytes(text, TARGET) != before
    assert made() == before
