"""Kernels of the user's own in a race: functions, and delivered files of earlier tunings.

A function is copied into the measuring process with the values that it uses (pickled by value); a
delivered file is imported there, as its user imports it.
"""

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.delivered import imported, unequal
from ansorpy.measure.timing.workplace import workplace
from ansorpy.measure.verify.guard_pages import aligned_empty
from ansorpy.measure.verify.inputs import Array, Inputs
from ansorpy.measure.workers.worker_main import watch

OWN: Final = "own: "  # the names of such kernels in a race begin so
PEER: Final = "peer: "  # the names of installed libraries in a race begin so
PICKLED: Final = "function.pickle"
MAX_PICKLED: Final = 64 << 20  # bytes of a function with the values that it uses


@dataclass(frozen=True)
class OwnKernel:
    """A kernel of the user's own: its files, of which `main` holds the function to call."""

    name: str
    main: str
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """The sha256 of its name and its files, in hex."""
        parts = [self.name.encode(), *(part for pair in self._sorted() for part in pair)]
        return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()

    def _sorted(self) -> list[tuple[bytes, bytes]]:
        return sorted((name.encode(), data) for name, data in self.files.items())


@dataclass(frozen=True)
class PlacedKernel:
    """An own kernel whose main file lies at a path; `inputs` are its arguments by name."""

    name: str
    file: str
    inputs: tuple[str, ...]

    @property
    def phase(self) -> str:
        """The words for its calls in messages."""
        return f"a call of {self.name}"


@dataclass(frozen=True)
class OwnCheck:
    """An own kernel and the folder of the cases that it has to pass.

    `nans`: also those with NaNs, which some libraries do not hand on from a maximum.
    """

    kernel: PlacedKernel
    folder: str
    nans: bool = True


def of_function(function: Callable[..., Any], name: str) -> OwnKernel:
    """Return a function, of Python or compiled by numba, as a kernel of a race.

    Raises:
        SpecError: it cannot be copied into another process, or is too large.
    """
    pickler: Any = import_module("numba.cloudpickle")  # also copies functions that it compiled
    # A module of the user's may not be importable in a measuring process.
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    by_value = module is not None and not _is_installed(module)
    try:
        if by_value:
            pickler.register_pickle_by_value(module)
        try:
            data = pickler.dumps(function)
        finally:
            if by_value:
                pickler.unregister_pickle_by_value(module)
    except Exception as error:  # objects that it uses raise anything when they are pickled
        raise SpecError(
            f"cannot race {name} because it cannot be copied into a measuring process ({error});"
            " expected a function of arrays"
        ) from error
    if len(data) > MAX_PICKLED:
        raise SpecError(
            f"cannot race {name} because it uses {len(data)} bytes of values; expected at most"
            f" {MAX_PICKLED}"
        )
    return OwnKernel(name, PICKLED, {PICKLED: data})


def _is_installed(module: Any) -> bool:
    """Return whether a measuring process can import a module: it lies in this interpreter."""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__":
        return False
    return file is None or str(Path(file).resolve()).startswith(str(Path(sys.prefix).resolve()))


def check(job: OwnCheck) -> Failed | None:
    """Return the failure of an own kernel; None if every case passes, with inputs unchanged.

    Run it in a fresh process: it may start threads, and imported modules stay.
    """
    watch(job.kernel.phase)
    function = _loaded(job.kernel).run
    for case in workplace(job.folder).cases:
        if case.nans and not job.nans:
            continue
        arrays = arguments(case.inputs, job.kernel.inputs)
        results = function(*arrays)
        found = results if isinstance(results, tuple) else (results,)
        wrong = _wrong_kinds(found, len(case.expected))
        wrong = wrong or unequal(case, [one.name for one in case.expected], found)
        for name, array in zip(job.kernel.inputs, arrays, strict=True):
            if wrong is None and array.tobytes() != np.asarray(case.inputs[name]).tobytes():
                wrong = f"{name}, an input, was changed"
        if wrong is not None:
            return Failed("wrong", f"{case.name} inputs: {wrong}")
    return None


def timed_call(kernel: PlacedKernel, inputs: Inputs) -> Callable[[], object]:
    """Return an own kernel as a call without arguments on copies of the inputs; it was run once."""
    watch(kernel.phase)
    call = _loaded(kernel).bind(arguments(inputs, kernel.inputs))
    call()
    return call


def arguments(inputs: Inputs, names: Sequence[str]) -> list[Array]:
    """Return aligned copies of inputs, in the order of `names`."""
    copies = []
    for name in names:
        array = np.asarray(inputs[name])
        copies.append(aligned_empty(array.size, array.dtype).reshape(array.shape))
        copies[-1][...] = array
    return copies


@dataclass(frozen=True)
class _Loaded:
    run: Callable[..., Any]
    bind: Callable[[list[Array]], Callable[[], object]]


def _loaded(kernel: PlacedKernel) -> _Loaded:
    """Return the functions of an own kernel in this process; its code may raise any error."""
    file = Path(kernel.file)
    if file.name != PICKLED:
        module = imported(file)
        return _Loaded(module.run, lambda arrays: module.prepare(*arrays))
    function = pickle.loads(file.read_bytes())
    return _Loaded(function, lambda arrays: lambda: function(*arrays))


def _wrong_kinds(results: Sequence[object], count: int) -> str | None:
    """Return why results are not `count` arrays; None if they are."""
    if len(results) != count:
        return f"{len(results)} results, expected {count}"
    kinds = [type(one).__name__ for one in results if not isinstance(one, np.ndarray | np.generic)]
    return f"a result is a {kinds[0]}, expected an array" if kinds else None
