"""A model at home: its graph as imported and simplified, and the document that may leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from os import PathLike
from pathlib import Path

from ansorpy.errors import GraphError
from ansorpy.graph.graph import Graph, Weight
from ansorpy.graph.passes import simplify
from ansorpy.graph.wire.document import value_name
from ansorpy.graph.wire.write import Sent, sent
from ansorpy.importers.model_file import is_document, read_model


@dataclass(frozen=True, slots=True)
class HomeModel:
    """A graph as imported, after the passes, and as a document without values of weights."""

    graph: Graph
    simple: Graph
    sent: Sent
    file: Path | None = None

    @property
    def digest(self) -> str:
        """The sha256 of the file, hex; "" if there is none."""
        if self.file is None:
            return ""
        with self.file.open("rb") as stream:
            return file_digest(stream, "sha256").hexdigest()

    @property
    def weights(self) -> Mapping[str, Weight]:
        """The weights by their names in the graph of the document."""
        return {
            value_name(number): self.simple.weights[name]
            for number, name in enumerate(self.sent.names)
            if name in self.simple.weights
        }


def home_model(
    model: PathLike[str] | str | Graph,
    bind: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> HomeModel:
    """Read and simplify a model.

    Args:
        model: a file of ONNX, or a graph as imported.
        bind: values of symbolic extents and of scalar inputs by name.
        shapes: shapes of inputs by name.

    Raises:
        SpecError: the model cannot be read, or a node cannot be compiled.
    """
    if isinstance(model, Graph):
        file, graph = None, model
    else:
        file = Path(model)
        if is_document(file):
            raise GraphError(
                f"cannot read weights of {file.name} because it has none; expected an ONNX model"
            )
        graph = read_model(file, bind, shapes, hosted=True)
    simple = simplify(graph).graph
    return HomeModel(graph, simple, sent(simple), file)
