"""Join a bundle without weights with the weights of a model: `ansorpy.join_model`.

The model is read and simplified as it was before its graph was sent. Equal graphs have equal
documents, so that the bundle's code fits, regardless of the values of the weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ansorpy.bundle.weightless import (
    PublicNames,
    graph_text,
    opened_bundle,
    with_weights,
)
from ansorpy.errors import GraphError, PackageError, SpecError
from ansorpy.graph.graph import Graph
from ansorpy.graph.wire.document import Document, first_difference, node_name
from ansorpy.graph.wire.read import loads
from ansorpy.model.home import HomeModel, home_model
from ansorpy.model.verify import check, reference_of


@dataclass(frozen=True, slots=True)
class JoinedModel:
    """A bundle with weights, verified.

    `error` and `bound` are shares of the largest element of the reference.
    """

    bundle: Path
    error: float
    bound: float
    reference: str

    def __str__(self) -> str:
        """Return a summary for people."""
        return (
            f"{self.bundle}: error {self.error:.1e} of the largest element, at most"
            f" {self.bound:.1e}, verified against {self.reference}"
        )


def join_model(
    bundle: PathLike[str] | str,
    model: PathLike[str] | str | Graph,
    out: PathLike[str] | str,
    bind: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
) -> JoinedModel:
    """Write the bundle of a model from one without weights, and verify it.

    The weights may differ from the weights of the model that was sent, if the graph is the same.

    Args:
        bundle: without weights, as a job of a graph delivers it.
        model: a file of ONNX, or a graph as imported.
        out: the bundle to write.
        bind: values of symbolic extents and of scalar inputs, as when the graph was sent.
        shapes: shapes of inputs, as when the graph was sent.
        seed: of the inputs of the verification.

    Raises:
        SpecError: the model cannot be read, or its graph is another one.
        PackageError: the bundle is damaged, or has its weights.
        RunError: the outputs are wrong; no bundle is left then.
    """
    bundle, out = Path(bundle), Path(out)
    facts, files = opened_bundle(bundle)
    document = _document(graph_text(facts, files, bundle.name), bundle.name)
    home = home_model(model, bind, shapes)
    _check_same(document, home, bundle.name)
    names = PublicNames(
        model=home.graph.name,
        inputs=home.graph.inputs,
        outputs=tuple(output.name for output in home.graph.outputs),
        nodes={node_name(number): label for number, label in enumerate(home.sent.labels)},
        source_digest=home.digest,
        bound=home.graph.bound,
    )
    reference = reference_of(home.graph, home.file, seed)
    new = out.with_name(f"{out.stem}.new.zip")
    try:
        with_weights(bundle, new, home.weights, names, reference.self_test)
        error = check(new, reference, facts["threads"], home.graph.name)
        new.replace(out)
    except OSError as failure:
        raise SpecError(
            f"cannot write {out} because of {failure.strerror}; expected a writable folder"
        ) from failure
    finally:
        new.unlink(missing_ok=True)
    return JoinedModel(out, error, reference.bound, reference.told)


def _document(text: str, place: str) -> Document:
    try:
        return loads(text)
    except SpecError as error:
        raise PackageError(f"{place}: {error}") from error


def _check_same(document: Document, home: HomeModel, bundle: str) -> None:
    """Raise GraphError, which names the first difference, unless the documents are equal."""
    difference = first_difference(document, home.sent.document)
    if difference is None:
        return
    place = f"{difference.part}[{difference.number}]"
    names, labels = home.sent.names, home.sent.labels
    if difference.part == "nodes" and difference.number < len(labels):
        place = f"node {difference.number} ({labels[difference.number][:80]!r})"
    elif difference.part in ("inputs", "weights"):
        at = difference.number + (len(document.inputs) if difference.part == "weights" else 0)
        if at < len(names):
            place = f"{difference.part[:-1]} {difference.number} ({names[at][:80]!r})"
    raise GraphError(
        f"cannot join {bundle} with {home.graph.name!r} because its graph is another one: {place}"
        f" is {difference.right[:160]}; expected {difference.left[:160]}, as in the graph that was"
        " tuned: by the same version of ansorpy, with the same --bind and --shape"
    )
