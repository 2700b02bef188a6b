"""A convolution as transforms around a matrix product for every place in the transformed window."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from ansorpy.expr.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    substitute,
    variables,
)
from ansorpy.rewrites.winograd.combine import chosen, product
from ansorpy.rewrites.winograd.matrices import Transforms, transforms
from ansorpy.rewrites.winograd.names import fresh
from ansorpy.rewrites.winograd.recognise import Convolution, Slide
from ansorpy.te.dag import Axis, Compute

WIDE = "float64"  # in which weights are transformed: their rounding errors then do not count


def rewrite(conv: Convolution, outputs: int, data_shape: tuple[int, ...]) -> tuple[Compute, ...]:
    """Return nodes that compute a convolution by F(outputs, taps) in every sliding dimension.

    The last one has the name, axes and dtype of the convolution; the others are called
    "<name>.<part>", producers first ("<name>.parted" and "<name>.parted.<part>" where it is
    dilated: the last one then puts the remainders together):

        window      the data, channels last, with zeros where the last tiles reach beyond it
        data0 ...   B^T d B, one sliding dimension after the other
        weights0 .. G g G^T, likewise, in double precision
        products    for every place in the transformed window, a sum over the channels
        output0 ..  A^T m A, likewise; the last step is the convolution itself

    Args:
        data_shape: of the tensor that the data is read from.

    Raises:
        SpecError: there are no such transforms for a number of taps.
    """
    return _Rewrite(conv, outputs, data_shape).nodes()


@dataclass(frozen=True, slots=True)
class _Dimension:
    """One sliding dimension: names of its axes in the new nodes, and its transforms."""

    slide: Slide
    tiles: int  # how many cover the output
    reach: int  # how many data they take
    tile: str  # axis: which tile
    at: str  # axis: place in the transformed window
    out: str  # axis: place in the tile of outputs, or of the data not yet transformed
    matrices: Transforms


class _Rewrite:
    def __init__(self, conv: Convolution, outputs: int, data_shape: tuple[int, ...]) -> None:
        self.conv, self.m, self.data_shape = conv, outputs, data_shape
        node = conv.node
        self.name, self.dtype = node.name, node.dtype
        self.extents = {axis.name: axis.extent for axis in (*node.axes, *node.reduce_axes)}
        taken = set(self.extents)
        self.dims = []
        for slide in conv.slides:
            tile, at, out = (fresh(f"{slide.axis}_{p}", taken) for p in ("tile", "at", "out"))
            tiles = ceil(self.extents[slide.axis] / outputs)
            reach = tiles * outputs + slide.taps - 1
            matrices = transforms(outputs, slide.taps)
            self.dims.append(_Dimension(slide, tiles, reach, tile, at, out, matrices))

    def nodes(self) -> tuple[Compute, ...]:
        """Return all nodes, producers first."""
        window = self._window()
        data = self._data(window)
        weights = self._weights()
        products = self._products(data[-1], weights[-1])
        made = (window, *data, *weights, products, *self._outputs(products))
        return made if self.conv.whole is None else (*made, self.conv.whole)

    def _window(self) -> Compute:
        conv = self.conv
        at = {dim.slide.position: dim for dim in self.dims}
        indices: list[Expr] = []
        inside: Expr | None = None
        for position, index in enumerate(conv.data.indices):
            dim = at.get(position)
            if dim is None:
                indices.append(index)
                continue
            slide = dim.slide
            place: Expr = Var(slide.axis)
            if slide.step > 1:
                place = Binary("mul", place, Const(slide.step))
            if slide.part:
                place = Binary("add", place, Var(slide.part))
            indices.append(place)
            last = slide.step * (dim.reach - 1) + (slide.step - 1 if slide.part else 0)
            if last >= self.data_shape[position]:
                test = Binary("lt", place, Const(self.data_shape[position]))
                inside = test if inside is None else Binary("and", inside, test)
        body: Expr = Read(conv.data.tensor, tuple(indices), self.dtype, conv.data.output)
        if inside is not None:
            body = Select(inside, body, Const(0.0, self.dtype))
        rows = tuple((dim.slide.axis, dim.reach) for dim in self.dims)
        axes = (*self._own(conv.batch), *rows, *self._own(conv.depth))
        return _compute(f"{self.name}.window", axes, body, self.dtype)

    def _data(self, window: Compute) -> list[Compute]:
        conv = self.conv

        def first(places: Sequence[Expr]) -> Read:
            rows: list[Expr] = [
                Binary("add", Binary("mul", Var(dim.tile), Const(self.m)), place)
                for dim, place in zip(self.dims, places, strict=True)
            ]
            indices = [*map(Var, conv.batch), *rows, *map(Var, conv.depth)]
            return Read(window.name, tuple(indices), self.dtype)

        fixed = (*self._own(conv.batch), *self._tiles(), *self._own(conv.depth))
        nodes: list[Compute] = []
        for number, dim in enumerate(self.dims):
            done, left = self.dims[:number], self.dims[number + 1 :]
            terms: list[Expr] = []
            for place in range(dim.matrices.products):
                places = (*self._at(done), Const(place), *self._out(left))
                rest = tuple(Var(name) for name, _ in fixed)
                before = nodes[-1].name if nodes else None
                read = Read(before, (*places, *rest), self.dtype) if before else first(places)
                terms.append(read)
            body = chosen(Var(dim.at), product(dim.matrices.data, terms, self.dtype))
            axes = (
                *((d.at, d.matrices.products) for d in (*done, dim)),
                *((d.out, d.matrices.products) for d in left),
                *fixed,
            )
            nodes.append(_compute(f"{self.name}.data{number}", axes, body, self.dtype))
        return nodes

    def _weights(self) -> list[Compute]:
        conv = self.conv
        used = {name for index in conv.weights.indices for name in variables(index)}
        along = (*conv.batch, *conv.depth, *conv.filters)
        fixed = self._own(name for name in along if name in used)
        nodes: list[Compute] = []
        for number, dim in enumerate(self.dims):
            done, left = self.dims[:number], self.dims[number + 1 :]
            terms: list[Expr] = []
            for place in range(dim.slide.taps):
                if nodes:
                    places = (*self._at(done), Const(place), *(Var(d.slide.tap) for d in left))
                    rest = tuple(Var(name) for name, _ in fixed)
                    terms.append(Read(nodes[-1].name, (*places, *rest), WIDE))
                else:
                    terms.append(self._weight({dim.slide.tap: Const(place)}))
            body = chosen(Var(dim.at), product(dim.matrices.weights, terms, WIDE))
            axes = (
                *((d.at, d.matrices.products) for d in (*done, dim)),
                *((d.slide.tap, d.slide.taps) for d in left),
                *fixed,
            )
            last = number == len(self.dims) - 1
            dtype = self.dtype if last else WIDE
            body = body if dtype == WIDE else Cast(dtype, body)
            nodes.append(_compute(f"{self.name}.weights{number}", axes, body, dtype))
        return nodes

    def _weight(self, places: dict[str, Expr]) -> Expr:
        read = substitute(self.conv.weights, places)
        return read if self.dtype == WIDE else Cast(WIDE, read)

    def _products(self, data: Compute, weights: Compute) -> Compute:
        conv = self.conv
        axes = (
            *((dim.at, dim.matrices.products) for dim in self.dims),
            *self._own(conv.batch),
            *self._tiles(),
            *self._own(conv.filters),
        )
        a, b = (
            Read(node.name, tuple(Var(axis.name) for axis in node.axes), self.dtype)
            for node in (data, weights)
        )
        node = _compute(f"{self.name}.products", axes, Binary("mul", a, b), self.dtype)
        depth = tuple(Axis(name, self.extents[name]) for name in conv.depth)
        return Compute(
            node.name, node.axes, node.body, node.dtypes, reduce_axes=depth, combiner="sum"
        )

    def _outputs(self, products: Compute) -> list[Compute]:
        conv, last = self.conv, len(self.dims) - 1
        fixed = (*self._own(conv.batch), *self._tiles(), *self._own(conv.filters))
        whole = {
            dim.tile: Binary("floordiv", Var(dim.slide.axis), Const(self.m)) for dim in self.dims
        }
        nodes: list[Compute] = []
        for number, dim in enumerate(self.dims):
            done, left = self.dims[:number], self.dims[number + 1 :]
            source = nodes[-1] if nodes else products
            terms = [
                Read(
                    source.name,
                    (*self._out(done), Const(place), *self._at(left), *(Var(n) for n, _ in fixed)),
                    self.dtype,
                )
                for place in range(dim.matrices.products)
            ]
            body = chosen(Var(dim.out), product(dim.matrices.output, terms, self.dtype))
            if number == last:
                inner = {d.out: Binary("mod", Var(d.slide.axis), Const(self.m)) for d in self.dims}
                body = substitute(body, {**whole, **inner})
                nodes.append(Compute(self.name, conv.node.axes, (body,), conv.node.dtypes))
                continue
            axes = (
                *((d.out, self.m) for d in (*done, dim)),
                *((d.at, d.matrices.products) for d in left),
                *fixed,
            )
            nodes.append(_compute(f"{self.name}.output{number}", axes, body, self.dtype))
        return nodes

    def _own(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        return tuple((name, self.extents[name]) for name in names)

    def _tiles(self) -> tuple[tuple[str, int], ...]:
        return tuple((dim.tile, dim.tiles) for dim in self.dims)

    @staticmethod
    def _at(dims: Sequence[_Dimension]) -> tuple[Expr, ...]:
        return tuple(Var(dim.at) for dim in dims)

    @staticmethod
    def _out(dims: Sequence[_Dimension]) -> tuple[Expr, ...]:
        return tuple(Var(dim.out) for dim in dims)


def _compute(name: str, axes: Iterable[tuple[str, int]], body: Expr, dtype: str) -> Compute:
    return Compute(name, tuple(Axis(n, extent) for n, extent in axes), (body,), (dtype,))
