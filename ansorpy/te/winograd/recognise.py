"""Which nodes are convolutions, and along which axes their window slides."""

from dataclasses import dataclass
from typing import Final

from ansorpy.te.analysis.answer import Answer, no, yes
from ansorpy.te.dag import Compute, Node
from ansorpy.te.expr import Binary, Expr, Read, Var, variables
from ansorpy.te.forms import linear

DTYPES: Final = ("float32", "float64")  # narrower ones would lose most of their digits


@dataclass(frozen=True, slots=True)
class Slide:
    """One dimension of the window: data is read at `axis + tap`."""

    position: int  # of the index in the read of the data
    axis: str
    tap: str
    taps: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """out[axes] = sum of data[..., axis + tap, ...] * weights[..., tap, ...]."""

    node: Compute
    data: Read
    weights: Read
    slides: tuple[Slide, ...]
    batch: tuple[str, ...]  # the other spatial axes that the data is read along
    filters: tuple[str, ...]  # those that only the weights are read along
    depth: tuple[str, ...]  # the other reduce axes


def recognise(node: Node) -> tuple[Convolution | None, Answer]:
    """Return a node as a convolution whose window slides by 1, and why it is or is not one.

    Holds for a sum over one product of two reads, of float32 or float64. Every index of the data
    is an axis, or an axis plus a reduce axis (a slide); the weights may be read anyhow, but not
    along a sliding axis. At least one more reduce axis, and one axis of the weights alone, make
    the products a matrix product. Not handled: a step or a dilation above 1, groups.
    """
    if not isinstance(node, Compute):
        return None, no(f"{node.name} is an input")
    if node.combiner != "sum" or node.start is not None or node.dtype not in DTYPES:
        return None, no(f"{node.name} is no sum from 0 in {' or '.join(DTYPES)}")
    match node.body[0]:
        case Binary(op="mul", a=Read() as a, b=Read() as b):
            pass
        case _:
            return None, no(f"{node.name} is no sum of one product of two reads")
    first, why = _as_convolution(node, a, b)
    if first is not None:
        return first, why
    second, answer = _as_convolution(node, b, a)
    return (None, why) if second is None else (second, answer)


def _as_convolution(node: Compute, data: Read, weights: Read) -> tuple[Convolution | None, Answer]:
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
    if not slides or len({*plain, *moving}) < len(plain) + len(moving):
        return None, no(f"{node.name} reads {data}: no window slides along it by 1")
    used = frozenset(name for index in weights.indices for name in variables(index))
    if any(slide.axis in used for slide in slides):
        return None, no(f"{node.name} reads {weights} along an axis of the window")
    batch = tuple(name for name in spatial if name in plain)
    depth = tuple(name for name in reduced if name not in moving)
    filters = tuple(name for name in spatial if name not in plain and name not in moving)
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
    if form is None or form[0] != 0 or len(form[1]) != 2 or set(form[1].values()) != {1}:
        return None
    axis = [name for name in form[1] if name in spatial]
    tap = [name for name in form[1] if name in reduced]
    if len(axis) != 1 or len(tap) != 1 or extents[tap[0]] < 2:
        return None
    return Slide(position, axis[0], tap[0], extents[tap[0]])
