"""A truth value that can explain itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """A truth value, and the axis, access or number that decided it."""

    holds: bool
    why: str

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'no'}: {self.why}"


def yes(why: str) -> Answer:
    """Return the answer that it holds."""
    return Answer(True, why)


def no(why: str) -> Answer:
    """Return the answer that it does not hold."""
    return Answer(False, why)
