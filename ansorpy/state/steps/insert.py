"""Steps that insert a stage: caches, and partial results of a reduction."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ansorpy.errors import StepError
from ansorpy.expr.expr import Expr, Read, Var, transform
from ansorpy.state.axis import AxisKind, Loop
from ansorpy.state.state import Combine, Partial, Root, Stage, State, whole_loops
from ansorpy.state.steps.guard import compute_of, free_name, no_guest, untouched
from ansorpy.te.dag import Attrs, Axis, Compute, Node


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """Compute `stage` in a cache first: "C.local" takes over its work, C copies the result.

    The new stage comes just before; its node is the original one renamed, attributes included.
    """

    code: ClassVar[str] = "CHW"
    stage: str
    scope: str = "local"

    @property
    def cache(self) -> str:
        """The name of the stage that is inserted."""
        return f"{self.stage}.{self.scope}"

    def apply(self, state: State) -> State:
        """Return the state with the cache; StepError if the stage has been changed before."""
        stage, node = compute_of(state, self.stage, self)
        free_name(state, self.cache, self)
        untouched(state, stage, self)
        indices = tuple(Var(axis.name) for axis in node.axes)
        body = tuple(Read(self.cache, indices, dtype, q) for q, dtype in enumerate(node.dtypes))
        work = replace(node, name=self.cache)
        copy = Compute(node.name, node.axes, body, node.dtypes)
        at = state.index[self.stage]
        pair = (Stage(work, whole_loops(work), dot=stage.dot), Stage(copy, whole_loops(copy)))
        return replace(state, stages=(*state.stages[:at], *pair, *state.stages[at + 1 :]))

    def __str__(self) -> str:
        return f"{self.cache} = {self.stage}.cache_write({self.scope!r})"


@dataclass(frozen=True, slots=True)
class CacheRead:
    """Let `readers` take `stage` from a copy, "A.shared", that comes just after it."""

    code: ClassVar[str] = "CHR"
    stage: str
    readers: tuple[str, ...]
    scope: str = "shared"

    @property
    def cache(self) -> str:
        """The name of the stage that is inserted."""
        return f"{self.stage}.{self.scope}"

    def apply(self, state: State) -> State:
        """Return the state with the copy; StepError if a reader does not read the stage."""
        source = state.stage(self.stage)
        free_name(state, self.cache, self)
        if not self.readers:
            raise StepError(f"{self}: no readers")
        for name in self.readers:
            stage, node = compute_of(state, name, self)
            if all(read.tensor != self.stage for read in node.reads):
                raise StepError(f"{self}: {name!r} does not read {self.stage!r}")
            state = state.with_stage(replace(stage, node=self._redirected(node)))
        copy = self._copy(source.node)
        at = state.index[self.stage] + 1
        new = Stage(copy, whole_loops(copy))
        return replace(state, stages=(*state.stages[:at], new, *state.stages[at:]))

    def _redirected(self, node: Compute) -> Compute:
        def change(expr: Expr) -> Expr | None:
            if isinstance(expr, Read) and expr.tensor == self.stage:
                return replace(expr, tensor=self.cache)
            return None

        start = None if node.start is None else transform(node.start, change)
        return replace(node, body=tuple(transform(e, change) for e in node.body), start=start)

    def _copy(self, node: Node) -> Compute:
        axes = tuple(Axis(f"i{d}", extent) for d, extent in enumerate(node.shape))
        if isinstance(node, Compute):
            axes = node.axes
        dtypes = node.dtypes if isinstance(node, Compute) else (node.dtype,)
        indices = tuple(Var(axis.name) for axis in axes)
        body = tuple(Read(self.stage, indices, dtype, q) for q, dtype in enumerate(dtypes))
        return Compute(self.cache, axes, body, dtypes, attrs=Attrs())

    def __str__(self) -> str:
        readers = ", ".join(self.readers)
        return f"{self.cache} = {self.stage}.cache_read({self.scope!r}, [{readers}])"


@dataclass(frozen=True, slots=True)
class Rfactor:
    """Keep `loop`, one of the two parts of the reduction, as an axis of partial results.

    "C.rf" (role Partial) gets the spatial loops, the kept loop as a spatial one, then the other
    part; C (role Combine) gets the spatial loops and the kept loop, which it reduces. Neither
    node changes but for the name: the roles say how to read them. A `start` value belongs to C.
    """

    code: ClassVar[str] = "RF"
    stage: str
    loop: str

    @property
    def partial(self) -> str:
        """The name of the stage that is inserted."""
        return f"{self.stage}.rf"

    def apply(self, state: State) -> State:
        """Return the state with the partial results.

        Raises:
            StepError: the loops are not whole spatial ones followed by one reduction in two
                parts, `loop` is neither part, or the stage is not at root.
        """
        stage, node = compute_of(state, self.stage, self)
        free_name(state, self.partial, self)
        spatial, parts = self._shape(state, stage)
        kept = next((loop for loop in parts if loop.name == self.loop), None)
        if kept is None:
            names = ", ".join(loop.name for loop in parts)
            raise StepError(f"{self}: the parts of the reduction are {names}")
        (other,) = (loop for loop in parts if loop is not kept)
        outer = replace(kept, kind=AxisKind.SPATIAL)
        work = replace(node, name=self.partial)
        rows = Partial(self.stage, self.loop)
        at = state.index[self.stage]
        pair = (
            Stage(work, (*spatial, outer, other), role=rows),
            replace(stage, loops=(*spatial, kept), role=Combine(self.partial)),
        )
        return replace(state, stages=(*state.stages[:at], *pair, *state.stages[at + 1 :]))

    def _shape(self, state: State, stage: Stage) -> tuple[tuple[Loop, ...], tuple[Loop, ...]]:
        spatial = tuple(loop for loop in stage.loops if loop.kind is AxisKind.SPATIAL)
        parts = stage.loops[len(spatial) :]
        if stage.dot is not None or stage.prepares:
            raise StepError(f"{self}: {self.stage!r} serves an instruction, in one piece")
        if stage.role is not None or stage.location != Root():
            raise StepError(f"{self}: {self.stage!r} is not an unchanged stage at root")
        if any(loop.extent is None for loop in spatial):
            raise StepError(f"{self}: a spatial loop of {self.stage!r} is divided")
        if len(parts) != 2 or any(loop.kind is not AxisKind.REDUCE for loop in parts):
            raise StepError(f"{self}: the reduction of {self.stage!r} is not one loop in two parts")
        if parts[0].axes != parts[1].axes or parts[1].length is None:
            raise StepError(
                f"{self}: the reduce loops of {self.stage!r} are not parts of one split"
            )
        no_guest(state, self.stage, tuple(loop.name for loop in stage.loops), self)
        return spatial, parts

    def __str__(self) -> str:
        return f"{self.partial} = {self.stage}.rfactor({self.loop})"
