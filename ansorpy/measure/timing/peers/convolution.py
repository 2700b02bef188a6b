"""Convolutions, also grouped, dilated and transposed, in any order of dimensions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ansorpy.expr.affine import linear
from ansorpy.expr.expr import Binary, Expr, Read
from ansorpy.measure.timing.peers.expression import Values
from ansorpy.measure.timing.peers.shaping import SPREAD, ints, reshaped, transposed
from ansorpy.measure.timing.peers.term import Term, Terms
from ansorpy.measure.timing.peers.window import (
    RANKS,
    Channel,
    Index,
    WindowSlide,
    index_of,
    leading,
    windowed,
)
from ansorpy.te.dag import Compute


@dataclass(frozen=True, slots=True)
class Depth:
    """The dimensions of the data that are channels, and the reduce axes that run over them.

    `axis` is the axis of the filters if these form groups of `share`, else "".
    """

    dimensions: tuple[int, ...]
    taps: tuple[str, ...]
    axis: str = ""
    share: int = 1


def convolution(
    terms: Terms, node: Compute, values: Values, extents: Mapping[str, int]
) -> Term | None:
    """Return a sum over data * weights with windows in one to three dimensions as Conv.

    With zeros between the elements of the data, and reversed weights, as ConvTranspose.
    """
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
    taps, signs = _taps(weights.indices, w, extents)
    indices = [_grouped(index_of(index, node), taps) for index in data.indices]
    slides = [one for one in indices if isinstance(one, WindowSlide)]
    depth = _depth(indices, node, taps)
    if len(slides) not in RANKS or not taps or x.dtype != w.dtype or depth is None:
        return None
    moving = {slide.axis for slide in slides}
    at = [d for d, one in enumerate(indices) if isinstance(one, str) and d not in depth.dimensions]
    batch = [str(indices[d]) for d in at]
    filters = [axis.name for axis in node.axes if axis.name not in {*moving, *batch}]
    order = [*filters, *depth.taps, *(slide.tap for slide in slides)]
    if sorted(order) != sorted(taps) or (depth.axis and filters != [depth.axis]):
        return None
    if {axis.name for axis in node.reduce_axes} != set(order[len(filters) :]) or not filters:
        return None
    names = [*batch, *filters, *(slide.axis for slide in slides)]
    if sorted(names) != sorted(axis.name for axis in node.axes):
        return None
    groups = extents[depth.axis] // depth.share if depth.axis else 1
    inputs = prod(extents[name] for name in depth.taps)
    if prod(x.shape[d] for d in depth.dimensions) != groups * inputs:
        return None
    if any(x.shape[d] != extents[name] for d, name in zip(at, batch, strict=True)):
        return None
    places = [indices.index(slide) for slide in slides]
    source = transposed(terms, x, [*at, *depth.dimensions, *places])
    flat = [prod(extents[name] for name in batch), groups * inputs]
    source = leading(terms, source, flat, len(at) + len(depth.dimensions))
    kernel = transposed(terms, w, [taps.index(name) for name in order])
    count = prod(extents[name] for name in filters)
    kernel = reshaped(terms, kernel, [count, inputs, *(extents[s.tap] for s in slides)])
    shape = [flat[0], count, *(extents[s.axis] for s in slides)]
    back = [signs[taps.index(slide.tap)] < 0 for slide in slides]
    if source.op == SPREAD:
        whole = all(back) and groups == 1
        term = _backwards(terms, source, kernel, slides, extents, shape) if whole else None
    elif any(back):
        return None
    else:
        operands = [source, kernel]
        term = windowed(terms, "Conv", operands, slides, extents, shape, 0.0, group=groups)
    if term is None:
        return None
    term = reshaped(terms, term, [extents[name] for name in names])
    return transposed(terms, term, [names.index(axis.name) for axis in node.axes])


def _backwards(
    terms: Terms, source: Term, kernel: Term, slides: Sequence[WindowSlide],
    extents: Mapping[str, int], shape: Sequence[int],
) -> Term | None:  # fmt: skip
    """Return a convolution of reversed weights over spread data as ConvTranspose."""
    inner, pads, steps = source.inputs[0], ints(source.attrs["pads"]), ints(source.attrs["steps"])
    rank = len(source.shape)
    if any((*pads[:2], *pads[rank : rank + 2])) or any(s.stride != 1 for s in slides):
        return None
    before, after, extra = [], [], []
    for d, slide in enumerate(slides):
        reach = slide.dilation * (extents[slide.tap] - 1)
        first = reach - pads[2 + d]
        whole = (inner.shape[2 + d] - 1) * steps[2 + d] + reach + 1
        last = whole - first - extents[slide.axis]
        before.append(first)
        after.append(max(last, 0))
        extra.append(max(-last, 0))
    if min(before) < 0 or any(n >= steps[2 + d] for d, n in enumerate(extra)):
        return None
    order = [1, 0, *range(2, rank)]
    return terms.make(
        "ConvTranspose", [inner, transposed(terms, kernel, order)], shape, inner.dtype,
        pads=(*before, *after), strides=steps[2:], output_padding=tuple(extra), group=1,
        dilations=tuple(slide.dilation for slide in slides),
    )  # fmt: skip


def _taps(
    indices: Sequence[Expr], w: Term, extents: Mapping[str, int]
) -> tuple[list[str], list[int]]:
    """Return the axis of each dimension of the weights, and -1 where it is read backwards.

    Empty lists if an index is another one, or does not run over its whole dimension.
    """
    names, signs = [], []
    for index, n in zip(indices, w.shape, strict=True):
        form = linear(index)
        if form is None or len(form[1]) != 1:
            return [], []
        ((name, by),) = form[1].items()
        if extents[name] != n or (form[0], by) not in ((0, 1), (n - 1, -1)):
            return [], []
        names.append(name)
        signs.append(by)
    return (names, signs) if len(set(names)) == len(names) else ([], [])


def _grouped(index: Index | None, taps: Sequence[str]) -> Index | None:
    """Return `filter * depth + channel` as channels of groups of one filter each: no window."""
    if isinstance(index, WindowSlide) and index.axis in taps and index.dilation == 1:
        return Channel(index.axis, 1, index.stride, index.tap)
    return index


def _depth(indices: Sequence[Index | None], node: Compute, taps: Sequence[str]) -> Depth | None:
    """Return the channels of the data; None if an index has no meaning.

    Without a dimension that is summed or divided, it is that whose axis weights have, too.
    """
    if None in indices:
        return None
    extents = {axis.name: axis.extent for axis in node.reduce_axes}
    channels = {d: one for d, one in enumerate(indices) if isinstance(one, Channel)}
    if not channels:
        own = [d for d, one in enumerate(indices) if isinstance(one, str) and one in taps]
        return Depth((own[0],), (), str(indices[own[0]])) if len(own) == 1 else None
    divided = [one for one in channels.values() if one.axis]
    names = tuple(one.tap for one in channels.values() if one.tap)
    if not divided:
        return Depth(tuple(channels), names)
    one = divided[0]
    whole = len(channels) == 1 and one.depth == extents.get(one.tap, 1)
    return Depth(tuple(channels), names, one.axis, one.share) if whole else None
