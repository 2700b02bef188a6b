"""From a graph to a document: names become numbers, values of weights stay out.

Sent are the values of weights that an operator reads when it is built, because expressions depend
on them (shapes, axes, indices), and of weights of at most one element, which become literals.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ansorpy import te
from ansorpy.errors import GraphError
from ansorpy.graph.graph import Array, Attribute, Graph, Node, ValueInfo, Weight
from ansorpy.graph.operator import Operands, operator_of, tensors
from ansorpy.graph.wire.document import Document, SentNode, SentTensor, dim_name
from ansorpy.te.dims import Dim, extents_at
from ansorpy.te.tensor import Tensor
from ansorpy.te.tensor_data import tensor_bytes

LITERAL_ELEMENTS = 1  # elements; operators compile such a constant as a literal


@dataclass(frozen=True, slots=True)
class Sent:
    """A document, and the names that stay at home.

    Args:
        names: of the values, by number.
        labels: of the nodes, by number, for people.
    """

    document: Document
    names: tuple[str, ...]
    labels: tuple[str, ...]


def sent(graph: Graph) -> Sent:
    """Return the document of a graph that the passes have simplified.

    Raises:
        GraphError: an extent is symbolic, an operator refuses its operands, or the values of a
            weight are needed and not at hand.
    """
    for one in graph.dims:
        if one.terms:
            raise GraphError(
                f"cannot write {graph.name!r} without its weights because each call decides"
                f" {one.name} = {' + '.join(map(str, one.terms))}; expected the file of the model"
            )
    graph = _with_numbered_dims(graph)
    decisive = decisive_weights(graph)
    read = [name for node in graph.nodes for name in node.inputs if name in graph.weights]
    read += [output.value for output in graph.outputs if output.value in graph.weights]
    weights = tuple(dict.fromkeys(read))
    computed = tuple(name for node in graph.nodes for name in node.outputs if name)
    names = (*graph.inputs, *weights, *computed)
    numbers: Mapping[str, int] = {name: number for number, name in enumerate(names)}
    document = Document(
        inputs=tuple(_facts(graph, name) for name in graph.inputs),
        weights=tuple(_weight(graph.weights[name], name in decisive) for name in weights),
        nodes=tuple(
            SentNode(
                node.op,
                tuple(numbers[name] if name else None for name in node.inputs),
                tuple(numbers[name] if name else None for name in node.outputs),
                {name: _plain(value, node) for name, value in node.attrs.items()},
            )
            for node in graph.nodes
        ),
        outputs=tuple(numbers[output.value] for output in graph.outputs),
    )
    labels = tuple(node.name or next(iter(node.outputs), "") for node in graph.nodes)
    return Sent(document, names, labels)


def _with_numbered_dims(graph: Graph) -> Graph:
    """Return a graph whose dims have no names of the user: `dim_name` of their numbers."""
    known = {one.name: renamed(one, dim_name(number)) for number, one in enumerate(graph.dims)}
    if not known:
        return graph

    def info(value: ValueInfo) -> ValueInfo:
        return replace(value, shape=extents_at(value.fixed_shape, known))

    def weight(constant: Weight) -> Weight:
        if not constant.dims:
            return constant
        shape, sizes = extents_at(constant.shape, known), extents_at(constant.sizes, known)
        return constant.with_dims(shape, sizes)

    return replace(
        graph,
        values={name: info(value) for name, value in graph.values.items()},
        weights={name: weight(one) for name, one in graph.weights.items()},
    )


def renamed(dim: Dim, name: str) -> Dim:
    """Return a dim with another name."""
    return Dim(name, *dim.facts[1:])


def decisive_weights(graph: Graph) -> frozenset[str]:
    """Return the weights whose values enter expressions: those that a build of the nodes reads.

    Partition, tasks and Dags depend on values by way of the build of a node only.
    """
    read = {name for name, weight in graph.weights.items() if weight.sizes}

    def noting(name: str, weight: Weight) -> Weight:
        if weight.elements <= LITERAL_ELEMENTS:
            read.add(name)
        if weight.load is None:
            return weight

        def load() -> Array:
            read.add(name)
            return weight.array

        return replace(weight, load=load)

    watched = {name: noting(name, weight) for name, weight in graph.weights.items()}
    for node in graph.nodes:
        _build(node, watched, lambda name: _placeholder(graph, name))
    return frozenset(read)


def _build(node: Node, weights: Mapping[str, Weight], read: Callable[[str], Tensor]) -> None:
    twin = operator_of(node).hosted
    if twin is None:
        tensors(node, read, weights)
    else:
        twin.facts(Operands(node, read, weights))


def _placeholder(graph: Graph, name: str) -> Tensor:
    value = graph.values[name]
    return te.placeholder(value.fixed_shape, "x", value.dtype)


def _facts(graph: Graph, name: str) -> SentTensor:
    value = graph.values[name]
    return SentTensor(value.dtype, value.fixed_shape)


def _weight(weight: Weight, given: bool) -> SentTensor:
    if not given:
        return SentTensor(weight.dtype, weight.shape)
    data = tensor_bytes(weight.array, weight.dtype)
    return SentTensor(weight.dtype, weight.shape, data, weight.sizes)


def _plain(value: Attribute, node: Node) -> Attribute:
    """Return an attribute without NumPy's subclasses of numbers.

    Raises:
        GraphError: it is of another kind.
    """
    match value:
        case tuple():
            return tuple(_plain(item, node) for item in value)  # type: ignore[return-value]
        case int():
            return int(value)
        case float():
            return float(value)
        case str():
            return value
    raise GraphError(
        f"cannot write {node} because an attribute is {type(value).__name__}; expected numbers,"
        " strings and tuples of them"
    )
