"""Refusals of a trace, with the line of the user's code."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import numpy as np

from ansorpy.errors import TraceError

OURS: Final = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, np.__file__))


class Unsupported(Exception):  # noqa: N818  it becomes a TraceError with a place
    """A rule of the trace does not take these operands."""

    def __init__(self, because: str, expected: str) -> None:
        super().__init__(f"{because}; expected {expected}")
        self.because, self.expected = because, expected


def refuse(
    subject: str, function: str, because: str, expected: str, cause: Exception | None = None
) -> NoReturn:
    """Raise the TraceError of a line of the user's code.

    Args:
        subject: the operation, such as `np.sort`.
        function: the name of the traced function.
    """
    raise TraceError(
        f"cannot trace {subject} in {function}{place()} because {because}; expected {expected}"
    ) from cause


def place() -> str:
    """Return the innermost line outside of this package and of NumPy, as " (model.py:12)"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    if frame is None:
        return ""
    return f" ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"
