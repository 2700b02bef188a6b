"""Counts of the machine code of a kernel for a GPU: its first warp is followed, without a device.

Integers and predicates are computed, which decides every loop and the address of every access;
floats, and all that was loaded, are unknown. A register has one value for the warp, or 32.

Not handled: both sides of a divergent branch (the side without the jump counts), the slow path of
a division. An unknown loop condition raises `UnknownError`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ansorpy.expr.coalescing import SECTOR_BYTES, WARP
from benchmarks.cuda.sass import SassLine, kernel_lines

MASK: Final = 0xFFFFFFFF
STEPS: Final = 200_000  # instructions of a warp that are followed
POINTER: Final = 1 << 22  # value of every parameter: an aligned address
BANKS, WORD_BYTES = 32, 4
WIDTHS: Final = {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}
SILENT: Final = frozenset(
    ("BSSY", "BSYNC", "BREAK", "NOP", "BAR", "WARPSYNC", "CALL", "RET", "MEMBAR", "DEPBAR", "STG",
     "STS", "STL", "YIELD", "ERRBAR", "CCTL", "LDGDEPBAR", "LDGSTS")
)  # fmt: skip
# Clocks from the issue of an instruction to the issue of a reader of its result, on sm_90.
LATENCY: Final = {
    "LDG": 500, "LDGSTS": 600, "LDS": 30, "LDC": 30, "SHFL": 25, "MUFU": 20, "S2R": 20, "BAR": 30,
    "DFMA": 16, "DADD": 16, "DMUL": 16, "I2F": 14, "F2I": 14, "F2F": 14, "R2UR": 12, "VOTE": 12,
}  # fmt: skip
SHORT: Final = 4  # clocks of any other instruction
COPIES: Final = "copies"  # stands for the asynchronous copies in `ready`
_NAMES: Final = re.compile(r"\bU?[RP]\d+")
Value = Any  # int, array of 32, or None: unknown


class UnknownError(Exception):
    """A loop whose end cannot be told, or a warp that runs for longer than `STEPS`."""


@dataclass(frozen=True, slots=True)
class WarpCounts:
    """Executed instructions, multiply-adds, waves of shared memory and sectors of one warp.

    Args:
        span: clocks of the warp alone on a GPU: each instruction waits for its operands.
    """

    instructions: int
    multiply_adds: int
    shared_waves: int
    sectors: int
    span: int


def follow(sass: str, kernel: str, threads: int, block: int) -> WarpCounts:
    """Return the counts of the first warp of a block.

    Args:
        sass: output of `nvdisasm -c`.
        threads, block: of the launch; the block that is followed.

    Raises:
        UnknownError: a loop depends on loaded data, or the kernel is too long.
    """
    lines, labels = kernel_lines(sass, kernel)
    return _Warp(lines, labels, threads, block).run()


@dataclass(frozen=True, slots=True)
class _Decoded:
    """An instruction with everything that does not depend on its operands' values."""

    line: SassLine
    base: str
    kinds: frozenset[str]
    results: tuple[str, ...]
    handler: Callable[..., tuple[Value, ...]] | None
    memory: bool
    width: int  # bytes of an access
    needs: tuple[str, ...]  # registers that must be ready
    gives: tuple[str, ...]  # registers that are ready after the latency
    latency: int


def _decoded(line: SassLine) -> _Decoded:
    base, *rest = line.code.split(".")
    kinds = frozenset(rest)
    plain = base[1:] if base in UNIFORM else base
    handler = HANDLERS.get(plain)
    width = next((WIDTHS[one] for one in rest if one in WIDTHS), WORD_BYTES)
    results: list[str] = [] if base in SILENT else _leading(line.operands, plain)
    pair = plain == "CS2R" or "WIDE" in kinds or (plain == "LDC" and "64" in kinds)
    more = 1 if pair else width // WORD_BYTES - 1 if handler is None else 0
    for number in range(more if results and results[0][-1] != "Z" else 0):
        results.insert(number + 1, _next(results[number]))  # before a carry
    memory = base in ("LDS", "STS", "LDG", "STG", "LDGSTS")
    needs = _NAMES.findall(" ".join((line.guard or "", *line.operands)))
    if base in ("DEPBAR", "BAR"):
        needs.append(COPIES)
    gives = (COPIES,) if base == "LDGSTS" else tuple(results)
    latency = LATENCY.get(plain, SHORT)
    return _Decoded(
        line, base, kinds, tuple(results), handler, memory, width, tuple(needs), gives, latency
    )


@dataclass
class _Warp:
    lines: Sequence[SassLine]
    labels: Mapping[str, int]
    threads: int
    block: int
    registers: dict[str, Value] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)

    def run(self) -> WarpCounts:
        decoded = [_decoded(line) for line in self.lines]
        counts = [0] * len(decoded)
        at = steps = clock = 0
        ready: dict[str, int] = {}
        while at < len(decoded):
            one = decoded[at]
            counts[at] += 1
            steps += 1
            if steps > STEPS:
                raise UnknownError(f"over {STEPS} instructions of a warp")
            clock = max([clock + 1, *(ready.get(name, 0) for name in one.needs)])
            for name in one.gives:
                ready[name] = clock + one.latency
            guard = one.line.guard
            taken = self.predicate(guard) if guard else True
            at += 1
            if one.base == "EXIT":
                if _all(taken):
                    break
            elif one.base == "BRA":
                at = self.branch(at, taken, one.line)
            elif taken is not False:
                self.execute(one, taken)
        ffma = sum(n for n, one in zip(counts, decoded, strict=True) if one.base == "FFMA")
        span = max([clock, *ready.values()])
        return WarpCounts(steps, ffma, self.done["waves"], self.done["sectors"], span)

    def branch(self, following: int, taken: Value, line: SassLine) -> int:
        target = self.labels[line.label]
        for one in line.operands[:-1]:
            taken = _both(taken, self.predicate(one))
        if target < following:
            if taken is None:
                raise UnknownError("a loop depends on data")
            return target if _any(taken) else following
        if taken is None:  # a division calls its slow path for few values
            slow = any(one.code.startswith("CALL") for one in self.lines[following:target])
            return target if slow else following
        return target if _all(taken) else following

    def predicate(self, name: str) -> Value:
        negated = name.startswith("!")
        name = name.lstrip("!")
        held = True if name in ("PT", "UPT") else self.registers.get(name)
        return _not(held) if negated else held

    def value(self, text: str) -> Value:
        """Return an operand of 32 bits, without its sign."""
        text = text.strip("|")
        if text in ("RZ", "URZ", "SRZ"):
            return 0
        if text[0] in "RU":
            return self.registers.get(text)
        if text.startswith("c["):
            return self.threads if text == "c[0x0][0x0]" else POINTER
        try:
            return int(text, 16) & MASK
        except ValueError:
            return None

    def source(self, text: str) -> Value:
        """Return an operand with its sign; -x keeps its carry, as it is ~x + 1."""
        if text[0] == "-" and not text.startswith("-0x"):
            held = self.source(text[1:])
            return None if held is None else (held ^ MASK) + 1
        if text[0] == "~":
            held = self.source(text[1:])
            return None if held is None else held ^ MASK
        return self.value(text)

    def wide(self, text: str) -> Value:
        """Return a pair of registers."""
        if text[0] in "-~":
            return _known(lambda x: -x - (text[0] == "~"))(self.wide(text[1:]))
        if text in ("RZ", "URZ"):
            return 0
        low, high = self.value(text), self.value(_next(text))
        return None if low is None or high is None else low | _signed(high) << 32

    def write(self, name: str, value: Value, taken: Value) -> None:
        if name in ("RZ", "URZ", "PT", "UPT"):
            return
        if taken is None:
            value = None
        elif value is not None and not _all(taken):
            before = self.registers.get(name)
            value = None if before is None else np.where(taken, value, before)
        self.registers[name] = value

    def execute(self, decoded: "_Decoded", taken: Value) -> None:
        if decoded.memory:
            self.memory(decoded, taken)
        if decoded.handler is None:
            for name in decoded.results:
                self.write(name, None, taken)
            return
        found = decoded.handler(self, decoded.kinds, decoded.line.operands)
        for name, value in zip(decoded.results, found, strict=False):
            self.write(name, value, taken)

    def memory(self, decoded: "_Decoded", taken: Value) -> None:
        places = [part for part in decoded.line.operands if "[" in part]
        if decoded.base == "LDGSTS":  # to shared memory, from global memory
            self.access(places[0], True, decoded.width, taken)
            self.access(places[1], False, decoded.width, taken)
        else:
            self.access(places[0], decoded.base in ("LDS", "STS"), decoded.width, taken)

    def access(self, text: str, shared: bool, width: int, taken: Value) -> None:
        address = self.address(text, not shared)
        everyone = np.ones(WARP, bool) if taken is None else np.broadcast_to(taken, WARP)
        lanes = min(self.threads, WARP)
        if address is None:
            self.done["waves" if shared else "sectors"] += lanes
            return
        places = np.broadcast_to(address, WARP)[:lanes][everyone[:lanes]]
        if shared:
            words = (places[:, None] + np.arange(0, width, WORD_BYTES)).ravel() // WORD_BYTES
            banks = np.bincount(np.unique(words) % BANKS, minlength=BANKS)
            self.done["waves"] += int(banks.max())  # 0 if no thread is taken
        else:
            ends = np.concatenate((places, places + width - 1)) // SECTOR_BYTES
            self.done["sectors"] += len(np.unique(ends))

    def address(self, text: str, is_global: bool) -> Value:
        total: Value = 0
        inside = text.rpartition("[")[2].rstrip("]")
        for part in inside.replace("+-", "+~").split("+"):
            if part[0] == "~":
                one: Value = -int(part[1:], 16)
            elif is_global and part.endswith(".64"):
                one = self.wide(part.removesuffix(".64"))
            elif is_global and part[:2] == "UR":
                one = self.wide(part)
            else:
                one = self.value(part.partition(".")[0])
            if one is None:
                return None
            total = total + one
        return total


def _next(name: str) -> str:
    prefix = "UR" if name.startswith("UR") else "R"
    return f"{prefix}{int(name.removeprefix(prefix)) + 1}"


def _all(held: Value) -> bool:
    return held if isinstance(held, bool) else held is not None and bool(np.all(held))


def _any(held: Value) -> bool:
    return held if isinstance(held, bool) else held is not None and bool(np.any(held))


def _not(held: Value) -> Value:
    return (not held) if isinstance(held, bool) else None if held is None else ~np.asarray(held)


def _both(a: Value, b: Value) -> Value:
    """Return the conjunction; something unknown does not matter beside False."""
    if a is False or b is False:
        return False
    return None if a is None or b is None else a & b


def _leading(ops: Sequence[str], base: str) -> list[str]:
    """Return the results of an instruction, the register first."""
    if base in ("ISETP", "FSETP", "PLOP3", "DSETP"):
        return list(ops[:2])
    if base in ("LOP3", "SHFL", "VOTE") and ops[0].lstrip("U")[:1] == "P":
        return [ops[1], ops[0]]
    if base in ("IADD3", "LEA", "IMAD"):
        return [ops[0], *[one for one in ops[1:3] if one.lstrip("U")[:1] == "P"]]
    return list(ops[:1])


def _signed(held: Value) -> Value:
    return ((held & MASK) ^ 0x80000000) - 0x80000000


def _known(calculate: Callable[..., Any]) -> Callable[..., Any]:
    """Return None for a result of something unknown."""

    def found(*values: Value) -> Value:
        return None if any(one is None for one in values) else calculate(*values)

    return found


def _sources(warp: _Warp, ops: Sequence[str]) -> tuple[list[Value], list[Value]]:
    """Return values and trailing predicates of the operands after the results."""
    rest = list(ops[1:])
    while rest and rest[0].lstrip("U")[:1] == "P":
        rest.pop(0)
    carries = [warp.predicate(one) for one in rest if one.lstrip("!U")[:1] == "P"]
    return [warp.source(one) for one in rest if one.lstrip("!U")[:1] != "P"], carries


def _add(warp: _Warp, kinds: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    values, carries = _sources(warp, ops)
    if "X" in kinds:
        values += [None if one is None else one + 0 for one in carries]
    total = _known(lambda *all_: sum(all_))(*values)
    return (None, None) if total is None else (total & MASK, (total >> 32) != 0)


def _multiply(warp: _Warp, kinds: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    values, carries = _sources(warp, ops)
    one, two, three = values[:3]
    if "WIDE" in kinds:
        three = warp.wide([text for text in ops if text.lstrip("!U")[:1] != "P"][-1])
        if "X" in kinds:
            three = _known(lambda c, p: c + (p + 0))(three, carries[-1])
        if "U32" not in kinds:
            one, two = _known(_signed)(one), _known(_signed)(two)
        total = _known(lambda a, b, c: a * b + c)(one, two, three)
        if total is None:
            return None, None, None
        return total & MASK, total >> 32 & MASK, total >> 64 != 0
    if "HI" in kinds:
        return (_known(lambda a, b, c: ((a * b >> 32) + c) & MASK)(one, two, three),)
    if "X" in kinds:
        three = _known(lambda c, p: c + (p + 0))(three, carries[0])
    return (_known(lambda a, b, c: (a * b + c) & MASK)(one, two, three),)


def _lea(warp: _Warp, kinds: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    values, carries = _sources(warp, ops)
    if "HI" in kinds:
        if len(values) == 3:  # without a high word, it is the sign or nothing
            sign = (
                _known(lambda a: (a >> 31) * MASK) if "SX32" in kinds else _known(lambda a: a * 0)
            )
            values.insert(2, sign(values[0]))
        one, two, high, shift = values
        carry = carries[0] if "X" in kinds else False
        return (
            _known(lambda a, b, h, s, p: ((h << s | a >> 32 - s) + b + (p + 0)) & MASK)(
                one, two, high, shift, carry
            ),
        )
    one, two, shift = values
    total = _known(lambda a, b, s: (a << s & MASK) + b)(one, two, shift)
    return (None, None) if total is None else (total & MASK, total >> 32 != 0)


def _logic(a: Value, b: Value, c: Value, table: int, whole: int) -> Value:
    found: Value = 0
    for row in range(8):
        if table >> row & 1:
            parts = [x if row >> k & 1 else x ^ whole for x, k in ((a, 2), (b, 1), (c, 0))]
            found = found | (parts[0] & parts[1] & parts[2])
    return found


def _lop3(warp: _Warp, _: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    rest = ops[2:] if ops[0].lstrip("U")[:1] == "P" else ops[1:]
    a, b, c = (warp.source(one) for one in rest[:3])
    found = _known(lambda x, y, z: _logic(x, y, z, int(rest[3], 16), MASK))(a, b, c)
    return found, _known(lambda x: x != 0)(found)


def _plop3(warp: _Warp, _: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    values = [warp.predicate(one) for one in ops[2:5]]
    if any(one is None for one in values):
        return None, None
    a, b, c = (one + 0 for one in values)
    return tuple(_logic(a, b, c, int(table, 16), 1) != 0 for table in ops[5:7])


def _shift(warp: _Warp, kinds: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    low, by, high = (warp.source(one) for one in ops[1:4])
    if "L" in kinds:
        if "HI" in kinds:
            return (_known(lambda x, s, h: (h << s | x >> 32 - s) & MASK)(low, by, high),)
        return (_known(lambda x, s: x << s & MASK)(low, by),)
    if "HI" in kinds:
        signed = _signed if "S32" in kinds else lambda x: x
        return (_known(lambda s, h: signed(h) >> s & MASK)(by, high),)
    return (_known(lambda x, s, h: (x | h << 32) >> s & MASK)(low, by, high),)


COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "GE": lambda a, b: a >= b, "GT": lambda a, b: a > b, "LE": lambda a, b: a <= b,
    "LT": lambda a, b: a < b, "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b,
}  # fmt: skip


JOIN: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "AND": _both,
    "OR": lambda a, b: _not(_both(_not(a), _not(b))),
    "XOR": _known(lambda a, b: a ^ b),
}


def _setp(warp: _Warp, kinds: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    one, two = (_known(lambda x: x & MASK)(warp.source(text)) for text in ops[2:4])
    if "U32" not in kinds:
        one, two = _known(_signed)(one), _known(_signed)(two)
    (name,) = kinds & COMPARE.keys()
    found = _known(COMPARE[name])(one, two)
    if "EX" in kinds:
        strict = {"GE": "GT", "LE": "LT"}.get(name, name)
        equal, lower = _known(COMPARE["EQ"])(one, two), warp.predicate(ops[5])
        first = _known(COMPARE[strict])(one, two)
        if name == "EQ":
            found = _both(equal, lower)
        else:
            found = _known(lambda f, e, p: f | (e & p))(first, equal, lower)
    other = warp.predicate(ops[4])
    (how,) = kinds & JOIN.keys()
    return JOIN[how](found, other), JOIN[how](_not(found), other)


def _select(warp: _Warp, _: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    one, two, chosen = warp.source(ops[1]), warp.source(ops[2]), warp.predicate(ops[3])
    if np.ndim(chosen) == 0 and chosen is not None:
        return (one if chosen else two,)
    return (_known(lambda a, b, p: np.where(p, a, b))(one, two, chosen),)


def _pack(warp: _Warp, _: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    mask, found = int(ops[-1], 16), 0
    for number in range(7):
        if mask >> number & 1:
            held = warp.predicate(f"P{number}")
            if held is None:
                return (None,)
            found = found | (held + 0) << number
    return (found,)


def _halves(warp: _Warp, kinds: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    """Return the constant that HFMA2.MMA R, -RZ, RZ, HIGH, LOW moves."""
    if "MMA" not in kinds or tuple(ops[1:3]) != ("-RZ", "RZ"):
        return (None,)
    high, low = (int(np.float16(float(one)).view(np.uint16)) for one in ops[3:5])
    return (high << 16 | low,)


def _special(warp: _Warp, _: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    name = ops[1]
    if name in ("SR_TID.X", "SR_LANEID"):
        return (np.arange(WARP, dtype=np.int64),)
    return (warp.block if name == "SR_CTAID.X" else 0,) * 2


def _move(warp: _Warp, _: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    return (_known(lambda x: x & MASK)(warp.source(ops[1])),)


def _constant(warp: _Warp, kinds: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    return warp.value(ops[1]), 0


def _narrow(warp: _Warp, kinds: frozenset[str], ops: Sequence[str]) -> tuple[Value, ...]:
    if "U32" not in kinds:
        return (None,)
    return (_known(lambda x, n: x & (1 << n) - 1)(warp.source(ops[1]), warp.source(ops[2])),)


HANDLERS: Final[dict[str, Callable[..., tuple[Value, ...]]]] = {
    "IADD3": _add, "VIADD": _add, "IMAD": _multiply, "LEA": _lea, "LOP3": _lop3, "PLOP3": _plop3,
    "SHF": _shift, "ISETP": _setp, "SEL": _select, "P2R": _pack, "HFMA2": _halves, "S2R": _special,
    "S2UR": _special, "CS2R": _special, "MOV": _move, "R2UR": _move, "LDC": _constant,
    "SGXT": _narrow,
}  # fmt: skip
UNIFORM: Final = frozenset(
    f"U{name}"
    for name in (
        "IADD3",
        "IMAD",
        "LEA",
        "LOP3",
        "PLOP3",
        "SHF",
        "ISETP",
        "SEL",
        "MOV",
        "LDC",
        "SGXT",
    )
)
