"""Substitute the values of sizes in index expressions, each sub-expression once.

The expressions of a symbolic program repeat: of some 2,400 nodes of a convolution, 700 are
different. Sums and products of variables are folded bottom-up into affine forms, cached by
expression, which leaves little work to the general simplifier.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansorpy.expr.affine import Form
from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import Binary, Call, Const, Expr, Var, children, rebuild, variables
from ansorpy.expr.intervals import Fact, Interval, simplify


@dataclass(frozen=True, slots=True)
class SimplifyScope:
    """Known values of variables, ranges of variables, and facts at a place of the program.

    `known` caches the affine forms of expressions; an inner scope shares them, because its own
    variables do not occur in them.
    `changed` are the variables that are known more precisely than at the last simplification, or
    None before the first one. An expression without these variables stays as it is.
    """

    values: Mapping[str, int]
    ranges: Mapping[str, Interval] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    known: dict[Expr, Form | None] = field(default_factory=dict)
    changed: frozenset[str] | None = None

    def simple(self, expr: Expr) -> Expr:
        """Return an expression with its sizes replaced, simplified."""
        if not self.concerns(expr):
            return expr
        form = self._form(expr)
        if form is not None:
            return form.expr()
        return simplify(self._replaced(expr), self.ranges, self.facts)

    def concerns(self, expr: Expr) -> bool:
        """Return True if an expression may be simplified further than before."""
        return self.changed is None or not self.changed.isdisjoint(variables(expr))

    def _replaced(self, expr: Expr) -> Expr:
        form = self._form(expr)
        if form is not None:
            return form.expr()
        return rebuild(expr, tuple(self._replaced(part) for part in children(expr)))

    def _form(self, expr: Expr) -> Form | None:
        """Return the linear form of a sum or product of variables, None for anything else."""
        if expr not in self.known:
            self.known[expr] = self._computed(expr)
        return self.known[expr]

    def _computed(self, expr: Expr) -> Form | None:
        match expr:
            case Const(value=value, dtype=dtype):
                return Form(int(value), {}) if dtype == INDEX else None
            case Var(name=name):
                return self._variable(expr, name)
            case Binary(op="add" | "sub" | "mul" as op, a=a, b=b):
                first, second = self._form(a), self._form(b)
                if first is None or second is None:
                    return None
                if op != "mul":
                    return first.plus(second, 1 if op == "add" else -1)
                if first.terms and second.terms:
                    return None
                return first.scaled(second.const) if first.terms else second.scaled(first.const)
            case Call(fn="neg", a=a):
                inner = self._form(a)
                return None if inner is None else inner.scaled(-1)
            case _:
                return None

    def _variable(self, expr: Expr, name: str) -> Form:
        if name in self.values:
            return Form(self.values[name], {})
        low, high = self.ranges.get(name, (0, 1))
        return Form(low, {}) if low == high else Form(0, {expr: 1})

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
        return SimplifyScope(
            self.values if value is None else {**self.values, var: value},
            self.ranges if interval is None else {**self.ranges, var: interval},
            self.facts,
            dict(self.known),
            self.changed | {var} if new and self.changed is not None else self.changed,
        )

    def where(self, facts: tuple[Fact, ...]) -> "SimplifyScope":
        """Return the same scope with other facts."""
        changed = self.changed if self.changed is None else _told(facts, self.changed)
        return SimplifyScope(self.values, self.ranges, facts, self.known, changed)


def _told(facts: tuple[Fact, ...], changed: frozenset[str]) -> frozenset[str]:
    """Return the variables that are changed, and those that facts tell more of through them."""
    groups = [frozenset[str]().union(*map(variables, fact.form.terms)) for fact in facts]
    while True:
        more = changed.union(*(group for group in groups if not changed.isdisjoint(group)))
        if more == changed:
            return changed
        changed = more
