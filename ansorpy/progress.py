"""Progress for people: one repainted line on a terminal and in Jupyter, plain lines elsewhere.

`ansorpy.tune` and the command line share it, so it needs the standard library only.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TextIO, TypeVar

from ansorpy.events import (
    BaselineTimed,
    Crowded,
    Delivered,
    Derived,
    Emulating,
    Event,
    Finished,
    FirstAnswer,
    Improved,
    NoTrials,
    Plugged,
    Preflight,
    Racing,
    RoundDone,
    Seeded,
    SlotNews,
    Started,
    Stopping,
    TaskDone,
    TooShort,
)
from ansorpy.units import clock, counted, duration, eta_s, size

Report = Callable[[Event], None]
SomeEvent = TypeVar("SomeEvent")

NOT_TIMED: Final = "estimated, not timed"
EMULATION: Final = "check under the emulator, which takes minutes for large sizes"
TICK_S: Final = 0.5  # between two repaints: the elapsed time goes on while nothing happens
COLUMNS: Final = 100  # width of a stream that does not tell its own
BAR: Final = 20  # characters
IN_STATUS: Final = (RoundDone, Racing, Emulating)  # the status line says as much


def is_painted(stream: TextIO) -> bool:
    """Return whether a line of this stream can be repainted: on a terminal and in Jupyter."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")


def ignore(event: object) -> None:
    """Show nothing."""


@contextmanager
def told(
    reporting: Callable[[TextIO], AbstractContextManager[Callable[[SomeEvent], None]]],
    progress: bool | None,
    on_event: Callable[[SomeEvent], object],
) -> Iterator[Callable[[SomeEvent], None]]:
    """Give a function that shows an event on standard error, then hands it to `on_event`.

    Args:
        progress: True to show events; None: only if standard error can be repainted.
    """
    shown = is_painted(sys.stderr) if progress is None else progress
    with reporting(sys.stderr) if shown else nullcontext(ignore) as report:

        def tell(event: SomeEvent) -> None:
            report(event)
            on_event(event)

        yield tell


@contextmanager
def reporter(stream: TextIO, now: Callable[[], float] = time.monotonic) -> Iterator[Report]:
    """Give a function that shows events on `stream`; an interrupt names the files that exist."""
    tally = Tally(now())
    painter = Painter(stream, lambda: tally.status(now())) if is_painted(stream) else None
    tell = painter.above if painter else lambda line: _print(stream, line)

    def report(event: Event) -> None:
        shown = tally.take(event, now())
        line = "" if shown is None else tally.line(shown)
        if line and not (painter and isinstance(shown, IN_STATUS)):
            tell(line)

    try:
        yield report
    except KeyboardInterrupt:
        tell(tally.interrupted())
        raise
    finally:
        if painter:
            painter.close()


def _print(stream: TextIO, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()


@dataclass
class Tally:
    """The state of a tuning, from its events: best known latencies, trials, files, phase.

    The best known latency of a task is the latency of its first answer until a trial is faster.
    """

    begin_s: float  # by the clock of the caller
    asked: int = 0  # trials
    limit_s: float | None = None
    done: dict[str, int] = field(default_factory=dict)  # trials by task
    best_s: dict[str, float] = field(default_factory=dict)
    written: dict[str, Path] = field(default_factory=dict)  # the newest zip by task
    task: str = ""
    phase: str = "starting"
    searching: bool = False
    stopping: bool = False
    estimated: bool = False  # trials have no times
    end_s: float | None = None  # end of the search, forecast after the last round

    def take(self, event: Event, now_s: float) -> Event | None:
        """Note an event; return it as it is shown, None if it says nothing new."""
        match event:
            case Started(trials=trials, seconds=seconds):
                self.begin_s, self.asked, self.limit_s = now_s, trials, seconds
            case FirstAnswer(task=task) | Delivered(task=task):
                self.task, self.written[task] = task, event.kernel
                self.searching = self.asked > 0
                self._improved(task, event.best_s)
            case Improved(task=task, best_s=best_s):
                return event if self._improved(task, best_s) else None
            case RoundDone():
                return self._round(event, now_s)
            case TaskDone(result=result):
                if result.kernel is not None:
                    self.written[result.name] = result.kernel
            case _:
                self._phase(event)
        return event

    def line(self, event: Event) -> str:
        """Return the line of an event as `take` has returned it."""
        follows = isinstance(event, FirstAnswer | Delivered) and self.asked > 0
        return as_line(event) + (" until the final zip replaces it" if follows else "")

    def _phase(self, event: Event) -> None:
        match event:
            case Derived(task=task):
                self.task, self.phase = task, "opening the search space"
            case Racing(task=task):
                self.task, self.searching = task, False
                self.phase = "final race against the untuned kernel and NumPy"
            case Emulating(task=task):
                self.task, self.searching = task, False
                self.phase = EMULATION
            case Stopping():
                self.phase, self.searching, self.stopping = "ending the search", False, True
            case _:
                pass

    def _improved(self, task: str, best_s: float) -> bool:
        known_s = self.best_s.get(task)
        self.best_s[task] = best_s if known_s is None else min(best_s, known_s)
        return known_s is None or best_s < known_s

    def _round(self, event: RoundDone, now_s: float) -> RoundDone:
        self.task, self.searching, self.estimated = event.task, True, event.estimated
        self.done[event.task] = event.trials
        if event.best_s is not None:
            self._improved(event.task, event.best_s)
        left_s = eta_s(sum(self.done.values()), self.asked, now_s - self.begin_s, self.limit_s)
        self.end_s = None if left_s is None else now_s + left_s
        return replace(event, best_s=self.best_s.get(event.task))

    def status(self, now_s: float) -> str:
        """Return the line at the foot of a terminal."""
        parts = [self._doing()]
        if self.task in self.best_s:
            parts.append(f"best {duration(self.best_s[self.task])}")
        if self.estimated:
            parts.append(NOT_TIMED)
        parts.append(clock(now_s - self.begin_s))
        if self.searching and self.end_s is not None:
            parts.append(f"ETA of the search {clock(max(0.0, self.end_s - now_s))}")
        subject = "stopping: " if self.stopping else ""
        return f"{subject}{self.task}{': ' if self.task else ''}{', '.join(parts)}"

    def _doing(self) -> str:
        if not self.searching:
            return self.phase
        done = sum(self.done.values())
        return f"{bar(done, self.asked)} {done}/{self.asked} trials"

    def interrupted(self) -> str:
        """Return the message of a tuning that ends without a result: the files that are there."""
        paths = [str(path) for path in self.written.values() if path.exists()]
        if not paths:
            return "ansorpy: interrupted before a kernel could be written"
        return f"ansorpy: interrupted; written before: {', '.join(paths)}"


class Painter:
    """One line at the foot of a stream, repainted in place; other lines go above it.

    It uses carriage returns and spaces only: Jupyter knows no escape sequences.
    """

    def __init__(self, stream: TextIO, status: Callable[[], str], tick_s: float = TICK_S) -> None:
        self._stream, self._status, self._tick_s = stream, status, tick_s
        self._width = 0  # characters of the painted line
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="ansorpy-progress", daemon=True)
        self._thread.start()

    def above(self, line: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self._put(line, "\n")
            self._put(self._status()[: _columns(self._stream) - 1])

    def close(self) -> None:
        """End the repainting and clear the line."""
        self._over.set()
        self._thread.join()
        with self._lock:
            self._put("")
            self._put("")  # back to the first column

    def _put(self, text: str, end: str = "") -> None:
        self._stream.write("\r" + text.ljust(self._width) + end)
        self._stream.flush()
        self._width = 0 if end else len(text)

    def _tick(self) -> None:
        with suppress(OSError, ValueError):  # the stream may be closed
            while not self._over.wait(self._tick_s):
                with self._lock:
                    self._put(self._status()[: _columns(self._stream) - 1])


def _columns(stream: TextIO) -> int:
    with suppress(OSError, ValueError, AttributeError):  # no terminal, or no file at all
        return os.get_terminal_size(stream.fileno()).columns or COLUMNS
    return COLUMNS


def bar(done: int, asked: int) -> str:
    """Return a bar of plain characters: `[#####---------------]`."""
    full = round(BAR * min(done, asked) / max(asked, 1))
    return f"[{'#' * full}{'-' * (BAR - full)}]"


def as_line(event: Event) -> str:
    """Return one line for an event; "" for an event that only a status line shows."""
    match event:
        case Started(tasks=tasks, known=known, trials=trials, twins=twins, threads=threads):
            names = ", ".join(tasks) + (f" for {counted(threads, 'thread')}" if threads else "")
            equal = "".join(f"; {twin} equals {task}" for twin, task in twins.items())
            return f"tuning {names}: {trials} trials, {sum(known)} records known{equal}"
        case Derived():
            return _of_space(event)
        case Seeded(task=task, programs=programs, reasons=reasons):
            started = f"{task}: {programs} programs of other records are measured first"
            return "; ".join((started, *reasons))
        case Plugged(option=option, name=name, package=package, forgets=forgets):
            after = "; after an interruption it starts without its memory" if forgets else ""
            return f"{option} {name} of {package}{after}"
        case Improved(task=task, best_s=best_s, trials=trials):
            return f"{task}: best {duration(best_s)} after {trials} trials"
        case RoundDone():
            return _of_round(event)
        case Preflight() | Emulating():
            return _of_check(event)
        case TooShort() | NoTrials() | Crowded() | SlotNews():
            return str(event)
        case (
            BaselineTimed()
            | FirstAnswer()
            | Delivered()
            | Racing()
            | TaskDone()
            | Stopping()
            | Finished()
        ):
            return _of_delivery(event)


def _of_space(event: Derived) -> str:
    if event.loops:
        return f"{event.task}: the schedule makes these loops\n{event.loops.rstrip()}"
    if event.sketches is None:
        return f"{event.task}: the template makes the candidates"
    return f"{event.task}: {event.sketches} sketches, {event.plans} plans"


def _of_check(event: Preflight | Emulating) -> str:
    if isinstance(event, Emulating):
        return f"{event.task}: {EMULATION}"
    proof = f"preflight: {event.by} of {event.task}"
    took = f" after {event.seconds:.1f} s" if event.seconds else ""
    told = f"{proof} was built and is right{took}; a check takes up to {size(event.need_bytes)}"
    if event.free_bytes is None:
        return told
    may = ", which may not suffice" if event.free_bytes < event.need_bytes else ""
    return f"{told} of memory, {size(event.free_bytes)} are free{may}"


def _of_round(event: RoundDone) -> str:
    best = "best none yet" if event.best_s is None else f"best {duration(event.best_s)}"
    best = NOT_TIMED if event.estimated else best
    failed, spent = sum(event.failures.values()), event.spent
    return (
        f"{event.task}: round {event.round}, {event.trials} trials, {best},"
        f" {failed} failed, {spent.propose_s:.1f} s propose,"
        f" {spent.measure_s:.1f} s measure, {spent.train_s:.1f} s train"
    )


def _of_delivery(
    event: BaselineTimed | FirstAnswer | Delivered | Racing | TaskDone | Stopping | Finished,
) -> str:
    match event:
        case FirstAnswer(task=task, kernel=kernel, best_s=best_s, seconds=seconds):
            return f"{task}: first answer after {seconds:.1f} s: {duration(best_s)}, {kernel}"
        case BaselineTimed(task=task, baseline_s=baseline_s):
            told = "none" if baseline_s is None else duration(baseline_s)
            return f"{task}: the faster of the untuned kernel and NumPy: {told}"
        case Delivered(task=task, kernel=kernel, best_s=best_s):
            return f"{task}: {duration(best_s)} verified and written to {kernel}"
        case Racing(task=task):
            return f"{task}: final race against the untuned kernel and NumPy"
        case TaskDone():
            return ""
        case Stopping():
            return (
                "stopping: the best so far is raced, verified and written;"
                " a second Ctrl-C ends at once"
            )
        case Finished(seconds=seconds, stopped=stopped):
            return f"finished after {seconds:.1f} s ({stopped})"
