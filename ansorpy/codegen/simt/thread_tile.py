"""One tile operation, written out for one thread of a block."""

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.simd.expansion import Expansion
from ansorpy.codegen.simd.kinds import BYTES, COMPUTED, I32, STORED, constant, vector
from ansorpy.codegen.simd.tile import SimdTile, TileExpr, preorder
from ansorpy.codegen.simd.values import HOLDS, Index, Point, is_zero
from ansorpy.codegen.simt.collectives import COPY_BYTES, WARP, ThreadBlock
from ansorpy.codegen.text_builder import type_text
from ansorpy.errors import BuildError
from ansorpy.expr.dtypes import NARROW, SIZE_BYTES

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
        wide: the neighbouring elements that a thread loads or stores at once, at most.
        late: whether elements may arrive at the next barrier.
        places: extents of lane variables by symbol; a thread that runs the tile is within.
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
        wide: int = 1,
        late: bool = False,
        places: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(tile, block.b, values, shared, hoisted)
        self.block, self.among, self.inside = block, among, across
        self.wide, self.late, self.grouped = wide, late, dict[str, bool]()
        self.places = places
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

    def body(self) -> None:
        """Emit the statement for every point of the dims, by groups of neighbours if it can."""
        tile = self.tile
        last, extent = tile.dims[-1] if tile.dims else ("", 0)
        apart = tile.mask is None or last not in tile.mask.uses
        plain = self.wide > 1 and not tile.combiner and self.to_memory and len(tile.targets) == 1
        whole = plain and extent == self.wide and apart and self.in_groups(tile.targets[0], last)
        if self.late and self.copies(last if whole else ""):
            return
        if not whole:
            super().body()
            return
        for point in points(list(tile.dims[:-1])):
            first = {**point, last: (0,)}
            self.if_masked(first, partial(self.store_group, point, last))

    def if_masked(self, point: Point, write: Callable[[], None]) -> None:
        """Emit code in a branch on the mask at a point."""
        cond = True if self.tile.mask is None else self.eval(self.tile.mask, point)
        if cond is True:
            write()
        elif cond is not False:
            with self.when(cond.ir):
                write()

    def copies(self, last: str) -> bool:
        """Emit asynchronous copies, and return True if the elements have a size that copies have.

        Args:
            last: the dim of neighbours that are copied at once; "": each element for itself.
        """
        (target,), (value,) = self.tile.targets, self.tile.values
        cond, read = (value.args[0], value.args[1]) if value.op == "select" else (None, value)
        stored = self.tile.of(target).dtype
        wide = self.wide if last and self.in_groups(read, last) else 1
        size = wide * SIZE_BYTES[stored]
        if size not in COPY_BYTES:
            return False

        def copy(point: Point) -> None:
            allowed = True if cond is None else self.eval(cond, point)
            if allowed is not True:
                allowed = ir.Constant(ir.IntType(1), 0) if allowed is False else allowed.ir
            to, start = (
                self.address(node.args[0], stored, self.index(node.args[1], point))
                for node in (target, read)
            )
            self.block.copy(to, start, size, allowed)

        for point in points(
            [(name, 1 if wide > 1 and name == last else n) for name, n in self.tile.dims]
        ):
            self.if_masked(point, partial(copy, point))
        return True

    def store_group(self, point: Point, last: str) -> None:
        """Store neighbours along the last dim at once."""
        (target,), (value,), (dtype,) = self.tile.targets, self.tile.values, self.dtypes
        name, stored = target.args[0], self.tile.of(target).dtype
        group: Any = ir.Constant(vector(STORED[stored], self.wide), ir.Undefined)
        for k in range(self.wide):
            new = self.stored(self.typed(value, dtype, {**point, last: (k,)}), stored)
            group = self.b.insert_element(group, new, ir.Constant(I32, k))
        place = self.address(name, stored, self.index(target.args[1], {**point, last: (0,)}))
        self.b.store(group, place, align=self.wide * BYTES.get(stored, 1))

    def in_groups(self, access: TileExpr, along: str = "") -> bool:
        """Return True if an access to memory runs in aligned groups along a dim of the tile."""
        tile, wide = self.tile, self.wide
        if tile.of(access).shape is not None:
            return False
        slopes = {name: tile.slope(access.args[1], name) for name, _ in tile.dims}
        near = [name for name, n in tile.dims if slopes[name] == 1 and n % wide == 0]
        if not near or (along and along not in near):
            return False
        others = [slope or 0 for name, slope in slopes.items() if name != (along or near[0])]
        # Dims that the index divides have no slope: each of their points is looked at.
        divided = [(name, n) for name, n in tile.dims if slopes[name] is None]
        first = {name: (0,) for name, _ in tile.dims}
        starts = [self.index(access.args[1], {**first, **point}) for point in points(divided)]
        return all(number % wide == 0 for number in others) and all(
            isinstance(start, Index)
            and all(number % wide == 0 for number in (*start.terms.values(), *start.lanes))
            for start in starts
        )

    def reads_groups(self, name: str) -> bool:
        """Return True if all reads of a buffer run in aligned groups."""
        if self.wide == 1 or name in self.written:
            return False
        if name not in self.grouped:
            seen: set[int] = set()
            nodes = [node for value in self.tile.values for node in preorder(value, seen)]
            found = [node for node in nodes if node.op == "read" and node.args[0] == name]
            self.grouped[name] = all(map(self.in_groups, found))
        return self.grouped[name]

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

    def compare_index(self, op: str, gap: Index) -> Any:
        """Return `gap op 0`; a bool if it is the same for all threads that run the tile."""
        if len(gap.lanes) == 1 and gap.terms.keys() <= self.places.keys():
            ends = [(0, n * (self.places[name] - 1)) for name, n in gap.terms.items()]
            low, high = (gap.lanes[0] + sum(pick(one) for one in ends) for pick in (min, max))
            # An order holds everywhere if it holds at both ends; an equality, at one value only.
            if low == high or op not in ("==", "!="):
                found = {HOLDS[op](low, 0), HOLDS[op](high, 0)}
                if len(found) == 1:
                    return found.pop()
        return super().compare_index(op, gap)

    def fetch_scalar(self, name: str, dtype: str, index: Index, guard: Any) -> Any:
        """Load one element in a branch; 0 if the guard does not hold."""
        if guard is False:
            return constant(COMPUTED[dtype], 0)
        if self.reads_groups(name):
            return self.of_group(name, dtype, index, guard)
        if guard is True:
            return super().fetch_scalar(name, dtype, index, guard)
        if dtype in NARROW:
            kind, align = STORED[dtype], BYTES[dtype]
            element = self.kept_zero(
                guard, lambda: self.b.load(self.address(name, dtype, index), typ=kind, align=align)
            )
            value = self.loaded(element, dtype)
            self.zeroed[id(value)] = value
            return value
        return self.kept_zero(
            guard, lambda: super(ThreadTile, self).fetch_scalar(name, dtype, index, True)
        )

    def loaded(self, value: Any, dtype: str) -> Any:
        """Return an element in the form for computing; `stored` finds the element again."""
        found = super().loaded(value, dtype)
        if dtype in NARROW:
            self.block.elements[id(found)] = found, value, dtype
        return found

    def stored(self, value: Any, dtype: str) -> Any:
        """Return a value in the form that memory holds: a copied element as it was loaded."""
        _, element, known = self.block.elements.get(id(value), (None, None, ""))
        if dtype in NARROW and isinstance(value, ir.Constant) and is_zero(value.constant):
            return ir.Constant(STORED[dtype], None)
        return element if known == dtype else super().stored(value, dtype)

    def of_group(self, name: str, dtype: str, index: Index, guard: Any) -> Any:
        """Return one element of a group of neighbours, which is loaded once per tile."""
        place = index.lanes[0] % self.wide
        start = Index(index.terms, (index.lanes[0] - place,))
        key = ("group", name, frozenset(start.terms.items()), start.lanes, id(guard))
        if key not in self.memo:
            kind, align = vector(STORED[dtype], self.wide), self.wide * BYTES.get(dtype, 1)

            def load() -> Any:
                return self.b.load(self.address(name, dtype, start), typ=kind, align=align)

            group = load() if guard is True else self.kept_zero(guard, load)
            self.memo[key] = group, guard  # the guard stays alive, so that its id is not reused
        one = self.b.extract_element(self.memo[key][0], ir.Constant(I32, place))
        value = self.loaded(one, dtype)
        if guard is not True:
            self.zeroed[id(value)] = value
        return value

    def kept_zero(self, guard: Any, load: Callable[[], Any]) -> Any:
        """Return a value that is loaded in a branch; zeros if the guard does not hold."""
        entry = self.b.block
        with self.when(guard):
            value = load()
            end = self.b.block
        found = self.b.phi(value.type)
        found.add_incoming(value, end)
        found.add_incoming(ir.Constant(value.type, None), entry)
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

    def binary(self, op: str, dtype: str, x: Any, y: Any, fuses: bool = True) -> Any:
        """Return x op y for two values of one dtype."""
        if op == "fmod":
            raise without_library(op, x.type)
        return super().binary(op, dtype, x, y, fuses)


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
