"""`rules/counts.py` has the golden counts of our sets; `--update-golden` writes it anew."""

from pathlib import Path
from typing import Final

import pytest

from ansorpy import rules
from ansorpy.rules.counts import COUNTS
from ansorpy.tuner.rule_sets.check import operators, sketch_counts

FILE: Final = Path(__file__).parents[2] / "rules" / "counts.py"
HEAD: Final = '''\
"""Golden counts: numbers of sketches of our sets on the operators of `ansorpy rule check`.

Each pair has the count at the small and at the large shape, on the targets of `COUNTED_ON`.
Written by `pytest tests/rules/test_counts.py --update-golden`.
"""

from collections.abc import Mapping
from typing import Final

COUNTS: Final[Mapping[str, Mapping[str, tuple[int, int | None]]]] = {
'''


def module() -> str:
    lines = [HEAD]
    for kind, chosen in (("cpu", rules.CPU), ("cuda", rules.CUDA)):
        lines.append(f'    "{kind}": {{\n')
        for one in operators():
            lines.append(f'        "{one.name}": {sketch_counts(kind, chosen, one)},\n')
        lines.append("    },\n")
    return "".join((*lines, "}\n"))


def test_the_golden_counts_are_those_of_our_sets(request: pytest.FixtureRequest) -> None:
    text = module()
    if request.config.getoption("--update-golden"):
        FILE.write_text(text)
    assert FILE.read_text() == text, "rules/counts.py is stale: run with --update-golden"


def test_the_counts_of_both_sets_cover_every_operator() -> None:
    names = [one.name for one in operators()]
    assert [*COUNTS] == ["cpu", "cuda"]
    assert all([*counts] == names for counts in COUNTS.values())
