"""Heights of labels that do not overlap."""

from collections.abc import Mapping
from typing import Final

TOP: Final = 0.97  # greatest height of a label: a title stands above


def apart(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Return heights at most TOP with gaps of at least `gap` between neighbours, in their order."""
    names = sorted(heights, key=heights.__getitem__)
    placed: list[float] = []
    for name in names:
        least = placed[-1] + gap if placed else 0.0
        placed.append(max(heights[name], least))
    most = TOP
    for place in reversed(range(len(placed))):  # down again from the top
        placed[place] = min(placed[place], most)
        most = placed[place] - gap
    return dict(zip(names, placed, strict=True))
