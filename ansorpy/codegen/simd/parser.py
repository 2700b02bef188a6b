"""Text of a tile operation to its structure, by Python's grammar and a whitelist of its forms.

    fma = tile("acc[i, v, l] += A[(i0 * 8 + i) * 512 + k] * B[k * 48 + v * 16 + l]",
               dims=(("i", 8), ("v", 3)), lane=("l", 16),
               types={"acc": "float32x16[8,3]", "A": "float32*", "B": "float32*"})

means: for every i < 8, v < 3 (written out) and l < 16 (the lanes of one vector), if `mask` holds,
do the statement. `fma` is a numba intrinsic; its arguments are the names of the text in order of
first appearance, the mask last, tile variables left out: `acc = fma(acc, A, i0, k, B)`.
"float32*" is memory (passed as an int64 address, indexed by one offset), "float32x16[8,3]" a
register tile of 8 x 3 vectors, "float32[8]" one of scalars; every other name is an int64.
A call returns the new value of the register tile it assigns (two of them: a tuple).

`+=`, `*=`, `x[..] = max(x[..], y)`, `min` combine, and reduce over tile variables that the target
does not mention; `x[..], p[..] = argmax((x[..], p[..]), (y, k))` (argmin) keeps the pair with the
better y, and of equals the smaller k. Nothing is read or written if the mask, or the condition
of an enclosing `if`, is false. float16 and bfloat16 are computed in float32.

`dot=("q", function)` sums a product over the last dimension by one instruction of the processor,
which takes that many narrow elements per lane: they lie side by side, the lanes side by side or
all at one place. `matrix=(rows, groups, zero)`: the function takes matrices from memory, along
these two dimensions; if `zero`, `+=` means `=`. Every other argument is a hint (see Hints).
"""

import ast
from typing import Any

from ansorpy.codegen.simd.arithmetic import INTRINSICS
from ansorpy.codegen.simd.functions import POLYNOMIALS
from ansorpy.codegen.simd.kinds import STORED, Operand
from ansorpy.codegen.simd.tile import Nodes, SimdTile, TileExpr, accumulation
from ansorpy.loopir.hints import Hints

SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "neg",
}  # fmt: skip
CALLS = {
    "bitnot", "min", "max", "pow", "fmod", "rsqrt", "sigmoid", *INTRINSICS, *POLYNOMIALS, *STORED,
}  # fmt: skip


def parse(
    text: str,
    dims: tuple[tuple[str, int], ...] = (),
    lane: tuple[str, int] | None = None,
    mask: str | None = None,
    types: dict[str, str] | None = None,
    dot: tuple[str, str] | None = None,
    matrix: tuple[str, str, bool] | None = None,
    **hints: Any,
) -> SimdTile:
    """Return the structure of a tile operation.

    Raises:
        ValueError: the text is no statement on tiles.
    """
    name, lanes = lane or ("", 0)
    parser = Parser(text, Nodes({var for var, _ in dims} | ({name} if lane else set())))
    targets, combiner, values = parser.statement(ast.parse(text).body[0])
    return SimdTile(
        targets=tuple(targets),
        values=tuple(values),
        combiner=combiner,
        spans=dims,
        lane=name,
        lanes=lanes,
        mask=parser.node(ast.parse(mask, mode="eval").body) if mask else None,
        operands={symbol: Operand.of(kind) for symbol, kind in (types or {}).items()},
        dot=dot,
        matrix=matrix,
        hints=Hints(**hints),
    )


class Parser:
    """Walks Python's syntax tree of one tile operation and makes its nodes."""

    def __init__(self, text: str, nodes: Nodes) -> None:
        self.text, self.make = text, nodes.make

    def statement(self, tree: ast.stmt) -> tuple[list[TileExpr], str, list[TileExpr]]:
        """Return the targets, the combiner and the values of a statement."""
        match tree:
            case ast.AugAssign(target=target, op=ast.Add() | ast.Mult() as op, value=value):
                combiner = "sum" if isinstance(op, ast.Add) else "prod"
                return [self.node(target)], combiner, [self.node(value)]
            case ast.Assign(
                targets=[ast.Tuple(elts=targets)],
                value=ast.Call(
                    func=ast.Name(id="argmax" | "argmin" as name),
                    args=[ast.Tuple(elts=old), ast.Tuple(elts=new)],
                ),
            ):
                places = [self.node(part) for part in targets]
                if places != [self.node(part) for part in old]:
                    raise ValueError(f"not a tile operation: {self.text}")
                return places, name, [self.node(part) for part in new]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                places = [self.node(part) for part in targets]
                return places, "", [self.node(part) for part in values]
            case ast.Assign(targets=[target], value=value):
                place = self.node(target)
                combiner, node = accumulation(place, self.node(value))
                return [place], combiner, [node]
            case _:
                raise ValueError(f"not a tile operation: {self.text}")

    def node(self, tree: ast.AST) -> TileExpr:
        """Return the node of an expression."""
        match tree:
            case ast.Constant(value=bool() | int() | float() as value):
                return self.make("const", type(value), value)
            case ast.Name(id="inf" | "nan" as name):
                return self.make("const", float, float(name))
            case ast.Name(id=name):
                return self.make("name", name)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                return self.make("read", name, *map(self.node, parts))
            case ast.IfExp(test=cond, body=a, orelse=b):
                return self.make("select", *map(self.node, (cond, a, b)))
            case ast.Call(func=ast.Name(id=name), args=parts) if name in CALLS:
                return self.make(name, *map(self.node, parts))
        return self.operation(tree)

    def operation(self, tree: Any) -> TileExpr:
        """Return the node of an operator and its operands."""
        op: Any
        first: Any
        match tree:
            case ast.UnaryOp(op=op, operand=first):
                rest: list[Any] = []
            case (
                ast.BinOp(left=first, op=op, right=b)
                | ast.Compare(left=first, ops=[op], comparators=[b])
            ):
                rest = [b]
            case ast.BoolOp(op=op, values=[first, *others]):
                rest = list(others)
            case _:
                op, first, rest = None, None, []
        if type(op) not in SYMBOLS:
            raise ValueError(f"{ast.unparse(tree)} has no place in a tile: {self.text}")
        symbol, node = SYMBOLS[type(op)], self.node(first)
        if not rest:
            return self.make(symbol, node)
        for part in rest:
            node = self.make(symbol, node, self.node(part))
        return node
