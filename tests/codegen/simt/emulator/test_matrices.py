"""Matrix instructions under the emulator: layouts, sums, rounding, and refusals."""

from typing import Final

import numpy as np
import pytest

from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.errors import RunError
from tests.codegen.simt.emulator.fragments import (
    DEPTH,
    LANES,
    LDMATRIX,
    LDMATRIX_TRANS,
    MMA,
    Array,
    at,
    bits,
    kernel,
    ldmatrix,
    mma,
    ran,
    sums_of,
    words_of,
)

APART: Final = (
    "cannot emulate phase0 because the threads of a warp are not all at one matrix instruction;"
    " expected 32 of them at it"
)


def product(kind: str, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> SimtCode:
    """Return a kernel of one product of 6 words per thread from `a`, with 4 sums from `b`.

    Args:
        order: the words that take the places of the six.
    """
    body = "  %w = mul i32 %t, 6\n  %f = mul i32 %t, 4\n"
    for k in range(6):
        body += f"  %i{k} = add i32 %w, {k}\n" + at(1, "%a", f"%i{k}", f"p{k}")
        body += f"  %w{k} = load i32, ptr addrspace(1) %p{k}\n"
    for k in range(4):
        body += f"  %j{k} = add i32 %f, {k}\n" + at(1, "%b", f"%j{k}", f"q{k}", "float")
        body += f"  %s{k} = load float, ptr addrspace(1) %q{k}\n"
    body += mma(kind, "d", [f"%w{k}" for k in order], [f"%s{k}" for k in range(4)])
    for k in range(4):
        body += at(1, "%c", f"%j{k}", f"r{k}", "float")
        body += f"  store float %d{k}, ptr addrspace(1) %r{k}\n"
    return kernel(body)


def whole_numbers(kind: str) -> tuple[Array, Array, Array]:
    """Return A, B and C of whole numbers: products and sums are exact."""
    draw, depth = np.random.default_rng(1), DEPTH[kind]
    shapes = ((16, depth), (depth, 8), (16, 8))
    a, b, c = (draw.integers(-99, 100, shape).astype(np.float32) for shape in shapes)
    return a, b, c


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("kind", MMA)
def test_a_product_is_exact_in_whole_numbers(kind: str, logged: bool, backwards: bool) -> None:
    a, b, c = whole_numbers(kind)
    found = ran(product(kind), words_of(kind, a, b), bits(sums_of(c)), logged, backwards)
    np.testing.assert_array_equal(found[:128], bits(sums_of(a @ b + c)).ravel())


@pytest.mark.parametrize(
    "order", [(0, 2, 1, 3, 4, 5), (1, 0, 2, 3, 4, 5), (0, 1, 2, 3, 5, 4), (0, 1, 3, 2, 4, 5)]
)
@pytest.mark.parametrize("kind", MMA)
def test_swapped_registers_give_another_product(kind: str, order: tuple[int, ...]) -> None:
    a, b, c = whole_numbers(kind)
    found = ran(product(kind, order), words_of(kind, a, b), bits(sums_of(c)))
    assert (found[:128] != bits(sums_of(a @ b + c)).ravel()).any()


def test_the_low_bits_of_tf32_inputs_are_left_out() -> None:
    """The hardware reads 10 bits of a mantissa; it does not round."""
    draw = np.random.default_rng(2)
    a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((16, 8), (8, 8)))
    given = words_of("tf32", a, b)
    zero = np.zeros(128, np.uint32)
    short = (given & np.uint32(0xFFFFE000)).astype(np.uint32)
    assert (short != given).any()
    found = ran(product("tf32"), given, zero)
    np.testing.assert_array_equal(found, ran(product("tf32"), short, zero))
    x, y = (
        (bits(one) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for one in (a, b)
    )
    near = sums_of(x @ y).ravel()
    bound = 8 * 2.0**-24 * sums_of(abs(x) @ abs(y)).ravel()
    assert (abs(found[:128].view(np.float32) - near) <= bound).all()


@pytest.mark.parametrize("kind", MMA)
def test_nan_and_infinity_pass_through_a_product(kind: str) -> None:
    a, b, c = whole_numbers(kind)
    b[b == 0] = 1.0
    a[3, 5], a[9, 1] = np.nan, np.inf
    found = ran(product(kind), words_of(kind, a, b), bits(sums_of(c)))[:128].view(np.float32)
    with np.errstate(invalid="ignore"):  # NumPy warns of the NaN
        np.testing.assert_array_equal(found, sums_of(a @ b + c).ravel())


def rows(trans: bool) -> SimtCode:
    """Return a kernel that loads four matrices of shared memory, filled from `a`."""
    body = "  %f = mul i32 %t, 4\n" + at(1, "%a", "%f", "from") + at(3, "@s", "%f", "row")
    body += "  %v = load <4 x i32>, ptr addrspace(1) %from\n"
    body += "  store <4 x i32> %v, ptr addrspace(3) %row\n"
    body += ldmatrix("row", "d", trans)
    for k in range(4):
        body += f"  %j{k} = add i32 %f, {k}\n" + at(1, "%c", f"%j{k}", f"r{k}")
        body += f"  store i32 %d{k}, ptr addrspace(1) %r{k}\n"
    return kernel(body)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("trans", [False, True])
def test_rows_of_matrices_reach_their_lanes(trans: bool, logged: bool, backwards: bool) -> None:
    """Matrix q has the rows of lanes 8q to 8q + 7; a lane receives two elements of each."""
    given = np.random.default_rng(3).integers(0, 2**16, (4, 8, 8), np.uint16)
    found = ran(rows(trans), given, np.zeros(1, np.uint32), logged, backwards)
    expected = np.zeros((32, 4, 2), np.uint16)
    for lane in LANES:
        for q in range(4):
            matrix = given[q].T if trans else given[q]
            expected[lane, q] = matrix[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
    np.testing.assert_array_equal(found[:128].view(np.uint16), expected.ravel())


CONVERTED: Final = """\
  %from = getelementptr float, ptr addrspace(1) %a, i32 %t
  %from2 = getelementptr float, ptr addrspace(1) %b, i32 %t
  %x = load float, ptr addrspace(1) %from
  %y = load float, ptr addrspace(1) %from2
  %pair = call <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float %x, float %y)
  %word = bitcast <2 x bfloat> %pair to i32
  %short = call i32 @llvm.nvvm.f2tf32.rna(float %x)
  %to = getelementptr i32, ptr addrspace(1) %c, i32 %t
  store i32 %word, ptr addrspace(1) %to
  %u = add i32 %t, 1024
  %to2 = getelementptr i32, ptr addrspace(1) %c, i32 %u
  store i32 %short, ptr addrspace(1) %to2
"""


def floats(words: Array) -> Array:
    """Return words as f32 values."""
    return words.view(np.float32)


def nearest(values: Array, low_bits: int, to_even: bool) -> Array:
    """Return the words of f32 values at the nearest value without the low bits, by distance."""
    step = np.uint32(1 << low_bits)
    below = bits(values) & ~(step - np.uint32(1))
    above = below + step
    # An infinity stands for the next value of the format, of one exponent more.
    with np.errstate(invalid="ignore"):
        exact, low, high = (x.astype(np.float64) for x in map(floats, (values, below, above)))
        high = np.where(np.isinf(high), np.copysign(2.0**128, high), high)
        near, far = abs(exact - low), abs(exact - high)
    odd = (below >> np.uint32(low_bits) & np.uint32(1)).astype(bool)
    up = (far < near) | ((far == near) & (odd if to_even else True))
    return np.where(up & np.isfinite(values), above, below).astype(np.uint32)


def test_conversions_round_as_the_instructions_do() -> None:
    """bf16 to nearest even, tf32 to nearest and ties away from zero; NaN has one form."""
    draw = np.random.default_rng(4).integers(0, 2**32, 1024, np.uint32)
    draw[:8] = 0x3F808000, 0x3F818000, 0x3F801000, 0xBF803000, 0x7F7FFFFF, 0xFF800000, 1, 0x8000
    draw[8:10] = 0x7FC00001, 0xFF800001
    values = draw.view(np.float32)
    nan = np.isnan(values)
    assert nan.any()
    other = values[::-1].copy()
    found = ran(kernel(CONVERTED, threads=1024), values, other)
    short, tf32 = found[:1024], found[1024:2048]
    upper = np.where(nan, 0x7FFF, nearest(values, 16, to_even=True) >> 16)
    np.testing.assert_array_equal(short >> 16, upper)
    np.testing.assert_array_equal(short & 0xFFFF, upper[::-1])
    np.testing.assert_array_equal(tf32, np.where(nan, 0x7FFFFFFF, nearest(values, 13, False)))


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize(
    "split",
    [
        "  %odd = icmp eq i32 %t, 7\n  br i1 %odd, label %out, label %on\nout:\n  ret void\non:\n",
        "  %odd = icmp eq i32 %t, 7\n  br i1 %odd, label %out, label %on\nout:\n"
        + ldmatrix("row", "e", False)
        + "  ret void\non:\n",
    ],
    ids=["ended", "elsewhere"],
)
def test_a_warp_that_is_not_whole_is_refused(split: str, logged: bool) -> None:
    body = at(3, "@s", "0", "row") + split + ldmatrix("row", "d", True)
    with pytest.raises(RunError) as refusal:
        ran(kernel(body), np.zeros(1, np.uint32), np.zeros(1, np.uint32), logged)
    assert str(refusal.value) == APART


def test_a_warp_of_fewer_threads_is_refused() -> None:
    code = kernel(at(3, "@s", "0", "row") + ldmatrix("row", "d", True), threads=48)
    with pytest.raises(RunError) as refusal:
        ran(code, np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    assert str(refusal.value) == APART


@pytest.mark.parametrize("name", [LDMATRIX, LDMATRIX_TRANS])
def test_a_row_outside_of_shared_memory_is_an_error(name: str) -> None:
    body = at(3, "@s", "4096", "row") + ldmatrix("row", "d", name == LDMATRIX_TRANS)
    with pytest.raises(RunError) as refusal:
        ran(kernel(body), np.zeros(1, np.uint32), np.zeros(1, np.uint32), logged=True)
    assert "a thread reads or writes outside of a buffer" in str(refusal.value)
