"""Registers of matrix instructions as the PTX manual lays them out, and kernels made by hand.

The layouts follow the formulas of the manual (groupID = lane >> 2, threadID_in_group = lane % 4),
one loop per formula, and share nothing with the emulator.
"""

from typing import Any, Final

import numpy as np

from ansorpy.codegen.simt.emulator import build_texts, load
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope
from tests.emulation.log import LoggedKernel

Array = np.ndarray[Any, Any]
BUFFER_WORDS: Final = 4096
LANES: Final = range(32)
WORDS: Final = "{ i32, i32, i32, i32 }"
FLOATS: Final = "{ float, float, float, float }"
MMA: Final = {
    "bf16": "llvm.nvvm.mma.m16n8k16.row.col.bf16",
    "tf32": "llvm.nvvm.mma.m16n8k8.row.col.tf32",
}
DEPTH: Final = {"bf16": 16, "tf32": 8}
LDMATRIX: Final = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3"
LDMATRIX_TRANS: Final = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3"
_MMA_TAKES: Final = ", ".join(["i32"] * 6 + ["float"] * 4)
COMMIT: Final = "  call void @llvm.nvvm.cp.async.commit.group()\n"
BARRIER: Final = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
DECLARED: Final = (
    'target triple = "nvptx64-nvidia-cuda"\n'
    + "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
    + "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)\n"
    + "".join(f"declare {FLOATS} @{name}({_MMA_TAKES})\n" for name in MMA.values())
    + "".join(f"declare {WORDS} @{name}(ptr addrspace(3))\n" for name in (LDMATRIX, LDMATRIX_TRANS))
    + "".join(
        f"declare void @llvm.nvvm.cp.async.{name}(ptr addrspace(3), ptr addrspace(1))\n"
        for name in ("ca.shared.global.4", "ca.shared.global.8", "cg.shared.global.16")
    )
    + "".join(
        f"declare void @llvm.nvvm.cp.async.{name}.s(ptr addrspace(3), ptr addrspace(1), i32)\n"
        for name in ("ca.shared.global.4", "ca.shared.global.8", "cg.shared.global.16")
    )
    + "declare void @llvm.nvvm.cp.async.commit.group()\n"
    "declare void @llvm.nvvm.cp.async.wait.group(i32 immarg)\n"
    "declare void @llvm.nvvm.cp.async.wait.all()\n"
    "declare <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float, float)\n"
    "declare i32 @llvm.nvvm.f2tf32.rna(float)\n"
)
_HEAD: Final = """\
define ptx_kernel void @phase0(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""


def kernel(body: str, threads: int = 32, shared: int = 4096) -> SimtCode:
    """Return a kernel of one block between three buffers of words; `c` is the output."""
    scopes = {"a": Scope.INPUT, "b": Scope.INPUT, "c": Scope.OUTPUT}
    buffers = tuple(
        Buffer(n, "int32", (Const(BUFFER_WORDS),), scope) for n, scope in scopes.items()
    )
    array = f"@s = internal addrspace(3) global [{shared} x i32] undef, align 16\n"
    text = f"{DECLARED}{array}{_HEAD}{body}  ret void\n}}\n"
    return SimtCode((text,), (Launch("phase0", 1, threads, 4 * shared),), buffers)


def at(space: int, base: str, index: str, name: str, kind: str = "i32") -> str:
    """Return a line with a pointer to an element."""
    return f"  %{name} = getelementptr {kind}, ptr addrspace({space}) {base}, i32 {index}\n"


def wait(groups: int) -> str:
    """Return a line that waits until at most `groups` are under way."""
    return f"  call void @llvm.nvvm.cp.async.wait.group(i32 {groups})\n"


def copy(to: str, start: str, size: int, read: str = "") -> str:
    """Return a line that starts a copy; `read`: the value of the bytes that it reads."""
    cache = "cg" if size == 16 else "ca"
    some, taken = (".s", f", i32 {read}") if read else ("", "")
    return (
        f"  call void @llvm.nvvm.cp.async.{cache}.shared.global.{size}{some}("
        f"ptr addrspace(3) %{to}, ptr addrspace(1) %{start}{taken})\n"
    )


def parts(kind: str, name: str) -> str:
    """Return lines with the four results of an instruction, `%NAME0` to `%NAME3`."""
    return "".join(f"  %{name}{k} = extractvalue {kind} %{name}, {k}\n" for k in range(4))


def ldmatrix(pointer: str, name: str, trans: bool) -> str:
    """Return lines with the registers of four matrices."""
    function = LDMATRIX_TRANS if trans else LDMATRIX
    call = f"  %{name} = call {WORDS} @{function}(ptr addrspace(3) %{pointer})\n"
    return call + parts(WORDS, name)


def mma(kind: str, name: str, words: list[str], sums: list[str]) -> str:
    """Return lines with the four results of a product."""
    given = ", ".join([*(f"i32 {w}" for w in words), *(f"float {s}" for s in sums)])
    return f"  %{name} = call {FLOATS} @{MMA[kind]}({given})\n" + parts(FLOATS, name)


def bits(values: Array) -> Array:
    """Return f32 values as words."""
    return np.asarray(values, np.float32).view(np.uint32)


def bf16(values: Array) -> Array:
    """Return the upper halves of f32 values, as 16-bit words."""
    return (bits(values) >> 16).astype(np.uint16)


def ran(code: SimtCode, a: Array, b: Array, logged: bool = False, backwards: bool = False) -> Array:
    """Return the words of the output of a kernel; the inputs are words."""
    loaded = LoggedKernel(code) if logged else load(build_texts(code))
    arrays = [np.zeros(BUFFER_WORDS, np.uint32) for _ in range(3)]
    for array, given in zip(arrays, (a, b), strict=False):
        words = given.ravel().view(np.uint32)
        array[: words.size] = words
    run = loaded.run_backwards if backwards else loaded.run
    run([array.ctypes.data for array in arrays])
    return arrays[2]


def words_of(kind: str, a: Array, b: Array) -> Array:
    """Return the registers of A (16, k) and B (k, 8) in f32, one row of 6 words per lane."""
    found = np.zeros((32, 6), np.uint32)
    for lane in LANES:
        group, thread = lane >> 2, lane % 4
        if kind == "bf16":  # element i of A has a column, and so has element i of B a row
            for i in range(8):
                row = group if i < 2 or 4 <= i < 6 else group + 8
                column = thread * 2 + (i & 1) + (8 if i >= 4 else 0)
                found[lane, i // 2] |= int(bf16(a[row, column])) << 16 * (i & 1)
            for i in range(4):
                row = thread * 2 + (i & 1) + (8 if i >= 2 else 0)
                found[lane, 4 + i // 2] |= int(bf16(b[row, group])) << 16 * (i & 1)
        else:
            for i in range(4):
                row = group if i in (0, 2) else group + 8
                found[lane, i] = bits(a[row, thread + (4 if i >= 2 else 0)])
            for i in range(2):
                found[lane, 4 + i] = bits(b[thread + 4 * i, group])
    return found


def sums_of(c: Array) -> Array:
    """Return the registers of C (16, 8), one row of 4 values per lane."""
    found = np.zeros((32, 4), c.dtype)
    for lane in LANES:
        for i in range(4):
            found[lane, i] = c[(lane >> 2) + (8 if i >= 2 else 0), lane % 4 * 2 + (i & 1)]
    return found
