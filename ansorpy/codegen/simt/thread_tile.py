"""One tile operation, written out for one thread of a block."""

import itertools
from typing import Any, Final

from ansorpy.codegen.simd.expansion import Expansion
from ansorpy.codegen.simd.kinds import COMPUTED, constant
from ansorpy.codegen.simd.tile import SimdTile
from ansorpy.codegen.simd.values import Index, Point
from ansorpy.codegen.simt.collectives import WARP, ThreadBlock
from ansorpy.codegen.text_builder import type_text
from ansorpy.errors import BuildError

MINE: Final = "%mine"  # the name of the value of one thread in a sum over the threads
LIBRARY: Final = ("exp", "log", "tanh", "pow")  # intrinsics that call the C library


class ThreadTile(Expansion):
    """Writes the code of a tile whose lane variable is the number of the thread.

    Args:
        tile: without lanes; the lane variable is a name from outside.
        values: its arguments by name.
        shared, hoisted: as `Expansion` takes them.
        block: the threads.
        among: the number of threads that have a lane; 0: the tile has no lane.
        across: whether the tile is a reduction over the lanes.
    """

    def __init__(
        self,
        tile: SimdTile,
        values: dict[str, Any],
        shared: dict[Any, Any],
        hoisted: Any,
        block: ThreadBlock,
        among: int,
        across: bool,
    ) -> None:
        super().__init__(tile, block.b, values, shared, hoisted)
        self.block, self.among, self.inside = block, among, across
        self.to_memory = not tile.results
        own = any(self.written & value.reads for value in tile.values)
        self.waits = tile.mask is None and not own  # a masked store lies in its own branch

    def hide_addresses(self) -> None:
        """Do nothing: the compiler of the driver allocates the registers."""

    def keep_order(self) -> None:
        """Do nothing: the compiler of the driver orders the loads."""

    def run(self) -> dict[str, Any]:
        """Emit everything and return the values, register tiles updated."""
        if self.inside:
            self.over_threads()
            return self.values
        # Registers without lanes are the same in all threads, and so are the elements they hold.
        count = self.among or (1 if self.to_memory else self.block.threads)
        self.in_threads(count, self.body)
        return self.values

    def in_threads(self, count: int, write: Any) -> None:
        """Emit code that the first `count` threads run."""
        some = self.block.among(count)
        if some is None:
            write()
            return
        with self.when(some):
            write()

    def over_threads(self) -> None:
        """Emit a reduction over the threads: first each its own, then all together."""
        kept = [(name, n) for name, n in self.tile.dims if name in self.kept]
        summed = [(name, n) for name, n in self.tile.dims if name not in self.kept]
        for number, outer in enumerate(points(kept)):
            identity = self.identity()
            self.values[MINE] = list(identity)
            self.in_threads(self.among, lambda at=outer: self.own(at, summed))
            mine = self.values.pop(MINE)
            if number and self.block.threads > WARP:
                self.block.barrier()  # the loads of the exchange before
            found = self.block.total(mine, self.dtypes, identity, self.combined, self.among)
            count = 1 if self.to_memory else self.block.threads
            self.in_threads(count, lambda at=outer, new=found: self.add_total(at, new))

    def own(self, outer: Point, summed: list[tuple[str, int]]) -> None:
        """Combine the values of one thread at the points of the summed dims."""
        for inner in points(summed):
            point = {**outer, **inner}
            cond = True if self.tile.mask is None else self.eval(self.tile.mask, point)
            if cond is True:
                self.values[MINE] = self.accumulate(self.values[MINE], point)
            elif cond is not False:
                with self.when(cond.ir):
                    self.values[MINE] = self.accumulate(self.values[MINE], point)

    def combined(self, old: list[Any], new: list[Any]) -> list[Any]:
        """Return the combination of two values of threads."""
        return self.combine(self.tile.combiner, self.dtypes, old, new)

    def add_total(self, outer: Point, total: list[Any]) -> None:
        """Combine the targets with the value of all threads."""
        self.put(outer, self.combined(self.fetch(outer), total), None)

    def fetch_scalar(self, name: str, dtype: str, index: Index, guard: Any) -> Any:
        """Load one element in a branch; 0 if the guard does not hold."""
        if guard is True:
            return super().fetch_scalar(name, dtype, index, guard)
        none = constant(COMPUTED[dtype], 0)
        if guard is False:
            return none
        entry = self.b.block
        with self.when(guard):
            value = super().fetch_scalar(name, dtype, index, True)
            end = self.b.block
        found = self.b.phi(value.type)
        found.add_incoming(value, end)
        found.add_incoming(none, entry)
        self.zeroed[id(found)] = found
        return found

    def call(self, name: str, result: Any, *args: Any) -> Any:
        """Call an intrinsic that PTX has."""
        if name in LIBRARY:
            raise without_library(name, result)
        return super().call(name, result, *args)

    def each_lane(self, name: str, x: Any) -> Any:
        """Refuse a function of the C library."""
        raise without_library(name, x.type)

    def binary(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return x op y for two values of one dtype."""
        if op == "fmod":
            raise without_library(op, x.type)
        return super().binary(op, dtype, x, y)


def points(dims: list[tuple[str, int]]) -> list[Point]:
    """Return the points of some dims, in order."""
    extents = (range(n) for _, n in dims)
    return [
        {name: (k,) for (name, _), k in zip(dims, numbers, strict=True)}
        for numbers in itertools.product(*extents)
    ]


def without_library(name: str, kind: Any) -> BuildError:
    """Return the error of a function that only the C library has."""
    return BuildError(
        f"cannot write {name} of {type_text(kind)} for CUDA because it calls the C library;"
        " expected a function of float32 other than sin, cos, tan, pow and fmod"
    )
