"""Build kernels for the emulator, and run them in this process."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Final

import llvmlite.binding as llvm

from ansorpy.codegen.jit_link import jit_link
from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.llvm_ir import OPT, object_bytes
from ansorpy.codegen.runtime.native_launcher import word_array
from ansorpy.codegen.simt.emulator.copies_text import NO_ARRIVALS
from ansorpy.codegen.simt.emulator.host_text import HostText, Probes, host_text
from ansorpy.codegen.simt.emulator.launch_text import Order
from ansorpy.codegen.simt.emulator.limits import FAULTS, MOST_THREADS
from ansorpy.codegen.simt.emulator.runtime_text import runtime_text
from ansorpy.codegen.simt.emulator.shared_memory import (
    GAP_BYTES,
    PAGE,
    REGION_BYTES,
    STACK_BYTES,
    START,
    SharedArray,
    end_of,
    open_only,
    stacks,
)
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import BuildError, RunError
from ansorpy.loopir.nodes import Buffer, Program
from ansorpy.target import CpuTarget, Target

HOST: Final = CpuTarget()
FAST_LINES: Final = 5000  # longest text for level 0 of LLVM, whose frames take 1 to 4 bytes a line
FEW_THREADS: Final = 4096  # threads of all launches; more of them run longer than LLVM compiles
RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class Emulated:
    """Kernels as machine code of this processor.

    Args:
        objects: one per launch, with the function `simt_kernel{number}`, then the runtime.
        parts: shared memory of each launch.
    """

    objects: tuple[bytes, ...]
    launches: tuple[Launch, ...]
    parts: tuple[tuple[SharedArray, ...], ...]
    buffers: tuple[Buffer, ...]

    @property
    def phases(self) -> tuple[PhaseInfo, ...]:
        """The launches as phases; a task is a block."""
        return SimtCode((), self.launches, self.buffers).phases


BUILT: Final = Emulated


def build(program: Program, target: Target) -> Emulated:
    """Compile a tiled program for the emulator.

    Raises:
        BuildError: the program has no kernels, or they cannot be emulated.
    """
    return build_texts(simt_code(program, target))


def build_texts(code: SimtCode) -> Emulated:
    """Compile kernels for the emulator.

    Raises:
        BuildError: a text cannot be emulated, or LLVM refuses it.
    """
    return compiled(code, host_texts(code), [NO_ARRIVALS])


def host_texts(code: SimtCode, probes: Probes | None = None) -> list[HostText]:
    """Return the kernels as texts for this processor.

    Raises:
        BuildError: a text cannot be emulated.
    """
    texts: list[HostText] = []
    names, start = [buffer.name for buffer in code.buffers], START
    for k, (text, launch) in enumerate(zip(code.texts, code.launches, strict=True)):
        _check(launch)
        texts.append(host_text(text, f"simt_kernel{k}", start, names, probes))
        start = end_of(texts[-1].parts, start)
    return texts


def compiled(code: SimtCode, texts: Sequence[HostText], more: Sequence[str]) -> Emulated:
    """Compile the texts of a code, of the runtime, and `more`.

    Raises:
        BuildError: LLVM refuses a text.
    """
    few = sum(one.blocks * one.threads for one in code.launches) <= FEW_THREADS
    objects = [_object(one.text, few) for one in texts]
    objects.append(_runtime_object(llvm.get_process_triple()))
    objects += [_object(text, few) for text in more]
    return Emulated(tuple(objects), code.launches, tuple(one.parts for one in texts), code.buffers)


@cache
def _runtime_object(triple: str) -> bytes:
    return _object(runtime_text(triple), few=False)


def _object(text: str, few: bool) -> bytes:
    """Return the object file of a text.

    Level 0 of LLVM takes a seventh of the time of level 3, and its code runs longer: it is for few
    threads, and for texts whose frames surely fit the stack of a thread.
    """
    fast = few and text.count("\n") <= FAST_LINES
    return object_bytes(text, HOST, 0 if fast else OPT)


def _check(launch: Launch) -> None:
    if not (1 <= launch.threads <= MOST_THREADS and launch.blocks >= 1):
        raise BuildError(
            f"cannot emulate {launch.name} because it has {launch.blocks} blocks of"
            f" {launch.threads} threads; expected blocks of 1 to {MOST_THREADS}"
        )


def load(built: Emulated) -> "EmulatedKernel":
    """Make built kernels callable in this process.

    Raises:
        BuildError: an object is not one of ours, or the addresses of shared memory are taken.
    """
    return EmulatedKernel(built)


class EmulatedKernel:
    """Kernels in this process; `addresses` has the address of each of `buffers`, in order.

    Args:
        more: functions to find in `entries`, beside the kernels.
    """

    def __init__(self, built: Emulated, more: Sequence[str] = ()) -> None:
        self.phases, self.buffers, self._built = built.phases, built.buffers, built
        self._parts = tuple(part for parts in built.parts for part in parts)
        if len(built.parts) != len(built.launches) or not all(map(_inside, self._parts)):
            raise BuildError("cannot load emulated kernels: shared memory outside of its region")
        for launch in built.launches:
            _check(launch)
        names = [f"simt_kernel{k}" for k in range(len(built.launches))]
        self._code = jit_link(built.objects, [*names, "simt_run", *more])
        self.entries = self._code.entries
        self._run = RUN(self.entries["simt_run"])

    def run(self, addresses: Sequence[int]) -> None:
        """Run the timed launches.

        Raises:
            RunError: threads of a block do not meet at a barrier or a shuffle.
        """
        self.bind(addresses)()

    def run_backwards(self, addresses: Sequence[int]) -> None:
        """As `run`, but the last block of every launch and its last thread first."""
        self._bound(addresses, -1, ahead=False)()

    def run_ahead(self, addresses: Sequence[int]) -> None:
        """Run the launches that read constant inputs only."""
        self._bound(addresses, 1, ahead=True)()

    def bind(self, addresses: Sequence[int]) -> Callable[[], None]:
        """Return `run` as a call without arguments."""
        return self._bound(addresses, 1, ahead=False)

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        """Return `run` as a call without arguments; blocks run on one thread."""
        del threads
        return self.bind(addresses)

    def _bound(self, addresses: Sequence[int], direction: int, ahead: bool) -> Callable[[], None]:
        table = word_array(addresses)
        orders = [
            (launch.name, word_array(self._order(k, table, direction, 0, launch.blocks).words()))
            for k, launch in enumerate(self._built.launches)
            if launch.ahead == ahead
        ]

        def call(_alive: object = table) -> None:
            with self.opened():
                for name, order in orders:
                    if fault := self._run(order):
                        raise RunError(f"cannot emulate {name} because {FAULTS[fault]}")

        return call

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the stacks and the shared memory of this process."""
        with _one_at_a_time:
            _open(self._parts)
            yield

    def run_blocks(self, k: int, table: Any, direction: int, first: int, end: int) -> int:
        """Run a range of blocks of one launch, counted from the last one if backwards.

        Args:
            table: `word_array` of the addresses of the buffers.

        Returns:
            0, or a key of FAULTS.
        """
        return int(self._run(word_array(self._order(k, table, direction, first, end).words())))

    def _order(self, k: int, table: Any, direction: int, first: int, end: int) -> Order:
        launch, parts = self._built.launches[k], self._built.parts[k]
        return Order(
            self.entries[f"simt_kernel{k}"],
            ctypes.addressof(table),
            launch.blocks,
            launch.threads,
            direction,
            first,
            end,
            stacks(),
            STACK_BYTES,
            [(part.start, part.size_bytes) for part in parts],
        )


_one_at_a_time = Lock()  # shared memory and stacks belong to the process
_opened: list[tuple[SharedArray, ...]] = []


def _open(parts: tuple[SharedArray, ...]) -> None:
    if _opened != [parts]:
        open_only(parts)
        _opened[:] = [parts]


def _inside(part: SharedArray) -> bool:
    first, last = START + GAP_BYTES, START + REGION_BYTES - GAP_BYTES
    paged = part.start % PAGE == 0 and part.size_bytes % PAGE == 0
    return paged and first <= part.start and part.start + part.size_bytes <= last
