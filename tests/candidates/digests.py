"""Digests of the LLVM text and object code of the stored candidates, as the search compiles them.

    python -m tests.candidates.digests            compare with the recorded (exit code 1: differ)
    python -m tests.candidates.digests --record   record them anew; the commit says why
    python -m tests.candidates.digests --only softmax --text 3    print the text of a candidate

Text and object code have the functions of the phases only, without drivers and entry
points. In the text every value and block is renumbered in order of its first mention, so that a
name alone changes no digest. Object code depends on the version of LLVM, which is recorded.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import count
from typing import Final

import llvmlite

from ansorpy.codegen import compile_cache
from ansorpy.codegen.llvm_ir import object_bytes, parse, phase_text
from ansorpy.plan.bind import bind
from ansorpy.replay import plan_from_text
from ansorpy.target import Target
from tests.candidates.stored import FOLDER, OPERATORS, candidates

RECORDED: Final = FOLDER / "digests.json"
NAME: Final = re.compile(r'%(?:"[^"]*"|[\w.$-]+)')
LABEL: Final = re.compile(r'^(?:"([^"]*)"|([\w.$-]+)):', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Digest:
    """Short digests of one candidate, and its LLVM instructions."""

    text: str
    code: str
    instructions: int


def renumbered(text: str) -> str:
    """Return LLVM text with every local name replaced by its number in order of mention."""
    named = LABEL.sub(lambda label: f"%{label[1] or label[2]}:", text)
    numbers, known = count(), dict[str, str]()

    def number(found: re.Match[str]) -> str:
        name = found[0][1:].strip('"')
        if name not in known:
            known[name] = f"%{next(numbers)}"
        return known[name]

    return NAME.sub(number, named)


def texts_of(name: str, number: int) -> tuple[str, ...]:
    """Return the LLVM text of every phase of a stored candidate, as LLVM prints it."""
    operator, stored = OPERATORS[name], list(candidates(name))[number]
    plan = plan_from_text(operator.make(), operator.target, stored.plan)
    program = bind(plan, stored.row, operator.target)
    alone = compile_cache._alone(program, operator.target)
    return tuple(phase_text(one.phase, one.places, one.target) for one in alone)


def digest(texts: tuple[str, ...], target: Target) -> Digest:
    """Return the digest of the functions of a candidate's phases."""
    printed = [renumbered(str(parse(text))) for text in texts]
    code = [object_bytes(text, target) for text in texts]
    lines = [line for text in printed for line in text.splitlines()]
    return Digest(
        short("\n".join(printed).encode()),
        short(b"".join(code)),
        sum(line.startswith("  ") for line in lines),
    )


def short(data: bytes) -> str:
    """Return the first sixteen characters of a digest."""
    return sha256(data).hexdigest()[:16]


def digests(name: str, numbers: range) -> Iterator[Digest]:
    """Yield the digests of some candidates of an operator."""
    for number in numbers:
        yield digest(texts_of(name, number), OPERATORS[name].target)


def recorded() -> tuple[str, dict[str, list[Digest]]]:
    """Return the version of llvmlite and the digests that were recorded with it."""
    found = json.loads(RECORDED.read_text())
    return found["llvmlite"], {
        name: [Digest(*row) for row in rows] for name, rows in found["operators"].items()
    }


def record(found: dict[str, list[Digest]]) -> None:
    """Write digests, one candidate a line."""
    rows = {name: [list(asdict(one).values()) for one in ones] for name, ones in found.items()}
    body = json.dumps({"llvmlite": llvmlite.__version__, "operators": rows})
    RECORDED.write_text(
        body.replace("[[", "[\n[").replace("], [", "],\n[").replace("]], ", "]],\n") + "\n"
    )


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(OPERATORS), choices=list(OPERATORS))
    parser.add_argument("--text", type=int, help="print the text of this candidate")
    asked = parser.parse_args()
    if asked.text is not None:
        for name in asked.only:
            sys.stdout.write("\n".join(map(renumbered, texts_of(name, asked.text))))
        return 0
    found = {name: list(digests(name, range(len(list(candidates(name)))))) for name in asked.only}
    if asked.record:
        record({**(recorded()[1] if RECORDED.exists() else {}), **found})
        return 0
    _, before = recorded()
    changed = 0
    for name, ones in found.items():
        for number, (old, new) in enumerate(zip(before[name], ones, strict=True)):
            if old != new:
                changed += 1
                what = "text" if old.text != new.text else "code only"
                size = f"{old.instructions} -> {new.instructions} instructions"
                sys.stdout.write(f"{name} {number}: {what}, {size}\n")
    sys.stdout.write(f"{sum(map(len, found.values()))} candidates, {changed} changed\n")
    return bool(changed)


if __name__ == "__main__":
    raise SystemExit(main())
