"""Let the matrix instruction of a warp sum products in float32 (ADR-0150, ADR-0035).

for k in 32: Tile(i.1 < 2, j.1 < 4, j.3 < 2, lanes i.2 < 8, j.2 < 4): C += f32(A[i, k]) f32(B[k, j])
    ->      Tile(i.1 < 2, j.1 < 4, j.3 < 2, g < 2, q < 16, the same lanes): C += ... at k = 16 g + q

A fragment is the part of a matrix in the registers of a thread. Thread 4 r + c of a warp has the
sums of rows r and r + 8 in columns 2 c and 2 c + 1: r is the last but one lane variable, of a
multiple of 8 threads, c the last, of 4; the second row is the next one along a dimension of the
tile, wherever it lies, and the second column the neighbour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from ansorpy.expr.affine import Form
from ansorpy.expr.banks import waves
from ansorpy.expr.build import add, mul
from ansorpy.expr.coalescing import IntArray, flat_places
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr, Read, Var, reads, variables
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    LoopKind,
    Matrix,
    Program,
    Scope,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.passes.dot import flat_offset
from ansorpy.loopir.rewrite import rebuild_stmt, stmt_children, substitute_stmt, walk_stmt
from ansorpy.rewrites.warp_products import (
    COLUMN_LANES,
    MATRICES,
    PAIR,
    ROW_BYTES,
    ROWS,
    SUMS,
    WarpProduct,
    by_function,
    find_product,
)
from ansorpy.target import GpuTarget

WORD_BYTES: Final = 4  # a register
PRODUCTS: Final = 128  # instructions of one tile at most; more steps become a loop


@dataclass(frozen=True, slots=True)
class _Nest:
    """Serial loops around a tile, outermost first, and the buffers in scope."""

    loops: tuple[tuple[str, int], ...]
    tile: Tile
    buffers: Mapping[str, Buffer]

    @property
    def extents(self) -> dict[str, int]:
        """The extents of the loops and of the dimensions of the tile, outermost first."""
        return {**dict(self.loops), **dict(self.tile.dims)}


def warp_matrices(program: Program, target: GpuTarget) -> Program:
    """Return the program with matrix instructions for the sums that a warp may add by them.

    Needs        a tiled program for a GPU, with sums in registers.
    Keeps        the meaning; the hardware decides the order and the rounding of sums.
    After        a sum in registers of products of two operands in scratch is a tile on matrices, if
                 `rewrites.warp_products` has the product, threads have rows and columns as the
                 instruction has them, and the steps of the sum are whole groups of the steps of
                 an instruction. `dims` of the tile end with the groups and the steps.
    Not handled  operands whose rows of 16 bytes are not contiguous and aligned in scratch, but for
                 operands of 32 bits that are contiguous along other dimensions than the steps,
                 which are loaded word by word; masks.
    Source       PTX ISA 9.0, section 9.7.14.5.
    """
    arch = target.capability

    def change(stmt: Stmt, buffers: Mapping[str, Buffer]) -> Stmt:
        nest = _nest(stmt, buffers)
        made = None if nest is None else _on_matrices(nest, arch)
        if made is not None:
            return made
        if isinstance(stmt, Alloc):
            buffers = {**buffers, stmt.buffer.name: stmt.buffer}
        parts = tuple(change(part, buffers) for part in stmt_children(stmt))
        return rebuild_stmt(stmt, parts) if parts else stmt

    phases = (replace(phase, body=change(phase.body, program.by_name)) for phase in program.phases)
    return replace(program, phases=tuple(phases))


def on_matrices(tile: Tile) -> bool:
    """Return True if the matrix instruction of a warp sums a tile."""
    return tile.dot is not None and by_function(tile.dot[1]) is not None


def product_of(tile: Tile) -> WarpProduct:
    """Return the instruction of a tile on matrices."""
    found = by_function(tile.dot[1]) if tile.dot else None
    assert found is not None
    return found


def room_bytes(program: Program, target: GpuTarget) -> int:
    """Return the shared memory that a block may have: all of it for matrix instructions.

    Two stages of operands that keep the instructions busy exceed the 48 KB of other kernels.
    """
    if target.gpu is None or not any(
        isinstance(part, Tile) and on_matrices(part)
        for phase in program.phases
        for part in walk_stmt(phase.body)
    ):
        return target.shared_bytes
    return max(target.shared_bytes, target.gpu.shared_bytes_per_block)


def instructions(tile: Tile) -> int:
    """Return the matrix instructions of a warp for a tile on matrices."""
    return prod(n for _, n in tile.dims) // (PAIR * PAIR * product_of(tile).steps)


def operands(tile: Tile) -> tuple[Read, ...]:
    """Return the operands of a tile on matrices."""
    return tuple({read for value in tile.store.values for read in reads(value)})


def matrices(tile: Tile, index: tuple[Expr, ...]) -> int:
    """Return the matrices that a warp loads of an operand of a tile on matrices."""
    used = frozenset[str]().union(*map(variables, index))
    points = prod(n for name, n in tile.dims if name in used)
    return points // (product_of(tile).run * (PAIR if _matrix(tile).column in used else 1))


def loads(tile: Tile, buffer: Buffer, index: tuple[Expr, ...]) -> float:
    """Return the load instructions of a thread for an operand of a tile on matrices."""
    found = matrices(tile, index)
    return found if _by_words(tile, buffer, index) else found / MATRICES


def roundings(tile: Tile) -> int:
    """Return the words that a thread rounds to the format of the instruction, in one run."""
    if not product_of(tile).rounds:
        return 0
    return sum(matrices(tile, read.indices) for read in operands(tile))


def matrix_waves(tile: Tile, buffer: Buffer, index: tuple[Expr, ...]) -> int:
    """Return the waves in which a warp loads an operand of a tile on matrices.

    Args:
        buffer, index: the operand, in scratch; outer variables are 0.
    """
    by_words = _by_words(tile, buffer, index)
    across = np.arange(ROWS)
    (rows, _), (columns, _) = tile.lanes[-2:]
    step = tile.dims[-1][0]
    places: dict[str, int | IntArray] = {name: 0 for one in index for name in variables(one)}
    if by_words:
        across = np.repeat(across, COLUMN_LANES)
        places[step] = np.tile(np.arange(COLUMN_LANES), ROWS)
    if not by_words and not _contiguous(buffer, index, step):
        places[step] = across
    elif rows in places:
        places[rows] = across
    else:
        places |= {columns: across // PAIR, _matrix(tile).column: across % PAIR}
    first = np.asarray(flat_places(index, buffer.extents, places), np.int64)
    wide = WORD_BYTES if by_words else ROW_BYTES
    return matrices(tile, index) * waves(first * SIZE_BYTES[buffer.dtype], wide)


def _matrix(tile: Tile) -> Matrix:
    assert tile.matrix is not None
    return tile.matrix


def _by_words(tile: Tile, buffer: Buffer, index: tuple[Expr, ...]) -> bool:
    """Return whether each thread loads its words of an operand: no load turns its matrices over."""
    return not (product_of(tile).turns or _contiguous(buffer, index, tile.dims[-1][0]))


def _contiguous(buffer: Buffer, index: tuple[Expr, ...], name: str) -> bool:
    offset = flat_offset(Read(buffer.name, index, buffer.dtype), buffer)
    return offset is not None and offset.terms.get(Var(name)) == 1


def _nest(stmt: Stmt, buffers: Mapping[str, Buffer]) -> _Nest | None:
    """Return a statement as loops around a sum in registers; None if it is none."""
    loops: list[tuple[str, int]] = []
    while isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL:
        if not isinstance(stmt.extent, Const):
            return None
        loops.append((stmt.var, int(stmt.extent.value)))
        stmt = stmt.body
    if not isinstance(stmt, Tile) or stmt.dot or stmt.mask is not None:
        return None
    if stmt.store.combiner != "sum" or len(stmt.lanes) < 2:
        return None
    (_, rows), (_, columns) = stmt.lanes[-2:]
    into = buffers[stmt.store.buffers[0]]
    fits = rows % ROWS == 0 and columns == COLUMN_LANES
    if not fits or into.scope is not Scope.REGISTER or into.dtype != SUMS:
        return None
    return _Nest(tuple(loops), stmt, buffers)


def _on_matrices(nest: _Nest, arch: int) -> Stmt | None:
    """Return the tile on matrices with the loops around it; None if the operands do not fit."""
    product = find_product(nest.tile.store.values[0])
    if product is None or arch < product[0].arch:
        return None
    warp, a, b = product
    (rows, _), (columns, _) = nest.tile.lanes[-2:]
    offsets = [_offset(read, nest, warp) for read in (a, b)]
    for left, right in (offsets, offsets[::-1]):
        if left is None or right is None or not {rows, columns} <= left.keys() | right.keys():
            return None
        if rows not in left or columns not in right or rows in right or columns in left:
            continue
        found = _dims(nest, warp, left, right)
        if found is not None:
            return _made(nest, warp, *found)
    return None


def _offset(read: Read, nest: _Nest, product: WarpProduct) -> dict[str, int] | None:
    """Return the strides of an operand in scratch by variable, 0 for the constant; or None.

    Other atoms, such as the number of a stage, are named by their text.
    """
    buffer = nest.buffers[read.tensor]
    if buffer.scope is not Scope.LOCAL or {read.dtype, buffer.dtype} != {product.dtype}:
        return None
    offset: Form | None = flat_offset(read, buffer)
    if offset is None or prod(buffer.extents) % product.run:
        return None
    own = {*nest.extents, *(name for name, _ in nest.tile.lanes)}
    if any(not isinstance(atom, Var) and own & variables(atom) for atom in offset.terms):
        return None
    return {"": offset.const, **{str(atom): n for atom, n in offset.terms.items()}}


def _dims(
    nest: _Nest, product: WarpProduct, left: Mapping[str, int], right: Mapping[str, int]
) -> tuple[str, str, str] | None:
    """Return the dimensions of pairs of rows and of columns, and the steps; or None."""
    (rows, _), (columns, _) = nest.tile.lanes[-2:]
    kept = {name for one in nest.tile.store.index for name in variables(one)}
    dims = dict(nest.tile.dims)
    pairs = [
        name for name, n in dims.items()
        if n % PAIR == 0 and name in kept and name in left and name not in right
    ]  # fmt: skip
    wide = [
        name for name, n in dims.items()
        if n == PAIR and name in kept and name not in left
        and PAIR * right.get(name, 0) == right[columns]
    ]  # fmt: skip
    for step, extent in nest.extents.items():
        if extent % product.steps or step in kept or not {step} <= left.keys() & right.keys():
            continue
        for pair in wide:
            near = ((left, {rows}), (right, {columns, pair}))
            if pairs and all(_loadable(product, strides, step, names) for strides, names in near):
                return pairs[0], pair, step
    return None


def _loadable(product: WarpProduct, strides: Mapping[str, int], step: str, near: set[str]) -> bool:
    """Return whether rows of matrices, along the steps or `near`, are aligned groups.

    Words have any places.
    """
    if strides[step] != 1 and not product.turns:
        return True
    along = {step} if strides[step] == 1 else near
    first = min(strides[name] for name in along)
    parts = (n % product.run for name, n in strides.items() if name not in along)
    return first == 1 and not any(parts)


def _made(nest: _Nest, product: WarpProduct, row: str, column: str, step: str) -> Stmt:
    tile, extents = nest.tile, nest.extents
    kept = {name for one in tile.store.index for name in variables(one)}
    sums = tuple((name, n) for name, n in tile.dims if name in kept)
    products = prod(n for _, n in sums) // (PAIR * PAIR)
    groups = extents[step] // product.steps
    fitting = [u for u in range(1, groups + 1) if groups % u == 0 and u * products <= PRODUCTS]
    own = max(fitting, default=1)
    group, inner = f"{step}.g", f"{step}.q"
    at = add(mul(Var(group), Const(product.steps)), Var(inner))
    if own < groups:
        at = add(mul(Var(step), Const(own * product.steps)), at)
    moved = substitute_stmt(tile.store, {step: at})
    assert isinstance(moved, Store)
    stmt: Stmt = replace(
        tile,
        dims=(*sums, (group, own), (inner, product.steps)),
        store=moved,
        dot=(inner, product.function),
        matrix=Matrix(row, group, column=column),
    )
    around = {name: n for name, n in extents.items() if name not in kept}
    around[step] = groups // own
    for name, n in reversed(around.items()):
        if name != step or n > 1:
            stmt = For(name, Const(n), stmt)
    return stmt
