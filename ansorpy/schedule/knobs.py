"""Knobs of a template: a name and the values that a tuner may choose from."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import comb, factorial
from typing import Final, TypeAlias

from ansorpy.errors import SpecError, quoted
from ansorpy.population.factor import factorizations, prime_powers
from ansorpy.schedule.schedule import MAX_SIZE

MAX_KNOBS: Final = 32
MAX_VALUES: Final = 4096  # values of one knob
MAX_PARTS: Final = 8  # parts of a split by a knob
MAX_NAMES: Final = 64  # loops of an order
POLICIES: Final = ("factors", "power2")

# A number, a switch, a word, the inner lengths of a split, or the loops of an order.
Value: TypeAlias = int | bool | str | tuple[int, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Knob:
    """A choice of a template: one of `values`, none twice."""

    name: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or len(self.name) > MAX_NAMES:
            raise SpecError(
                f"cannot name a knob {quoted(self.name)}; expected letters, digits and _"
            )
        check_count(self.name, len(self.values))
        if len({(type(one), one) for one in self.values}) < len(self.values):
            raise SpecError(f"cannot give the knob {self.name} a value twice; expected each once")


def check_count(name: str, count: int) -> None:
    """Raise SpecError unless a knob may have this number of values."""
    if not 1 <= count <= MAX_VALUES:
        raise SpecError(f"cannot give the knob {name} {count} values; expected 1 to {MAX_VALUES}")


def split_knob(
    name: str,
    extent: int,
    num_outputs: int,
    policy: str = "factors",
    max_factor: int | None = None,
    candidates: Sequence[Sequence[int]] = (),
) -> Knob:
    """Return the knob of a split: its values are the inner lengths, outer part first.

    Args:
        extent: of the loop, or of the loops that are fused to it: 1 to 2^31 - 1.
        num_outputs: parts of the loop, 2 to 8.
        policy: `factors`: lengths whose product divides the extent; `power2`: powers of two whose
            product is at most the extent.
        max_factor: the largest inner length.
        candidates: the only inner lengths, in place of the policy's lengths.

    Raises:
        SpecError: a number is out of range, or there are too many lengths.
    """
    if not 2 <= num_outputs <= MAX_PARTS:
        raise SpecError(
            f"cannot split by the knob {name} into {num_outputs} parts; expected 2 to {MAX_PARTS}"
        )
    if not 1 <= extent <= MAX_SIZE:
        raise SpecError(
            f"cannot split by the knob {name} because its loop has an extent of {quoted(extent)};"
            f" expected 1 to {MAX_SIZE}"
        )
    if candidates:
        check_count(name, len(candidates))
        lengths = [tuple(map(int, one)) for one in candidates]
        if any(len(one) != num_outputs - 1 or min(one) < 1 for one in lengths):
            raise SpecError(
                f"cannot split by the knob {name} with these candidates; expected"
                f" {num_outputs - 1} inner lengths of at least 1 in each"
            )
        return Knob(name, tuple(lengths))
    if policy not in POLICIES:
        raise SpecError(
            f"cannot split by the knob {name} with policy {quoted(policy)}; expected"
            f" {' or '.join(POLICIES)}"
        )
    # The powers of two up to the extent divide the largest one.
    whole = extent if policy == "factors" else 1 << (extent.bit_length() - 1)
    limit = extent if max_factor is None else max_factor
    ways = 1
    for _, exponent in prime_powers(whole):
        ways *= comb(exponent + num_outputs - 1, num_outputs - 1)
    if ways > MAX_VALUES:
        raise SpecError(
            f"cannot split {extent} by the knob {name} in {ways} ways; expected at most"
            f" {MAX_VALUES}: fewer parts, or candidates"
        )
    rows = factorizations(whole, num_outputs - 1, whole).tolist()
    return Knob(name, tuple(tuple(row) for row in sorted(rows) if max(row) <= limit))


def order_knob(
    name: str, loops: Sequence[str], candidates: Sequence[Sequence[str]] | None = None
) -> Knob:
    """Return the knob of an order of loops: all permutations unless `candidates` are given.

    Raises:
        SpecError: there are too many orders.
    """
    if candidates is not None:
        return Knob(name, tuple(tuple(map(str, one)) for one in candidates))
    if len(loops) > MAX_NAMES or factorial(len(loops)) > MAX_VALUES:
        raise SpecError(
            f"cannot order {len(loops)} loops by the knob {name} in every way; expected at most 6"
            " loops, or candidates"
        )
    return Knob(name, tuple(tuple(map(str, one)) for one in permutations(loops)))
