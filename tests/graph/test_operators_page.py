"""docs/operators.md lists the table of operators; `--update-golden` writes it."""

from pathlib import Path

import pytest

from ansorpy.graph import builder as _builder  # noqa: F401  it fills the table
from ansorpy.graph.operator import OPERATORS, Operator

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
HEAD = """# Operators of ONNX

Made from the table of operators in `ansorpy/graph/` by `tests/graph/test_operators_page.py`; do not
edit by hand (`pytest tests/graph/test_operators_page.py --update-golden`).

A model is brought to opset 23, each of its functions by itself. `Constant`, `Identity`, `Dropout`,
`CastLike`, `Optional*` and an `If` with a known condition go away when the model is read; a `Loop`
or `Scan` with a known number of steps, at most 64, is written out. Values without elements are
constants, sparse tensors are made dense. An operator that is not listed here is the function body
that ONNX gives for it, if there is one. Any other operator is refused by the name of its node.
`python -m benchmarks.models.node_tests` runs ONNX's own node tests.

- kernel: a composition of operators of `ansorpy.topi`; a view is a kernel only inside of a group.
- constant: it follows from shapes and known values when the model is read.
- NumPy: it has no kernel, and runs only on request (`--hosted`).

| operator | how | attributes |
|---|---|---|
"""
REFUSED = (
    ("node", "reason", "instead"),
    ("---", "---", "---"),
    (
        "`Loop`, `If`, whose trip count or condition is computed at run time",
        "shapes are fixed",
        "bind the input that decides (`--bind`), or cut the model there",
    ),
    (
        "`Sequence*`, `SplitToSequence`, `ConcatFromSequence`",
        "a sequence is no tensor",
        "export with tensors: `Split`, `Concat`",
    ),
    (
        "`Random*`, `Multinomial`, `Bernoulli`",
        "a bundle gives equal outputs for equal inputs",
        "make the random numbers an input",
    ),
    (
        "`String*`, `RegexFullMatch`, `TfIdfVectorizer`",
        "a text is no tensor of numbers",
        "compute the numbers ahead of the model",
    ),
    ("`ImageDecoder`", "a file is no tensor of numbers", "make the pixels the input"),
    ("`Adam`, `Adagrad`, `Momentum`, `Gradient`", "they train", "export for inference"),
)


def how(one: Operator) -> str:
    if one.hosted is not None:
        return "NumPy"
    return "constant" if one.values is not None else "kernel, a view" if one.view else "kernel"


def page() -> str:
    rows = [
        f"| {name} | {how(one)} | {', '.join(sorted(one.attrs))} |"
        for name, one in sorted(OPERATORS.items())
        if one.hosted is None or not one.hosted.copied
    ]
    refused = "".join(f"| {' | '.join(row)} |\n" for row in REFUSED)
    return HEAD + "\n".join(rows) + f"\n\nThese are refused:\n\n{refused}"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page())
    assert PAGE.exists()
    assert PAGE.read_text() == page(), "docs/operators.md is stale: run with --update-golden"
