"""Terms that move elements: transpositions, reshapes, slices and paddings, merged when made."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ansorpy.expr.expr import Read
from ansorpy.graph.graph import Attribute
from ansorpy.measure.timing.peers.term import Term, Terms
from ansorpy.measure.timing.slices import Slice, slice_of

SPREAD: Final = "Spread"  # a tensor with zeros between its elements, which no library has

Extents = Mapping[str, int]


def transposed(terms: Terms, x: Term, order: Sequence[int]) -> Term:
    """Return dimension order[d] of `x` as dimension d."""
    if list(order) == sorted(order):
        return x
    if x.op == "Transpose":
        return transposed(terms, x.inputs[0], [ints(x.attrs["perm"])[at] for at in order])
    shape = [x.shape[at] for at in order]
    if x.array is not None:
        return terms.constant(x.array.transpose(order), x.dtype)
    if x.op in ("Pad", SPREAD):  # padding stays last, so that windows find it
        pads, rank = ints(x.attrs["pads"]), len(x.shape)
        moved = [*(pads[at] for at in order), *(pads[rank + at] for at in order)]
        inner = transposed(terms, x.inputs[0], order)
        steps = [steps_of(x)[at] for at in order]
        return padded(terms, inner, moved, x.attrs["value"], steps)
    return terms.make("Transpose", [x], shape, x.dtype, perm=tuple(order))


def reshaped(terms: Terms, x: Term, shape: Sequence[int]) -> Term:
    """Return the elements of `x` in row-major order in another shape."""
    if tuple(shape) == x.shape:
        return x
    if x.array is not None:
        return terms.constant(x.array.reshape(shape), x.dtype)
    if x.op == "Reshape":
        return reshaped(terms, x.inputs[0], shape)
    number = terms.constant(np.array(shape), "int64")
    return terms.make("Reshape", [x, number], shape, x.dtype)


def sliced(terms: Terms, x: Term, at: Sequence[int | slice]) -> Term:
    """Return x[at] as NumPy takes it; steps are positive."""
    parts = [slice(one, one + 1, 1) if isinstance(one, int) else one for one in at]
    lengths = [len(range(*part.indices(n))) for part, n in zip(parts, x.shape, strict=True)]
    cut = [d for d, n in enumerate(lengths) if n != x.shape[d]]
    kept = [n for one, n in zip(at, lengths, strict=True) if not isinstance(one, int)]
    if not cut:
        return reshaped(terms, x, kept)
    if x.array is not None:
        return terms.constant(x.array[tuple(at)], x.dtype)
    numbers = [
        [parts[d].start for d in cut],
        [parts[d].stop for d in cut],
        cut,
        [parts[d].step or 1 for d in cut],
    ]
    made = terms.make(
        "Slice", [x, *(terms.constant(np.array(one), "int64") for one in numbers)], lengths, x.dtype
    )
    return reshaped(terms, made, kept)


def padded(
    terms: Terms, x: Term, pads: Sequence[int], value: Attribute, steps: Sequence[int] = ()
) -> Term:
    """Return `x` with `value` around it: elements in front of each dimension, then behind each.

    Args:
        steps: the distances of elements of `x` in each dimension, with `value` between them; 1
            each unless given.
    """
    rank = len(x.shape)
    steps = steps or [1] * rank
    shape = [(n - 1) * steps[d] + 1 + pads[d] + pads[rank + d] for d, n in enumerate(x.shape)]
    if set(steps) <= {1}:
        return terms.make("Pad", [x], shape, x.dtype, pads=tuple(pads), value=value)
    return terms.make(
        SPREAD, [x], shape, x.dtype, pads=tuple(pads), value=value, steps=tuple(steps)
    )


def steps_of(x: Term) -> tuple[int, ...]:
    """Return the distances of elements in a padded tensor."""
    return ints(x.attrs["steps"]) if x.op == SPREAD else (1,) * len(x.shape)


def view(
    terms: Terms, read: Read, x: Term, extents: Extents, axes: Sequence[str] | None = None
) -> Term | None:
    """Return the elements that a read takes, for operands that broadcast along missing axes.

    Dimensions follow `axes`, all of the iteration space by default; leading missing ones are left
    out, others have extent 1. None if the read is no slice.
    """
    cut = slice_of(read, extents, x.shape)
    return None if cut is None else spread(terms, sliced(terms, x, cut.at), cut, axes or [*extents])


def spread(terms: Terms, part: Term, cut: Slice, axes: Sequence[str]) -> Term:
    """Return the part of a tensor with its dimensions where `axes` have them."""
    order = sorted(range(len(cut.axes)), key=lambda at: axes.index(cut.axes[at]))
    moved = transposed(terms, part, order)
    present = dict(zip((cut.axes[at] for at in order), moved.shape, strict=True))
    shape = [present.get(name, 1) for name in axes]
    first = next((at for at, name in enumerate(axes) if name in present), len(axes))
    return reshaped(terms, moved, shape[first:])


def ints(value: Attribute) -> tuple[int, ...]:
    """Return an attribute of whole numbers."""
    assert isinstance(value, tuple)
    return tuple(int(one) for one in value)
