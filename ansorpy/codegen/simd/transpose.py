"""In-register transposes."""

from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.simd.arithmetic import Arithmetic
from ansorpy.codegen.simd.kinds import F32, I32, supports

# Instructions of AVX-512 by the first four lanes that they take of two vectors of 16: in every
# block of four lanes they do the same.
UNPACKED: Final[dict[tuple[int, ...], str]] = {
    (0, 16, 1, 17): "vunpcklps", (2, 18, 3, 19): "vunpckhps",
    (0, 1, 16, 17): "vunpcklpd", (2, 3, 18, 19): "vunpckhpd",
}  # fmt: skip


def transpose(a: Arithmetic, rows: list[Any], whole: bool) -> list[Any]:
    """Return the columns of a square of vectors, of 2, 4, 8 ... lanes.

    16 lanes: pairs of 32-bit, then of 64-bit units within 128 bits, then whole 128-bit blocks:
    shuffles that x86 does with an immediate. An index vector would have to live in a register.

    Args:
        whole: all lanes are used; if not, LLVM removes the unused ones.
    """
    n = len(rows)
    if n == 16:
        return transpose_16(a, rows, whole)
    halves = [[q for k in range(h, h + n // 2) for q in (k, n + k)] for h in (0, n // 2)]
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[k], rows[k + n // 2]) for k in range(n // 2)]
        rows = [a.shuffle(x, y, half) for x, y in pairs for half in halves]
    return rows


def transpose_16(a: Arithmetic, rows: list[Any], whole: bool) -> list[Any]:
    """Return the columns of 16 vectors of 16 lanes."""
    shuffle = instruction if whole and closed(a, rows[0].type) else Arithmetic.shuffle
    for step, unit in ((0, (0, 16, 1, 17)), (1, (0, 1, 16, 17))):
        low = [block + q for block in (0, 4, 8, 12) for q in unit]
        high = [k + 2 for k in low]
        done: list[Any] = [None] * 16
        for k in (k for k in range(16) if not k & (1 << step)):
            x, y = rows[k], rows[k + (1 << step)]
            first = k & ~3 | (2 * (k & 1) if step else k & 3)
            done[first], done[first + 1] = shuffle(a, x, y, low), shuffle(a, x, y, high)
        rows = done
    # Row 4 * k + c now holds column c (of every 4) of the rows 4 * k ... in each 128-bit block.
    picks = (
        ((0, 0), (0, 1), (1, 0), (1, 1)), ((0, 2), (0, 3), (1, 2), (1, 3)),
        ((0, 0), (0, 2), (1, 0), (1, 2)), ((0, 1), (0, 3), (1, 1), (1, 3)),
    )  # fmt: skip
    blocks = [[16 * side + 4 * k + q for side, k in pick for q in range(4)] for pick in picks]
    result: list[Any] = [None] * 16
    for c in range(4):
        w, x, y, z = rows[c], rows[4 + c], rows[8 + c], rows[12 + c]
        for part in (0, 1):
            p, q = shuffle(a, w, x, blocks[part]), shuffle(a, y, z, blocks[part])
            result[8 * part + c] = shuffle(a, p, q, blocks[2])
            result[8 * part + 4 + c] = shuffle(a, p, q, blocks[3])
    return result


def closed(a: Arithmetic, kind: Any) -> bool:
    """Return True if the shuffles of a vector type can be instructions, which excludes numba.

    A process that runs delivered kernels only has not initialised LLVM's parser of assembly.
    """
    ours = hasattr(a.b, "features")
    return ours and kind.count == 16 and kind.element in (F32, I32) and supports(a.b, "avx512f")


def instruction(a: Arithmetic, x: Any, y: Any, picks: list[int]) -> Any:
    """Return a shuffle of a transpose as inline assembly, which LLVM does not search through.

    LLVM would try to combine each of the 64 shuffles with earlier ones: 10 ms of the 14 ms of a
    transpose.
    """
    name = UNPACKED.get(tuple(picks[:4]))
    if name is None:
        blocks = [k // 4 for k in picks[::4]]
        bits = sum((block % 4) << (2 * k) for k, block in enumerate(blocks))
        name = f"vshuff32x4 $${bits},"
    kind = ir.FunctionType(x.type, [x.type, y.type])
    return a.b.asm(kind, f"{name} $2, $1, $0", "=v,v,v", [x, y], side_effect=False)
