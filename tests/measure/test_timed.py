"""What was timed is known by its machine code and its meaning."""

from ansorpy.measure.outcome import Measured
from ansorpy.measure.timing.measurement_cache import Timed
from tests.measure.fake import FakeBuilt, matmul


def test_the_same_code_of_the_same_meaning_is_known() -> None:
    timed, code = Timed(), FakeBuilt("a", ())
    timed.note(None, code, Measured((1.0, 2.0), build_s=3.0, check_s=4.0, run_s=5.0, slowdown=2.0))
    assert timed.of(None, FakeBuilt("a", ()), 7.0) == Measured(
        (1.0, 2.0), build_s=7.0, slowdown=2.0
    )
    assert timed.of(matmul(), code, 7.0) is None
    assert timed.of(None, FakeBuilt("b", ()), 7.0) is None


def test_what_was_not_asked_for_for_longest_is_forgotten() -> None:
    timed = Timed(limit=2)
    for name in "ab":
        timed.note(None, FakeBuilt(name, ()), Measured((1.0,)))
    assert timed.of(None, FakeBuilt("a", ()), 0.0) is not None
    timed.note(None, FakeBuilt("c", ()), Measured((1.0,)))
    found = [timed.of(None, FakeBuilt(name, ()), 0.0) is not None for name in "abc"]
    assert found == [True, False, True]
