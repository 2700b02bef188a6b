"""Which instruction sums a product over a few steps, if one does."""

from collections.abc import Mapping, Sequence

from ansorpy.loopir.nodes import Buffer, For, LoopKind, Store
from ansorpy.target import Target
from ansorpy.te.expr import Const, Read, Var, variables
from ansorpy.te.forms import Form, form
from ansorpy.te.intrinsics import LEFT, MATRICES, RIGHT, VECTORS, Intrinsic, unify


def dot_function(
    store: Store, steps: For, vector: str, lanes: int, buffers: Mapping[str, Buffer], target: Target
) -> str | None:
    """Return LLVM's name of the instruction for a store; None where the target has none for it.

    The operands must lie in memory as the instruction takes them: the steps side by side, and the
    lanes either side by side, each with its steps, or all at one place.

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


def matrix_function(
    store: Store, chain: Sequence[For], buffers: Mapping[str, Buffer], target: Target
) -> tuple[str, str, str] | None:
    """Return an instruction on matrices for a store, with the loops over its rows and groups.

    Of the operands one has the rows and one the lanes; in both, the groups lie at equal distances
    and the steps of one side by side. In the target the lanes lie side by side.

    Args:
        chain: the written-out loops around the store, that over the steps last.
    """
    *others, steps = chain
    vector = next((each.var for each in others if each.kind is LoopKind.VECTOR), None)
    if vector is None or store.combiner != "sum":
        return None
    if not all(isinstance(each.extent, Const) for each in chain):
        return None
    for one in MATRICES:
        if one.on(target.features) and steps.extent == Const(one.steps):
            found = _rows_and_groups(one, store, chain, vector, buffers)
            if found is not None:
                return one.function, *found
    return None


def _rows_and_groups(
    one: Intrinsic, store: Store, chain: Sequence[For], vector: str, buffers: Mapping[str, Buffer]
) -> tuple[str, str] | None:
    found = unify(one.body, store.values[0])
    if found is None or buffers[store.buffers[0]].dtype != one.into:
        return None
    into = Read(store.buffers[0], store.index, one.into)
    names = [each.var for each in chain]
    steps = [_distances(read, names, buffers) for read in (into, *found.values())]
    if any(each is None for each in steps):
        return None
    total, a, b = (each for each in steps if each is not None)
    narrow, wide = (a, b) if vector not in a else (b, a)
    dtypes = [read.dtype for read in found.values()]
    if (dtypes if narrow is a else dtypes[::-1]) != [one.left, one.right]:
        return None
    lies = (total.get(vector), wide.get(vector), narrow.get(vector)) == (1, one.steps, None)
    step = chain[-1].var
    if not lies or (narrow.get(step), wide.get(step), total.get(step)) != (1, 1, None):
        return None
    rows = [
        each for each in chain[:-1]
        if each.kind is LoopKind.UNROLL and each.var in narrow.keys() & total.keys() - wide.keys()
    ]  # fmt: skip
    groups = [
        each.var for each in chain[:-1]
        if each.kind is LoopKind.GROUP and narrow.get(each.var) == one.steps and each.var in wide
    ]  # fmt: skip
    if not rows or not groups:
        return None
    return max(rows, key=lambda each: int(str(each.extent))).var, groups[-1]


def _distances(
    read: Read, names: Sequence[str], buffers: Mapping[str, Buffer]
) -> dict[str, int] | None:
    """Return how far apart a read moves with every variable that it moves with."""
    offset = _flat(read, buffers[read.tensor])
    if offset is None:
        return None
    plain = {atom.name: scale for atom, scale in offset.terms.items() if isinstance(atom, Var)}
    hidden = {
        name
        for atom in offset.terms
        if not isinstance(atom, Var)
        for name in variables(atom)
    }  # fmt: skip
    return None if hidden & set(names) else {k: v for k, v in plain.items() if k in names}


def _matches(
    one: Intrinsic, store: Store, step: str, vector: str, buffers: Mapping[str, Buffer]
) -> bool:
    found = unify(one.body, store.values[0])
    if found is None or buffers[store.buffers[0]].dtype != one.into:
        return False
    dtypes = {found[LEFT].dtype, found[RIGHT].dtype}
    if len(dtypes) != len({one.left, one.right}) or dtypes != {one.left, one.right}:
        return False
    return all(_lies(read, step, vector, one.steps, buffers) for read in found.values())


def _lies(read: Read, step: str, vector: str, steps: int, buffers: Mapping[str, Buffer]) -> bool:
    offset = _flat(read, buffers[read.tensor])
    if offset is None:
        return False
    own = {Var(step), Var(vector)}
    hidden = {name for atom in offset.terms if atom not in own for name in variables(atom)}
    if hidden & {step, vector}:
        return False
    return offset.terms.get(Var(step)) == 1 and offset.terms.get(Var(vector), 0) in (0, steps)


def _flat(read: Read, buffer: Buffer) -> Form | None:
    """Return the offset of a read in its row-major buffer; None where an extent is open."""
    total, stride = Form(0, {}), 1
    for index, extent in zip(reversed(read.indices), reversed(buffer.shape), strict=True):
        if not isinstance(extent, Const):
            return None
        total, stride = form(index).scaled(stride).plus(total), stride * int(extent.value)
    return total
