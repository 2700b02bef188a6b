"""Rows that grow: appended to a cache, or read from an offset on.

    AppendRows   Concat of two values along an axis of dims: its extent is the sum of theirs
    WindowRows   a Slice that begins at a dim, or a constant whose rows follow from the offset, such
                 as a causal mask behind a past: a run of rows of a table

These are the nodes in which a dim is an offset. They take the place of the exporter's nodes in each
of the graphs of one model at several sizes, before the graphs are merged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ansorpy.errors import GraphError
from ansorpy.graph.graph import Array, Graph, Node, ValueInfo, Weight
from ansorpy.te.dims import Dim, sum_of, with_sums

Sizes = Mapping[str, int]
TABLE: Final = "~rows"  # end of the name of the table behind a constant


@dataclass
class Growth:
    """Graphs of one model at several sizes, with rows that grow as nodes of their own.

    Args:
        graphs: of the same nodes, one for each of the sizes.
        dims: sums among them are known; others are added.
        graph_at: returns the graph at other sizes, for the rows of a table.
    """

    graphs: list[Graph]
    sizes: list[Sizes]
    dims: tuple[Dim, ...]
    graph_at: Callable[[Sizes], Graph]
    _longest: dict[tuple[str, str], Graph] = field(default_factory=dict)

    def run(self) -> "Growth":
        """Replace nodes and constants; graphs of other nodes than the first one stay."""
        first = self.graphs[0]
        alike = all(
            [one.op for one in graph.nodes] == [one.op for one in first.nodes]
            for graph in self.graphs
        )
        if not alike:
            return self
        for number, node in enumerate(first.nodes):
            if node.op == "Concat" and len(node.inputs) == 2:
                self._append(number)
        for number, node in enumerate(first.nodes):
            if node.op == "Slice":
                self._slice(number)
        for name in first.weights:
            self._constant(name)
        return self

    def _append(self, number: int) -> None:
        """Replace a Concat along an axis that is a dim, and of another dim or of a number."""
        node = self.graphs[0].nodes[number]
        axis = node.attrs["axis"]
        rank = len(self.graphs[0].values[node.outputs[0]].shape)
        assert isinstance(axis, int)
        axis %= rank
        parts = [self._dim(self._extents(name, axis)) for name in node.inputs]
        if any(one is None for one in parts) or not any(isinstance(one, Dim) for one in parts):
            return
        terms = [one for one in parts if one is not None]
        if not isinstance(self._dim(self._extents(node.outputs[0], axis)), Dim):
            name = "_".join(one.name if isinstance(one, Dim) else f"n{one}" for one in terms)
            self.dims += (sum_of(name, terms),)
            self.sizes = [with_sums(self.dims, one) for one in self.sizes]
        self._replace(number, Node("AppendRows", node.inputs, node.outputs, {"axis": axis}))

    def _slice(self, number: int) -> None:
        """Replace a Slice of one axis, a sum of dims, that begins at the first of them."""
        first = self.graphs[0]
        node = first.nodes[number]
        starts = [one.weights.get(node.inputs[1]) for one in self.graphs]
        x, y = (first.values[name].fixed_shape for name in (node.inputs[0], node.outputs[0]))
        axes = [axis for axis in range(len(x)) if self._varies(node, axis)]
        if len(axes) != 1 or any(one is None or one.elements != 1 for one in starts):
            return
        (axis,) = axes
        extents = self._extents(node.inputs[0], axis)
        begins = [int(one.array.reshape(-1)[0]) for one in starts if one is not None]
        begins = [a + n if a < 0 else a for a, n in zip(begins, extents, strict=True)]
        start, extent = self._dim(begins), self._dim(extents)
        rows = self._dim(self._extents(node.outputs[0], axis))
        if not isinstance(start, Dim) or rows is None or not _sums(extent, start, rows):
            return
        if any(a != b for k, (a, b) in enumerate(zip(x, y, strict=True)) if k != axis):
            return
        self._replace(number, self._window(node.inputs[0], node.outputs[0], axis, start, rows))

    def _varies(self, node: Node, axis: int) -> bool:
        return self._extents(node.inputs[0], axis) != self._extents(node.outputs[0], axis)

    def _constant(self, name: str) -> None:
        """Replace a constant whose rows follow from the size of a dim by a window of a table."""
        every = [graph.weights[name] for graph in self.graphs if name in graph.weights]
        varies = len({one.digest for one in every}) > 1
        ranks = {len(one.shape) for one in every}
        if len(every) < len(self.graphs) or not varies or len(ranks) > 1 or _begins(every):
            return
        for axis in range(*ranks):
            rows = self._dim([one.shape[axis] for one in every])
            for total in self.dims:
                start = _other(total, rows, self.dims)
                if start is None or not isinstance(rows, Dim):
                    continue
                tables = self._tables(name, axis, start, rows, total)
                if tables is not None:
                    self._insert(name, tables, axis, start, rows)
                    return

    def _tables(
        self, name: str, axis: int, start: Dim, rows: Dim, total: Dim
    ) -> list[Array] | None:
        """Return the table of a constant for each graph, None if its rows are not of one."""
        try:
            graph = self._at_most(start, rows, total)
        except GraphError:
            return None
        if name not in graph.weights:
            return None
        whole, found = graph.weights[name].array, list[Array]()
        ahead = np.zeros_like(whole, shape=_with(whole.shape, axis, start.low))
        whole = np.concatenate([ahead, whole], axis)
        for each, sizes in zip(self.graphs, self.sizes, strict=True):
            wanted = each.weights[name].array
            if whole.ndim != wanted.ndim or whole.shape[axis] != total.high:
                return None
            part = _with(wanted.shape, axis, total.high)
            table = np.ascontiguousarray(whole[tuple(map(slice, part))])
            run = np.arange(wanted.shape[axis]) + sizes[start.name]
            if table.shape != part or run[-1] >= total.high:
                return None
            if not np.array_equal(np.take(table, run, axis), wanted):
                return None
            found.append(table)
        return found

    def _at_most(self, start: Dim, rows: Dim, total: Dim) -> Graph:
        """Return the graph that begins at the least offset, and has all rows of the largest one."""
        key = start.name, rows.name
        if key not in self._longest:
            most = {**self.sizes[0], start.name: start.low, rows.name: total.high - start.low}
            self._longest[key] = self.graph_at(with_sums(self.dims, most))
        return self._longest[key]

    def _insert(
        self, name: str, tables: Sequence[Array], axis: int, start: Dim, rows: Dim | int
    ) -> None:
        """Add the table of a constant, and the node that reads the constant from it."""
        table = f"{name}{TABLE}"
        node = self._window(table, name, axis, start, rows)
        for number, (graph, array) in enumerate(zip(self.graphs, tables, strict=True)):
            made = Weight.of(array, graph.weights[name].dtype)
            values = {**graph.values, table: ValueInfo(table, made.shape, made.dtype)}
            kept = {key: one for key, one in graph.weights.items() if key != name}
            self.graphs[number] = replace(
                graph, nodes=(node, *graph.nodes), values=values, weights={**kept, table: made}
            )

    def _window(self, x: str, output: str, axis: int, start: Dim, rows: Dim | int) -> Node:
        """Return the node of a run of rows of a value."""
        begin, begin_axis = self._input_with(start)
        attrs = {"axis": axis, "start_axis": begin_axis}
        if isinstance(rows, Dim):
            count, count_axis = self._input_with(rows)
            attrs["rows_axis"] = count_axis
            return Node("WindowRows", (x, begin, count), (output,), attrs)
        return Node("WindowRows", (x, begin), (output,), {**attrs, "rows": rows})

    def _input_with(self, dim: Dim) -> tuple[str, int]:
        """Return an input, and an axis of it, that has the size of a dim."""
        wanted = [one[dim.name] for one in self.sizes]
        return next(
            (name, axis)
            for name in self.graphs[0].inputs
            for axis in range(len(self.graphs[0].values[name].shape))
            if self._extents(name, axis) == wanted
        )

    def _extents(self, name: str, axis: int) -> list[int]:
        return [graph.values[name].fixed_shape[axis] for graph in self.graphs]

    def _dim(self, sizes: Sequence[int]) -> Dim | int | None:
        """Return the dim that has these sizes in the graphs, or the number; None if none is it."""
        for dim in self.dims:
            if list(sizes) == [one[dim.name] for one in self.sizes]:
                return dim
        return sizes[0] if len(set(sizes)) == 1 else None

    def _replace(self, number: int, node: Node) -> None:
        named = replace(node, name=self.graphs[0].nodes[number].name)
        for k, graph in enumerate(self.graphs):
            nodes = (*graph.nodes[:number], named, *graph.nodes[number + 1 :])
            self.graphs[k] = replace(graph, nodes=nodes)


def _begins(every: Sequence[Weight]) -> bool:
    """Return True if each constant is the first elements of the first one."""
    whole = every[0].array
    return all(np.array_equal(whole[tuple(map(slice, one.shape))], one.array) for one in every[1:])


def _other(total: Dim, rows: Dim | int | None, dims: Sequence[Dim]) -> Dim | None:
    """Return the other term of a sum of two dims, None if it is no such sum."""
    if not isinstance(rows, Dim) or rows.name not in total.terms or len(total.terms) != 2:
        return None
    names = {one.name: one for one in dims}
    return names.get(next((str(one) for one in total.terms if one != rows.name), ""))


def _sums(total: Dim | int | None, start: Dim, rows: Dim | int) -> bool:
    """Return True if the first is the sum of the others."""
    term = rows.name if isinstance(rows, Dim) else rows
    return isinstance(total, Dim) and sorted(map(str, total.terms)) == sorted(
        map(str, (start.name, term))
    )


def _with(shape: Sequence[int], axis: int, extent: int) -> tuple[int, ...]:
    return (*shape[:axis], extent, *shape[axis + 1 :])
