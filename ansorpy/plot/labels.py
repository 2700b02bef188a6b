"""Heights of labels that do not overlap."""

from collections.abc import Mapping


def apart(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Return heights at most 1 with gaps of at least `gap` between neighbours, in their order."""
    names = sorted(heights, key=heights.__getitem__)
    placed: list[float] = []
    for name in names:
        least = placed[-1] + gap if placed else 0.0
        placed.append(max(heights[name], least))
    most = 1.0
    for place in reversed(range(len(placed))):  # down again from the top
        placed[place] = min(placed[place], most)
        most = placed[place] - gap
    return dict(zip(names, placed, strict=True))
