"""Wavefronts of shared memory and sectors of global memory in the records of a launch.

A request is one access by the threads of a warp in one turn of the loop around it. Threads whose
loops have different numbers of turns may be put into different requests.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ansorpy.codegen.simt.emulator.limits import WARP
from ansorpy.expr.coalescing import SECTOR_BYTES
from tests.emulation.instrument import Site
from tests.emulation.needed import met
from tests.emulation.report import Requests, Waits

Array = np.ndarray[Any, Any]

BANKS: Final = 32  # banks of shared memory, 4 bytes wide; a wavefront takes one word of every bank
WORD_BYTES: Final = 4


class TrafficCount:
    """Counts requests of one launch, given block by block.

    Args:
        sites: the accesses of the text.
        starts: the address of each buffer and array, by the numbers in `sites`.
        barriers: line of each barrier, and whether it is one of a warp.
    """

    def __init__(
        self, sites: Sequence[Site], starts: Sequence[int], barriers: Sequence[tuple[int, bool]]
    ) -> None:
        self.sites, self.barriers = sites, barriers
        self._starts = np.array([starts[site.root] for site in sites], np.int64)
        self._sizes = np.array([site.access.size_bytes for site in sites], np.int64)
        self._shared = np.array([site.access.space == "shared" for site in sites], bool)
        self._counts = np.zeros((3, len(sites)), np.int64)  # requests, cost, least
        self._waits = np.zeros(len(barriers), np.int64)
        self._roots = np.array([site.root for site in sites], np.int64)
        self._present, self._touched = -1, 0  # the present block, sectors of the blocks before
        self._places: set[tuple[int, int]] = set()  # sectors of the present block

    def block(self, block: int, accesses: Array, barriers: Array) -> None:
        """Take records of a block, and of its barriers apart; a block comes in several parts."""
        if block != self._present:
            self._present, self._touched = block, self.touched()
            self._places.clear()
        number = met(self.barriers, barriers, len(self.sites))[:, 0]
        self._waits += np.bincount(number, minlength=len(self.barriers))
        if not len(accesses):
            return
        site = accesses["site"].astype(np.int64)
        warp = accesses["thread"].astype(np.int64) // WARP
        order = np.lexsort((accesses["thread"], warp, accesses["turn"], site))
        accesses, site, warp = accesses[order], site[order], warp[order]
        new = np.ones(len(site), bool)
        new[1:] = (np.diff(site) != 0) | (np.diff(warp) != 0) | (np.diff(accesses["turn"]) != 0)
        request = np.cumsum(new) - 1
        self._counts[0] += np.bincount(site[new], minlength=len(self.sites))
        offset = accesses["address"].astype(np.int64) - self._starts[site]
        lane = accesses["thread"].astype(np.int64) % WARP
        near = self._shared[site]
        self._waves(site[near], request[near], lane[near], offset[near])
        self._sectors(site[~near], request[~near], offset[~near])
        found = np.stack([self._roots[site[~near]], offset[~near] // SECTOR_BYTES], 1)
        self._places.update(map(tuple, np.unique(found, axis=0).tolist()))

    def touched(self) -> int:
        """Return the distinct sectors of every block, all blocks together."""
        return self._touched + len(self._places)

    def _waves(self, site: Array, request: Array, lane: Array, offset: Array) -> None:
        """Add wavefronts: 8 bytes go in halves of a warp, 16 bytes in quarters."""
        size = self._sizes[site]
        lanes = np.minimum(WARP, WARP * WORD_BYTES // np.maximum(size, 1))
        group = request * WARP + lane // lanes
        words = np.maximum(1, size // WORD_BYTES)
        first = np.cumsum(words) - words
        part = np.arange(words.sum()) - np.repeat(first, words)
        word = np.repeat(offset // WORD_BYTES, words) + part
        taken, at = _distinct(np.repeat(group, words), word)
        owner = np.zeros(len(taken), np.int64) if not len(site) else np.repeat(site, words)[at]
        bank = taken[:, 1] % BANKS
        _, at, count = np.unique(taken[:, 0] * BANKS + bank, return_index=True, return_counts=True)
        groups, member = np.unique(taken[at, 0], return_inverse=True)
        waves = np.zeros(len(groups), np.int64)
        np.maximum.at(waves, member, count)
        of = np.zeros(len(groups), np.int64)
        of[member] = owner[at]
        np.add.at(self._counts[1], of, waves)
        np.add.at(self._counts[2], of, 1)

    def _sectors(self, site: Array, request: Array, offset: Array) -> None:
        """Add sectors; aligned accesses of at most 16 bytes lie in one."""
        taken, at = _distinct(request, offset // SECTOR_BYTES)
        np.add.at(self._counts[1], site[at], 1)
        del taken
        _, at = _distinct(request, offset)
        every, first, count = np.unique(request[at], return_index=True, return_counts=True)
        owner = site[at][first]
        del every
        np.add.at(self._counts[2], owner, -(-count * self._sizes[owner] // SECTOR_BYTES))

    def traffic(self) -> tuple[Requests, ...]:
        """Return the traffic of every access, in the order of the text."""
        rows = zip(self.sites, self._counts.T.tolist(), strict=True)
        return tuple(Requests(site.access, *counts) for site, counts in rows if not site.arrives)

    def waits(self, needed: set[int] | None) -> tuple[Waits, ...]:
        """Return how often each barrier was reached, in the order of the text.

        Args:
            needed: numbers of barriers whose removal gives a race; None: not known.
        """
        rows = zip(self.barriers, self._waits.tolist(), strict=True)
        return tuple(
            Waits(line, warp, times, None if needed is None else k in needed)
            for k, ((line, warp), times) in enumerate(rows)
        )


def _distinct(group: Array, word: Array) -> tuple[Array, Array]:
    """Return the distinct pairs, and the place of one of each."""
    order = np.lexsort((word, group))
    pairs = np.stack([group[order], word[order]], 1)
    new = np.ones(len(pairs), bool)
    new[1:] = (pairs[1:] != pairs[:-1]).any(1)
    return pairs[new], order[new]
