"""A wish to stop that a signal handler may utter."""

import time
from typing import Final

SLICE_S: Final = 0.1


class StopFlag:
    """Like `threading.Event`, whose lock a handler of the waiting thread would wait for forever."""

    def __init__(self) -> None:
        self._wanted = False

    def set(self) -> None:
        """Wish it."""
        self._wanted = True

    def is_set(self) -> bool:
        """Return whether it was wished."""
        return self._wanted

    def wait(self, timeout_s: float) -> bool:
        """Sleep, or until it is wished (seen within SLICE_S); return whether it was."""
        end_s = time.monotonic() + timeout_s
        while not self._wanted and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, SLICE_S))
        return self._wanted
