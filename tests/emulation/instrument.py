"""Put calls of the log into the text of a kernel: accesses, barriers and turns of loops.

An access is known by its address space, so that local variables never enter the log. Every load
and store of global and shared memory is logged, or the text is refused. An asynchronous copy is a
load and a store when it starts, and a store when it arrives; a copy of no bytes is no load.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.codegen.simt.emulator.host_text import BYTES, SPACES
from ansorpy.errors import BuildError, shown
from tests.emulation.report import TextAccess

MOST_BYTES: Final = 16  # the widest access of a thread
MOST_SITES: Final = 1 << 20  # accesses and barriers of a text
MOST_LOOPS: Final = 1 << 12  # loops of a text
BLOCK_BARRIER: Final = "simt_barrier"
LOG_FUNCTIONS: Final = {
    "simt_log_access": "(i32, ptr)",
    "simt_log_barrier": "(i32)",
    "simt_log_warp_barrier": "(i32)",
    "simt_log_turn": "(i32)",
    "simt_log_copy": "(i32, ptr)",
    "simt_log_some": "(i32, ptr, i32)",
}


_NAME: Final = r"[%@][\w.$]+"
_ACCESS: Final = re.compile(
    r"\s*(?:%[\w.]+ = )?(load|store) (?:volatile )?(<\d+ x \w+>|\w+)(?: .+)?,"
    rf" ptr addrspace\(([13])\) ({_NAME})(?:, align \d+)?(?:, !.*)?"
)
_COPY: Final = re.compile(
    r"(\s*(?:tail |notail )?call void @simt_copy_(\d+)(?:_some)?\(i32 )\d+"
    rf"(, ptr addrspace\(3\) ({_NAME}), ptr addrspace\(1\) ({_NAME})(, i32 [%\w.]+)?\))"
)
_ROW: Final = re.compile(
    r"\s*(?:%[\w.]+ = )?(?:tail |notail )?call [^@]*@simt_ldmatrix(?:_trans)?"
    rf"\(i32 \d+, ptr addrspace\(3\) ({_NAME})\)"
)
_POINTER: Final = re.compile(rf"ptr addrspace\([13]\) ({_NAME})")
_INCOMING: Final = re.compile(rf"\[ ({_NAME}),")
_DERIVED: Final = re.compile(r"\s*(%[\w.]+) = (getelementptr|select|phi ptr|bitcast ptr)\b")
_LABEL: Final = re.compile(r"([\w.]+):")
_JUMP: Final = re.compile(r"label %([\w.]+)")
_BARRIER: Final = re.compile(r"\s*(?:tail |notail )?call void @(simt_barrier|llvm\.nvvm\.bar\.)")


@dataclass(frozen=True, slots=True)
class Site:
    """An access in a text: the numbers of its buffer or array and of the loop around it.

    Args:
        root: a buffer counts from 0 on, an array in shared memory after the last buffer.
        loop: the innermost one; 0: none.
        arrives: whether it is the end of an asynchronous copy, which makes no request of its own.
    """

    access: TextAccess
    root: int
    loop: int
    arrives: bool = False


@dataclass(frozen=True, slots=True)
class Instrumented:
    """The lines of a kernel with calls of the log.

    Args:
        sites: the accesses; their places are their numbers in the log.
        barriers: line of each barrier, and whether it is one of a warp; their numbers follow.
        loops: the number of loops.
    """

    lines: list[str]
    sites: tuple[Site, ...]
    barriers: tuple[tuple[int, bool], ...]
    loops: int


def instrumented(
    lines: Sequence[str], parameters: Sequence[str], names: Sequence[str]
) -> Instrumented:
    """Return a kernel that reports its accesses.

    Args:
        lines: the text; `simt_barrier` is the barrier of a block.
        parameters: the names of pointers in the text: parameters, then arrays in shared memory.
        names: the same for people.

    Raises:
        BuildError: an access cannot be logged.
    """
    roots = _roots(lines, parameters)
    loops = _loops(lines)
    changed = list(lines)
    sites: list[Site] = []
    found: list[tuple[int, str]] = []  # places of lines to insert, and those lines
    waits = [(k, wait[1]) for k, line in enumerate(lines) if (wait := _BARRIER.match(line))]
    for k, line in enumerate(lines):
        if _LABEL.match(line) and (head := _head(loops, k)):
            found.append((_after_phis(lines, k), f"  call void @simt_log_turn(i32 {head})"))
        for store, size, space, pointer in _accesses(line):
            origin = roots.get(pointer, frozenset())
            if len(origin) != 1:
                raise _refusal(line, "an address of one buffer")
            (root,) = origin
            access = TextAccess(k + 1, SPACES[space], names[root], store, size)
            place = f"ptr addrspace({space}) {pointer}"
            found.append((k, _logged(len(sites), place, _COPY.fullmatch(line), store)))
            sites.append(Site(access, root, _inner(loops, k)))
        if copy := _COPY.fullmatch(line):  # the last of its sites is the store
            arrival = len(sites)
            sites.append(replace(sites[-1], arrives=True))
            changed[k] = f"{copy[1]}{arrival}{copy[3]}"
            found.append(
                (k, f"  call void @simt_log_copy(i32 {arrival}, ptr addrspace(3) {copy[4]})")
            )
    for n, (k, name) in enumerate(waits, len(sites)):
        function = "simt_log_barrier" if name == BLOCK_BARRIER else "simt_log_warp_barrier"
        found.append((k, f"  call void @{function}(i32 {n})"))
    if len(sites) + len(waits) > MOST_SITES or len(loops) > MOST_LOOPS:
        raise BuildError(
            f"cannot log a kernel of {len(sites)} accesses and {len(loops)} loops; expected at"
            f" most {MOST_SITES} and {MOST_LOOPS}"
        )
    barriers = tuple((k + 1, name != BLOCK_BARRIER) for k, name in waits)
    return Instrumented(_inserted(changed, found), tuple(sites), barriers, len(loops))


def _logged(site: int, place: str, copy: re.Match[str] | None, store: bool) -> str:
    """Return the call of the log for an access; a copy tells the bytes that it reads."""
    if copy is None or copy[6] is None or store:
        return f"  call void @simt_log_access(i32 {site}, {place})"
    return f"  call void @simt_log_some(i32 {site}, {place}{copy[6]})"


def _refusal(line: str, expected: str) -> BuildError:
    return BuildError(f"cannot log {shown(line.strip())!r}; expected {expected}")


def _accesses(line: str) -> list[tuple[bool, int, str, str]]:
    """Return store, bytes, space and pointer of the accesses of a line, mostly none."""
    if "addrspace(" not in line or line.startswith(("define ", "declare ")):
        return []
    if re.match(r"\s*%[\w.]+ = (getelementptr|select|phi|bitcast|icmp)\b", line):
        return []
    if copy := _COPY.fullmatch(line):
        size = int(copy[2])
        return [(False, size, "1", copy[5]), (True, size, "3", copy[4])]
    if row := _ROW.fullmatch(line):
        return [(False, MOST_BYTES, "3", row[1])]
    match = _ACCESS.fullmatch(line)
    size = _size(match[2]) if match else 0
    if match is None or size not in (1, 2, 4, 8, MOST_BYTES):
        raise _refusal(line, "a load or store of 1, 2, 4, 8 or 16 bytes")
    return [(match[1] == "store", size, match[3], match[4])]


def _size(kind: str) -> int:
    vector = re.fullmatch(r"<(\d+) x (\w+)>", kind)
    count, element = (int(vector[1]), vector[2]) if vector else (1, kind)
    return count * BYTES.get(element, 0)


def _roots(lines: Sequence[str], parameters: Sequence[str]) -> Mapping[str, frozenset[int]]:
    """Return the buffers into which each pointer may point."""
    roots = {name: frozenset((k,)) for k, name in enumerate(parameters)}
    derived: dict[str, list[str]] = {}
    for line in lines:
        match = _DERIVED.match(line)
        if match and "addrspace(" in line:
            kind = match[2]
            bases = (_INCOMING if kind == "phi ptr" else _POINTER).findall(line)
            derived[match[1]] = bases[:1] if kind == "getelementptr" else bases
    again = True
    while again:  # pointers of loops depend on themselves
        again = False
        for name, bases in derived.items():
            new = frozenset[int]().union(*(roots.get(base, frozenset()) for base in bases))
            if new != roots.get(name, frozenset()):
                roots[name], again = new, True
    return roots


def _loops(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return first and last line of each loop, in order: a label, and its last jump back."""
    labels = {match[1]: k for k, line in enumerate(lines) if (match := _LABEL.match(line))}
    ends: dict[int, int] = {}
    for k, line in enumerate(lines):
        for label in _JUMP.findall(line):
            if (start := labels.get(label, k)) < k:
                ends[start] = k
    return sorted(ends.items())


def _head(loops: Sequence[tuple[int, int]], line: int) -> int:
    """Return the number of the loop that begins with a line; 0: none does."""
    return next((n for n, (first, _) in enumerate(loops, 1) if first == line), 0)


def _inner(loops: Sequence[tuple[int, int]], line: int) -> int:
    around = [n for n, (first, last) in enumerate(loops, 1) if first < line <= last]
    return around[-1] if around else 0


def _after_phis(lines: Sequence[str], label: int) -> int:
    return next(k for k in range(label + 1, len(lines)) if " = phi " not in lines[k])


def _inserted(lines: Sequence[str], found: Sequence[tuple[int, str]]) -> list[str]:
    before: dict[int, list[str]] = {}
    for k, line in found:
        before.setdefault(k, []).append(line)

    def every() -> Iterator[str]:
        for k, line in enumerate(lines):
            yield from before.get(k, ())
            yield line

    return list(every())
