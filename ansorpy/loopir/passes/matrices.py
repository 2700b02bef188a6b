"""Select the matrix instruction (AMX TDP*) for a loop nest (docs/adr/0038).

unroll i in 32: vector j in 40: group k in 16: dot q in 4: C[i, j] += A[i, 4 k + q] * B[k, j, q]
        ->      two tiles of 32 rows, one of two blocks of 16 lanes and one of 8 lanes
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Read, Var, variables
from ansorpy.loopir.nodes import Buffer, For, LoopKind, Matrix, Stmt, Store, Tile
from ansorpy.loopir.passes.dot import flat_offset
from ansorpy.loopir.rewrite import seq, substitute_stmt
from ansorpy.rewrites.intrinsics import MATRICES, Intrinsic, unify
from ansorpy.target import Target

LANES: Final = 16  # lanes of one block of a matrix register


def matrix_tiles(
    chain: list[For], store: Store, buffers: Mapping[str, Buffer], target: Target
) -> Stmt | None:
    """Return the tiles of a matrix instruction: blocks of whole lanes, and the remainder.

    Return None if the target has no such instruction, or the memory layout of the operands does
    not fit it.

    Args:
        chain: the written-out loops around a store; the loop over the steps is the last.
    """
    found = _instruction(store, chain, buffers, target)
    if found is None:
        return None
    function, row, group = found
    *others, steps = chain
    (vector,) = (each for each in others if each.kind is LoopKind.VECTOR)
    extents = {each.var: _extent(each) for each in others}
    wide, count_of_groups = extents.pop(vector.var), extents.pop(group, 1)
    extents.setdefault(row, 1)
    tiles = []
    whole, left = divmod(wide, LANES)
    for start, count, lanes in ((0, whole, LANES), (wide - left, 1, left)):
        if not count or not lanes:
            continue
        lane, number = f"{vector.var}.l", f"{vector.var}.n"
        place: Expr = Var(lane)
        pairs = list(extents.items())
        if count > 1:
            pairs.append((number, count))
            place = Binary("add", Binary("mul", Var(number), Const(lanes)), place)
        if start:
            place = Binary("add", place, Const(start))
        pairs += [(group, count_of_groups), (steps.var, _extent(steps))]
        moved = substitute_stmt(store, {vector.var: place})
        assert isinstance(moved, Store)
        dot = (steps.var, function)
        tiles.append(
            Tile(tuple(pairs), ((lane, lanes),), moved, dot=dot, matrix=Matrix(row, group))
        )
    return seq(*tiles)


def _instruction(
    store: Store, chain: Sequence[For], buffers: Mapping[str, Buffer], target: Target
) -> tuple[str, str, str] | None:
    """Return a matrix instruction for a store, with the loops over its rows and groups.

    One operand has the rows and the other the lanes; in both, groups are equally spaced and the
    steps of a group are adjacent. In the target, the lanes are adjacent. A loop over a single row
    or group has been removed; it gets a name that occurs in no index.

    Args:
        chain: the written-out loops around the store; the loop over the steps is the last.
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
    intrinsic: Intrinsic, store: Store, chain: Sequence[For], vector: str,
    buffers: Mapping[str, Buffer],
) -> tuple[str, str] | None:  # fmt: skip
    operands = unify(intrinsic.body, store.values[0])
    if operands is None or buffers[store.buffers[0]].dtype != intrinsic.into:
        return None
    into = Read(store.buffers[0], store.index, intrinsic.into)
    names = [each.var for each in chain]
    steps = [_distances(read, names, buffers) for read in (into, *operands.values())]
    if any(each is None for each in steps):
        return None
    total, a, b = (each for each in steps if each is not None)
    narrow, wide = (a, b) if vector not in a else (b, a)
    dtypes = [read.dtype for read in operands.values()]
    if (dtypes if narrow is a else dtypes[::-1]) != [intrinsic.left, intrinsic.right]:
        return None
    lies = (total.get(vector), wide.get(vector), narrow.get(vector)) == (1, intrinsic.steps, None)
    step = chain[-1].var
    if not lies or (narrow.get(step), wide.get(step), total.get(step)) != (1, 1, None):
        return None
    rows = [
        each for each in chain[:-1]
        if each.kind is LoopKind.UNROLL and each.var in narrow.keys() & total.keys() - wide.keys()
    ]  # fmt: skip
    groups = [
        loop for loop in (each.var for each in chain[:-1] if each.kind is LoopKind.GROUP)
        if narrow.get(loop) == intrinsic.steps and loop in wide
    ]  # fmt: skip
    # Of several axes, take the one with the fewest blocks; the others run row by row.
    row = min(rows, key=lambda each: -(-_extent(each) // LANES) / _extent(each), default=None)
    return (f"{step}.r" if row is None else row.var), (groups[-1] if groups else f"{step}.g")


def _distances(
    read: Read, names: Sequence[str], buffers: Mapping[str, Buffer]
) -> dict[str, int] | None:
    """Return the stride of a read by variable; None if a variable occurs in a division."""
    offset = flat_offset(read, buffers[read.tensor])
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


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, Const)
    return int(loop.extent.value)
