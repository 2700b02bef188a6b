"""Questions to a slot and its answers: frames of bytes, whose values `measure.values` reads."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from math import isfinite
from typing import Any, BinaryIO, Final, get_args

from ansorpy.errors import WireError
from ansorpy.measure.outcome import Estimated, Failed, FailureKind, Measured, Outcome
from ansorpy.measure.values import decode
from ansorpy.target import Target

LENGTH: Final = 8  # bytes of the length of a frame
FRAME_BYTES: Final = 1 << 30  # the largest frame; the weights of a constant input may be in it


@dataclass(frozen=True, slots=True)
class Question:
    """A call of a method of a pool, or of the slot itself.

    Args:
        method: "hello", "open", "close", or the name of a method of `RacePool`.
        pool: number of the pool; each driver numbers its own.
    """

    method: str
    pool: int = 0
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """Number of candidates that it measures."""
        return len(self.arguments[0]) if self.method == "measure" else 0


@dataclass(frozen=True, slots=True)
class SlotAnswer:
    """The value of a call, or the text of the error that it raised."""

    value: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """A slot: cores of one machine, and the versions of the programs that it runs.

    Args:
        kind: digest of the target with all of its cores.
        host: name of the machine.
        versions: by name; a driver has equal versions.
    """

    kind: str
    host: str
    cores: tuple[int, ...]
    target: Target
    versions: Mapping[str, str]


@cache
def own_versions() -> Mapping[str, str]:
    """Return the versions that the two ends of a question must share."""
    return {
        "ansorpy": version("ansorpy"),
        "Python": ".".join(map(str, sys.version_info[:2])),
    }


def refusal(theirs: Mapping[str, str]) -> str:
    """Return why a slot with these versions takes no question of this process; "" if it does."""
    for name, ours in own_versions().items():
        if theirs.get(name) != ours:
            return (
                f"cannot use it because it runs {name} {theirs.get(name, 'of no known version')};"
                f" expected {ours}, as here"
            )
    return ""


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return the next frame; None at the end of the stream.

    Raises:
        WireError: the frame is too large, or ends in the middle.
    """
    head = stream.read(LENGTH)
    if not head:
        return None
    count = int.from_bytes(head, "little")
    if len(head) < LENGTH or count > FRAME_BYTES:
        raise WireError(f"not a frame: {count} bytes; expected at most {FRAME_BYTES}")
    data = stream.read(count)
    if len(data) < count:
        raise WireError(f"not a frame: {len(data)} of {count} bytes")
    return data


def write_frame(descriptor: int, data: bytes) -> None:
    """Write a frame to a descriptor."""
    view = memoryview(len(data).to_bytes(LENGTH, "little") + data)
    while view:
        view = view[os.write(descriptor, view) :]


def asked(data: bytes) -> Question:
    """Return the question in a frame.

    Raises:
        WireError: the bytes are no question.
    """
    found = decode(data)
    if not isinstance(found, Question) or type(found.method) is not str:
        raise WireError("not a question")
    return found


def answered(data: bytes) -> Any:
    """Return the value of the answer in a frame.

    Raises:
        WireError: the bytes are no answer, or the slot raised an error.
    """
    found = decode(data)
    if not isinstance(found, SlotAnswer):
        raise WireError("not an answer")
    if found.error:
        raise WireError(f"the slot raised {found.error}"[:2000])
    return found.value


def question(method: str, pool: int = 0, *arguments: Any, **options: Any) -> Question:
    """Return the question that calls a method of a pool."""
    return Question(method, pool, arguments, options)


def outcomes(value: Any, count: int) -> list[Outcome | None]:
    """Return the outcomes of a batch, checked: a slot's answer is data.

    A candidate that the slot did not come to has None.

    Raises:
        WireError: there is not one possible outcome for each of `count` candidates.
    """
    if not isinstance(value, Sequence) or len(value) != count or not all(map(_possible, value)):
        raise WireError(f"not the outcomes of {count} candidates")
    return list(value)


def _possible(outcome: Any) -> bool:
    if outcome is None:
        return True
    if isinstance(outcome, Failed):
        return outcome.kind in get_args(FailureKind) and type(outcome.message) is str
    if isinstance(outcome, Estimated):
        return _positive(outcome.seconds)
    return (
        isinstance(outcome, Measured)
        and type(outcome.times_s) is tuple
        and bool(outcome.times_s)
        and all(map(_positive, outcome.times_s))
        and _positive(outcome.slowdown)
    )


def _positive(number: Any) -> bool:
    return isinstance(number, float) and isfinite(number) and number > 0
