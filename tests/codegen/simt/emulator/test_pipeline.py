"""A product of matrices with copies, matrices and products in stages, and its mutants."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest

from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.errors import RunError
from tests.codegen.simt.emulator.fragments import (
    BARRIER,
    BUFFER_WORDS,
    COMMIT,
    LDMATRIX,
    LDMATRIX_TRANS,
    Array,
    at,
    bf16,
    bits,
    copy,
    kernel,
    ldmatrix,
    mma,
    ran,
    wait,
)
from tests.emulation.log import LoggedKernel

ROWS, COLUMNS, STEP = 32, 16, 16  # extents of C, and of k in one step; two warps of 16 rows
STEPS, STAGES = 4, 2
PADDED, PLAIN = 24, 16  # elements from row to row in shared memory


def product(pitch: int = PADDED, stages: int = STAGES) -> SimtCode:
    """Return a kernel of A (32, 64) by B (64, 16), both bf16 and row-major, with sums in f32."""
    a_bytes, b_bytes = 2 * ROWS * pitch, 2 * STEP * pitch
    body = """\
  %warp = lshr i32 %t, 5
  %lane = and i32 %t, 31
  %low = and i32 %t, 15
  %upper = lshr i32 %lane, 4
  %right = mul i32 %upper, 8
  %top = mul i32 %warp, 16
  %own = add i32 %top, %low
  %ar = lshr i32 %t, 1
  %ah = and i32 %t, 1
  %ac = mul i32 %ah, 8
  %br = lshr i32 %t, 2
  %bq = and i32 %t, 3
  %bc = mul i32 %bq, 4
"""

    def start(step: int) -> str:
        stage = step % stages * (a_bytes + b_bytes)
        return (
            element("%ar", STEPS * STEP, "%ac", 2 * STEP * step, f"af{step}", 1, "%a")
            + element("%ar", pitch, "%ac", stage, f"at{step}", 3, "@s")
            + copy(f"at{step}", f"af{step}", 16)
            + element("%br", COLUMNS, "%bc", 2 * STEP * COLUMNS * step, f"bf{step}", 1, "%b")
            + element("%br", pitch, "%bc", stage + a_bytes, f"bt{step}", 3, "@s")
            + copy(f"bt{step}", f"bf{step}", 8)
        )

    for step in range(stages - 1):
        body += start(step) + COMMIT
    sums = [["0.0"] * 4, ["0.0"] * 4]
    for step in range(STEPS):
        body += wait(stages - 2) + BARRIER
        if step + stages - 1 < STEPS:
            body += start(step + stages - 1)
        body += COMMIT
        stage = step % stages * (a_bytes + b_bytes)
        body += element("%own", pitch, "%right", stage, f"ra{step}", 3, "@s")
        body += ldmatrix(f"ra{step}", f"x{step}", trans=False)
        body += element("%low", pitch, "%right", stage + a_bytes, f"rb{step}", 3, "@s")
        body += ldmatrix(f"rb{step}", f"y{step}", trans=True)
        for half in (0, 1):
            words = [f"%x{step}{k}" for k in range(4)]
            words += [f"%y{step}{2 * half + k}" for k in range(2)]
            body += mma("bf16", f"d{step}{half}", words, sums[half])
            sums[half] = [f"%d{step}{half}{k}" for k in range(4)]
    body += "  %g = lshr i32 %lane, 2\n  %q = and i32 %t, 3\n  %q2 = mul i32 %q, 2\n"
    body += "  %first = add i32 %top, %g\n"
    for half in (0, 1):
        for k in range(4):
            place = 4 * (COLUMNS * 8 * (k >> 1) + 8 * half + (k & 1))
            name = f"c{half}{k}"
            body += element("%first", COLUMNS, "%q2", place, name, 1, "%c", 4)
            body += f"  store float {sums[half][k]}, ptr addrspace(1) %{name}\n"
    return kernel(body, threads=64)


def element(
    row: str, pitch: int, column: str, start: int, name: str, space: int, base: str, size: int = 2
) -> str:
    """Return lines with the address of an element of `size` bytes, after `start` bytes."""
    return (
        f"  %{name}r = mul i32 {row}, {pitch}\n  %{name}e = add i32 %{name}r, {column}\n"
        f"  %{name}b = mul i32 %{name}e, {size}\n  %{name}i = add i32 %{name}b, {start}\n"
        + at(space, base, f"%{name}i", name, "i8")
    )


def inputs() -> tuple[Array, Array]:
    """Return A and B of whole numbers that bf16 holds."""
    draw = np.random.default_rng(6)
    shapes = ((ROWS, STEPS * STEP), (STEPS * STEP, COLUMNS))
    a, b = (draw.integers(-99, 100, shape).astype(np.float32) for shape in shapes)
    return a, b


def wrong(code: SimtCode, backwards: bool = False) -> bool:
    """Return whether a kernel gives another product than NumPy."""
    a, b = inputs()
    found = ran(code, bf16(a), bf16(b), backwards=backwards)[: ROWS * COLUMNS]
    return not np.array_equal(found, bits(a @ b).ravel())


def caught(code: SimtCode, backwards: bool = False) -> bool:
    """Return whether the log refuses a kernel, or has a race."""
    arrays = [np.zeros(BUFFER_WORDS, np.uint32) for _ in range(3)]
    loaded = LoggedKernel(code)
    try:
        return bool(loaded.log([array.ctypes.data for array in arrays], backwards).races)
    except RunError as error:
        return "the bytes of a copy under way" in str(error)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_product_in_stages_is_exact_and_has_no_race(stages: int, backwards: bool) -> None:
    code = product(stages=stages)
    assert not wrong(code, backwards)
    assert not caught(code, backwards)


@pytest.mark.parametrize(("pitch", "waves"), [(PADDED, 1), (PLAIN, 2)])
def test_rows_of_matrices_that_share_banks_are_counted(pitch: int, waves: int) -> None:
    """Eight rows of 16 bytes go together; without padding, rows 0 and 4 meet in their banks."""
    arrays = [np.zeros(BUFFER_WORDS, np.uint32) for _ in range(3)]
    log = LoggedKernel(product(pitch)).log([array.ctypes.data for array in arrays])
    loads = [
        row
        for row in log.launches[0].traffic
        if row.access.space == "shared" and not row.access.store
    ]
    assert len(loads) == 2 * STEPS
    assert {(row.requests, row.cost, row.least) for row in loads} == {(2, 8 * waves, 8)}


def replaced(code: SimtCode, old: str, new: str) -> Iterator[SimtCode]:
    """Yield a kernel for each place of a part of its text, with another part in it."""
    text = code.texts[0]
    place = text.find(old, text.index("define "))
    assert place > 0
    while place > 0:
        changed = text[:place] + new + text[place + len(old) :]
        yield SimtCode((changed,), code.launches, code.buffers)
        place = text.find(old, place + 1)


def test_every_missing_wait_is_caught() -> None:
    """A later wait comes too late; the product is wrong, and the log refuses it."""
    mutants = list(replaced(product(), wait(0), ""))
    assert len(mutants) == STEPS
    for mutant in mutants:
        for backwards in (False, True):
            assert wrong(mutant, backwards)
            assert caught(mutant, backwards)


def test_every_wait_for_too_few_groups_is_caught() -> None:
    for mutant in replaced(product(stages=3), wait(1), wait(2)):
        assert wrong(mutant)
        assert caught(mutant)


def test_every_missing_barrier_is_caught() -> None:
    mutants = list(replaced(product(), BARRIER, ""))
    assert len(mutants) == STEPS
    for mutant in mutants:
        for backwards in (False, True):
            assert caught(mutant, backwards)


SWAPS: Final = {
    "columns": (f"@{LDMATRIX_TRANS}(", f"@{LDMATRIX}("),
    "rows": (f"@{LDMATRIX}(", f"@{LDMATRIX_TRANS}("),
    "a": ("i32 %x01, i32 %x02", "i32 %x02, i32 %x01"),
    "b": ("i32 %y20, i32 %y21", "i32 %y21, i32 %y20"),
    "sums": ("float %d001, float %d002", "float %d002, float %d001"),
}


@pytest.mark.parametrize("name", SWAPS)
def test_every_swapped_fragment_is_caught(name: str) -> None:
    for mutant in replaced(product(), *SWAPS[name]):
        assert wrong(mutant)
