"""A model file becomes a graph; the format follows from the file's name."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ansorpy.errors import GraphError
from ansorpy.graph import Graph
from ansorpy.graph.wire.document import Document
from ansorpy.graph.wire.read import LIMITS, loads
from ansorpy.importers.suffixes import DOCUMENT


def read_model(
    path: Path,
    bind: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    hosted: bool = False,
) -> Graph:
    """Return the graph of a model file.

    Args:
        path: a file of ONNX, or the document of a graph, whose weights have no values.
        bind: values of symbolic extents and of scalar inputs by name; a dim leaves the extent to
            each call.
        shapes: shapes of inputs by name.
        hosted: NumPy may compute operators that have no kernel.

    Raises:
        GraphError: the file is no model, or a node cannot be compiled.
    """
    if is_document(path):
        if bind or shapes:
            raise GraphError(
                f"cannot bind or shape {path.name} because its extents are numbers; expected an"
                " ONNX model"
            )
        return read_document(path).graph(hosted)
    from ansorpy.importers.onnx_file import graph_of_file

    return graph_of_file(path, bind, shapes, hosted)


def is_document(path: Path) -> bool:
    """Return True if the name of a file has the ending of a graph without weights."""
    return path.name.endswith(DOCUMENT)


def read_document(path: Path) -> Document:
    """Return the document of a file.

    Raises:
        SpecError: the file cannot be read, is too large, or is no document.
    """
    try:
        with path.open("rb") as file:
            return loads(file.read(LIMITS.text_bytes + 1))
    except OSError as error:
        raise GraphError(
            f"cannot read {path} because of {error.strerror}; expected a graph of"
            " `ansorpy simplify`"
        ) from error
