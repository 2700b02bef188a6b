"""The interface of a code generator: a module with `build` and `load`.

A back end is named by its import path, because child processes import it.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast, runtime_checkable

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel, PhaseInfo
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Buffer, Program
from ansorpy.target import Target

CODEGEN: Final = "ansorpy.codegen.loader"
DEVICE: Final = "ansorpy.codegen.simt.device"  # a GPU of this machine
SHARED: Final = "ansorpy.codegen.shared_library"  # `build` takes an Export


class MachineCode(Protocol):
    """Machine code that can cross a process border."""

    def __hash__(self) -> int:
        """Equal machine code is measured once."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers, in the order of the addresses."""

    @property
    def steady(self) -> tuple[str, ...]:
        """The buffers that calls read and never write, as far as known."""

    @property
    def phases(self) -> tuple[PhaseInfo, ...]:
        """The native functions."""


class CallableCode(Protocol):
    """Callable code; addresses are of row-major, element-aligned buffers in order."""

    def run(self, addresses: Sequence[int]) -> None:
        """Run the phases that are not ahead, all tasks on this thread."""

    def run_backwards(self, addresses: Sequence[int]) -> None:
        """As `run`, but the last task of every phase first."""

    def bind(self, addresses: Sequence[int]) -> Callable[[], None]:
        """Return `run` as a call without arguments, cheap enough to be timed, for sizes there."""

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        """Return a call that runs the phases that are not ahead on `threads` threads."""

    def run_ahead(self, addresses: Sequence[int]) -> None:
        """Run the phases that read constant inputs only."""


@runtime_checkable
class TimedCall(Protocol):
    """A call that a device times by a clock of its own."""

    def __call__(self) -> None:
        """Run the phases that are not ahead, and return their results to the buffers."""

    def seconds(self, loops: int) -> float:
        """Return the seconds of `loops` runs in a row, copies of buffers left out."""

    def cold(self) -> "TimedCall":
        """Return the call with the caches of the device overwritten before every timed run."""


class Backend(Protocol):
    """A code generator.

    Two functions are optional: `build_source`, which compiles delivered source as `build` does
    programs, and `prepare_threads`, which loads the runtime of `bind_parallel`.
    """

    BUILT: type  # class of the machine code, as which answers of builders are read

    def build(self, program: Program | Export, target: Target) -> MachineCode:
        """Return machine code; BuildError if the back end refuses."""

    def load(self, built: MachineCode) -> CallableCode:
        """Return callable code in this process."""


def backend(name: str) -> Backend:
    """Import the back end called `name`."""
    return cast(Backend, importlib.import_module(name))


def build_source(name: str, kernel: Kernel, target: Target) -> MachineCode:
    """Return machine code of delivered source; BuildError if the back end compiles none."""
    module = backend(name)
    if not hasattr(module, "build_source"):
        raise BuildError(f"cannot build a source by {name} because it has none; expected a program")
    built: MachineCode = module.build_source(kernel, target)
    return built


def prepare_threads(name: str) -> None:
    """Import a back end and its threads, which may write to the folder of compiled code."""
    getattr(backend(name), "prepare_threads", lambda: None)()
