"""The death of the process that started this one, as a signal."""

import ctypes
import signal
from typing import Final

PDEATHSIG: Final = 1  # prctl option: signal at the death of the parent


def end_with_parent(end: signal.Signals = signal.SIGKILL) -> None:
    """Let Linux send a signal to this process when the thread ends that started it."""
    ctypes.CDLL(None).prctl(PDEATHSIG, end)
