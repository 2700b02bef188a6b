"""Main loop of a child process: answer calls; and the builds that a builder answers.

All of it runs in a disposable process, which may hang, crash or be killed at any point.
"""

import gc
import time
import traceback
from dataclasses import dataclass
from mmap import mmap
from typing import Final

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.runtime.native_launcher import native_runtime
from ansorpy.errors import DeviceFault
from ansorpy.measure.backend import backend, build_source, prepare_threads
from ansorpy.measure.outcome import Failed
from ansorpy.measure.protocols import BuildRequest, BuildResult
from ansorpy.measure.sandbox.confine import is_early, settle
from ansorpy.measure.unbound import bound
from ansorpy.measure.values import decode
from ansorpy.measure.verify.check import Layout
from ansorpy.measure.verify.poison import scribbler
from ansorpy.measure.workers.answers import codec_of
from ansorpy.measure.workers.crash import Recorder
from ansorpy.measure.workers.failure_kinds import failed_build
from ansorpy.measure.workers.frames import ANSWER, CALL, find, read_exactly, write_all
from ansorpy.measure.workers.replies import Raised

PREPARE: Final = "ansorpy.measure.workers.worker_main:prepare"
TRACEBACK_CHARS: Final = 2_000  # characters of a traceback in an answer
GARBAGE_OBJECTS: Final = 300_000  # allocations since the last collection; some megabytes


@dataclass(frozen=True)
class BuildBatch:
    """Several build requests of one back end."""

    backend: str
    requests: tuple[BuildRequest, ...]


class _State:
    """State of this process."""

    recorder: Recorder | None = None
    phase = "start"
    lost = False  # whether the context of a GPU had a fault: no later call can succeed


def arm(box: mmap) -> None:
    """Prepare a process that builds, before the first fork: the crash handler."""
    _State.recorder = Recorder(box)


def warm(box: mmap) -> None:
    """Prepare a process that runs kernels: crash handler, poison functions, kernel driver."""
    arm(box)
    scribbler()
    native_runtime()


def serve(link: int, box: mmap) -> None:
    """Answer calls until the fork server closes the link (EOFError), or a GPU has a fault.

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
        if _State.lost:  # the next call finds a new process, with a new context
            return
        if gc.get_count()[0] > GARBAGE_OBJECTS:
            gc.collect()


def _answer(request: bytearray) -> tuple[bytes, bytes]:
    """Return the encoded value of a call, or the encoded exception."""
    watch("start")
    try:
        function, argument = decode(request)
        if function != PREPARE:
            _lock_down(getattr(argument, "backend", ""))
        return codec_of(function, argument).encode(find(function)(argument))
    except BaseException as error:  # noqa: BLE001 - the boundary of a process: every exception is an answer
        _State.lost = isinstance(error, DeviceFault)
        return codec_of(PREPARE, "").encode(_raised(error))


def _raised(error: BaseException) -> Raised:
    """Return the exception in progress as a reply."""
    trace = traceback.format_exc()[-TRACEBACK_CHARS:]
    return Raised(_State.phase, type(error).__name__, str(error)[:500], trace)


def watch(phase: str, layout: Layout = ()) -> None:
    """Note the current phase and the addresses of the buffers, for the report of a crash."""
    _State.phase = phase
    if _State.recorder is not None:
        _State.recorder.note(phase, layout)


def prepare(name: str) -> None:
    """Import the back end, unless the fork server preloaded it."""
    backend(name)
    if is_early():
        prepare_threads(name)


def _lock_down(name: str) -> None:
    """Fill the folder of compiled code while it is writable, then make it read-only."""
    if is_early() and name:
        prepare_threads(name)
    settle()


def build(request: BuildRequest) -> BuildResult:
    """Make machine code."""
    watch("build")
    start = time.perf_counter()
    module = backend(request.backend)
    match request.what:
        case Kernel():
            built = build_source(request.backend, request.what, request.target)
        case Export():
            built = module.build(request.what, request.target)
        case _:
            built = module.build(bound(request.what, request.target), request.target)
    return BuildResult(built, time.perf_counter() - start)


def build_batch(batch: BuildBatch) -> tuple[BuildResult | Failed, ...]:
    """Build every request of a batch, one after the other."""
    return tuple(map(_built, batch.requests))


def _built(request: BuildRequest) -> BuildResult | Failed:
    start = time.perf_counter()
    try:
        return build(request)
    except Exception as error:  # noqa: BLE001 - a failure of one request is a value of the batch
        return failed_build(_raised(error), time.perf_counter() - start)
