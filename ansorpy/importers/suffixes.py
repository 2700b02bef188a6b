"""Names of files that are models; nothing is imported to know them."""

from typing import Final

DOCUMENT: Final = ".graph.json"  # end of the name of a file that has a graph without weights
SUFFIXES: Final = (".onnx", DOCUMENT)


def is_model(name: str) -> bool:
    """Return True if a file has the name of a model."""
    return name.lower().endswith(SUFFIXES)
