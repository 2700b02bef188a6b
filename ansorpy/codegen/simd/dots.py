"""Sums of several products per lane by one instruction of the processor."""

from typing import Any

from llvmlite import ir

from ansorpy.codegen.simd.kinds import BYTES, I32, I64, declared, vector, width
from ansorpy.codegen.simd.memory import consecutive
from ansorpy.codegen.simd.strided import Strided
from ansorpy.codegen.simd.tile import TileExpr
from ansorpy.codegen.simd.values import Index, Point


class Dots(Strided):
    """Code for tiles with a `dot`: their operands are vectors of int32."""

    def dot(self, how: tuple[str, str], product: TileExpr, old: Any, point: Point) -> Any:
        """Return `old` plus the sum of a product of two widened reads over the steps."""
        step, function = how
        reads = [part.args[0] for part in product.args]
        # An instruction with one unsigned operand takes it first.
        reads.sort(key=lambda read: self.tile.of(read).dtype != "uint8")
        parts = [self.packed(read, {**point, step: (0,)}, width(old)) for read in reads]
        kind = ir.FunctionType(old.type, [old.type, *(part.type for part in parts)])
        return self.b.call(declared(self.b.module, function, kind), [old, *parts])

    def packed(self, read: TileExpr, point: Point, lanes: int) -> Any:
        """Return all steps of an operand, one int32 per lane; `point` is at the first step."""
        key = ("packed", read, *[point.get(name) for name in read.uses])
        if key not in self.memo:
            self.memo[key] = self.splat(self.fetch_packed(read, point, lanes), lanes)
        return self.memo[key]

    def fetch_packed(self, read: TileExpr, point: Point, lanes: int) -> Any:
        """Load one int32 per lane, or one for all lanes; lanes outside of the guard are 0."""
        operand, name = self.tile.of(read), read.args[0]
        index, guard = self.index(read.args[1], point), self.allowed((), point, read.uses)
        steps = 4 // BYTES.get(operand.dtype, 1)
        if operand.shape is not None or not isinstance(index, Index):
            raise ValueError("cannot compile a dot of register tiles; expected operands in memory")
        if len(index.lanes) == 1:
            if guard is not True and guard is not False:
                offset = self.b.select(self.any(guard), self.whole(index), ir.Constant(I64, 0))
                index = Index({self.term(offset): 1}, (0,))
            elif guard is False:
                index = Index({}, (0,))
            return self.b.load(self.address(name, operand.dtype, index), typ=I32, align=1)
        units = Index({}, tuple((at - index.lanes[0]) // steps for at in index.lanes))
        if not consecutive(units) or index.lanes[1] - index.lanes[0] != steps:
            raise ValueError("cannot compile a dot whose lanes are not consecutive in memory")
        kind = vector(I32, lanes)
        if guard is False:
            return ir.Constant(kind, None)
        place = self.address(name, operand.dtype, index)
        if guard is True:
            return self.b.load(place, typ=kind, align=1)
        return self.masked("load", ir.Constant(kind, None), place, 1, guard)
