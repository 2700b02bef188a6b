"""Frames and messages of slots, and impossible ones."""

import io
from typing import Any

import pytest

from ansorpy.cluster.messages import (
    SlotAnswer,
    answered,
    asked,
    outcomes,
    own_versions,
    question,
    read_frame,
    refusal,
)
from ansorpy.errors import WireError
from ansorpy.measure.outcome import Estimated, Failed, Measured
from ansorpy.measure.values import encode

GOOD = [Measured((1.0,)), Failed("wrong", "4 of 5"), Estimated(2.0)]


def test_a_frame_is_read_whole_or_refused() -> None:
    assert read_frame(io.BytesIO(b"")) is None
    assert read_frame(io.BytesIO((3).to_bytes(8, "little") + b"abc")) == b"abc"
    with pytest.raises(WireError, match="2 of 3 bytes"):
        read_frame(io.BytesIO((3).to_bytes(8, "little") + b"ab"))
    with pytest.raises(WireError, match="expected at most"):
        read_frame(io.BytesIO((1 << 40).to_bytes(8, "little")))


def test_a_question_has_a_method_a_pool_and_arguments() -> None:
    found = asked(encode(question("race", 3, 1, 2, peers=True)))
    assert (found.method, found.pool, found.arguments) == ("race", 3, (1, 2))
    assert dict(found.options) == {"peers": True}
    with pytest.raises(WireError, match="not a question"):
        asked(encode(SlotAnswer(1)))


def test_an_error_of_a_slot_is_raised_and_no_other_value_is_an_answer() -> None:
    assert answered(encode(SlotAnswer((1, 2)))) == (1, 2)
    with pytest.raises(WireError, match="the slot raised ValueError"):
        answered(encode(SlotAnswer(error="ValueError")))
    with pytest.raises(WireError, match="not an answer"):
        answered(encode(GOOD))


@pytest.mark.parametrize(
    "value",
    [
        None, 3, GOOD[:2], [*GOOD, GOOD[0]], [1, 2, 3],
        [*GOOD[:2], Measured(())], [*GOOD[:2], Measured((0.0,))],
        [*GOOD[:2], Measured((float("nan"),))], [*GOOD[:2], Measured([1.0])],  # type: ignore[arg-type]
        [*GOOD[:2], Measured((1.0,), slowdown=0.0)], [*GOOD[:2], Estimated(-1.0)],
        [*GOOD[:2], Failed("odd", "")],  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_impossible_outcomes_are_refused(value: Any) -> None:
    with pytest.raises(WireError, match="not the outcomes of 3 candidates"):
        outcomes(value, 3)


def test_possible_outcomes_are_taken() -> None:
    assert outcomes(GOOD, 3) == GOOD


def test_other_versions_are_refused_with_both() -> None:
    assert refusal(own_versions()) == ""
    assert refusal({**own_versions(), "Python": "3.9"}).startswith(
        "cannot use it because it runs Python 3.9; expected 3."
    )
    assert "of no known version" in refusal({})
