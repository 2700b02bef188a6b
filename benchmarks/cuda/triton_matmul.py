"""A float32 matmul of Triton with exact products, autotuned; imported if Triton is there."""

from typing import Any

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_warps=warps, num_stages=stages)
    for bm, bn, bk, warps, stages in (
        (128, 128, 16, 8, 2),
        (128, 128, 16, 8, 3),
        (128, 64, 16, 4, 3),
        (64, 128, 16, 4, 3),
        (64, 64, 32, 4, 3),
        (128, 256, 16, 8, 3),
        (32, 64, 32, 4, 4),
    )
]


@triton.autotune(configs=CONFIGS, key=["m", "n", "k"])  # type: ignore[untyped-decorator]
@triton.jit  # type: ignore[untyped-decorator]
def _kernel(
    a: Any, b: Any, c: Any, m: Any, n: Any, k: Any,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803 - names of the configurations
) -> None:  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, k, BK):
        at = first + inner
        left = tl.load(
            a + rows[:, None] * k + at[None, :], (rows[:, None] < m) & (at[None, :] < k), 0.0
        )
        right = tl.load(
            b + at[:, None] * n + columns[None, :], (at[:, None] < k) & (columns[None, :] < n), 0.0
        )
        total = tl.dot(left, right, total, input_precision="ieee")
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total, inside)


def matmul(a: Any, b: Any) -> Any:
    """Return the product of two float32 matrices of the card."""
    (m, k), (_, n) = a.shape, b.shape
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    _kernel[lambda at: (triton.cdiv(m, at["BM"]), triton.cdiv(n, at["BN"]))](a, b, c, m, n, k)
    return c
