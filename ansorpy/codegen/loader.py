"""From a program or a source to machine code, and from machine code to something to call."""

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ansorpy.codegen.compile_cache import phase_objects
from ansorpy.codegen.drive import driven, order_of, table_of
from ansorpy.codegen.jit_link import jit_link
from ansorpy.codegen.kernel import Kernel, PhaseInfo
from ansorpy.codegen.phase_utilities import MATRICES_READY, phase_infos, uses_matrices
from ansorpy.codegen.simd.matrices import allow_matrices
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Buffer, Program
from ansorpy.target import Target

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class Built:
    """Machine code that any process on the same kind of machine can load.

    `objects` are object files with one function per phase, of its name. `matrices`: they use the
    registers of matrices, for which Linux has to be asked. What takes longer to build is no other
    machine code.
    """

    objects: tuple[bytes, ...]
    phases: tuple[PhaseInfo, ...]
    buffers: tuple[Buffer, ...]
    build_s: float = field(compare=False)
    matrices: bool = False


BUILT: Final = Built


def build(
    program: Program, target: Target, clock: Callable[[], float] = time.perf_counter
) -> Built:
    """Compile a tiled program, the fast way.

    Raises:
        BuildError: the program has no code, or LLVM refuses it.
    """
    start = clock()
    made = phase_objects(program, target)
    phases = tuple(
        replace(info, name=one.symbol) for info, one in zip(phase_infos(program), made, strict=True)
    )
    codes = {one.symbol: one.code for one in made}  # a phase may come twice
    matrices = any(map(uses_matrices, program.phases))
    return Built(tuple(codes.values()), phases, program.buffers, clock() - start, matrices)


def build_source(
    kernel: Kernel, target: Target, clock: Callable[[], float] = time.perf_counter
) -> Built:
    """Compile the Python that users download, as numba compiles it.

    Raises:
        BuildError: numba or LLVM refuses the source.
    """
    # Here, not above: numba takes half a second to load, and a search needs none of it.
    from ansorpy.codegen.numba_object import source_object

    start = clock()
    code = source_object(kernel, target)
    matrices = MATRICES_READY in kernel.source
    return Built((code,), kernel.phases, kernel.buffers, clock() - start, matrices)


class Loaded:
    """A kernel in this process; it lives as long as this object does.

    `addresses` are those of `buffers`, in order, each aligned as its elements.
    """

    def __init__(self, built: Built) -> None:
        self.phases, self.buffers = built.phases, built.buffers
        if built.matrices and not allow_matrices():
            raise BuildError("the system does not let this process use AMX")
        names = list(dict.fromkeys(phase.name for phase in built.phases))
        self._linked = jit_link(built.objects, names)
        self.entries = self._linked.entries

    def bind(self, addresses: Sequence[int]) -> Callable[[], None]:
        """Return a call without arguments that runs all timed phases, serially."""
        return driven(self._work(ahead=False), addresses, self)

    def run(self, addresses: Sequence[int]) -> None:
        """Run all timed phases, one task after the other."""
        self.bind(addresses)()

    def run_backwards(self, addresses: Sequence[int]) -> None:
        """Run all timed phases, the last task of each first: tasks must not need an order."""
        table = table_of(addresses)
        place = ctypes.addressof(table)
        for phase in self.phases:
            if not phase.ahead:
                task = TASK(self.entries[phase.name])
                for number in reversed(range(phase.tasks)):
                    task(place, number)

    def run_ahead(self, addresses: Sequence[int]) -> None:
        """Run the phases that are done once, before the timed ones."""
        driven(self._work(ahead=True), addresses, self)()

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        """Return a call without arguments that runs the timed phases on `threads` threads.

        Loads OpenMP: from then on this process must not fork.
        """
        if threads <= 1:
            return self.bind(addresses)
        from ansorpy.codegen.launcher import launch, use_threads

        order = table_of(order_of(self._work(ahead=False), addresses))
        place = ctypes.addressof(order)

        def call(_alive: object = (self, order)) -> None:
            launch(place)

        use_threads(threads)
        return call

    def run_parallel(self, addresses: Sequence[int], threads: int) -> None:
        """Run the timed phases, the tasks of each spread over `threads` threads."""
        self.bind_parallel(addresses, threads)()

    def _work(self, ahead: bool) -> list[tuple[int, int]]:
        """Return function and number of tasks of every phase that is run ahead, or is timed."""
        return [(self.entries[p.name], p.tasks) for p in self.phases if p.ahead is ahead]


def prepare_threads() -> None:
    """Compile the launcher, or load it from numba's cache; from then on do not fork."""
    import ansorpy.codegen.launcher  # noqa: F401


def load(built: Built) -> Loaded:
    """Make built code callable in this process.

    Raises:
        BuildError: the object is not one of ours, or not for this machine.
    """
    return Loaded(built)
