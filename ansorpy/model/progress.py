"""Progress of a model for people: one repainted line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final, TextIO

from ansorpy.events import (
    Crowded,
    FirstAnswer,
    Preflight,
    RoundDone,
    SlotNews,
    Started,
    Stopping,
    TooShort,
)
from ansorpy.model.events import (
    BundleWritten,
    Comparing,
    Cutting,
    Divided,
    ModelEstimate,
    ModelEvent,
    Recut,
)
from ansorpy.progress import Painter, as_line, bar, is_painted
from ansorpy.units import clock, counted, duration

GAIN: Final = 0.01  # share of the estimate by which it falls before a plain line tells so


@contextmanager
def model_reporter(
    stream: TextIO, now: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[ModelEvent], None]]:
    """Give a function that shows the events of a model on `stream`."""
    tally = ModelTally(now())
    painter = Painter(stream, lambda: tally.status(now())) if is_painted(stream) else None

    def report(event: ModelEvent) -> None:
        line = tally.take(event, painted=painter is not None)
        if line and painter:
            painter.above(line)
        elif line:
            stream.write(line + "\n")
            stream.flush()

    try:
        yield report
    finally:
        if painter:
            painter.close()


def graph_reporter(
    begin_s: float, now: Callable[[], float] = time.monotonic
) -> Callable[[TextIO], AbstractContextManager[Callable[[ModelEvent], None]]]:
    """Return a reporter of two lines: the tasks of a graph of torch.compile, then its seconds, the
    tasks that records answered, and the trials.

    Args:
        begin_s: when the compilation began, by the clock `now`.
    """

    @contextmanager
    def reporting(stream: TextIO) -> Iterator[Callable[[ModelEvent], None]]:
        answers, trials = dict[str, bool](), dict[str, int]()  # by task

        def report(event: ModelEvent) -> None:
            if isinstance(event, FirstAnswer):
                answers[event.task] = event.from_store
            elif isinstance(event, RoundDone):
                trials[event.task] = event.trials
            elif isinstance(event, Divided):
                tell(
                    f"compiling a graph of {counted(event.nodes_before, 'node')}:"
                    f" {counted(event.tasks, 'task')} for {counted(event.threads, 'thread')}"
                )

        def tell(line: str) -> None:
            stream.write(f"ansorpy: {line}\n")
            stream.flush()

        yield report
        known = f"{sum(answers.values())} of {counted(len(answers), 'task')} from the records"
        searched = f"{sum(trials.values())} trials" if trials else "no trial"
        tell(f"compiled the graph in {now() - begin_s:.1f} s: {known}, {searched}")

    return reporting


@dataclass
class ModelTally:
    """The state of the tuning of a model, from its events."""

    begin_s: float  # by the clock of the caller
    phase: str = "reading the model"
    tasks: int = 0
    answered: int = 0
    model_s: float = 0.0
    told_s: float = 0.0  # the estimate that a plain line told last
    written: bool = False
    asked: int = 0  # trials
    done: dict[str, int] = field(default_factory=dict)  # trials by task

    def take(self, event: ModelEvent, painted: bool) -> str:
        """Note an event; return the line that stays, "" for none."""
        match event:
            case Divided() | Cutting():
                self.tasks, self.phase = event.tasks, "first answers"
                return as_text(event) if isinstance(event, Divided) else ""
            case Started(trials=trials):
                self.asked, self.done = trials, {}
            case ModelEstimate():
                return self._estimated(event, painted)
            case FirstAnswer(task=task, best_s=best_s) if not painted:
                return f"{task}: {duration(best_s)} as a first answer"
            case RoundDone(task=task, trials=trials):
                self.phase, self.done[task] = "searching", trials
            case BundleWritten() | Comparing():
                return self._ending(event, painted)
            case Preflight() | Crowded() | SlotNews() | TooShort() | Recut():
                return str(event) if isinstance(event, Recut) else as_line(event)
            case Stopping():
                self.phase = "stopping"
                if not self.written:
                    return "stopping: no bundle, because some tasks have no first answer"
                return "stopping: a bundle of the best so far is written; Ctrl-C ends at once"
            case _:
                pass
        return ""

    def _ending(self, event: BundleWritten | Comparing, painted: bool) -> str:
        if isinstance(event, Comparing):
            self.phase = f"racing {', '.join(event.names)}"
            return "" if painted else self.phase
        ending = self.asked or event.verdict is not None
        self.phase, self.written = "ending" if ending else "opening the search", True
        return "" if event.verdict is not None else as_text(event)  # the result tells the verdict

    def _estimated(self, event: ModelEstimate, painted: bool) -> str:
        self.model_s, self.answered = event.model_s, event.answered
        fallen = event.model_s <= (1 - GAIN) * self.told_s
        if painted or event.answered < event.tasks or not (fallen or not self.told_s):
            return ""
        self.told_s = event.model_s
        trials = f" after {sum(self.done.values())} trials" if self.done else ""
        return f"model: about {duration(event.model_s)} per call{trials}"

    def status(self, now_s: float) -> str:
        """Return the line at the foot of a terminal."""
        parts = [self.phase]
        if self.phase == "searching":
            done = sum(self.done.values())
            parts = [f"{bar(done, self.asked)} {done}/{self.asked} trials"]
        elif self.tasks and self.answered < self.tasks:
            parts = [f"{self.phase}: {self.answered} of {self.tasks} tasks"]
        if self.tasks and self.answered == self.tasks:
            parts.append(f"model about {duration(self.model_s)}")
        return ", ".join([*parts, clock(now_s - self.begin_s)])


def as_text(event: Divided | BundleWritten) -> str:
    """Return an event as a line."""
    match event:
        case Divided():
            threads = f" for {counted(event.threads, 'thread')}" if event.threads else ""
            fired = ", ".join(f"{name} {sites}" for name, sites in event.passes.items())
            return (
                f"{event.nodes_before} nodes, {event.nodes} after passes"
                f"{f' ({fired})' if fired else ''}: {counted(event.parts, 'kernel call')} of"
                f" {counted(event.tasks, 'task')}{threads}, {event.seconds:.1f} s"
            )
        case BundleWritten():
            return (
                f"{event.bundle} written after {event.seconds:.1f} s: kernels take"
                f" {duration(event.model_s)} per call; error {event.error:.1e} of the largest"
                f" element (bound {event.bound:.1e}), verified against {event.reference}"
            )
