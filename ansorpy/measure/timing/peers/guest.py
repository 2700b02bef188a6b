"""Installed libraries as guests of a race: the files with which each computes a Dag.

Their versions come from the metadata of packages: only a measuring process imports them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from json import dumps
from pathlib import Path
from typing import Any, Final

import numpy as np

from ansorpy.errors import GraphError
from ansorpy.graph.graph import Graph
from ansorpy.libraries import NAMES, with_version
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.peers.torch_source import torch_source
from ansorpy.measure.timing.peers.translate import Unmapped, translated
from ansorpy.te.dag import Dag

SETTINGS: Final = "guest.json"
MODEL: Final = "model.onnx"
GRAPH: Final = "graph.py"
CONSTANTS: Final = "constants.npz"


def _model(graph: Graph, constant: frozenset[str]) -> Mapping[str, bytes]:
    from ansorpy.measure.timing.peers.onnx_model import model_bytes  # it imports onnx

    return {MODEL: model_bytes(graph, constant)}


def _source(graph: Graph, constant: frozenset[str]) -> Mapping[str, bytes]:
    text, arrays = torch_source(graph, constant)
    buffer = BytesIO()
    savez: Any = np.savez  # its types take no arrays by name
    savez(buffer, **arrays)
    return {GRAPH: text.encode(), CONSTANTS: buffer.getvalue()}


@dataclass(frozen=True, slots=True)
class InstalledLibrary:
    """A library that a user may have installed.

    Args:
        needs: the modules to import, in the measuring process and for its files.
        main: the module whose source is the main file of the guest.
        files: makes the other files from a graph and the names of its constant inputs.
    """

    name: str
    package: str
    needs: tuple[str, ...]
    main: Path
    files: Callable[[Graph, frozenset[str]], Mapping[str, bytes]]


HERE: Final = Path(__file__).parent
LIBRARIES: Final = (
    InstalledLibrary(
        NAMES["onnxruntime"], "onnxruntime", ("onnxruntime", "onnx"), HERE / "ort_guest.py", _model
    ),
    InstalledLibrary(NAMES["torch"], "torch", ("torch",), HERE / "torch_guest.py", _source),
)


def installed() -> dict[str, InstalledLibrary]:
    """Return the libraries that can be imported, by name and version."""
    return {
        name: library
        for library in LIBRARIES
        if all(find_spec(module) is not None for module in library.needs)
        and (name := with_version(library.package, library.name))
    }


def peers_of(dag: Dag, threads: int) -> dict[str, OwnKernel | Unmapped]:
    """Return the installed libraries as kernels for a race, by name and version.

    Args:
        threads: that each may use.
    """
    libraries = installed()
    if not libraries:
        return {}
    graph = translated(dag)
    return {
        name: kernel_of(name, library, graph, dag, threads) for name, library in libraries.items()
    }


def kernel_of(
    name: str, library: InstalledLibrary, graph: Graph | Unmapped, dag: Dag, threads: int
) -> OwnKernel | Unmapped:
    """Return a library as a kernel that computes the graph of a Dag, or why it has none."""
    if isinstance(graph, Unmapped):
        return graph
    places = [f"t{at}" for at, one in enumerate(dag.placeholders) if one.constant]
    outputs = [graph.values[one.value] for one in graph.outputs]
    settings = {
        "threads": threads,
        "constant": places,
        "outputs": [
            [told.name, list(one.fixed_shape), one.dtype]
            for told, one in zip(graph.outputs, outputs, strict=True)
        ],
    }
    try:
        files = library.files(graph, frozenset(places))
    except GraphError as error:
        return Unmapped(str(error))
    main = library.main
    whole = {main.name: main.read_bytes(), SETTINGS: dumps(settings).encode(), **files}
    return OwnKernel(name, main.name, whole)
