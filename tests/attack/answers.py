"""`python -m tests.attack.answers --count 100000`: damaged answers and black boxes, decoded.

A damaged answer is refused with `WireError`, or it is a possible value of its type: it can be
encoded again and decodes to the same value. A damaged note has no meaning. Any other exception
ends the command.
"""

import argparse
import json
import random
from collections.abc import Callable
from typing import Any, Final

from ansorpy.codegen import loader
from ansorpy.codegen.exported_types import Library
from ansorpy.codegen.kernel import Kernel, PhaseInfo
from ansorpy.errors import WireError
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.backend import CODEGEN, SHARED
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.protocols import BuildRequest, BuildResult, Checked
from ansorpy.measure.workers.answers import codec_of
from ansorpy.measure.workers.codec import Codec
from ansorpy.measure.workers.crash import explain
from ansorpy.measure.workers.replies import Raised
from ansorpy.target import Target

BUFFERS: Final = (
    Buffer("A", "float32", (Const(8), Const(16)), Scope.INPUT),
    Buffer("C", "bfloat16", (Const(8),), Scope.OUTPUT),
)
PHASES: Final = (PhaseInfo("pack", 3, True), PhaseInfo("matmul", 64))
BUILT: Final = loader.Built((b"\x7fELF" * 40, b"code"), PHASES, BUFFERS, True)
LIBRARY: Final = Library(
    b"\x7fELF" * 9, b"\x7fELF", BUFFERS, PHASES, "mm", ("avx2",), 4096, 1024, "no linker"
)
BUILD: Final = "ansorpy.measure.workers.worker_main:build"
TRIAL: Final = "ansorpy.measure.timing.trial"
ANSWERS: Final[tuple[tuple[str, str, object], ...]] = (
    (BUILD, CODEGEN, BuildResult(BUILT, 0.02)),
    (BUILD, SHARED, BuildResult(LIBRARY, 0.3)),
    (BUILD, CODEGEN, Raised("build", "BuildError", "no register", "Traceback ...")),
    (f"{TRIAL}:trial", CODEGEN, Measured((1e-4, 2e-4), 0.0, 0.1, 0.2, False, 0.3, 1.1)),
    (f"{TRIAL}:trial", CODEGEN, Failed("wrong", "C[0] is 1, not 2", "", 0.1)),
    (f"{TRIAL}:check", CODEGEN, Checked(0.1, 0.2, (1e-7, 0.0))),
    (
        "ansorpy.measure.timing.paired_benchmark:benchmark",
        CODEGEN,
        {"winner": (1e-4, 2e-4), "numpy": (3e-4,)},
    ),
    ("ansorpy.measure.workers.worker_main:prepare", CODEGEN, None),
)
NOTE: Final = json.dumps(["check", [["A", 4096, 8192, 4096, 8192]]]).encode()
JUNK: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1, 2**70, -0.5, float("nan"), float("inf"), "", "x" * 20_000, "\ud800", "\0",
    [], {}, [[]], [0, None], {"__class__": "os.system"}, "cos\nsystem\n", [1] * 11_000,
)  # fmt: skip
BITS: Final = (b"", b"\0", b"[", b"]", b",", b"-", b"9" * 400, b"NaN", b"1e999", b'"', b"\\ud800")


def job_of(backend: str = CODEGEN) -> BuildRequest:
    """Return a request of a back end."""
    return BuildRequest(backend, Kernel("", (), (), 1), Target())


def codecs() -> list[tuple[Codec, bytes, bytes]]:
    """Return the codec, the header and the raw bytes of every kind of answer."""
    found = []
    for function, backend, value in ANSWERS:
        codec = codec_of(function, job_of(backend))
        found.append((codec, *codec.encode(value)))
    return found


def bytes_damaged(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with a few flipped, removed, repeated or inserted."""
    held = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(held) + 1)
        match rng.randrange(5):
            case 0 if held:
                held[at % len(held)] = rng.randrange(256)
            case 1:
                del held[at : at + rng.randint(1, 20)]
            case 2:
                held[at:at] = held[: rng.randint(1, 20)]
            case 3:
                held[at:at] = rng.choice(BITS)
            case _:
                del held[at:]
    return bytes(held)


def value_damaged(rng: random.Random, value: Any) -> Any:
    """Return parsed JSON with one part replaced, removed or doubled."""
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        match rng.randrange(6):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value[:at], value[at], *value[at:]]
            case _:
                return [*value[:at], value_damaged(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.8:
        return {**value, rng.choice(list(value)): value_damaged(rng, rng.choice(JUNK))}
    return rng.choice(JUNK)


def header_damaged(rng: random.Random, header: bytes) -> bytes:
    """Return a header that is still JSON."""
    return json.dumps(value_damaged(rng, json.loads(header))).encode()


def run(count: int, seed: int) -> dict[str, int]:
    """Decode damaged answers; return the numbers of refused and of accepted ones."""
    rng = random.Random(seed)
    kinds = codecs()
    seen = {"count": count, "refused": 0, "values": 0}
    damage: tuple[Callable[[random.Random, bytes], bytes], ...] = (bytes_damaged, header_damaged)
    for _ in range(count):
        codec, header, raw = rng.choice(kinds)
        if rng.random() < 0.9:
            header = rng.choice(damage)(rng, header)
        if rng.random() < 0.2:
            raw = bytes_damaged(rng, raw)
        try:
            value = codec.decode(header, memoryview(raw))
        except WireError:
            seen["refused"] += 1
        else:
            again = codec.encode(value)
            assert codec.decode(again[0], memoryview(again[1])) == value, (header, raw)
            seen["values"] += 1
        note = bytes_damaged(rng, NOTE).decode(errors="replace")
        phase, overrun = explain(note, rng.randrange(16_384))
        assert isinstance(phase, str)
        assert overrun is None or isinstance(overrun, str)
    return seen


def main() -> None:
    """Parse the arguments, and decode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print(json.dumps(run(chosen.count, chosen.seed)))


if __name__ == "__main__":
    main()
