"""Automatic differentiation and scale-out: the README says that they are out of scope."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = ("automatic differentiation", "parallel execution of one model", "scale-out")


def test_the_readme_tells_the_parts_that_are_out_of_scope() -> None:
    """A user reads the limits on the first page, before an installation."""
    usage = (ROOT / "README.md").read_text().split("## From Python")[0]
    (sentence,) = re.findall(r"Out of scope: ([^.]*)\.", usage)
    for word in WORDS:
        assert word in sentence, word
