"""Terms as a graph: values are numbered t0, t1, ..., so that no name of a user is in it."""

from collections import Counter
from collections.abc import Sequence

from ansorpy.graph.graph import Attribute, Graph, Node, Output, ValueInfo, Weight
from ansorpy.measure.timing.peers.shaping import ints
from ansorpy.measure.timing.peers.term import CONSTANT, INPUT, Term, ordered
from ansorpy.te.dag import Placeholder


def numbered(outputs: Sequence[Term], placeholders: Sequence[Placeholder]) -> Graph:
    """Return the graph of some terms, inputs first; each output has a node of its own.

    A reduction whose only reader leaves out the reduced axes does not keep them.
    """
    terms = _Numbered(placeholders)
    everything = [*ordered(outputs)]
    readers = Counter(id(one) for term in everything for one in term.inputs)
    flat = {
        id(term.inputs[0]): term
        for term in everything
        if _drops(term) and readers[id(term.inputs[0])] == 1
    }
    dropped = {id(whole) for whole in flat.values()}
    for term in everything:
        if id(term) in flat:
            terms.add(term, flat[id(term)], keepdims=0)
        elif id(term) not in dropped:
            terms.add(term, term)
    for term in outputs:
        terms.output(term)
    return terms.graph()


class _Numbered:
    def __init__(self, placeholders: Sequence[Placeholder]) -> None:
        self._inputs = tuple(f"t{place}" for place in range(len(placeholders)))
        self._values = {
            name: ValueInfo(name, one.shape, one.dtype)
            for name, one in zip(self._inputs, placeholders, strict=True)
        }
        self._names: dict[int, str] = {}
        self._weights: dict[str, Weight] = {}
        self._nodes: list[Node] = []
        self._outputs: list[Output] = []

    def add(self, term: Term, result: Term, **attrs: Attribute) -> None:
        """Add a term as the value `result`, with some attributes changed."""
        if term.op == INPUT:
            self._names[id(term)] = f"t{term.place}"
            return
        name = self._names[id(result)] = self._fresh(result)
        if term.array is not None:
            self._weights[name] = Weight.of(term.array)
            return
        inputs = tuple(self._names[id(one)] for one in term.inputs)
        self._nodes.append(Node(term.op, inputs, (name,), {**term.attrs, **attrs}, name))

    def output(self, term: Term) -> None:
        """Add an output: a copy of an input, constant or earlier output, else the term itself."""
        name = self._names[id(term)]
        taken = any(one.value == name for one in self._outputs)
        if taken or term.op in (INPUT, CONSTANT):
            copied = self._fresh(term)
            self._nodes.append(Node("Identity", (name,), (copied,), {}, copied))
            name = copied
        self._outputs.append(Output(f"out{len(self._outputs)}", name))

    def graph(self) -> Graph:
        """Return the graph; constants without a reader are left out."""
        read = {name for node in self._nodes for name in node.inputs}
        weights = {name: one for name, one in self._weights.items() if name in read}
        made = Graph(
            tuple(self._nodes), self._inputs, tuple(self._outputs), self._values, weights, "peer"
        )
        made.check()
        return made

    def _fresh(self, term: Term) -> str:
        name = f"t{len(self._values)}"
        self._values[name] = ValueInfo(name, term.shape, term.dtype)
        return name


def _drops(term: Term) -> bool:
    """Return whether a term is a reduction without the axes that it reduces."""
    if term.op != "Reshape" or "keepdims" not in term.inputs[0].attrs:
        return False
    inner = term.inputs[0]
    axes = ints(inner.attrs["axes"]) if "axes" in inner.attrs else (inner.attrs["axis"],)
    return term.shape == tuple(n for at, n in enumerate(inner.shape) if at not in axes)
