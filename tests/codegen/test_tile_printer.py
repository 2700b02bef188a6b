"""Expressions of a tile as text: few parentheses, and the parser reads back the same structure."""

import ast
from dataclasses import fields

import pytest

from ansorpy.codegen.simd.parser import parse
from ansorpy.codegen.simd.tile import structure
from ansorpy.codegen.structured_tile import structured
from ansorpy.codegen.symbols import SymbolTable, memory
from ansorpy.codegen.tile_printer import definition, expression_text
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Binary
from ansorpy.loopir.hints import Hints
from ansorpy.loopir.nodes import Scope, Tile
from ansorpy.loopir.printer import stmt_text
from tests.loopir.build import add, buffer, c, f32, lt, mul, read, store, v


@pytest.mark.parametrize(
    "text",
    [
        "a + b + c", "a + (b + c)", "a - (b - c)", "(a + b) * c", "a * b + c", "a * (b * c)",
        "-a * 4", "-(a * 4)", "--a", "a // 4 % 8", "a % (b % c)", "-1.5", "-0.0", "inf", "-inf",
        "(a < b) == (c < d)", "a < b and c < d and a < d", "a < b and (c < d and a < d)",
        "a < b or (c < d and a < d)", "not a < b", "(not a < b) == (c < d)",
        "a if b < c else d", "(a if b < c else d) * 2", "a if b < c else (b if c < d else d)",
        "(a if b < c else d) if a < d else b", "(a or b) and c", "a or b and c",
        "a & b | c ^ d", "a & (b | c)", "(a ^ b) & c", "a << b >> c", "a << (b + c)",
        "(a << b) + c", "(a < b) == (c & d)", "a & b < c", "bitnot(a) & -b",
        "max(a + b, c)", "exp(-(a + 1.5))", "float32(a) * 1e-05", "bool(a)", "True",
        "r[a, b + 1]", "b0[i * 512 + k - 3]", "pow(a, -2)", "1e+30",
    ],
)  # fmt: skip
def test_parser_reads_back_every_expression(text: str) -> None:
    (value,) = parse(f"t[0] = {text}").values
    printed = expression_text(value)
    (again,) = parse(f"t[0] = {printed}").values
    assert structure(again) == structure(value)
    assert printed.count("(") <= text.count("(")
    ast.parse(printed)


def test_definition_of_a_tile_reads_back_as_the_same_structure() -> None:
    place = (add(v("i"), c(-1)), add(mul(v("v"), 16), v("l")))
    tile = Tile(
        (("v", 3),), (("l", 16),), store("C", place, read("A", *place), "max"),
        lt(v("l"), v("i")), hints=Hints(reload=True, non_temporal=True),
    )  # fmt: skip
    table = SymbolTable({
        "A": memory(buffer("A", 8, 48), "b0"),
        "C": memory(buffer("C", 8, 48, scope=Scope.OUTPUT), "b1"),
    }).with_var("i", "i0", c(8))  # fmt: skip
    made = structured(tile, table)
    text = definition("made", made)
    scope = {"tile": parse}
    exec(text, scope)  # our own text
    assert getattr(scope["made"], "key", None) == made.key
    assert "reload=True, non_temporal=True" in text
    assert '"b1[i0 * 48 + u * 16 + l - 48] = max(' in text


@pytest.mark.parametrize("name", [one.name for one in fields(Hints)])
def test_every_hint_reaches_the_compiler_of_a_delivered_file(name: str) -> None:
    """A hint needs no change of the printer, the parser or the structure between them."""
    given = Hints(**{name: True})
    table = SymbolTable({key: memory(buffer(key, 8), key) for key in "AC"})
    tile = Tile((), (("l", 8),), store("C", (v("l"),), read("A", v("l"))), hints=given)
    scope = {"tile": parse}
    exec(definition("made", structured(tile, table)), scope)  # our own text
    assert getattr(scope["made"], "hints", None) == given
    assert f"hints({name}=True)" in stmt_text(tile)


def test_tiles_of_equal_structure_have_one_key() -> None:
    table = SymbolTable({name: memory(buffer(name, 8), name) for name in "AC"})

    def key(value: float) -> object:
        tile = Tile((), (("l", 8),), store("C", (v("l"),), f32(value)))
        return structured(tile, table).key

    assert key(1.0) == key(1.0)
    assert key(0.0) != key(-0.0)


@pytest.mark.parametrize(
    ("lanes", "width"), [((("x", 8), ("y", 4)), 1), ((("x", 8),), 4)], ids=["two", "wide"]
)
def test_tiles_for_a_gpu_are_refused(lanes: tuple[tuple[str, int], ...], width: int) -> None:
    table = SymbolTable({name: memory(buffer(name, 8), name) for name in "AC"})
    value = Binary("add", read("A", v("x")), read("A", c(0)))
    tile = Tile((), lanes, store("C", (v("x"),), value), access_width=width)
    with pytest.raises(BuildError, match="expected at most one variable, one element"):
        structured(tile, table)
