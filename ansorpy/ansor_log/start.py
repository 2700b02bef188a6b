"""The program of a replayed line as a record, which starts a search (ADR-0021).

A record names a sketch that the rules derive, structural choices and a row. The sketch is that of
equal loops; fusions and annotations become choices, lengths become the nearest legal row.
"""

from collections.abc import Iterator as Places
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ansorpy.ansor_log.line import LogLine
from ansorpy.ansor_log.replay import Iterator, Replayed
from ansorpy.errors import LoweringError, RecordError, shown
from ansorpy.measure.outcome import Measured
from ansorpy.plan.flatten import flattened
from ansorpy.plan.lower import lower
from ansorpy.plan.plan import Plan, Size, StageChoice
from ansorpy.population import nearest_legal
from ansorpy.records import Carried, Record, carried, task_key
from ansorpy.replay import check_row, plan_text
from ansorpy.state.state import Inlined, Location, Root, Stage, State
from ansorpy.target import Target
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Compute, Dag


@dataclass(frozen=True, slots=True)
class Start:
    """The program of a line among our plans."""

    plan: Plan
    row: tuple[int, ...]
    moved: tuple[str, ...]  # sizes whose length is not that of the line, such as "C.j.3: 8 -> 16"


@dataclass(frozen=True)
class Starter:
    """The sketches of one task, among which the states of lines are looked up.

    Args:
        sketches: all that the rules derive from `dag`.
        rules: name and version of the rule set.
    """

    dag: Dag
    target: Target
    rules: str
    sketches: tuple[State, ...]

    @cached_property
    def flat(self) -> tuple[State, ...]:
        """The sketches as plans have them."""
        return tuple(map(flattened, self.sketches))

    @cached_property
    def carried(self) -> Carried:
        """The Dag and its structure, as records carry them."""
        return carried(self.dag)

    def start(self, replayed: Replayed) -> Start:
        """Return the program of a replayed line.

        Raises:
            RecordError: the rules derive no such sketch, or our plans lack its choices.
        """
        ours = flattened(replayed.state)
        sketch = next((one for one in self.flat if _same(one, ours)), None)
        if sketch is None:
            raise RecordError(
                f"cannot start a search of {self.dag.name} from the line because its loops are"
                f" none of {len(self.flat)} sketches; expected loops that the rules derive"
            )
        plan = self._plan(replayed, sketch)
        asked = tuple(_asked(replayed, size) for size in plan.sizes)
        row = nearest_legal(plan, asked)
        check_row(plan, row)
        moved = tuple(
            f"{size.name}: {wanted} -> {value}"
            for size, wanted, value in zip(plan.sizes, asked, row, strict=True)
            if wanted != value and size.name in replayed.lengths
        )
        return Start(plan, row, moved)

    def record(self, line: LogLine, start: Start) -> Record:
        """Return the record of a line: its claim is the times of the log.

        Raises:
            RecordError: the program of the line failed.
        """
        if line.error:
            raise RecordError(
                f"cannot start from the line because its program failed (error {line.error});"
                " expected error 0"
            )
        workload = workload_key(self.dag)
        return Record(
            key=task_key(workload, self.target),
            workload=workload,
            rules=self.rules,
            plan=plan_text(start.plan),
            row=start.row,
            outcome=Measured(line.times_s),
            versions=(("ansor", line.version),),
            created_s=line.created_s,
            **self.carried,
        )

    def _plan(self, replayed: Replayed, sketch: State) -> Plan:
        """Return the plan with the choices of the line, without the vectors if they do not fit."""
        reasons = []
        for vectors in (True, False):
            try:
                return lower(sketch, tuple(_choices(replayed, sketch, vectors)), self.target)
            except LoweringError as error:
                reasons.append(shown(error, 200))
        raise RecordError(
            f"cannot start a search of {self.dag.name} from the line because {reasons[0]};"
            " expected the choices of a plan"
        )


def _same(sketch: State, state: State) -> bool:
    """Return whether a state has the loops of a sketch; its free stages may be anywhere."""
    if {stage.name for stage in sketch.stages} != {stage.name for stage in state.stages}:
        return False
    return all(_alike(stage, state.stage(stage.name)) for stage in sketch.stages)


def _alike(sketched: Stage, stage: Stage) -> bool:
    fixed: Location | None = None if isinstance(sketched.location, Root) else sketched.location
    same = (sketched.node, sketched.loops, sketched.role, sketched.dot)
    return same == (stage.node, stage.loops, stage.role, stage.dot) and (
        fixed is None or fixed == stage.location
    )


def _choices(replayed: Replayed, sketch: State, vectors: bool) -> Places[tuple[str, StageChoice]]:
    for stage in sketch.stages:
        if not isinstance(stage.node, Compute) or isinstance(stage.location, Inlined):
            continue
        location = replayed.state.stage(stage.name).location
        if isinstance(location, Inlined):
            yield stage.name, StageChoice(location)
            continue
        iterators = replayed.iterators[stage.name]
        parallel = _parallel(stage, iterators) if isinstance(location, Root) else 0
        yield (
            stage.name,
            StageChoice(location, parallel, _lane(stage, iterators) if vectors else None),
        )


def _parallel(stage: Stage, iterators: Sequence[Iterator]) -> int:
    """Return the number of leading loops of a sketch that the parallel iterators cover."""
    covered: set[str] = set()
    for iterator in iterators:
        if iterator.mark != "parallel":
            break
        covered |= {*iterator.loops}
    count = 0
    for loop in stage.loops:
        if loop.name not in covered and not set(loop.axes) <= covered:
            break
        count += 1
    return count


def _lane(stage: Stage, iterators: Sequence[Iterator]) -> str | None:
    """Return the axis of the innermost vectorized loop; a fused iterator has one lane axis."""
    marked = [iterator.loops[-1] for iterator in iterators if iterator.mark == "vectorize"]
    for loop in stage.loops:
        if marked and (loop.name == marked[-1] or marked[-1] in loop.axes):
            return "@".join(loop.axes)
    return None


def _asked(replayed: Replayed, size: Size) -> int:
    """Return the value of a size in the line, or the least one of a size that a log lacks."""
    if size.role == "tile":
        return replayed.lengths.get(size.name, size.multiple_of)
    if size.role == "unroll":
        return replayed.unroll.get(size.name.removesuffix(".unroll"), 0)
    return min(size.values, default=1)
