"""The body of a kernel as lines of Python; `source_builder` collects it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ansorpy.codegen.simd.kinds import I1, I64
from ansorpy.codegen.simd.tile import Nodes, TileExpr
from ansorpy.codegen.simt.source_builder import (
    BranchItem,
    Item,
    LoopItem,
    SourceBuilder,
    Statements,
    Suite,
    constant_text,
    is_constant,
)
from ansorpy.codegen.tile_printer import INDENT, expression_text

LONGEST: Final = 72  # characters of an expression that is written within another one


def body_lines(builder: SourceBuilder) -> list[str]:
    """Return the statements of a kernel, indented once."""
    printer = _Printer()
    printer.count(builder.body)
    lines = [INDENT + line for line in builder.head]
    return lines + (printer.suite(builder.body, 1) or [f"{INDENT}pass"])


@dataclass
class _Printer:
    """Decides which values become variables, and prints."""

    nodes: Nodes = field(default_factory=lambda: Nodes(set()))
    uses: Counter[int] = field(default_factory=Counter)  # by id of the item
    users: dict[int, tuple[Statements, int]] = field(default_factory=dict)  # place of the last user
    texts: dict[int, TileExpr] = field(default_factory=dict)
    inlined: set[int] = field(default_factory=set)
    variables: int = 0

    def count(self, suite: Suite) -> None:
        """Count the uses of all values, and find those that are written within their user."""
        for block, at, part in _parts(suite):
            for operand in _operands(part):
                if isinstance(operand, Item):
                    self.uses[id(operand)] += 1
                    self.users[id(operand)] = block, at
        self._drop_unused(suite)
        for block, at, part in reversed(list(_parts(suite))):
            if isinstance(part, Item) and part.type is not None and not part.name:
                self._decide(block, at, part)

    def _drop_unused(self, suite: Suite) -> None:
        for _, _, part in reversed(list(_parts(suite))):
            if _is_value(part) and not self.uses[id(part)] and not part.acts:
                for operand in part.operands:
                    if isinstance(operand, Item):
                        self.uses[id(operand)] -= 1

    def _decide(self, block: Statements, at: int, item: Item) -> None:
        """Note whether a value is written within its only user, which may be so itself."""
        if self.uses[id(item)] != 1 or item.acts:
            return
        where, user_at = self.users[id(item)]
        user = where.lines[user_at]
        while id(user) in self.inlined:
            where, user_at = self.users[id(user)]
            user = where.lines[user_at]
        near = where is block and isinstance(user, Item)
        if item.reads:
            between = block.lines[at + 1 : user_at] if near else ()
            free = near and not any(_acts(part) for part in between)
        else:
            free = near or item.type in (I1, I64)
        if free:
            self.inlined.add(id(item))

    def suite(self, suite: Suite, depth: int) -> list[str]:
        """Return the lines of statements."""
        lines: list[str] = []
        for block in suite.blocks:
            for part in block.lines:
                lines += self.part(part, depth)
        return lines

    def part(self, part: Any, depth: int) -> list[str]:
        """Return the lines of a statement; none of a value within another one."""
        pad = INDENT * depth
        if isinstance(part, LoopItem):
            end = expression_text(self.of(part.extent))
            return self._nested(f"{pad}for {part.name} in range({end}):", part.body, depth)
        if isinstance(part, BranchItem):
            cond = expression_text(self.of(part.cond))
            lines = self._nested(f"{pad}if {cond}:", part.then, depth)
            return lines + (
                self._nested(f"{pad}else:", part.other, depth) if part.other.blocks else []
            )
        if part.type is None:
            return [pad + self.statement(part)]
        if not self.uses[id(part)] and not part.acts:
            return []
        text = self.expression(part)
        if id(part) in self.inlined and len(expression_text(text)) <= LONGEST:
            self.texts[id(part)] = text
            return []
        name = f"v{self.variables}"
        self.variables += 1
        self.texts[id(part)] = self.nodes.make("name", name)
        return [f"{pad}{name} = {expression_text(text)}"]

    def _nested(self, head: str, body: Suite, depth: int) -> list[str]:
        return [head, *(self.suite(body, depth + 1) or [f"{INDENT * (depth + 1)}pass"])]

    def statement(self, part: Item) -> str:
        """Return the text of a statement without a value."""
        text = self.expression(part)
        if part.label == "assign":
            return f"{part.name} = {expression_text(text)}"
        if text.op == "=":
            goal, value = map(expression_text, text.args)
            return f"{goal} = {value}"
        return expression_text(text)

    def expression(self, part: Item) -> TileExpr:
        """Return the expression of an item from the expressions of its operands."""
        return part.write(self.nodes, *map(self.of, part.operands))

    def of(self, value: Any) -> TileExpr:
        """Return the expression of an operand."""
        if is_constant(value):
            return constant_text(self.nodes, value)
        if value.name:
            return self.nodes.make("name", value.name)
        return self.texts[id(value)]


def _parts(suite: Suite) -> Iterator[tuple[Statements, int, Any]]:
    """Yield every statement with its block and its place there, in order."""
    for block in suite.blocks:
        for at, part in enumerate(block.lines):
            yield block, at, part
            if isinstance(part, LoopItem):
                yield from _parts(part.body)
            elif isinstance(part, BranchItem):
                yield from _parts(part.then)
                yield from _parts(part.other)


def _operands(part: Any) -> tuple[Any, ...]:
    if isinstance(part, LoopItem):
        return (part.extent,)
    return (part.cond,) if isinstance(part, BranchItem) else part.operands


def _is_value(part: Any) -> bool:
    return isinstance(part, Item) and part.type is not None


def _acts(part: Any) -> bool:
    """Return True if loads keep their place before a statement."""
    return not isinstance(part, Item) or part.acts or part.type is None
