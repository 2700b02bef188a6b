"""Shared parts of the forms."""

from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """One array that a formula reads."""

    name: str
    shape: Shape
    weight: bool = False


def vectors(extent: int) -> tuple[Input, Input]:
    """Return scale and shift of a normalisation."""
    return (Input("scale", (extent,), weight=True), Input("shift", (extent,), weight=True))
