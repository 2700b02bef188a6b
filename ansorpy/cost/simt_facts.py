"""Facts of the launches of a program for a GPU, counted from its loops.

Trip counts, accesses and operations belong to a block in the middle of the grid. Registers are
an estimate, too, unless ptxas has counted them.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import Final

from ansorpy.codegen.simt.assemble import Resources
from ansorpy.codegen.simt.barriers import waits
from ansorpy.codegen.simt.launch import Launch
from ansorpy.cost.simt import LaunchFacts
from ansorpy.cost.simt_access import traffic
from ansorpy.expr.coalescing import WARP
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.evaluate import evaluate
from ansorpy.expr.expr import Binary, Call, Expr, Read, Var, children, variables
from ansorpy.expr.functions import FUNCTIONS
from ansorpy.expr.intervals import bounds
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Phase,
    Program,
    Scope,
    Seq,
    Stmt,
    Tile,
)
from ansorpy.loopir.passes.warp_matrices import (
    instructions,
    loads,
    matrices,
    matrix_waves,
    on_matrices,
    operands,
    roundings,
)
from ansorpy.loopir.rewrite import stmt_children, walk_stmt
from ansorpy.loopir.tasks import split_tasks
from ansorpy.plan.thread_blocks import REGISTERS
from ansorpy.rewrites.warp_products import MATRICES

# Instructions of a thread, from SASS of sm_90.
LOOP: Final = 3.0  # counter, comparison, branch of an iteration
ADDRESS: Final = 0.5  # an access to global memory; neighbouring ones share theirs
# An asynchronous copy: offsets within LDGSTS have 12 bits, rows of an operand lie further apart.
COPY_ADDRESS: Final = 2.0
MASK: Final = 2.0  # a masked access: comparison, predicate
DIVIDE: Final = 8.0
FUNCTION: Final = 16.0  # exp, tanh, erf by polynomials
WHOLE_DIVIDE: Final = 20.0
DOUBLE: Final = 2.0  # issue slots of a float64 instruction
SHUFFLES: Final = 15.0  # butterflies of a warp: five of shuffle, conversion, operation
MEETING: Final = 24.0  # exchange between warps through shared memory: two barriers, two accesses
BARRIER: Final = 4.0  # BAR, and the waits for the copies of a thread
STAGE: Final = 16.0  # a step in stages: addresses of both stages, of each scratch buffer
# Clocks from the issue of an instruction to the issue of a reader, about, on sm_90.
LOAD_CLOCKS: Final = 500.0  # from L2
COPY_CLOCKS: Final = 600.0  # an asynchronous copy, until the barrier that waits for it
SHARED_CLOCKS: Final = 30.0  # from shared memory
BARRIER_CLOCKS: Final = 30.0
SHUFFLE_CLOCKS: Final = 25.0
ROUND: Final = 2.0  # a word of an operand to tf32: FSETP, and IMAD under its predicate
MATRIX_CLOCKS: Final = 33.0  # a matrix instruction, as a chain of sums needs it
CHAIN_CLOCKS: Final = 4.0  # an operation, as a chain of sums needs it
BASE_REGISTERS: Final = 32  # addresses, counters, numbers of thread and block
OPERAND_REGISTERS: Final = 48  # loaded operands that are alive at once, at most


def program_facts(
    program: Program, launches: tuple[Launch, ...], resources: tuple[Resources | None, ...]
) -> tuple[LaunchFacts, ...]:
    """Return the facts of every timed launch, in order.

    Args:
        launches: one per phase.
        resources: as ptxas counts them, of each launch; None: not known.
    """
    return tuple(
        _facts(program, phase, launch, known)
        for phase, launch, known in zip(program.phases, launches, resources, strict=True)
        if not launch.ahead
    )


def _facts(program: Program, phase: Phase, launch: Launch, known: Resources | None) -> LaunchFacts:
    split = split_tasks(phase)
    tasks = -(-bounds(split.number, {})[1] // launch.blocks)  # tasks in one block
    threads = launch.threads // tasks  # threads of a task
    ranges = {name: (0, bounds(n, {})[1] - 1) for name, n in split.loops}
    count = _Count(dict(program.by_name), threads, waits(split.body, threads, ranges))
    count.walk(phase.body, float(tasks), {})
    return LaunchFacts(
        blocks=launch.blocks,
        threads=launch.threads,
        registers=known.registers if known else _guessed(count.registers, launch.threads),
        shared_bytes=known.shared_bytes + launch.dynamic_bytes if known else launch.shared_bytes,
        instructions=count.instructions,
        stall_clocks=count.stalls / tasks,
        matrix_products=count.matrix_products,
        multiply_adds=count.multiply_adds,
        shared_waves=count.waves,
        sectors=count.sectors,
        memory_bytes=sum(count.touched.values()),
    )


def _guessed(registers: int, threads: int) -> int:
    """Return the registers that ptxas gives a thread: an SM has enough for one block."""
    most = min(255, REGISTERS // threads // 8 * 8)
    return min(most, -(-registers // 8) * 8)


def least_registers(phase: Phase) -> int:
    """Return the registers that the register tiles of a thread take, without anything else."""

    def of(stmt: Stmt) -> int:
        inner = max(map(of, stmt_children(stmt)), default=0)
        return inner + (_elements(stmt) if isinstance(stmt, Alloc) else 0)

    return of(phase.body)


def _elements(stmt: Alloc) -> int:
    """Return the 32-bit registers of a thread that a register tile takes; 0 for scratch."""
    if stmt.buffer.scope is not Scope.REGISTER:
        return 0
    words = max(1, SIZE_BYTES[stmt.buffer.dtype] // 4)
    for part in walk_stmt(stmt.body):
        for index in _accesses(part, stmt.buffer.name):
            assert isinstance(part, Tile)
            lanes = {Var(name) for name, _ in part.lanes}
            pairs = zip(index, stmt.buffer.extents, strict=True)
            return words * prod(n for one, n in pairs if one not in lanes)
    return words * prod(stmt.buffer.extents)


def _accesses(stmt: Stmt, name: str) -> list[tuple[Expr, ...]]:
    if not isinstance(stmt, Tile):
        return []
    found = [stmt.store.index] if name in stmt.store.buffers else []
    return found + [read.indices for value in stmt.store.values for read in _reads(value, name)]


def _reads(value: Expr, name: str) -> list[Read]:
    return [one for one in _nodes(value) if isinstance(one, Read) and one.tensor == name]


@dataclass
class _Count:
    """Sums over the warps of a block, of the statements walked so far."""

    buffers: dict[str, Buffer]
    threads: int
    barriers: frozenset[int]  # `id` of the statements before which the threads of a task wait
    instructions: float = 0.0
    stalls: float = 0.0  # clocks of a warp, summed over the tasks
    multiply_adds: float = 0.0
    matrix_products: float = 0.0
    waves: float = 0.0
    sectors: float = 0.0
    registers: int = BASE_REGISTERS
    together: int = 1  # runs of the present statement whose loads do not wait for one another
    held: int = 0  # registers of the tiles around the present statement
    touched: dict[str, int] = field(default_factory=dict)  # bytes of the buffers in global memory

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)

    def walk(self, stmt: Stmt, times: float, at: dict[str, int]) -> None:
        """Count a statement that runs `times` times, outer variables as in `at`."""
        if id(stmt) in self.barriers:
            self.instructions += BARRIER * self.warps * times
            self.stalls += BARRIER_CLOCKS * times
        match stmt:
            case Tile():
                self.tile(stmt, times, at)
            case For():
                self.loop(stmt, times, at)
            case If(cond=cond, then=then, other=other):
                self.instructions += MASK * self.warps * times
                taken = then if evaluate(cond, at) else other
                if taken is not None:
                    self.walk(taken, times, at)
            case Alloc(buffer=buffer, body=body):
                self.buffers[buffer.name] = buffer
                own = _elements(stmt)
                self.held += own
                self.walk(body, times, at)
                self.held -= own
            case _:
                for part in stmt_children(stmt):
                    self.walk(part, times, at)

    def loop(self, loop: For, times: float, at: dict[str, int]) -> None:
        """Count a loop."""
        extent = int(evaluate(loop.extent, at))
        if extent < 1:
            return
        inner = {**at, loop.var: extent // 2}
        if loop.kind is LoopKind.PARALLEL:
            self.walk(loop.body, times, inner)
            return
        runs, together = times * extent, self.together
        self.instructions += LOOP * self.warps * runs
        before = self.instructions
        if _only_loads(loop.body):
            self.together *= extent
        self.walk(loop.body, runs, inner)
        self.together = together
        if _copies_ahead(loop.body):
            self.instructions += STAGE * self.warps * runs
            own = (self.instructions - before) / self.warps / runs  # clocks of a step
            self.stalls += max(0.0, COPY_CLOCKS - own) * runs

    def tile(self, tile: Tile, times: float, at: dict[str, int]) -> None:
        """Count a tile."""
        store = tile.store
        to_memory = self.buffers[store.buffers[0]].scope is not Scope.REGISTER
        lanes = prod(n for _, n in tile.lanes)
        warps = -(-lanes // WARP) if tile.lanes or to_memory else self.warps
        runs = times * warps
        if on_matrices(tile):
            self.matrices(tile, runs, times)
            return
        seen = {node for value in store.values for node in _nodes(value)}
        self.wait(tile, seen, times)
        loads = sum(
            self.access(tile, read.tensor, read.indices, runs, at)
            for read in seen
            if isinstance(read, Read)
        )
        used = frozenset[str]().union(*map(variables, store.index))
        for name in store.buffers:
            self.access(tile, name, store.index, runs * (2 if store.combiner else 1), at)
        self.arithmetic(tile, seen, runs)
        if store.combiner and any(name not in used for name, _ in tile.lanes):
            kept = prod(n for name, n in tile.dims if name in used)
            self.instructions += runs * kept * (SHUFFLES + (MEETING if warps > 1 else 0.0))
        self.registers = max(
            self.registers, BASE_REGISTERS + self.held + min(OPERAND_REGISTERS, int(loads))
        )

    def matrices(self, tile: Tile, runs: float, times: float) -> None:
        """Count the products and the loads of a tile on matrices."""
        products = instructions(tile)
        self.instructions += runs * (products + ROUND * roundings(tile))
        self.matrix_products += runs * products
        held = 0
        for read in operands(tile):
            buffer = self.buffers[read.tensor]
            self.instructions += runs * loads(tile, buffer, read.indices)
            self.waves += runs * matrix_waves(tile, buffer, read.indices)
            held += matrices(tile, read.indices)
        used = frozenset[str]().union(*map(variables, tile.store.index))
        chains = prod(n for name, n in tile.dims if name in used) / MATRICES
        self.stalls += SHARED_CLOCKS * times / self.together
        self.stalls += max(0.0, MATRIX_CLOCKS / chains - 1.0) * products * times
        self.registers = max(
            self.registers, BASE_REGISTERS + self.held + min(OPERAND_REGISTERS, held)
        )

    def access(
        self, tile: Tile, name: str, index: tuple[Expr, ...], runs: float, at: dict[str, int]
    ) -> float:
        """Count an access; return the requests of a thread."""
        buffer = self.buffers[name]
        if buffer.scope is Scope.REGISTER:
            return 0.0
        traffic_of = traffic(tile, buffer, index, at)
        scratch = buffer.scope is Scope.LOCAL
        if not (tile.asynchronous and scratch):  # LDGSTS loads and stores
            address = COPY_ADDRESS if tile.asynchronous else 0.0 if scratch else ADDRESS
            each = 1.0 + address + (0.0 if tile.mask is None else MASK)
            self.instructions += runs * traffic_of.requests * each
        if scratch:
            self.waves += runs * traffic_of.waves
        else:
            self.sectors += runs * traffic_of.sectors
            self.touched[name] = buffer.size_bytes
        return traffic_of.requests

    def wait(self, tile: Tile, seen: set[Expr], times: float) -> None:
        """Count the clocks in which a warp waits for operands of a tile that others do not hide."""
        scopes = {self.buffers[one.tensor].scope for one in seen if isinstance(one, Read)}
        if tile.asynchronous:
            return  # the step waits for its copies
        if scopes - {Scope.REGISTER, Scope.LOCAL}:
            self.stalls += LOAD_CLOCKS * times / self.together
        elif Scope.LOCAL in scopes:
            self.stalls += SHARED_CLOCKS * times / self.together
        if not tile.store.combiner:
            return
        used = frozenset[str]().union(*map(variables, tile.store.index))
        chains = prod(n for name, n in tile.dims if name in used)
        sums = prod(n for _, n in tile.dims)  # sums of a thread, one by one in each chain
        self.stalls += max(0.0, CHAIN_CLOCKS / chains - 1.0) * sums * times
        if any(name not in used for name, _ in tile.lanes):
            self.stalls += SHUFFLES / 3 * SHUFFLE_CLOCKS * times

    def arithmetic(self, tile: Tile, seen: set[Expr], runs: float) -> None:
        """Count the operations: each distinct one at the points of the dims it depends on."""
        extents = dict(tile.dims)
        every = prod(extents.values())
        store = tile.store
        fused: Counter[Expr] = Counter()
        for value in store.values if store.combiner else ():
            self.instructions += runs * every * _slots(value.dtype)
            if store.combiner == "sum" and _is_product(value):
                fused[value] += 1
                self.multiply_adds += runs * every * (value.dtype == "float32")
        for node in seen:
            if node not in fused:
                points = prod(extents[name] for name in variables(node) if name in extents)
                self.instructions += runs * points * _cost(node)


def _copies_ahead(body: Stmt) -> bool:
    """Return whether the body of a loop starts copies for its next iteration."""
    if isinstance(body, Seq | Alloc):
        return any(map(_copies_ahead, stmt_children(body)))
    return isinstance(body, Tile) and body.asynchronous


def _only_loads(body: Stmt) -> bool:
    """Return whether the iterations of a loop load and store, and none needs a sum of another."""
    if isinstance(body, For):
        return _only_loads(body.body)
    return isinstance(body, Tile) and body.store.combiner is None


def _nodes(expr: Expr) -> list[Expr]:
    """Return an expression and its parts; indices of a read are addresses, and left out."""
    if isinstance(expr, Read):
        return [expr]
    return [expr, *(node for part in children(expr) for node in _nodes(part))]


def _is_product(value: Expr) -> bool:
    return isinstance(value, Binary) and value.op == "mul" and "float" in value.dtype


def _slots(dtype: str) -> float:
    return DOUBLE if dtype == "float64" else 1.0


def _cost(node: Expr) -> float:
    """Return the instructions of one operation without its operands."""
    match node:
        case Binary(op="div"):
            return DIVIDE * _slots(node.dtype)
        case Binary(op="floordiv" | "mod"):
            return WHOLE_DIVIDE
        case Call(fn="tf32"):
            return 0.0  # scalar code does not round
        case Call(fn=fn) if fn in FUNCTIONS and FUNCTIONS[fn].roundoffs:
            return FUNCTION * _slots(node.dtype)
        case Binary() | Call():
            return _slots(node.dtype)
        case _ if isinstance(node, Read | Var) or not children(node):
            return 0.0
        case _:
            return 1.0
