"""Run emulated kernels with a log of their accesses."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.runtime.native_launcher import word_array
from ansorpy.codegen.simt.emulator.host_text import Probes
from ansorpy.codegen.simt.emulator.limits import FAULTS, MOST_RECORDS, MOST_THREADS, PAUSED
from ansorpy.codegen.simt.emulator.loader import EmulatedKernel, compiled, host_texts
from ansorpy.codegen.simt.emulator.shared_memory import end_of
from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.errors import RunError
from ansorpy.expr.dtypes import SIZE_BYTES
from tests.emulation.instrument import LOG_FUNCTIONS, Instrumented, Site, instrumented
from tests.emulation.log_text import LOG_TEXT, RECORD, ROW, WORD_BYTES, LogState
from tests.emulation.needed import needed
from tests.emulation.races import RaceCheck
from tests.emulation.report import DataRace, LaunchLog, Log
from tests.emulation.traffic import TrafficCount

Array = np.ndarray[Any, Any]
_TOO_LONG: Final = (
    "cannot tell which barriers of {} are needed because a block makes too many accesses; expected"
    " at most {}"
)
_BEGIN: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_END: Final = ctypes.CFUNCTYPE(ctypes.c_uint64)
_RESUME: Final = ctypes.CFUNCTYPE(ctypes.c_int32)


class LoggedKernel:
    """Kernels in this process that check every access before it happens.

    A call raises RunError in place of an access outside of a buffer, of a loop without end, or of
    threads that do not meet. It is a `measure.backend.CallableCode`, and slower than the plain one.

    Raises:
        BuildError: a text cannot be emulated, or an access in it cannot be logged.
    """

    def __init__(self, code: SimtCode) -> None:
        self._logs: list[Instrumented] = []
        self._texts, self.code = host_texts(code, Probes(LOG_FUNCTIONS, self._put)), code
        self._sizes = [
            int(np.prod(buffer.extents, dtype=np.int64)) * SIZE_BYTES[buffer.dtype]
            for buffer in code.buffers
        ]
        built = compiled(code, self._texts, [LOG_TEXT])
        names = ["simt_log_begin", "simt_log_end", "simt_resume"]
        self._kernel = EmulatedKernel(built, names)
        self._begin = _BEGIN(self._kernel.entries["simt_log_begin"])
        self._end = _END(self._kernel.entries["simt_log_end"])
        self._resume = _RESUME(self._kernel.entries["simt_resume"])
        self.buffers = code.buffers
        loops = max((one.loops for one in self._logs), default=0)
        self._turns = np.zeros((loops + 1, MOST_THREADS), np.uint32)
        self._epochs = np.zeros((2, MOST_THREADS), np.uint32)
        self._marks = [self._marked(k) for k in range(len(self._logs))]

    def _put(
        self, lines: Sequence[str], parameters: Sequence[str], names: Sequence[str]
    ) -> list[str]:
        self._logs.append(instrumented(lines, parameters, names))
        return self._logs[-1].lines

    @property
    def phases(self) -> tuple[PhaseInfo, ...]:
        """The launches as phases; a task is a block."""
        return self._kernel.phases

    def run(self, addresses: Sequence[int]) -> None:
        """Run the timed launches.

        Raises:
            RunError: an access outside of a buffer, a loop without end, threads that do not meet.
        """
        self._checked(addresses, 1, ahead=False)

    def run_backwards(self, addresses: Sequence[int]) -> None:
        """As `run`, but the last block of every launch and its last thread first."""
        self._checked(addresses, -1, ahead=False)

    def run_ahead(self, addresses: Sequence[int]) -> None:
        """Run the launches that read constant inputs only."""
        self._checked(addresses, 1, ahead=True)

    def bind(self, addresses: Sequence[int]) -> Callable[[], None]:
        """Return `run` as a call without arguments."""
        return lambda: self.run(addresses)

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        """Return `run` as a call without arguments; blocks run on one thread."""
        del threads
        return self.bind(addresses)

    def log(
        self,
        addresses: Sequence[int],
        backwards: bool = False,
        most: int = MOST_RECORDS,
        remove: bool = False,
    ) -> Log:
        """Run all launches in order, those ahead as well, and return their log.

        Args:
            most: accesses of a block between two barriers, of 32 bytes of memory each.
            remove: whether to tell which barriers are needed: each is removed from the records.

        Raises:
            RunError: an access outside of a buffer, or a block makes more accesses than `most`.
        """
        records = np.zeros(
            min(most, MOST_RECORDS), RECORD
        )  # pages that no record fills take no memory
        direction = -1 if backwards else 1
        with self._kernel.opened():
            launches = range(len(self._texts))
            return Log(
                tuple(self._logged(k, addresses, direction, records, remove) for k in launches)
            )

    def races(self, addresses: Sequence[int]) -> tuple[DataRace, ...]:
        """Run all launches in order, those ahead as well, and return their races.

        `log` counts traffic, too, which takes as long again.

        Raises:
            RunError: an access outside of a buffer, or a block makes too many accesses.
        """
        found: list[DataRace] = []
        records = np.zeros(MOST_RECORDS, RECORD)
        with self._kernel.opened():
            for k, logged in enumerate(self._logs):
                rows, starts = self._rows(k, addresses)
                check = RaceCheck(logged.sites, starts, len(addresses))
                for block, taken in self._blocks(k, addresses, 1, records, rows):
                    check.block(block, taken[taken["site"] < len(logged.sites)])
                found += check.races()
        return tuple(found)

    def sites(self, launch: int) -> tuple[Site, ...]:
        """Return the accesses of a launch by their numbers."""
        return self._logs[launch].sites

    def records(self, addresses: Sequence[int]) -> Iterator[tuple[int, int, Array]]:
        """Run all launches in order and yield launch, block and RECORDs, long blocks in parts."""
        records = np.zeros(MOST_RECORDS, RECORD)
        with self._kernel.opened():
            for k in range(len(self._texts)):
                rows, _ = self._rows(k, addresses)
                for block, taken in self._blocks(k, addresses, 1, records, rows):
                    yield k, block, taken

    def _checked(self, addresses: Sequence[int], direction: int, ahead: bool) -> None:
        none = np.zeros(0, RECORD)
        with self._kernel.opened():
            for k, launch in enumerate(self.code.launches):
                if launch.ahead == ahead:
                    rows, _ = self._rows(k, addresses)
                    for number in range(launch.blocks):
                        list(self._block(k, addresses, direction, number, none, rows))

    def _logged(
        self, k: int, addresses: Sequence[int], direction: int, records: Array, remove: bool
    ) -> LaunchLog:
        launch, logged = self.code.launches[k], self._logs[k]
        rows, starts = self._rows(k, addresses)
        races = RaceCheck(logged.sites, starts, len(addresses))
        traffic = TrafficCount(logged.sites, starts, logged.barriers)
        found, left = set[int](), set(range(len(logged.barriers) if remove else 0))
        last = -1
        for block, taken in self._blocks(k, addresses, direction, records, rows):
            access = taken["site"] < len(logged.sites)
            races.block(block, taken[access])
            traffic.block(block, taken[access], taken[~access])
            if left and block == last:
                raise RunError(_TOO_LONG.format(launch.name, len(records) // 2))
            last = block
            found |= needed(logged, starts, len(addresses), taken, left - found)
        waits = traffic.waits(found if remove else None)
        counted = traffic.traffic()
        return LaunchLog(
            launch.name, launch.blocks, races.races(), counted, waits, traffic.touched()
        )

    def _blocks(
        self, k: int, addresses: Sequence[int], direction: int, records: Array, rows: Array
    ) -> Iterator[tuple[int, Array]]:
        """Run the blocks of a launch and yield their numbers and records, long ones in parts."""
        blocks = self.code.launches[k].blocks
        for number in range(blocks):
            block = number if direction > 0 else blocks - 1 - number
            for taken in self._block(k, addresses, direction, number, records, rows):
                yield block, taken

    def _block(
        self,
        k: int,
        addresses: Sequence[int],
        direction: int,
        number: int,
        records: Array,
        rows: Array,
    ) -> Iterator[Array]:
        """Run one block and yield its records, those between two barriers together."""
        self._turns.fill(0)
        self._epochs.fill(0)
        marks, first = self._marks[k]
        marks.fill(0)
        words = word_array(LogState(records, rows, self._turns, self._epochs, marks, first).words())
        table = word_array(addresses)
        self._begin(words)
        fault = self._kernel.run_blocks(k, table, direction, number, number + 1)
        while fault == PAUSED:
            yield self._taken(records)
            self._begin(words)
            fault = self._resume()
        if fault:
            raise RunError(self._message(k, fault, self._taken(records)))
        yield self._taken(records)

    def _marked(self, k: int) -> tuple[Array, int]:
        """Return marks for the shared memory of a launch, and its address; none without copies."""
        parts = self._texts[k].parts
        if not any(site.arrives for site in self._logs[k].sites):
            return np.zeros(0, np.uint8), 0
        first, end = parts[0].start, end_of(parts, 0)
        return np.zeros((end - first) // WORD_BYTES, np.uint8), first

    def _taken(self, records: Array) -> Array:
        used = self._end() - records.ctypes.data if records.size else 0
        return records[: used // RECORD.itemsize]

    def _message(self, k: int, fault: int, taken: Array) -> str:
        logged, where = self._logs[k], ""
        if len(taken) and taken["site"][-1] < len(logged.sites):
            last = taken[-1]
            where = f" ({logged.sites[last['site']].access}, thread {last['thread']})"
        return f"cannot emulate {self.code.launches[k].name} because {FAULTS[fault]}{where}"

    def _rows(self, k: int, addresses: Sequence[int]) -> tuple[Array, list[int]]:
        """Return the checked range of each access, and the starts of buffers and arrays."""
        logged, parts = self._logs[k], self._texts[k].parts
        starts = [*addresses, *(part.address for part in parts)]
        sizes = [*self._sizes, *(part.used_bytes for part in parts)]
        rows = np.zeros(len(logged.sites) + 1, ROW)  # one more: there may be no access
        for row, site in zip(rows, logged.sites, strict=False):
            row["start"] = starts[site.root]
            row["end"] = starts[site.root] + sizes[site.root]
            row["size"], row["loop"] = site.access.size_bytes, site.loop
        return rows, starts
