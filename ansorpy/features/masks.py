"""Masks of a register tile: loops around it that are written out, and masks that they decide."""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

from ansorpy.expr.expr import LOGICAL, Binary, Expr, Select, variables, walk
from ansorpy.expr.products import conjuncts
from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.region import Footprint
from ansorpy.features.walk import EnclosingLoop, StoreStatement
from ansorpy.loopir.nodes import LoopKind
from ansorpy.loopir.passes.unroll import LONGEST


class Masks:
    """The masks of a statement.

    Args:
        outer: loops around the register tile.
        last: extent of each loop in the last iteration of the loops around it.
        points: vectors of the register tile.

    Attributes:
        window: loops over a window, and 1 if they are written out together with the tile.
    """

    def __init__(
        self,
        builder: ColumnBuilder,
        statement: StoreStatement,
        written: Footprint,
        outer: list[EnclosingLoop],
        last: Mapping[str, ColumnValue],
        points: ColumnValue,
    ) -> None:
        self.builder = builder
        self.statement = statement
        self.written = written
        self.outer = outer
        self.last = last
        self.window = self._written_out(points)
        self.decided: dict[EnclosingLoop, ColumnValue] = {}  # written out for a condition
        self._decide()

    @property
    def combines(self) -> bool:
        """True if the statement is an update."""
        return self.statement.store.combiner is not None

    def masked(self) -> ColumnValue:
        """Return the share of the tiles whose masks loops decide that are left in the code.

        Of the loops over the output, the first iterations alone have a mask.
        """
        answer, one = self.builder.const(0), self.builder.const(1)
        for part in self.conditions():
            needed = variables(part)
            over = [x for x in self.outer if x.var in needed and self.written.moves(x)]
            share = one / reduce(ColumnValue.__mul__, (x.extent for x in over), one)
            answer = answer.at_least(self.builder.where(self.known(part), 0, share))
        return answer

    def folds(self, expr: Expr) -> ColumnValue:
        """Return 1 if an operation, or an operand of a conjunction, has a known value.

        So has a condition on points of the tile and of a window that is written out.
        """
        if isinstance(expr, Binary) and expr.op in LOGICAL:
            return self.builder.apply("or", self.known(expr.a), self.known(expr.b))
        return self.known(expr)

    def known(self, expr: Expr) -> ColumnValue:
        """Return 1 if no loop that is left in the code moves an expression."""
        needed = variables(expr)
        return self._all_gone(loop for loop in self.outer if loop.var in needed)

    def is_written_out(self, loop: EnclosingLoop) -> ColumnValue:
        """Return 1 if a loop around the tile is written out."""
        zero = self.builder.const(0)
        return self.builder.apply("or", self.window.get(loop, zero), self.decided.get(loop, zero))

    def conditions(self) -> Iterator[Expr]:
        """Yield the parts of the conditions under which the statement reads."""
        for value in self.statement.store.values:
            for part in walk(value):
                if isinstance(part, Select):
                    yield from conjuncts(part.cond)

    def _all_gone(self, loops: Iterable[EnclosingLoop]) -> ColumnValue:
        """Return 1 if none of the loops is left in the code."""
        answer = self.builder.const(1)
        for loop in loops:
            gone = self.builder.apply("or", loop.extent <= 1, self.is_written_out(loop))
            answer = self.builder.apply("and", answer, gone)
        return answer

    def _written_out(self, points: ColumnValue) -> dict[EnclosingLoop, ColumnValue]:
        """Return the loops over a window, and 1 if they are written out together with the tile.

        These are the serial loops around the tile that do not move the written buffer, from
        inside out while the unroll budget allows. A loop with a tail is not written out; a
        loop of extent 1 is no obstacle.
        """
        inside_of: dict[EnclosingLoop, ColumnValue] = {}
        inside = self.builder.const(1)
        for loop in reversed(self.outer):
            if not self.combines or loop.kind is not LoopKind.SERIAL or inside.equals(0):
                break
            if self.written.moves(loop):
                inside = self.builder.apply("and", inside, loop.extent <= 1)
                continue
            points = points * loop.extent
            whole = self.last[loop.var].same(loop.extent)
            fits = self.builder.apply("and", whole, points <= self.statement.unroll)
            inside_of[loop] = inside = self.builder.apply("and", inside, fits)
        return inside_of

    def _decide(self) -> None:
        """Find the serial loops around the tile that are written out for a condition.

        A short loop without a tail is, within any budget, if it and loops of the tile decide a part
        of a condition of an update (`loopir.passes.unroll`).
        """
        if not self.combines:
            return
        parts = [variables(part) for part in self.conditions()]
        for loop in reversed(self.outer):
            decides = self.builder.const(0)
            for needed in (part for part in parts if loop.var in part):
                alone = self._all_gone(x for x in self.outer if x is not loop and x.var in needed)
                decides = self.builder.apply("or", decides, alone)
            if loop.kind is LoopKind.SERIAL and not decides.equals(0):
                whole = self.last[loop.var].same(loop.extent)
                short = self.builder.apply("and", whole, loop.extent <= LONGEST)
                self.decided[loop] = self.builder.apply("and", short, decides)
