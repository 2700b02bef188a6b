"""From output tensors to a checked Dag: `te.dag`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorpy.errors import SpecError
from ansorpy.expr.expr import Expr, Read, transform
from ansorpy.te.arguments import unique
from ansorpy.te.check import check
from ansorpy.te.dag import Compute, Dag, Node
from ansorpy.te.scalar import Draft
from ansorpy.te.tensor import Tensor


def dag(
    outputs: Tensor | Sequence[Tensor], name: str = "main", inputs: Sequence[Tensor] = ()
) -> Dag:
    """Return the checked Dag of everything that `outputs` are computed from.

    Args:
        inputs: placeholders that come first, in this order; the others follow as they are met.

    Raises:
        SpecError: an output is an input, or `ansorpy.te.check` refuses the Dag.
    """
    wanted = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    order: dict[str, Draft] = {tensor.draft.node.name: tensor.draft for tensor in inputs}
    for tensor in wanted:
        if not isinstance(tensor.draft.node, Compute):
            raise SpecError(f"output {tensor.name} of dag {name} is not computed")
        _collect(tensor.draft, order)
    final: dict[str, str] = {}
    for token, draft in order.items():
        final[token] = unique(draft.wish, final.values())
    nodes = tuple(_renamed(draft.node, final) for draft in order.values())
    made = Dag(nodes, tuple(dict.fromkeys(final[t.draft.node.name] for t in wanted)), name)

    check(made)
    return made


def _collect(draft: Draft, order: dict[str, Draft]) -> None:
    """Append `draft` after its sources; a stack, because chains may be long."""
    stack = [(draft, False)]
    while stack:
        top, ready = stack.pop()
        if top.node.name in order:
            continue
        if ready:
            order[top.node.name] = top
        else:
            stack.append((top, True))
            stack.extend((source, False) for source in reversed([*top.sources.values()]))


def _renamed(node: Node, final: Mapping[str, str]) -> Node:
    if not isinstance(node, Compute):
        return replace(node, name=final[node.name])

    def rename(expr: Expr) -> Expr | None:
        return replace(expr, tensor=final[expr.tensor]) if isinstance(expr, Read) else None

    layouts = tuple(final[token] for token in node.attrs.layout_free if token in final)
    return replace(
        node,
        name=final[node.name],
        body=tuple(transform(body, rename) for body in node.body),
        start=None if node.start is None else transform(node.start, rename),
        attrs=replace(node.attrs, layout_free=layouts),
    )
