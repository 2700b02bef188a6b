"""The survey of a cluster: a thread of the worker, and a process of it that imports Ray.

The process prints a line of JSON every few seconds (`server.schemas.survey`) until its input ends.
The worker checks each line and stores it. Of several workers with one cluster, only the worker with
the lease runs a process.
"""

import logging
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pydantic import ValidationError
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from ansorpy.cluster.place import named_cluster
from ansorpy.cluster.ray.environment import ray_environment
from ansorpy.errors import SpecError
from ansorpy.measure.sandbox import family
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.jobs.slots import end_survey, store_report, take_survey
from ansorpy.server.logs import fields
from ansorpy.server.schemas.survey import SurveyReport

log = logging.getLogger(__name__)

MODULE: Final = "ansorpy.cluster.ray.survey"
HERE: Final = "here:"  # begins the address of slots that belong to one tuning
LOOK_S: Final = 0.2  # longest delay until the thread sees that it shall stop
BEAT_S: Final = 5.0  # interval at which the lease is extended, or tried
AGAIN_S: Final = 10.0  # pause before a process that ended is started again
SILENT_S: Final = 120.0  # time without a valid line after which a process is replaced
END_S: Final = 2.0  # time for a process to end by itself
STOP_S: Final = 5.0  # longest delay of the end of a worker
CHUNK_BYTES: Final = 1 << 16
MAX_LINE_BYTES: Final = 1 << 24  # 10,000 slots of 1,600 bytes

Process = subprocess.Popen[bytes]


def start_survey(cluster: str) -> Process:
    """Start the survey process of a cluster.

    Raises:
        SpecError: Ray is not installed, or there is no secret.
    """
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, cluster, "--watch"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
        env={**ray_environment(), "PYTHONPATH": path},
    )  # fmt: skip


class Surveyor:
    """A thread that stores the reports of a cluster while this worker has the lease.

    Args:
        cluster: HOST:PORT of the head.
        start: starts a survey process; an injected program in tests.
        again_s, beat_s, silent_s: AGAIN_S, BEAT_S, SILENT_S, or shorter in tests.
    """

    def __init__(
        self,
        engine: Engine,
        owner: str,
        cluster: str,
        start: Callable[[str], Process] = start_survey,
        again_s: float = AGAIN_S,
        beat_s: float = BEAT_S,
        silent_s: float = SILENT_S,
    ) -> None:
        self._engine, self._owner, self._cluster = engine, owner, cluster
        self._start = start
        self._again_s, self._beat_s, self._silent_s = again_s, beat_s, silent_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="surveyor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the process, and give the lease back."""
        self._ended.set()
        self._thread.join(STOP_S)  # the process ends with this one, too: its input is closed

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._write():
                self._ended.wait(self._beat_s)
                continue
            try:
                process = self._start(self._cluster)
            except SpecError as error:
                self._write(SurveyReport(slots=[], reason=str(error)))
            else:
                try:
                    self._read(process)
                finally:
                    code = _end(process)
                log.info("survey ended", extra=fields(cluster=self._cluster, code=code))
            self._ended.wait(self._again_s)
        with suppress(DBAPIError), transaction(self._engine) as tx:
            end_survey(tx, self._cluster, self._owner)

    def _read(self, process: Process) -> None:
        """Store the lines of a process until it ends or is silent, or the lease is lost."""
        lines = _Lines(process)
        valid_s = last_s = time.monotonic()
        while not self._ended.is_set():
            try:
                line = lines.next(LOOK_S)
            except EOFError as error:
                log.warning("survey ends", extra=fields(cluster=self._cluster, reason=str(error)))
                return
            report = self._checked(line) if line is not None else None
            now_s = time.monotonic()
            if report is not None:
                valid_s = now_s
            elif now_s - valid_s > self._silent_s:
                log.warning("survey is silent", extra=fields(cluster=self._cluster))
                return
            if report is not None or now_s - last_s >= self._beat_s:
                last_s = now_s
                if not self._write(report):
                    return

    def _checked(self, line: bytes) -> SurveyReport | None:
        try:
            return SurveyReport.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            log.warning("survey line refused", extra=fields(cluster=self._cluster, reason=reason))
            return None

    def _write(self, report: SurveyReport | None = None) -> bool:
        """Extend the lease and store a report; return False if another worker has the lease.

        While the database does not answer, the lease counts as lost.
        """
        try:
            with transaction(self._engine) as tx:
                now_s = now(tx)
                if not take_survey(tx, self._cluster, self._owner, now_s):
                    return False
                if report is not None:
                    store_report(tx, self._cluster, report, now_s)
        except DBAPIError as error:
            reason = type(error).__name__
            log.warning("database does not answer", extra=fields(reason=reason))
            return False
        return True


class _Lines:
    """The lines that a process prints."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._pipe = process.stdout
        self._parts: list[bytes] = []  # begin of a line whose end has not arrived
        self._size = 0
        self._whole: list[bytes] = []  # lines, the newest first

    def next(self, timeout_s: float) -> bytes | None:
        """Return the next line, or None after `timeout_s`.

        Raises:
            EOFError: the process has closed its output, or its line is too long.
        """
        if not self._whole:
            with selectors.DefaultSelector() as selector:
                selector.register(self._pipe, selectors.EVENT_READ)
                if not selector.select(timeout_s):
                    return None
            self._take(os.read(self._pipe.fileno(), CHUNK_BYTES))
        return self._whole.pop() if self._whole else None

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            raise EOFError("the process has closed its output")
        *lines, rest = chunk.split(b"\n")
        if lines:
            self._whole = [*reversed(lines[1:]), b"".join([*self._parts, lines[0]])]
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > MAX_LINE_BYTES:
            raise EOFError(f"a line has more than {MAX_LINE_BYTES} bytes")


def _end(process: Process) -> int:
    """End a process and all that it started; return its exit code."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):
        process.stdin.close()
    end_s = time.monotonic() + END_S
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT  # not collected: its session keeps its number
    while os.waitid(os.P_PID, process.pid, flags) is None and time.monotonic() < end_s:
        time.sleep(LOOK_S / 4)
    family.end_session(process.pid)
    process.stdout.close()
    return process.wait()


@contextmanager
def surveying(engine: Engine, identity: ProcessIdentity) -> Iterator[None]:
    """Survey the cluster of this worker during the block, if it has one.

    An address that is none is told here, and by each job of the worker.
    """
    try:
        cluster = named_cluster()
    except SpecError as error:
        log.warning("no survey", extra=fields(reason=str(error)))
        cluster = ""
    if not cluster or cluster.startswith(HERE):
        yield
        return
    surveyor = Surveyor(engine, str(identity), cluster)
    surveyor.start()
    try:
        yield
    finally:
        surveyor.stop()
