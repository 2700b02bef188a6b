"""Lines of Ansor's logs are read strictly."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.ansor_log import LogStep, parse_line
from ansorpy.errors import RecordError
from ansorpy.target import Target
from ansorpy.tuner.ansor_import import LogImport
from tests.ansor_log.test_replay import CPU, TUTORIAL


def test_a_line_has_the_fields_of_its_measurement() -> None:
    line = parse_line(TUTORIAL)
    assert (line.name, line.arguments) == ("matmul_add", (1024, 1024, 1024, "float32"))
    assert (line.target, line.error, line.version) == ("llvm", 0, "v0.3")
    assert (line.times_s, line.created_s) == ((0.0044742,), 1607112214)
    assert line.steps[0] == LogStep("SP", 2, (0, 1024, (2, 1, 4), True))
    assert not line.is_digest
    assert parse_line(CPU[2]).is_digest


def changed(place: tuple[Any, ...], value: Any) -> str:
    """Return the tutorial's line with another value at a place."""
    found = json.loads(TUTORIAL)
    at = found
    for part in place[:-1]:
        at = at[part]
    at[place[-1]] = value
    return json.dumps(found)


STEPS = ("i", 1, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "nonsense",
            "cannot read the line because it is no JSON (Expecting value: line 1 column 1",
        ),
        ("[]", "cannot read the line because it is []; expected the fields i, r, v"),
        ('{"i": 1}', "cannot read the line because it is ['i']; expected the fields i, r, v"),
        (changed(("x",), 1), "cannot read the line because it is ['i', 'r', 'v', 'x']"),
        (changed(("v",), "v9"), "cannot read v because it is 'v9'; expected one of v0.1, v0.2"),
        (changed(("i",), []), "cannot read i because it is []; expected a list of 2 to 2 items"),
        (changed(("i", 0, 0), "[1]"), "cannot read the workload key '[1]'; expected the JSON of a"),
        (
            changed(("i", 0, 0), "["),
            "cannot read the workload key '['; expected the JSON of a list",
        ),
        (changed(("i", 0, 1), ""), "cannot read task, target because it is ''; expected a target"),
        (changed(("i", 0, 2), [1]), "cannot read task, hardware parameters because it is [1]"),
        (changed(("r", 0), []), "cannot read r, times because it is []; expected a list of 1 to"),
        (changed(("r", 0), ["1"]), "cannot read r, times because it is ['1']; expected a number"),
        (changed(("r", 1), 1.5), "cannot read r, error number because it is 1.5; expected an int"),
        (changed(("i", 1, 0), [1]), "cannot read state because its stages are [1]; expected []"),
        (changed((*STEPS, 0), ["XX", 1]), "cannot read step 0 because it is ['XX', 1]; expected a"),
        (
            changed((*STEPS, 1), 7),
            "cannot read step 1 because it is 7; expected a list that begins",
        ),
        (changed((*STEPS, 3), ["RE", 2]), "cannot read step 3 (RE) because it is ['RE', 2]; expe"),
        (changed((*STEPS, 3, 1), -1), "cannot read step 3 (RE), stage because it is -1; expected"),
        (changed((*STEPS, 0, 4), [2.0]), "cannot read step 0 (SP), lengths because it is [2.0]"),
        (changed((*STEPS, 0, 5), 2), "cannot read step 0 (SP), order because it is 2; expected 0"),
        (changed((*STEPS, 9, 3), 12), "cannot read step 9 (AN), annotation because it is 12; exp"),
        (changed((*STEPS, 9, 3), True), "cannot read step 9 (AN), annotation because it is True"),
        (changed((*STEPS, 8), ["FU", 4, [[0]]]), "cannot read step 8 (FU), iterators because it"),
        ("{" * 2_000_000, "cannot read 2000000 characters; expected 1048576 at most"),
        ('{"v": 1, "v": 2}', "a key is there twice in one object"),
        ('{"r": [[NaN]]}', "NaN is not JSON"),
    ],
)
def test_a_malformed_line_is_refused_with_the_field_and_the_expectation(
    text: str, message: str
) -> None:
    with pytest.raises(RecordError) as caught:
        parse_line(text)
    assert message in str(caught.value)


def test_a_malformed_line_ends_nothing_and_is_named_by_its_number() -> None:
    lines = ["# a comment", "", "{}", TUTORIAL, changed(("v",), "v9")]
    reports = list(LogImport(Target(vector_bits=256, registers=16, cores=2)).read(lines))
    assert [report.number for report in reports] == [3, 4, 5]
    assert [report.record is not None for report in reports] == [False, True, False]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda parts: st.lists(parts, max_size=4),
    max_leaves=8,
)
PLACES = st.sampled_from(
    [
        ("i",), ("r",), ("v",), ("i", 0), ("i", 0, 0), ("i", 0, 1), ("i", 1), STEPS, ("r", 0),
        *((*STEPS, n) for n in range(13)), *((*STEPS, n, 1) for n in range(13)),
        *((*STEPS, n, 2) for n in range(13)), *((*STEPS, n, 3) for n in (0, 1, 4, 5, 7, 9)),
    ]
)  # fmt: skip


@given(place=PLACES, value=JSON)
def test_no_line_raises_anything_but_a_reason(place: tuple[Any, ...], value: Any) -> None:
    reader = LogImport(Target(vector_bits=256, registers=16, cores=2))
    (report,) = reader.read([changed(place, value)])
    assert report.record is not None or report.note
