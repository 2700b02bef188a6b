from dataclasses import replace

import numpy as np
import pytest

from ansorpy.errors import LoweringError, SpecError
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Select
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, Program, Scope, Seq, Stmt, Store
from ansorpy.loopir.rewrite import map_stmt
from tests.loopir.build import buffer, c, f32, lt, program, read, store, v
from tests.loopir.samples import argmax, matmul, padded_shift, symbolic_copy, tiled_matmul

F32 = np.float32


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=F32)


def chain(value: Expr, dtype: str, **inputs: str) -> Program:
    """O[i] = value for i < 4, with inputs of the given dtypes."""
    given = tuple(buffer(n, 4, scope=Scope.INPUT, dtype=t) for n, t in inputs.items())
    out = buffer("O", 4, scope=Scope.OUTPUT, dtype=dtype)
    return program((*given, out), For("i", c(4), store("O", (v("i"),), value)))


@pytest.mark.parametrize("strict", [False, True])
def test_scalar_and_tiled_matmul_agree_to_the_bit(strict: bool) -> None:
    rng = np.random.default_rng(0)
    inputs = {"A": floats(rng, 5, 9), "B": floats(rng, 9, 7)}
    scalar = run(matmul(5, 7, 9), inputs, strict=strict)["C"]
    # Same order of additions per element: a masked register tile may not change one bit.
    tiled = run(tiled_matmul(5, 7, 9, 2, 4), inputs)["C"]
    assert scalar.dtype == F32
    np.testing.assert_array_equal(scalar, tiled)
    exact = inputs["A"].astype(float) @ inputs["B"].astype(float)
    np.testing.assert_allclose(scalar, exact, rtol=9 * 2**-23, atol=1e-5)


def test_float32_rounds_after_every_operation() -> None:
    tenth = Const(0.1, "float32")
    value = Binary("add", Binary("mul", read("A", v("i")), tenth), tenth)
    a = np.array([1, 3, 7, 1e8], F32)
    (got,) = run(chain(value, "float32", A="float32"), {"A": a}).values()
    np.testing.assert_array_equal(got, a * F32(0.1) + F32(0.1))


def test_select_reads_only_the_branch_it_takes() -> None:
    a = np.array([1, 2, 3], F32)
    got = run(padded_shift(3), {"A": a}, strict=True)["O"]
    np.testing.assert_array_equal(got, np.array([0, 1, 4], F32))


def test_argmax_takes_the_first_of_equal_values() -> None:
    a = np.array([[1, 5, 5, 2], [-3, -1, -2, -1], [0, 0, 0, 0]], F32)
    got = run(argmax(3, 4), {"A": a}, strict=True)
    np.testing.assert_array_equal(got["V"], a.max(1))
    np.testing.assert_array_equal(got["I"], a.argmax(1))
    assert got["I"].dtype == np.int32


@pytest.mark.parametrize("size", [1, 3, 7, 10, 16])
def test_a_symbolic_program_runs_with_sizes(size: int) -> None:
    a = np.arange(10, dtype=F32)
    got = run(symbolic_copy(10), {"A": a}, sizes={"s": size}, strict=True)["O"]
    np.testing.assert_array_equal(got, a)


def test_a_size_without_value_is_named() -> None:
    with pytest.raises(LoweringError, match="nothing binds s"):
        run(symbolic_copy(10), {"A": np.zeros(10, F32)})


@pytest.mark.parametrize(("index", "shown"), [(-1, r"A\[-1\]"), (4, r"A\[4\]")])
def test_an_index_out_of_range_raises(index: int, shown: str) -> None:
    value = read("A", Binary("add", Binary("mul", v("i"), c(0)), c(index)))
    with pytest.raises(LoweringError, match=shown + r" is outside the shape \[4\]"):
        run(chain(value, "float32", A="float32"), {"A": np.zeros(4, F32)})


def test_out_of_range_in_two_and_three_dimensions() -> None:
    for rank in (2, 3):
        same: list[Expr] = [v("i")] * (rank - 1)
        index = (*same, Binary("add", v("i"), c(1)))
        out = buffer("O", *(3,) * rank, scope=Scope.OUTPUT)
        with pytest.raises(LoweringError, match="3] is outside"):
            run(program((out,), For("i", c(3), store("O", index, f32(1)))), {})


def test_unwritten_elements_are_poison_and_strict_runs_refuse_them() -> None:
    half = For("i", c(4), store("T", (v("i"),), read("A", v("i"))))
    copy = For("i", c(8), store("O", (v("i"),), read("T", v("i"))))
    bufs = (
        buffer("A", 4, scope=Scope.INPUT),
        buffer("T", 8, scope=Scope.GLOBAL),
        buffer("O", 8, scope=Scope.OUTPUT),
    )
    prog = program(bufs, half, copy)
    a = np.ones(4, F32)
    got = run(prog, {"A": a})["O"]
    assert np.isnan(got[4:]).all()
    assert (got[:4] == 1).all()
    with pytest.raises(LoweringError, match="T: an element is read before it is written"):
        run(prog, {"A": a}, strict=True)
    with pytest.raises(LoweringError, match="output O: an element is never written"):
        run(program(bufs, half, replace(copy, extent=c(4))), {"A": a}, strict=True)


def test_undefined_integers_are_filled_with_a5_bytes() -> None:
    out = buffer("O", 2, scope=Scope.OUTPUT, dtype="int32")
    got = run(program((out,), Seq(())), {})["O"]
    assert got.tobytes() == b"\xa5" * 8


def test_scratch_is_undefined_again_at_every_alloc() -> None:
    # The tile adds to `acc` without a start: 0 would hide it, the last iteration would too.
    prog = tiled_matmul(2, 4, 3, 2, 4)
    inputs = {"A": np.ones((2, 3), F32), "B": np.ones((3, 4), F32)}
    assert (run(prog, inputs, strict=True)["C"] == 3).all()

    def without_start(stmt: Stmt) -> Stmt:
        return Seq(stmt.stmts[1:]) if isinstance(stmt, Seq) else stmt

    nest = map_stmt(prog.phases[0].body, without_start)
    without = program(prog.buffers, nest)
    assert np.isnan(run(without, inputs)["C"]).all()
    with pytest.raises(LoweringError, match="acc: an element is read before"):
        run(without, inputs, strict=True)


@pytest.mark.parametrize(
    ("dtype", "to", "values", "expected"),
    [
        ("float32", "int32", [2.7, -2.7, 0.5, 100.0], [2, -2, 0, 100]),
        ("int32", "int8", [1, 127, 128, 300], [1, 127, -128, 44]),
        ("int32", "uint8", [1, -1, 255, 256], [1, 255, 255, 0]),
        ("int32", "uint16", [1, -1, 65535, 65536], [1, 65535, 65535, 0]),
        ("int64", "uint32", [1, -1, 2**32 - 1, 2**32], [1, 2**32 - 1, 2**32 - 1, 0]),
        (
            "float64",
            "uint64",
            [2.7, 2.0**53, 2.0**63, 2.0**64 - 2048],
            [2, 2**53, 2**63, 2**64 - 2048],
        ),
        (
            "uint64",
            "float64",
            [3, 2**53, 2**63, 2**64 - 2048],
            [3.0, 2.0**53, 2.0**63, 2.0**64 - 2048],
        ),
        ("float64", "float32", [0.1, 1e300, 0, 1], [0.1, np.inf, 0, 1]),
    ],
)
def test_a_cast_has_the_expected_value(
    dtype: str, to: str, values: list[float], expected: list[float]
) -> None:
    got = run(chain(Cast(to, read("A", v("i"), dtype=dtype)), to, A=dtype),
              {"A": np.array(values, dtype)})["O"]  # fmt: skip
    np.testing.assert_array_equal(got, np.array(expected, to))


@pytest.mark.parametrize(
    "fn",
    ["exp", "log", "tanh", "sqrt", "neg", "abs", "floor", "ceil", "round", "trunc", "sin", "cos"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_functions_keep_the_dtype(fn: str, dtype: str) -> None:
    a = np.array([0.25, 1.5, 2, 3], dtype)
    got = run(chain(Call(fn, read("A", v("i"), dtype=dtype)), dtype, A=dtype), {"A": a})["O"]
    oracle = {"neg": np.negative, "round": np.rint}.get(fn) or getattr(np, fn)
    eps = float(np.finfo(dtype).eps)  # NumPy's array and scalar loops may differ by an ulp
    np.testing.assert_allclose(got, oracle(a), rtol=2 * eps)
    assert got.dtype == a.dtype


def test_sigmoid_erf_and_rsqrt_equal_numpy() -> None:
    a = np.array([-1, 0.5, 1, 4], F32)
    for fn, expected in [
        ("sigmoid", 1 / (1 + np.exp(-a.astype(float)))),
        ("erf", np.array([-0.84270079, 0.52049988, 0.84270079, 0.99999998])),
        ("rsqrt", np.abs(a).astype(float) ** -0.5),
    ]:
        arg = Call("abs", read("A", v("i"))) if fn == "rsqrt" else read("A", v("i"))
        got = run(chain(Call(fn, arg), "float32", A="float32"), {"A": a})["O"]
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_index_values_bools_and_floor_division() -> None:
    i = v("i")
    odd = Binary("ne", Binary("mod", i, c(2)), c(0))
    either = Binary("or", odd, Call("not", lt(i, c(2))))
    assert run(chain(either, "bool"), {})["O"].tolist() == [False, True, True, True]
    down = Binary("floordiv", Binary("sub", i, c(3)), c(2))
    assert run(chain(down, "int64"), {})["O"].tolist() == [-2, -1, -1, 0]
    cube = Select(lt(i, c(2)), Binary("mul", i, Binary("mul", i, i)), c(9))
    assert run(chain(Cast("float32", cube), "float32"), {})["O"].tolist() == [0, 1, 9, 9]


@pytest.mark.parametrize(
    ("combiner", "start", "expected"),
    [("sum", 0.0, 10), ("prod", 1.0, 24), ("max", -9.0, 4), ("min", 9.0, 1)],
)
def test_a_reduction_with_each_combiner_has_the_expected_value(
    combiner: str, start: float, expected: float
) -> None:
    out = buffer("O", scope=Scope.OUTPUT)
    prog = program(
        (buffer("A", 4, scope=Scope.INPUT), out),
        Seq(
            (
                store("O", (), f32(start)),
                For("k", c(4), store("O", (), read("A", v("k")), combiner)),
            )
        ),
    )
    a = np.array([3, 1, 4, 2], F32)
    assert run(prog, {"A": a})["O"] == expected
    if combiner in ("max", "min"):
        a[1] = np.nan
        assert np.isnan(run(prog, {"A": a})["O"])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'A' is missing"),
        ({"A": np.zeros(3, F32)}, r"is float32\[3\], expected float32\[4\]"),
        ({"A": np.zeros(4)}, r"is float64\[4\], expected float32\[4\]"),
    ],
)
def test_inputs_are_checked(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run(chain(read("A", v("i")), "float32", A="float32"), inputs)


def test_a_variable_does_not_outlive_its_loop() -> None:
    body = Seq((For("i", c(2), store("O", (v("i"),), f32(1))), store("O", (v("i"),), f32(2))))
    with pytest.raises(LoweringError, match="nothing binds i"):
        run(program((buffer("O", 2, scope=Scope.OUTPUT),), body), {})


def test_two_buffers_are_stored_at_once() -> None:
    both = Store(("V", "I"), (v("i"),), (f32(1.5), Cast("int32", v("i"))))
    bufs = (
        buffer("V", 2, scope=Scope.OUTPUT),
        buffer("I", 2, scope=Scope.OUTPUT, dtype="int32"),
    )
    got = run(program(bufs, For("i", c(2), both)), {}, strict=True)
    assert (got["V"].tolist(), got["I"].tolist()) == ([1.5, 1.5], [0, 1])
