"""Barriers of a block that its accesses need: without one of them there is a race."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ansorpy.codegen.simt.emulator.limits import WARP
from tests.emulation.instrument import Instrumented
from tests.emulation.races import RaceCheck

Array = np.ndarray[Any, Any]


def met(barriers: Sequence[tuple[int, bool]], waits: Array, first: int) -> Array:
    """Return the barriers that a block met, in columns: number, warp, barriers before.

    Args:
        barriers: whether each is one of a warp, beside its line; the warp of others is -1.
        waits: records of barriers.
        first: number of the first barrier in them.
    """
    number = waits["site"].astype(np.int64) - first
    of_warp = np.array([warp for _, warp in barriers], bool)[number]
    warp = np.where(of_warp, waits["thread"].astype(np.int64) // WARP, -1)
    before = np.where(of_warp, waits["warp_epoch"], waits["epoch"]).astype(np.int64)
    return np.unique(np.stack([number, warp, before], 1), axis=0)


def needed(
    logged: Instrumented, starts: Sequence[int], buffers: int, records: Array, among: set[int]
) -> set[int]:
    """Return the barriers, among some, without which the records of one block have a race.

    A barrier is known by its number in the text, and is taken away wherever it was met; the
    others stay. Accesses must not depend on values that the barrier protects.

    Args:
        starts, buffers: as `RaceCheck` takes them.
        records: all records of the block, with its barriers.
    """
    is_wait = records["site"] >= len(logged.sites)
    accesses, found = records[~is_wait], set[int]()
    waits = met(logged.barriers, records[is_wait], len(logged.sites))
    for number in sorted(among & set(waits[:, 0].tolist())):
        check = RaceCheck(logged.sites, starts, buffers)
        check.block(0, _without(accesses, waits[waits[:, 0] == number]))
        if check.races():
            found.add(number)
    return found


def _without(accesses: Array, waits: Array) -> Array:
    """Return the accesses as if some barriers were none."""
    changed = accesses.copy()
    for warp in set(waits[:, 1].tolist()):
        ended = waits[waits[:, 1] == warp, 2]
        which = accesses["thread"] // WARP == warp if warp >= 0 else slice(None)
        name = "warp_epoch" if warp >= 0 else "epoch"
        old = accesses[name][which]
        changed[name][which] = old - np.searchsorted(ended, old)
    return changed
