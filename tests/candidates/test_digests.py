"""The stored candidates and their digests; the command compares all 384 of them."""

import llvmlite
import pytest

from ansorpy.target import Target
from tests.candidates.digests import digest, digests, recorded, renumbered
from tests.candidates.stored import OPERATORS, ROWS, candidates

SAMPLE = range(0, ROWS, 16)  # a ranked row and a random one
TEXT = """
define void @phase(ptr %"a", i64 %b) {
entry:
  %"sum.1" = add i64 %b, 1
  br label %out
out:
  ret void
}
"""


def test_every_operator_has_its_rows() -> None:
    assert len(OPERATORS) == 12
    for name in OPERATORS:
        assert len(list(candidates(name))) == ROWS, name
        assert len(recorded()[1][name]) == ROWS, name


def test_names_change_no_digest_but_operations_do() -> None:
    other = TEXT.replace("sum.1", "total").replace("entry", "start").replace("out", "end")
    assert renumbered(TEXT) == renumbered(other)
    assert digest((TEXT,), Target()).text == digest((other,), Target()).text
    assert digest((TEXT,), Target()) != digest((TEXT.replace("add", "sub"),), Target())


@pytest.mark.parametrize("name", OPERATORS)
def test_the_sample_compiles_to_the_recorded_machine_code(name: str) -> None:
    version, before = recorded()
    if version != llvmlite.__version__:
        pytest.skip(f"digests were recorded with llvmlite {version}")
    assert list(digests(name, SAMPLE)) == before[name][:: SAMPLE.step]
