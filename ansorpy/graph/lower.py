"""From nodes of a graph to one Dag: operands become placeholders of canonical names.

Equal groups have equal workload keys: names of values do not enter the Dag.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ansorpy import te
from ansorpy.errors import GraphError
from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.operator import tensors
from ansorpy.te.dag import Compute, Dag, Placeholder
from ansorpy.te.dims import dims_in
from ansorpy.te.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Lowered:
    """A Dag, and the values of the graph that its arguments are.

    Args:
        reads: the value of each placeholder, in the order of `dag.placeholders`.
        writes: the value of each output, in the order of `te.evaluate`; "" if the graph has no
            use for it (the maximum beside an argmax).
    """

    dag: Dag
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(slots=True)
class NodeTensors:
    """The tensors of nodes, built one after the other.

    `tensors` has the tensor of every value: of an output of a node, or a placeholder. Placeholders
    are x0, x1, ... for values that are computed or given, w0, w1, ... for weights. A weight whose
    shape has dims is as a given value: a call reads its first elements.
    """

    graph: Graph
    tensors: dict[str, Tensor] = field(default_factory=dict)
    operands: dict[str, Tensor] = field(default_factory=dict)  # the placeholders among them

    def add(self, node: Node) -> None:
        """Build the tensors of a node.

        Raises:
            GraphError: the operator does not take its operands.
        """
        outputs = tensors(node, self._read, self.graph.weights)
        self.tensors |= {
            name: one for name, one in zip(node.outputs, outputs, strict=False) if name
        }

    def same(self, value: str) -> str | None:
        """Return the operand that a value is, if its node changes nothing; None otherwise."""
        for name, operand in self.operands.items():
            if value != name and self.tensors[value].draft is operand.draft:
                return name
        return None

    def _read(self, name: str) -> Tensor:
        if name not in self.tensors:
            value = self.graph.values[name]
            weight = name in self.graph.weights and not dims_in(value.shape)
            letter = "w" if weight else "x"
            count = sum(one.name.startswith(letter) for one in self.operands.values())
            placeholder = te.placeholder(value.fixed_shape, f"{letter}{count}", value.dtype, weight)
            self.tensors[name] = self.operands[name] = placeholder
        return self.tensors[name]


def lower(
    graph: Graph, nodes: Sequence[Node], outputs: Sequence[str], name: str = "main"
) -> Lowered:
    """Return the Dag that computes `outputs` by `nodes`, producers first.

    Raises:
        GraphError: a node cannot be built, or an output is an operand as it is.
        SpecError: the Dag exceeds a limit.
    """
    built = NodeTensors(graph)
    for node in nodes:
        built.add(node)
    return lowered(built, outputs, name)


def lowered(built: NodeTensors, outputs: Sequence[str], name: str = "main") -> Lowered:
    """Return the Dag of some values of `built`; errors as `lower`."""
    wanted = [built.tensors[value] for value in outputs]
    for value, tensor in zip(outputs, wanted, strict=True):
        if isinstance(tensor.draft.node, Placeholder):
            raise GraphError(
                f"cannot compute value {value!r} because its node changes nothing; expected a"
                " graph without identities"
            )
    operands = _read_by(wanted, built)
    dag = te.dag(wanted, name, inputs=[built.operands[value] for value in operands])
    at = {(one.draft.node.name, one.output): v for one, v in zip(wanted, outputs, strict=True)}
    writes: list[str] = []
    for token in dict.fromkeys(one.draft.node.name for one in wanted):
        node = next(one.draft.node for one in wanted if one.draft.node.name == token)
        assert isinstance(node, Compute)
        writes += [at.get((token, number), "") for number in range(len(node.dtypes))]
    return Lowered(dag, operands, tuple(writes))


def _read_by(wanted: Sequence[Tensor], built: NodeTensors) -> tuple[str, ...]:
    """Return the operands that the expressions read; an operator may ask for a shape only."""
    seen, stack = set[str](), [tensor.draft for tensor in wanted]
    while stack:
        draft = stack.pop()
        if draft.node.name not in seen:
            seen.add(draft.node.name)
            stack.extend(draft.sources.values())
    return tuple(
        value for value, tensor in built.operands.items() if tensor.draft.node.name in seen
    )
