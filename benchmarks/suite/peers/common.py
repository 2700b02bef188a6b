"""Input and result of a peer: a job, and a call that is ready."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.suite.forms import Form
from benchmarks.suite.reference import Array

ALIGN_BYTES: Final = 64


class Unfit(Exception):  # noqa: N818 -- not an error: the peer has no such operator
    """Raised by a peer that does not offer a form."""


@dataclass(frozen=True, slots=True)
class Job:
    """One form on given arrays, float32, C-contiguous, starting at multiples of 64 bytes.

    `folder` belongs to the peer and the case: it may hold compiled code.
    """

    case: str
    form: Form
    given: Mapping[str, Array]
    threads: int
    variant: str
    folder: Path

    @property
    def arrays(self) -> list[Array]:
        """The inputs in the order of the form."""
        return [self.given[given.name] for given in self.form.inputs]


@dataclass(frozen=True, slots=True)
class Ready:
    """The timed call and the array of its result, in any layout of the shape.

    The job must outlive the call: some libraries borrow its arrays without a reference.
    """

    call: Callable[[], object]
    output: Callable[[], Array]
    facts: Mapping[str, Any] = field(default_factory=dict)


def module(name: str) -> Any:
    """Import a module as Any: peers are optional, so that their types are unknown."""
    return importlib.import_module(name)


def aligned(array: Array) -> Array:
    """Return a copy that starts at a multiple of 64 bytes."""
    raw = np.empty(array.nbytes + ALIGN_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGN_BYTES
    copy: Array = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
