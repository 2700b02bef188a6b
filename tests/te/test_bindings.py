"""The text of a range: read again as it was written, refused with the form that is expected."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy import te
from ansorpy.errors import SpecError
from ansorpy.te.bindings import FORMS, bound, bound_as_json, range_of, range_text
from ansorpy.te.dims import Dim


@st.composite
def dims(draw: st.DrawFn) -> Dim:
    step = draw(st.integers(1, 64))
    low, more = draw(st.integers(1, 99)), draw(st.integers(0, 999))
    counts = st.integers(low, low + more)
    ends = st.tuples(counts, counts).map(sorted)
    weight = st.floats(1e-9, 1e11, exclude_min=True)
    parts = draw(st.dictionaries(ends.map(tuple), weight, max_size=5))
    weighted = [(a * step, b * step, w) for (a, b), w in parts.items()]
    return Dim("N", low * step, (low + more) * step, step, weighted)


@given(dims())
def test_a_range_is_read_as_it_was_written(sizes: Dim) -> None:
    assert range_of("N", range_text(sizes)) == sizes
    sent = json.loads(json.dumps(bound_as_json({"N": sizes, "K": 4, "alpha": 0.5})))
    assert bound(sent) == {"N": sizes, "K": 4, "alpha": 0.5}


def test_a_dim_of_a_user_is_sent_as_a_range() -> None:
    given = te.dim("N", 8, 512, 8, {8: 9, "64..512": 1})
    assert bound_as_json({"N": given}) == {"N": "8..512:8@8:9.0+64..512:1.0"}


@pytest.mark.parametrize(
    "text",
    ["", "5", "1..", "..5", "1..5:", "1..5@", "1..5@1", "1..5@1:1+", "1..5@1:1+1:2", "1 .. 5",
     "1..5\n", "1_0..20", "\u0661..5", "1...5", "-1..5", "1..5@1:nan", "9" * 5000 + "..1"],
)  # fmt: skip
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        range_of("N", text)
    assert str(refused.value).endswith(f"expected a number, or a range such as {FORMS}") or (
        text == "-1..5"
    )


def test_a_symbol_becomes_the_name_of_a_dim() -> None:
    assert range_of("batch.size", "1..8").name == "batch_size"
    assert range_of("2n", "1..8").name == "_2n"


def test_a_sum_of_symbols_is_read_as_it_was_written() -> None:
    asked = {
        "total": "past-len + new",
        "past-len": "0..6",
        "new": "1..4",
        "more": "new+1",
        "all": "2+3",
    }
    made = bound(asked)
    assert [made["total"].low, made["total"].high, made["total"].terms] == [
        1,
        10,
        ("past_len", "new"),
    ]
    assert (made["more"].high, made["more"].terms, made["all"]) == (5, ("new", 1), 5)
    assert bound(bound_as_json(made)) == made
    assert bound(bound_as_json(made))["total"].terms == ("past_len", "new")


def test_a_symbol_may_be_the_same_as_another() -> None:
    made = bound({"a": "1..4", "b": "a", "c": 3, "d": "c"})
    assert made["b"] is made["a"]
    assert made["d"] == 3


@pytest.mark.parametrize("text", ["a+", "+", "a+q", "q", "a+a b", "b", "a-1", "a+1.5"])
def test_a_sum_of_unknown_symbols_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"cannot bind 'b' to .* because of its form"):
        bound({"a": "1..4", "b": text})
