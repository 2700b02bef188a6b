"""A dilated convolution as one convolution per remainder of its position."""

from ansorpy.expr.affine import linear
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var, substitute, walk
from ansorpy.rewrites.winograd.names import fresh
from ansorpy.te.dag import Axis, Compute


def parted(node: Compute) -> tuple[Compute, Compute] | None:
    """Return a node split by the remainders of its positions, and the node that joins them.

    If data is read at `axis + d * tap`, d > 1, outputs of one remainder by d read data of that
    remainder only. The first node, "<name>.parted", has an axis per remainder before the other
    axes. It is never computed as it is: if d does not divide an extent, its last positions lie
    outside of the data. The result is None if no data is read in this way.
    """
    by = _dilations(node)
    if not by:
        return None
    taken = {axis.name for axis in (*node.axes, *node.reduce_axes)}
    part = {name: fresh(f"{name}_part", taken) for name in by}
    places: dict[str, Expr] = {
        name: Binary("add", Binary("mul", Var(name), Const(d)), Var(part[name]))
        for name, d in by.items()
    }
    axes = [Axis(part[name], d) for name, d in by.items()]
    axes += [Axis(a.name, -(-a.extent // by.get(a.name, 1))) for a in node.axes]
    apart = Compute(
        f"{node.name}.parted", tuple(axes), tuple(substitute(b, places) for b in node.body),
        node.dtypes, reduce_axes=node.reduce_axes, combiner=node.combiner,
    )  # fmt: skip
    at: list[Expr] = [Binary("mod", Var(name), Const(d)) for name, d in by.items()]
    at += [
        Binary("floordiv", Var(a.name), Const(by[a.name])) if a.name in by else Var(a.name)
        for a in node.axes
    ]
    whole = Read(apart.name, tuple(at), node.dtype)
    return apart, Compute(node.name, node.axes, (whole,), node.dtypes)


def _dilations(node: Compute) -> dict[str, int]:
    """Return the dilation by spatial axis, of axes that stand beside a multiple of a tap."""
    spatial = {axis.name for axis in node.axes}
    distances: dict[str, set[int]] = {}
    for read in (part for body in node.body for part in walk(body) if isinstance(part, Read)):
        for index in read.indices:
            form = linear(index)
            if form is None or form[0] or len(form[1]) != 2:
                continue
            (axis, one), (_, d) = sorted(form[1].items(), key=lambda term: term[0] not in spatial)
            if axis in spatial and one == 1 and d > 1:
                distances.setdefault(axis, set()).add(d)
    return {axis: min(by) for axis, by in distances.items() if len(by) == 1}
