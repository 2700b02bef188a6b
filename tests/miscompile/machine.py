"""Changes of the LLVM IR that the loop IR cannot express."""

import struct
from collections.abc import Callable
from typing import Final

import numpy as np

from tests.miscompile.mutant import Mutant, spelled

LOW_HALF: Final = "<8 x i32> <" + ", ".join(f"i32 {lane}" for lane in range(8)) + ">"
HIGH_HALF: Final = "<8 x i32> <" + ", ".join(f"i32 {lane}" for lane in range(8, 16)) + ">"


def number(old: float, new: float) -> Callable[[str], str]:
    """Replace a float32 literal everywhere."""

    def literal(value: float) -> str:
        return "float 0x" + struct.pack(">d", float(np.float32(value))).hex()

    return spelled(literal(old), literal(new))


MACHINE: Final = (
    Mutant("widened without the sign", "matmul int8", text=spelled(" sext ", " zext ")),
    Mutant("max: the test for NaN lost", "row max", text=spelled("fcmp uno", "fcmp false")),
    Mutant("max: compared the wrong way", "row max", text=spelled("fcmp ogt", "fcmp olt", 0)),
    Mutant("argmax: not strictly better", "argmax", text=spelled("fcmp ogt", "fcmp oge", 0)),
    Mutant("argmax: larger index of equals", "argmax", text=spelled("icmp slt <", "icmp sgt <")),
    Mutant("lane sum: low half twice", "layer norm", text=spelled(HIGH_HALF, LOW_HALF, 0)),
    Mutant(
        "mask: one lane more",
        "row max",
        text=spelled("i1 (1|true), i1 (0|false),", r"i1 \1, i1 \1,"),
    ),
    Mutant(
        "mask: one lane less",
        "softmax",
        text=spelled("i1 (1|true), i1 (0|false),", r"i1 \2, i1 \2,"),
    ),
    Mutant(
        "loop: one turn short", "matmul int8", text=spelled(r"(icmp slt i64 .*), 11$", r"\1, 10", 0)
    ),
    Mutant("tasks counted wrongly", "softmax", text=spelled(r"(urem i64 .*), 3$", r"\1, 2")),
    Mutant(
        "alignment that does not hold",
        "softmax",
        text=spelled(r"(<16 x float>.*) align 4$", r"\1 align 64"),
    ),
    Mutant("exp: rest of log 2 added", "softmax", text=number(2.12194440e-4, -2.12194440e-4)),
    Mutant(
        "exp: wrong coefficient",
        "softmax",
        text=number(1.6667647659778595e-1, 1.6567647659778595e-1),
    ),
    Mutant(
        "exp: slightly wrong coefficient",
        "grown",
        text=number(1.6667647659778595e-1, 1.6657647659778595e-1),
    ),
    Mutant(
        "tanh: wrong coefficient",
        "squashed",
        text=number(1.6666546463966370e-1, 1.6566546463966370e-1),
    ),
    Mutant("erf: wrong coefficient", "gelu", text=number(1.28379166e-1, 1.28279166e-1)),
)
