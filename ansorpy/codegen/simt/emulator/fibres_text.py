"""Switches between the stacks of fibres, as LLVM text for x86-64 and aarch64."""

from dataclasses import dataclass
from typing import Final

from ansorpy.errors import BuildError


@dataclass(frozen=True, slots=True)
class Fibres:
    """A function `void switch(ptr save, ptr to)` and the first frame of a fibre.

    Args:
        text: of `switch`: store the stack pointer at `save` and go on with the stack `to`.
        frame_bytes: bytes below the top of a new stack; registers lie there.
        return_at: offset in the frame of the address at which a fibre begins.
    """

    text: str
    frame_bytes: int
    return_at: int


def fibres(triple: str) -> Fibres:
    """Return the switch for processors of an LLVM triple.

    Raises:
        BuildError: the processor is of another kind.
    """
    if triple.startswith("x86_64"):
        return Fibres(_naked(_X86), 64, 48)
    if triple.startswith("aarch64"):
        return Fibres(_naked(_ARM), 176, 8)
    raise BuildError(
        f"cannot emulate kernels because this processor is {triple}; expected x86_64 or aarch64"
    )


def _naked(lines: tuple[str, ...]) -> str:
    code = "\\0A".join(lines)
    return f"""\
define internal void @switch(ptr %save, ptr %to) naked noinline nounwind {{
  call void asm sideeffect "{code}", "~{{memory}}"()
  unreachable
}}"""


_KEPT: Final = ("%rbp", "%rbx", "%r12", "%r13", "%r14", "%r15")  # registers that a call keeps
_X86: Final = (
    *(f"pushq {name}" for name in _KEPT),
    "movq %rsp, (%rdi)",
    "movq %rsi, %rsp",
    *(f"popq {name}" for name in reversed(_KEPT)),
    "retq",
)
_PAIRS: Final = (
    *((f"x{k}", f"x{k + 1}", 16 + 8 * (k - 19)) for k in range(19, 29, 2)),
    *((f"d{k}", f"d{k + 1}", 96 + 8 * (k - 8)) for k in range(8, 16, 2)),
)
_ARM: Final = (
    "stp x29, x30, [sp, #-160]!",
    *(f"stp {one}, {two}, [sp, #{at}]" for one, two, at in _PAIRS),
    "mov x9, sp",
    "str x9, [x0]",
    "mov sp, x1",
    *(f"ldp {one}, {two}, [sp, #{at}]" for one, two, at in _PAIRS),
    "ldp x29, x30, [sp], #160",
    "ret",
)
