"""Loops and instruction counts of SASS, the machine code of NVIDIA GPUs as nvdisasm prints it."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_LABEL: Final = re.compile(r"\s*(\.L_x_\w+):")
_KERNEL: Final = re.compile(r"\s*\.text\.(\w+):")
_INSTRUCTION: Final = re.compile(
    r"/\*[0-9a-f]{4,}\*/\s+(?:@(?P<guard>!?U?P\w+)\s+)?(?P<code>[A-Z][\w.]*)(?P<operands>[^;]*);"
)
_JUMP: Final = re.compile(r"\(?(\.L_x_\w+)\)?")
# Multiply-adds of a thread in one instruction, about: a loop of HMMA comes before its scalar tail.
_MULTIPLY_ADDS: Final = {"FFMA": 1, "HMMA": 64, "HGMMA": 64, "HFMA2": 2, "IMMA": 64, "DFMA": 1}


@dataclass(frozen=True, slots=True)
class Counts:
    """Instructions of a stretch of SASS, by their full code, such as `LDG.E.128.CONSTANT`."""

    codes: tuple[tuple[str, int], ...]

    @staticmethod
    def of(codes: Mapping[str, int]) -> "Counts":
        """Return the counts of instructions by code, sorted."""
        return Counts(tuple(sorted(codes.items())))

    @property
    def total(self) -> int:
        """The number of instructions."""
        return sum(count for _, count in self.codes)

    def __getitem__(self, base: str) -> int:
        """Return the number of instructions with a code such as `FFMA`, with any suffixes."""
        return sum(count for code, count in self.codes if code.split(".")[0] == base)

    def share(self, base: str) -> float:
        """Return the part of the instructions that have the code `base`, from 0 to 1."""
        return self[base] / self.total if self.total else 0.0

    @property
    def local_accesses(self) -> int:
        """Loads and stores of local memory: spilled registers, or arrays of a thread."""
        return self["LDL"] + self["STL"]


@dataclass(frozen=True, slots=True)
class Sass:
    """The counts of instructions of one kernel, in all and in each loop.

    A loop is the stretch from a label to a branch back to it. The main loop comes first: the one
    with the most multiply-adds, and of several the shortest.
    """

    kernel: str
    all: Counts
    loops: tuple[Counts, ...]

    @property
    def main(self) -> Counts:
        """The main loop, or the whole kernel if it has no loop."""
        return self.loops[0] if self.loops else self.all


def parse_sass(text: str) -> tuple[Sass, ...]:
    """Return the kernels in the output of `nvdisasm -c`, in its order."""
    return tuple(_parsed(name, lines) for name, lines in _by_kernel(text).items())


def _by_kernel(text: str) -> dict[str, list[str]]:
    kernels: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        found = _KERNEL.match(line)
        if found:
            lines = kernels.setdefault(found[1], [])
        lines.append(line)
    return kernels


@dataclass(frozen=True, slots=True)
class SassLine:
    """An instruction; `guard` is its predicate such as `!P0`, or "". A jump has a label."""

    guard: str
    code: str
    operands: tuple[str, ...]
    label: str = ""


def kernel_lines(text: str, kernel: str) -> tuple[tuple[SassLine, ...], Mapping[str, int]]:
    """Return the instructions of a kernel in the output of `nvdisasm -c`, and labels by name.

    A label is the number of the instruction after it.
    """
    return _lines(_by_kernel(text)[kernel])


def _lines(text: list[str]) -> tuple[tuple[SassLine, ...], Mapping[str, int]]:
    labels: dict[str, int] = {}
    lines: list[SassLine] = []
    for one in text:
        if label := _LABEL.match(one):
            labels[label[1]] = len(lines)
            continue
        match = _INSTRUCTION.search(one)
        if match is None:
            continue
        parts = match["operands"].replace(".reuse", "").split(",")
        operands = (part.strip() for part in parts if part.strip())
        target = _JUMP.search(match["operands"]) if match["code"].startswith("BRA") else None
        label_name = target[1] if target else ""
        lines.append(SassLine(match["guard"] or "", match["code"], tuple(operands), label_name))
    return tuple(lines), labels


def _parsed(kernel: str, text: list[str]) -> Sass:
    lines, labels = _lines(text)
    codes = [line.code for line in lines]
    loops: list[Counts] = []
    for at, line in enumerate(lines):
        # A branch to itself fills the end of every kernel; a loop has more than its branch.
        if line.label and labels.get(line.label, at) < at:
            loops.append(Counts.of(Counter(codes[labels[line.label] : at + 1])))
    loops.sort(key=lambda one: (-sum(n * one[c] for c, n in _MULTIPLY_ADDS.items()), one.total))
    return Sass(kernel, Counts.of(Counter(codes)), tuple(loops))
