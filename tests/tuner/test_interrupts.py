"""Interrupts reach a tuning, wherever they come."""

import ctypes
import signal
import sys
from collections.abc import Callable, Generator
from typing import Final

import pytest

from ansorpy.tuner.interrupts import follow


class Finalized:
    """A value whose finalizer is interrupted, as LightGBM's data sets may be."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def in_a_finalizer() -> None:
    del_me: list[Finalized] = [Finalized()]
    del_me.clear()


def in_a_callback() -> None:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def compare(a: int, b: int) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, 4, prototype(compare))


def in_code() -> None:
    signal.raise_signal(signal.SIGINT)


PLACES: Final = [in_a_finalizer, in_a_callback, in_code]


def tuning(work: Callable[[], None]) -> Generator[int, None, str]:
    """Work in rounds until an interrupt comes; return the reason of the end."""
    try:
        for number in range(100):
            work()
            yield number
    except KeyboardInterrupt:
        yield -1
        return "interrupted"
    return "trials"


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_of_the_tuning_ends_it(place: Callable[[], None]) -> None:
    seen: list[int] = []
    assert follow(tuning(place), seen.append) == "interrupted"
    assert seen[-1] == -1
    assert len(seen) < 100


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_of_a_report_ends_the_tuning(place: Callable[[], None]) -> None:
    seen: list[int] = []

    def report(number: int) -> None:
        seen.append(number)
        if number == 3:
            place()

    assert follow(tuning(lambda: None), report) == "interrupted"
    assert 3 in seen
    assert len(seen) < 100


def test_an_interrupt_that_the_tuning_does_not_take_is_raised() -> None:
    def deaf() -> Generator[int, None, str]:
        yield 0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(deaf(), lambda number: None)


def test_other_exceptions_of_finalizers_are_told_as_usual(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)  # not pytest's hook

    class Broken:
        def __del__(self) -> None:
            raise ValueError("of a finalizer")

    def work() -> None:
        broken = [Broken()]
        broken.clear()

    follow(tuning(work), lambda number: None)
    assert "of a finalizer" in capfd.readouterr().err
