"""The SIMD compiler: one store over a register tile to LLVM code.

`tile` is its input, `expansion` the compiler. The search builds the input from loop IR
(`codegen.structured_tile`). A delivered kernel has no loop IR: `parser` reads the input from text,
and `operators` makes it an intrinsic of numba. `simd.py` of a zip is these modules, joined in the
order of MODULES (`codegen.simd_file`).
"""

MODULES = (
    "kinds", "tile", "arithmetic", "functions", "parser", "values", "memory", "transpose",
    "strided", "dots", "matrices", "expansion", "operators",
)  # fmt: skip
