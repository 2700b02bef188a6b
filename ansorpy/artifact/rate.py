"""Operations per second of a kernel, as far as they may be shown."""

from dataclasses import dataclass
from typing import Final

from ansorpy.records import Race
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag

SLACK: Final = 1.05  # times the machine's peak: its clock drifts between the two measurements


EXECUTED: Final = "GFLOP/s"
EFFECTIVE: Final = "effective GFLOP/s"


@dataclass(frozen=True, slots=True)
class Rate:
    """Operations of a definition per second; `effective` if its kernel executes other ones."""

    flop_per_s: float
    effective: bool

    @property
    def unit(self) -> str:
        """The unit, with the word that marks an effective rate."""
        return EFFECTIVE if self.effective else EXECUTED

    def __str__(self) -> str:
        """Return the figure for people: `116.7 GFLOP/s`, `210.4 effective GFLOP/s`."""
        return f"{self.flop_per_s / 1e9:.1f} {self.unit}"


def rate_of(dag: Dag, race: Race) -> Rate | None:
    """Return the rate of the kernel that a race delivered, None if there is no figure to show.

    There is none without operations, and none if the operations that the kernel executes would
    need more than the machine's peak: their number, or the time, must then be wrong.
    """
    flop = flop_count(dag)
    beyond = race.peak_flop_per_s and race.flop > SLACK * race.peak_flop_per_s * race.best_s
    if not flop or beyond:
        return None
    return Rate(flop / race.best_s, race.flop != flop)
