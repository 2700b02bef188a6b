"""Ctrl-C in a tuning: no interrupt is lost, and the tuning hears of it."""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SomeEvent = TypeVar("SomeEvent")
Answer = TypeVar("Answer")


def follow(
    events: Generator[SomeEvent, None, Answer], report: Callable[[SomeEvent], object]
) -> Answer:
    """Report every event of a tuning; return the value that the tuning returns.

    A KeyboardInterrupt, also while an event is reported, goes to the tuning, which keeps the best
    so far. A second interrupt before the next event is raised.
    """
    interrupted = False
    with dropped_interrupts() as dropped:
        while True:
            try:
                event = events.throw(KeyboardInterrupt()) if interrupted else next(events)
                interrupted = False
                report(event)
                if dropped:
                    dropped.clear()
                    raise KeyboardInterrupt  # noqa: TRY301 - as if it came here
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
            except StopIteration as end:
                answer: Answer = end.value
                return answer


@contextmanager
def dropped_interrupts() -> Iterator[list[object]]:
    """Give a list of the interrupts that Python drops: in finalizers, in callbacks of C libraries.

    It would print a line on standard error, and a search would go on.
    """
    usual = sys.unraisablehook
    dropped: list[object] = []

    def hook(unraisable: "UnraisableHookArgs", /) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            dropped.append(unraisable.exc_type)
        else:
            usual(unraisable)

    sys.unraisablehook = hook
    try:
        yield dropped
    finally:
        sys.unraisablehook = usual
