"""The card of a result in a notebook: HTML without a script, readable on light and dark pages.

Text has the colour of the page; other colours are of medium lightness. Every name is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log
from typing import Final

from ansorpy.plot.curve import TrialCurve
from ansorpy.plot.labels import apart
from ansorpy.units import duration
from ansorpy.verdict import Level

EDGES: Final[Mapping[Level, str]] = {"green": "#2e9e5b", "amber": "#d98c00", "none": "#8c8c8c"}
OURS, RACED, THEIRS = "#3d8fd1", "#e0702c", "#a06bb5"
WIDTH, HEIGHT = 520, 130  # pixels of the drawing
FOOT: Final = 8  # pixels below and above the curve
MOST: Final = 3.0  # top of the drawing, times the best
LABELS: Final = 180  # pixels at the right for the labels
GAP: Final = 0.12  # least distance of two labels, as a share of the height of the curve


@dataclass(frozen=True, slots=True)
class Card:
    """The facts of a card: a title, the verdict with its level, rows by name, a drawing."""

    title: str
    verdict: str
    level: Level
    rows: Mapping[str, str]
    drawing: str = ""


def as_html(cards: Iterable[Card], notes: Sequence[str], calls: Sequence[str]) -> str:
    """Return cards below one another, then notes as text and calls as code."""
    foot = [escape(note) for note in notes] + [f"<code>{escape(call)}</code>" for call in calls]
    body = "".join(map(_card, cards))
    return f'<div style="max-width:46em">{body}<p>{"<br>".join(foot)}</p></div>'


def _card(card: Card) -> str:
    cells = "".join(
        f'<tr style="background:none"><th style="text-align:left;font-weight:normal;opacity:.7;'
        f'padding:0 1em 0 0;vertical-align:top">{escape(name)}</th>'
        f'<td style="text-align:left;padding:0">{escape(text)}</td></tr>'
        for name, text in card.rows.items()
    )
    return (
        '<section style="border:1px solid rgba(128,128,128,.45);'
        f"border-left:5px solid {EDGES[card.level]};border-radius:6px;padding:.6em 1em;"
        'margin:.4em 0">'
        f'<div style="opacity:.7">{escape(card.title)}</div>'
        f'<div style="font-size:1.1em;font-weight:600;margin:.1em 0 .4em">{escape(card.verdict)}'
        '</div><table style="border:none;margin:0;color:inherit;font-size:inherit">'
        f"{cells}</table>{card.drawing}</section>"
    )


def history_svg(curve: TrialCurve, raced_s: float | None, lines_s: Mapping[str, float]) -> str:
    """Return a drawing of the times of trials; "" if none has a time.

    Args:
        raced_s: seconds of the kernel in the race; None without a race.
        lines_s: seconds of other programs by name; slow ones are left out.
    """
    if not curve.timed:
        return ""
    times_s = curve.times_s if raced_s is None else (*curve.times_s, raced_s)
    best_s, count = min(times_s), curve.count + 1
    lines_s = {name: time_s for name, time_s in lines_s.items() if time_s <= MOST * best_s}
    every = [*times_s, *lines_s.values()]
    scale = _Scale(min(every), min(MOST * best_s, max(*every, 1.2 * best_s)), count)
    dots = "".join(
        f'<circle cx="{scale.x(n)}" cy="{scale.y(time_s)}" r="2" fill="currentColor"'
        ' opacity=".45"/>'
        for n, time_s in zip(curve.timed, curve.times_s, strict=True)
    )
    best = list(zip(curve.timed, curve.best_s, strict=True))
    steps = "".join(f"H{scale.x(n)}V{scale.y(time_s)}" for n, time_s in best[1:])
    start = f"M{scale.x(best[0][0])} {scale.y(best[0][1])}"
    curve_path = (
        f'<path d="{start}{steps}H{scale.x(count)}" fill="none" stroke="{OURS}"'
        ' stroke-width="1.8"/>'
    )
    star, name = "", "best trial"
    if raced_s is not None:
        star = f'<circle cx="{scale.x(count)}" cy="{scale.y(raced_s)}" r="4.5" fill="{RACED}"/>'
        name = "this kernel"
    labels = _labels({**lines_s, name: best_s if raced_s is None else raced_s}, scale)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img"'
        ' style="max-width:100%;margin-top:.5em" font-family="sans-serif">'
        f"<title>time of a call by trial, logarithmic: best {duration(best_s)}</title>"
        f"{_lines(lines_s, scale)}{dots}{curve_path}{star}{labels}</svg>"
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Pixels of times between two limits, and of trials up to a number."""

    low_s: float
    high_s: float
    count: int

    def x(self, trial: float) -> str:
        return f"{6 + (WIDTH - LABELS) * trial / self.count:.1f}"

    def y(self, time_s: float) -> str:
        return self.pixels(self.height(time_s))

    def height(self, time_s: float) -> float:
        """Return the height of a time from 0 to 1."""
        return log(min(time_s, self.high_s) / self.low_s) / log(self.high_s / self.low_s)

    def pixels(self, height: float) -> str:
        return f"{HEIGHT - FOOT - (HEIGHT - 2 * FOOT) * height:.1f}"


def _lines(lines_s: Mapping[str, float], scale: _Scale) -> str:
    return "".join(
        f'<path d="M6 {scale.y(time_s)}H{scale.x(scale.count)}" stroke="{THEIRS}"'
        ' stroke-dasharray="4 3"/>'
        for time_s in lines_s.values()
    )


def _labels(labels_s: Mapping[str, float], scale: _Scale) -> str:
    heights = {name: scale.height(time_s) for name, time_s in labels_s.items()}
    left = 14 + WIDTH - LABELS
    return "".join(
        f'<text x="{left}" y="{scale.pixels(height)}" fill="currentColor" font-size="10"'
        f' dominant-baseline="middle">{escape(name)} {duration(labels_s[name])}</text>'
        for name, height in apart(heights, GAP).items()
    )
