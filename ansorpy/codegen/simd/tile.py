"""A register-tile statement as a structure: expression nodes, dimensions, lanes and hints."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ansorpy.codegen.simd.kinds import Operand
from ansorpy.loopir.hints import Hints

Linear = tuple[dict[str, int], int]


class TileExpr:
    """An expression: an operator and its arguments, which are nodes, names or numbers.

    `uses` are the tile variables and `reads` the buffers in it. `linear` is its form as integer
    coefficients by name and a constant, or None.
    """

    __slots__ = ("args", "linear", "op", "reads", "uses")

    def __init__(self, op: str, args: tuple[Any, ...], uses: set[str], reads: set[str]) -> None:
        self.op, self.args, self.uses, self.reads = op, args, sorted(uses), reads
        self.linear = linear_form(op, args)


def linear_form(op: str, args: tuple[Any, ...]) -> Linear | None:
    """Return the linear form of an expression from the forms of its arguments."""
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


class Nodes:
    """Makes the nodes of one tile; equal expressions are one object."""

    def __init__(self, variables: set[str]) -> None:
        self.variables = variables
        self.nodes: dict[tuple[str, tuple[Any, ...]], TileExpr] = {}

    def make(self, op: str, *args: Any) -> TileExpr:
        """Return the node of an operator and its arguments."""
        node = self.nodes.get((op, args))
        if node is None:
            uses, reads = set[str](), set[str]()
            for part in args:
                if isinstance(part, TileExpr):
                    uses.update(part.uses)
                    reads.update(part.reads)
            if op == "name":
                uses = {args[0]} & self.variables
            elif op == "read":
                reads.add(args[0])
            node = self.nodes[op, args] = TileExpr(op, args, uses, reads)
        return node

    def literal(self, value: float) -> TileExpr:
        """Return the node of a number; a negative one is the negation of a literal."""
        if isinstance(value, bool) or not str(value).startswith("-"):
            return self.make("const", type(value), value)
        return self.make("neg", self.make("const", type(value), -value))


def accumulation(target: TileExpr, value: TileExpr) -> tuple[str, TileExpr]:
    """Return combiner and operand of `target = value`; `max(target, y)` and `min` combine."""
    if value.op in ("max", "min") and value.args[0] is target:
        return value.op, value.args[1]
    return "", value


@dataclass(frozen=True, eq=False)
class SimdTile:
    """One store over a register tile, in the symbols of the generated code.

    For every point of `spans` (written out) and of the lanes (at once): if `mask`, combine
    `values` into `targets`. `operands` are the buffers by symbol. `dot` is the last of `spans` and
    the LLVM function that sums over it; `matrix` names the dimensions of the rows and of the
    groups, and says whether the sum begins with 0.
    """

    targets: tuple[TileExpr, ...]
    values: tuple[TileExpr, ...]
    combiner: str = ""
    spans: tuple[tuple[str, int], ...] = ()
    lane: str = ""
    lanes: int = 0
    mask: TileExpr | None = None
    operands: dict[str, Operand] = field(default_factory=dict)
    dot: tuple[str, str] | None = None
    matrix: tuple[str, str, bool] | None = None
    hints: Hints = field(default_factory=Hints)

    @cached_property
    def dims(self) -> tuple[tuple[str, int], ...]:
        """The dimensions that are written out: all but the dimension of a dot product."""
        return self.spans[:-1] if self.dot else self.spans

    @cached_property
    def variables(self) -> set[str]:
        """The dimensions and the lane variable."""
        return {name for name, _ in self.spans} | ({self.lane} if self.lane else set())

    @cached_property
    def names(self) -> list[str]:
        """The symbols from outside of the tile, in order of their first mention."""
        mentioned: dict[str, None] = {}
        roots = (*self.targets, *self.values, *((self.mask,) if self.mask else ()))
        seen: set[int] = set()
        for root in roots:
            for node in preorder(root, seen):
                if node.op in ("name", "read"):
                    mentioned[node.args[0]] = None
        return [name for name in mentioned if name not in self.variables]

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The structure as nested tuples: tiles of equal keys have the same code."""
        roots = tuple(map(structure, (*self.targets, *self.values)))
        mask = None if self.mask is None else structure(self.mask)
        how = (self.combiner, self.spans, self.lane, self.lanes, self.dot, self.matrix, self.hints)
        return roots, mask, how, tuple(sorted(self.operands.items()))

    @cached_property
    def results(self) -> list[str]:
        """The register tiles that the statement assigns."""
        return [t.args[0] for t in self.targets if self.in_registers(t.args[0])]

    def in_registers(self, name: str) -> bool:
        """Return True if a symbol is a register tile."""
        return name in self.operands and self.operands[name].shape is not None

    def of(self, read: TileExpr) -> Operand:
        """Return the operand that a read or a target touches."""
        return self.operands[read.args[0]]

    def slope(self, node: TileExpr, var: str) -> int | None:
        """Return the coefficient of `var` if `node` is linear in it, else None."""
        if var not in node.uses:
            return 0
        if node.linear is not None:
            return node.linear[0].get(var, 0)
        if node.op not in ("+", "-"):
            return None
        a, b = (self.slope(part, var) for part in node.args)
        return None if a is None or b is None else a + b if node.op == "+" else a - b

    def shrinks(self, mask: TileExpr) -> bool:
        """Return True if a mask that holds at some tile point also holds at every smaller one."""
        if mask.op == "and":
            return all(self.shrinks(part) for part in mask.args)
        if mask.op not in ("<", "<=", ">", ">="):
            return not mask.uses
        a, b = mask.args if mask.op[0] == "<" else mask.args[::-1]
        pairs = [(self.slope(a, var), self.slope(b, var)) for var in mask.uses]
        return all(x is not None and y is not None and x >= y for x, y in pairs)


def structure(node: TileExpr) -> tuple[Any, ...]:
    """Return an expression as nested tuples; a literal is never negative, so that -0.0 is not 0."""
    return (node.op, *(structure(a) if isinstance(a, TileExpr) else a for a in node.args))


def preorder(root: TileExpr, seen: set[int]) -> Iterator[TileExpr]:
    """Yield a node and those below it that were not `seen` (by id), parents first."""
    if id(root) not in seen:
        seen.add(id(root))
        yield root
        for part in root.args:
            if isinstance(part, TileExpr):
                yield from preorder(part, seen)
