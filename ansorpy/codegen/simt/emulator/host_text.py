"""Turn the text of a kernel for a GPU into text for this processor.

Special registers, barriers, shuffles, copies and matrix instructions become calls of the runtime;
a name that has no such function is refused, and so are inline assembly and other address spaces.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.codegen.simt.emulator.copies_text import WIDTHS
from ansorpy.codegen.simt.emulator.matrix_text import FOUR_FLOATS, FOUR_WORDS
from ansorpy.codegen.simt.emulator.shared_memory import SharedArray, placed
from ansorpy.errors import BuildError, shown

BYTES: Final = {
    "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8,
}  # fmt: skip
SPACES: Final = {"1": "global", "3": "shared"}  # address spaces

Function = tuple[str, tuple[str, str]]  # name in the runtime, result and arguments

# Functions of NVPTX, and functions of the runtime in their place.
_SHUFFLE: Final = ("i32", "(i32, i32, i32, i32)")
BARRIER: Final = "llvm.nvvm.barrier.cta.sync.aligned.all"
_ROW: Final = (FOUR_WORDS, "(ptr addrspace(3))")
_COPY: Final = ("void", "(ptr addrspace(3), ptr addrspace(1))")
_SOME: Final = ("void", "(ptr addrspace(3), ptr addrspace(1), i32)")  # and the bytes read
_MMA: Final = (FOUR_FLOATS, "(" + ", ".join(["i32"] * 6 + ["float"] * 4) + ")")
FUNCTIONS: Final[Mapping[str, Function]] = {
    BARRIER: ("simt_barrier", ("void", "(i32)")),
    "llvm.nvvm.bar.warp.sync": ("simt_warp_barrier", ("void", "(i32)")),
    "llvm.nvvm.read.ptx.sreg.laneid": ("simt_laneid", ("i32", "()")),
    **{
        f"llvm.nvvm.read.ptx.sreg.{name}.x": (f"simt_{name}", ("i32", "()"))
        for name in ("tid", "ctaid", "ntid", "nctaid")
    },
    **{
        f"llvm.nvvm.shfl.sync.{mode}.i32": (f"simt_shuffle_{mode}", _SHUFFLE)
        for mode in ("idx", "up", "down", "bfly")
    },
    "llvm.nvvm.cp.async.commit.group": ("simt_copy_commit", ("void", "()")),
    "llvm.nvvm.cp.async.wait.group": ("simt_copy_wait", ("void", "(i32)")),
    "llvm.nvvm.cp.async.wait.all": ("simt_copy_wait_all", ("void", "()")),
    "llvm.nvvm.ff2bf16x2.rn": ("simt_bf16x2", ("<2 x bfloat>", "(float, float)")),
    "llvm.nvvm.f2tf32.rna": ("simt_tf32", ("i32", "(float)")),
}
# Functions that take a number of their place in the text before the other arguments.
NUMBERED: Final[Mapping[str, Function]] = {
    **{
        f"llvm.nvvm.cp.async.ca.shared.global.{size}": (f"simt_copy_{size}", _COPY)
        for size in WIDTHS
    },
    "llvm.nvvm.cp.async.cg.shared.global.16": ("simt_copy_16", _COPY),
    **{
        f"llvm.nvvm.cp.async.ca.shared.global.{size}.s": (f"simt_copy_{size}_some", _SOME)
        for size in WIDTHS
    },
    "llvm.nvvm.cp.async.cg.shared.global.16.s": ("simt_copy_16_some", _SOME),
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3": ("simt_ldmatrix", _ROW),
    "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3": ("simt_ldmatrix_trans", _ROW),
    "llvm.nvvm.mma.m16n8k16.row.col.bf16": ("simt_mma_bf16", _MMA),
    "llvm.nvvm.mma.m16n8k8.row.col.tf32": ("simt_mma_tf32", _MMA),
}
_RUNTIME: Final = frozenset(("simt_barrier", *(name for name, _ in NUMBERED.values())))

_SHARED: Final = re.compile(
    r"@([\w.]+) = internal addrspace\(3\) global \[(\d+) x (\w+)\] undef, align (\d+)"
)
_KERNEL: Final = re.compile(r"define ptx_kernel void @([\w.]+)\((.*)\)(.*)\{?")
_DECLARED: Final = re.compile(r"declare (.+?) @(llvm\.nvvm\.[\w.]+)\(((?:[^()]|\(\d+\))*)\)[^()]*")
_KIND: Final = re.compile(r"(?:^|,)\s*(\w+(?: addrspace\(\d+\))?)")
_NUMBERED_CALL: Final = re.compile(r"(call .+? )@(llvm\.nvvm\.[\w.]+)\(")
_BARRIER_CALL: Final = re.compile(rf"(tail |notail )?call void @{re.escape(BARRIER)}\(i32 0\)")
_NAME: Final = re.compile(r"@([\w.$]+)")
_SPACE: Final = re.compile(r" addrspace\((\d+)\)")
_FORBIDDEN: Final = re.compile(r"\basm\b|\bmodule asm\b|\bifunc\b|\balias\b|\baddrspacecast\b")


@dataclass(frozen=True, slots=True)
class HostText:
    """A kernel for this processor: `void symbol(int64_t *buffers)` runs one thread.

    Args:
        parts: its shared memory.
    """

    text: str
    parts: tuple[SharedArray, ...]


@dataclass(frozen=True, slots=True)
class Probes:
    """Calls of functions beside the runtime, put into every kernel.

    Args:
        functions: their arguments by name; they return nothing.
        put: return the lines with the calls: of the lines, the names of pointers in the text
            (parameters, then arrays in shared memory), and the same names for people.
    """

    functions: Mapping[str, str]
    put: Callable[[Sequence[str], Sequence[str], Sequence[str]], list[str]]


def host_text(
    text: str, symbol: str, start: int, buffers: Sequence[str], probes: Probes | None = None
) -> HostText:
    """Return the text of a kernel for this processor.

    Args:
        text: one module with one kernel, as `simt.writer` writes it.
        symbol: name of the function.
        start: address after which its shared memory lies.
        buffers: names of the kernel's parameters.
        probes: more calls, by names of the runtime.

    Raises:
        BuildError: a part of the text has no meaning here.
    """
    lines = re.sub(r'@"([\w.$]+)"', r"@\1", text).splitlines()
    lines = ["" if line.startswith(("target ", "; ModuleID")) else line for line in lines]
    shared, rest = _shared(lines)
    parts = placed(start, [(size, align) for size, align in shared.values()])
    places = {
        name: f"inttoptr (i64 {part.address} to ptr)"
        for name, part in zip(shared, parts, strict=True)
    }
    kernels = [line for line in rest if line.startswith("define ptx_kernel ")]
    if len(kernels) != 1:
        raise BuildError(f"cannot emulate a text with {len(kernels)} kernels; expected 1")
    entry = _KERNEL.match(kernels[0])
    if entry is None:
        raise BuildError(f"cannot emulate {shown(kernels[0])!r}; expected a kernel of buffers")
    rest, more = _numbered(rest), dict(probes.functions) if probes else {}
    if probes:
        parameters = [*re.findall(r"(%[\w.]+)(?:,|$)", entry[2]), *(f"@{name}" for name in shared)]
        put = probes.put(rest, parameters, [*buffers, *shared])
        rest = [*put, *(f"declare void @{f}{taken}" for f, taken in more.items())]
    code = _renamed(rest, places, more)
    called = _called(entry[1], symbol, len(buffers))
    return HostText("\n".join([*code, called, ""]), tuple(parts))


def _shared(lines: Sequence[str]) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Return bytes and alignment of shared memory by name, and the lines without it."""
    arrays, rest = {}, []
    for line in lines:
        if not line.startswith("@"):
            rest.append(line)
            continue
        match = _SHARED.fullmatch(line.strip())
        if match is None or match[3] not in BYTES:
            raise BuildError(f"cannot emulate {shown(line)!r}; expected an array in shared memory")
        arrays[match[1]] = (int(match[2]) * BYTES[match[3]], int(match[4]))
        rest.append("")
    return arrays, rest


def _numbered(lines: Sequence[str]) -> list[str]:
    """Return the lines with a number in every call of a barrier and of NUMBERED: its place."""

    def call(match: re.Match[str]) -> str:
        known = NUMBERED.get(match[2])
        return f"{match[1]}@{known[0]}(i32 {k}, " if known else match[0]

    found = []
    for k, line in enumerate(lines):
        barrier = _BARRIER_CALL.sub(f"call void @simt_barrier(i32 {k})", line)
        found.append(_NUMBERED_CALL.sub(call, barrier))
    return found


def _renamed(lines: Sequence[str], places: Mapping[str, str], more: Collection[str]) -> list[str]:
    """Return the lines for this processor; every name is known, or one of `more`."""
    own = {found[1] for line in lines if (found := re.match(r"define [^@]*@([\w.]+)", line))}

    def name(match: re.Match[str]) -> str:
        known = match[1]
        if known in places:
            return places[known]
        if known in FUNCTIONS and known != BARRIER:
            return f"@{FUNCTIONS[known][0]}"
        plain = known.startswith("llvm.") and not known.startswith("llvm.nvvm.")
        if known in own or plain or known in _RUNTIME or known in more:
            return f"@{known}"
        raise BuildError(f"cannot emulate {known} because it has no function in the emulator")

    def space(match: re.Match[str]) -> str:
        if match[1] not in SPACES:
            raise BuildError(f"cannot emulate address space {match[1]}; expected 1 or 3")
        return ""

    code = []
    for line in lines:
        if _FORBIDDEN.search(line):
            raise BuildError(f"cannot emulate {shown(line)!r}: no such instruction in the emulator")
        plain = _declaration(line).replace("define ptx_kernel ", "define internal ")
        code.append(_NAME.sub(name, _SPACE.sub(space, plain)))
    return code


def _declaration(line: str) -> str:
    """Return the declaration of the runtime's function in place of a function of NVPTX."""
    match = _DECLARED.fullmatch(line.strip())
    if match is None:
        return line
    known = FUNCTIONS.get(match[2]) or NUMBERED.get(match[2])
    if known is None:
        raise BuildError(f"cannot emulate {match[2]} because it has no function in the emulator")
    kinds = ", ".join(_KIND.findall(match[3]))
    given = re.sub(r"\{ ?(.+?) ?\}", r"{ \1 }", match[1])  # llvmlite writes no blanks
    if (given, f"({kinds})") != known[1]:
        raise BuildError(f"cannot emulate {shown(line)!r}; expected {' '.join(known[1])}")
    if match[2] == BARRIER:
        return "declare void @simt_barrier(i32) nounwind convergent"
    returned, taken = known[1]
    if match[2] in NUMBERED:
        return f"declare {returned} @{known[0]}(i32, {taken[1:]} nounwind convergent"
    # A special register of a thread never changes.
    pure = "memory(none)" if ".sreg." in match[2] else "convergent"
    return f"declare {returned} @{match[2]}{taken} nounwind {pure}"


def _called(kernel: str, symbol: str, buffers: int) -> str:
    loads = "".join(
        f"  %p{k} = getelementptr ptr, ptr %buffers, i64 {k}\n  %b{k} = load ptr, ptr %p{k}\n"
        for k in range(buffers)
    )
    listed = ", ".join(f"ptr %b{k}" for k in range(buffers))
    return (
        f"define void @{symbol}(ptr %buffers) nounwind {{\n{loads}"
        f"  call void @{kernel}({listed})\n  ret void\n}}"
    )
