"""docs/passes.md lists the graph passes and their modules; `--update-golden` writes it."""

from inspect import getdoc
from pathlib import Path

import pytest

from ansorpy.graph.passes import PASSES, Pass

PAGE = Path(__file__).parents[3] / "docs" / "passes.md"
HEAD = """# Graph passes

Made from the docstrings of `ansorpy/graph/passes/`, which have the condition, rewrite, limits and
source of each pass, by `tests/graph/passes/test_page.py`; do not edit by hand
(`pytest tests/graph/passes/test_page.py --update-golden`).

The manager runs the passes in this order, again and again until none of them fires, and removes
dead nodes after each pass that fired. `ansorpy simplify IN OUT` does so with an ONNX model,
compares both models on random inputs and reports the passes that fired; `--exact` leaves out
passes that change roundings. In Python:

<!-- skip: takes a graph of the reader; tests/graph/passes has some -->
```python
from ansorpy.graph.passes import PASSES, simplify

made = simplify(graph)  # made.graph, made.fired, made.settled
made = simplify(graph, [one for one in PASSES if one.exact])
```

To add a pass, write a function from a `Graph` to a `Rewritten` in a file of its own, mostly by
`rewrite_nodes`, and a line of `PASSES` with the reason for its place.

| pass | rewrite | every bit stays |
|---|---|---|
"""


def page() -> str:
    rows = [
        f"| [{one.name}](../ansorpy/graph/passes/{one.name}.py) | {summary(one)} |"
        f" {'yes' if one.exact else 'no'} |"
        for one in PASSES
    ]
    return HEAD + "\n".join(rows) + "\n"


def summary(one: Pass) -> str:
    return (getdoc(one.apply) or "").partition("\n")[0].rstrip(".")


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page())
    assert PAGE.exists()
    assert PAGE.read_text() == page(), "docs/passes.md is stale: run with --update-golden"


@pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
def test_the_docstring_is_in_the_form_of_a_rule(one: Pass) -> None:
    rows = ["Condition ", "Rewrite ", "Not handled ", "Source "]
    rows += [] if one.exact else ["Rounding "]
    assert all(f"\n{row}" in (getdoc(one.apply) or "") for row in rows)
    assert one.apply.__module__.rpartition(".")[2] == one.name
