"""Recognition of convolutions, and of the axes along which their window slides."""

from dataclasses import dataclass, replace
from typing import Final

from ansorpy.expr.affine import linear
from ansorpy.expr.expr import Binary, Expr, Read, Var, variables
from ansorpy.expr.gathers import gathers
from ansorpy.rewrites.winograd.dilate import parted
from ansorpy.te.analysis.answer import Answer, no, yes
from ansorpy.te.dag import Compute, Node

DTYPES: Final = ("float32", "float64")  # a narrower dtype would lose most of its digits


@dataclass(frozen=True, slots=True)
class Slide:
    """One dimension of the window: data is read at `step * (axis + tap) + part`."""

    position: int  # position of the index in the read of the data
    axis: str
    tap: str
    taps: int
    step: int = 1
    part: str = ""  # a spatial axis as long as a step, or empty


@dataclass(frozen=True, slots=True)
class Convolution:
    """out[axes] = sum of data[..., axis + tap, ...] * weights[..., tap, ...].

    `whole` is the original node if `node` is its split by remainders, else None.
    """

    node: Compute
    data: Read
    weights: Read
    slides: tuple[Slide, ...]
    batch: tuple[str, ...]  # the other spatial axes of the reads of the data
    filters: tuple[str, ...]  # spatial axes that only the weights are read along
    depth: tuple[str, ...]  # the other reduce axes
    whole: Compute | None = None


def recognise(node: Node) -> tuple[Convolution | None, Answer]:
    """Return a node as a convolution whose window slides by 1, or the obstacle.

    Holds for a sum over one product of two reads, of float32 or float64. Every index of the data
    is an axis, or an axis plus a reduce axis (a slide); the weights may be read at any index, but
    not along a sliding axis. At least one more reduce axis, and one axis of the weights alone,
    make the products a matrix product. A dilated convolution is recognised by its remainders
    (`parted`). Not handled: a step above 1 without an equal dilation, groups.
    """
    if not isinstance(node, Compute):
        return None, no(f"{node.name} is an input")
    if node.combiner != "sum" or node.start is not None or node.dtype not in DTYPES:
        return None, no(f"{node.name} is not a sum from 0 in {' or '.join(DTYPES)}")
    apart = parted(node)
    if apart is None:
        return _recognised(node)
    found, why = _recognised(apart[0])
    return (None, why) if found is None else (replace(found, whole=apart[1]), why)


def _recognised(node: Compute) -> tuple[Convolution | None, Answer]:
    match node.body[0]:
        case Binary(op="mul", a=Read() as a, b=Read() as b):
            pass
        case _:
            return None, no(f"{node.name} is not a sum of one product of two reads")
    first, why = _as_convolution(node, a, b)
    if first is not None:
        return first, why
    second, answer = _as_convolution(node, b, a)
    return (None, why) if second is None else (second, answer)


def _as_convolution(node: Compute, data: Read, weights: Read) -> tuple[Convolution | None, Answer]:
    if gathers(weights):
        return None, no(f"{node.name} gathers its weights: {weights}")
    extents = {axis.name: axis.extent for axis in (*node.axes, *node.reduce_axes)}
    spatial = [axis.name for axis in node.axes]
    reduced = [axis.name for axis in node.reduce_axes]
    slides: list[Slide] = []
    plain: list[str] = []
    for position, index in enumerate(data.indices):
        found = _slide(position, index, spatial, reduced, extents)
        if found is not None:
            slides.append(found)
        elif isinstance(index, Var):
            plain.append(index.name)
        else:
            return None, no(f"{node.name} reads {data}: {index} is no axis and no window")
    moving = [name for slide in slides for name in (slide.axis, slide.tap)]
    parts = [slide.part for slide in slides if slide.part]
    if not slides or len({*plain, *moving, *parts}) < len(plain) + len(moving) + len(parts):
        return None, no(f"{node.name} reads {data}: no window slides along it by 1")
    used = frozenset(name for index in weights.indices for name in variables(index))
    if any(name in used for slide in slides for name in (slide.axis, slide.part)):
        return None, no(f"{node.name} reads {weights} along an axis of the window")
    batch = tuple(name for name in spatial if name in plain or name in parts)
    depth = tuple(name for name in reduced if name not in moving)
    filters = tuple(name for name in spatial if name not in {*plain, *moving, *parts})
    if not depth or not set(depth) <= used & set(plain):
        return None, no(f"{node.name} has no channels that data and weights are summed over")
    if not filters or not set(filters) <= used:
        return None, no(f"{node.name} has no axis that the weights alone are read along")
    along = ", ".join(f"{slide.axis} ({slide.taps} taps)" for slide in slides)
    made = Convolution(node, data, weights, tuple(slides), batch, filters, depth)
    return made, yes(f"{node.name} slides a window over {data.tensor} along {along}")


def _slide(
    position: int, index: Expr, spatial: list[str], reduced: list[str], extents: dict[str, int]
) -> Slide | None:
    form = linear(index)
    taps = [] if form is None else [name for name in form[1] if name in reduced]
    if form is None or form[0] != 0 or len(taps) != 1 or extents[taps[0]] < 2:
        return None
    step = form[1][taps[0]]
    axis = [name for name, by in form[1].items() if name in spatial and by == step]
    part = [name for name in form[1] if name not in (*taps, *axis[:1])]
    if step < 1 or not axis or len(part) > 1 or any(form[1][p] != 1 for p in part):
        return None
    if any(p not in spatial or extents[p] != step for p in part):
        return None
    return Slide(position, axis[0], taps[0], extents[taps[0]], step, *part)
