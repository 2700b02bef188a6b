"""Values of a log: races, traffic of shared and global memory, and barriers of emulated kernels."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextAccess:
    """A load or store in the text of a kernel.

    Args:
        line: in the text, from 1 on.
        space: "global" or "shared".
        place: name of the buffer, or of the array in shared memory.
        size_bytes: of one thread.
    """

    line: int
    space: str
    place: str
    store: bool
    size_bytes: int

    def __str__(self) -> str:
        done = "store to" if self.store else "load of"
        return f"{done} {self.place} in line {self.line}"


@dataclass(frozen=True, slots=True)
class Touch:
    """An access by one thread."""

    access: TextAccess
    block: int
    thread: int


@dataclass(frozen=True, slots=True)
class DataRace:
    """Two accesses to the same bytes without an order, at least one of them a store.

    Args:
        one, other: of the lowest bytes.
        offset_bytes: of those bytes in the buffer.
        count: how often the two places in the text meet: elements, and stretches between barriers.
    """

    one: Touch
    other: Touch
    offset_bytes: int
    count: int

    def __str__(self) -> str:
        one, other = self.one, self.other
        return (
            f"{one.access} (block {one.block}, thread {one.thread}) and {other.access} (block"
            f" {other.block}, thread {other.thread}) have no order: {self.count} elements"
        )


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of whole warps for one access in the text.

    Args:
        requests: of warps with at least one thread.
        cost: of shared memory: wavefronts; of global memory: sectors of 32 bytes.
        least: the cost if the same bytes lay side by side.
    """

    access: TextAccess
    requests: int
    cost: int
    least: int


@dataclass(frozen=True, slots=True)
class Waits:
    """A barrier in one line of the text.

    Args:
        of_warp: whether the threads of a warp wait, not all of the block.
        times: how often blocks, or warps, waited, all blocks together.
        needed: whether its removal gives a race; None: not asked.
    """

    line: int
    of_warp: bool
    times: int
    needed: bool | None


@dataclass(frozen=True, slots=True)
class LaunchLog:
    """The log of one launch; the same for every order of threads and blocks.

    Args:
        touched: distinct sectors of global memory of every block, all blocks together, as if the
            L1 cache of a block held all of them.
    """

    name: str
    blocks: int
    races: tuple[DataRace, ...]
    traffic: tuple[Requests, ...]
    waits: tuple[Waits, ...]
    touched: int = 0

    def ratio(self, space: str) -> float:
        """Return cost / least over all accesses of a space; 1.0 without an access."""
        rows = [row for row in self.traffic if row.access.space == space]
        least = sum(row.least for row in rows)
        return sum(row.cost for row in rows) / least if least else 1.0


@dataclass(frozen=True, slots=True)
class Log:
    """The logs of the launches of a program, in order."""

    launches: tuple[LaunchLog, ...]

    @property
    def races(self) -> tuple[DataRace, ...]:
        """The races of all launches."""
        return tuple(race for launch in self.launches for race in launch.races)
