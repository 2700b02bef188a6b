"""A model file becomes a graph; the format follows from the file's name."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ansorpy.errors import GraphError
from ansorpy.graph import Graph


def read_model(
    path: Path,
    bind: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    hosted: bool = False,
) -> Graph:
    """Return the graph of a model file.

    Args:
        path: a file of ONNX.
        bind: values of symbolic extents by name, and of scalar inputs by name.
        shapes: shapes of inputs by name.
        hosted: NumPy may compute operators that have no kernel.

    Raises:
        GraphError: package onnx is absent, the file is no model, or a node cannot be compiled.
    """
    if missing_package():
        raise GraphError(
            f"cannot read {path.name} because package onnx is not installed;"
            " expected pip install 'ansorpy[onnx]'"
        )
    from ansorpy.importers.onnx_file import graph_of_file

    return graph_of_file(path, bind, shapes, hosted)


def missing_package() -> str:
    """Return the package that reading models needs and that is not installed, "" if none is."""
    return "" if find_spec("onnx") else "onnx"
