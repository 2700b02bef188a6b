"""The static memory plan: values that live at once never share a byte."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ansorpy.bundle.arena import (
    ArenaPlan,
    Lifetime,
    bound_bytes,
    in_place,
    lifetimes,
    plan_arena,
)
from ansorpy.graph import Output
from ansorpy.graph.aliases import ALIGN_BYTES
from tests.bundle.models import model


@st.composite
def spans(draw: st.DrawFn) -> list[Lifetime]:
    """Draw values of any size that live for any number of steps."""
    found = []
    for number in range(draw(st.integers(0, 24))):
        first = draw(st.integers(0, 20))
        size_bytes = draw(st.integers(1, 400) | st.sampled_from((0, 64, 128, 4096)))
        found.append(Lifetime(f"v{number}", size_bytes, first, first + draw(st.integers(0, 9))))
    return found


@st.composite
def chains(draw: st.DrawFn) -> list[Lifetime]:
    """Draw the values of a chain of layers with residual connections, as real models have."""
    steps = draw(st.integers(2, 40))
    found = []
    for number in range(steps):
        reach = draw(st.sampled_from((1, 1, 1, 1, 2, 3, 4)))
        size_bytes = draw(st.sampled_from((1, 2, 3, 4, 6, 8, 12, 16))) * 4096
        found.append(Lifetime(f"v{number}", size_bytes, number, min(number + reach, steps)))
    return found


def by_brute_force(values: list[Lifetime]) -> int:
    """Return the most bytes alive at one step, step by step."""
    return max(
        (
            sum(-(-v.size_bytes // 64) * 64 for v in values if v.first <= step <= v.last)
            for step in range(60)
        ),
        default=0,
    )


def check(values: list[Lifetime], arena: ArenaPlan) -> None:
    assert set(arena.places) == {value.name for value in values}
    for value in values:
        begin = arena.places[value.name]
        assert begin % ALIGN_BYTES == 0
        assert begin + value.size_bytes <= arena.size_bytes
        for other in values:
            if other is not value and value.overlaps(other):
                low = arena.places[other.name]
                assert begin + value.size_bytes <= low or low + other.size_bytes <= begin


@given(spans() | chains())
def test_values_that_live_at_once_do_not_overlap(values: list[Lifetime]) -> None:
    arena = plan_arena(values)
    check(values, arena)
    assert arena.bound_bytes == bound_bytes(values) == by_brute_force(values)
    assert arena.bound_bytes <= arena.size_bytes <= arena.sum_bytes


@given(chains())
def test_a_plan_does_not_depend_on_the_order_of_its_values(values: list[Lifetime]) -> None:
    assert plan_arena(values[::-1]).size_bytes == plan_arena(values).size_bytes


def test_a_chain_of_equal_values_takes_two_places() -> None:
    values = [Lifetime(f"v{k}", 640, k, k + 1) for k in range(9)]
    assert plan_arena(values).size_bytes == 2 * 640


def test_a_view_keeps_the_memory_of_its_source_alive() -> None:
    plan = model().plan
    spans = {one.name: (one.first, one.last) for one in lifetimes(plan)}
    assert spans == {"conv": (0, 1), "second": (2, 3), "last": (3, 4), "sorted": (4, 5)}


def test_a_result_lies_in_the_memory_of_its_caller_and_others_are_copies() -> None:
    plan = model().plan
    assert in_place(plan) == {"sum": 0, "wide": 3}
    none = replace(plan, outputs=(Output("c", "rows"),))
    assert in_place(none) == {"conv": 0}
    assert "conv" not in {one.name for one in lifetimes(none)}
