"""Main loop of a child process: answer calls; and the builds that a builder answers.

All of it runs in a disposable process, which may hang, crash or be killed at any point.
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

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.runtime.native_launcher import native_runtime
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import Built, backend
from ansorpy.measure.draft import Draft, bound
from ansorpy.measure.sandbox.confine import is_early, settle
from ansorpy.measure.verify.check import Layout
from ansorpy.measure.verify.poison import scribbler
from ansorpy.measure.workers.answers import codec_of
from ansorpy.measure.workers.crash import Recorder
from ansorpy.measure.workers.frames import ANSWER, CALL, find, read_exactly, write_all
from ansorpy.measure.workers.replies import Raised
from ansorpy.target import Target

PREPARE: Final = "ansorpy.measure.workers.worker_main:prepare"
TRACEBACK_CHARS: Final = 2_000  # characters of a traceback in an answer
GARBAGE_OBJECTS: Final = 300_000  # allocations since the last collection; some megabytes


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
    """State of this process."""

    recorder: Recorder | None = None
    phase = "start"
    ahead: ClassVar[dict[BuildJob, BuildDone]] = {}  # built before it was asked for


def warm(box: mmap) -> None:
    """Prepare before the first fork: crash handler, poison functions, kernel driver."""
    _State.recorder = Recorder(box)
    scribbler()
    native_runtime()


def serve(link: int, box: mmap) -> None:
    """Answer calls until the fork server closes the link (EOFError).

    Garbage is collected between calls only: a builder caches dozens of plans, and a collection
    that walks them would otherwise interrupt most builds.
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
        if gc.get_count()[0] > GARBAGE_OBJECTS:
            gc.collect()


def _answer(request: bytearray) -> tuple[bytes, bytes]:
    """Return the encoded value of a call, or the encoded exception."""
    watch("start")
    try:
        function, argument = pickle.loads(request)  # written by the parent, which is trusted
        if function != PREPARE:
            _lock_down(getattr(argument, "backend", ""))
        return codec_of(function, argument).encode(find(function)(argument))
    except BaseException as error:  # noqa: BLE001 - the boundary of a process: every exception is an answer
        trace = traceback.format_exc()[-TRACEBACK_CHARS:]
        raised = Raised(_State.phase, type(error).__name__, str(error)[:500], trace)
        return codec_of(PREPARE, "").encode(raised)


def watch(phase: str, layout: Layout = ()) -> None:
    """Note the current phase and the addresses of the buffers, for the report of a crash."""
    _State.phase = phase
    if _State.recorder is not None:
        _State.recorder.note(phase, layout)


def prepare(name: str) -> None:
    """Import the back end, unless the fork server preloaded it."""
    module = backend(name)
    if is_early():
        module.prepare_threads()


def _lock_down(name: str) -> None:
    """Fill the folder of compiled code while it is writable, then make it read-only."""
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
