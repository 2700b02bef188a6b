"""Single changes of kernels for a GPU, each a mistake that a compiler might make.

A mutation has, beside its program, probes: programs that do as the kernel does unless the change
has an effect, and then fail. They are the argument that a mutation changes nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from ansorpy.codegen.simt.emulator.host_text import BYTES
from ansorpy.codegen.simt.launch import SimtCode

Kind = Literal["barrier", "mask", "index", "shuffle"]
KINDS: Final[tuple[Kind, ...]] = ("barrier", "mask", "index", "shuffle")
OTHER: Final = {
    "slt": "sle", "sle": "slt", "sgt": "sge", "sge": "sgt", "ult": "ule", "ule": "ult",
    "ugt": "uge", "uge": "ugt", "eq": "ne", "ne": "eq",
}  # fmt: skip
GARBAGE: Final = (-1, 0x5A5A5A5A)  # words in place of a word that no result depends on

_BARRIER: Final = re.compile(
    r'\s*call void @"?llvm\.nvvm\.(barrier\.cta\.sync\.aligned\.all|bar\.warp\.sync)"?\('
)
_COMPARED: Final = re.compile(r"\s*(%\w+) = icmp (\w+) (i\d+) (\S+), (\S+)$")
_ADDRESS: Final = re.compile(
    r"\s*(%\w+) = getelementptr (\w+|<[^>]*>), (ptr addrspace\([13]\)) (\S+), (.+)$"
)
_SHUFFLE: Final = re.compile(
    r'\s*(%\w+)( = call i32 @"?llvm\.nvvm\.shfl\.sync\.\w+\.i32"?\(i32 -1, i32 \S+, i32 )(\d+)'
    r"(, i32 \d+\))$"
)
_BUFFER: Final = re.compile(r"define ptx_kernel .*?\(ptr addrspace\(1\)[^%]*(%\w+)")

_LABEL: Final = re.compile(r"([\w.]+):")
_STORE: Final = re.compile(
    r"\s*store (\w+|<[^>]*>) +(\S+|<[^>]*>), (ptr addrspace\([13]\) \S+, align \d+)$"
)
_VECTOR: Final = re.compile(r"<(\d+) x (\w+)>")
_INCOMING: Final = re.compile(r"%([\w.]+) \]")

Lines = list[str]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A changed program.

    Args:
        line: of the change, in the text of a launch.
        probes: programs that fail if the change has an effect; none for barriers and indices.
    """

    kind: Kind
    launch: int
    line: int
    code: SimtCode
    probes: tuple[SimtCode, ...] = ()


def mutations(code: SimtCode) -> list[Mutation]:
    """Return all single changes of a program."""
    return [
        Mutation(
            kind, n, k + 1, _with(code, n, k, new), tuple(_with(code, n, k, p) for p in probes)
        )
        for n, text in enumerate(code.texts)
        for k, line in enumerate(text.splitlines())
        for kind, new, probes in _changes(text, line)
    ]


def changing(code: SimtCode) -> SimtCode:
    """Return a program that leaves out every store of bits that are in memory already."""
    return replace(code, texts=tuple(map(_changing, code.texts)))


def _changing(text: str) -> str:
    lines: Lines = []
    block, last = "", dict[str, str]()  # the last part of every block
    for k, line in enumerate(text.splitlines()):
        if label := _LABEL.match(line):
            block = label[1]
        match = _STORE.match(line)
        if match is None:
            lines.append(line)
            continue
        kind, value, place = match.groups()
        bits, name = f"i{_bits(kind)}", f"s{k}"
        lines += [
            f"  %{name}.o = load {kind}, {place}",
            f"  %{name}.a = bitcast {kind} %{name}.o to {bits}",
            f"  %{name}.b = bitcast {kind} {value} to {bits}",
            f"  %{name}.x = icmp ne {bits} %{name}.a, %{name}.b",
            f"  br i1 %{name}.x, label %{name}.do, label %{name}.on",
            f"{name}.do:",
            line,
            f"  br label %{name}.on",
            f"{name}.on:",
        ]
        last[block] = f"{name}.on"
    return "\n".join([*(_from_last(line, last) for line in lines), ""])


def _bits(kind: str) -> int:
    several = _VECTOR.fullmatch(kind)
    return 8 * (int(several[1]) * BYTES[several[2]] if several else BYTES[kind])


def _from_last(line: str, last: dict[str, str]) -> str:
    """Return a phi whose values come from the last parts of blocks."""
    if " = phi " not in line:
        return line
    return _INCOMING.sub(lambda found: f"%{last.get(found[1], found[1])} ]", line)


def _with(code: SimtCode, launch: int, line: int, new: Lines) -> SimtCode:
    """Return a program with other lines in place of one."""
    lines = code.texts[launch].splitlines()
    text = "\n".join([*lines[:line], *new, *lines[line + 1 :], ""])
    return replace(code, texts=(*code.texts[:launch], text, *code.texts[launch + 1 :]))


def _changes(text: str, line: str) -> Iterator[tuple[Kind, Lines, list[Lines]]]:
    if _BARRIER.match(line):
        yield "barrier", [], []
    elif match := _COMPARED.match(line):
        yield _mask(text, line, match)
    elif (match := _SHUFFLE.match(line)) and int(match[3]):
        yield _shuffle(match)
    elif match := _ADDRESS.match(line):
        name, element, space, base, index = match.groups()
        first = f"  {name}.m = getelementptr {element}, {space} {base}, {index}"
        for by in (1, -1):
            moved = f"  {name} = getelementptr {element}, {space} {name}.m, i64 {by}"
            yield "index", [first, moved], []


def _mask(text: str, line: str, match: re.Match[str]) -> tuple[Kind, Lines, list[Lines]]:
    """Change a comparison; the probe reads before a buffer if the two results differ."""
    name, op, kind, a, b = match.groups()
    buffer = _BUFFER.search(text)
    assert buffer is not None
    other = f"icmp {OTHER[op]} {kind} {a}, {b}"
    probe = [
        line,
        f"  {name}.m = {other}",
        f"  {name}.x = xor i1 {name}, {name}.m",
        f"  {name}.i = sext i1 {name}.x to i64",
        f"  {name}.p = getelementptr i8, ptr addrspace(1) {buffer[1]}, i64 {name}.i",
        f"  {name}.v = load i8, ptr addrspace(1) {name}.p, align 1",
    ]
    return "mask", [f"  {name} = {other}"], [probe]


def _shuffle(match: re.Match[str]) -> tuple[Kind, Lines, list[Lines]]:
    """Halve a distance; the probes give garbage to threads that would receive another word."""
    name, head, distance, tail = match.groups()
    other = int(distance) // 2 or 2

    def probe(word: int) -> Lines:
        return [
            f"  {name}.a{head}{distance}{tail}",
            f"  {name}.b{head}{other}{tail}",
            f"  {name}.x = icmp eq i32 {name}.a, {name}.b",
            f"  {name} = select i1 {name}.x, i32 {name}.a, i32 {word}",
        ]

    return "shuffle", [f"  {name}{head}{other}{tail}"], [probe(word) for word in GARBAGE]
