"""The text of tiles and of expressions in a delivered kernel, which `simd.parser` reads back."""

from collections.abc import Sequence
from typing import Final

from ansorpy.codegen.simd.tile import SimdTile, TileExpr

WIDTH: Final = 100  # characters of a line
INDENT: Final = "    "

# How tightly Python's operators bind; an operand that binds less has parentheses.
TERNARY: Final = 1
PRECEDENCE: Final = {
    "or": 2, "and": 3, "not": 4, "<": 5, "<=": 5, ">": 5, ">=": 5, "==": 5, "!=": 5,
    "|": 6, "^": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "//": 11,
    "%": 11, "neg": 12,
}  # fmt: skip
COMPARES: Final = 5  # `a < b < c` is another condition: both operands of a comparison bind more
ASSIGNED: Final = {"": "{} = {}", "sum": "{} += {}", "prod": "{} *= {}"}


def definition(name: str, tile: SimdTile) -> str:
    """Return the line, or lines, that make a tile operation of a delivered kernel."""
    arguments = [repr(statement_text(tile))]
    if tile.spans:
        arguments.append(f"dims={tile.spans!r}")
    if tile.lane:
        arguments.append(f"lane={(tile.lane, tile.lanes)!r}")
    if tile.mask is not None:
        arguments.append(f"mask={expression_text(tile.mask)!r}")
    if tile.dot:
        arguments.append(f"dot={tile.dot!r}")
    if tile.matrix:
        arguments.append(f"matrix={tile.matrix!r}")
    if hints := str(tile.hints):
        arguments.append(hints)
    kinds = {symbol: str(operand) for symbol, operand in sorted(tile.operands.items())}
    arguments.append(f"types={kinds!r}")
    arguments = [argument.replace("'", '"') for argument in arguments]
    line = f"{name} = tile({', '.join(arguments)})"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name} = tile(", *(f"{INDENT}{part}," for part in arguments), ")"])


def statement_text(tile: SimdTile) -> str:
    """Return the statement of a tile."""
    target, value = _listed(tile.targets), _listed(tile.values)
    if tile.combiner in ASSIGNED:
        return ASSIGNED[tile.combiner].format(target, value)
    if tile.combiner in ("max", "min"):
        return f"{target} = {tile.combiner}({target}, {value})"
    return f"{target} = {tile.combiner}(({target}), ({value}))"


def expression_text(node: TileExpr, least: int = TERNARY) -> str:
    """Return an expression, in parentheses if it binds less than `least`."""
    match node.op, node.args:
        case "const", (_, value):
            return repr(value)
        case "name", (name,):
            return str(name)
        case "read", (name, *places):
            return f"{name}[{_listed(places)}]"
        case "select", (cond, then, other):
            yes, no = (expression_text(part, TERNARY + 1) for part in (then, other))
            text, binds = f"{yes} if {expression_text(cond, TERNARY + 1)} else {no}", TERNARY
        case "neg" | "not" as op, (part,):
            binds = PRECEDENCE[op]
            text = ("-" if op == "neg" else "not ") + expression_text(part, binds)
        case op, (a, b) if op in PRECEDENCE:
            binds = PRECEDENCE[op]
            first = expression_text(a, binds + (binds == COMPARES))
            text = f"{first} {op} {expression_text(b, binds + 1)}"
        case op, parts:
            return f"{op}({_listed(parts)})"
    return f"({text})" if binds < least else text


def _listed(nodes: Sequence[TileExpr]) -> str:
    return ", ".join(map(expression_text, nodes))
