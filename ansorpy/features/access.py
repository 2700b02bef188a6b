"""Feature group 2: five buffers of 18 features each: traffic, footprint, reuse, stride."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Final

from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.region import LINE_BYTES, Footprint
from ansorpy.features.walk import EnclosingLoop, ProgramStores, StoreStatement

BUFFERS: Final = 5
_FIELDS: Final = (
    "access_type.read", "access_type.write", "access_type.read_write",
    "bytes", "unique_bytes", "lines", "unique_lines",
    "reuse_type.loop_multiple_read", "reuse_type.serial_multiple_read_write",
    "reuse_type.no_reuse",
    "reuse_dis_iter", "reuse_dis_bytes", "reuse_ct",
    "bytes_d_reuse_ct", "unique_bytes_d_reuse_ct", "lines_d_reuse_ct", "unique_lines_d_reuse_ct",
    "stride",
)  # fmt: skip
NAMES: Final = tuple(f"B{i}.{field}" for i in range(BUFFERS) for field in _FIELDS)


@dataclass(frozen=True, eq=False)
class Touched:
    """The footprints of all accesses of a program."""

    stores: ProgramStores
    footprints: tuple[tuple[Footprint, ...], ...]  # per statement, per access

    _per_iteration: dict[int, ColumnValue] = field(default_factory=dict)
    _sharers: dict[tuple[int, str], int] = field(default_factory=dict)

    @cached_property
    def whole_bytes(self) -> ColumnValue:
        """The bytes of all buffers that are not scratch memory of a loop."""
        sizes = {
            access.buffer: _product_of(self.stores.builder, access.shape) * access.element_bytes
            for statement in self.stores.statements
            for access in statement.accesses
            if access.allocated_at == 0
        }
        return reduce(ColumnValue.__add__, sizes.values(), self.stores.builder.const(0))

    def per_iteration(self, loop: EnclosingLoop) -> ColumnValue:
        """Return the bytes that all statements in one iteration of a loop touch together.

        A buffer counts once, with the largest region that a statement touches.
        """
        if loop.number not in self._per_iteration:
            self._per_iteration[loop.number] = self.together(loop, _bytes)
        return self._per_iteration[loop.number]

    def together(
        self, loop: EnclosingLoop, size: Callable[[Footprint, int], ColumnValue]
    ) -> ColumnValue:
        """Return the sum over the buffers that an iteration of a loop touches.

        Args:
            size: the size of a footprint while a number of its outermost loops is fixed; if
                several statements touch a buffer, the largest size counts.
        """
        largest: dict[str, ColumnValue] = {}
        for statement, footprints in zip(self.stores.statements, self.footprints, strict=True):
            depth = _depth(statement, loop)
            if depth is None:
                continue
            for footprint in footprints:
                here = size(footprint, depth + 1)
                known = largest.get(footprint.access.buffer)
                largest[footprint.access.buffer] = here if known is None else known.at_least(here)
        return reduce(ColumnValue.__add__, largest.values())

    def sharers(self, loop: EnclosingLoop, buffer: str) -> int:
        """Return the number of statements inside a loop that touch a buffer."""
        key = (loop.number, buffer)
        if key not in self._sharers:
            self._sharers[key] = sum(
                any(access.buffer == buffer for access in statement.accesses)
                and _depth(statement, loop) is not None
                for statement in self.stores.statements
            )
        return self._sharers[key]


def _bytes(footprint: Footprint, depth: int) -> ColumnValue:
    return footprint.elements[depth] * footprint.access.element_bytes


def touched(stores: ProgramStores) -> Touched:
    """Return the footprints of every statement."""
    return Touched(
        stores,
        tuple(
            tuple(Footprint(stores, statement, access) for access in statement.accesses)
            for statement in stores.statements
        ),
    )


def features(touched: Touched, position: int) -> list[ColumnValue]:
    """Return the 90 features of the statement at `position`, in the order of NAMES.

    The written buffer comes first, then the others in order of appearance, five at most. Missing
    buffers are zeros.
    """
    builder = touched.stores.builder
    answer: list[ColumnValue] = []
    for footprint in touched.footprints[position][:BUFFERS]:
        answer += _buffer(touched, touched.stores.statements[position], footprint)
    missing = BUFFERS * len(_FIELDS) - len(answer)
    return answer + [builder.const(0)] * missing


@dataclass(frozen=True, eq=False)
class _Reuse:
    """The reuse of a buffer: one-hot kind, distance in iterations and in bytes, and count."""

    loop: ColumnValue
    serial: ColumnValue
    none: ColumnValue
    iterations: ColumnValue
    bytes: ColumnValue
    count: ColumnValue


def _buffer(touched: Touched, statement: StoreStatement, footprint: Footprint) -> list[ColumnValue]:
    builder, access = touched.stores.builder, footprint.access
    size = builder.const(access.element_bytes)
    iterations = _product(builder, statement.loops)
    all_bytes = iterations * size
    unique_bytes = footprint.elements[0] * size
    stride, lines = _lines(builder, statement, footprint)
    run_bytes = (footprint.run(0) * size).at_most(LINE_BYTES)
    unique_lines = unique_bytes / run_bytes
    reuse = _reuse(touched, statement, footprint)
    # No reuse counts as half a use, so that its ratios exceed the ratios of a single reuse.
    uses = builder.where(reuse.count > 0.5, reuse.count, 0.5)
    one_hot = (access.reads and not access.writes, access.writes and not access.reads,
               access.reads and access.writes)  # fmt: skip
    return [
        *(builder.const(flag) for flag in one_hot),
        all_bytes, unique_bytes, lines, unique_lines,
        reuse.loop, reuse.serial, reuse.none,
        reuse.iterations, reuse.bytes, reuse.count,
        all_bytes / uses, unique_bytes / uses, lines / uses, unique_lines / uses,
        stride,
    ]  # fmt: skip


def _lines(
    builder: ColumnBuilder, statement: StoreStatement, footprint: Footprint
) -> tuple[ColumnValue, ColumnValue]:
    """Return the stride of the innermost loop, and the number of cache lines of all accesses.

    From the innermost loop outward, the first loop that moves the address, by `stride` elements,
    touches min(1, stride * element / 64) lines per iteration.
    """
    innermost, per_line = builder.const(0), builder.const(0)
    skipped = builder.const(1)
    chain: list[tuple[ColumnValue, ColumnValue, ColumnValue]] = []
    for loop in reversed(statement.loops):
        if footprint.moves(loop):
            chain.append((loop.extent, footprint.stride(loop), skipped))
        else:
            skipped = skipped * loop.extent
    fraction = 1 / LINE_BYTES * footprint.access.element_bytes
    # Outermost first, so that the innermost loop that runs more than once decides.
    for extent, stride, inside in reversed(chain):
        runs = extent > 1
        share = (stride * fraction).at_most(1) / inside
        innermost = builder.where(runs, builder.where(inside > 1, 0, stride), innermost)
        per_line = builder.where(runs, share, per_line)
    lines = (_product(builder, statement.loops) * per_line).at_least(1)
    return innermost, lines


def _reuse(touched: Touched, statement: StoreStatement, footprint: Footprint) -> _Reuse:
    """Return the innermost reuse: by a loop that does not move the address, or by a statement.

    Loops that run once are skipped, row by row. A loop outside of a scratch buffer does not read
    the same data again; it counts only if another statement shares the buffer.
    """
    builder = touched.stores.builder
    zero, one = builder.const(0), builder.const(1)
    answer = _Reuse(zero, zero, one, zero, zero, zero)
    stops: list[tuple[EnclosingLoop, _Reuse]] = []
    iterations = one
    for depth in range(len(statement.loops) - 1, -1, -1):
        loop = statement.loops[depth]
        others = touched.sharers(loop, footprint.access.buffer) - 1
        still = depth >= footprint.access.allocated_at and not footprint.moves(loop)
        if still or others:
            count = loop.extent if still else builder.const(others)
            kind = (one, zero) if still else (zero, one)
            size = touched.per_iteration(loop)
            stops.append((loop, _Reuse(*kind, zero, iterations, size, count)))
            if loop.extent.is_constant and not loop.extent.equals(1):
                break
        iterations = iterations * loop.extent
    for loop, here in reversed(stops):
        answer = _choose(builder, loop.extent > 1, here, answer)
    return answer


def _choose(builder: ColumnBuilder, test: ColumnValue, a: _Reuse, b: _Reuse) -> _Reuse:
    return _Reuse(
        builder.where(test, a.loop, b.loop),
        builder.where(test, a.serial, b.serial),
        builder.where(test, a.none, b.none),
        builder.where(test, a.iterations, b.iterations),
        builder.where(test, a.bytes, b.bytes),
        builder.where(test, a.count, b.count),
    )


def _product(builder: ColumnBuilder, loops: Sequence[EnclosingLoop]) -> ColumnValue:
    return _product_of(builder, [loop.extent for loop in loops])


def _product_of(builder: ColumnBuilder, values: Sequence[ColumnValue]) -> ColumnValue:
    return reduce(ColumnValue.__mul__, values, builder.const(1))


def _depth(statement: StoreStatement, loop: EnclosingLoop) -> int | None:
    for depth, mine in enumerate(statement.loops):
        if mine.number == loop.number:
            return depth
    return None
