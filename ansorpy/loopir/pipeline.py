"""The passes of lowering, in order, with the reason for each pass's place.

Constants and sums in indices are folded when a program is printed (`codegen`); a pass that leaves
`(0 * 16) + l` behind costs nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from ansorpy.loopir.nodes import Program
from ansorpy.loopir.passes.bind_sizes import bind_sizes
from ansorpy.loopir.passes.drop_masks import drop_masks
from ansorpy.loopir.passes.extend_tiles import extend_tiles
from ansorpy.loopir.passes.hoist import hoist
from ansorpy.loopir.passes.hoist_alloc import hoist_alloc
from ansorpy.loopir.passes.hoist_init import hoist_init
from ansorpy.loopir.passes.live_vectors import live_vectors
from ansorpy.loopir.passes.non_temporal_stores import non_temporal_stores
from ansorpy.loopir.passes.normalize_parallel import normalize_parallel
from ansorpy.loopir.passes.pad import pad
from ansorpy.loopir.passes.partition_boundary import partition_boundary
from ansorpy.loopir.passes.peel import peel
from ansorpy.loopir.passes.prefetch import prefetch
from ansorpy.loopir.passes.promote_accumulators import promote_accumulators
from ansorpy.loopir.passes.reuse_window import reuse_window
from ansorpy.loopir.passes.scalar_replacement import held_vectors, scalar_replacement
from ansorpy.loopir.passes.share import share
from ansorpy.loopir.passes.split_choices import split_choices
from ansorpy.loopir.passes.stages import stages
from ansorpy.loopir.passes.tile import tile
from ansorpy.loopir.passes.transpose_blockwise import transpose_blockwise
from ansorpy.loopir.passes.unroll import unroll
from ansorpy.loopir.passes.vectors import vectors
from ansorpy.loopir.passes.warp_matrices import room_bytes, warp_matrices
from ansorpy.loopir.passes.whole_blocks import whole_blocks
from ansorpy.loopir.passes.zero_init import zero_init
from ansorpy.target import CpuTarget, GpuTarget

BLOCKS: Final = 2**31 - 1  # blocks of one launch at most


def lower_for_cpu(
    program: Program, sizes: Mapping[str, int], budgets: Mapping[str, int], target: CpuTarget
) -> Iterator[tuple[str, Program]]:
    """Yield the program after every pass, in order, with the name of the pass.

    Args:
        program: symbolic, as a plan holds it.
        sizes: the value of every size that the program mentions.
        budgets: by stage, how many vector statements one unrolled body may have.
    """
    # First: every other pass needs constant extents.
    yield "bind_sizes", (program := bind_sizes(program, sizes))
    # Before loops are split: the guard `var == 0` of an initialisation is still a single one.
    yield "hoist_init", (program := hoist_init(program))
    # Before peeling: a task must hold whole tiles and their tail.
    yield "normalize_parallel", (program := normalize_parallel(program))
    # Before peeling: the middle part then has no boundary condition, and peeling repeats none.
    yield "partition_boundary", (program := partition_boundary(program))
    # Before tiling: a register tile has a constant extent.
    yield "peel", (program := peel(program))
    # After peeling: whole tiles have constant extents. Before tiling, which ends folding.
    yield "split_choices", (program := split_choices(program))
    # After peeling, which adds conditions; before tiling, which turns conditions into masks.
    yield "hoist", (program := hoist(program))
    # The border between loops over elements and register tiles: all passes below see tiles.
    yield "tile", (program := tile(program, target))
    # Before accumulators are promoted: a sum of matrices then begins in its registers.
    yield "zero_init", (program := zero_init(program))
    # Before accumulators are promoted: a scratch buffer that is one tile needs no second copy.
    yield "scalar_replacement", (program := scalar_replacement(program))
    # Before masks are dropped: only register tiles may hold lanes that no store reads.
    yield "promote_accumulators", (program := promote_accumulators(program))
    # Before windows and unrolling, both of which take tiles without masks only.
    yield "drop_masks", (program := drop_masks(program))
    # Before unrolling: a window that is taken into the tile leaves no loop to unroll.
    yield "reuse_window", (program := reuse_window(program, budgets))
    # After all passes that look for a loop around one tile.
    yield "unroll", (program := unroll(program, budgets, target.registers))
    # After unrolling: tiles that unrolling names one by one stay as they are.
    yield "transpose_blockwise", (program := transpose_blockwise(program))
    # After all passes that make tiles of registers, or look for a loop around one tile.
    yield "live_vectors", (program := live_vectors(program))
    # Hints of stores and loads come last: they change no statement that a pass above looks for.
    yield "non_temporal_stores", (program := non_temporal_stores(program, target))
    yield "prefetch", prefetch(program, target)


def lower_for_cuda(
    program: Program, sizes: Mapping[str, int], budgets: Mapping[str, int], target: GpuTarget
) -> Iterator[tuple[str, Program]]:
    """Yield the program after every pass for a GPU; the lanes of its tiles are threads.

    Left out: splits by a choice of tensors (`split_choices`: a thread loads one), matrices of a CPU
    (`zero_init`), windows that slide along the lanes of a register and shuffles of its lanes
    (`reuse_window`, `transpose_blockwise`), tails of dims (`live_vectors`: a GPU needs numbers),
    hints to caches (`non_temporal_stores`, `prefetch`).

    Args:
        program, sizes, budgets: as `lower_for_cpu` takes them.
    """
    # First: every other pass needs constant extents.
    yield "bind_sizes", (program := bind_sizes(program, sizes))
    # Before loops are split: the guard `var == 0` of an initialisation is still a single one.
    yield "hoist_init", (program := hoist_init(program))
    # Before peeling: a block must hold whole tiles and their tail.
    yield "normalize_parallel", (program := normalize_parallel(program, BLOCKS))
    # Before peeling: the middle part then has no boundary condition, and peeling repeats none.
    yield "partition_boundary", (program := partition_boundary(program))
    # Before tiling: a register tile has a constant extent.
    yield "peel", (program := peel(program))
    # After peeling, which adds conditions; before tiling, which turns conditions into masks.
    yield "hoist", (program := hoist(program))
    # After peeling, which decides extents; before tiling, which takes loops of threads.
    yield "share", (program := share(program))
    # The border between loops over elements and tiles: a vector loop becomes threads.
    yield "tile", (program := tile(program, target))
    # Before accumulators are promoted: scratch that is one tile is in registers, not shared memory.
    held = held_vectors(target)
    yield "scalar_replacement", (program := scalar_replacement(program, held, threads=True))
    # Before masks are dropped: only register tiles may hold lanes that no store reads.
    yield "promote_accumulators", (program := promote_accumulators(program))
    # Before unrolling, which takes tiles without masks only.
    yield "drop_masks", (program := drop_masks(program))
    # After sums are in registers; before unrolling, which copies tiles of single steps.
    yield "warp_matrices", (program := warp_matrices(program, target))
    room = room_bytes(program, target)
    # After matrices, which divide the steps of a sum themselves.
    yield "extend_tiles", (program := extend_tiles(program))
    # After all passes that look for a loop around one tile.
    yield "unroll", (program := unroll(program, budgets, target.thread_registers))
    # Shared memory is given out per kernel, and peeling has left several allocations.
    yield "hoist_alloc", (program := hoist_alloc(program))
    # After scratch is allocated, once. Widths of accesses change no statement that others look for.
    yield "vectors", (program := vectors(program))
    # After widths, by which a warp takes turns; before stages, which repeat the padding.
    yield "pad", (program := pad(program, room))
    # After widths, which a stage as the first index hides.
    yield "stages", (program := stages(program, room))
    # After masks that groups of elements decide together.
    yield "whole_blocks", whole_blocks(program)
