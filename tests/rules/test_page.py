"""docs/rules.md lists the rules and their modules; `--update-golden` writes it anew."""

from inspect import getdoc
from pathlib import Path

import pytest

from ansorpy.state.rule import Rule, name_of
from tests.rules.sets import BY_NAME, SETS

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
HEAD = """# Derivation rules

Made from the docstrings of `rules/`, which have the condition, rewrite, limits and source of each
rule, by `tests/rules/test_page.py`; do not edit by hand
(`pytest tests/rules/test_page.py --update-golden`). `ansorpy explain` tells which condition
decided.

A derivation is at (S, i): a state and its current stage, from the last stage to the first. The
rules of a set are tried in order, and the derivation continues from every successor of every rule
that applies. To add a rule, derive a class from `ansorpy.state.rule.Rule`, define `explain` and
`rewrite` (and `excludes_later` if no later rule is to be tried), and put it in front:
`(Mine(), *rules.CPU)`, or in a [file](rule-files.md), which `ansorpy rule check` proves.

A set "cpu+word" precedes "cpu" if a request allows that word, and so of "cuda": its rules change
the rounding of results.
"""


def page() -> str:
    parts = [HEAD, "## Sets\n", *(table(name, chosen) for name, chosen in SETS.items())]
    parts += ["## Rules\n", "| rule | rewrite |\n|---|---|"]
    parts += [f"| {link(BY_NAME[name])} | {summary(BY_NAME[name])} |" for name in sorted(BY_NAME)]
    return "\n".join(parts) + "\n"


def link(rule: Rule) -> str:
    return f"[{name_of(rule)}](../rules/{type(rule).__module__.rpartition('.')[2]}.py)"


def summary(rule: Rule) -> str:
    return (getdoc(type(rule)) or "").partition("\n")[0].rstrip(".")


def table(name: str, chosen: tuple[Rule, ...]) -> str:
    rows = "\n".join(f"{i}. `{rule}`" for i, rule in enumerate(chosen, start=1))
    return f"`{name}`, in order:\n\n{rows}\n"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page())
    assert PAGE.exists()
    assert PAGE.read_text() == page(), "docs/rules.md is stale: run with --update-golden"


@pytest.mark.parametrize("rule", BY_NAME.values(), ids=name_of)
def test_the_docstring_is_a_row_of_the_table(rule: Rule) -> None:
    text = getdoc(type(rule)) or ""
    rows = ("Condition   ", "Rewrite     ", "Not handled ", "Source      ")
    assert all(f"\n{row}" in text for row in rows)
