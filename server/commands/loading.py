"""Ctrl-C while modules load: one line and exit code 130.

An exception in the middle of an import would end in a traceback, or be swallowed by a package; and
if KeyboardInterrupt has passed through `exec`, as in dataclasses, CPython ends itself by the signal
for any exit code.
"""

import os
import sys
from signal import SIGINT, default_int_handler, getsignal, signal
from typing import Any

INTERRUPTED = 128 + SIGINT  # exit code after Ctrl-C, as shells count it


def begin_loading() -> None:
    """End the process at once at a SIGINT from now on, unless it is ignored."""
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, _leave)


def end_loading() -> None:
    """Let a SIGINT raise KeyboardInterrupt again."""
    if getsignal(SIGINT) is _leave:
        signal(SIGINT, default_int_handler)


def _leave(*_: Any) -> None:
    sys.stderr.write("ansorpy: interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
