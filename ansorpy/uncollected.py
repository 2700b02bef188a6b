"""Work during which the garbage collector pauses."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector: it would walk thousands of new values, and find them alive.

    Also a decorator. A collector that was paused before stays paused afterwards.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
