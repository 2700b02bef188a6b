"""LLVM texts that go wrong on a GPU, and right ones."""

from typing import Final

from ansorpy.codegen.simt.device.kernel import DeviceCode
from ansorpy.codegen.simt.launch import Launch
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope

THREADS: Final = 64
BUFFERS: Final = (
    Buffer("x", "float32", (Const(2 * THREADS),), Scope.INPUT),
    Buffer("y", "float32", (Const(2 * THREADS),), Scope.OUTPUT),
)
HEAD: Final = """target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
"""


def doubled(offset: int = 0, name: str = "phase0", given: tuple[str, str] = ("x", "y")) -> str:
    """Return `y[i + offset] = 2 x[i]`, two blocks of 64 threads; `given` are the parameters."""
    return f"""{HEAD}
define ptx_kernel void @{name}(ptr addrspace(1) noalias %{given[0]}, ptr addrspace(1) noalias %{given[1]}) nounwind "nvvm.maxntid"="{THREADS}" {{
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %block, {THREADS}
  %near = add i32 %first, %tid
  %i = zext i32 %near to i64
  %o = add i64 %i, {offset}
  %from = getelementptr float, ptr addrspace(1) %x, i64 %i
  %to = getelementptr float, ptr addrspace(1) %y, i64 %o
  %a = load float, ptr addrspace(1) %from
  %b = fadd float %a, %a
  store float %b, ptr addrspace(1) %to
  ret void
}}
"""  # noqa: E501 - one line of LLVM text


# Half of the threads wait for the others at a barrier, which they never reach.
PARTED: Final = f"""{HEAD}
define ptx_kernel void @phase0(ptr addrspace(1) noalias %x, ptr addrspace(1) noalias %y) {{
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %low = icmp ult i32 %tid, 32
  br i1 %low, label %here, label %there
here:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %out
there:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %out
out:
  ret void
}}
"""
SHARED: Final = doubled().replace(
    "\ndefine", "@S = internal addrspace(3) global [64 x float] undef, align 16\ndefine", 1
)


def code(*texts: str, threads: int = THREADS, blocks: int = 2, shared: int = 0) -> DeviceCode:
    """Return texts as the kernels of a program, for the emulated driver."""
    launches = tuple(Launch("phase0", blocks, threads, shared) for _ in texts)
    return DeviceCode(tuple(text.encode() for text in texts), launches, BUFFERS)
