"""Infer how far the indices of a statement run, as Tensor Comprehensions does.

Every range starts at 0. A read with one index variable of unknown range says how far it may run
so that the read stays inside its tensor; where several reads of a round speak of one variable,
the shortest range wins. Rounds go on until nothing new is known. A read under a condition says
nothing about the variables that the condition mentions: padding is not a shorter range.

Source: Vasilache et al., Tensor Comprehensions, arXiv:1802.04730, section 3.2 (range inference).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ansorpy.errors import SpecError, shown
from ansorpy.expr.affine import Form, form
from ansorpy.expr.bounds import bounds_of_form
from ansorpy.expr.expr import Binary, Const, Expr, Read, Select, Var, children, variables
from ansorpy.te.check_basics import Tensors
from ansorpy.te.dims import Dim

NO_NAMES: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Use:
    """Index `position` of a read, the extent there, and the variables of the conditions around."""

    read: Read
    position: int
    extent: int
    guarded: frozenset[str]

    @property
    def index(self) -> Expr:
        """The index expression."""
        return self.read.indices[self.position]


def infer_extents(
    exprs: tuple[Expr, ...], known: Mapping[str, int], tensors: Tensors
) -> dict[str, int]:
    """Return the extent of every index variable of `exprs` that the reads determine.

    Args:
        known: extents that are given (`where`, the shape of a tensor that is accumulated into).
        tensors: shape and dtypes by node name.

    Raises:
        SpecError: a read leaves no value for a variable, or a range would not start at 0.
    """
    uses = tuple(use for expr in exprs for use in _uses(expr, tensors, NO_NAMES))
    extents = dict(known)
    while True:
        fresh: dict[str, int] = {}
        for use in uses:
            unknown = variables(use.index) - extents.keys()
            if len(unknown) == 1 and not unknown & use.guarded:
                (name,) = unknown
                extent = _extent(use, name, extents)
                if extent is not None:
                    # Of equal numbers the dim: it is at most that.
                    both = (fresh.get(name, extent), extent)
                    fresh[name] = min(both, key=lambda one: (int(one), not isinstance(one, Dim)))
        if not fresh:
            return extents
        extents |= fresh


def _uses(expr: Expr, tensors: Tensors, guarded: frozenset[str]) -> Iterator[Use]:
    match expr:
        case Select(cond=cond, then=then, other=other):
            yield from _uses(cond, tensors, guarded)
            inner = guarded | variables(cond)
            yield from _uses(then, tensors, inner)
            yield from _uses(other, tensors, inner)
            return
        case Read(tensor=tensor):
            for position, extent in enumerate(tensors[tensor][0]):
                yield Use(expr, position, extent, guarded)
        case _:
            pass
    for part in children(expr):
        yield from _uses(part, tensors, guarded)


def _extent(use: Use, name: str, known: Mapping[str, int]) -> int | None:
    """Return the extent of `name` for `0 <= index < extent`; None if the index is not linear."""
    if isinstance(use.extent, Dim) and use.index == Var(name):
        return use.extent
    of, extent = _unfloored(form(use.index), int(use.extent))
    coef = of.terms.get(Var(name), 0)
    rest = of.plus(Form(0, {Var(name): 1}), -coef)
    if not coef or any(name in variables(atom) for atom in rest.terms):
        return None
    low, high = bounds_of_form(rest, {key: (0, size - 1) for key, size in known.items()})
    if (low < 0) if coef > 0 else (high >= extent):
        raise SpecError(
            f"cannot read {shown(use.read)} because its index {use.position}, {shown(use.index)}, "
            f"runs from {low} to {high} at {name} = 0, and every range starts at 0; expected 0 to "
            f"{use.extent - 1}: guard the read with a condition, or shift the index"
        )
    last = (extent - 1 - high) // coef if coef > 0 else low // -coef
    if last < 0:
        raise SpecError(
            f"{shown(use.read)}: index {use.position}, {shown(use.index)}, leaves no value for "
            f"{name}: {use.read.tensor!r} has only 0 to {use.extent - 1} there"
        )
    return last + 1


def _unfloored(of: Form, extent: int) -> tuple[Form, int]:
    """Undo a floor division: 0 <= x // c < n  says  0 <= x < n * c."""
    if len(of.terms) == 1 and not of.const:
        match next(iter(of.terms.items())):
            case Binary(op="floordiv", a=a, b=Const(value=size)), 1 if size > 0:
                return _unfloored(form(a), extent * int(size))
            case _:
                pass
    return of, extent
