"""Template filters: format times, ratios, rates and Python source."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import log
from typing import Final

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
NOTHING: Final = "–"  # noqa: RUF001 - an en dash for a missing number


def latency(seconds: float | None) -> str:
    """Return a short time with three significant digits: `12.3 µs`."""
    if seconds is None:
        return NOTHING
    scale, unit = next(((s, u) for s, u in UNITS if seconds >= s), (1e-9, "ns"))
    value = seconds / scale
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"


def span(seconds: float | None) -> str:
    """Return a long time: `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d`."""
    if seconds is None:
        return NOTHING
    if seconds < MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < HOUR_S:
        rest = int(seconds % MINUTE_S)
        return f"{int(seconds // MINUTE_S)} min" + (f" {rest} s" if rest else "")
    if seconds < DAY_S:
        return f"{int(seconds // HOUR_S)} h {int(seconds % HOUR_S // MINUTE_S)} min"
    return f"{int(seconds // DAY_S)} d"


def moment(epoch_s: float | None) -> str:
    """Return a date: `2026-03-01 12:30:05 UTC`."""
    if epoch_s is None:
        return NOTHING
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ratio(value: float | None) -> str:
    """Return a factor: `5.20x`."""
    return NOTHING if value is None else f"{value:.2f}×"  # noqa: RUF001 - multiplication sign


def gflops(flop_per_s: float | None) -> str:
    """Return GFLOP/s: `116.7`."""
    return f"{flop_per_s / 1e9:.1f}" if flop_per_s else NOTHING


def sparkline(latencies: Sequence[float]) -> str:
    """Return the points of an SVG polyline in a box of 100 by 24: logarithmic, steps to the end."""
    if len(latencies) < 2 or min(latencies) <= 0:
        return ""
    top, bottom = log(max(latencies)), log(min(latencies))
    places: list[str] = []
    for number, latency_s in enumerate(latencies):
        x = 100 * number / (len(latencies) - 1)
        y = 2 + 20 * (top - log(latency_s)) / ((top - bottom) or 1.0)
        places += [f"{x:.1f},{places[-1].partition(',')[2]}"] if places else []
        places.append(f"{x:.1f},{y:.1f}")
    return " ".join(places)


def python(source: str) -> Markup:
    """Return escaped Python source with syntax highlighting by CSS classes."""
    formatter = HtmlFormatter(nowrap=True, classprefix="p-")
    return Markup(highlight(source, PythonLexer(), formatter))  # pygments escapes
