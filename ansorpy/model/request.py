"""The request for the tuning of a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansorpy.graph.graph import Graph
from ansorpy.graph.wire.document import Document
from ansorpy.model.options import ModelOptions
from ansorpy.model.verify import ModelReference
from ansorpy.target import Target
from ansorpy.tuner.options.conflicts import RequestKind, check_conflicts


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model to tune.

    Args:
        graph: as imported.
        out: path of the bundle.
        file: the model's file, which ONNX Runtime can run; None if there is none.
        digest: sha256 of the file, hex.
        reference: inputs and right outputs; made by `reference_of` unless given.
        done: trials of an interrupted attempt at the same request, by task; they are in the store.
        document: of a graph whose weights are elsewhere, as it was sent: after passes. The bundle
            is verified with stand-ins of the weights, and has none.
    """

    graph: Graph
    target: Target
    options: ModelOptions
    out: Path
    file: Path | None = None
    digest: str = ""
    reference: ModelReference | None = None
    done: Mapping[str, int] = field(default_factory=dict)
    document: Document | None = None

    def __post_init__(self) -> None:
        check_conflicts(self.options, RequestKind(self.target.kind, model=True))
