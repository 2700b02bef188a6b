"""Powers of two as the tile sizes of blocks of threads.

Whole warps, groups of 16 bytes, and rows of copies that threads divide evenly ask for them in all
axes at once: of sizes that are drawn one by one, one row in some tens has that.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan
from ansorpy.plan.thread_blocks import thread_blocks

IntArray = npt.NDArray[np.int64]

SHARE: Final = 0.25  # share of the drawn rows; most of them are legal, few of the others are


def prefer_powers(plan: Plan, columns: IntArray, rng: np.random.Generator) -> None:
    """Round the tile sizes of blocks of threads down to powers of two in a share of the rows.

    Args:
        columns: shape (sizes, rows), sizes of at least 1.
    """
    tiles = np.array(block_columns(plan), np.int64)
    if not len(tiles):
        return
    some = np.flatnonzero(rng.random(columns.shape[1]) < SHARE)
    places = np.ix_(tiles, some)
    columns[places] = 1 << np.log2(columns[places]).astype(np.int64)


@per_plan
def block_columns(plan: Plan) -> tuple[int, ...]:
    """Return the columns of the tile sizes of stages whose loops a block of threads runs."""
    tiled = thread_blocks(plan.state).tiled
    return tuple(
        column
        for column, size in enumerate(plan.sizes)
        if size.role == "tile" and size.name.rsplit(".", 2)[0] in tiled
    )
