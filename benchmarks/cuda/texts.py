"""Kernels of known work, as LLVM text: the control, multiply-adds, shared memory, copies."""

from dataclasses import dataclass
from typing import Final

from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope

THREADS: Final = 256
CHAINS: Final = 16  # independent sums of a thread, more than an FFMA has cycles
UNROLL: Final = 8
WIDE: Final = 4  # float32 of an access of 16 bytes
_HEAD: Final = """target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.fma.f32(float, float, float)
"""
_WHERE: Final = f"""  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %block, {THREADS}
  %near = add i32 %first, %tid
  %i = zext i32 %near to i64
"""


@dataclass(frozen=True, slots=True)
class Floor:
    """A kernel of known work.

    Args:
        flop: float32 operations, a multiply-add counts as two.
        shared_bytes: bytes read from shared memory.
        memory_bytes: bytes read and written in device memory.
    """

    code: SimtCode
    flop: float = 0.0
    shared_bytes: float = 0.0
    memory_bytes: float = 0.0


def multiply_adds(blocks: int, steps: int) -> Floor:
    """Return a loop of CHAINS independent sums of each thread, `steps` times UNROLL long."""
    body = []
    for u in range(UNROLL):
        for c in range(CHAINS):
            before = f"%s{c}_{u - 1}" if u else f"%acc{c}"
            body.append(
                f"  %s{c}_{u} = call float @llvm.fma.f32(float {before}, float %x, float %y)"
            )
    last = UNROLL - 1
    accs = [f"  %acc{c} = phi float [ %x, %entry ], [ %s{c}_{last}, %loop ]" for c in range(CHAINS)]
    total = ["  %t0 = fadd float %s0_7, 0.0"]
    total += [f"  %t{c} = fadd float %t{c - 1}, %s{c}_{last}" for c in range(1, CHAINS)]
    text = _loop(accs + _counter(steps), body, [*total, *_stored(f"%t{CHAINS - 1}")])
    flop = 2.0 * blocks * THREADS * CHAINS * UNROLL * steps
    return Floor(_code(text, blocks, blocks * THREADS), flop=flop)


def shared_loads(blocks: int, steps: int) -> Floor:
    """Return a loop of loads of 16 bytes of each thread from shared memory, without conflicts."""
    shared = f"@S = internal addrspace(3) global [{THREADS * WIDE} x float] undef, align 16\n"
    before = [
        f"  %slot = mul i32 %tid, {WIDE}",
        "  %own = getelementptr float, ptr addrspace(3) @S, i32 %slot",
    ]
    for k in range(WIDE):
        before += [
            f"  %own{k} = getelementptr float, ptr addrspace(3) %own, i32 {k}",
            f"  store float %x, ptr addrspace(3) %own{k}",
        ]
    before.append("  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
    body = []
    for u in range(UNROLL):  # the address depends on the step, so that no load is hoisted
        body += [
            f"  %n{u} = add i32 %k, {u}",
            f"  %m{u} = add i32 %n{u}, %tid",
            f"  %w{u} = and i32 %m{u}, {THREADS - 1}",
            f"  %q{u} = mul i32 %w{u}, {WIDE}",
            f"  %a{u} = getelementptr float, ptr addrspace(3) @S, i32 %q{u}",
            f"  %v{u} = load <{WIDE} x float>, ptr addrspace(3) %a{u}, align 16",
            f"  %z{u} = fadd <{WIDE} x float> {f'%z{u - 1}' if u else '%sum'}, %v{u}",
        ]
    sums = [f"  %sum = phi <4 x float> [ zeroinitializer, %entry ], [ %z{UNROLL - 1}, %loop ]"]
    total = [f"  %t0 = extractelement <4 x float> %z{UNROLL - 1}, i32 0"]
    for k in range(1, WIDE):
        total += [
            f"  %e{k} = extractelement <4 x float> %z{UNROLL - 1}, i32 {k}",
            f"  %t{k} = fadd float %t{k - 1}, %e{k}",
        ]
    text = _loop(sums + _counter(steps), body, [*total, *_stored("%t3")], before, shared)
    loaded = 4.0 * WIDE * blocks * THREADS * UNROLL * steps
    code = _code(text, blocks, blocks * THREADS, 4 * THREADS * WIDE)
    return Floor(code, shared_bytes=loaded)


def copies(count: int) -> Floor:
    """Return a copy of `count` float32, a multiple of 1024, 16 bytes of a thread."""
    text = (
        _HEAD
        + _define()
        + _WHERE
        + f"""\
  %o = mul i64 %i, {WIDE}
  %from = getelementptr float, ptr addrspace(1) %X, i64 %o
  %to = getelementptr float, ptr addrspace(1) %Y, i64 %o
  %v = load <{WIDE} x float>, ptr addrspace(1) %from, align 16
  store <{WIDE} x float> %v, ptr addrspace(1) %to, align 16
  ret void
}}
"""
    )
    return Floor(_code(text, count // WIDE // THREADS, count), memory_bytes=8.0 * count)


def nothing() -> Floor:
    """Return a kernel that does nothing: the least seconds of a launch."""
    return Floor(_code(_HEAD + _define() + "  ret void\n}\n", 1, 1024))


def _define() -> str:
    return (
        "define ptx_kernel void @phase0(ptr addrspace(1) noalias %X, ptr addrspace(1) noalias %Y)"
        f' nounwind "nvvm.maxntid"="{THREADS}" {{\n'
    )


def _counter(steps: int) -> list[str]:
    return [
        "  %k = phi i32 [ 0, %entry ], [ %next, %loop ]",
        "  %next = add i32 %k, 1",
        f"  %more = icmp ult i32 %next, {steps}",
    ]


def _loop(
    head: list[str],
    body: list[str],
    after: list[str],
    before: list[str] | None = None,
    top: str = "",
) -> str:
    phis = sorted(head, key=lambda line: " phi " not in line)
    start = [
        "  %x = load float, ptr addrspace(1) %X",
        "  %yat = getelementptr float, ptr addrspace(1) %X, i64 1",
        "  %y = load float, ptr addrspace(1) %yat",
        *(before or []),
        "  br label %loop",
        "loop:",
    ]
    end = ["  br i1 %more, label %loop, label %out", "out:", *after, "  ret void", "}", ""]
    lines = [*start, *phis, *body, *end]
    return _HEAD + top + _define() + "entry:\n" + _WHERE + "\n".join(lines)


def _stored(value: str) -> list[str]:
    return [
        "  %to = getelementptr float, ptr addrspace(1) %Y, i64 %i",
        f"  store float {value}, ptr addrspace(1) %to",
    ]


def _code(text: str, blocks: int, count: int, shared_bytes: int = 0) -> SimtCode:
    shape = (Const(max(count, 2)),)
    buffers = (
        Buffer("X", "float32", shape, Scope.INPUT),
        Buffer("Y", "float32", shape, Scope.OUTPUT),
    )
    return SimtCode((text,), (Launch("phase0", blocks, THREADS, shared_bytes),), buffers)
