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
    """Operations of a definition per second; `effective` if its kernel executes other ones.

    `share` is the part of the measured peak of the cores that the executed operations reach; None
    if the peak is not known, or is only a bound, as for 16 bits.
    """

    flop_per_s: float
    effective: bool
    share: float | None = None

    @property
    def unit(self) -> str:
        """The unit, with the word that marks an effective rate."""
        return EFFECTIVE if self.effective else EXECUTED

    def __str__(self) -> str:
        """Return the figure for people: `116.7 GFLOP/s`, `210.4 effective GFLOP/s`."""
        told = f"{self.flop_per_s / 1e9:.1f} {self.unit}"
        return (
            told
            if self.share is None
            else f"{told}, {100 * self.share:.0f} % of the arithmetic peak"
        )


def rate_of(dag: Dag, race: Race) -> Rate | None:
    """Return the rate of the kernel that a race delivered, None if there is no figure to show.

    There is none without operations, and none if the operations that the kernel executes would
    need more than the machine's peak: their number, or the time, must then be wrong.
    """
    flop = flop_count(dag)
    beyond = race.peak_flop_per_s and race.flop > SLACK * race.peak_flop_per_s * race.best_s
    if not flop or beyond:
        return None
    share = None
    if race.peak_flop_per_s and race.flop and is_float32(dag):
        share = min(1.0, race.flop / race.best_s / race.peak_flop_per_s)  # within SLACK
    return Rate(flop / race.best_s, race.flop != flop, share)


def is_float32(dag: Dag) -> bool:
    """Return True if every value is float32, so that the peak is measured and no bound."""
    dtypes = {dtype for node in dag.computes for dtype in node.dtypes}
    return dtypes | {node.dtype for node in dag.placeholders} == {"float32"}
