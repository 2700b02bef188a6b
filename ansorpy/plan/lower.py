"""Lower a state with its structural choices to one symbolic program for all rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ansorpy.errors import LoweringError
from ansorpy.expr.build import ZERO, add, mul, sub
from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    reads,
    substitute,
    transform,
)
from ansorpy.expr.identity import identity
from ansorpy.expr.intervals import simplify
from ansorpy.expr.products import conjunction, is_zero
from ansorpy.loopir.nodes import (
    SIZES,
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
    Store,
)
from ansorpy.loopir.rewrite import map_phases, map_shape, map_stmt
from ansorpy.plan.bounds_inference import BoundsInference
from ansorpy.plan.constraints import constraints
from ansorpy.plan.domain import AxisPart, Domain, domain
from ansorpy.plan.forward import Forward, forwards
from ansorpy.plan.inline import KEPT, Work, works
from ansorpy.plan.pack import Pack, pack_of, pack_phase, packed_index
from ansorpy.plan.params import params
from ansorpy.plan.plan import Plan, StageChoice
from ansorpy.plan.row_blocking import with_row_blocks
from ansorpy.plan.thread_blocks import ThreadBlocks, thread_blocks, with_threads
from ansorpy.plan.vectorize import LaneReduce, vectorize, with_steps
from ansorpy.state.query import fixed_sizes
from ansorpy.state.state import Attached, Combine, Root, State
from ansorpy.state.steps import meaning
from ansorpy.target import Target
from ansorpy.te.dag import Compute, ConstantTensor, Node, Placeholder
from ansorpy.te.dims import Dim, dims_of, extents_of

Choices = tuple[tuple[str, StageChoice], ...]
SUMMED = (LoopKind.GROUP, LoopKind.DOT)  # loops that one instruction sums over


@dataclass(frozen=True)
class Layout:
    """The memory layout of the results of a stage: one buffer per output, axes in `order`."""

    buffers: tuple[Buffer, ...]
    order: tuple[int, ...]  # buffer dimension -> axis position
    bases: tuple[Expr, ...]  # offsets subtracted from the axis values, by buffer dimension

    def index(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the buffer index of axis values given in axis order."""
        return tuple(
            sub(values[axis], base) for axis, base in zip(self.order, self.bases, strict=True)
        )


@dataclass
class Lowering:
    """The working state of one call of `lower`."""

    state: State
    choice: Mapping[str, StageChoice]
    works: Mapping[str, Work]
    target: Target
    domains: dict[str, Domain] = field(default_factory=dict)
    lanes: dict[str, LaneReduce] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    sums: dict[str, Buffer] = field(default_factory=dict)  # partial results, wider than results
    packs: dict[tuple[str, str], Pack] = field(default_factory=dict)
    forwards: Mapping[str, Forward] = field(default_factory=dict)

    @cached_property
    def blocks(self) -> ThreadBlocks:
        """The stages that belong to blocks of threads."""
        return thread_blocks(self.state)

    @property
    def forwarded(self) -> frozenset[str]:
        """The copies that store forwarding has dropped."""
        return frozenset(forward.copy for forward in self.forwards.values())


def lower(state: State, choices: Choices, target: Target) -> Plan:
    """Return the plan of a sketch under its choices.

    Raises:
        LoweringError: the choices do not fit together (an attach point that its consumers cannot
            see, a lane axis that the stage lacks, parallel loops around an attached stage).
    """
    by_stage = dict(choices)
    for stage in state.stages:
        by_stage.setdefault(stage.name, StageChoice(stage.location))
    location = {name: choice.location for name, choice in by_stage.items()}

    def begun(dims: bool) -> Lowering:
        todo = works(state.stages, location, dims)
        return Lowering(state, by_stage, {work.name: work for work in todo}, target)

    work = begun(dims=False)
    work.forwards = forwards(work.works, location, state.dag.outputs)
    program = _lowered(work)
    domains = {name: made for name, made in work.domains.items() if name not in work.forwarded}
    sizes = params(state, domains, target)
    limits = constraints(state, sizes, domains, program, target)
    dims = dims_of(state.dag)
    if not dims:
        return Plan(state, choices, sizes, program, limits)
    unsized = begun(dims=True)
    unsized.forwards = work.forwards
    return Plan(state, choices, sizes, program, limits, _with_dims(_lowered(unsized), dims))


def _lowered(work: Lowering) -> Program:
    """Return the symbolic program, and leave its domains and layouts in `work`."""
    state = work.state
    _make_domains(work)
    constant = _constants(work)
    _make_layouts(work, constant)
    phases: list[Phase] = []
    for name, each in work.works.items():
        for (consumer, _), pack in work.packs.items():
            if consumer == name:
                phases.append(pack_phase(pack, work.layouts))
        if isinstance(work.choice[name].location, Root) and name not in work.forwarded:
            body = _parallel(_nest(work, each), work.choice[name].parallel, name)
            phases.append(Phase(name, body, ahead=name in constant))
    buffers = [
        *(
            b
            for name, layout in work.layouts.items()
            for b in layout.buffers
            if b.scope is not Scope.LOCAL and name not in work.forwards
        ),
        *(buffer for buffer in work.sums.values() if buffer.scope is Scope.GLOBAL),
        *(pack.buffer for pack in work.packs.values()),
    ]
    became = meaning(state)
    return Program(
        state.dag.name, tuple(buffers), tuple(phases), None if became is state.dag else became
    )


def _with_dims(program: Program, dims: tuple[Dim, ...]) -> Program:
    """Return a program with dims: its buffers have room for the largest sizes.

    Raises:
        LoweringError: the program computes another Dag, whose shapes do not follow the dims.
    """
    if program.meaning is not None:
        raise LoweringError("cannot reformulate a computation with dims; expected numbers")
    largest: dict[str, Expr] = {one.var.name: Const(one.counts[1]) for one in dims}

    def room(buffer: Buffer) -> Buffer:
        return map_shape(buffer, lambda extent: simplify(substitute(extent, largest), {}))

    def change(stmt: Stmt) -> Stmt:
        return replace(stmt, buffer=room(stmt.buffer)) if isinstance(stmt, Alloc) else stmt

    sizes = Buffer(SIZES, INDEX, (Const(len(dims)),), Scope.SIZES)
    buffers = (*map(room, program.buffers), sizes)
    changed = map_phases(program, lambda body: map_stmt(body, change))
    return replace(changed, buffers=buffers, dims=dims)


def _constants(work: Lowering) -> set[str]:
    """Return the tensors known before the call: constants, and stages that read only constants."""
    dag = work.state.dag
    constants = {
        node.name
        for node in dag.nodes
        if isinstance(node, ConstantTensor) or (isinstance(node, Placeholder) and node.constant)
    }
    for name, each in work.works.items():
        tensors = {read.tensor for read in each.reads}
        forward = work.forwards.get(name)  # a stage that stores into an output runs in every call
        place = name if forward is None else forward.copy
        sized = not any(isinstance(n, Dim) for n in extents_of(work.state.stage(name).node))
        if tensors and tensors <= constants and place not in dag.outputs and sized:
            constants.add(name)
    return constants


def _make_domains(work: Lowering) -> None:
    """Make the domain of every stage, consumers first, because they determine the region."""
    location = {name: choice.location for name, choice in work.choice.items()}
    fixed = fixed_sizes(work.state)
    for stage in reversed(work.state.stages):
        if stage.name not in work.works:
            continue
        each = work.works[stage.name]
        spans = BoundsInference(work.works, location, work.domains).spans(stage.name)
        kept = None
        if isinstance(stage.role, Combine):
            partial = work.state.stage(stage.role.of)
            whole = domain(partial, work.works[partial.name], {}, fixed)
            kept = vectorize(whole, work.choice[partial.name].lane, work.target)[0].kept_extent
        result, lane = vectorize(
            domain(stage, each, spans, fixed, kept), work.choice[stage.name].lane, work.target
        )
        if stage.dot is not None:
            result = with_steps(result, stage.dot.step, stage.dot.group)
        result = with_row_blocks(result, work.choice, work.works)
        result = with_threads(result, stage, work.blocks, location[stage.name])
        work.domains[stage.name] = result
        if lane is not None:
            work.lanes[stage.name] = lane


def _make_layouts(work: Lowering, constant: set[str]) -> None:
    outputs = set(work.state.dag.outputs)
    for node in (stage.node for stage in work.state.stages):
        if not isinstance(node, Compute):
            shape = tuple(Const(int(n)) for n in node.shape)
            scope = Scope.INPUT if isinstance(node, Placeholder) else Scope.CONSTANT
            given = _given(work, node)
            buffer = Buffer(node.name, node.dtype, shape, scope, given)
            order = tuple(range(len(shape)))
            work.layouts[node.name] = Layout((buffer,), order, (ZERO,) * len(shape))
    for name, each in work.works.items():
        work.layouts[name] = _layout(work, name, each, name in outputs)
        if work.layouts[name].buffers[0].dtype != each.dtypes[0]:
            work.sums[name] = _partial_results(work, each)
        for tensor in work.choice[name].pack:
            if not isinstance(work.choice[tensor].location, Root):
                raise LoweringError(f"cannot pack {tensor!r}: it is not computed at root")
            of, ahead = work.state.stage(tensor).node.shape, tensor in constant
            if any(isinstance(extent, Dim) for extent in of):
                raise LoweringError(f"cannot pack {tensor!r}: a call decides its sizes")
            work.packs[name, tensor] = pack_of(work.domains[name], tensor, of, ahead, work.target)


def _layout(work: Lowering, name: str, each: Work, output: bool) -> Layout:
    domain = work.domains[name]
    attached = isinstance(work.choice[name].location, Attached)
    if attached and output:
        raise LoweringError(f"output {name!r} cannot be attached")
    scope = Scope.LOCAL if attached else Scope.OUTPUT if output else Scope.GLOBAL
    axes = [axis for axis, _ in each.axes]
    bases: list[Expr] = [domain.spans[axis].base for axis in axes]
    widths: list[Expr] = [domain.spans[axis].width for axis in axes]
    order = list(range(len(axes)))
    lane = work.choice[name].lane
    if attached and lane in axes:
        # Vectors are then contiguous in scratch memory for any lane axis.
        order.remove(axes.index(lane))
        order.append(axes.index(lane))
    if each.kept is not None:
        order.append(len(axes))
        bases.append(ZERO)
        widths.append(domain.kept_extent)
    shape = tuple(widths[i] for i in order)
    names = [name if i == 0 else f"{name}.{i}" for i in range(len(each.dtypes))]
    dtypes = each.dtypes if attached or each.kept is not None else each.stored
    given = _given(work, work.state.stage(name).node) if output else ()
    buffers = tuple(
        Buffer(n, dtype, shape, scope, given) for n, dtype in zip(names, dtypes, strict=True)
    )
    return Layout(buffers, tuple(order), tuple(bases[i] for i in order))


def _given(work: Lowering, node: Node) -> tuple[int, ...]:
    """Return the shape of an argument in the Dag; () if its stage has the same."""
    shape = tuple(map(int, work.state.dag.node(node.name).shape))
    return shape if shape != tuple(map(int, node.shape)) else ()


def _partial_results(work: Lowering, each: Work) -> Buffer:
    """Return the buffer of the partial results of a stage at root, wider than its results.

    Partial results are scratch of one iteration of the loops outside of the reduction; if there is
    no such loop, the buffer is one of the program.
    """
    domain = work.domains[each.name]
    inner = _blocks_of_sums(domain)
    shape: list[Expr] = []
    for axis in _axes_of(inner):
        outside = [part for part in domain.of_axis(axis) if part not in inner]
        shape.append(outside[-1].stride if outside else domain.spans[axis].width)
    scope = Scope.LOCAL if _first_reduction(domain) else Scope.GLOBAL
    return Buffer(f"{each.name}.sum", each.dtypes[0], tuple(shape), scope)


def _blocks_of_sums(domain: Domain) -> list[AxisPart]:
    """Return the loops over results inside of the outermost loop of a reduction."""
    return [part for part in domain.parts[_first_reduction(domain) :] if not part.reduce]


def _axes_of(inner: list[AxisPart]) -> list[str]:
    """Return the axes of loops, the axis of the vector loop last: its vectors are contiguous."""
    lane = next((part.axis for part in inner if part.kind is LoopKind.VECTOR), None)
    return sorted(dict.fromkeys(part.axis for part in inner), key=lambda axis: axis == lane)


def _first_reduction(domain: Domain) -> int:
    """Return the position of the outermost loop of a reduction."""
    return next(
        (i for i, part in enumerate(domain.parts) if part.reduce and part.kind not in SUMMED),
        len(domain.parts),
    )


def _nest(work: Lowering, each: Work) -> Stmt:
    """Return the loop nest of a stage, with the stages attached to its loops."""
    domain = work.domains[each.name]
    lane = work.lanes.get(each.name)
    attached: dict[str, list[str]] = {}
    for name in work.works:
        place = work.choice[name].location
        if isinstance(place, Attached) and place.stage == each.name:
            attached.setdefault(place.loop, []).append(name)
    first = _first_reduction(domain)
    written = [part.kind in SUMMED for part in domain.parts]  # these loops belong to the update
    reduce = [part.reduce and not dot for part, dot in zip(domain.parts, written, strict=True)]
    last = max((i for i, one in enumerate(reduce) if one), default=-1)
    band = last
    while band > 0 and domain.parts[band - 1].reduce:
        band -= 1
    _check_start(
        each, {name for part in domain.parts[band:] for name in attached.get(part.loop, ())}
    )

    def begun(loop: Stmt) -> Stmt:
        if lane is not None:
            return lane.around(loop, _start(work, each), _combined(work, each))
        before = domain.parts[:band]
        inner = tuple(p for p in domain.parts[last + 1 :] if p.kind not in SUMMED)
        return Seq((_initial(work, each, inner, before), loop))

    nest = _update(work, each, lane)
    for position, part in reversed(list(enumerate(domain.parts))):
        # The last attached stage may consume earlier stages, so that it goes innermost.
        for name in reversed(attached.get(part.loop, ())):
            nest = _with_scratch(work, name, nest)
        nest = For(part.var, domain.extent(part), nest, part.kind)
        if each.combiner is not None and position == band:
            nest = begun(nest)
        if position == first:
            nest = _stored(work, each, nest)
    return nest


def _stored(work: Lowering, each: Work, loop: Stmt) -> Stmt:
    """Return the loops of a reduction, and after them the store of its rounded partial results."""
    buffer = work.sums.get(each.name)
    if buffer is None:
        return loop
    domain = work.domains[each.name]
    names, index = _target(work, each)
    _, place = _combined(work, each)
    value = Cast(each.stored[0], Read(buffer.name, place, buffer.dtype))
    stmt = _only(domain.kept_within, Store(names, index, (value,)))
    for part in reversed(_blocks_of_sums(domain)):
        stmt = For(part.var, domain.extent(part, zeroed=True), stmt, part.kind)
    stmt = Seq((loop, stmt))
    return Alloc(buffer, stmt) if buffer.scope is Scope.LOCAL else stmt


def _check_start(each: Work, inside: set[str]) -> None:
    """Refuse a start value that reads a stage computed later, inside of the loops."""
    for read in () if each.start is None else reads(each.start):
        if read.tensor in inside:
            raise LoweringError(
                f"cannot compute {read.tensor!r} inside {each.name!r}, which starts from it"
            )


def _with_scratch(work: Lowering, name: str, body: Stmt) -> Stmt:
    stmt: Stmt = Seq((_nest(work, work.works[name]), body))
    for buffer in work.layouts[name].buffers:
        stmt = Alloc(buffer, stmt)
    return stmt


def _target(work: Lowering, each: Work) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
    layout = work.layouts[each.name]
    values = work.domains[each.name].values()
    axes = tuple(values[axis] for axis, _ in each.axes)
    if each.kept is not None:
        axes = (*axes, values[KEPT])
    forward = work.forwards.get(each.name)
    if forward is not None:
        layout = work.layouts[forward.copy]
        axes = forward.index(axes)
    return tuple(buffer.name for buffer in layout.buffers), layout.index(axes)


def _combined(work: Lowering, each: Work) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
    """Return the buffers and the index of the partial results of a stage."""
    buffer = work.sums.get(each.name)
    if buffer is None:
        return _target(work, each)
    made = work.domains[each.name]
    inner = _blocks_of_sums(made)
    index: list[Expr] = []
    for axis in _axes_of(inner):
        place: Expr = ZERO
        for part in made.of_axis(axis):
            if part in inner:
                place = add(place, mul(Var(part.var), part.stride))
        index.append(place)
    return (buffer.name,), tuple(index)


def _update(work: Lowering, each: Work, lane: LaneReduce | None) -> Stmt:
    """Return the store of the innermost loop; a term is added only if its condition holds."""
    values = tuple(_resolve(work, each, body) for body in each.bodies)
    buffers, index = _combined(work, each)
    if lane is not None:
        buffers, index = lane.names, (Var(lane.part.var),)
    within = work.domains[each.name].within
    match values:
        case (Select(cond=cond, then=term, other=other),) if (
            each.combiner == "sum" and is_zero(other) and not reads(cond)
        ):
            return _only((*within, cond), Store(buffers, index, (term,), each.combiner))
        case _:
            return _only(within, Store(buffers, index, values, each.combiner))


def _only(conds: tuple[Expr, ...], stmt: Stmt) -> Stmt:
    """Return a statement that runs only if all conditions hold."""
    return If(conjunction(conds), stmt) if conds else stmt


def _start(work: Lowering, each: Work) -> tuple[Expr, ...]:
    if each.start is not None:
        return (_resolve(work, each, each.start),)
    assert each.combiner is not None
    return identity(each.combiner, each.dtypes)


def _initial(
    work: Lowering, each: Work, inner: tuple[AxisPart, ...], before: tuple[AxisPart, ...]
) -> Stmt:
    """Return the nest that initialises the accumulators, if every outer reduce loop is at 0."""
    made = work.domains[each.name]
    buffers, index = _combined(work, each)
    stmt = _only(made.kept_within, Store(buffers, index, _start(work, each)))
    for part in reversed(inner):
        stmt = For(part.var, made.extent(part, zeroed=True), stmt, part.kind)
    cond: Expr | None = None
    for part in before:
        if part.reduce:
            test = Binary("eq", Var(part.var), ZERO)
            cond = test if cond is None else Binary("and", cond, test)
    return stmt if cond is None else If(cond, stmt)


def _resolve(work: Lowering, each: Work, expr: Expr) -> Expr:
    """Return an expression over buffers and loop variables."""
    values = work.domains[each.name].values()

    def change(part: Expr) -> Expr | None:
        if not isinstance(part, Read):
            return None
        pack = work.packs.get((each.name, part.tensor))
        if pack is not None and part.indices == pack.indices:
            return packed_index(pack)
        layout = work.layouts[part.tensor]
        buffer = layout.buffers[part.output]
        read = Read(buffer.name, layout.index(part.indices), buffer.dtype)
        return read if read.dtype == part.dtype else Cast(part.dtype, read)

    return substitute(transform(expr, change), values)


def _parallel(stmt: Stmt, count: int, name: str) -> Stmt:
    """Return the nest with its `count` leading loops marked parallel."""
    if count == 0:
        return stmt
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.SERIAL:
        raise LoweringError(f"cannot run {count} more loops of {name!r} in parallel: not serial")
    return replace(stmt, body=_parallel(stmt.body, count - 1, name), kind=LoopKind.PARALLEL)
