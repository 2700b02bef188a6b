"""Substitute the values of sizes in index expressions.

The affine form of an expression of a plan is known after its first candidate. Numbers are put
into the form, which leaves little work to the general simplifier.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansorpy.expr.affine import Form, form
from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import Expr, children, rebuild, variables
from ansorpy.expr.intervals import Fact, Interval, simplify


@dataclass(frozen=True, slots=True)
class SimplifyScope:
    """Known values of variables, ranges of variables, and facts at a place of the program.

    `values` has the values of sizes, and of loop variables with one value.
    `changed` are the variables that are known more precisely than at the last simplification, or
    None before the first one. An expression without these variables stays as it is.
    """

    values: Mapping[str, int]
    ranges: Mapping[str, Interval] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    changed: frozenset[str] | None = None

    def simple(self, expr: Expr) -> Expr:
        """Return an expression with its sizes replaced, simplified."""
        if not self.concerns(expr):
            return expr
        found = self._form(expr)
        if found is not None:
            return found.expr()
        return simplify(self._replaced(expr), self.ranges, self.facts)

    def concerns(self, expr: Expr) -> bool:
        """Return True if an expression may be simplified further than before."""
        return self.changed is None or not self.changed.isdisjoint(variables(expr))

    def _replaced(self, expr: Expr) -> Expr:
        found = self._form(expr)
        if found is not None:
            return found.expr()
        return rebuild(expr, tuple(self._replaced(part) for part in children(expr)))

    def _form(self, expr: Expr) -> Form | None:
        """Return the form of an index expression if it is linear with the known values."""
        return form(expr).bound(self.values) if expr.dtype == INDEX else None

    def inside(
        self,
        var: str,
        value: int | None = None,
        interval: Interval | None = None,
        new: bool = True,
    ) -> "SimplifyScope":
        """Return the scope of a loop body, where `var` has one value or an interval of them.

        Args:
            new: whether that is more than was known before.
        """
        if interval is not None and interval[0] == interval[1]:
            value = interval[0]
        return SimplifyScope(
            self.values if value is None else {**self.values, var: value},
            self.ranges if interval is None else {**self.ranges, var: interval},
            self.facts,
            self.changed | {var} if new and self.changed is not None else self.changed,
        )

    def where(self, facts: tuple[Fact, ...]) -> "SimplifyScope":
        """Return the same scope with other facts."""
        changed = self.changed if self.changed is None else _told(facts, self.changed)
        return SimplifyScope(self.values, self.ranges, facts, changed)


def _told(facts: tuple[Fact, ...], changed: frozenset[str]) -> frozenset[str]:
    """Return the variables that are changed, and those that facts tell more of through them."""
    groups = [frozenset[str]().union(*map(variables, fact.form.terms)) for fact in facts]
    while True:
        more = changed.union(*(group for group in groups if not changed.isdisjoint(group)))
        if more == changed:
            return changed
        changed = more
