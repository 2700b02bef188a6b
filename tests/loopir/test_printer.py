from ansorpy.loopir.nodes import For, LoopKind, Seq, Store
from ansorpy.loopir.printer import headline, stmt_text, text
from tests.loopir.build import c, read, v
from tests.loopir.samples import argmax, padded_shift, tiled_matmul

TILED = """\
program p
  input A: float32[5, 4]
  input B: float32[4, 7]
  output C: float32[5, 7]
phase p0:
  for i0 in 3 parallel:
    for j0 in 2:
      alloc register acc: float32[2, 4]:
        tile i1:2 lane j1:4: acc[i1, j1] = 0.0
        for k in 4:
          tile i1:2 lane j1:4 if (((i0 * 2) + i1) < 5) and (((j0 * 4) + j1) < 7): \
acc[i1, j1] += A[((i0 * 2) + i1), k] * B[k, ((j0 * 4) + j1)]
        tile i1:2 lane j1:4 if (((i0 * 2) + i1) < 5) and (((j0 * 4) + j1) < 7): \
C[(i0 * 2) + i1, (j0 * 4) + j1] = acc[i1, j1]
"""

BRANCHES = """\
program p
  input A: float32[3]
  global T: float32[3]
  output O: float32[3]
phase p0:
  for i in 3:
    T[i] = (A[(i - 1)] if (i >= 1) else 0.0)
phase p1:
  for i in 3:
    if (i % 2) == 0:
      O[i] = T[i] * 2.0
    else:
      O[i] = T[i]
"""


def test_a_tiled_program_shows_scopes_kinds_dims_lane_and_mask() -> None:
    assert text(tiled_matmul(5, 7, 4, 2, 4)) == TILED


def test_phases_and_branches_are_printed() -> None:
    assert text(padded_shift(3)) == BRANCHES


def test_a_pair_store_shows_both_places() -> None:
    assert "V[r], I[r] argmax= A[r, j], int32(j)" in text(argmax(2, 3))


def test_the_headline_names_a_statement_in_one_line() -> None:
    copy = Store(("O",), (v("i"),), (read("A", v("i")),), "max")
    loop = For("i", c(4), copy, LoopKind.VECTOR)
    assert headline(loop) == "for i in 4 vector:"
    assert headline(Seq((copy, copy))) == "O[i] max= A[i]"
    assert stmt_text(Seq(())) == "pass"
