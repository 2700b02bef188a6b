"""Selection of the dot-product instruction for a sum of products over a few steps."""

from collections.abc import Mapping

from ansorpy.expr.affine import Form, form
from ansorpy.expr.expr import Const, Read, Var, variables
from ansorpy.loopir.nodes import Buffer, For, Store
from ansorpy.rewrites.intrinsics import LEFT, RIGHT, VECTORS, Intrinsic, unify
from ansorpy.target import Target


def dot_function(
    store: Store, steps: For, vector: str, lanes: int, buffers: Mapping[str, Buffer], target: Target
) -> str | None:
    """Return LLVM's name of the dot-product instruction for a store; None if there is none.

    The operands must have the memory layout of the instruction: the steps are adjacent, and the
    lanes are either adjacent groups of steps or all at one address (a broadcast).

    Args:
        steps: the loop over the steps, just around the store.
        vector: the variable of the loop over the lanes.
    """
    if store.combiner != "sum" or not isinstance(steps.extent, Const):
        return None
    for one in VECTORS:
        fits = one.lanes == lanes and one.steps == steps.extent.value
        if fits and one.on(target.features) and _matches(one, store, steps.var, vector, buffers):
            return one.function
    return None


def _matches(
    intrinsic: Intrinsic, store: Store, step: str, vector: str, buffers: Mapping[str, Buffer]
) -> bool:
    found = unify(intrinsic.body, store.values[0])
    if found is None or buffers[store.buffers[0]].dtype != intrinsic.into:
        return False
    if {found[LEFT].dtype, found[RIGHT].dtype} != {intrinsic.left, intrinsic.right}:
        return False
    return all(_lies(read, step, vector, intrinsic.steps, buffers) for read in found.values())


def _lies(read: Read, step: str, vector: str, steps: int, buffers: Mapping[str, Buffer]) -> bool:
    offset = flat_offset(read, buffers[read.tensor])
    if offset is None:
        return False
    own = {Var(step), Var(vector)}
    hidden = {name for atom in offset.terms if atom not in own for name in variables(atom)}
    if hidden & {step, vector}:
        return False
    return offset.terms.get(Var(step)) == 1 and offset.terms.get(Var(vector), 0) in (0, steps)


def flat_offset(read: Read, buffer: Buffer) -> Form | None:
    """Return the offset of a read in its row-major buffer; None if an extent is not constant."""
    total, stride = Form(0, {}), 1
    for index, extent in zip(reversed(read.indices), reversed(buffer.shape), strict=True):
        if not isinstance(extent, Const):
            return None
        total, stride = form(index).scaled(stride).plus(total), stride * int(extent.value)
    return total
