"""Tiles that differ only in constants of their offsets, as unrolling makes them: one text for all.

acc[i] += A[i, 4 k + 1]  and  acc[i] += A[i, 4 k + 2]      ->      acc[i] += A[i, 4 k + #0]
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ansorpy.expr.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    children,
    rebuild,
)
from ansorpy.loopir.nodes import Tile

Held = Callable[[str], bool]  # whether a buffer is a register tile


class NotLinearError(Exception):
    """An offset is no sum of multiples of variables: what it becomes depends on its constants."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What tiles have in common (`key`), and the constants of one, in the order of their names."""

    key: tuple[object, ...]
    numbers: tuple[int, ...]

    def names(self) -> tuple[str, ...]:
        """Return the variables that `lifted` puts for the constants."""
        return tuple(f"#{k}" for k in range(len(self.numbers)))


def outline(tile: Tile, held: Held) -> Outline | None:
    """Return the outline of a tile without a mask; None where there is none.

    Equal constants have one name: tiles of one key have them at the same places.
    """
    if tile.mask is not None:
        return None
    store = tile.store
    tokens: list[object] = [tile.dims, tile.lanes, tile.dot, tile.matrix, tile.hints]
    tokens += [store.buffers, store.combiner]
    numbers: dict[int, int] = {}
    try:
        for name in store.buffers:
            _indices(store.index, not held(name), tokens, numbers)
        for value in store.values:
            _value(value, held, tokens, numbers)
    except NotLinearError:
        return None
    return Outline(tuple(tokens), tuple(numbers))


def lifted(tile: Tile, found: Outline, held: Held) -> Tile:
    """Return the tile with variables for the constants of its outline."""
    names = {number: Var(name) for number, name in zip(found.numbers, found.names(), strict=True)}
    store = tile.store
    index = store.index
    if not any(held(name) for name in store.buffers):
        index = tuple(_named(part, names) for part in index)
    values = tuple(_named_value(value, names, held) for value in store.values)
    return replace(tile, store=replace(store, index=index, values=values))


def _value(expr: Expr, held: Held, tokens: list[object], numbers: dict[int, int]) -> None:
    match expr:
        case Read(tensor=name, indices=indices, dtype=dtype, output=output):
            tokens.append((name, dtype, output))
            _indices(indices, not held(name), tokens, numbers)
            return
        case Const() | Var():
            tokens.append(expr)
        case Binary(op=word) | Call(fn=word) | Cast(dtype=word):
            tokens.append((type(expr), word))
        case Select():
            tokens.append(Select)
    for part in children(expr):
        _value(part, held, tokens, numbers)


def _indices(
    indices: tuple[Expr, ...], lift: bool, tokens: list[object], numbers: dict[int, int]
) -> None:
    if not lift:
        tokens.append(indices)
        return
    tokens.append(len(indices))
    for part in indices:
        _index(part, tokens, numbers)


def _index(expr: Expr, tokens: list[object], numbers: dict[int, int]) -> None:
    match expr:
        case Var(name=name):
            tokens.append(name)
        case Const(value=value):
            tokens.append(numbers.setdefault(int(value), len(numbers)))
        case Binary(op="mul", a=a, b=Const(value=value)):
            tokens.append(("mul", value))
            _index(a, tokens, numbers)
        case Binary(op="add" | "sub" as op, a=a, b=b):
            tokens.append((op,))
            _index(a, tokens, numbers)
            _index(b, tokens, numbers)
        case _:
            raise NotLinearError


def _named_value(expr: Expr, names: dict[int, Var], held: Held) -> Expr:
    if isinstance(expr, Read):
        if held(expr.tensor):
            return expr
        return replace(expr, indices=tuple(_named(part, names) for part in expr.indices))
    return rebuild(expr, tuple(_named_value(part, names, held) for part in children(expr)))


def _named(expr: Expr, names: dict[int, Var]) -> Expr:
    match expr:
        case Const(value=value):
            return names[int(value)]
        case Binary(op="mul", a=a, b=Const() as b):
            return Binary("mul", _named(a, names), b)
        case _:
            return rebuild(expr, tuple(_named(part, names) for part in children(expr)))
