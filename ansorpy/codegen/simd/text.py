"""The text of a tile operation, parsed with Python's grammar and a whitelist of its forms."""

import ast
from typing import Any

from ansorpy.codegen.simd.kinds import STORED, Operand


class Node:
    """An expression; equal ones are one object. `uses` are tile variables, `reads` buffers.

    `linear` is its form as integer coefficients by name and a constant, or None.
    """

    __slots__ = ("args", "linear", "op", "reads", "uses")

    def __init__(self, op: str, args: tuple[Any, ...], uses: set[str], reads: set[str]) -> None:
        self.op, self.args, self.uses, self.reads = op, args, sorted(uses), reads
        self.linear = linear_form(op, args)


Linear = tuple[dict[str, int], int]


def linear_form(op: str, args: tuple[Any, ...]) -> Linear | None:
    """Return the linear form of an expression from those of its parts."""
    if op == "const":
        return ({}, args[1]) if args[0] is int else None
    if op == "name":
        return {args[0]: 1}, 0
    if op not in ("+", "-", "*", "neg"):
        return None
    (a, *rest) = (part.linear for part in args)
    b = rest[0] if rest else ({}, 0)
    if a is None or b is None:
        return None
    if op == "*":
        a, b = (b, a) if not a[0] else (a, b)
        return None if b[0] else ({name: c * b[1] for name, c in a[0].items()}, a[1] * b[1])
    first, second = {"+": (1, 1), "-": (1, -1), "neg": (-1, 1)}[op]
    terms = {name: first * c for name, c in a[0].items()}
    for name, c in b[0].items():
        terms[name] = terms.get(name, 0) + second * c
    return terms, first * a[1] + second * b[1]


SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "neg",
}  # fmt: skip
CALLS = {
    "min", "max", "pow", "abs", "floor", "ceil", "exp", "log", "tanh", "erf", "sqrt", "rsqrt",
    "sigmoid", "argmax", "argmin", *STORED,
}  # fmt: skip


class Tile:
    """A parsed tile operation: `names` are its arguments, `results` the tiles it assigns."""

    def __init__(
        self,
        text: str,
        dims: tuple[tuple[str, int], ...],
        lane: tuple[str, int] | None,
        mask: str | None,
        kinds: dict[str, str],
        dot: tuple[str, str] | None = None,
        matrix: tuple[str, str, bool] | None = None,
        apart: bool = False,
        streamed: bool = False,
    ) -> None:
        self.text, self.dot, self.matrix = text, dot, matrix
        self.apart, self.streamed = apart, streamed
        self.dims = dims[:-1] if dot else dims  # what is written out
        self.nodes: dict[tuple[str, tuple[Any, ...]], Node] = {}
        self.lane, self.lanes = lane or ("", 0)
        self.tile_vars = {name for name, _ in dims} | ({self.lane} if lane else set())
        self.operands = {name: Operand.of(kind) for name, kind in kinds.items()}
        self.names: list[str] = []
        self._statement(ast.parse(text).body[0])
        self.mask = self._node(ast.parse(mask, mode="eval").body) if mask else None
        self.results = [t.args[0] for t in self.targets if self.holds(t.args[0])]

    def holds(self, name: str) -> bool:
        """Whether a name of the text is a register tile."""
        return name in self.operands and self.operands[name].shape is not None

    def of(self, read: Node) -> Operand:
        """Return the operand that a read or a target touches."""
        return self.operands[read.args[0]]

    def _statement(self, tree: ast.stmt) -> None:
        self.combiner = ""
        match tree:
            case ast.AugAssign(target=target, op=ast.Add() | ast.Mult() as op, value=value):
                self.targets, self.values = [self._node(target)], [self._node(value)]
                self.combiner = "sum" if isinstance(op, ast.Add) else "prod"
            case ast.Assign(
                targets=[ast.Tuple(elts=targets)],
                value=ast.Call(
                    func=ast.Name(id=name), args=[ast.Tuple(elts=old), ast.Tuple(elts=new)]
                ),
            ):
                self.targets, self.combiner = [self._node(t) for t in targets], name
                if name not in ("argmax", "argmin") or self.targets != [self._node(t) for t in old]:
                    raise ValueError(f"not a tile operation: {self.text}")
                self.values = [self._node(part) for part in new]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                self.targets = [self._node(part) for part in targets]
                self.values = [self._node(part) for part in values]
            case ast.Assign(targets=[target], value=value):
                self.targets, node = [self._node(target)], self._node(value)
                combines = node.op in ("max", "min") and node.args[0] is self.targets[0]
                self.combiner = node.op if combines else ""
                self.values = [node.args[1] if combines else node]
            case _:
                raise ValueError(f"not a tile operation: {self.text}")

    def _node(self, tree: ast.AST) -> Node:
        match tree:
            case ast.Constant(value=bool() | int() | float() as value):
                return self._make("const", type(value), value)
            case ast.Name(id="inf" | "nan" as name):
                return self._make("const", float, float(name))
            case ast.Name(id=name):
                return self._make("name", self._seen(name))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                return self._make("read", self._seen(name), *map(self._node, parts))
            case ast.IfExp(test=cond, body=a, orelse=b):
                return self._make("select", *map(self._node, (cond, a, b)))
            case ast.Call(func=ast.Name(id=name), args=parts) if name in CALLS:
                return self._make(name, *map(self._node, parts))
        return self._operation(tree)

    def _operation(self, tree: Any) -> Node:
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
        symbol, node = SYMBOLS[type(op)], self._node(first)
        if not rest:
            return self._make(symbol, node)
        for part in rest:
            node = self._make(symbol, node, self._node(part))
        return node

    def _seen(self, name: str) -> str:
        if name not in self.names and name not in self.tile_vars:
            self.names.append(name)
        return name

    def _make(self, op: str, *args: Any) -> Node:
        if (op, args) not in self.nodes:
            parts = [part for part in args if isinstance(part, Node)]
            uses = {name for part in parts for name in part.uses}
            reads = {name for part in parts for name in part.reads}
            if op == "name":
                uses = {args[0]} & self.tile_vars
            if op == "read":
                reads.add(args[0])
            self.nodes[op, args] = Node(op, args, uses, reads)
        return self.nodes[op, args]

    def slope(self, node: Node, var: str) -> int | None:
        """Return the coefficient of `var` where `node` is linear in it, else None."""
        if var not in node.uses:
            return 0
        if node.linear is not None:
            return node.linear[0].get(var, 0)
        if node.op not in ("+", "-"):
            return None
        a, b = (self.slope(part, var) for part in node.args)
        return None if a is None or b is None else a + b if node.op == "+" else a - b

    def shrinks(self, mask: Node) -> bool:
        """Whether a mask that holds at some tile point also holds at every smaller one."""
        if mask.op == "and":
            return all(self.shrinks(part) for part in mask.args)
        if mask.op not in ("<", "<=", ">", ">="):
            return not mask.uses
        a, b = mask.args if mask.op[0] == "<" else mask.args[::-1]
        pairs = [(self.slope(a, var), self.slope(b, var)) for var in mask.uses]
        return all(x is not None and y is not None and x >= y for x, y in pairs)
