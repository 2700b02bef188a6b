"""Memory traffic of a tile on a GPU: sectors of the L2 cache and waves of shared memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from ansorpy.errors import LoweringError
from ansorpy.expr.banks import waves
from ansorpy.expr.coalescing import WARP, sectors_of, warp_places
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Expr, variables
from ansorpy.loopir.nodes import Buffer, Tile
from ansorpy.loopir.passes.vectors import group_dim

POINTS: Final = 64  # points of a tile that are looked at; more are extrapolated


@dataclass(frozen=True, slots=True)
class WarpTraffic:
    """Accesses of one warp to one element of a tile's store, over all points of the tile.

    Args:
        requests: instructions.
        sectors: distinct sectors; neighbouring points of a tile find them in the L1 cache.
        waves: passes through shared memory.
    """

    requests: float
    sectors: float
    waves: float


def traffic(
    tile: Tile, buffer: Buffer, index: tuple[Expr, ...], at: Mapping[str, int]
) -> WarpTraffic:
    """Return the traffic of the first warp of a tile.

    Args:
        buffer, index: the access.
        at: values of the variables outside of the tile.
    """
    used = frozenset[str]().union(*map(variables, index))
    dims = [(name, n) for name, n in tile.dims if name in used]
    points = prod(n for _, n in dims)
    requests = points / (tile.access_width if points % tile.access_width == 0 else 1)
    threads = min(WARP, prod(n for _, n in tile.lanes))
    size_bytes = SIZE_BYTES[buffer.dtype]
    try:
        places = warp_places(index, buffer.extents, tile.lanes, at, dims, POINTS)
    except LoweringError:  # an index that is read from memory: every thread has a place of its own
        return WarpTraffic(requests, float(points * threads), float(points * threads))
    seen = len(places)
    sectors = sectors_of(places, size_bytes) * points / seen
    wide = tile.access_width if group_dim(buffer, index, tile) else 1
    first = places - places % wide  # element of each group that is moved at once
    each = sum(waves(place * size_bytes, wide * size_bytes) for place in first) / seen
    return WarpTraffic(requests, sectors, points / wide * each)
