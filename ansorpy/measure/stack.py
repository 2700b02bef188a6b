"""Fill the stack below the caller, where a kernel's scratch will lie.

Fresh stack is zero, and a kernel that forgets to write zeros into its scratch would look right.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import llvmlite.binding as llvm

DEPTH_BYTES: Final = 1 << 20  # as much as the scratch of one task may take
PATTERNS: Final = (0xFF, 0xA5)  # NaN, -1; then a small number, a large negative integer

_IR: Final = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @scribble(i8 %byte) {{
  %place = alloca [{depth} x i8], align 64
  call void @llvm.memset.p0.i64(ptr %place, i8 %byte, i64 {depth}, i1 true)
  ret void
}}
"""


@cache
def scribbler() -> Callable[[int], None]:
    """Return a function that fills the stack below its caller with a byte."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_IR.format(depth=DEPTH_BYTES))
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint8)(engine.get_function_address("scribble"))

    def scribble(byte: int, _alive: object = (engine, module)) -> None:
        function(byte)

    return scribble
