"""Windows that slide over a tensor, with the padding in front of them; pools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Final

from ansorpy.expr.affine import form
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.measure.timing.peers.arithmetic import applied
from ansorpy.measure.timing.peers.expression import Values
from ansorpy.measure.timing.peers.shaping import (
    SPREAD,
    ints,
    padded,
    reshaped,
    steps_of,
    transposed,
)
from ansorpy.measure.timing.peers.term import Term, Terms
from ansorpy.te.dag import Compute

RANKS: Final = (1, 2, 3)  # numbers of spatial dimensions that libraries have windows for


@dataclass(frozen=True, slots=True)
class WindowSlide:
    """One dimension of a window: data is read at `stride * axis + dilation * tap`."""

    axis: str
    tap: str
    stride: int
    dilation: int


@dataclass(frozen=True, slots=True)
class Channel:
    """A dimension of channels: data is read at `(axis // share) * depth + tap`.

    `axis` is "" without groups, `tap` without a sum over channels.
    """

    axis: str
    share: int
    depth: int
    tap: str


Index = WindowSlide | Channel | str  # a str is an axis of the result


def pool(terms: Terms, node: Compute, values: Values, extents: Mapping[str, int]) -> Term | None:
    """Return the maximum of windows as MaxPool, a sum as AveragePool times its terms."""
    body = node.body[0]
    if node.combiner not in ("max", "sum") or not isinstance(body, Read):
        return None
    x = values[body.tensor, body.output]
    indices = [index_of(index, node) for index in body.indices]
    slides = [one for one in indices if isinstance(one, WindowSlide)]
    plain = [one for one in indices if isinstance(one, str)]
    if len(slides) not in RANKS or len(slides) + len(plain) < len(indices):
        return None
    if not x.dtype.startswith("float") or {a.name for a in node.reduce_axes} != {
        slide.tap for slide in slides
    }:
        return None
    places = [at for at, one in enumerate(indices) if isinstance(one, str)]
    order = [*places, *(indices.index(slide) for slide in slides)]
    names = [*plain, *(slide.axis for slide in slides)]
    out = [axis.name for axis in node.axes]
    if sorted(out) != sorted(names) or any(extents[n] != x.shape[indices.index(n)] for n in plain):
        return None
    source = transposed(terms, x, order)
    lead = [source.shape[at] for at in range(len(plain))]
    flat = lead if len(lead) == 2 else [1, prod(lead)]
    source = leading(terms, source, flat, len(lead))
    shape = [*flat, *(extents[slide.axis] for slide in slides)]
    op, around = ("MaxPool", -inf) if node.combiner == "max" else ("AveragePool", 0.0)
    kernel = tuple(extents[slide.tap] for slide in slides)
    options = {"kernel_shape": kernel} | ({} if around else {"count_include_pad": 1})
    term = windowed(terms, op, [source], slides, extents, shape, around, **options)
    if term is None:
        return None
    if op == "AveragePool":
        count = terms.constant(float(prod(kernel)), x.dtype)
        term = applied(terms, "Mul", term, count, dtype=x.dtype)
    term = reshaped(terms, term, [*lead, *shape[2:]])
    return transposed(terms, term, [names.index(axis) for axis in out])


def leading(terms: Terms, x: Term, flat: Sequence[int], rank: int) -> Term:
    """Return `x` with other extents in place of its first `rank`; padding stays last."""
    if x.op not in ("Pad", SPREAD) or len(flat) == rank:
        return reshaped(terms, x, [*flat, *x.shape[rank:]])
    inner, pads = x.inputs[0], ints(x.attrs["pads"])
    whole = len(x.shape)
    if any(pads[:rank]) or any(pads[whole : whole + rank]):
        return reshaped(terms, x, [*flat, *x.shape[rank:]])
    moved = reshaped(terms, inner, [*flat, *inner.shape[rank:]])
    around = [0] * len(flat) + list(pads[rank:whole]) + [0] * len(flat) + list(pads[whole + rank :])
    return padded(terms, moved, around, x.attrs["value"], [1] * len(flat) + [*steps_of(x)[rank:]])


def windowed(
    terms: Terms, op: str, operands: Sequence[Term], slides: Sequence[WindowSlide],
    extents: Mapping[str, int], shape: Sequence[int], around: float, **options: object,
) -> Term | None:  # fmt: skip
    """Return an operator with a window on [n, c, ...], the padding in front of it merged.

    None if the window does not end where the data ends.
    """
    source, *others = operands
    pads = [0] * (2 * len(slides))
    if source.op == "Pad" and source.attrs["value"] == around:
        whole, rank = ints(source.attrs["pads"]), len(source.shape)
        before, after = whole[:rank], whole[rank:]
        if not any((*before[:2], *after[:2])):
            source, pads = source.inputs[0], [*before[2:], *after[2:]]
    for d, slide in enumerate(slides):
        wide = source.shape[2 + d] + pads[d] + pads[len(slides) + d]
        reach = slide.dilation * (extents[slide.tap] - 1) + 1
        if (wide - reach) // slide.stride + 1 != extents[slide.axis]:
            return None
    return terms.make(
        op, [source, *others], shape, source.dtype, pads=tuple(pads),
        strides=tuple(slide.stride for slide in slides),
        dilations=tuple(slide.dilation for slide in slides),
        **options,  # type: ignore[arg-type]
    )  # fmt: skip


def index_of(index: Expr, node: Compute) -> Index | None:
    """Return the meaning of an index of the data."""
    linear = form(index)
    out = [axis.name for axis in node.axes]
    taps = [axis.name for axis in node.reduce_axes]
    if linear.const or len(linear.terms) > 2:
        return None
    axis, share, scale, tap, step = "", 1, 1, "", 1
    for atom, by in linear.terms.items():
        match atom:
            case Var(name=name) if name in taps and not tap:
                tap, step = name, by
            case Var(name=name) if name in out and not axis:
                axis, scale = name, by
            case Binary(op="floordiv", a=Var(name=name), b=Const(value=value)) if (
                name in out and not axis
            ):
                axis, share, scale = name, int(value), by
            case _:
                return None
    if not tap and share == 1 and scale == 1 and axis:
        return axis
    if not axis or share > 1:
        return Channel(axis, share, scale, tap) if step == 1 else None
    return WindowSlide(axis, tap, scale, step) if tap and min(scale, step) > 0 else None
