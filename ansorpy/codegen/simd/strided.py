"""Loads whose lanes lie apart in memory: whole vectors and shuffles instead of gathers."""

from typing import Any

from ansorpy.codegen.simd.kinds import I1, computed, lanes_of, lanes_on, power_of_two
from ansorpy.codegen.simd.memory import MemoryAccess
from ansorpy.codegen.simd.tile import TileExpr
from ansorpy.codegen.simd.transpose import transpose
from ansorpy.codegen.simd.values import Guards, Index, Point

WORTH = 4  # gathers that take about as long as a transpose of all lanes


def prefix(guard: Any) -> int:
    """Return n if a constant guard holds in the first n lanes only; 0 for any other guard."""
    on = lanes_on(guard)
    return len(on) if on == list(range(len(on))) else 0


class Strided(MemoryAccess):
    """Loads of every other element, of reversed elements and of columns by shuffles."""

    def load(self, read: TileExpr, point: Point, guards: Guards) -> tuple[str, Any]:
        """Return the dtype and the value of a read; columns of a matrix are loaded together."""
        dim = self.near_dim(read, point)
        if not dim:
            return super().load(read, point, guards)
        (at,) = point[dim]
        base = at - at % self.n
        others = tuple(place for name, place in point.items() if name != dim)
        key = ("columns", read, guards, others, base)
        if key not in self.memo:
            self.memo[key] = self.columns(read, point, guards, dim, base)
        return computed(self.tile.of(read).dtype), self.memo[key][at - base]

    def near_dim(self, read: TileExpr, point: Point) -> str:
        """Return the dim along which a read moves by 1 while its lanes lie far apart, or ""."""
        tile = self.tile
        if tile.of(read).shape is not None or self.n not in (4, 8, 16):
            return ""
        if tile.lane not in point or len(point[tile.lane]) == 1 or read.args[0] in self.written:
            return ""
        if tile.slope(read.args[1], tile.lane) in (None, 0, 1, -1, 2):
            return ""
        near = [k for k, n in tile.dims if n >= WORTH and tile.slope(read.args[1], k) == 1]
        return near[0] if near and len(point[near[0]]) == 1 else ""

    def columns(
        self, read: TileExpr, point: Point, guards: Guards, dim: str, base: int
    ) -> list[Any]:
        """Return the vectors for `dim` = base, base + 1 ...: a row per lane, transposed."""
        name, dtype = read.args[0], self.tile.of(read).dtype
        count = min(self.n, dict(self.tile.dims)[dim] - base)
        wide = power_of_two(count)
        rows = []
        for k in range(self.n):
            turned = {**point, dim: tuple(range(base, base + wide)), self.tile.lane: (k,)}
            guard = self.shortened(self.allowed(guards, turned, read.uses), count, wide)
            row = self.fetch_vector(name, dtype, self.index(read.args[1], turned, guards), guard)
            rows.append(self.shuffle(row, row, [j % wide for j in range(self.n)]))
        return transpose(self, rows, whole=count == self.n)

    def fetch_vector(self, name: str, dtype: str, index: Any, guard: Any) -> Any:
        """Load a vector; every other element, or reversed ones, from whole vectors."""
        if not isinstance(index, Index):
            return super().fetch_vector(name, dtype, index, guard)
        n, first = len(index.lanes), index.lanes[0]
        steps = {b - a for a, b in zip(index.lanes, index.lanes[1:], strict=False)}
        if guard is not True:
            if steps != {2} or guard is False:
                return super().fetch_vector(name, dtype, index, guard)
            if count := prefix(guard):
                return self.every_other(name, dtype, index, count)
            return self.allowed_others(name, dtype, index, self.splat(guard, n))
        if steps == {-1}:
            found = self.whole_vector(name, dtype, index, index.lanes[-1])
            return self.shuffle(found, found, list(range(n - 1, -1, -1)))
        if steps == {
            2
        }:  # the second load ends with the last element, so that none beyond it is read
            low, high = (self.whole_vector(name, dtype, index, k) for k in (first, first + n - 1))
            return self.shuffle(low, high, [k if k < n else k + 1 for k in range(0, 2 * n, 2)])
        return super().fetch_vector(name, dtype, index, guard)

    def every_other(self, name: str, dtype: str, index: Index, count: int) -> Any:
        """Load `count` elements at a distance of two; the other lanes are 0."""
        n, first = len(index.lanes), index.lanes[0]
        parts: list[Any] = []
        for start, left in ((0, 2 * count - 1), (n, 2 * count - 1 - n)):
            lanes = tuple(range(first + start, first + start + n))
            guard = self.shortened(True, min(left, n), n) if left > 0 else False
            parts.append(super().fetch_vector(name, dtype, Index(index.terms, lanes), guard))
        low, high = parts
        return self.shuffle(low, high, list(range(0, 2 * n, 2)))

    def allowed_others(self, name: str, dtype: str, index: Index, guard: Any) -> Any:
        """Load the elements at a distance of two that a guard allows; the other lanes are 0.

        An element between two lanes is loaded if both are allowed: with masks that alternate, LLVM
        22 loaded whole vectors for AVX2, and so read beyond the buffer.
        """
        n, first = len(index.lanes), index.lanes[0]
        none = lanes_of(I1, (False,) * n)
        parts: list[Any] = []
        for start in (0, n):
            places = range(start, start + n)
            lanes = tuple(first + place for place in places)
            below = self.shuffle(guard, none, [place // 2 for place in places])
            above = self.shuffle(guard, none, [(place + 1) // 2 for place in places])
            mask = self.conjunction(below, above)
            parts.append(super().fetch_vector(name, dtype, Index(index.terms, lanes), mask))
        low, high = parts
        value = self.shuffle(low, high, list(range(0, 2 * n, 2)))
        self.zeroed[id(value)] = value
        return value

    def whole_vector(self, name: str, dtype: str, index: Index, start: int) -> Any:
        """Load consecutive elements from `start` on, as many as an index has lanes."""
        lanes = tuple(range(start, start + len(index.lanes)))
        return super().fetch_vector(name, dtype, Index(index.terms, lanes), True)
