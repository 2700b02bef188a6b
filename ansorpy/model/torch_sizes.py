"""The sizes of a graph of Dynamo that calls decide, and the ranges that it is compiled for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from ansorpy.te.dims import Dim

FIRST_ENDS: Final = (64, 512)  # ends of ranges, as of kernels: ranges_of divides at 8, 64, 512

Number = int | float
Numbers = tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """The extents and numbers in the arguments of a graph.

    Args:
        axes: placeholder, axis and symbol of each extent that is a symbol.
        ranges: the least and the largest size for which Dynamo made the graph, by symbol.
        lengths: placeholders that are the size of a symbol.
        numbers: placeholders that are other numbers, which a graph is compiled for.
    """

    axes: tuple[tuple[int, int, str], ...]
    ranges: Mapping[str, tuple[float, float]]
    lengths: Mapping[int, str]
    numbers: tuple[int, ...]

    def keeping(self, symbols: Collection[str]) -> "GraphSizes":
        """Return the sizes of a graph in which other symbols are numbers."""
        lengths = {n: one for n, one in self.lengths.items() if one in symbols}
        numbers = {*self.numbers, *self.lengths} - {*lengths}
        return GraphSizes(
            tuple(one for one in self.axes if one[-1] in symbols),
            {name: one for name, one in self.ranges.items() if name in symbols},
            lengths,
            tuple(sorted(numbers)),
        )

    def at(self, values: Sequence[Any]) -> dict[str, int]:
        """Return the size of each symbol of a call."""
        return {symbol: int(values[n].shape[axis]) for n, axis, symbol in reversed(self.axes)}

    def numbers_at(self, values: Sequence[Any]) -> Numbers:
        """Return the other numbers of a call."""
        return tuple(number_of(values[n]) for n in self.numbers)

    def dynamic_shapes(self, inputs: Sequence[int]) -> tuple[dict[int, Any], ...]:
        """Return the open extents of some placeholders for `torch.export`."""
        dims = {}
        for symbol, (low, high) in self.ranges.items():
            ends = {"max": int(high)} if high < torch.iinfo(torch.int64).max else {}
            dims[symbol] = torch.export.Dim(symbol, min=int(low), **ends)
        return tuple(
            {axis: dims[symbol] for k, axis, symbol in self.axes if k == n} for n in inputs
        )

    def dim(self, symbol: str, size: int, last: int, max_size: int | None) -> Dim:
        """Return the range to compile a graph for at a call of a size beyond the last range.

        It ends at `max_size`; at the largest size that Dynamo knows up to 512; else at 64, 512, or
        the least power of two from there on.
        """
        low, most = self.ranges[symbol]
        ends = [max_size or FIRST_ENDS[0], *FIRST_ENDS, 1 << (size - 1).bit_length()]
        end = next(one for one in ends if one >= size)
        if max_size is None and size <= most <= FIRST_ENDS[-1]:
            end = int(most)
        return Dim(symbol, int(low), int(min(max(end, last), most)))


NO_SIZES: Final = GraphSizes((), {}, {}, ())  # sizes of a graph whose extents are numbers


def graph_sizes(module: Any, frozen: Sequence[int], examples: Sequence[Any]) -> GraphSizes:
    """Return the sizes of a graph of Dynamo; all are other numbers if some are computed.

    Args:
        frozen: placeholders that are parameters.
        examples: the values of Dynamo's trace.
    """
    nodes = module.graph.find_nodes(op="placeholder")
    axes: list[tuple[int, int, str]] = []
    ranges: dict[str, tuple[float, float]] = {}
    computed = False
    for n, node in enumerate(nodes):
        value = node.meta.get("example_value")
        for axis, extent in enumerate(() if n in frozen else getattr(value, "shape", ())):
            if not isinstance(extent, torch.SymInt) or extent.node.expr.is_number:
                continue
            computed = computed or not extent.node.expr.is_Symbol
            bounds = extent.node.shape_env.bound_sympy(extent.node.expr)
            symbol = str(extent.node.expr)
            ranges[symbol] = max(1.0, float(bounds.lower)), float(bounds.upper)
            axes.append((n, axis, symbol))
    lengths = {
        n: str(one.node.expr)
        for n, one in enumerate(examples)
        if isinstance(one, torch.SymInt) and str(one.node.expr) in ranges
    }
    numbers = tuple(
        n
        for n, (node, one) in enumerate(zip(nodes, examples, strict=True))
        if (n not in lengths and not isinstance(one, torch.Tensor)) or is_number(node, one)
    )
    found = GraphSizes(tuple(axes), ranges, lengths, numbers)
    known = not computed and {*ranges} == {*lengths.values()}
    return found if known else found.keeping(())


def is_number(node: Any, value: Any) -> bool:
    """Return True for a placeholder in which Dynamo passes a float: it is read by `item` alone."""
    return (
        isinstance(value, torch.Tensor)
        and not value.shape
        and bool(node.users)
        and all(one.op == "call_method" and one.target == "item" for one in node.users)
    )


def number_of(value: Any) -> Number:
    """Return the number in an argument of a graph."""
    made: Number = value.item() if isinstance(value, torch.Tensor) else value
    return made


def fix_numbers(graph: Any, sizes: GraphSizes, numbers: Numbers) -> None:
    """Remove the placeholders that are no tensors from a graph.

    Sizes are read from tensors; other numbers become constants.
    """
    nodes = graph.find_nodes(op="placeholder")
    first = {symbol: (nodes[n], axis) for n, axis, symbol in reversed(sizes.axes)}
    last = nodes[-1]
    for n, symbol in sizes.lengths.items():
        with graph.inserting_after(last):
            read = graph.call_function(torch.ops.aten.sym_size.int, first[symbol])
        nodes[n].replace_all_uses_with(read)
    for n, number in zip(sizes.numbers, numbers, strict=True):
        items = [one for one in nodes[n].users if one.target == "item"]
        for one in items or [nodes[n]]:
            _replace(one, number)
        for one in items:
            graph.erase_node(one)
    for n in (*sizes.lengths, *sizes.numbers):
        graph.erase_node(nodes[n])


def _replace(node: Any, number: Number) -> None:
    def constant(source: Any) -> Any:
        return number if source is node else source

    for user in list(node.users):
        user.args = torch.fx.node.map_arg(user.args, constant)
        user.kwargs = torch.fx.node.map_arg(user.kwargs, constant)
