"""A graph with dims at given sizes: the graph of numbers that a call computes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorpy.errors import GraphError
from ansorpy.graph.graph import Array, Extent, Graph, ValueInfo, Weight
from ansorpy.te.dims import Dim, with_sums


def at_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """Return the graph without dims that a call of these sizes computes.

    Args:
        sizes: the size of each dim by name.
    """

    def numbers(extents: Sequence[Extent]) -> tuple[Extent, ...]:
        return tuple(sizes[one.name] if isinstance(one, Dim) else one for one in extents)

    def value(info: ValueInfo) -> ValueInfo:
        return replace(info, shape=numbers(info.shape))

    return replace(
        graph,
        values={name: value(info) for name, info in graph.values.items()},
        weights={name: weight_at(weight, sizes) for name, weight in graph.weights.items()},
    )


def weight_at(weight: Weight, sizes: Mapping[str, int]) -> Weight:
    """Return the values of a weight at given sizes of dims."""
    if not weight.dims:
        return weight
    array: Array = weight.array
    if weight.sizes:
        flat = [sizes[one.name] if isinstance(one, Dim) else one for one in weight.sizes]
        array = array.dtype.type(flat).reshape(array.shape)
    first = tuple(slice(sizes[one.name] if isinstance(one, Dim) else None) for one in weight.shape)
    return Weight.of(array[first], weight.dtype)


def sizes_of(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, int]:
    """Return the size of each dim of a call, given arrays of the inputs by name.

    Raises:
        GraphError: an input is absent, has another rank, two inputs have different sizes of a dim,
            or a size is out of range.
    """
    found: dict[str, int] = {}
    for name in graph.inputs:
        shape = graph.values[name].fixed_shape
        given = inputs[name].shape if name in inputs else ()
        known = len(given) == len(shape) and all(
            one.has(size) and found.setdefault(one.name, size) == size
            for one, size in zip(shape, given, strict=True)
            if isinstance(one, Dim)
        )
        if not known:
            raise GraphError(
                f"cannot run {graph.name!r} because input {name!r} is absent or has shape"
                f" {list(given)}; expected {list(shape)}, and one size of each dim"
            )
    made = with_sums(graph.dims, found)
    for one in graph.dims:
        if found.get(one.name, made[one.name]) != made[one.name] or not one.has(made[one.name]):
            raise GraphError(
                f"cannot run {graph.name!r} because {one.name} is {found.get(one.name)}; expected"
                f" {' + '.join(map(str, one.terms))} = {made[one.name]}, in {one!r}"
            )
    return made
