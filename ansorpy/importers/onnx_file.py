"""A file of ONNX becomes a graph of operators of opset 23."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from ansorpy.errors import GraphError
from ansorpy.graph import Extent, Graph, Symbol, Weight
from ansorpy.graph.builder import FOLD_BYTES, GraphBuilder
from ansorpy.graph.graph import Array
from ansorpy.graph.merge import at_a_size, merged, sampled
from ansorpy.graph.remedies import shape_option
from ansorpy.importers.onnx_facts import check_declared
from ansorpy.importers.onnx_functions import LocalFunctions, check_functions, inlined
from ansorpy.importers.onnx_nodes import DOMAINS, MOST_DEPTH, MOST_NODES, NodeImporter
from ansorpy.importers.onnx_old import converted, state_meanings
from ansorpy.importers.onnx_values import KEPT_VALUES, dense, dtype_of, weight_of
from ansorpy.te.bindings import bound, sum_in
from ansorpy.te.dims import Dim, dims_in

OPSET: Final = 23  # operators are defined for this version of ONNX's operator set
LARGEST_EXTENT: Final = 1 << 31  # largest value of a symbolic extent

SIZED_BYTES: Final = 1 << 27  # bytes of a constant that follows from dims: masks, positions

Number = TypeVar("Number", int, float)
Bindings = Mapping[str, float]
Shapes = Mapping[str, Sequence[int]]


def graph_of_file(
    path: Path, bind: Bindings | None = None, shapes: Shapes | None = None, hosted: bool = False
) -> Graph:
    """Return the graph of a model in a file.

    Args:
        bind: values of symbolic extents and of scalar inputs by name; a `te.dim` leaves the extent
            to each call.
        shapes: shapes of inputs by name, whose extents may be dims.
        hosted: NumPy may compute operators that have no kernel.

    Raises:
        GraphError: the file is no model, or a node of it cannot be compiled.
    """
    try:
        model = onnx.load_model(path, load_external_data=False)
    except (DecodeError, OSError, ValueError) as error:
        raise GraphError(f"cannot read {path} because {error}; expected an ONNX model") from error
    return graph_of_model(model, bind, shapes, path.parent, path.stem, hosted=hosted)


def graph_of_model(
    model: onnx.ModelProto,
    bind: Bindings | None = None,
    shapes: Shapes | None = None,
    folder: Path | None = None,
    name: str = "model",
    constants: Mapping[str, Array] | None = None,
    hosted: bool = False,
    weights: Mapping[str, Weight] | None = None,
) -> Graph:
    """Return the graph of a model in memory; arguments as for `graph_of_file`.

    A model with dims is imported at several of their sizes (`merged`).

    Args:
        folder: the folder that may hold external data.
        name: the name of the graph.
        constants: values of inputs by name: the model is made for these.
        hosted: NumPy may compute operators that have no kernel.
        weights: initializers that a model of opset 23 leaves out, by name.

    Raises:
        GraphError: a node cannot be compiled.
    """
    bind, shapes = _with_sums(model, bound(bind or {})), shapes or {}
    check_declared(model)
    source = _Source.of(model, folder)
    dims = dims_in((*bind.values(), *(n for shape in shapes.values() for n in shape)))
    dims = tuple(one for one in dims if one.low < one.high)
    _check_dims(model, bind, dims)

    def graph_at(at: Mapping[str, int]) -> Graph:
        return source.graph(
            GraphBuilder(name, hosted, sized_bytes=SIZED_BYTES if dims else FOLD_BYTES),
            {key: _number(value, at) for key, value in bind.items()},
            {key: [_number(n, at) for n in shape] for key, shape in shapes.items()},
            constants or {},
            weights or {},
        )

    graphs, sizes = list[Graph](), sampled(dims)
    for at in sizes:
        try:
            graphs.append(graph_at(at))
        except GraphError as error:
            if not graphs:
                raise
            raise at_a_size(error, at, dims) from error
    return merged(graphs, sizes, dims, graph_at) if dims else graphs[0]


def _number(value: Number, sizes: Mapping[str, int]) -> Number:
    """Return the size of a dim, or another value as it is."""
    return sizes.get(value.name, value.high) if isinstance(value, Dim) else value


def _with_sums(model: onnx.ModelProto, bind: Bindings) -> Bindings:
    """Return bindings with the symbols of inputs that are named as sums of others: past + new."""
    names = {one.name for value in model.graph.input for one in _symbols(value)}
    sums = {name: sum_in(name, name, bind) for name in names - bind.keys()}
    return {**bind, **{name: value for name, value in sums.items() if value is not None}}


def _check_dims(model: onnx.ModelProto, bind: Bindings, dims: Sequence[Dim]) -> None:
    """Refuse two dims of one name, and a dim as the value of an input."""
    names = [one.name for one in dims]
    for one in dims:
        if names.count(one.name) > 1:
            raise GraphError(
                f"cannot take two ranges of dim {one.name}; expected one range of each dim"
            )
    inputs = {value.name for value in model.graph.input}
    symbols = {one.name for value in model.graph.input for one in _symbols(value)}
    for name, value in bind.items():
        if isinstance(value, Dim) and name in inputs - symbols:
            raise GraphError(
                f"cannot bind input {name[:80]!r} to {value!r} because it is a value;"
                " expected a number"
            )


@dataclass(frozen=True)
class _Source:
    """A model at the opset of the operators, without functions; its weights are read once."""

    model: onnx.ModelProto
    tensors: Sequence[onnx.TensorProto]
    functions: LocalFunctions
    folder: Path | None

    @classmethod
    def of(cls, model: onnx.ModelProto, folder: Path | None) -> "_Source":
        """Return the source of a model, whose functions are inlined."""
        functions = LocalFunctions(_at_opset, _opset)
        if model.functions:
            check_functions(model, MOST_NODES, MOST_DEPTH)
            model, functions = inlined(model, functions)
        if model.graph.sparse_initializer:
            model = _dense(model, folder)
        return cls(*_at_opset(model), functions, folder)

    @cached_property
    def weights(self) -> tuple[tuple[str, Weight], ...]:
        """The initializers by name."""
        return tuple(
            (one.name, weight_of(one, self.folder, f"initializer {one.name[:80]!r}"))
            for one in self.tensors
        )

    def graph(
        self,
        builder: GraphBuilder,
        bind: Bindings,
        shapes: Shapes,
        constants: Mapping[str, Array],
        weights: Mapping[str, Weight],
    ) -> Graph:
        """Return the graph at numbers, added to a builder; arguments as for `graph_of_model`."""
        model, name = self.model, builder.name
        nodes = NodeImporter(builder, _opset(model), self.folder, self.functions)
        scope: dict[str, str] = {}
        given = {tensor.name for tensor in self.tensors}
        values = [value for value in model.graph.input if value.name not in given]
        _check_names(values, bind, shapes)
        for value in values:
            scope[value.name] = (
                builder.constant(value.name, constants[value.name])
                if value.name in constants
                else nodes.given(_input(builder, value, bind, shapes))
            )
        for key, weight in self.weights:
            nodes.define(key, weight, scope)
        for key, weight in weights.items():
            nodes.define(key, weight, scope)
        nodes.nodes(model.graph.node, scope)
        if not model.graph.output:
            raise GraphError(
                f"cannot import {name!r} because it has no outputs; expected one or more"
            )
        for output in model.graph.output:
            if output.name not in scope:
                raise GraphError(
                    f"cannot import {name!r} because output {output.name[:80]!r} is not defined;"
                    " expected a value of the graph"
                )
            builder.output(output.name, scope[output.name])
        return builder.graph()


def _dense(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """Return a model whose sparse initializers are dense."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.initializer.extend(dense(one, folder) for one in model.graph.sparse_initializer)
    del made.graph.sparse_initializer[:]
    return made


def _opset(model: onnx.ModelProto | onnx.FunctionProto) -> int:
    for one in model.opset_import:
        if one.domain in DOMAINS:
            return int(one.version)
    return OPSET


def _at_opset(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[onnx.TensorProto]]:
    """Return a model at opset 23 or later, without its weights, and the weights.

    Weights of more than KEPT_VALUES elements pass as inputs through the converter, which copies
    initializers. A model that the converter refuses keeps its opset.
    """
    tensors = list(model.graph.initializer)
    if _opset(model) >= OPSET:
        return model, tensors
    large = [one for one in tensors if np.prod(one.dims, dtype=float) > KEPT_VALUES]
    names = {one.name for one in large}
    slim = onnx.ModelProto()
    slim.CopyFrom(_without_weights(model, names))
    inputs = {value.name for value in slim.graph.input}
    for one in large:
        if one.name not in inputs:
            slim.graph.input.append(
                onnx.helper.make_tensor_value_info(one.name, one.data_type, list(one.dims))
            )
    made = converted(slim, _opset(model), OPSET)
    if made is not None:
        return made, [*made.graph.initializer, *large]
    same = _without_weights(model, {one.name for one in tensors})
    state_meanings(same, _opset(model))
    return same, tensors


def _without_weights(model: onnx.ModelProto, names: set[str]) -> onnx.ModelProto:
    """Return a model that shares its parts, without the initializers of the given names."""
    copy = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    copy.opset_import.extend(model.opset_import)
    graph = copy.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.initializer.extend(one for one in model.graph.initializer if one.name not in names)
    return copy


def _check_names(values: Sequence[onnx.ValueInfoProto], bind: Bindings, shapes: Shapes) -> None:
    """Refuse bindings and shapes whose names the model does not have."""
    known = {value.name for value in values}
    dims = {one.name for value in values for one in _symbols(value)}
    for kind, names, expected in (("bind", bind, known | dims), ("shape", shapes, known)):
        for one in names:
            if one not in expected:
                shown = ", ".join(sorted(expected)[:20]) or "none, all extents are numbers"
                raise GraphError(
                    f"cannot use --{kind} {one[:80]} because the model has no such input"
                    f" or extent; expected one of {shown}"
                )


def _input(
    builder: GraphBuilder, value: onnx.ValueInfoProto, bind: Bindings, shapes: Shapes
) -> str:
    """Add an input, or the constant that it is bound to, and return its name."""
    place = f"input {value.name[:80]!r}"
    if value.type.WhichOneof("value") != "tensor_type":
        raise GraphError(
            f"cannot import {place} because it is a {value.type.WhichOneof('value')};"
            " expected a tensor"
        )
    kind = value.type.tensor_type
    dtype = dtype_of(kind.elem_type, place)
    extents = _extents(value)
    if value.name in shapes:
        wanted = tuple(shapes[value.name])
        if kind.HasField("shape") and (
            len(wanted) != len(extents)
            or any(isinstance(n, int) and n != w for n, w in zip(extents, wanted, strict=True))
        ):
            raise GraphError(
                f"cannot give {place} shape {list(wanted)} because it is declared otherwise;"
                f" expected {[n.name if isinstance(n, Symbol) else n for n in extents]}"
            )
        extents = wanted
    elif not kind.HasField("shape"):
        raise GraphError(
            f"cannot import {place} because its rank is not declared;"
            f" expected a shape, as in {shape_option(value.name)}"
        )
    shape = tuple(_extent(extent, bind, place) for extent in extents)
    if value.name in bind and all(extent == 1 for extent in shape):
        number = np.array(bind[value.name], "float32" if dtype == "bfloat16" else dtype)
        return builder.bind(value.name, Weight.of(number.reshape((1,) * len(shape))))
    return builder.input(value.name, shape, dtype)


def _symbols(value: onnx.ValueInfoProto) -> list[Symbol]:
    return [extent for extent in _extents(value) if isinstance(extent, Symbol)]


def _extents(value: onnx.ValueInfoProto) -> tuple[Extent, ...]:
    """Return the declared extents of an input; a nameless one is called INPUT.AXIS."""
    return tuple(
        dim.dim_value
        if dim.HasField("dim_value")
        else Symbol(dim.dim_param or f"{value.name}.{axis}", 1, LARGEST_EXTENT)
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
    )


def _extent(extent: Extent, bind: Bindings, place: str) -> Extent:
    found = bind.get(extent.name, extent) if isinstance(extent, Symbol) else extent
    if isinstance(found, Symbol):
        return found
    if int(found) != found or not 0 <= found <= LARGEST_EXTENT:
        raise GraphError(f"cannot use extent {found} of {place}; expected a whole number from 0 on")
    return int(found)
