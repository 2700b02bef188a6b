"""Hours of a week in which a slot takes questions."""

import re
from datetime import datetime, timedelta
from typing import Final

from ansorpy.errors import SpecError

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY: Final = 24 * 60  # minutes
WEEK: Final = 7 * DAY
_DAYS: Final = "|".join(DAYS)
_WINDOW: Final = re.compile(
    rf"(?:({_DAYS})(?:-({_DAYS}))?)?\s*(?:(\d\d):(\d\d)-(\d\d):(\d\d))?", re.IGNORECASE
)


class Hours:
    """Minutes of a week, in the local time of the machine.

    Args:
        text: windows as `Mon-Fri 19:00-07:00, Sat-Sun`; a window that ends before it begins ends
            on the next day. "" means always.

    Raises:
        SpecError: the text has another form.
    """

    def __init__(self, text: str = "") -> None:
        self._open = bytearray(WEEK)
        for window in text.split(",") if text.strip() else ["Mon-Sun"]:
            self._add(window.strip())

    def _add(self, window: str) -> None:
        match = _WINDOW.fullmatch(window)
        if not window or match is None:
            raise SpecError(
                f"cannot use {window[:40]!r} as hours because it is no window; expected windows as"
                " 'Mon-Fri 19:00-07:00, Sat-Sun'"
            )
        first, last, *clock = match.groups()
        begin, end = 0, DAY
        if clock[0] is not None:
            begin, end = (60 * int(clock[k]) + int(clock[k + 1]) for k in (0, 2))
            if not (begin < DAY and end <= DAY and begin != end) or clock[1][0] >= "6":
                raise SpecError(
                    f"cannot use {window[:40]!r} as hours because it has no such time; expected"
                    " two times from 00:00 to 24:00"
                )
        day = DAYS.index(first.title()) if first else 0
        count = 7 if not first else 1 + (DAYS.index((last or first).title()) - day) % 7
        for k in range(day, day + count):
            for minute in range(begin, end if begin < end else end + DAY):
                self._open[(k * DAY + minute) % WEEK] = 1

    def open_at(self, moment: datetime) -> bool:
        """Return whether the slot takes questions at a moment."""
        return bool(self._open[_minute(moment)])

    def until(self, moment: datetime) -> str:
        """Return when that changes, as ISO 8601 with minutes; "" if it never does."""
        now = _minute(moment)
        for minutes in range(1, WEEK):
            if self._open[(now + minutes) % WEEK] != self._open[now]:
                change = moment.replace(second=0, microsecond=0) + timedelta(minutes=minutes)
                return change.isoformat(timespec="minutes")
        return ""


def _minute(moment: datetime) -> int:
    return moment.weekday() * DAY + moment.hour * 60 + moment.minute
