"""Cases and memory that the candidates of one task share in one process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Final

from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.backend import CallableCode, MachineCode, TimedCall
from ansorpy.measure.timing.cold_weights import copied, copies, in_common_turns, in_turns
from ansorpy.measure.timing.drift import Reference
from ansorpy.measure.timing.each_size import EachSize
from ansorpy.measure.timing.side_by_side import SideBySide, on_core
from ansorpy.measure.verify.cases import Case, load_cases, timed_cases
from ansorpy.measure.verify.guard_pages import GuardedBuffers, aligned_empty, poison
from ansorpy.measure.verify.inputs import Array, Inputs
from ansorpy.te.tensor_data import storage

WRITTEN_LINE: Final = 1  # cache line of a page at which written buffers start; read ones: 0


@dataclass(frozen=True)
class KernelMemory:
    """Ordinary aligned memory for the buffers of a kernel, on which it is timed.

    Written buffers start one cache line later in their page than read ones. Arrays of users may lie
    so, and a kernel that loads right after it stores is slower there (docs/adr/0067).
    """

    buffers: dict[str, Buffer]
    arrays: dict[str, Array]

    @property
    def addresses(self) -> tuple[int, ...]:
        """The addresses of the buffers, in order."""
        return tuple(array.ctypes.data for array in self.arrays.values())

    def with_arrays(self, changed: Mapping[str, Array]) -> "KernelMemory":
        """Return the memory with other arrays for some of its buffers."""
        return KernelMemory(self.buffers, self.arrays | dict(changed))

    def array(self, name: str) -> Array:
        """Return a buffer."""
        return self.arrays[name]


@dataclass(frozen=True)
class BoundKernel:
    """A kernel as a call without arguments, and the memory that the call works on.

    `copies` has the copies of its weights that calls go round, or all arrays of each further copy
    of a kernel that runs side by side with itself.
    """

    call: Callable[[], None]
    memory: KernelMemory
    copies: Sequence[Mapping[str, Array]] = ()


@dataclass(frozen=True)
class Workplace:
    """The cases of one task, their constants, and memory that its candidates use in turns.

    Inputs are stored once. A kernel that changes an input is found out; then call `clear`.
    """

    cases: tuple[Case, ...]
    constants: Inputs
    guarded: GuardedBuffers = field(default_factory=GuardedBuffers)
    arrays: dict[tuple[object, ...], Array] = field(default_factory=dict)
    # At most one, with its memory.
    references: dict[MachineCode, tuple[Reference, BoundKernel]] = field(default_factory=dict)

    def memory(self, buffers: tuple[Buffer, ...], case: Case) -> KernelMemory:
        """Return memory with the inputs of a case and poison in all other buffers."""
        arrays = {buffer.name: self._array(buffer, case) for buffer in buffers}
        return KernelMemory({buffer.name: buffer for buffer in buffers}, arrays)

    def bind(
        self,
        code: CallableCode,
        built: MachineCode,
        case: Case,
        threads: int = 1,
        cold_bytes: int = 0,
        cores: Sequence[int] = (),
    ) -> BoundKernel:
        """Return a kernel on memory as of `memory`; its phases ahead have been run.

        Args:
            cold_bytes: size of all copies of its weights that calls go round; 0: no copies. The
                caches of a device are overwritten instead.
            cores: a copy of the kernel, with buffers of its own, runs on one thread on each.
        """
        memory = self.memory(built.buffers, case)
        code.run_ahead(memory.addresses)
        if cores:
            others = _copied_on(cores[1:], memory.arrays)
            together = _side_by_side(code, [memory.arrays, *others], cores)
            return BoundKernel(together, memory, others)

        call = _bound(code, memory.addresses, threads)
        if isinstance(call, TimedCall):
            return BoundKernel(call.cold() if cold_bytes else call, memory)
        made = copies(_weights(built, case, memory), cold_bytes) if cold_bytes else []
        calls = [call]
        for changed in made:
            calls.append(_bound(code, memory.with_arrays(changed).addresses, threads))
        return BoundKernel(in_turns(calls), memory, made)

    def bind_timed(
        self,
        code: CallableCode,
        built: MachineCode,
        threads: int = 1,
        cold_bytes: int = 0,
        cores: Sequence[int] = (),
    ) -> BoundKernel:
        """Return a kernel as it is timed: on the first case, or at all sizes of its dims.

        Calls at all sizes go round the copies of the weights together.
        """
        first, *others_timed = timed_cases(self.cases)
        if not others_timed:
            return self.bind(code, built, first, threads, cold_bytes, cores)
        memory = self.memory(built.buffers, first)
        code.run_ahead(memory.addresses)
        weights = _weights(built, first, memory)
        made = copies(weights, cold_bytes) if cold_bytes and not cores else []
        turns: list[dict[str, Array]] = [{}, *made]
        calls, kept = list[list[Callable[[], None]]](), _copied_on(cores[1:], memory.arrays)
        others = kept[:]
        for case in (first, *others_timed):
            changed = {
                buffer.name: self._array(buffer, case)
                for buffer in built.buffers
                if buffer.scope in (Scope.INPUT, Scope.SIZES)
                and not (made and buffer.name in weights)
            }
            if cores:
                of_call = _copied_on(cores[1:], changed)
                kept += of_call
                further = [one | new for one, new in zip(others, of_call, strict=True)]
                calls.append([_side_by_side(code, [memory.arrays | changed, *further], cores)])
            else:
                places = [memory.with_arrays(changed | one) for one in turns]
                calls.append([_bound(code, place.addresses, threads) for place in places])
        shares = [case.weight for case in (first, *others_timed)]
        return BoundKernel(EachSize(in_common_turns(calls), shares), memory, [*kept, *made])

    def clear(self) -> None:
        """Free all memory."""
        self.guarded.clear()
        self.arrays.clear()
        self.references.clear()

    def _array(self, buffer: Buffer, case: Case) -> Array:
        of_call = buffer.scope in (Scope.INPUT, Scope.SIZES)
        given = case.given if of_call else {Scope.CONSTANT: self.constants}.get(buffer.scope)
        key = (buffer, case.name if of_call else "")
        array = self.arrays.get(key)
        if array is None:
            shape = buffer.extents
            line = 0 if given is not None else WRITTEN_LINE
            array = aligned_empty(prod(shape), storage(buffer.dtype), line).reshape(shape)
            if given is not None:
                array[case.part(buffer.name)] = given[buffer.name]
            if buffer.scope is not Scope.GLOBAL:  # a global buffer belongs to one kernel
                self.arrays[key] = array
        if given is None:
            poison(array, buffer.dtype, "nan")
        return array


def _bound(code: CallableCode, addresses: Sequence[int], threads: int) -> Callable[[], None]:
    """Return a call of a kernel on memory, on one thread or several."""
    return code.bind_parallel(addresses, threads) if threads > 1 else code.bind(addresses)


def _side_by_side(
    code: CallableCode, copies: Sequence[Mapping[str, Array]], cores: Sequence[int]
) -> SideBySide:
    """Return a copy of a kernel per core, each on buffers of its own."""
    places = [[array.ctypes.data for array in arrays.values()] for arrays in copies]
    return SideBySide([code.bind(at) for at in places], cores)


def _copied_on(cores: Sequence[int], arrays: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Return copies of arrays, one per core, which writes it first."""

    def made() -> dict[str, Array]:
        return {name: copied(array) for name, array in arrays.items()}

    return [on_core(core, made) for core in cores]


def _weights(built: MachineCode, case: Case, memory: KernelMemory) -> dict[str, Array]:
    """Return the weights that calls read: constant inputs as they are, and packed ones."""
    return {
        buffer.name: memory.arrays[buffer.name]
        for buffer in built.buffers
        if buffer.name in built.steady
        and (buffer.scope is Scope.GLOBAL or buffer.name in case.constant)
    }


@lru_cache(maxsize=3)  # a task has its own cases, and cases of its reformulations
def workplace(folder: str) -> Workplace:
    """Return the workplace of the task whose cases lie in a folder."""
    return Workplace(*load_cases(Path(folder)))
