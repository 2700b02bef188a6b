"""Races in the records of a launch.

Two accesses to the same bytes by different threads, one of them a store, have an order if a
barrier of their block lies between them, or one of their warp. Blocks of a launch have none.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ansorpy.codegen.simt.emulator.limits import WARP
from tests.emulation.instrument import Site
from tests.emulation.report import DataRace, Touch

Array = np.ndarray[Any, Any]

THREAD_BIT: Final = 20  # a touch in one word: block, thread, access
BLOCK_BIT: Final = 30
WARP_BIT: Final = THREAD_BIT + WARP.bit_length() - 1
PLACE_BIT: Final = 44  # an element in one word: buffer, number in the buffer
LEAST, MOST = np.int64(-1), np.int64(2**62)  # no touch
SUMMED: Final = 1 << 22  # rows of touched elements that wait until they are combined


class RaceCheck:
    """Finds races between the accesses of one launch, given block by block.

    Args:
        sites: the accesses of the text.
        starts: the address of each buffer and array, by the numbers in `sites`.
        buffers: the number of buffers; arrays in shared memory come after them.
    """

    def __init__(self, sites: Sequence[Site], starts: Sequence[int], buffers: int) -> None:
        self.sites, self.buffers = sites, buffers
        self._starts = np.array(starts, np.int64)
        self._roots = np.array([site.root for site in sites], np.int64)
        self._sizes = np.array([site.access.size_bytes for site in sites], np.int64)
        self._stores = np.array([site.access.store for site in sites], bool)
        self._element = np.ones(len(starts), np.int64)  # bytes: the least access of a buffer
        for root in set(self._roots.tolist()):
            self._element[root] = self._sizes[self._roots == root].min()
        self._across: list[Array] = []  # in global memory: element, ranges of stores and loads
        self._rows = 0
        self._found: dict[tuple[int, int], list[int]] = {}  # by accesses: count, element, touches

    def block(self, number: int, records: Array) -> None:
        """Take the records of the accesses of a block."""
        site = records["site"].astype(np.int64)
        element = self._element[self._roots[site]]
        times = self._sizes[site] // element
        offset = records["address"].astype(np.int64) - self._starts[self._roots[site]]
        at = (self._roots[site] << PLACE_BIT) + offset // element
        part = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        at = np.repeat(at, times) + part
        thread = records["thread"].astype(np.int64)
        touch = np.repeat((number << BLOCK_BIT) + (thread << THREAD_BIT) + site, times)
        store = np.repeat(self._stores[site], times)
        epoch = np.repeat(records["epoch"].astype(np.int64), times)
        warp = np.repeat(thread // WARP, times)
        within = np.repeat(records["warp_epoch"].astype(np.int64), times)
        self._note(_ranges((at, epoch), touch, store), WARP_BIT)
        self._note(_ranges((at, epoch, warp, within), touch, store), THREAD_BIT)
        far = at >> PLACE_BIT < self.buffers
        self._across.append(_ranges((at[far],), touch[far], store[far]))
        self._rows += len(self._across[-1])
        if self._rows > SUMMED:
            self._combine()

    def races(self) -> tuple[DataRace, ...]:
        """Return the races, most frequent places first."""
        self._combine()
        self._note(self._across[0], BLOCK_BIT)
        self._across, self._rows = [], 0
        rows = sorted(self._found.values(), key=lambda row: (-row[0], *row[1:]))
        return tuple(self._race(*row) for row in rows)

    def _combine(self) -> None:
        every = np.concatenate([np.empty((0, 5), np.int64), *self._across])
        order = np.argsort(every[:, 0], kind="stable")
        every = every[order]
        starts = _starts_of(every[:, 0])
        if len(starts):
            low = np.minimum.reduceat(every, starts)
            high = np.maximum.reduceat(every, starts)
            every = np.stack([low[:, 0], low[:, 1], high[:, 2], low[:, 3], high[:, 4]], 1)
        self._across, self._rows = [every], 0

    def _note(self, ranges: Array, bit: int) -> None:
        """Add the rows in which two different blocks, warps or threads have a race."""
        at, first, last, read, read_last = ranges.T
        twice = (last != LEAST) & (first >> bit != last >> bit)
        low = (read != MOST) & (read >> bit != first >> bit)
        high = (read_last != LEAST) & (read_last >> bit != first >> bit)
        bad = (last != LEAST) & (twice | low | high)
        other = np.where(twice, last, np.where(low, read, read_last))
        mask = (1 << THREAD_BIT) - 1
        for element, one, two in zip(*(x[bad].tolist() for x in (at, first, other)), strict=True):
            known = self._found.setdefault((one & mask, two & mask), [0, element, one, two])
            known[0] += 1
            known[1:] = min(known[1:], [element, one, two])

    def _race(self, count: int, element: int, one: int, other: int) -> DataRace:
        root, number = element >> PLACE_BIT, element & ((1 << PLACE_BIT) - 1)
        offset = number * int(self._element[root])
        return DataRace(self._touch(one), self._touch(other), offset, count)

    def _touch(self, word: int) -> Touch:
        site = self.sites[word & ((1 << THREAD_BIT) - 1)]
        thread = word >> THREAD_BIT & ((1 << (BLOCK_BIT - THREAD_BIT)) - 1)
        return Touch(site.access, word >> BLOCK_BIT, thread)


def _ranges(keys: tuple[Array, ...], touch: Array, store: Array) -> Array:
    """Return for each key its first word, and the least and greatest touch: stores, then loads."""
    order = np.lexsort(keys[::-1])
    keys = tuple(key[order] for key in keys)
    starts = _starts_of(*keys)
    if not len(starts):
        return np.empty((0, 5), np.int64)
    touch, store = touch[order], store[order]
    columns = [keys[0][starts]]
    for which in (store, ~store):
        columns.append(np.minimum.reduceat(np.where(which, touch, MOST), starts))
        columns.append(np.maximum.reduceat(np.where(which, touch, LEAST), starts))
    return np.stack(columns, 1)


def _starts_of(*keys: Array) -> Array:
    """Return the places at which runs of equal keys begin; the keys are in order."""
    if not len(keys[0]):
        return np.empty(0, np.int64)
    new = np.zeros(len(keys[0]), bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)
