"""Memory of a bundle: the place of every value, and the packed weights of every step.

The native driver takes one array of pointers: inputs, outputs, the sizes of a call if the model has
dims, then the four areas. Every value has room for its largest size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ansorpy.bundle.arena import ArenaPlan, arena_of, in_place
from ansorpy.bundle.layout import rows_of
from ansorpy.bundle.plan import ModelPlan
from ansorpy.bundle.steps import KernelStep
from ansorpy.bundle.tensor_file import TensorFile, tensor_file
from ansorpy.graph.graph import Weight

AREAS: Final = ("weights", "packed", "arena", "scratch")  # arguments behind inputs and outputs
SIZES: Final = "sizes"  # argument before them, of models with dims: int64_t per dim


@dataclass(frozen=True, slots=True)
class Place:
    """The number of an argument of the driver, and bytes from where it points."""

    argument: int
    at: int = 0

    def behind(self, size_bytes: int) -> "Place":
        """Return the place `size_bytes` behind this one."""
        return Place(self.argument, self.at + size_bytes)


@dataclass(frozen=True, slots=True)
class Packing:
    """A kernel's weights, packed once; every step with these weights reads them.

    `reads` are the places of the kernel's inputs: of weights only, None for the others.
    """

    kernel: str
    reads: tuple[Place | None, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Copy:
    """An output that is no value of its own: its bytes are copied after the last step.

    `size_bytes` counts one row if `rows` is the number of the dim that counts rows.
    """

    source: Place
    goal: Place
    size_bytes: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Places of all values; sizes of the areas; packed weights and copies.

    `packed_at` has, per step, the place of its packed weights. `scratch_bytes` is the largest
    scratch of any kernel: all steps use the same.
    """

    places: Mapping[str, Place]
    arguments: Mapping[str, int]  # the numbers of the areas, and of the sizes
    weights: TensorFile
    arena: ArenaPlan
    packings: tuple[Packing, ...]
    packed_at: tuple[int, ...]
    packed_bytes: int
    scratch_bytes: int
    copies: tuple[Copy, ...]

    @property
    def count(self) -> int:
        """The number of the driver's arguments."""
        return max(self.arguments.values()) + 1


def memory_of(plan: ModelPlan) -> ModelMemory:
    """Return the memory plan of a model.

    Raises:
        SpecError: the largest sizes of its dims need too much memory.
    """
    given, results = len(plan.inputs), len(plan.outputs)
    areas = (SIZES, *AREAS) if plan.dims else AREAS
    arguments = {area: given + results + number for number, area in enumerate(areas)}
    arena = arena_of(plan)
    stored = _stored(plan)
    file = tensor_file([plan.values[name] for name in dict.fromkeys(stored.values())])
    own = in_place(plan)
    roots = {name: Place(number) for number, name in enumerate(plan.inputs)}
    roots |= {name: Place(given + number) for name, number in own.items()}
    roots |= {n: Place(arguments["weights"], file.places[one]) for n, one in stored.items()}
    roots |= {name: Place(arguments["arena"], at) for name, at in arena.places.items()}
    places = {
        name: roots[span.root].behind(span.at_bytes)
        for name, span in plan.spans.items()
        if span.root in roots
    }
    packings, packed_at, packed_bytes = _packings(plan, places)
    return ModelMemory(
        places=places,
        arguments=arguments,
        weights=file,
        arena=arena,
        packings=packings,
        packed_at=packed_at,
        packed_bytes=packed_bytes,
        scratch_bytes=max((k.library.scratch_bytes for k in plan.kernels), default=0),
        copies=tuple(
            _copy(plan, output.value, places[output.value], Place(given + number))
            for number, output in enumerate(plan.outputs)
            if own.get(plan.roots[output.value]) != number or not plan.is_whole(output.value)
        ),
    )


def _copy(plan: ModelPlan, name: str, source: Place, goal: Place) -> Copy:
    """Return the copy of a value: of the rows of a call, if a dim counts them."""
    info = plan.values[name]
    rows = rows_of(info.fixed_shape)
    if rows is None:
        return Copy(source, goal, info.size_bytes)
    return Copy(source, goal, info.size_bytes // rows.high, plan.dims.index(rows))


def _stored(plan: ModelPlan) -> dict[str, str]:
    """Return for each weight the first one of equal dtype, shape and bytes: that one is stored."""
    first: dict[Weight, str] = {}
    return {name: first.setdefault(weight, name) for name, weight in plan.weights.items()}


def _packings(
    plan: ModelPlan, places: Mapping[str, Place]
) -> tuple[tuple[Packing, ...], tuple[int, ...], int]:
    """Return the packed weights, their place per step, and their size in bytes."""
    ends: dict[tuple[str, tuple[Place | None, ...]], int] = {}
    packed_at = []
    end = 0
    for step in plan.steps:
        kernel = plan.by_name[step.kernel] if isinstance(step, KernelStep) else None
        if kernel is None or not kernel.library.packed_bytes:
            packed_at.append(0)
            continue
        reads = tuple(
            places[name] if number in kernel.weights else None
            for number, name in enumerate(step.reads)
        )
        if (kernel.name, reads) not in ends:
            ends[kernel.name, reads] = end
            end += kernel.library.packed_bytes
        packed_at.append(ends[kernel.name, reads])
    packings = tuple(Packing(kernel, reads, at) for (kernel, reads), at in ends.items())
    return packings, tuple(packed_at), end
