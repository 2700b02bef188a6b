"""The delivered file of a stored candidate compiles to the LLVM text of the search's path."""

import pytest

from tests.candidates.delivered import delivered_module, differences, through_text
from tests.candidates.digests import texts_of
from tests.candidates.stored import OPERATORS

SAMPLE = (3, 20)  # all 384 by `python -m tests.candidates.delivered`


@pytest.mark.parametrize("name", OPERATORS)
def test_text_of_the_delivered_file_compiles_to_the_same_code(name: str) -> None:
    assert differences(name, SAMPLE) == []


def test_another_reading_of_the_text_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    simd = delivered_module()
    symbols = {kind: "-" if symbol == "+" else symbol for kind, symbol in simd.SYMBOLS.items()}
    direct = texts_of("softmax", 3)
    monkeypatch.setattr(simd, "SYMBOLS", symbols)
    with through_text():
        assert texts_of("softmax", 3) != direct
