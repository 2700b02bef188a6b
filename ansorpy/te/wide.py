"""Intermediate values of an operator on 16-bit floats in float32: results alone are rounded."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import ParamSpec

from ansorpy.expr.dtypes import NARROW, WIDE
from ansorpy.expr.expr import Cast, Expr, Read, Var, reads, transform
from ansorpy.expr.wide import ROUNDING, only_moves, widened
from ansorpy.te.arguments import new_token
from ansorpy.te.dag import Compute
from ansorpy.te.scalar import Draft
from ansorpy.te.tensor import Tensor

P = ParamSpec("P")


def rounds_once(fn: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Return an operator whose result alone is rounded to 16 bits.

    Its arguments may be tensors, also in sequences and by keyword.
    """

    @wraps(fn)
    def apply(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        given = list(_tensors((*args, *kwargs.values())))
        (made,) = rounded_once((fn(*args, **kwargs),), given)
        return made

    return apply


def _tensors(values: Sequence[object]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def rounded_once(results: Sequence[Tensor], operands: Collection[Tensor]) -> tuple[Tensor, ...]:
    """Return the results of an operator, computed in float32 from its operands on.

    Intermediate values of 16 bits become float32, except for elements that are only moved. Nodes
    keep their names and axes; a sum of intermediate values gets a node that rounds it.
    """
    if not any(one.dtype in NARROW for one in operands):
        return tuple(results)
    work = _Widening({one.draft.node.name for one in operands}, {one.draft for one in results})
    return tuple(work.result(one) for one in results)


@dataclass
class _Widening:
    """The nodes between operands and results, rewritten so far."""

    operands: Collection[str]  # tokens
    results: Collection[Draft]
    drafts: dict[str, Draft] = field(default_factory=dict)  # changed nodes, by token
    wide: set[str] = field(default_factory=set)  # tokens of nodes that are float32 now

    def result(self, tensor: Tensor) -> Tensor:
        """Return a result, in its own dtype."""
        for draft in self._order(tensor.draft):
            self._visit(draft)
        found = self.drafts.get(tensor.draft.node.name)
        return tensor if found is None else Tensor(found, tensor.output)

    def _order(self, last: Draft) -> list[Draft]:
        """Return the computed nodes that are not visited yet, sources first."""
        order: dict[str, Draft] = {}
        stack = [(last, False)]
        while stack:
            top, ready = stack.pop()
            token = top.node.name
            if token in order or token in self.drafts or token in self.operands:
                continue
            if ready:
                order[token] = top
            elif isinstance(top.node, Compute):
                stack.append((top, True))
                stack += [(source, False) for source in top.sources.values()]
        return list(order.values())

    def _visit(self, draft: Draft) -> None:
        node = draft.node
        assert isinstance(node, Compute)
        changed = {token for token in draft.sources if token in self.drafts}
        reads_wide = any(token in self.wide for token in draft.sources)
        inner = draft not in self.results
        sums = node.combiner in ROUNDING
        rounds = sums or not all(map(only_moves, node.body))
        wide = node.dtype in NARROW and (
            (reads_wide and (inner or sums)) or (inner and rounds and len(node.body) == 1)
        )
        if not changed and not wide:
            return
        made = self._rewritten(draft, wide)
        if wide and not inner:
            self.drafts[node.name] = _rounding(made, node)
            return
        self.drafts[node.name] = made
        if wide:
            self.wide.add(node.name)

    def _rewritten(self, draft: Draft, wide: bool) -> Draft:
        node = draft.node
        assert isinstance(node, Compute)
        bodies = tuple(self._body(body, wide) for body in node.body)
        start = None if node.start is None else self._body(node.start, wide)
        layouts = tuple(self._token(token) for token in node.attrs.layout_free)
        new = replace(
            node,
            name=new_token(draft.wish),
            body=bodies,
            start=start,
            dtypes=tuple(body.dtype for body in bodies),
            attrs=replace(node.attrs, layout_free=layouts),
        )
        found = (self.drafts.get(token, source) for token, source in draft.sources.items())
        return Draft(new, draft.wish, {source.node.name: source for source in found})

    def _token(self, token: str) -> str:
        return self.drafts[token].node.name if token in self.drafts else token

    def _body(self, body: Expr, wide: bool) -> Expr:
        """Return a body that reads the new nodes; of its own dtype, or float32 if `wide`."""
        if wide and isinstance(body, Cast) and body.dtype in NARROW:
            body = body.a  # rounded by an operator inside this operator
        dtype = body.dtype
        reads_wide = any(one.tensor in self.wide for one in reads(body))
        if wide or reads_wide:
            body = widened(body)

        def change(part: Expr) -> Expr | None:
            if isinstance(part, Cast) and part.dtype == part.a.dtype == WIDE:
                return part.a  # an element that is float32 now
            if not isinstance(part, Read) or part.tensor not in self.drafts:
                return None
            kind = WIDE if part.tensor in self.wide else part.dtype
            return replace(part, tensor=self._token(part.tensor), dtype=kind)

        body = transform(body, change)
        return Cast(dtype, body) if dtype in NARROW and not wide and reads_wide else body


def _rounding(wide: Draft, node: Compute) -> Draft:
    """Return a node that rounds the float32 elements of `wide` to the dtype of `node`."""
    index = tuple(Var(axis.name) for axis in node.axes)
    copy = Compute(
        new_token(wide.wish),
        node.axes,
        (Cast(node.dtype, Read(wide.node.name, index, WIDE)),),
        node.dtypes,
    )
    inner = replace(wide, wish=f"{wide.wish}_wide")
    return Draft(copy, wide.wish, {wide.node.name: inner})
