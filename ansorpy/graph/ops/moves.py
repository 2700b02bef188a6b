"""Operators that move elements: views, permutations, parts, joins and borders."""

from collections.abc import Sequence
from math import prod

from ansorpy import te, topi
from ansorpy.graph.operator import EmptyResult, Operands, operator
from ansorpy.te.broadcast import broadcast_shape
from ansorpy.te.tensor import Tensor
from ansorpy.topi.slicing import span


@operator("Reshape", "allowzero", view=True)
def _reshape(on: Operands) -> Tensor:
    x = on.tensor(0)
    shape = [
        x.shape[n] if extent == 0 and not on.attribute("allowzero", 0) and n < len(x.shape)
        else extent
        for n, extent in enumerate(on.ints(1))
    ]  # fmt: skip
    return topi.reshape(x, shape)


@operator("Flatten", "axis", view=True)
def _flatten(on: Operands) -> Tensor:
    return topi.flatten(on.tensor(0), on.attribute("axis", 1))


@operator("Squeeze", "axes", view=True)
def _squeeze(on: Operands) -> Tensor:
    return topi.squeeze(on.tensor(0), on.axes(1))


@operator("Unsqueeze", "axes", view=True)
def _unsqueeze(on: Operands) -> Tensor:
    axes = on.axes(1)
    return topi.expand_dims(on.tensor(0), () if axes is None else axes)


@operator("Transpose", "perm")
def _transpose(on: Operands) -> Tensor:
    return topi.transpose(on.tensor(0), on.attribute("perm"))


@operator("Concat", "axis", joins=True)
def _concat(on: Operands) -> Tensor:
    axis = on.attribute("axis")
    if axis is None:
        on.refuse("attribute 'axis' is absent", "an axis")
    return topi.concat([on.tensor(n) for n in range(len(on)) if not on.empty(n)], axis)


@operator("Slice", "starts", "ends", "axes")
def _slice(on: Operands) -> Tensor:
    x = on.tensor(0)
    rank = len(x.shape)
    starts, ends = on.axes(1, "starts"), on.axes(2, "ends")
    if starts is None or ends is None:
        on.refuse("starts or ends are absent", "both")
    axes = on.axes(3) or tuple(range(len(starts)))
    steps = on.ints(4) if on.given(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        on.refuse("starts, ends, axes and steps have different lengths", "equal lengths")
    begin, end, stride = [0] * rank, list(x.shape), [1] * rank
    for axis, first, last, step in zip(axes, starts, ends, steps, strict=True):
        if not -rank <= axis < rank:
            on.refuse(f"axis {axis} is not an axis of rank {rank}", f"{-rank} to {rank - 1}")
        begin[axis], end[axis], stride[axis] = first, last, step
    counts = [
        span(first, last, step or 1, extent, f"slice {list(x.shape)}")[2]
        for first, last, step, extent in zip(begin, end, stride, x.shape, strict=True)
    ]
    if 0 in counts:
        raise EmptyResult(tuple(counts), x.dtype)
    return topi.strided_slice(x, begin, end, stride)


@operator("Split", "axis", "num_outputs", "split")
def _split(on: Operands) -> Sequence[Tensor]:
    x, axis = on.tensor(0), on.attribute("axis", 0)
    if not -len(x.shape) <= axis < len(x.shape):
        on.refuse(f"axis {axis} is not an axis of rank {len(x.shape)}", "an axis")
    extent, sizes = x.shape[axis], on.axes(1, "split")
    if sizes is None:
        count = on.attribute("num_outputs", len(on.node.outputs))
        if count != len(on.node.outputs):
            on.refuse(f"attribute 'num_outputs' is {count}", f"{len(on.node.outputs)} outputs")
        part = -(-extent // count)
        sizes = (*[part] * (count - 1), extent - part * (count - 1))
    return topi.split(x, sizes, axis)


@operator("Expand")
def _expand(on: Operands) -> Tensor:
    x = on.tensor(0)
    return topi.broadcast_to(x, broadcast_shape([x.shape, on.ints(1)], "expand"))


@operator("Tile")
def _tile(on: Operands) -> Tensor:
    return topi.tile(on.tensor(0), on.ints(1))


@operator("Pad", "mode", "pads", "value")
def _pad(on: Operands) -> Tensor:
    """Add elements around a tensor; a negative number takes elements away."""
    x, mode = on.tensor(0), on.attribute("mode", "constant")
    rank = len(x.shape)
    pads = on.axes(1, "pads")
    axes = on.ints(3) if on.given(3) else tuple(range(rank))
    if pads is None or len(pads) != 2 * len(axes) or not all(-rank <= n < rank for n in axes):
        on.refuse(f"pads {pads} and axes {axes} do not fit", "two numbers per axis")
    before, after = [0] * rank, [0] * rank
    for n, axis in enumerate(axes):
        before[axis], after[axis] = pads[n], pads[n + len(axes)]
    if min(*before, *after, 0) < 0:
        first = [max(-number, 0) for number in before]
        last = [extent if n >= 0 else extent + n for extent, n in zip(x.shape, after, strict=True)]
        x = topi.strided_slice(x, first, last)
        before, after = [max(n, 0) for n in before], [max(n, 0) for n in after]
    if on.given(2):
        value = te.cast(on.literal(2), x.dtype)  # a converted attribute is float32
    else:
        zero = False if x.dtype == "bool" else on.attribute("value", 0)
        value = te.const(zero, x.dtype)
    return topi.pad(x, before, after, value=value, mode=mode)


@operator("DepthToSpace", "blocksize", "mode")
def _depth_to_space(on: Operands) -> Tensor:
    return topi.depth_to_space(
        on.tensor(0), on.attribute("blocksize", 1), mode=on.attribute("mode", "DCR")
    )


@operator("SpaceToDepth", "blocksize", "mode")
def _space_to_depth(on: Operands) -> Tensor:
    mode, block, x = on.attribute("mode", "DCR"), on.attribute("blocksize", 1), on.tensor(0)
    made = topi.space_to_depth(x, block)
    if mode == "DCR":
        return made
    n, _, h, w = made.shape
    split = topi.reshape(made, (n, block * block, x.shape[1], h, w))
    return topi.reshape(topi.transpose(split, (0, 2, 1, 3, 4)), made.shape)


def flattened(x: Tensor, axis: int) -> Tensor:
    """Return a tensor whose axes from `axis` on are one."""
    return topi.reshape(x, (*x.shape[:axis], prod(x.shape[axis:])))
