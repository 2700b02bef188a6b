"""Stack and register poisoning: fill both with values that no right kernel relies on.

A kernel's scratch lies there, and fresh stack is zero, as idle registers often are: a kernel that
forgets to start a sum would look right.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import llvmlite.binding as llvm

from ansorpy.host_jit import compile_here

DEPTH_BYTES: Final = 1 << 20  # bytes; limit of the scratch memory of one task
PATTERNS: Final = (0xFF, 0xA5)  # NaN, -1; then a small number, a large negative integer

_IR: Final = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @scribble(i8 %byte) {{
  %place = alloca [{depth} x i8], align 64
  call void @llvm.memset.p0.i64(ptr %place, i8 %byte, i64 {depth}, i1 true)
  {registers}
  ret void
}}
"""


@cache
def scribbler() -> Callable[[int], None]:
    """Return a function that fills the stack below its caller with a byte, registers with ones.

    The code between it and the kernel is scalar, and leaves most of them as they are.
    """
    host = llvm.get_host_cpu_features()
    text = _IR.format(depth=DEPTH_BYTES, registers=_registers(host))
    # Without it LLVM clears the registers on return.
    engine = compile_here(text, features="-vzeroupper" if host.get("avx") else "")
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint8)(engine.get_function_address("scribble"))

    def scribble(byte: int, _alive: object = engine) -> None:
        function(byte)

    return scribble


def _registers(host: "dict[str, bool]") -> str:
    """Return inline assembly that sets all bits of every vector register; x86 only."""
    if host.get("avx512f"):
        lines = [f"vpternlogd $$255, %zmm{n}, %zmm{n}, %zmm{n}" for n in range(32)]
    elif host.get("avx"):
        lines = [f"vcmpps $$15, %ymm{n}, %ymm{n}, %ymm{n}" for n in range(16)]
    else:
        return ""
    clobbers = ",".join(f"~{{xmm{n}}}" for n in range(16))
    return f'call void asm sideeffect "{"; ".join(lines)}", "{clobbers}"()'
