"""Explicit SIMD for numba: one operation on a whole register tile is one line of text.

Start with `kinds` (what the text means), then `operators` (how numba sees it). The same modules,
joined in the order of MODULES, stand at the head of every kernel file.
"""

MODULES = (
    "kinds", "text", "arithmetic", "functions", "values", "memory", "transpose", "strided", "dots",
    "matrices", "expansion", "operators",
)  # fmt: skip
