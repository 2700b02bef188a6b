"""Hours of a slot, against a walk over every minute of a week."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.cluster.hours import DAYS, Hours
from ansorpy.errors import SpecError

MONDAY = datetime(2026, 11, 30)


def inside(moment: datetime, first: int, count: int, begin: int, end: int) -> bool:
    """Return whether a window of `count` days from `first` has a moment; minutes of its days."""
    for back in (0, 1):
        day = moment - timedelta(days=back)
        minute = moment.hour * 60 + moment.minute + back * 1440
        last = end if begin < end else end + 1440
        if (day.weekday() - first) % 7 < count and begin <= minute < last:
            return True
    return False


@given(
    st.integers(0, 6), st.integers(1, 7), st.integers(0, 1439), st.integers(0, 1440),
    st.integers(0, 7 * 1440 - 1),
)  # fmt: skip
def test_a_window_has_the_minutes_of_its_days(
    first: int, count: int, begin: int, end: int, minute: int
) -> None:
    if begin == end:
        return
    days = f"{DAYS[first]}-{DAYS[(first + count - 1) % 7]}"
    clock = f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
    hours, moment = Hours(f"{days} {clock}"), MONDAY + timedelta(minutes=minute)
    assert hours.open_at(moment) == inside(moment, first, count, begin, end)
    until = hours.until(moment)
    if not until:
        return
    change = datetime.fromisoformat(until)
    assert hours.open_at(change) != hours.open_at(moment)
    assert hours.open_at(change - timedelta(minutes=1)) == hours.open_at(moment)


def test_windows_add_up() -> None:
    hours = Hours("mon-fri 19:00-07:00, Sat-Sun")
    assert not hours.open_at(MONDAY.replace(hour=8))
    assert hours.open_at(MONDAY.replace(hour=19))
    assert hours.open_at(MONDAY.replace(hour=6)) is False  # Sunday ends at midnight
    assert hours.open_at(datetime(2026, 12, 1, 6, 59))
    assert hours.until(MONDAY.replace(hour=8, minute=30, second=5)) == "2026-11-30T19:00"
    assert hours.until(datetime(2026, 12, 5, 12)) == "2026-12-07T00:00"


def test_no_hours_are_always() -> None:
    assert Hours("").open_at(MONDAY)
    assert Hours(" ").until(MONDAY) == ""


@pytest.mark.parametrize(
    "text", ["daily", "Mon 9-17", "Mon 25:00-26:00", "Mon 10:60-11:00", "10:00-10:00", "Mon,,Tue"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"cannot use .* as hours because .*; expected"):
        Hours(text)
