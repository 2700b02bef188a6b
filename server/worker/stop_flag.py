"""Stop flag that a signal handler can set."""

import time
from typing import Final

SLICE_S: Final = 0.1  # longest delay until a waiting thread sees the flag


class StopFlag:
    """Flag like `threading.Event`, without its lock.

    A signal handler that sets an Event deadlocks if it interrupts a wait of the same thread.
    """

    def __init__(self) -> None:
        self._wanted = False

    def set(self) -> None:
        """Set the flag."""
        self._wanted = True

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._wanted

    def wait(self, timeout_s: float) -> bool:
        """Sleep until the flag is set or the time is over; return whether the flag is set."""
        end_s = time.monotonic() + timeout_s
        while not self._wanted and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, SLICE_S))
        return self._wanted
