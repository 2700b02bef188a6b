"""The verdict on a result: its time beside the time of the library that users have instead.

One sentence for people, and one object for programs; every surface shows these two.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from statistics import median, quantiles
from typing import Any, Final, Literal

from ansorpy.libraries import with_version
from ansorpy.records import Race
from ansorpy.units import counted, duration

Level = Literal["green", "amber", "none"]

ALIKE: Final = 0.02  # share by which two times may differ and count as equal, even without spread
BUSY: Final = 1.5  # slowdown of the machine from which on a race says little
FLOAT64: Final = "float64 loops"  # the oracle of kernels
RECOMMENDED: Final = "onnxruntime"  # package that a verdict without a peer asks for


@dataclass(frozen=True, slots=True)
class Peer:
    """A library in a race: seconds per call, or the reason why it was left out (`note`).

    `alike`: its samples and ours overlap, so that neither is faster.
    """

    name: str
    seconds: float | None = None
    note: str = ""
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Judgment:
    """A result beside the libraries that its user would use instead.

    Args:
        what: the result, a kernel or a bundle.
        ours_s: seconds per call, of the same race as the seconds of the peers.
        peers: in the order of the race.
        threads: of each contestant.
        oracle: program that the outputs were checked against; "" if they were not checked.
        remedies: steps that may make the result faster, each as a phrase; told if it is slower.
        slowdown: of the machine during the race; 1.0 on a quiet one.
        missing: why there is no race; "" if there was one.
        sizes: number of sizes of dims that each time is a mean over; 0 without dims.
    """

    what: Literal["kernel", "bundle"]
    ours_s: float
    peers: tuple[Peer, ...]
    threads: int
    oracle: str
    remedies: tuple[str, ...] = ()
    slowdown: float = 1.0
    missing: str = ""
    sizes: int = 0

    @property
    def peer(self) -> Peer | None:
        """The fastest peer; None if none has a time."""
        timed = [one for one in self.peers if one.seconds is not None]
        return min(timed, key=lambda one: one.seconds or inf, default=None)

    @property
    def ratio(self) -> float | None:
        """The time of the fastest peer over ours: above 1 ours is faster."""
        peer = self.peer
        return None if peer is None or peer.seconds is None else peer.seconds / self.ours_s

    @property
    def level(self) -> Level:
        """Green if ours is faster, amber if a peer is or the machine was busy, else none."""
        peer, ratio = self.peer, self.ratio
        if peer is None or ratio is None:
            return "none"
        if self.slowdown > BUSY or (ratio < 1 and not peer.alike):
            return "amber"
        return "none" if peer.alike else "green"

    def __str__(self) -> str:
        """Return the sentence."""
        checked = f"verified against {self.oracle}" if self.oracle else "not verified"
        told = f"{self._compared()}{checked}"
        if self.level == "amber":
            told += self._advice()
        return told

    def _compared(self) -> str:
        peer, ratio = self.peer, self.ratio
        if peer is None or peer.seconds is None or ratio is None:
            return f"{duration(self.ours_s)} per call, not compared with a library: {self._why()}; "
        mean = f", mean over {counted(self.sizes, 'size')}" if self.sizes else ""
        times = (
            f" ({duration(self.ours_s)} against {duration(peer.seconds)},"
            f" {counted(self.threads, 'thread')}{mean}), "
        )
        if peer.alike:
            return f"as fast as {peer.name}{times}"
        if ratio > 1:
            return f"{ratio:.2f}x faster than {peer.name}{times}"
        return f"{peer.name} is {1 / ratio:.2f}x faster than this {self.what}{times}"

    def _why(self) -> str:
        if self.missing:
            return self.missing
        reasons = [f"{one.name} left out ({one.note})" for one in self.peers]
        if not with_version(RECOMMENDED):
            reasons.append(f"pip install {RECOMMENDED}")
        return ", ".join(reasons) or "no race was held"

    def _advice(self) -> str:
        """Return the end of an amber sentence: the machine was busy, or a library is faster."""
        busy = f"the machine was busy ({self.slowdown:.1f} times as slow as usual): run it again"
        peer, ratio = self.peer, self.ratio
        if peer is None or ratio is None or ratio > 1 or peer.alike:
            return f"; {busy}"
        steps = [busy] if self.slowdown > BUSY else []
        return f": {', or '.join((f'keep {peer.name}', *steps, *self.remedies))}"

    def as_object(self) -> dict[str, Any]:
        """Return the object of the verdict for JSON; times in seconds."""
        peer = self.peer
        return {
            "sentence": str(self),
            "level": self.level,
            "ratio": self.ratio,
            "ours_s": self.ours_s,
            "peer": None if peer is None else peer.name,
            "peer_s": None if peer is None else peer.seconds,
            "peers": [asdict(one) for one in self.peers],
            "threads": self.threads,
            "oracle": self.oracle,
            "slowdown": self.slowdown,
            "remedies": list(self.remedies),
        }


def peer_of(
    name: str, ours_s: Sequence[float], samples_s: Sequence[float], seconds: float, note: str = ""
) -> Peer:
    """Return a peer of a race.

    Args:
        ours_s: our samples in the same race, in seconds.
        samples_s: samples of the peer; () if it was left out.
        seconds: the figure of the peer.
        note: why it was left out.
    """
    if not samples_s:
        return Peer(name, None, note)
    return Peer(name, seconds, note, alike(ours_s, samples_s))


def alike(left: Sequence[float], right: Sequence[float]) -> bool:
    """Return True if the middle halves of two lists of times overlap, or the medians are equal.

    Equal means a difference of at most ALIKE.
    """
    if abs(median(left) / median(right) - 1) <= ALIKE:
        return True
    (low, high), (least, most) = _middle(left), _middle(right)
    return low <= most and least <= high


def _middle(samples: Sequence[float]) -> tuple[float, float]:
    """Return the quartiles around the median."""
    if len(samples) < 2:
        return samples[0], samples[0]
    low, _, high = quantiles(samples, n=4, method="inclusive")
    return low, high


def verdict_of_race(race: Race, threads: int) -> Judgment:
    """Return the verdict on a kernel from its final race; the figures are the fastest samples.

    Kernels of the user's own count as peers.
    """
    rivals = [(one.name, one.times_s, one.note) for one in race.peers]
    if race.numpy_s or race.numpy_note:
        rivals.append(("NumPy", race.numpy_s, race.numpy_note))
    rivals += [(f"your {one.name}", one.times_s, one.note) for one in race.own]
    peers = tuple(
        peer_of(name, race.delivered_s, times_s, min(times_s, default=0.0), note)
        for name, times_s, note in rivals
    )
    return Judgment("kernel", race.best_s, peers, threads, FLOAT64, slowdown=race.slowdown)
