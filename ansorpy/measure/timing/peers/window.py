"""Windows that slide over a tensor: convolutions and pools, with the padding in front of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Final

from ansorpy.expr.affine import form
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.measure.timing.peers.arithmetic import applied
from ansorpy.measure.timing.peers.expression import Values
from ansorpy.measure.timing.peers.shaping import ints, padded, reshaped, transposed
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


def convolution(
    terms: Terms, node: Compute, values: Values, extents: Mapping[str, int]
) -> Term | None:
    """Return a sum over data * weights with windows in one to three dimensions as Conv."""
    if node.combiner != "sum" or not node.dtype.startswith("float"):
        return None
    match node.body:
        case (Binary(op="mul", a=Read() as a, b=Read() as b),):
            pass
        case _:
            return None
    return _convolved(terms, node, a, b, values, extents) or _convolved(
        terms, node, b, a, values, extents
    )


def _convolved(
    terms: Terms, node: Compute, data: Read, weights: Read, values: Values,
    extents: Mapping[str, int],
) -> Term | None:  # fmt: skip
    x, w = values[data.tensor, data.output], values[weights.tensor, weights.output]
    taps = [index.name if isinstance(index, Var) else "" for index in weights.indices]
    found = [_grouped(_index(index, node), taps) for index in data.indices]
    slides = [one for one in found if isinstance(one, WindowSlide)]
    channels = [at for at, one in enumerate(found) if isinstance(one, Channel)]
    if (
        len(slides) not in RANKS
        or not all(taps)
        or len(set(taps)) < len(taps)
        or x.dtype != w.dtype
    ):
        return None
    moving = {slide.axis for slide in slides}
    channel = _channel(found, channels, node, taps)
    if channel is None:
        return None
    at, group = channel
    batch = [d for d, one in enumerate(found) if isinstance(one, str) and d != at]
    out = [axis.name for axis in node.axes]
    rest = [n for n in out if n not in moving and n not in [found[d] for d in batch]]
    if len(batch) != 1 or len(rest) != 1 or rest[0] not in taps:
        return None
    filters = rest[0]
    if group.axis not in ("", filters) or moving & set(taps):
        return None
    depth = [group.tap] if group.tap else []
    order = [filters, *depth, *(slide.tap for slide in slides)]
    if sorted(order) != sorted(taps) or {a.name for a in node.reduce_axes} != set(order[1:]):
        return None
    if any(extents[name] != n for name, n in zip(taps, w.shape, strict=True)):
        return None
    groups = extents[filters] // group.share if group.axis else 1
    if x.shape[at] != groups * group.depth:
        return None
    places = [found.index(slide) for slide in slides]
    source = transposed(terms, x, [batch[0], at, *places])
    kernel = transposed(terms, w, [taps.index(name) for name in order])
    kernel = reshaped(
        terms, kernel, [extents[filters], group.depth, *(extents[s.tap] for s in slides)]
    )
    shape = [source.shape[0], extents[filters], *(extents[s.axis] for s in slides)]
    made = _windowed(terms, "Conv", [source, kernel], slides, extents, shape, 0.0, group=groups)
    if made is None:
        return None
    name = found[batch[0]]
    assert isinstance(name, str)
    order = [name, filters, *(slide.axis for slide in slides)]
    return transposed(terms, made, [order.index(axis) for axis in out])


def pool(terms: Terms, node: Compute, values: Values, extents: Mapping[str, int]) -> Term | None:
    """Return the maximum of windows as MaxPool, a sum as AveragePool times its terms."""
    body = node.body[0]
    if node.combiner not in ("max", "sum") or not isinstance(body, Read):
        return None
    x = values[body.tensor, body.output]
    found = [_index(index, node) for index in body.indices]
    slides = [one for one in found if isinstance(one, WindowSlide)]
    plain = [one for one in found if isinstance(one, str)]
    if len(slides) not in RANKS or len(slides) + len(plain) < len(found):
        return None
    if not x.dtype.startswith("float") or {a.name for a in node.reduce_axes} != {
        slide.tap for slide in slides
    }:
        return None
    places = [at for at, one in enumerate(found) if isinstance(one, str)]
    order = [*places, *(found.index(slide) for slide in slides)]
    names = [*plain, *(slide.axis for slide in slides)]
    out = [axis.name for axis in node.axes]
    if sorted(out) != sorted(names) or any(extents[n] != x.shape[found.index(n)] for n in plain):
        return None
    source = transposed(terms, x, order)
    lead = [source.shape[at] for at in range(len(plain))]
    flat = lead if len(lead) == 2 else [1, prod(lead)]
    source = _leading(terms, source, flat, len(lead))
    shape = [*flat, *(extents[slide.axis] for slide in slides)]
    op, around = ("MaxPool", -inf) if node.combiner == "max" else ("AveragePool", 0.0)
    kernel = tuple(extents[slide.tap] for slide in slides)
    options = {"kernel_shape": kernel} | ({} if around else {"count_include_pad": 1})
    made = _windowed(terms, op, [source], slides, extents, shape, around, **options)
    if made is None:
        return None
    if op == "AveragePool":
        count = terms.constant(float(prod(kernel)), x.dtype)
        made = applied(terms, "Mul", made, count, dtype=x.dtype)
    made = reshaped(terms, made, [*lead, *shape[2:]])
    return transposed(terms, made, [names.index(axis) for axis in out])


def _leading(terms: Terms, x: Term, flat: Sequence[int], rank: int) -> Term:
    """Return `x` with other extents in place of its first `rank`; padding stays last."""
    if x.op != "Pad" or len(flat) == rank:
        return reshaped(terms, x, [*flat, *x.shape[rank:]])
    inner, pads = x.inputs[0], ints(x.attrs["pads"])
    whole = len(x.shape)
    if any(pads[:rank]) or any(pads[whole : whole + rank]):
        return reshaped(terms, x, [*flat, *x.shape[rank:]])
    moved = reshaped(terms, inner, [*flat, *inner.shape[rank:]])
    around = [0] * len(flat) + list(pads[rank:whole]) + [0] * len(flat) + list(pads[whole + rank :])
    return padded(terms, moved, around, x.attrs["value"])


def _windowed(
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


def _index(index: Expr, node: Compute) -> Index | None:
    """Return the meaning of an index of the data."""
    found = form(index)
    out = [axis.name for axis in node.axes]
    taps = [axis.name for axis in node.reduce_axes]
    if found.const or len(found.terms) > 2:
        return None
    axis, share, scale, tap, step = "", 1, 1, "", 1
    for atom, by in found.terms.items():
        match atom:
            case Var(name=name) if name in taps and not tap:
                tap, step = name, by
            case Var(name=name) if name in out and not axis:
                axis, scale = name, by
            case Binary(op="floordiv", a=Var(name=name), b=Const(value=value)) if name in out:
                axis, share, scale = name, int(value), by
            case _:
                return None
    if not tap and share == 1 and scale == 1 and axis:
        return axis
    if not axis or share > 1:
        return Channel(axis, share, scale, tap) if step == 1 else None
    return WindowSlide(axis, tap, scale, step) if tap and min(scale, step) > 0 else None


def _grouped(index: Index | None, taps: Sequence[str]) -> Index | None:
    """Return `filter * depth + channel` as channels of groups of one filter each: no window."""
    if isinstance(index, WindowSlide) and index.axis in taps and index.dilation == 1:
        return Channel(index.axis, 1, index.stride, index.tap)
    return index


def _channel(
    found: Sequence[Index | None], channels: Sequence[int], node: Compute, taps: Sequence[str]
) -> tuple[int, Channel] | None:
    """Return the dimension of the channels, and how they are read; None if it is not clear.

    Without a dimension that is summed or divided, it is the one whose axis weights have, too.
    """
    if len(channels) == 1:
        one = found[channels[0]]
        assert isinstance(one, Channel)
        extent = {axis.name: axis.extent for axis in node.reduce_axes}.get(one.tap, 1)
        fits = not one.axis or one.depth == extent
        return (channels[0], Channel(one.axis, one.share, extent, one.tap)) if fits else None
    plain = [at for at, one in enumerate(found) if isinstance(one, str) and one in taps]
    if channels or len(plain) != 1:
        return None
    name = found[plain[0]]
    assert isinstance(name, str)
    return plain[0], Channel(name, 1, 1, "")
