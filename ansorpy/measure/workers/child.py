"""What the measuring processes run: answering calls, and building.

Everything here happens in a disposable process: it may hang, crash or be killed at any point.
"""

import gc
import pickle
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from mmap import mmap
from typing import ClassVar, Final

from ansorpy.codegen.drive import driver
from ansorpy.codegen.exported import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import Built, backend
from ansorpy.measure.draft import Draft, bound
from ansorpy.measure.sandbox.confine import is_early, settle
from ansorpy.measure.verify.check import Layout
from ansorpy.measure.verify.poison import scribbler
from ansorpy.measure.workers.answers import codec_of
from ansorpy.measure.workers.crash import Recorder
from ansorpy.measure.workers.frames import ANSWER, CALL, find, read_exactly, write_all
from ansorpy.measure.workers.worker import Raised
from ansorpy.target import Target

PREPARE: Final = "ansorpy.measure.workers.child:prepare"
TRACEBACK_CHARS: Final = 2_000
PILED_UP: Final = 300_000  # objects since the last collection: megabytes


@dataclass(frozen=True)
class BuildJob:
    """Make machine code of a program, of one that is to be bound first, or of delivered source."""

    backend: str
    what: Program | Kernel | Export | Draft
    target: Target


@dataclass(frozen=True)
class BuildDone:
    """Machine code, and what it cost."""

    built: Built
    build_s: float


class _State:
    """Of one process."""

    recorder: Recorder | None = None
    phase = "start"
    ahead: ClassVar[dict[BuildJob, BuildDone]] = {}  # built before it was asked for


def warm(box: mmap) -> None:
    """Prepare, before any fork, what every child needs."""
    _State.recorder = Recorder(box)
    scribbler()
    driver()


def serve(link: int, box: mmap) -> None:
    """Answer calls until the supervisor closes the link (EOFError).

    Garbage is collected between calls: a builder keeps plans by the dozen, which would be walked
    through in the middle of most candidates.
    """
    gc.disable()
    if _State.recorder is None:
        warm(box)
        assert _State.recorder is not None
    _State.recorder.arm()
    while True:
        number, count = CALL.unpack(read_exactly(link, CALL.size))
        header, raw = _answer(read_exactly(link, count))
        write_all(link, ANSWER.pack(number, len(header), len(raw)) + header, raw)
        if gc.get_count()[0] > PILED_UP:
            gc.collect()


def _answer(request: bytearray) -> tuple[bytes, bytes]:
    """Return the encoded value of a call, or the encoded exception."""
    watch("start")
    try:
        function, argument = pickle.loads(request)  # of the parent, which is trusted
        if function != PREPARE:
            _settle(getattr(argument, "backend", ""))
        return codec_of(function, argument).encode(find(function)(argument))
    except BaseException as error:  # noqa: BLE001 - the boundary of a process: all is answered
        trace = traceback.format_exc()[-TRACEBACK_CHARS:]
        raised = Raised(_State.phase, type(error).__name__, str(error)[:500], trace)
        return codec_of(PREPARE, "").encode(raised)


def watch(phase: str, layout: Layout = ()) -> None:
    """Note what is done now, and where the buffers lie, for the case that it is the end."""
    _State.phase = phase
    if _State.recorder is not None:
        _State.recorder.note(phase, layout)


def prepare(name: str) -> None:
    """Import the back end, where the supervisor has not done it."""
    module = backend(name)
    if is_early():
        module.prepare_threads()


def _settle(name: str) -> None:
    """Fill the folder of compiled code, if that is still possible, then give it up."""
    if is_early() and name:
        backend(name).prepare_threads()
    settle()


def build_ahead(jobs: tuple[BuildJob, ...]) -> None:
    """Build what is going to be asked for; what cannot be built fails then.

    Delivered source remembers itself. What was built ahead before and never asked for is forgotten.
    """
    _State.ahead.clear()
    for job in jobs:
        with suppress(Exception):
            _State.ahead[job] = build(job)


def build(job: BuildJob) -> BuildDone:
    """Make machine code, unless that was done ahead."""
    if isinstance(job.what, Draft) and job in _State.ahead:
        return _State.ahead.pop(job)
    watch("build")
    start = time.perf_counter()
    module = backend(job.backend)
    match job.what:
        case Kernel():
            built = _from_source(job.backend, job.what, job.target)
        case Export():
            built = module.build(job.what, job.target)
        case _:
            built = module.build(bound(job.what, job.target), job.target)
    return BuildDone(built, time.perf_counter() - start)


@lru_cache(maxsize=4)
def _from_source(name: str, kernel: Kernel, target: Target) -> Built:
    """Return what is made of delivered source; the same may have been begun before its race."""
    return backend(name).build_source(kernel, target)
