"""Build a program or a source to machine code, and load machine code into this process."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.codegen.compile_cache import phase_objects
from ansorpy.codegen.jit_link import jit_link
from ansorpy.codegen.kernel import Kernel, PhaseInfo
from ansorpy.codegen.phase_utilities import (
    MATRICES_READY,
    phase_infos,
    steady_names,
    uses_matrices,
)
from ansorpy.codegen.runtime.native_launcher import NO_POOL, bound, of_call, order, word_array
from ansorpy.codegen.runtime.phase_loop import ahead_loop, timed_loop
from ansorpy.codegen.simd.matrices import allow_matrices
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Buffer, Program
from ansorpy.target import Target

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class Built:
    """Machine code that any process on the same kind of machine can load.

    `objects` are object files with the functions of the phases, by their names. `matrices`: they
    use the registers of AMX, which a process must request from Linux. `steady` names the buffers
    that calls read and never write, packed weights among them; () if that is not known.
    """

    objects: tuple[bytes, ...]
    phases: tuple[PhaseInfo, ...]
    buffers: tuple[Buffer, ...]
    matrices: bool = False
    steady: tuple[str, ...] = ()


BUILT: Final = Built


def build(program: Program, target: Target) -> Built:
    """Compile a tiled program, the fast way.

    Raises:
        BuildError: the program has no code, or LLVM refuses it.
    """
    made = phase_objects(program, target)
    phases = tuple(
        replace(info, name=one.symbol) for info, one in zip(phase_infos(program), made, strict=True)
    )
    codes = {one.symbol: one.code for one in made}  # equal phases have one symbol
    matrices = any(map(uses_matrices, program.phases))
    steady = steady_names(program)
    return Built(tuple(codes.values()), phases, program.arguments, matrices, steady)


def build_source(kernel: Kernel, target: Target) -> Built:
    """Compile the source of a delivered kernel as numba compiles it.

    Raises:
        BuildError: numba or LLVM refuses the source.
    """
    # Imported here: numba takes half a second to load, and a search does not need it.
    from ansorpy.codegen.numba_object import source_object

    code = source_object(kernel, target)
    matrices = MATRICES_READY in kernel.source
    return Built((code,), kernel.phases, kernel.buffers, matrices)


class Loaded:
    """A kernel in this process; its code lives as long as this object does.

    `addresses` has the address of each of `buffers`, in order, aligned as its elements.
    """

    def __init__(self, built: Built) -> None:
        self.phases, self.buffers = built.phases, built.buffers
        if built.matrices and not allow_matrices():
            raise BuildError("the system does not let this process use AMX")
        names = [phase.name for phase in built.phases]
        names += [phase.counter for phase in built.phases if phase.sized]
        self._code = jit_link(built.objects, list(dict.fromkeys(names)))
        self.entries = self._code.entries

    def bind(self, addresses: Sequence[int], pool: int = NO_POOL) -> Callable[[], None]:
        """Return a call without arguments that runs all timed phases.

        Args:
            addresses: of the buffers; the sizes of dims must be there.
            pool: address of a running `ThreadPool`; 0: the caller's thread only.
        """
        return bound(timed_loop(self.phases), self.entries, addresses, self, pool)

    def run(self, addresses: Sequence[int]) -> None:
        """Run all timed phases, one task after the other."""
        self.bind(addresses)()

    def run_backwards(self, addresses: Sequence[int]) -> None:
        """Run all timed phases, the last task of each first: tasks must be independent."""
        table = word_array(addresses)
        place = ctypes.addressof(table)
        for phase in of_call(timed_loop(self.phases), self.entries, addresses).phases:
            task = TASK(self.entries[phase.name])
            for number in reversed(range(phase.tasks)):
                task(place, number)

    def run_ahead(self, addresses: Sequence[int]) -> None:
        """Run the phases ahead of the timed ones, once per set of weights."""
        bound(ahead_loop(self.phases), self.entries, addresses, self)()

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        """Return a call without arguments that runs the timed phases on `threads` OpenMP threads.

        Loads OpenMP: from then on this process must not fork.
        """
        if threads <= 1:
            return self.bind(addresses)
        from ansorpy.codegen.runtime.openmp_launcher import launch, use_threads

        words = word_array(order(timed_loop(self.phases), self.entries, addresses))
        place = ctypes.addressof(words)

        def call(_alive: object = (self, words)) -> None:
            launch(place)

        use_threads(threads)
        return call


def prepare_threads() -> None:
    """Compile the OpenMP launcher, or load it from numba's cache; from then on do not fork."""
    import ansorpy.codegen.runtime.openmp_launcher  # noqa: F401


def load(built: Built) -> Loaded:
    """Make built code callable in this process.

    Raises:
        BuildError: the object is not one of ours, or not for this machine.
    """
    return Loaded(built)
