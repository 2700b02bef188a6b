"""Small LLVM texts for the NVPTX target."""

from ansorpy.codegen.simt.launch import Launch, SimtCode

_HEAD = """target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.fma.f32(float, float, float)
"""

# y[i] = x[i] * x[i] + y[i], 128 threads a block.
SQUARES = f"""{_HEAD}
define ptx_kernel void @phase0(ptr addrspace(1) noalias %x, ptr addrspace(1) noalias %y) {{
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %block, 128
  %i = add i32 %first, %tid
  %far = zext i32 %i to i64
  %from = getelementptr float, ptr addrspace(1) %x, i64 %far
  %to = getelementptr float, ptr addrspace(1) %y, i64 %far
  %a = load float, ptr addrspace(1) %from
  %b = load float, ptr addrspace(1) %to
  %sum = call float @llvm.fma.f32(float %a, float %a, float %b)
  store float %sum, ptr addrspace(1) %to
  ret void
}}
"""


def row_products(steps: int, sums: int) -> SimtCode:
    """Return a kernel of 64 threads: `sums` sums over 64 * `steps` numbers, one copy at a time.

    Each step copies 64 numbers to shared memory, 16 bytes per thread of the first 16, and every
    thread multiplies each of them by `sums` numbers of its own.
    """
    lines = [_HEAD, "@S = internal addrspace(3) global [64 x float] undef, align 16"]
    lines += [
        "define ptx_kernel void @phase0(ptr addrspace(1) %x, ptr addrspace(1) noalias %y) {",
        "entry:",
        "  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
        "  %quad = and i32 %tid, 15",
        "  %slot = mul i32 %quad, 4",
        "  %to = getelementptr float, ptr addrspace(3) @S, i32 %slot",
        "  br label %loop",
        "loop:",
        "  %k = phi i32 [ 0, %entry ], [ %next, %loop ]",
    ]
    lines += [f"  %acc{i} = phi float [ 0.0, %entry ], [ %s{i}_63, %loop ]" for i in range(sums)]
    lines += [
        "  %base = mul i32 %k, 64",
        "  %at = add i32 %base, %slot",
        "  %from = getelementptr float, ptr addrspace(1) %x, i32 %at",
        "  %got = load <4 x float>, ptr addrspace(1) %from, align 16",
        "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)",
        "  store <4 x float> %got, ptr addrspace(3) %to, align 16",
        "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)",
        "  %own = uitofp i32 %tid to float",
    ]
    for j in range(64):
        lines.append(f"  %p{j} = getelementptr float, ptr addrspace(3) @S, i32 {j}")
        lines.append(f"  %v{j} = load float, ptr addrspace(3) %p{j}")
        for i in range(sums):
            before = f"%s{i}_{j - 1}" if j else f"%acc{i}"
            lines.append(
                f"  %s{i}_{j} = call float @llvm.fma.f32(float %v{j}, float {before}, float %own)"
            )
    lines += [
        "  %next = add i32 %k, 1",
        f"  %more = icmp ult i32 %next, {steps}",
        "  br i1 %more, label %loop, label %out",
        "out:",
    ]
    for i in range(sums):
        lines.append(f"  %o{i} = add i32 %tid, {64 * i}")
        lines.append(f"  %q{i} = getelementptr float, ptr addrspace(1) %y, i32 %o{i}")
        lines.append(f"  store float %s{i}_63, ptr addrspace(1) %q{i}")
    lines += ["  ret void", "}"]
    return SimtCode(("\n".join(lines),), (Launch("phase0", 1, 64, 256),), ())
