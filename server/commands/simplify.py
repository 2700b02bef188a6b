"""`ansorpy simplify`: a model with fewer nodes that computes the same."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ansorpy.errors import SpecError
from ansorpy.server.commands.common import bindings, shapes_of, wrong_input

if TYPE_CHECKING:
    from ansorpy.graph.wire.document import Document
    from ansorpy.model.simplify import SimplifiedFile


def simplify(
    source: Annotated[Path, typer.Argument(metavar="IN", help="An ONNX model.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The .onnx or .graph.json to write.")
    ],
    bind: Annotated[
        list[str] | None,
        typer.Option(help="batch=1 binds a symbolic extent or a scalar input, batch=1..8 a range."),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="x=1,3,224,224 gives the shape of an input.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Leave out passes that change roundings.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the graph passes on IN, compare both models, and write OUT.

    \b
    Examples:
      ansorpy simplify model.onnx small.onnx
      ansorpy simplify model.onnx model.graph.json   (the graph, without weights)

    The table has the nodes of both files by operator. OUT is not written if an output differs by
    more than 2e-5 of its largest element, and errs more than four times as much as IN against
    float64. Exit codes: 0 written, 2 wrong input or not equal.
    """
    from ansorpy.importers.model_file import is_document
    from ansorpy.model.simplify import simplify_file, write_document

    with wrong_input():
        if is_document(target):
            if exact:
                raise SpecError(
                    f"cannot write {target} with --exact because `ansorpy join` runs all passes;"
                    " expected no --exact"
                )
            document = write_document(source, target, bindings(bind), shapes_of(shape))
            typer.echo(
                json.dumps(_document_facts(document), indent=2)
                if as_json
                else _document_text(document, target)
            )
            return
        made = simplify_file(source, target, bindings(bind), shapes_of(shape), exact)
    typer.echo(json.dumps(_as_object(made), indent=2) if as_json else _as_text(made))


def _document_facts(document: "Document") -> dict[str, int]:
    absent = [one for one in document.weights if one.data is None]
    return {
        "nodes": len(document.nodes),
        "size_bytes": len(document.text),
        "weights": len(document.weights),
        "absent_weights": len(absent),
        "absent_bytes": document.absent_bytes,
    }


def _document_text(document: "Document", target: Path) -> str:
    facts = _document_facts(document)
    sent = facts["weights"] - facts["absent_weights"]
    return (
        f"{target}: {facts['nodes']} nodes, {facts['size_bytes']} bytes; {facts['absent_weights']}"
        f" weights of {facts['absent_bytes']} bytes stay here, {sent} small ones are in it because"
        " kernels depend on their values"
    )


def _as_object(simplified: "SimplifiedFile") -> dict[str, Any]:
    return {
        "before": dict(simplified.before),
        "after": dict(simplified.after),
        "fired": [
            {
                "pass": one.name, "sites": one.sites, "nodes_before": one.nodes_before,
                "nodes_after": one.nodes_after,
            }
            for one in simplified.fired
        ],
        "compared_by": simplified.comparison.by,
        "error": simplified.comparison.error,
        "error_of_original": simplified.comparison.before,
        "error_of_simplified": simplified.comparison.after,
    }  # fmt: skip


def _as_text(simplified: "SimplifiedFile") -> str:
    names = sorted(
        simplified.before | simplified.after, key=lambda op: (-simplified.before[op], op)
    )
    width = max(map(len, (*names, "operator")))
    rows = [f"{'operator':{width}}  before  after"]
    rows += [f"{op:{width}}  {simplified.before[op]:6}  {simplified.after[op]:5}" for op in names]
    rows.append(f"{'all':{width}}  {simplified.before.total():6}  {simplified.after.total():5}")
    rows += ["", *(f"pass {one}" for one in simplified.fired), ""]
    rows.append(_compared(simplified))
    return "\n".join(rows)


def _compared(simplified: "SimplifiedFile") -> str:
    comparison = simplified.comparison
    error, by = comparison.error, comparison.by
    text = f"largest difference on random inputs: {error:.1e} of an output, by {by}"
    if comparison.before is None or comparison.after is None:
        return text
    return (
        f"{text}\nagainst float64 the original errs by {comparison.before:.1e},"
        f" the simplified model by {comparison.after:.1e}"
    )
