"""A tile of sums that the matrix instruction of a warp adds, from operands in shared memory.

A load takes four matrices of 8 rows of 16 bytes, one row from each thread. A thread gets one word
of each matrix: word c of row r for thread 4 r + c; of a matrix that is turned over, two elements:
rows 2 c and 2 c + 1 in column r (PTX ISA 9.0, section 9.7.14.5). Words of 32 bits are not turned
over: if they are not contiguous along the steps, each thread loads its own ones.
"""

from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.simd.kinds import F32, I32, STORED, declared
from ansorpy.codegen.simd.tile import SimdTile, TileExpr
from ansorpy.codegen.simd.values import Index, Point
from ansorpy.codegen.simt.collectives import ThreadBlock
from ansorpy.codegen.simt.memory import SHARED
from ansorpy.codegen.simt.thread_digits import Digit
from ansorpy.codegen.simt.thread_tile import ThreadTile, points
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.rewrites.warp_products import (
    COLUMN_LANES,
    MATRICES,
    PAIR,
    ROWS,
    WarpProduct,
    by_function,
)

LOAD: Final = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{turned}.b16.p3"
WORDS: Final = ir.LiteralStructType([I32] * MATRICES)
SUMS: Final = ir.LiteralStructType([F32] * MATRICES)
ROUND: Final = "llvm.nvvm.f2tf32.rna"  # cvt.rna.tf32.f32: to nearest, ties away from zero
# Digits of the number of a thread: the row that it gives to a load, two digits of the number of its
# matrix, the row of its sums, and its word of a row.
ROW: Final = Digit(1, ROWS)
MATRIX, UPPER = Digit(ROWS, 2), Digit(2 * ROWS, 2)
OWN_ROW: Final = Digit(COLUMN_LANES, ROWS)
OWN_WORD: Final = Digit(1, COLUMN_LANES)
DIGITS: Final = (ROW, MATRIX, UPPER, OWN_ROW, OWN_WORD)


@dataclass(frozen=True, slots=True)
class Fragments:
    """The symbols of a tile on matrices.

    Args:
        rows, columns: the lane variables of rows and of columns.
        column: the dimension of the two columns of a thread.
    """

    rows: str
    columns: str
    column: str


class MatrixTile(ThreadTile):
    """Writes the code of a tile on matrices; all threads of its warps run it.

    Args:
        tile, values, shared, hoisted, block, among: as `ThreadTile` takes them; the values have
            the symbols of `DIGITS`.
        fragments: the symbols of rows and columns.
    """

    product: WarpProduct

    def __init__(
        self,
        tile: SimdTile,
        values: dict[str, Any],
        shared: dict[Any, Any],
        hoisted: Any,
        block: ThreadBlock,
        among: int,
        fragments: Fragments,
    ) -> None:
        super().__init__(tile, values, shared, hoisted, block, among, across=False)
        self.fragments = fragments
        found = by_function(tile.dot[1]) if tile.dot else None
        assert found is not None
        self.product = found

    def multiply(self, row: str, group: str, fresh: bool) -> None:
        """Emit loads and products for every group of steps: all rows, two blocks of columns."""
        del fresh  # sums begin in registers
        tile, column = self.tile, self.fragments.column
        factors = [part.args[0] for part in tile.values[0].args]  # without cast or rounding
        left, right = sorted(factors, key=lambda read: row not in read.uses)
        *sums, (_, groups), (step, _) = tile.spans
        blocks = [(name, n // PAIR if name == row else n) for name, n in sums if name != column]
        blocks.sort(key=lambda block: block[0] in left.uses)
        wide, count = next(
            ((name, n) for name, n in reversed(blocks) if name not in left.uses), ("", 1)
        )
        for k in range(groups):
            known: dict[Any, list[Any]] = {}
            for at in points(blocks):
                start = {**at, column: (0,), group: (k,), step: (0,)}
                start[row] = (PAIR * at[row][0],)
                number = at[wide][0] if wide else 0
                block = number - number % PAIR
                both = {**start, wide: (block,)} if wide else start
                rows, columns = (
                    (read, *(place[name] for name in read.uses))
                    for read, place in ((left, start), (right, both))
                )
                if rows not in known:
                    known[rows] = self.row_words(left, start, row, step)
                if columns not in known:
                    after = wide if block + 1 < count else ""
                    known[columns] = self.column_words(right, both, after, step)
                words = known[columns][PAIR * (number - block) :][:PAIR]
                self.add_product(start, row, [*known[rows], *words])

    def row_words(self, read: TileExpr, point: Point, row: str, step: str) -> list[Any]:
        """Return the words of 16 rows by all steps: two times 8 rows, of the lower steps first."""
        slope, steps = self._slope(read, row), self._slope(read, step)
        index = self.index(read.args[1], point)
        lane, upper = index.terms[self.fragments.rows], self.product.run * steps
        if steps != 1 and not self.product.turns:
            return self._load_words(read, _moved(index, {OWN_WORD: steps}), (slope, upper))
        along = lane if steps == 1 else steps  # from row to row of a matrix in memory
        moves = {ROW: along, OWN_ROW: -lane, MATRIX: slope, UPPER: upper}
        return self._load(read, _moved(index, moves), turned=steps != 1)

    def column_words(self, read: TileExpr, point: Point, wide: str, step: str) -> list[Any]:
        """Return the words of all steps by 8 columns, and by 8 columns of the next block.

        Args:
            wide: the dimension of blocks; "": this one is loaded twice, as there is no other.
        """
        steps, column = self._slope(read, step), self._slope(read, self.fragments.column)
        after = self._slope(read, wide) if wide else 0
        index = self.index(read.args[1], point)
        lanes = {name: n for name, n in index.terms.items() if name != self.fragments.columns}
        first, upper = Index(lanes, index.lanes), self.product.run * steps
        if steps != 1 and not self.product.turns:
            own = _moved(first, {OWN_ROW: column, OWN_WORD: steps})
            return self._load_words(read, own, (upper, after))
        along = column if steps == 1 else steps
        moves = {ROW: along, MATRIX: upper, UPPER: after}
        return self._load(read, _moved(first, moves), turned=steps != 1)

    def add_product(self, start: Point, row: str, words: list[Any]) -> None:
        """Add a product of 16 rows by 8 columns to the four sums of a thread."""
        (first,), column = start[row], self.fragments.column
        places = [
            {**start, row: (first + k,), column: (n,)} for k in range(PAIR) for n in range(PAIR)
        ]
        old = [value for place in places for value in self.fetch(place)]
        kind = ir.FunctionType(SUMS, [*(one.type for one in words), *(one.type for one in old)])
        new = self.b.call(declared(self.b.module, self.product.function, kind), [*words, *old])
        for k, place in enumerate(places):
            self.put(place, [self.b.extract_value(new, k)], None)

    def _load(self, read: TileExpr, index: Index, turned: bool) -> list[Any]:
        name = LOAD.format(turned=".trans" if turned else "")
        place = self.address(read.args[0], self.tile.of(read).dtype, index)
        function = declared(self.b.module, name, ir.FunctionType(WORDS, [SHARED]))
        found = self.b.call(function, [place])
        return [self._word(self.b.extract_value(found, k)) for k in range(MATRICES)]

    def _load_words(self, read: TileExpr, index: Index, slopes: tuple[int, int]) -> list[Any]:
        """Return the words of a thread in four matrices, at two distances of matrices."""
        near, far = slopes
        places = [near * (k % PAIR) + far * (k // PAIR) for k in range(MATRICES)]
        dtype = self.tile.of(read).dtype
        loaded = {
            place: self._word(
                self.b.load(
                    self.address(
                        read.args[0], dtype, Index(index.terms, (index.lanes[0] + place,))
                    ),
                    typ=STORED[dtype],
                    align=SIZE_BYTES[dtype],
                )
            )
            for place in dict.fromkeys(places)
        }
        return [loaded[place] for place in places]

    def _word(self, value: Any) -> Any:
        """Return a word as the instruction takes it."""
        if not self.product.rounds:
            return value
        return rounded(self.b, value if value.type == F32 else self.b.bitcast(value, F32))

    def _slope(self, read: TileExpr, name: str) -> int:
        slope = self.tile.slope(read.args[1], name)
        assert slope is not None
        return slope


def rounded(builder: Any, value: Any) -> Any:
    """Return a float32 rounded to tf32, as an i32."""
    return builder.call(declared(builder.module, ROUND, ir.FunctionType(I32, [F32])), [value])


def _moved(index: Index, moves: dict[Digit, int]) -> Index:
    """Return the index of the row that a thread gives to a load."""
    terms = dict(index.terms)
    for digit, factor in moves.items():
        terms[digit.symbol] = terms.get(digit.symbol, 0) + factor
    return Index(terms, index.lanes)
